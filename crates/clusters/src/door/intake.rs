//! Bytes as they come from a target's server, whatever they are: TLS, heads, what frames a body, and the body.
//!
//! What parses them reads much that nobody is told of, such as a thousand times `100 Continue`, or zeros before the
//! length of a chunk. So all that comes counts here, for the meter of the target and of its namespace. What was asked
//! for before that was spent comes to its end all the same. Who sends far more is read in sips, in which a word of
//! health still passes. Must not know what the bytes say.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tower::{BoxError, Service};

use crate::budget::Budget;

/// What a piece costs at least, be it of a connection or of a body: whoever is woken for one byte does as much as for
/// some hundred.
pub(super) const PIECE: usize = 256;
/// Bytes of a sip.
const SIP: usize = 4 << 10;
/// Time between two of them: what `/readyz` says at most, after a handshake, is there within a second.
const BETWEEN: Duration = Duration::from_millis(50);

/// What bytes come from, each of which counts.
pub(super) struct Counted<S> {
    inner: S,
    budget: Arc<Budget>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Counted<S> {
    fn new(inner: S, budget: Arc<Budget>) -> Self {
        Self {
            inner,
            budget,
            pause: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(context));
            this.pause = None;
        }
        let inner = Pin::new(&mut this.inner);
        let count = if this.budget.is_far_over(Instant::now()) {
            let mut sip = [0; SIP];
            let most = SIP.min(buffer.remaining());
            let mut part = ReadBuf::new(&mut sip[..most]);
            ready!(inner.poll_read(context, &mut part))?;
            this.pause = Some(Box::pin(sleep(BETWEEN)));
            buffer.put_slice(part.filled());
            part.filled().len()
        } else {
            let before = buffer.filled().len();
            ready!(inner.poll_read(context, buffer))?;
            buffer.filled().len().saturating_sub(before)
        };
        if count > 0 {
            this.budget.spend(count.max(PIECE), 0, Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<S: Connection> Connection for Counted<S> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

/// A connector of which all connections count for one budget.
#[derive(Clone)]
pub(super) struct Counting<C> {
    pub(super) connector: C,
    pub(super) budget: Arc<Budget>,
}

impl<C, S> Service<Uri> for Counting<C>
where
    C: Service<Uri, Response = TokioIo<S>>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
    S: 'static,
{
    type Response = TokioIo<Counted<S>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.connector.call(uri);
        let budget = self.budget.clone();
        Box::pin(async move {
            let connected = connecting.await.map_err(Into::into)?;
            Ok(TokioIo::new(Counted::new(connected.into_inner(), budget)))
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const MIB: usize = 1 << 20;

    /// How long somebody waits who owes all that may come at once, and so many bytes more.
    fn owed(budget: &Budget, more: usize) -> u128 {
        let now = Instant::now();
        let pause = budget.pause(now).map_or(0, |pause| pause.as_millis());
        budget.spend(more, 0, now);
        pause
    }

    #[tokio::test(start_paused = true)]
    async fn each_byte_counts_and_each_read_as_some_hundred() {
        let budget = Arc::new(Budget::default());
        owed(&budget, 650 * MIB);
        let (mut server, client) = duplex(MIB);
        let mut client = Counted::new(client, budget.clone());
        server.write_all(&vec![0; MIB]).await.unwrap();
        client.read_exact(&mut vec![0; MIB]).await.unwrap();
        // A sixteenth of what is read in a second.
        let one = owed(&budget, 0);
        assert!((62..70).contains(&one), "{one}");
        for _ in 0..4096 {
            server.write_all(b"x").await.unwrap();
            client.read_exact(&mut [0]).await.unwrap();
        }
        let two = owed(&budget, 0);
        assert!((124..140).contains(&two), "{two}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_owes_far_too_much_is_read_in_sips() {
        let budget = Arc::new(Budget::default());
        owed(&budget, (650 + 64) * MIB - 1);
        let (mut server, client) = duplex(MIB);
        let mut client = Counted::new(client, budget.clone());
        server.write_all(&vec![0; MIB]).await.unwrap();
        let mut buffer = vec![0; 64 << 10];
        // What has begun comes to its end.
        assert_eq!(client.read(&mut buffer).await.unwrap(), 64 << 10);
        // Two seconds of more than that.
        owed(&budget, 32 * MIB);
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(client.read(&mut buffer).await.unwrap(), SIP);
        }
        assert!((BETWEEN * 19..BETWEEN * 21).contains(&began.elapsed()));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(client.read(&mut buffer).await.unwrap(), 64 << 10);
        // The end is told at once.
        drop(server);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), MIB - (128 << 10) - 20 * SIP);
    }
}
