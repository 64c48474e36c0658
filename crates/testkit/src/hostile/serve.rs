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
use super::lie::honestly;
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

async fn converse(client: TcpStream, acceptor: &TlsAcceptor, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut line = Line::new(acceptor.accept(client).await?, Arc::clone(&shared.sent));
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
