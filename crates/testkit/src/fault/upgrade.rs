//! Upgraded connections (exec, attach, port-forward): once both sides have switched, bytes go through as they are.

use http::{Request, StatusCode};
use hyper::Response;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::connection::{Body, BoxError, Scope, Upstream, streamed};

/// Asks for an upgrade, and joins both connections if there is one.
pub(super) async fn forward(
    mut request: Request<Incoming>,
    upstream: &Upstream,
    scope: &Scope,
) -> Result<Response<Body>, BoxError> {
    let client = hyper::upgrade::on(&mut request);
    let mut response = upstream.send(request.map(streamed)).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let server = hyper::upgrade::on(&mut response);
        hyper::rt::Executor::execute(scope, async move {
            let Ok((client, server)) = tokio::try_join!(client, server) else {
                return;
            };
            // Whoever ends it has had enough.
            let _ = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
        });
    }
    Ok(response.map(streamed))
}
