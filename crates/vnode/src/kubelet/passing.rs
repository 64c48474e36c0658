//! A body that is passed on as it comes. Knows no pod.
//!
//! A task of its own reads it, so that it ends in time for a caller who doesn't read, too. Two parts are on their way
//! at most: one that waits for the caller, and one in its connection. What is ended before its time says why in a line
//! of its own, since an API server shows its users nothing else of it, and then breaks off. Its connection is the
//! caller's to read or to leave: until then it keeps its place among the streams.

use std::fmt::Display;
use std::io;
use std::pin::pin;

use axum::body::Body;
use futures::stream::{self, Stream, StreamExt};
use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::ending::Heard;
use super::tunnel::STALL;

/// Why a body ends before its time; nothing if it doesn't.
type Why = Option<String>;

/// How the line looks that says why logs end before their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLine {
    Plain,
    /// Each line begins with its time.
    Timed,
    /// There is none, since bytes are counted.
    Absent,
}

/// What a body holds.
pub(crate) struct Holds<H, P> {
    /// Until nothing is passed on any more, whether or not the caller ever reads the rest.
    pub(crate) passing: H,
    /// Until the caller has read the rest, or is gone: so long the connection has something for him.
    pub(crate) body: P,
}

/// Passes `parts` on until they end, `end` comes, or the caller goes or takes nothing for minutes.
pub(crate) fn pass<S, E, T, H, P>(
    parts: S,
    end: impl Future<Output = T> + Send + 'static,
    heard: Heard,
    holds: Holds<H, P>,
    last: LastLine,
    tasks: &TaskTracker,
) -> Body
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    E: Display + Send,
    T: Display + Send,
    H: Send + 'static,
    P: Send + 'static,
{
    let Holds { passing, body } = holds;
    let (sender, receiver) = mpsc::channel(1);
    let (told, ended) = oneshot::channel();
    tasks.spawn(async move {
        let why = pump(parts, end, &heard, sender).await;
        drop(passing);
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
        last,
    };
    Body::from_stream(stream::unfold((begin, body), async |(rest, body)| {
        let (part, rest) = rest.next().await?;
        Some((part, (rest, body)))
    }))
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
                Ok(Ok(())) => heard.taken(),
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
        last: LastLine,
    },
    Cut(String),
    Over,
}

impl Rest {
    async fn next(self) -> Option<(io::Result<Bytes>, Self)> {
        let (mut parts, ended, at_line_start, last) = match self {
            Self::Passing {
                parts,
                ended,
                at_line_start,
                last,
            } => (parts, ended, at_line_start, last),
            Self::Cut(why) => return Some(cut(why).await),
            Self::Over => return None,
        };
        if let Some(part) = parts.recv().await {
            let at_line_start = part.last().map_or(at_line_start, |last| *last == b'\n');
            let rest = Self::Passing {
                parts,
                ended,
                at_line_start,
                last,
            };
            return Some((Ok(part), rest));
        }
        let mistake = || Some("a mistake in Pilotage, please report it".to_owned());
        let why = ended.await.unwrap_or_else(|_| mistake())?;
        let time = match last {
            LastLine::Plain => String::new(),
            LastLine::Timed => format!("{:.9} ", Timestamp::now()),
            LastLine::Absent => return Some(cut(why).await),
        };
        let begin = if at_line_start { "" } else { "\n" };
        let line = format!("{begin}{time}pilotage: these logs end here: {why}\n");
        Some((Ok(line.into()), Self::Cut(why)))
    }
}

async fn cut(why: String) -> (io::Result<Bytes>, Rest) {
    // A server sends what it has before it waits, and not before it fails.
    tokio::task::yield_now().await;
    (Err(io::Error::other(why)), Rest::Over)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;

    use http_body_util::BodyExt;
    use tokio::sync::oneshot::error::TryRecvError;

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

    const NOTHING: Holds<(), ()> = Holds {
        passing: (),
        body: (),
    };

    fn body(parts: Vec<Part>, tasks: &TaskTracker) -> Body {
        body_with(parts, LastLine::Plain, tasks)
    }

    fn body_with(parts: Vec<Part>, last: LastLine, tasks: &TaskTracker) -> Body {
        let (parts, never) = (stream::iter(parts), pending::<Infallible>());
        pass(parts, never, Heard::default(), NOTHING, last, tasks)
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
    async fn the_last_line_is_what_readers_of_the_log_can_read() {
        let tasks = TaskTracker::new();
        let parts = || vec![Ok("2026-01-01T00:00:00.000000000Z on".into()), Err("reset")];
        let (text, complete) = read(body_with(parts(), LastLine::Timed, &tasks)).await;
        let (time, line) = text.lines().last().unwrap().split_once(' ').unwrap();
        assert!(
            time.parse::<Timestamp>().is_ok() && time.len() == 30,
            "{text}"
        );
        assert!(
            line.starts_with("pilotage: these logs end here: "),
            "{text}"
        );
        assert!(!complete);
        // Whoever counts bytes gets none of ours.
        let (text, complete) = read(body_with(parts(), LastLine::Absent, &tasks)).await;
        assert_eq!(text, "2026-01-01T00:00:00.000000000Z on");
        assert!(!complete);
    }

    #[tokio::test]
    async fn an_end_from_outside_is_told() {
        let (end, ended) = oneshot::channel::<&str>();
        let ended = async { ended.await.unwrap() };
        let parts = stream::iter([Part::Ok("one\n".into())]).chain(stream::pending());
        let tasks = TaskTracker::new();
        let mut body = pass(
            parts,
            ended,
            Heard::default(),
            NOTHING,
            LastLine::Plain,
            &tasks,
        );
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
        let (passing, freed) = oneshot::channel::<Infallible>();
        let (place, mut left) = oneshot::channel::<Infallible>();
        let holds = Holds {
            passing,
            body: place,
        };
        let heard = Heard::default();
        let endless = stream::repeat_with(|| Part::Ok("x\n".into()));
        let tasks = TaskTracker::new();
        let last = LastLine::Plain;
        let body = pass(endless, ended, heard.clone(), holds, last, &tasks);
        end.send("the pod is gone").unwrap();
        assert!(freed.await.is_err(), "what it held is free");
        tasks.close();
        tasks.wait().await;
        assert!(heard.count() <= 2, "no more was taken from the target");
        assert_eq!(
            left.try_recv(),
            Err(TryRecvError::Empty),
            "its connection has a place"
        );
        let (text, complete) = read(body).await;
        assert!(text.ends_with("these logs end here: the pod is gone\n"));
        assert!(!complete);
        assert!(left.await.is_err(), "and leaves it with the caller");
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_for_minutes_ends_it() {
        let tasks = TaskTracker::new();
        let endless = stream::repeat_with(|| Part::Ok("x\n".into()));
        let never = pending::<Infallible>();
        let body = pass(
            endless,
            never,
            Heard::default(),
            NOTHING,
            LastLine::Plain,
            &tasks,
        );
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
        let (heard, last) = (Heard::default(), LastLine::Plain);
        drop(pass(silent, never, heard, NOTHING, last, &tasks));
        tasks.close();
        tasks.wait().await;
    }
}
