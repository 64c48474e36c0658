//! The one door through which everything comes that a target's API server says.
//!
//! A target may be anybody's server. Behind the door an answer has a length, a weight, a depth and a kind that are
//! bounded; it came in bounded time, from a place that Targets may lead to; and what failed has a Kubernetes Status or
//! no text at all. Only HTTP/1 is spoken, with heads of bounded size and number, and no redirection is followed. All
//! that comes costs a share of what the target may say. Must not know what the answers are for.

mod asked;
mod body;
mod connect;
mod failure;
mod fault;
mod intake;
mod prelude;
pub(crate) mod streams;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Request, Response};
use hyper::body::{Body, Bytes};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body as Asking, ConfigExt};
use kube::{Client, Config};
use pilotage_runtime::client::{self, ClientError};
use pilotage_runtime::weight::measure;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Service, ServiceBuilder};

pub(crate) use asked::OBJECT_WEIGHT;
pub(crate) use fault::{Fault, offence, offence_of_call};

use crate::allow::Allowed;
use crate::budget::{Budget, UnderWay};
use asked::{Asked, Form, Types};
use body::{Admitted, Events, collect};
use intake::Counting;
use prelude::Prelude;

/// Bytes of the head of an answer, and lines in it. An API server's has some hundred bytes.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_LINES: usize = 100;
/// How deep an answer may be nested; `serde_json` reads 128 levels, objects of Kubernetes have less than 30.
const DEEPEST: usize = 100;
/// Time for a body, from the head of the answer on.
const BODY_LIMIT: Duration = Duration::from_secs(20);

/// A client of a target, with this door in front of it. What is on its way counts for `budget`. It has no time limits
/// for what comes before the head of an answer: each call has its own ([`pilotage_runtime::call::within`]).
pub(crate) fn client(
    config: Config,
    component: &str,
    allowed: &Allowed,
    budget: &Arc<Budget>,
) -> Result<Client, ClientError> {
    let config = client::name(config, component)?;
    let build = |source| ClientError::Build {
        server: config.cluster_url.to_string(),
        source,
    };
    let tcp = Counting {
        connector: connect::tcp(allowed.clone(), budget.names().clone()),
        budget: budget.clone(),
    };
    let connector = config
        .rustls_https_connector_with_connector(tcp)
        .map_err(build)?;
    let http = legacy::Client::builder(TokioExecutor::new())
        .http1_max_buf_size(HEAD_BYTES)
        .http1_max_headers(HEAD_LINES)
        .build::<_, Asking>(connect::Hasty(connector));
    let stack = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(build)?)
        .layer(config.extra_headers_layer().map_err(build)?)
        .map_err(BoxError::from)
        .service(http);
    let door = Door {
        service: stack,
        budget: budget.clone(),
    };
    Ok(Client::new(door, config.default_namespace.clone()))
}

/// Looks at all that the service behind it answers.
struct Door<S> {
    service: S,
    budget: Arc<Budget>,
}

impl<S, B> Service<Request<Asking>> for Door<S>
where
    S: Service<Request<Asking>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Admitted<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Asking>) -> Self::Future {
        let asked = Asked::of(&request);
        let under_way = UnderWay::new(self.budget.clone());
        let prelude = Prelude::of(&mut request, &self.budget);
        // Nothing is sent before that is polled.
        let answer = self.service.call(request);
        Box::pin(async move {
            if asked.form != Form::Health {
                patience(under_way.budget()).await;
            }
            let answer = prelude.before(answer).await?.map_err(Into::into)?;
            admit(asked, answer, under_way).await
        })
    }
}

/// Waits until the target may say more. Who gives up waiting hasn't asked, and nothing is read for it.
async fn patience(budget: &Budget) {
    while let Some(pause) = budget.pause(Instant::now()) {
        sleep(pause).await;
    }
}

async fn admit<B>(
    asked: Asked,
    answer: Response<B>,
    under_way: UnderWay,
) -> Result<Response<Admitted<B>>, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = answer.into_parts();
    let what = asked.what();
    if asked.form != Form::Health {
        under_way.budget().spend(0, 1, Instant::now());
    }
    if head.status.is_client_error() || head.status.is_server_error() {
        let text = collect(body, what, failure::BYTES, under_way, false);
        let text = timeout(BODY_LIMIT, text).await;
        // Whatever became of the text: that it failed is said.
        let text = text.ok().and_then(Result::ok).unwrap_or_default();
        head.headers.remove(CONTENT_LENGTH);
        let status = failure::tidy(head.status, &text);
        return Ok(Response::from_parts(head, Admitted::Whole(Some(status))));
    }
    if head.status.is_redirection() {
        return Err(Fault::Redirect(head.status.as_u16()).into());
    }
    if !head.status.is_success() {
        return Err(Fault::Strange(head.status.as_u16()).into());
    }
    if asked.form != Form::Health && !is_json(&head.headers) {
        return Err(Fault::ContentType(what).into());
    }
    if asked.form == Form::Events {
        let events = Box::new(Events::new(asked, body, under_way));
        return Ok(Response::from_parts(head, Admitted::Events(events)));
    }
    // Some words about health have room at any time; whoever is asked for them has to answer.
    let kept = asked.form != Form::Health;
    let whole = collect(body, what, asked.bytes(), under_way, kept);
    let whole = if let Ok(whole) = timeout(BODY_LIMIT, whole).await {
        whole?
    } else {
        let limit = BODY_LIMIT;
        return Err(Fault::TooSlow { what, limit }.into());
    };
    if asked.form != Form::Health {
        measured(&whole, what, asked.weight())?;
        let types: Types = serde_json::from_slice(&whole).map_err(|_| Fault::NoJson(what))?;
        asked.check(&types)?;
    }
    Ok(Response::from_parts(head, Admitted::Whole(Some(whole))))
}

/// Whether a text may be parsed.
fn measured(text: &[u8], what: &'static str, heaviest: Option<usize>) -> Result<(), Fault> {
    let measure = measure(text);
    if measure.depth > DEEPEST {
        let limit = DEEPEST;
        return Err(Fault::TooDeep { what, limit });
    }
    match heaviest {
        Some(limit) if measure.weight > limit => Err(Fault::TooHeavy { what, limit }),
        _ => Ok(()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|it| it.split(';').next()).unwrap_or_default();
    let encoding = headers.get(CONTENT_ENCODING);
    kind.trim().eq_ignore_ascii_case("application/json")
        && encoding.is_none_or(|it| it.as_bytes().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
