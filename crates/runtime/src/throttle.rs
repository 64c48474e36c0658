//! How many requests a second are sent: a token bucket as client-go has it, and clients that wait for their turn there.
//!
//! Who waits is served in order, and whoever gives up waiting has taken nothing from those behind him. A request that
//! would wait too long is refused at once: else, as long as there are too many, each would be sent when its caller has
//! hardly any time left for the answer. It must not know what is asked.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use tokio::sync::Mutex as Queue;
use tokio::time::{Instant, sleep};

/// No request of a [client](Throttle::client) waits longer; callers have more time than that for a call.
pub const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// A wait that is worth telling of.
const LONG: Duration = Duration::from_secs(1);
/// It is told no more often than that.
const TOLD: Duration = Duration::from_mins(1);

/// How many requests may begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Each second on average; there is no limit below zero, as in client-go.
    pub qps: f64,
    /// At once.
    pub burst: u32,
}

/// The bucket, as plain arithmetic. Moments are times since the same beginning.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Between two requests on average; zero is no limit.
    interval: Duration,
    /// How far ahead of the average one may be.
    ahead: Duration,
    /// When the bucket is full again.
    full_at: Duration,
}

impl Bucket {
    fn new(Rate { qps, burst }: Rate) -> Self {
        let interval = if qps > 0.0 {
            Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::MAX)
        } else {
            Duration::ZERO
        };
        Self {
            interval,
            ahead: interval.saturating_mul(burst.saturating_sub(1)),
            full_at: Duration::ZERO,
        }
    }

    /// How long to wait for a token when so many others come first.
    fn wait(&self, now: Duration, first: u32) -> Duration {
        let theirs = self.interval.saturating_mul(first);
        let full_at = self.full_at.max(now).saturating_add(theirs);
        full_at.saturating_sub(now.saturating_add(self.ahead))
    }

    /// Takes one.
    fn take(&mut self, now: Duration) {
        self.full_at = self.full_at.max(now).saturating_add(self.interval);
    }
}

/// A bucket that all share who have a clone of it.
#[derive(Clone, Debug)]
pub struct Throttle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The flag that sets it.
    flag: &'static str,
    began: Instant,
    /// It is fair: whoever holds it is the first of those who wait.
    queue: Queue<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// Who waits, the first one included.
    waiting: u32,
    told_of_waits: Option<Instant>,
    told_of_refusals: Option<Instant>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits, as long as he does.
struct Place<'a>(&'a Shared);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting = state.waiting.saturating_sub(1);
    }
}

/// Whether something is to be told now, and notes that it is.
fn is_news(told: &mut Option<Instant>) -> bool {
    let is_news = told.is_none_or(|told| told.elapsed() >= TOLD);
    if is_news {
        *told = Some(Instant::now());
    }
    is_news
}

impl Throttle {
    /// A full one; `flag` is what its author may change.
    pub fn new(rate: Rate, flag: &'static str) -> Self {
        let state = State {
            bucket: Bucket::new(rate),
            waiting: 0,
            told_of_waits: None,
            told_of_refusals: None,
        };
        Self(Arc::new(Shared {
            flag,
            began: Instant::now(),
            queue: Queue::new(()),
            state: Mutex::new(state),
        }))
    }

    /// Waits until a request may be sent, however long that takes. Begin the time of a call after it.
    pub async fn turn(&self) {
        if let Ok(place) = self.place(Duration::MAX) {
            self.wait(place).await;
        }
    }

    /// A place among those who wait, or how long it would take if that is too long.
    fn place(&self, longest: Duration) -> Result<Place<'_>, Duration> {
        let shared = &*self.0;
        let mut state = shared.state();
        let wait = state.bucket.wait(shared.began.elapsed(), state.waiting);
        if wait > longest {
            return Err(wait);
        }
        state.waiting = state.waiting.saturating_add(1);
        Ok(Place(shared))
    }

    async fn wait(&self, place: Place<'_>) {
        let shared = &*self.0;
        let asked = Instant::now();
        let _first = shared.queue.lock().await;
        let wait = shared.state().bucket.wait(shared.began.elapsed(), 0);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        let mut state = shared.state();
        state.bucket.take(shared.began.elapsed());
        let waited = asked.elapsed();
        let is_news = waited >= LONG && is_news(&mut state.told_of_waits);
        drop(state);
        drop(place);
        if is_news {
            let (flag, seconds) = (shared.flag, waited.as_secs_f64());
            tracing::warn!(
                seconds,
                flag,
                "requests to an API server wait, since {flag} allows no more of them"
            );
        }
    }

    /// What an API server answers that has too many requests, in its stead.
    fn refuse(&self, wait: Duration) -> kube::Error {
        let flag = self.0.flag;
        let is_news = is_news(&mut self.0.state().told_of_refusals);
        if is_news {
            tracing::warn!(
                flag,
                "requests to an API server fail unsent, since {flag} allows no more of them"
            );
        }
        let (seconds, longest) = (wait.as_secs_f64(), LONGEST_WAIT.as_secs());
        let text = format!(
            "the request wasn't sent: by {flag} it would wait for {seconds:.0} s, and none waits for over {longest} s"
        );
        let status = Status::failure(&text, "TooManyRequests").with_code(429);
        kube::Error::Api(status.boxed())
    }

    /// A client that sends each request in its turn, through this one. What would wait for more than [`LONGEST_WAIT`]
    /// isn't sent; its error is that of an API server with too many requests
    /// ([`Failure::Throttled`](crate::call::Failure::Throttled)).
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let throttle = self.clone();
        let send = move |request: Request<Body>| {
            let (client, throttle) = (client.clone(), throttle.clone());
            async move {
                match throttle.place(LONGEST_WAIT) {
                    Ok(place) => throttle.wait(place).await,
                    Err(wait) => return Err(throttle.refuse(wait)),
                }
                client.send(request).await
            }
        };
        Client::new(tower::service_fn(send), namespace)
    }
}

/// A client that waits for nobody's turn: for what a node, a leader or a target would be lost without.
#[derive(Clone)]
pub struct Unthrottled(pub Client);

impl fmt::Debug for Unthrottled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unthrottled")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::join_all;
    use http::Response;
    use tokio::time::timeout;

    use super::*;
    use crate::call::{Failure, within};

    const MS: Duration = Duration::from_millis(1);

    fn rate(qps: f64, burst: u32) -> Rate {
        Rate { qps, burst }
    }

    #[test]
    fn a_burst_then_the_average() {
        let waits = |rate: Rate, times: &[u32]| -> Vec<Duration> {
            let mut bucket = Bucket::new(rate);
            let one = |at: &u32| {
                let now = MS * *at;
                let wait = bucket.wait(now, 0);
                bucket.take(now);
                wait
            };
            times.iter().map(one).collect()
        };
        let ms = |all: &[u32]| -> Vec<Duration> { all.iter().map(|it| MS * *it).collect() };
        assert_eq!(
            // Three of the first six are paid for when the next one comes.
            waits(
                rate(50.0, 3),
                &[1000, 1000, 1000, 1000, 1000, 1000, 1060, 9000]
            ),
            ms(&[0, 0, 0, 20, 40, 60, 20, 0])
        );
        assert_eq!(waits(rate(-1.0, 0), &[0; 100]), ms(&[0; 100]));
        assert_eq!(waits(rate(10.0, 0), &[0, 0]), ms(&[0, 100]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_served_in_order_and_who_gives_up_has_taken_nothing() {
        let throttle = Throttle::new(rate(10.0, 2), "--test");
        let began = Instant::now();
        throttle.turn().await;
        throttle.turn().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let given_up = timeout(50 * MS, throttle.turn());
        let (given_up, behind) = tokio::join!(given_up, async {
            throttle.turn().await;
            began.elapsed()
        });
        assert!(given_up.is_err());
        assert!(behind >= 100 * MS && behind < 110 * MS, "{behind:?}");
        // A hundred that all give up in time don't delay the one that comes then.
        let crowd = (0..100).map(|_| timeout(MS, throttle.turn()));
        join_all(crowd).await;
        throttle.turn().await;
        assert!(began.elapsed() < 210 * MS, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn all_clients_of_one_throttle_share_it() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counting = {
            let sent = sent.clone();
            move |_: Request<Body>| {
                sent.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Infallible>(Response::new(Body::empty())) }
            }
        };
        let throttle = Throttle::new(rate(2.0, 3), "--test");
        let client = || {
            let client = Client::new(tower::service_fn(counting.clone()), "shop");
            throttle.client(client)
        };
        let clients = [client(), client()];
        assert_eq!(clients[0].default_namespace(), "shop");
        let ask = async |client: &Client| {
            let request = Request::get("/version").body(Body::empty()).unwrap();
            client.send(request).await.unwrap();
        };
        let began = Instant::now();
        for client in clients.iter().chain(&clients) {
            ask(client).await;
        }
        assert_eq!(sent.load(Ordering::SeqCst), 4);
        assert!(began.elapsed() >= 500 * MS, "{:?}", began.elapsed());
        let request = ask(&clients[0]);
        assert!(timeout(100 * MS, request).now_or_never().is_none());
        assert_eq!(
            sent.load(Ordering::SeqCst),
            4,
            "it isn't sent before its turn"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_are_answered_as_allowed_however_many_ask() {
        let answering = |_: Request<Body>| async {
            sleep(50 * MS).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        };
        let slow = Client::new(tower::service_fn(answering), "shop");
        let client = Throttle::new(rate(10.0, 1), "--test").client(slow);
        let ask = async |at: u32| {
            sleep(MS * at).await;
            let began = Instant::now();
            let request = Request::get("/version").body(Body::empty()).unwrap();
            let limit = LONGEST_WAIT + 100 * MS;
            match within(limit, client.send(request)).await {
                Ok(_) => None,
                Err(error) => Some((error.kind(), error.to_string(), began.elapsed())),
            }
        };
        // Four times as many as allowed, for a minute.
        let ends = join_all((0..2_400).map(|number| ask(number * 25))).await;
        let answered = ends.iter().filter(|end| end.is_none()).count();
        // Some of them while the last ones wait.
        assert!((595..=640).contains(&answered), "{answered}");
        for (kind, text, after) in ends.into_iter().flatten() {
            assert_eq!(kind, Failure::Throttled, "{text}");
            assert!(text.contains("wasn't sent: by --test"), "{text}");
            assert_eq!(after, Duration::ZERO, "{text}");
        }
    }
}
