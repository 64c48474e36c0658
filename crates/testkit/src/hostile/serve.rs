//! Takes connections and serves them, each in a task of its own that ends with the server. What is answered comes from
//! elsewhere.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::count::Counter;
use super::honest::{Deed, Honest};
use super::lie::{Lie, honestly};
use super::script::Script;
use super::wire::{After, Line, Reply, Request};
use crate::fault::Call;

/// What all connections of one server share.
pub(super) struct Shared {
    pub(super) honest: Honest,
    pub(super) script: Mutex<Script>,
    pub(super) counter: Counter,
    /// Requests that were lied about.
    pub(super) lies: AtomicU64,
    /// Bytes that went to clients.
    pub(super) sent: Arc<AtomicU64>,
    /// Connections that were ever opened.
    pub(super) accepted: AtomicU64,
    pub(super) connections: TaskTracker,
    /// Ends the connections of now, not those after.
    pub(super) cut: Mutex<CancellationToken>,
}

impl Shared {
    fn reply(&self, request: &Request) -> Reply {
        let call = Call::of(&request.method, &request.uri);
        self.counter.add(&call);
        let lie = self
            .script
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(&call);
        let truth = |deed| self.honest.answer_after(deed, &call, request);
        match lie {
            Some(lie) => {
                self.lies.fetch_add(1, Ordering::Relaxed);
                lie.tell(&call, truth)
            }
            None => honestly(truth(Deed::Done)),
        }
    }

    /// How a new connection is lied about, if it is.
    fn connection_lie(&self) -> Option<Lie> {
        let script = self.script.lock();
        let lie = script
            .unwrap_or_else(PoisonError::into_inner)
            .take_connection();
        self.lies
            .fetch_add(u64::from(lie.is_some()), Ordering::Relaxed);
        lie
    }

    fn cut(&self) -> CancellationToken {
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.clone()
    }
}

/// Takes connections for ever.
pub(super) async fn listen(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                let serving = serve(client, acceptor.clone(), Arc::clone(&shared));
                let stop = shared.cut();
                shared
                    .connections
                    .spawn(stop.run_until_cancelled_owned(serving));
            }
            // It concerns one connection, or all file descriptors are in use: others may be let go meanwhile.
            Err(error) => {
                tracing::debug!(%error, "the hostile server failed to take a connection");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn serve(client: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    if let Err(error) = converse(client, &acceptor, &shared).await {
        // Most clients go when they have had enough.
        tracing::debug!(%error, "a connection to the hostile server ended");
    }
}

async fn converse(
    mut client: TcpStream,
    acceptor: &TlsAcceptor,
    shared: &Shared,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let lie = shared.connection_lie();
    if matches!(lie, Some(Lie::MuteHandshake)) {
        // It is read so that its end is seen.
        return tokio::io::copy(&mut client, &mut tokio::io::sink())
            .await
            .map(drop);
    }
    let stream = acceptor.accept(client).await?;
    if lie.is_some() {
        // Who doesn't read sees no end either: it is open until it is cut.
        std::future::pending::<()>().await;
    }
    let mut line = Line::new(stream, Arc::clone(&shared.sent));
    while let Some(request) = line.request().await? {
        match line.send(shared.reply(&request)).await? {
            After::Next => {}
            After::Close => return line.close().await,
            After::Cut => return Ok(()),
            After::Reset => {
                // What is dropped then is reset.
                return line.into_inner().get_ref().0.set_zero_linger();
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;
    use tokio::time::timeout;

    use super::*;
    use crate::fault::{Calls, Verb};
    use crate::hostile::HostileServer;

    #[tokio::test]
    async fn a_connection_that_is_lied_about_has_no_request() {
        let server = HostileServer::start("mute").await.unwrap();
        let ask = async || {
            let client = server.client().unwrap();
            let request = Request::get("/readyz").body(Vec::new()).unwrap();
            client.request_text(request).await
        };
        for (told, lie) in [(0, Lie::MuteHandshake), (1, Lie::ReadsNothing)] {
            server.play(Script::new().next(1, Calls::any(), lie.clone()));
            let waited = timeout(Duration::from_millis(300), ask()).await;
            assert!(waited.is_err(), "{lie:?}");
            assert_eq!(server.lies(), told + 1);
            assert_eq!(server.count(Verb::Other, "/readyz"), told);
            // The next one is served.
            assert_eq!(ask().await.unwrap(), "ok");
        }
    }
}
