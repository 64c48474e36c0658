//! Takes connections, and changes how they behave. It knows nothing of what goes over them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Wiring, serve};
use super::link::Mode;

/// A change of mode.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) mode: Mode,
    /// Told when it is so.
    pub(super) done: oneshot::Sender<io::Result<()>>,
}

/// The task behind a proxy.
pub(super) struct Listening {
    address: SocketAddr,
    /// `None` while cut: then the kernel refuses connections.
    listener: Option<TcpListener>,
    wiring: Arc<Wiring>,
    mode: watch::Sender<Mode>,
    connections: TaskTracker,
    /// Ends the connections of now, not those after.
    cut: CancellationToken,
}

impl Listening {
    pub(super) async fn bind(
        address: SocketAddr,
        wiring: Arc<Wiring>,
        mode: watch::Sender<Mode>,
        connections: TaskTracker,
    ) -> io::Result<Self> {
        Ok(Self {
            address,
            listener: Some(TcpListener::bind(address).await?),
            cut: wiring.stop.child_token(),
            wiring,
            mode,
            connections,
        })
    }

    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let stop = self.wiring.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                command = commands.recv() => {
                    let Some(Command { mode, done }) = command else {
                        return;
                    };
                    let changed = self.change(mode).await;
                    let _ = done.send(changed);
                }
                client = accept(self.listener.as_ref()) => self.take(client),
            }
        }
    }

    async fn change(&mut self, mode: Mode) -> io::Result<()> {
        if mode != Mode::Cut && self.listener.is_none() {
            self.listener = Some(TcpListener::bind(self.address).await?);
        }
        self.mode.send_replace(mode);
        if mode == Mode::Cut {
            self.listener = None;
            self.cut.cancel();
            self.connections.wait().await;
            self.cut = self.wiring.stop.child_token();
        }
        Ok(())
    }

    fn take(&self, client: TcpStream) {
        let stop = self.cut.child_token();
        self.connections
            .spawn(serve(client, Arc::clone(&self.wiring), stop));
    }
}

/// The next client; never while nobody listens.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            // It concerns one connection, or all file descriptors are in use: others may be let go meanwhile.
            Err(error) => {
                tracing::debug!(%error, "the fault proxy failed to take a connection");
                tokio::task::yield_now().await;
            }
        }
    }
}
