//! How many requests a second are sent: a token bucket as client-go has it, and clients that wait for their turn there.
//!
//! Who waits is served in order, and whoever gives up waiting has taken nothing from those behind him. It must not know what
//! is asked.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

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

    /// How long to wait for a token.
    fn wait(&self, now: Duration) -> Duration {
        self.full_at.saturating_sub(now.saturating_add(self.ahead))
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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bucket: Bucket,
    told: Option<Instant>,
}

impl Throttle {
    /// A full one; `flag` is what its author may change.
    pub fn new(rate: Rate, flag: &'static str) -> Self {
        let bucket = Bucket::new(rate);
        Self(Arc::new(Shared {
            flag,
            began: Instant::now(),
            state: Mutex::new(State { bucket, told: None }),
        }))
    }

    /// Waits until a request may be sent.
    pub async fn turn(&self) {
        let Shared { flag, began, state } = &*self.0;
        let asked = Instant::now();
        // It is fair: whoever holds it is the first of those who wait.
        let mut state = state.lock().await;
        let wait = state.bucket.wait(began.elapsed());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        state.bucket.take(began.elapsed());
        let waited = asked.elapsed();
        let is_news = state.told.is_none_or(|told| told.elapsed() >= TOLD);
        if waited >= LONG && is_news {
            state.told = Some(Instant::now());
            let seconds = waited.as_secs_f64();
            tracing::warn!(
                seconds,
                flag,
                "requests to an API server wait, since {flag} allows no more of them"
            );
        }
    }

    /// A client that sends each request in its turn, through this one.
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let throttle = self.clone();
        let send = move |request: Request<Body>| {
            let (client, throttle) = (client.clone(), throttle.clone());
            async move {
                throttle.turn().await;
                client.send(request).await
            }
        };
        Client::new(tower::service_fn(send), namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use http::Response;
    use tokio::time::timeout;

    use super::*;

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
                let wait = bucket.wait(now);
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
        futures::future::join_all(crowd).await;
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
}
