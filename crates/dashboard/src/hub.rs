//! Who looks at the picture: each listener gets all of it, then what changes, a few times a second. It decides nothing.
//!
//! Nothing here waits for a listener. One that doesn't keep up is let go, and gets all of it again when it comes back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::change::{Change, ROWS};
use crate::picture::Picture;

/// Listeners at a time.
pub(crate) const MOST_LISTENERS: usize = 8;
/// Messages that wait for one listener.
const QUEUE: usize = 128;
/// Changes are told together this often.
const PERIOD: Duration = Duration::from_millis(250);
/// After so long without a change, listeners hear that there was none.
const SILENCE: Duration = Duration::from_secs(10);

/// What the part that knows, and the pages that show, have in common. Clones share it.
#[derive(Clone, Debug)]
pub struct Dashboard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    end: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    picture: Picture,
    listeners: Vec<mpsc::Sender<Bytes>>,
    /// Somebody tells them.
    telling: bool,
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or_default()
    })
}

fn message(change: &Change) -> Bytes {
    // Strings and numbers are always JSON.
    change.message().unwrap_or_default().into()
}

impl Dashboard {
    /// Nothing is known yet. Listeners are let go when `end` is cancelled.
    pub fn new(end: CancellationToken) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            end,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the picture; the time is given in seconds since 1970.
    pub fn paint(&self, paint: impl FnOnce(&mut Picture, i64)) {
        paint(&mut self.state().picture, now());
    }

    /// All of the picture and then its changes, as messages; nothing, if there are as many listeners as may be.
    pub(crate) fn listen(&self) -> Option<impl Stream<Item = Bytes> + Send + use<>> {
        let (tell, told) = mpsc::channel(QUEUE);
        let whole = {
            let mut state = self.state();
            // Who was let go has no place any more, whether its connection has ended or not.
            state.listeners.retain(|listener| !listener.is_closed());
            if state.listeners.len() >= MOST_LISTENERS {
                return None;
            }
            state.picture.watch(true);
            state.listeners.push(tell);
            if !std::mem::replace(&mut state.telling, true) {
                tokio::spawn(self.clone().tell());
            }
            state.picture.whole(now())
        };
        // What has a row for each pod is made message by message, when it can be sent.
        let first = stream::iter(whole.in_parts()).map(|part| message(&part));
        let then = stream::unfold(told, |mut told: mpsc::Receiver<Bytes>| async {
            let message = told.recv().await?;
            Some((message, told))
        });
        Some(
            first
                .chain(then)
                .take_until(self.0.end.clone().cancelled_owned()),
        )
    }

    /// Tells what changes until nobody listens.
    async fn tell(self) {
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told_at = Instant::now();
        loop {
            period.tick().await;
            let (news, listeners) = {
                let mut state = self.state();
                state.listeners.retain(|listener| !listener.is_closed());
                if state.listeners.is_empty() || self.0.end.is_cancelled() {
                    state.listeners.clear();
                    state.picture.watch(false);
                    state.telling = false;
                    return;
                }
                // Who comes from here on has all of it: these are who lacks it.
                (state.picture.news(now()), state.listeners.clone())
            };
            let news = news.or_else(|| {
                let silent = told_at.elapsed() >= SILENCE;
                silent.then(|| Change {
                    now: now(),
                    ..Change::default()
                })
            });
            let Some(news) = news else { continue };
            told_at = Instant::now();
            let mut slow = Vec::new();
            for part in news.in_parts() {
                let message = message(&part);
                for listener in &listeners {
                    if listener.try_send(message.clone()).is_err() {
                        slow.push(listener.clone());
                    }
                }
                if part.pods.len() == ROWS {
                    tokio::task::yield_now().await;
                }
            }
            if !slow.is_empty() {
                let is_slow =
                    |it: &mpsc::Sender<Bytes>| slow.iter().any(|slow| slow.same_channel(it));
                self.state().listeners.retain(|it| !is_slow(it));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;
    use serde_json::Value;

    use super::*;
    use crate::rows::{PodSeen, Stage};

    fn dashboard() -> (Dashboard, CancellationToken) {
        let end = CancellationToken::new();
        (Dashboard::new(end.clone()), end)
    }

    fn see(dashboard: &Dashboard, uid: &str, stage: Stage) {
        let seen = PodSeen {
            uid,
            namespace: "shop",
            name: uid,
            stage,
            at: "",
            why: "",
            since: None,
        };
        dashboard.paint(|picture, now| picture.see_pod(&seen, now));
    }

    fn parse(message: &Bytes) -> Value {
        serde_json::from_slice(message.strip_prefix(b"data: ").unwrap()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_gets_all_and_then_what_changes_together() {
        let (dashboard, _end) = dashboard();
        see(&dashboard, "a", Stage::Waiting);
        let mut listener = pin!(dashboard.listen().unwrap());
        let head = parse(&listener.next().await.unwrap());
        assert_eq!(
            (&head["reset"], head["head"]["leads"].as_bool()),
            (&true.into(), Some(false))
        );
        assert_eq!(head["pods"][0]["uid"], "a");
        // However often it changes, it is told once a period.
        for stage in [
            Stage::Asked,
            Stage::Reserved,
            Stage::Granted,
            Stage::Running,
        ] {
            see(&dashboard, "a", stage);
        }
        let began = Instant::now();
        let change = parse(&listener.next().await.unwrap());
        assert_eq!(change["head"]["counts"][5], 1);
        assert_eq!(change["pods"][0]["stage"], "running");
        assert!(began.elapsed() <= PERIOD);
        // Then there is silence, which is told, too.
        let silent = parse(&listener.next().await.unwrap());
        assert!(began.elapsed() >= SILENCE);
        assert!(silent["now"].is_i64() && silent.as_object().unwrap().len() == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_keep_up_is_let_go_and_others_stay() {
        let (dashboard, _end) = dashboard();
        let mut slow = pin!(dashboard.listen().unwrap());
        let mut quick = pin!(dashboard.listen().unwrap());
        let mut last = Value::Null;
        for n in 0..=QUEUE + 5 {
            let uid = format!("pod-{n}");
            let want = Value::from(uid.as_str());
            see(&dashboard, &uid, Stage::Waiting);
            while last["pods"][0]["uid"] != want {
                last = parse(&quick.next().await.unwrap());
            }
        }
        let got = slow.by_ref().count().await;
        assert!(got >= QUEUE, "what it was told before it was let go: {got}");
        see(&dashboard, "later", Stage::Waiting);
        assert!(quick.next().await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_listen_and_no_more_until_one_goes() {
        let (dashboard, end) = dashboard();
        let mut all: Vec<_> = (0..MOST_LISTENERS)
            .map(|_| Box::pin(dashboard.listen().unwrap()))
            .collect();
        assert!(dashboard.listen().is_none());
        all.pop();
        all.push(Box::pin(dashboard.listen().unwrap()));
        assert!(dashboard.listen().is_none());
        end.cancel();
        for mut listener in all {
            // The first message may have been on its way.
            while listener.next().await.is_some() {}
        }
        // Nobody looks any more, so nothing is kept.
        tokio::time::sleep(PERIOD * 2).await;
        let state = dashboard.state();
        assert!(!state.telling && state.listeners.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_let_go_has_no_place_even_if_its_connection_stays() {
        let (dashboard, _end) = dashboard();
        let stalled: Vec<_> = (0..MOST_LISTENERS)
            .map(|_| dashboard.listen().unwrap())
            .collect();
        assert!(dashboard.listen().is_none());
        for n in 0..=QUEUE {
            see(&dashboard, &format!("pod-{n}"), Stage::Waiting);
            tokio::time::sleep(PERIOD).await;
        }
        tokio::time::sleep(PERIOD).await;
        assert!(dashboard.listen().is_some());
        drop(stalled);
    }

    #[tokio::test(start_paused = true)]
    async fn telling_begins_anew_with_the_next_listener() {
        let (dashboard, _end) = dashboard();
        drop(dashboard.listen().unwrap());
        tokio::time::sleep(PERIOD * 2).await;
        assert!(!dashboard.state().telling);
        let mut again = pin!(dashboard.listen().unwrap());
        assert!(again.next().now_or_never().is_some());
        see(&dashboard, "a", Stage::Waiting);
        assert_eq!(parse(&again.next().await.unwrap())["head"]["counts"][1], 1);
    }
}
