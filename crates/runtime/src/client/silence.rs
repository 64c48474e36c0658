//! The end of an answer that stands still: its head doesn't come, or nothing more of its body.
//!
//! Knows nothing of what was asked. The timer of a watch is set once in a while, not with each event. Those of hyper's
//! limits of reading wake the thread twice more for each piece that comes. `TimeoutBody` of tower-http makes one for
//! each piece, and fails what has come while nobody read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use kube::client::Body as Asking;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::{BoxError, Layer, Service};

use crate::moment::after;

/// Ends each answer of the service that is silent for so long.
#[derive(Debug, Clone, Copy)]
pub(super) struct SilenceLimit(pub(super) Duration);

impl<S> Layer<S> for SilenceLimit {
    type Service = Attentive<S>;

    fn layer(&self, service: S) -> Attentive<S> {
        let limit = self.0;
        Attentive { service, limit }
    }
}

/// A service whose answers end when they are silent for too long.
#[derive(Debug, Clone)]
pub(super) struct Attentive<S> {
    service: S,
    limit: Duration,
}

impl<S, B> Service<Request<Asking>> for Attentive<S>
where
    S: Service<Request<Asking>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<Heard<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Asking>) -> Self::Future {
        let limit = self.limit;
        let answer = self.service.call(request);
        Box::pin(async move {
            let Ok(answer) = timeout(limit, answer).await else {
                return Err(silent(limit).into());
            };
            Ok(answer
                .map_err(Into::into)?
                .map(|body| Heard::new(body, limit)))
        })
    }
}

fn silent(limit: Duration) -> io::Error {
    let text = format!("nothing came for {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// A body that fails once nothing has come for so long.
#[derive(Debug)]
pub(super) struct Heard<B> {
    body: B,
    limit: Duration,
    /// Since when it has been waited for. Who reads slowly isn't kept waiting.
    since: Option<Instant>,
    /// Made when the body is waited for, and set again only when it ends.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<B> Heard<B> {
    fn new(body: B, limit: Duration) -> Self {
        Self {
            body,
            limit,
            since: None,
            alarm: None,
        }
    }

    /// Whether it has been silent for too long; if not, the task is woken when it may have been.
    fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(sleep(self.limit)));
        while alarm.poll_unpin(context).is_ready() {
            if since.elapsed() >= self.limit {
                return true;
            }
            alarm.as_mut().reset(after(since, self.limit));
        }
        false
    }
}

impl<B> Body for Heard<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.since = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if this.is_silent(context) {
            return Poll::Ready(Some(Err(silent(this.limit).into())));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{Stream, StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use tower::{ServiceBuilder, ServiceExt, service_fn};

    use super::*;

    const LIMIT: Duration = Duration::from_mins(2);

    /// What comes after so many seconds each, and then nothing more.
    fn coming(pauses: &'static [u64]) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        let pieces = stream::iter(pauses).then(|pause| async {
            sleep(Duration::from_secs(*pause)).await;
            Ok(Frame::data(Bytes::from_static(b"x")))
        });
        pieces.chain(stream::pending())
    }

    async fn answer(
        head: u64,
        pauses: &'static [u64],
    ) -> Result<Response<impl Body<Data = Bytes, Error = BoxError> + Unpin>, BoxError> {
        let server = service_fn(move |_: Request<Asking>| async move {
            sleep(Duration::from_secs(head)).await;
            let body = StreamBody::new(Box::pin(coming(pauses)));
            Ok::<_, BoxError>(Response::new(body))
        });
        let client = ServiceBuilder::new()
            .layer(SilenceLimit(LIMIT))
            .service(server);
        client.oneshot(Request::new(Asking::empty())).await
    }

    fn is_silence(error: &BoxError) -> bool {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_comes_is_given_up() {
        assert!(answer(119, &[]).await.is_ok());
        let began = Instant::now();
        let error = answer(1000, &[]).await.err().unwrap();
        assert!(is_silence(&error), "{error}");
        assert_eq!(began.elapsed(), LIMIT);
        assert_eq!(error.to_string(), "nothing came for 120 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_ends_when_nothing_came_for_so_long() {
        let pauses = &[0, 1, 119, 119, 0, 100, 119];
        let mut body = answer(1, pauses).await.unwrap().into_body();
        for pause in pauses {
            let frame = body.frame().await.unwrap();
            assert!(frame.is_ok(), "after {pause} s");
        }
        let since = Instant::now();
        let error = body.frame().await.unwrap().err().unwrap();
        assert!(is_silence(&error), "{error}");
        let waited = since.elapsed();
        assert!(
            waited >= LIMIT && waited < LIMIT + Duration::from_millis(10),
            "{waited:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_not_taken_for_a_silent_server() {
        let mut body = answer(0, &[0, 5]).await.unwrap().into_body();
        assert!(body.frame().await.unwrap().is_ok());
        assert!(timeout(Duration::from_secs(1), body.frame()).await.is_err());
        let second = body.frame().await.unwrap();
        assert!(second.is_ok());
        // The alarm, set by the first wait, goes off while nobody reads.
        sleep(3 * LIMIT).await;
        let since = Instant::now();
        assert!(body.frame().await.unwrap().is_err());
        assert!(since.elapsed() >= LIMIT);
    }
}
