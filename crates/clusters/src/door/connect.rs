//! Connections to targets: only to addresses that Targets may lead to, and only for so long.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use pilotage_runtime::client::CONNECT_LIMIT;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::fault::Fault;
use crate::allow::{Allowed, Refusal};
use crate::names::Names;

/// Connects by TCP. Addresses that stand in the URL itself have been judged with it.
pub(super) fn tcp(allowed: Allowed, names: Arc<Names>) -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver { allowed, names });
    connector.enforce_http(false);
    connector
}

/// Resolves names to the addresses that are allowed. Names are asked for again with each connection, and may lead
/// elsewhere each time.
#[derive(Clone)]
pub(super) struct Resolver {
    allowed: Allowed,
    names: Arc<Names>,
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let allowed = self.allowed.clone();
        let host = name.as_str().to_owned();
        let resolving = self.names.clone().resolve(name);
        Box::pin(async move { Ok(filter(&allowed, &host, resolving.await?)?.into_iter()) })
    }
}

fn filter(
    allowed: &Allowed,
    host: &str,
    mut addresses: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, Fault> {
    if allowed.names(host) || addresses.is_empty() {
        return Ok(addresses);
    }
    addresses.retain(|address| allowed.is_allowed(address.ip()));
    if addresses.is_empty() {
        let host = host.chars().take(253).collect();
        return Err(Refusal::Elsewhere { host }.into());
    }
    Ok(addresses)
}

/// A connector with a limit for connection and handshake together.
#[derive(Clone)]
pub(super) struct Hasty<C>(pub(super) C);

impl<C> Service<Uri> for Hasty<C>
where
    C: Service<Uri>,
    C::Response: 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            if let Ok(connected) = timeout(CONNECT_LIMIT, connecting).await {
                connected.map_err(Into::into)
            } else {
                let text = format!("no connection within {} s", CONNECT_LIMIT.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_allowed_addresses_only() {
        let allowed = |places: &[&str]| Allowed {
            insecure: false,
            places: places.iter().map(|it| it.parse().unwrap()).collect(),
        };
        for (places, host, addresses, want) in [
            (&[][..], "a", &["127.0.0.1:0"][..], Some(1)),
            (
                &["10.0.0.0/8"],
                "a",
                &["10.1.1.1:0", "127.0.0.1:0"],
                Some(1),
            ),
            (&["10.0.0.0/8"], "a", &["169.254.169.254:0"], None),
            (
                &["10.0.0.0/8"],
                "a",
                &["[::1]:0", "[::ffff:10.0.0.1]:0"],
                Some(1),
            ),
            // Nobody is told where an unknown name would have led; that it leads nowhere is another error.
            (&["10.0.0.0/8"], "a", &[], Some(0)),
            (&["*.b", "10.0.0.0/8"], "a.b", &["127.0.0.1:0"], Some(1)),
        ] {
            let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
            let left = filter(&allowed(places), host, addresses);
            assert_eq!(left.ok().map(|left| left.len()), want, "{places:?} {host}");
        }
    }
}
