//! Runs the scheduler: one turn a Shoot at a time, at most so many at once, later again when one failed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use pilotage_gardener::scheduler::{Bind, Decision, Report, ShootKey, World};
use pilotage_runtime::caught::{PANICKED, PAUSES, caught_async, note};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::moment::from_now;
use pilotage_runtime::ready::{Gate, Health};
use pilotage_runtime::retries::Retries;
use pilotage_runtime::throttle::{Rate, Throttle};
use pilotage_runtime::turns::{Next, Turns, Waker};
use pilotage_sched_driver::publish::{EventType, Occurrence, Recorder, Regarding, Warnings};
use prometheus_client::registry::Registry;
use tokio::sync::watch as cell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::act;
use crate::feed::{self, KINDS, Watches};
use crate::metrics::Metrics;
use crate::options::Options;

/// Who says so in events, as in Gardener.
const COMPONENT: &str = "shoot-scheduler";

/// When a Shoot that has changed under a report is looked at again, by when the cache should show the change.
const CHANGED: Duration = Duration::from_secs(1);

/// What the scheduler works with.
pub struct Shoots {
    /// Gardener's API server.
    pub client: Client,
    /// How Shoots are scheduled.
    pub options: Options,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Takes events.
    pub events: Recorder,
    /// Told when everything is known.
    pub health: Health,
}

pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) watches: Watches,
    pub(crate) events: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) component: Arc<str>,
    options: Options,
    leadership: Leadership,
    world: Mutex<World>,
    throttle: Throttle,
    warnings: Warnings,
    /// It leads, and turns are taken: before that nobody is woken, since the queue of a standby would grow for ever.
    begun: AtomicBool,
    /// Failed attempts in a row.
    failures: Mutex<HashMap<ShootKey, u32>>,
    /// Shoots whose last attempt panicked.
    panics: Mutex<Retries<ShootKey>>,
}

/// Starts to watch, and gives back what runs until `shutdown`.
pub fn start(
    with: Shoots,
    registry: &mut Registry,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Infallible>> {
    let (parts, gate) = Parts::new(with, registry, &shutdown);
    async move {
        run(Arc::new(parts), gate, shutdown).await;
        Ok(())
    }
    .boxed()
}

async fn run(parts: Arc<Parts>, gate: Gate, shutdown: CancellationToken) {
    let (turns, waker) = Turns::new(parts.options.workers);
    let known = cell::Sender::new(0);
    let turn = {
        let (parts, waker) = (parts.clone(), waker.clone());
        move |key: ShootKey| {
            let (parts, waker) = (parts.clone(), waker.clone());
            async move { parts.guard(&key, parts.turn(&key, &waker)).await }.boxed()
        }
    };
    let working = async {
        let mut all = known.subscribe();
        let begun = async {
            // Before that, what is missing means nothing. The sender outlives this.
            let _ = all.wait_for(|known| *known >= KINDS).await;
            gate.release();
            parts.leadership.acquired().await;
            parts.warnings.tell();
            parts.begun.store(true, Ordering::SeqCst);
            for key in parts.world().keys() {
                waker.wake(key);
            }
        };
        if shutdown.run_until_cancelled(begun).await.is_some() {
            tracing::info!(
                scheduler = parts.options.scheduler,
                workers = parts.options.workers,
                "places Shoots"
            );
            turns.run(turn, shutdown.clone()).await;
        }
    };
    let feeding = shutdown.run_until_cancelled(feed::feed(&parts, &waker, &known));
    tokio::join!(working, feeding);
}

impl Parts {
    /// Starts to watch; the gate is for when everything is known.
    pub(crate) fn new(
        with: Shoots,
        registry: &mut Registry,
        shutdown: &CancellationToken,
    ) -> (Self, Gate) {
        let Shoots {
            client,
            options,
            leadership,
            events,
            health,
        } = with;
        let rate = Rate {
            qps: options.qps,
            burst: options.burst,
        };
        let parts = Self {
            watches: Watches::new(&client, shutdown),
            world: Mutex::new(World::new(&options.scheduler, options.settings.clone())),
            throttle: Throttle::new(rate, "clientConnection.qps"),
            metrics: Metrics::register(registry),
            component: Arc::from(COMPONENT),
            begun: AtomicBool::new(false),
            failures: Mutex::default(),
            panics: Mutex::new(Retries::new(PAUSES)),
            warnings: Warnings::new(events.clone(), leadership.clone()),
            client,
            options,
            leadership,
            events,
        };
        (parts, health.gate("gardener's objects listed"))
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request may be sent.
    pub(crate) async fn throttle(&self) {
        self.throttle.turn().await;
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Tells an object's author what is wrong with it, as soon as this process leads.
    pub(crate) fn warn(&self, regarding: Regarding, reason: &'static str, note: String) {
        tracing::warn!(
            kind = regarding.kind,
            name = regarding.name,
            reason,
            "{note}"
        );
        self.warnings.warn(Occurrence {
            regarding,
            type_: EventType::Warning,
            reason,
            action: "Reconcile",
            note,
            controller: self.component.clone(),
        });
    }

    /// Nothing is wrong with an object, or not any more.
    pub(crate) fn mended(&self, object: impl FnOnce() -> Regarding) {
        self.warnings.mended(object);
    }

    /// A mistake of ours about one object, of which its author hears.
    pub(crate) fn mistaken(&self, regarding: Regarding, panic: &str) {
        tracing::error!(
            kind = regarding.kind,
            name = regarding.name,
            panic,
            "an object's step panicked"
        );
        self.warn(regarding, PANICKED, note(panic));
    }

    /// Waits for the end of an attempt; one that panics is told, and made again after a pause.
    async fn guard(&self, key: &ShootKey, attempt: impl Future<Output = Next>) -> Next {
        let ended = caught_async(attempt).await;
        let mut panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ok(next) => {
                panics.succeeded(key);
                next
            }
            Err(panic) => {
                let at = panics.failed(key.clone(), Instant::now());
                drop(panics);
                self.panicked(key, &panic);
                Next::At(at)
            }
        }
    }

    /// An attempt panicked.
    fn panicked(&self, key: &ShootKey, panic: &str) {
        self.metrics.attempted("panic");
        let shoot = self.watches.shoots.get(Some(&key.namespace), &key.name);
        if let Some(shoot) = shoot {
            self.mistaken(Regarding::object(&*shoot), panic);
        } else {
            tracing::error!(shoot = %key, panic, "an attempt panicked");
        }
    }

    /// One attempt.
    async fn turn(&self, key: &ShootKey, waker: &Waker<ShootKey>) -> Next {
        if !self.leadership.is_leader() {
            // A lost lease ends the process.
            return Next::Rest;
        }
        let began = Instant::now();
        let decision = self.world().decide(key);
        self.metrics.decided(began.elapsed());
        match decision {
            Decision::Nothing => {
                self.failures().remove(key);
                Next::Rest
            }
            Decision::Report(report) => {
                tracing::info!(shoot = %key, why = report.operation, "no Seed");
                self.metrics.attempted("unschedulable");
                self.told(key, &report).await
            }
            Decision::Bind(bind) => self.bind(key, &bind, waker).await,
        }
    }

    async fn bind(&self, key: &ShootKey, bind: &Bind, waker: &Waker<ShootKey>) -> Next {
        let error = match act::bind(self, key, bind).await {
            Ok(shoot) => {
                tracing::info!(shoot = %key, seed = &*bind.seed, "bound");
                self.metrics.attempted("bound");
                self.world().bound(key, bind, &shoot.content.version);
                self.watches.shoots.fold(shoot);
                act::succeeded(self, key, bind);
                self.failures().remove(key);
                return Next::Rest;
            }
            Err(error) => error,
        };
        let how = act::meaning(&error);
        tracing::info!(shoot = %key, seed = &*bind.seed, ?how, %error, "not bound");
        let (report, woken) = self.world().not_bound(key, bind, how, &act::why(&error));
        for other in woken {
            waker.wake(other);
        }
        let Some(report) = report else {
            self.metrics.attempted("conflict");
            return self.later(key);
        };
        self.metrics.attempted("error");
        self.told(key, &report).await
    }

    /// Tells why an attempt came to nothing.
    async fn told(&self, key: &ShootKey, report: &Report) -> Next {
        if act::report(self, key, report).await {
            self.later(key)
        } else {
            Next::At(from_now(CHANGED))
        }
    }

    /// The next attempt, unless something wakes the Shoot before.
    fn later(&self, key: &ShootKey) -> Next {
        let failures = {
            let mut failures = self.failures();
            let failures = failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        let delay = self.options.backoff.delay(failures, 0.0);
        Next::At(from_now(delay))
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<ShootKey, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kube::Config;
    use pilotage_gardener::DEFAULT_SCHEDULER;
    use pilotage_placement::Settings;
    use pilotage_runtime::backoff::Backoff;
    use pilotage_runtime::client::from_config;

    use super::*;

    /// A scheduler whose API server doesn't answer.
    pub(crate) fn parts(stop: &CancellationToken) -> Parts {
        let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = from_config(nowhere, "test").unwrap();
        let (events, _writer) = Recorder::new(client.clone(), "test".to_owned());
        let second = Duration::from_secs(1);
        let with = Shoots {
            client,
            options: Options {
                scheduler: DEFAULT_SCHEDULER.to_owned(),
                settings: Settings::default(),
                workers: 1,
                backoff: Backoff::new(second, second),
                qps: -1.0,
                burst: 1,
            },
            leadership: Leadership::always(),
            events,
            health: Health::new(),
        };
        let (parts, _gate) = Parts::new(with, &mut Registry::default(), stop);
        parts
    }

    #[tokio::test(start_paused = true)]
    async fn a_shoot_that_panics_is_tried_less_and_less_often_until_it_succeeds() {
        let stop = CancellationToken::new();
        let parts = parts(&stop);
        let [bad, fine] = ["bad", "fine"].map(|name| ShootKey::new("n", name));
        let in_seconds = |seconds| Next::At(Instant::now() + Duration::from_secs(seconds));
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            let next = parts.guard(&bad, async { panic!("on purpose") });
            assert_eq!(next.await, in_seconds(pause));
        }
        let other = parts.guard(&fine, async { panic!("on purpose") });
        assert_eq!(other.await, in_seconds(10), "each by itself");
        let good = parts.guard(&bad, std::future::ready(Next::Rest));
        assert_eq!(good.await, Next::Rest);
        let again = parts.guard(&bad, async { panic!("on purpose") });
        assert_eq!(again.await, in_seconds(10));
        stop.cancel();
    }
}
