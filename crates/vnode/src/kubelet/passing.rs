//! A body that is passed on as it comes. Knows no pod.
//!
//! A task of its own reads it, so that it ends in time for a caller who doesn't read, too. Two parts are on their way
//! at most: one that waits for the caller, and one in its connection. What is ended before its time says why in a line
//! of its own, since an API server shows its users nothing else of it, and then breaks off.

use std::fmt::Display;
use std::io;
use std::pin::pin;

use axum::body::Body;
use futures::stream::{self, Stream, StreamExt};
use hyper::body::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::ending::Heard;
use super::tunnel::STALL;

/// Why a body ends before its time; nothing if it doesn't.
type Why = Option<String>;

/// Passes `parts` on until they end, `end` comes, or the caller goes or takes nothing for minutes. `held` is dropped
/// then, whether or not the caller ever reads the rest.
pub(crate) fn pass<S, E, T, H>(
    parts: S,
    end: impl Future<Output = T> + Send + 'static,
    heard: Heard,
    held: H,
    tasks: &TaskTracker,
) -> Body
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    E: Display + Send,
    T: Display + Send,
    H: Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    let (told, ended) = oneshot::channel();
    tasks.spawn(async move {
        let why = pump(parts, end, &heard, sender).await;
        drop(held);
        if let Some(why) = &why {
            tracing::info!(why, "logs were ended");
        }
        // A caller that has gone doesn't mind.
        let _ = told.send(why);
    });
    let begin = Rest::Passing {
        parts: receiver,
        ended,
        at_line_start: true,
    };
    Body::from_stream(stream::unfold(begin, Rest::next))
}

async fn pump<S, E, T>(
    mut parts: S,
    end: impl Future<Output = T>,
    heard: &Heard,
    sender: mpsc::Sender<Bytes>,
) -> Why
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Display,
    T: Display,
{
    let passing = async {
        while let Some(part) = parts.next().await {
            let part = match part {
                Ok(part) => part,
                Err(error) => {
                    // Its words may be anybody's.
                    tracing::debug!(%error, "a target broke logs off");
                    return Some("the target broke them off".to_owned());
                }
            };
            heard.something();
            match timeout(STALL, sender.send(part)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some(format!("nothing was read for {} s", STALL.as_secs())),
            }
        }
        None
    };
    tokio::select! {
        why = pin!(passing) => why,
        ending = pin!(end) => Some(ending.to_string()),
        () = sender.closed() => None,
    }
}

/// What the caller has yet to read.
enum Rest {
    Passing {
        parts: mpsc::Receiver<Bytes>,
        ended: oneshot::Receiver<Why>,
        at_line_start: bool,
    },
    Cut(String),
    Over,
}

impl Rest {
    async fn next(self) -> Option<(io::Result<Bytes>, Self)> {
        let (mut parts, ended, at_line_start) = match self {
            Self::Passing {
                parts,
                ended,
                at_line_start,
            } => (parts, ended, at_line_start),
            Self::Cut(why) => {
                // A server sends what it has before it waits, and not before it fails.
                tokio::task::yield_now().await;
                return Some((Err(io::Error::other(why)), Self::Over));
            }
            Self::Over => return None,
        };
        if let Some(part) = parts.recv().await {
            let at_line_start = part.last().map_or(at_line_start, |last| *last == b'\n');
            let rest = Self::Passing {
                parts,
                ended,
                at_line_start,
            };
            return Some((Ok(part), rest));
        }
        let mistake = || Some("a mistake in Pilotage, please report it".to_owned());
        let why = ended.await.unwrap_or_else(|_| mistake())?;
        let begin = if at_line_start { "" } else { "\n" };
        let line = format!("{begin}pilotage: these logs end here: {why}\n");
        Some((Ok(line.into()), Self::Cut(why)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;

    use http_body_util::BodyExt;

    use super::*;

    type Part = Result<Bytes, &'static str>;

    /// All that a caller reads, and whether it is complete.
    async fn read(mut body: Body) -> (String, bool) {
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => text.extend_from_slice(&frame.into_data().unwrap()),
                Err(_) => return (String::from_utf8(text).unwrap(), false),
            }
        }
        (String::from_utf8(text).unwrap(), true)
    }

    fn body(parts: Vec<Part>, tasks: &TaskTracker) -> Body {
        let never = pending::<Infallible>();
        pass(stream::iter(parts), never, Heard::default(), (), tasks)
    }

    #[tokio::test]
    async fn what_comes_to_its_end_is_passed_on_as_it_is() {
        let tasks = TaskTracker::new();
        let parts = vec![Ok("one\ntw".into()), Ok(Bytes::new()), Ok("o".into())];
        assert_eq!(read(body(parts, &tasks)).await, ("one\ntwo".into(), true));
        assert_eq!(read(body(vec![], &tasks)).await, (String::new(), true));
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn what_breaks_off_says_so_in_a_line_of_its_own() {
        let tasks = TaskTracker::new();
        for (part, begin) in [("one\n", "one\n"), ("on", "on\n")] {
            let parts = vec![Ok(part.into()), Err("reset: \u{1b}[2J")];
            let want = format!("{begin}pilotage: these logs end here: the target broke them off\n");
            assert_eq!(read(body(parts, &tasks)).await, (want, false));
        }
    }

    #[tokio::test]
    async fn an_end_from_outside_is_told() {
        let (end, ended) = oneshot::channel::<&str>();
        let ended = async { ended.await.unwrap() };
        let parts = stream::iter([Part::Ok("one\n".into())]).chain(stream::pending());
        let tasks = TaskTracker::new();
        let mut body = pass(parts, ended, Heard::default(), (), &tasks);
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "one\n");
        end.send("the pod is gone").unwrap();
        let want = "pilotage: these logs end here: the pod is gone\n".to_owned();
        assert_eq!(read(body).await, (want, false));
    }

    #[tokio::test]
    async fn it_ends_for_who_does_not_read_too() {
        let (end, ended) = oneshot::channel::<&str>();
        let ended = async { ended.await.unwrap() };
        let (held, freed) = oneshot::channel::<Infallible>();
        let heard = Heard::default();
        let endless = stream::repeat_with(|| Part::Ok("x\n".into()));
        let tasks = TaskTracker::new();
        let body = pass(endless, ended, heard.clone(), held, &tasks);
        end.send("the pod is gone").unwrap();
        assert!(freed.await.is_err(), "what it held is free");
        tasks.close();
        tasks.wait().await;
        assert!(heard.count() <= 2, "no more was taken from the target");
        let (text, complete) = read(body).await;
        assert!(text.ends_with("these logs end here: the pod is gone\n"));
        assert!(!complete);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_for_minutes_ends_it() {
        let tasks = TaskTracker::new();
        let endless = stream::repeat_with(|| Part::Ok("x\n".into()));
        let never = pending::<Infallible>();
        let body = pass(endless, never, Heard::default(), (), &tasks);
        tasks.close();
        tasks.wait().await;
        let (text, complete) = read(body).await;
        assert!(text.ends_with("nothing was read for 300 s\n"), "{text}");
        assert!(!complete);
    }

    #[tokio::test]
    async fn who_goes_ends_it() {
        let tasks = TaskTracker::new();
        let silent = stream::pending::<Part>();
        let never = pending::<Infallible>();
        drop(pass(silent, never, Heard::default(), (), &tasks));
        tasks.close();
        tasks.wait().await;
    }
}
