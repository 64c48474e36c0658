//! The line of one connection: bytes are carried as they are, late, slowly, or not at all. It knows nothing of TLS and
//! HTTP.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// How the line to the API server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// As it is.
    #[default]
    Pass,
    /// Open connections are closed, new ones refused.
    Cut,
    /// Every byte comes later by this much.
    Delay {
        /// From the client to the API server.
        up: Duration,
        /// From the API server to the client.
        down: Duration,
    },
    /// Connections stay open and can be opened; whatever is sent on them, in either direction, is swallowed, and even
    /// the end of a connection doesn't get through. A connection that lost bytes this way is closed when the mode
    /// changes: its stream has a hole.
    BlackHole,
    /// So many bytes in each direction of each connection.
    Throttle {
        /// Above 0.
        bytes_per_second: u32,
    },
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;
/// Chunks under way in one direction while they are late.
const DEPTH: usize = 256;
/// Throttled bytes come in so many portions a second.
const PORTIONS: u32 = 20;

/// One connection's line.
#[derive(Debug)]
pub(super) struct Link {
    mode: watch::Receiver<Mode>,
    holed: AtomicBool,
}

impl Link {
    pub(super) fn new(mode: watch::Receiver<Mode>) -> Self {
        Self {
            mode,
            holed: AtomicBool::new(false),
        }
    }

    /// Carries bytes between the client and what serves it. Ends when the serving side has closed and all of its bytes
    /// are delivered, when either side breaks, or when a hole in the stream shows.
    pub(super) async fn carry(
        &self,
        client: impl AsyncRead + AsyncWrite,
        server: impl AsyncRead + AsyncWrite,
    ) {
        let (client_reads, client_writes) = tokio::io::split(client);
        let (server_reads, server_writes) = tokio::io::split(server);
        let both = async {
            let up = self.one_way(Way::Up, client_reads, server_writes);
            let down = self.one_way(Way::Down, server_reads, client_writes);
            tokio::pin!(up, down);
            tokio::select! {
                _ = &mut down => return,
                // A client that is done sending may still wait for its answer.
                ended = &mut up => if ended.is_err() { return },
            }
            let _ = down.await;
        };
        tokio::select! {
            () = both => {}
            () = self.healed() => {}
        }
    }

    /// Completes when the black hole has ended and this connection lost something in it.
    async fn healed(&self) {
        let mut mode = self.mode.clone();
        let is_broken = |mode: &Mode| *mode != Mode::BlackHole && self.is_holed();
        // An error means that there will be no other mode.
        let _ = mode.wait_for(is_broken).await;
    }

    fn is_holed(&self) -> bool {
        self.holed.load(Ordering::Acquire)
    }

    async fn one_way(
        &self,
        way: Way,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (sender, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(DEPTH);
        let read = async move {
            loop {
                let mut chunk = Vec::with_capacity(CHUNK);
                if from.read_buf(&mut chunk).await? == 0 {
                    return Ok(());
                }
                let Ok(()) = sender.send((Instant::now(), chunk)).await else {
                    return Ok(());
                };
            }
        };
        let write = async {
            while let Some((read_at, chunk)) = chunks.recv().await {
                self.deliver(way, read_at, &chunk, &mut to).await?;
            }
            if *self.mode.borrow() == Mode::BlackHole {
                // Nobody hears of the end, and the connection ends with the black hole.
                self.holed.store(true, Ordering::Release);
                std::future::pending::<()>().await;
            }
            to.shutdown().await
        };
        tokio::try_join!(read, write).map(|((), ())| ())
    }

    /// Writes a chunk when its time has come, by the mode at that time.
    async fn deliver(
        &self,
        way: Way,
        read_at: Instant,
        chunk: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut mode = self.mode.clone();
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.is_holed() {
                return Ok(());
            }
            let now = *mode.borrow_and_update();
            match now {
                Mode::BlackHole => {
                    self.holed.store(true, Ordering::Release);
                    return Ok(());
                }
                Mode::Pass | Mode::Cut => {
                    to.write_all(rest).await?;
                    rest = &[];
                }
                Mode::Delay { up, down } => {
                    let delay = if way == Way::Up { up } else { down };
                    tokio::select! {
                        () = sleep_until(read_at + delay) => {
                            to.write_all(rest).await?;
                            rest = &[];
                        }
                        changed = mode.changed() => changed.map_err(io::Error::other)?,
                    }
                }
                Mode::Throttle { bytes_per_second } => {
                    let rate = bytes_per_second.max(1);
                    let portion = rest.len().min((rate / PORTIONS).max(1) as usize);
                    to.write_all(&rest[..portion]).await?;
                    to.flush().await?;
                    rest = &rest[portion..];
                    let pause = Duration::from_secs_f64(portion as f64 / f64::from(rate));
                    tokio::select! {
                        () = sleep(pause) => {}
                        changed = mode.changed() => changed.map_err(io::Error::other)?,
                    }
                }
            }
        }
        to.flush().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;

    struct Line {
        client: DuplexStream,
        server: DuplexStream,
        mode: watch::Sender<Mode>,
        carrying: JoinHandle<()>,
    }

    fn line(mode: Mode) -> Line {
        let (client, near) = duplex(1 << 20);
        let (far, server) = duplex(1 << 20);
        let mode = watch::Sender::new(mode);
        let link = Arc::new(Link::new(mode.subscribe()));
        let carrying = tokio::spawn(async move { link.carry(near, far).await });
        Line {
            client,
            server,
            mode,
            carrying,
        }
    }

    async fn read(stream: &mut DuplexStream, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        stream.read_exact(&mut buffer).await.unwrap();
        buffer
    }

    #[tokio::test(start_paused = true)]
    async fn each_direction_has_its_own_delay_and_bytes_under_way_overlap() {
        let mut line = line(Mode::Delay {
            up: Duration::from_secs(2),
            down: Duration::from_secs(3),
        });
        let begin = Instant::now();
        line.client.write_all(b"one").await.unwrap();
        sleep(Duration::from_secs(1)).await;
        line.client.write_all(b"two").await.unwrap();
        assert_eq!(read(&mut line.server, 3).await, b"one");
        assert_eq!(begin.elapsed().as_secs(), 2);
        assert_eq!(read(&mut line.server, 3).await, b"two");
        assert_eq!(begin.elapsed().as_secs(), 3);
        line.server.write_all(b"back").await.unwrap();
        assert_eq!(read(&mut line.client, 4).await, b"back");
        assert_eq!(begin.elapsed().as_secs(), 6);
        // What waits goes on at once when the line is mended.
        line.server.write_all(b"now").await.unwrap();
        tokio::task::yield_now().await;
        line.mode.send_replace(Mode::Pass);
        assert_eq!(read(&mut line.client, 3).await, b"now");
        assert_eq!(begin.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_line_takes_its_time() {
        let mut line = line(Mode::Throttle {
            bytes_per_second: 1_000,
        });
        let begin = Instant::now();
        line.client.write_all(&[7; 5_000]).await.unwrap();
        assert_eq!(read(&mut line.server, 5_000).await, [7; 5_000]);
        let took = begin.elapsed().as_secs_f32();
        assert!((4.9..5.1).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_black_hole_swallows_and_what_lost_bytes_in_it_ends_with_it() {
        let mut line = line(Mode::Pass);
        line.client.write_all(b"a").await.unwrap();
        assert_eq!(read(&mut line.server, 1).await, b"a");
        line.mode.send_replace(Mode::BlackHole);
        line.client.write_all(b"b").await.unwrap();
        line.server.write_all(b"c").await.unwrap();
        sleep(Duration::from_hours(1)).await;
        assert!(line.server.read_u8().now_or_never().is_none());
        assert!(line.client.read_u8().now_or_never().is_none());
        line.mode.send_replace(Mode::Pass);
        line.carrying.await.unwrap();
        assert!(line.server.read_u8().await.is_err());
        assert!(line.client.read_u8().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_was_silent_in_the_black_hole_goes_on() {
        let mut line = line(Mode::BlackHole);
        sleep(Duration::from_secs(1)).await;
        line.mode.send_replace(Mode::Pass);
        line.client.write_all(b"a").await.unwrap();
        assert_eq!(read(&mut line.server, 1).await, b"a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_gets_through_behind_the_last_byte() {
        let mut line = line(Mode::Delay {
            up: Duration::ZERO,
            down: Duration::from_secs(1),
        });
        line.server.write_all(b"last").await.unwrap();
        drop(line.server);
        assert_eq!(read(&mut line.client, 4).await, b"last");
        line.carrying.await.unwrap();
    }
}
