//! Names of servers, which are asked for a few at a time.
//!
//! The system's resolver takes a thread for each question, for as long as a name's own server likes, and the process
//! has a bounded number of them. All Targets of a namespace ask together here, and never twice at the same time for one
//! name; a failure is told again for a short while. Addresses aren't kept, since a name may lead elsewhere each time.
//! It must not know where Targets may lead.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use pilotage_api::limits::SUBDOMAIN;
use pilotage_runtime::backoff::Backoff;
use pilotage_runtime::caught::caught_async;
use pilotage_runtime::moment::after;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch as cell};
use tokio::time::{Instant, timeout};
use tower::Service;

/// Questions at the same time. One that nobody waits for any more counts until it has an answer: its thread is taken.
const AT_ONCE: usize = 4;
/// Time for an answer: less than for the connection as a whole, so that its error says what was slow.
const LIMIT: Duration = Duration::from_secs(4);
/// How long a failure is told again. The first one is over when a target is probed for the second time, since two
/// failures make it lost.
const HOLD: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));
/// When nobody remembers any more how often a name failed.
const MEMORY: Duration = Duration::from_mins(1);

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Unresolved(Arc<str>);

impl Unresolved {
    fn new(why: &str) -> Self {
        Self(why.into())
    }
}

/// Addresses, or why there are none.
pub(crate) type Answer = Result<Vec<SocketAddr>, Unresolved>;

type Ask = dyn Fn(Name) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// What is asked and known of names.
pub(crate) struct Names {
    ask: Box<Ask>,
    permits: Arc<Semaphore>,
    known: Mutex<HashMap<String, Known>>,
}

/// What is known of one name.
#[derive(Default)]
struct Known {
    /// Somebody asks; the answer comes here.
    asked: Option<cell::Receiver<Option<Answer>>>,
    /// How often in a row it failed.
    failures: u32,
    /// Until when that is told again.
    failed: Option<(Instant, Unresolved)>,
}

/// What somebody gets who wants to know.
enum News {
    Failed(Unresolved),
    Coming(cell::Receiver<Option<Answer>>),
}

impl Default for Names {
    fn default() -> Self {
        Self::of(|name| Box::pin(async move { Ok(GaiResolver::new().call(name).await?.collect()) }))
    }
}

impl Names {
    /// Asks in this way.
    pub(crate) fn of(
        ask: impl Fn(Name) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            ask: Box::new(ask),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            known: Mutex::default(),
        }
    }

    /// The addresses of a name, as they are now.
    pub(crate) async fn resolve(self: Arc<Self>, name: Name) -> Answer {
        if name.as_str().len() > SUBDOMAIN.saturating_add(1) {
            return Err(Unresolved::new("no server has so long a name"));
        }
        let answer = timeout(LIMIT, self.look_up(name)).await;
        answer.unwrap_or_else(|_| {
            let text = format!("the name isn't resolved within {} s", LIMIT.as_secs());
            Err(Unresolved::new(&text))
        })
    }

    async fn look_up(self: Arc<Self>, name: Name) -> Answer {
        let news = self.lock().get(name.as_str()).and_then(Known::news);
        let news = match (news, self.permits.clone()) {
            (Some(news), _) => news,
            // Who gives up here takes no thread.
            (None, permits) => match permits.acquire_owned().await {
                Ok(permit) => self.ask(name, permit),
                Err(_) => return Err(Unresolved::new("nobody resolves names any more")),
            },
        };
        match news {
            News::Failed(error) => Err(error),
            News::Coming(mut answer) => match answer.wait_for(Option::is_some).await {
                Ok(answer) => answer.clone().unwrap_or_else(|| Err(mistake())),
                Err(_) => Err(mistake()),
            },
        }
    }

    /// Asks, unless somebody else has done so meanwhile.
    fn ask(self: Arc<Self>, name: Name, permit: OwnedSemaphorePermit) -> News {
        let host = name.as_str().to_owned();
        let mut names = self.lock();
        if let Some(news) = names.get(&host).and_then(Known::news) {
            return news;
        }
        let now = Instant::now();
        names.retain(|_, known| !known.is_forgotten(now));
        let (sender, receiver) = cell::channel(None);
        names.entry(host.clone()).or_default().asked = Some(receiver.clone());
        drop(names);
        // Nothing ends its thread, so it counts to the end, whoever waits.
        tokio::spawn(async move {
            let answer = match caught_async(async { (self.ask)(name).await }).await {
                Ok(answer) => answer.map_err(|error| Unresolved::new(&error.to_string())),
                Err(panic) => {
                    tracing::error!(panic, "to resolve a name panicked");
                    Err(mistake())
                }
            };
            self.learn(&host, &answer);
            sender.send_replace(Some(answer));
            drop(permit);
        });
        News::Coming(receiver)
    }

    fn learn(&self, host: &str, answer: &Answer) {
        let mut names = self.lock();
        let Err(error) = answer else {
            names.remove(host);
            return;
        };
        let known = names.entry(host.to_owned()).or_default();
        known.asked = None;
        known.failures = known.failures.saturating_add(1);
        let until = after(Instant::now(), HOLD.delay(known.failures, 0.0));
        known.failed = Some((until, error.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mistake() -> Unresolved {
    Unresolved::new("a mistake in Pilotage, please report it with what its log says")
}

impl Known {
    /// Nothing, if somebody has to ask.
    fn news(&self) -> Option<News> {
        if let Some(answer) = &self.asked {
            return Some(News::Coming(answer.clone()));
        }
        let failed = self.failed.as_ref();
        let failed = failed.filter(|(until, _)| Instant::now() < *until);
        failed.map(|(_, error)| News::Failed(error.clone()))
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        let over = |(until, _): &(Instant, _)| after(*until, MEMORY) <= now;
        self.asked.is_none() && self.failed.as_ref().is_none_or(over)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::time::advance;

    use super::*;

    /// A resolver whose names have an address if they begin with "good", panic if with "odd", and fail otherwise; each
    /// answer takes a permit.
    struct Slow {
        names: Arc<Names>,
        asked: Arc<AtomicUsize>,
        answers: Arc<Semaphore>,
    }

    impl Slow {
        fn new(answers: usize) -> Self {
            let (asked, answers) = (
                Arc::new(AtomicUsize::new(0)),
                Arc::new(Semaphore::new(answers)),
            );
            let (count, gate) = (asked.clone(), answers.clone());
            let names = Arc::new(Names::of(move |name| {
                count.fetch_add(1, Ordering::SeqCst);
                let gate = gate.clone();
                Box::pin(async move {
                    gate.acquire().await.unwrap().forget();
                    assert!(!name.as_str().starts_with("odd"), "on purpose");
                    if name.as_str().starts_with("good") {
                        Ok(vec!["10.0.0.1:0".parse().unwrap()])
                    } else {
                        Err(io::Error::other("no such name"))
                    }
                })
            }));
            Self {
                names,
                asked,
                answers,
            }
        }

        async fn resolve(&self, name: &str) -> Result<usize, String> {
            let answer = self.names.clone().resolve(name.parse().unwrap()).await;
            answer.map(|it| it.len()).map_err(|error| error.to_string())
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_names_take_a_few_threads_however_many_and_often_they_are_asked_for() {
        let slow = Slow::new(0);
        let names: Vec<_> = (0..100).map(|it| format!("good-{it}")).collect();
        for _ in 0..3 {
            let began = Instant::now();
            let answers = join_all(names.iter().map(|name| slow.resolve(name))).await;
            let late = Err("the name isn't resolved within 4 s".to_owned());
            assert!(answers.iter().all(|answer| *answer == late), "{answers:?}");
            assert_eq!((began.elapsed(), slow.asked()), (LIMIT, AT_ONCE));
        }
        slow.answers.add_permits(1000);
        let answers = join_all(names.iter().map(|name| slow.resolve(name))).await;
        assert!(answers.iter().all(|answer| *answer == Ok(1)), "{answers:?}");
        assert!(slow.asked() <= AT_ONCE + names.len());
    }

    #[tokio::test(start_paused = true)]
    async fn who_wants_the_same_name_at_the_same_time_asks_once() {
        let slow = Slow::new(1);
        let answers = join_all((0..20).map(|_| slow.resolve("good"))).await;
        assert!(answers.iter().all(|answer| *answer == Ok(1)), "{answers:?}");
        assert_eq!(slow.asked(), 1);
        // It may lead elsewhere by now.
        slow.answers.add_permits(1);
        assert_eq!(slow.resolve("good").await, Ok(1));
        assert_eq!(slow.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_again_for_longer_and_longer() {
        let slow = Slow::new(1000);
        let mut asked = Vec::new();
        for _ in 0..100 {
            assert_eq!(slow.resolve("bad").await, Err("no such name".to_owned()));
            asked.push(slow.asked());
            advance(Duration::from_millis(500)).await;
        }
        // At 0, 0.5, 1.5, 3.5, 7.5 and 15.5 seconds, and each ten seconds then.
        assert_eq!(asked[..8], [1, 2, 2, 3, 3, 3, 3, 4]);
        assert_eq!(asked[99], 9);
        // Others are none of its business, and after a while it begins anew.
        assert_eq!(slow.resolve("good").await, Ok(1));
        advance(HOLD.max + MEMORY).await;
        assert_eq!(slow.resolve("good").await, Ok(1));
        assert!(slow.names.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn neither_a_panic_nor_a_long_name_keeps_others_waiting() {
        let slow = Slow::new(1000);
        for round in 0..2 * AT_ONCE {
            let answer = slow.resolve(&format!("odd-{round}")).await;
            assert!(answer.unwrap_err().contains("please report it"));
        }
        let long = format!("good.{}", "x".repeat(250));
        assert!(slow.resolve(&long).await.is_err());
        assert_eq!(slow.asked(), 2 * AT_ONCE);
        assert_eq!(slow.resolve("good").await, Ok(1));
    }
}
