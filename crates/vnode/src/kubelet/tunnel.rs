//! Two connections that have been upgraded, joined until one of them ends. Knows no pod and no protocol.
//!
//! What is read from one is written to the other before more is read, so that a tunnel takes the same little memory
//! whatever passes. Who takes nothing for minutes ends it, since nobody would notice the other side's end meanwhile.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::timeout;

use super::ending::Heard;

/// Bytes that are on their way in one direction.
const BUFFER: usize = 16 << 10;
/// How long a write may take that nobody makes room for.
pub(crate) const STALL: Duration = Duration::from_mins(5);
/// How long the last words may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Joins both until one ends, or `end` comes: whose output is what then stands for it. What `other` says is `heard`.
pub(crate) async fn join<A, B, T>(
    one: A,
    other: B,
    heard: &Heard,
    end: impl Future<Output = T>,
) -> Result<io::Result<()>, T>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (mut one_reads, mut one_writes) = split(one);
    let (mut other_reads, mut other_writes) = split(other);
    let ended = {
        let there = pin!(pump(&mut one_reads, &mut other_writes, None));
        let back = pin!(pump(&mut other_reads, &mut one_writes, Some(heard)));
        tokio::select! {
            ended = there => Ok(ended),
            ended = back => Ok(ended),
            ended = end => Err(ended),
        }
    };
    let goodbye = async {
        // Whoever is gone already doesn't mind.
        let _ = tokio::join!(one_writes.shutdown(), other_writes.shutdown());
    };
    let _ = timeout(GOODBYE, goodbye).await;
    ended
}

/// Whether this side has ended a tunnel because one of the others took nothing.
pub(crate) fn is_stalled(error: &io::Error) -> bool {
    // Those of the operating system have a number.
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

async fn pump<R, W>(from: &mut R, to: &mut W, heard: Option<&Heard>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        if let Some(heard) = heard {
            heard.something();
        }
        let passing = async {
            to.write_all(read).await?;
            to.flush().await
        };
        let Ok(passed) = timeout(STALL, passing).await else {
            let text = format!("nothing was taken for {} s", STALL.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        };
        passed?;
        if let Some(heard) = heard {
            heard.taken();
        }
        // A side that always has more must not keep the thread from others.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::oneshot;

    use super::*;

    async fn joined<T>(
        one: DuplexStream,
        other: DuplexStream,
        end: impl Future<Output = T>,
    ) -> Result<io::Result<()>, T> {
        let heard = Heard::default();
        let ended = join(one, other, &heard, end).await;
        if matches!(ended, Ok(Ok(()))) {
            assert!(heard.count() > 0, "the other one has said something");
        }
        ended
    }

    #[tokio::test]
    async fn what_one_says_the_other_hears_until_one_ends() {
        let (mut user, caller) = duplex(64);
        let (mut shell, target) = duplex(64);
        let joined = tokio::spawn(joined(caller, target, std::future::pending::<()>()));
        user.write_all(b"ls\n").await.unwrap();
        let mut heard = [0; 3];
        shell.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ls\n");
        let long = vec![b'x'; BUFFER * 3];
        let (said, heard) = tokio::join!(
            async {
                shell.write_all(&long).await.unwrap();
                drop(shell);
            },
            async {
                let mut heard = Vec::new();
                user.read_to_end(&mut heard).await.unwrap();
                heard
            }
        );
        assert_eq!(((), heard.len()), (said, long.len()));
        assert!(joined.await.unwrap().unwrap().is_ok());
    }

    #[tokio::test]
    async fn an_end_from_outside_closes_both() {
        let (mut user, caller) = duplex(64);
        let (mut shell, target) = duplex(64);
        let (end, ended) = oneshot::channel();
        let joined = tokio::spawn(joined(caller, target, ended));
        end.send("removed").unwrap();
        assert_eq!(joined.await.unwrap().unwrap_err(), Ok("removed"));
        for side in [&mut user, &mut shell] {
            assert_eq!(side.read(&mut [0]).await.unwrap(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_ends_it() {
        let (mut user, caller) = duplex(64);
        let (_shell, target) = duplex(64);
        let joined = tokio::spawn(joined(caller, target, std::future::pending::<()>()));
        user.write_all(&[0; 128]).await.unwrap();
        let ended = joined.await.unwrap().unwrap();
        assert!(is_stalled(&ended.unwrap_err()));
        assert!(!is_stalled(&io::Error::from_raw_os_error(110)));
    }
}
