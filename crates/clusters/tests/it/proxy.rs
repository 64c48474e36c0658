//! A TCP proxy that can be told to swallow everything: a black hole in front of a real API server.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Proxy {
    /// Forwards to `backend`.
    pub(crate) async fn start(backend: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, state) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = state.clone();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(backend).await else {
                        return;
                    };
                    let (client_read, client_write) = client.into_split();
                    let (server_read, server_write) = server.into_split();
                    tokio::join!(
                        pump(client_read, server_write, state.clone()),
                        pump(server_read, client_write, state)
                    );
                });
            }
        });
        Self { address, open }
    }

    /// From now on nothing passes, and no connection is closed.
    pub(crate) fn swallow(&self) {
        self.open.send_replace(false);
    }

    /// New connections pass again; those of the dark time stay dead, as after a real partition.
    pub(crate) fn heal(&self) {
        self.open.send_replace(true);
    }
}

async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            biased;
            closed = async { open.wait_for(|open| !open).await.is_ok() } => {
                if closed {
                    // Dead for good, but never closed.
                    std::future::pending::<()>().await;
                }
                return;
            }
            read = from.read(&mut buffer) => match read {
                Ok(count) if count > 0 => {
                    if to.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}
