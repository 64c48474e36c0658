//! The driver: wires watches, loop, bindings and publishing around one scheduler, and runs them.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use pilotage_runtime::caught::caught;
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::ready::{Gate, Health};
use pilotage_runtime::tasks::{TaskError, Tasks};
use pilotage_sched::{
    Attempt, Cause, EventNote, Failure, Kind, Moment, Orders, Panicked, PodInfo, Preempted,
    Profile, ProfileError, Scheduler, SchedulerConfig,
};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::core::Core;
use crate::evictions;
use crate::extension::Extension;
use crate::feed::{self, Pods};
use crate::handle::DriverHandle;
use crate::metrics::{AttemptResult, Gauges, Measured, Metrics};
use crate::mistakes::Mistakes;
use crate::objects;
use crate::observer::{NoObserver, Observer};
use crate::publish::{
    Desired, EventType, EventWriter, Occurrence, Recorder, Regarding, StatusWriter, Warnings,
};
use crate::run::schedule;
use crate::sinks::{NodeSink, PodSink};

/// An attempt takes milliseconds; one that takes this long hangs.
const TURN_LIMIT: Duration = Duration::from_mins(1);

/// What a driver is made of.
pub struct DriverOptions {
    /// Client of the cluster whose pods it schedules.
    pub client: Client,
    /// Where it learns of pods.
    pub pods: Pods,
    /// What is done to each node before the scheduler sees it.
    pub prepare_node: fn(&mut Node),
    /// The profiles, one a scheduler name.
    pub profiles: Vec<Arc<Profile>>,
    /// How the scheduler behaves.
    pub config: SchedulerConfig,
    /// This process, as events name it (`reportingInstance`).
    pub instance: String,
    /// Asked before each attempt, and before a binding, a status or an eviction is begun; what is told in events was
    /// seen as leader.
    pub leadership: Leadership,
    /// Gets the gates "pods listed", "nodes listed" and one for each wanted kind, and the liveness check "scheduling
    /// loop".
    pub health: Health,
    /// Services that have a say about nodes, in the order in which they are asked.
    pub extensions: Vec<Extension>,
    /// Is told what happens.
    pub observer: Arc<dyn Observer>,
    /// Whether `status.nominatedNodeName` is written for pods that wait at Permit or have something to
    /// prepare, as kube-scheduler does since 1.35. It costs a write a pod.
    pub announce_nominations: bool,
    /// Seed of the choice among equally good nodes.
    pub seed: u64,
}

impl DriverOptions {
    /// Defaults for everything but what only the caller knows: all pods, no leader election, no observer,
    /// kube-scheduler's behaviour.
    pub fn new(client: Client, profiles: Vec<Arc<Profile>>, instance: String) -> Self {
        Self {
            client,
            pods: Pods::All,
            prepare_node: |_| {},
            profiles,
            config: SchedulerConfig::default(),
            instance,
            leadership: Leadership::always(),
            health: Health::new(),
            extensions: Vec::new(),
            observer: Arc::new(NoObserver),
            announce_nominations: true,
            seed: pilotage_runtime::backoff::dice().to_bits(),
        }
    }
}

/// Why a driver can't start or go on.
#[derive(Debug, Error)]
pub enum DriverError {
    /// The profiles make no scheduler.
    #[error("failed to set up the scheduler: {0}")]
    Profiles(#[from] ProfileError),
    /// A part of it failed.
    #[error("the scheduler stopped: {0}")]
    Task(#[from] TaskError),
}

/// A scheduler with its watches, ready to run.
pub struct Driver {
    inner: Arc<Inner>,
    client: Client,
    pods: Pods,
    prepare_node: fn(&mut Node),
    pods_listed: Gate,
    nodes_listed: Gate,
    objects_listed: Vec<(Kind, Gate)>,
    event_writer: EventWriter,
    orders: mpsc::UnboundedReceiver<Orders>,
}

/// What the driver's tasks share.
pub(crate) struct Inner {
    pub(crate) core: Core,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) leadership: Leadership,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) announce_nominations: bool,
    pub(crate) status: StatusWriter,
    pub(crate) mistakes: Arc<Mistakes>,
}

impl Driver {
    /// A driver and the handle to it. Its metrics go into `registry`, the process's root.
    pub fn new(
        options: DriverOptions,
        registry: &mut Registry,
    ) -> Result<(Self, DriverHandle), DriverError> {
        let DriverOptions {
            client,
            pods,
            prepare_node,
            profiles,
            config,
            instance,
            leadership,
            health,
            extensions,
            observer,
            announce_nominations,
            seed,
        } = options;
        let extenders = extensions.iter().map(|one| one.extender.clone());
        let scheduler = Scheduler::new(profiles, config)?.extended_by(extenders);
        let objects_listed = scheduler.wanted_kinds().into_iter();
        let objects_listed = objects_listed.map(|kind| {
            let gate = health.gate(format!("{} listed", kind.name()));
            (kind, gate)
        });
        let objects_listed = objects_listed.collect();
        let (recorder, event_writer) = Recorder::new(client.clone(), instance);
        let metrics = Metrics::register(registry);
        let warnings = Warnings::new(recorder.clone(), leadership.clone());
        let status = StatusWriter::new(client.clone(), leadership.clone());
        let mistakes = Arc::new(Mistakes::new(warnings, metrics.clone()));
        let told = mistakes.clone();
        let tell = Box::new(move |mishap| told.of_plugin(&mishap));
        let (given, orders) = mpsc::unbounded_channel();
        // Nobody takes them if the driver is ending.
        let take = Box::new(move |orders| drop(given.send(orders)));
        let inner = Arc::new(Inner {
            core: Core::new(scheduler, seed, tell, take),
            recorder,
            metrics,
            leadership,
            extensions,
            observer,
            announce_nominations,
            status,
            mistakes,
        });
        Gauges::register(registry, measure(&inner));
        health.check("scheduling loop", is_turning(&inner));
        let handle = DriverHandle {
            inner: inner.clone(),
        };
        Ok((
            Self {
                inner,
                client,
                pods,
                prepare_node,
                // From here on the process isn't ready, whenever the driver is run.
                pods_listed: health.gate("pods listed"),
                nodes_listed: health.gate("nodes listed"),
                objects_listed,
                event_writer,
                orders,
            },
            handle,
        ))
    }

    /// Runs until `token` is cancelled; then finishes the bindings and writes that are under way. Pods
    /// held at Permit are let go.
    pub fn run(self, token: CancellationToken) -> BoxFuture<'static, Result<(), DriverError>> {
        async move {
            let Self {
                inner,
                client,
                pods,
                prepare_node,
                pods_listed,
                nodes_listed,
                objects_listed,
                event_writer,
                orders,
            } = self;
            let (listed, unlisted) = watch::channel(objects_listed.len().saturating_add(2));
            let listed = Arc::new(listed);
            let one_more = |listed: &watch::Sender<usize>| {
                listed.send_modify(|kinds| *kinds = kinds.saturating_sub(1));
            };
            let mut tasks = Tasks::new(token.child_token());
            let ending = tasks.token().clone();

            let tell = listed.clone();
            let sink = PodSink {
                inner: inner.clone(),
            };
            let synced = move || {
                one_more(&tell);
                pods_listed.release();
            };
            let (client_of_pods, until) = (client.clone(), ending.clone());
            let following = async move {
                match pods {
                    Pods::All => feed::pods(client_of_pods, sink, synced, until).await,
                    Pods::Told(news) => feed::told(news, sink, synced, until).await,
                }
            };
            tasks.essential("pod watch", infallible(following));

            let sink = NodeSink {
                inner: inner.clone(),
            };
            let tell = listed.clone();
            let synced = move || {
                one_more(&tell);
                nodes_listed.release();
            };
            let following = feed::nodes(client.clone(), prepare_node, sink, synced, ending.clone());
            tasks.essential("node watch", infallible(following));

            for (kind, gate) in objects_listed {
                let tell = listed.clone();
                let synced = move || {
                    one_more(&tell);
                    gate.release();
                };
                let following =
                    objects::follow(kind, client.clone(), inner.clone(), synced, ending.clone());
                tasks.essential(kind.name(), infallible(following));
            }
            drop(listed);

            let writers = CancellationToken::new();
            // It ends after the loop, which says so.
            tasks.finite(
                "event writer",
                infallible(event_writer.run(writers.clone())),
            );
            let carrying_out = evictions::carry_out(inner.clone(), client, orders, ending.clone());
            tasks.essential("evictions", infallible(carrying_out));
            tasks.essential(
                "scheduling loop",
                infallible(schedule(inner, unlisted, ending, writers)),
            );
            Ok(tasks.join().await?)
        }
        .boxed()
    }
}

async fn infallible(task: impl Future<Output = ()>) -> Result<(), std::convert::Infallible> {
    task.await;
    Ok(())
}

impl Inner {
    /// Does something about one pod. A panic is told on it, and stops nobody else.
    pub(crate) fn caught(&self, pod: &PodInfo, work: impl FnOnce()) {
        if let Err(panic) = caught(work) {
            self.mistakes.of_scheduled(pod, &panic);
        }
    }

    pub(crate) fn publish(&self, attempt: Attempt, began: Moment) {
        match attempt {
            Attempt::Failed(failure) => {
                let profile = failure.pod.scheduler_name.clone();
                self.publish_failure(&profile, &failure, began);
            }
            Attempt::Skipped(skipped) => {
                tracing::debug!(pod = %skipped.pod.key, why = ?skipped.why, "pod skipped");
                if let Some(event) = skipped.event {
                    self.record(&skipped.pod, event);
                }
            }
            // The loop binds it, or asks.
            Attempt::Assumed(_) | Attempt::Asks(_) => {}
        }
    }

    pub(crate) fn publish_failure(&self, profile: &Arc<str>, failure: &Failure, began: Moment) {
        let rejected = failure.cause.is_rejection();
        let result = if rejected {
            AttemptResult::Unschedulable
        } else {
            AttemptResult::Error
        };
        self.metrics
            .attempted(profile, result, self.core.since(began));
        if (failure.cause.diagnosis()).is_some_and(|report| report.post_filtered) {
            self.metrics.preemption_attempted();
        }
        let (pod, attempts) = (&failure.pod.key, failure.attempts);
        if rejected {
            tracing::debug!(%pod, attempts, aftermath = ?failure.aftermath, cause = %failure.cause,
                "pod not scheduled");
        } else if is_panic(&failure.cause) {
            self.metrics.panicked();
            tracing::error!(%pod, attempts, aftermath = ?failure.aftermath, cause = %failure.cause,
                "attempt panicked");
        } else {
            tracing::warn!(%pod, attempts, aftermath = ?failure.aftermath, cause = %failure.cause,
                "attempt failed");
        }
        let published = self.observer.publishes(failure);
        if published && let Some(event) = failure.event() {
            self.record(&failure.pod, event);
        }
        if published
            && self.observer.writes_status(failure)
            && let Some(status) = failure.status()
        {
            self.write_status(&failure.pod, Desired::from(status));
        }
        self.observer.failed(failure);
    }

    /// Writes the status of a pod without a node; of others the object isn't kept.
    pub(crate) fn write_status(&self, pod: &PodInfo, desired: Desired) {
        if let Some(pod) = pod.pod()
            && self.leadership.is_leader()
        {
            self.status.write(pod.clone(), desired);
        }
    }

    pub(crate) fn record(&self, pod: &PodInfo, event: EventNote) {
        self.recorder
            .record(occurrence(pod, event, &pod.scheduler_name));
    }

    /// Tells of a pod that had to make room, in the name of the scheduler that needs it.
    pub(crate) fn record_preempted(&self, preempted: &Preempted) {
        let Preempted {
            pod,
            preemptor,
            event,
            ..
        } = preempted;
        let occurrence = occurrence(pod, event.clone(), &preemptor.scheduler_name);
        let related = Regarding::scheduled(preemptor);
        self.recorder.record_related(occurrence, related);
    }
}

fn is_panic(cause: &Cause) -> bool {
    matches!(cause, Cause::Error(error) if error.cause().is::<Panicked>())
}

/// Fails once an attempt takes so long that a plugin must hang.
fn is_turning(inner: &Arc<Inner>) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let inner: Weak<Inner> = Arc::downgrade(inner);
    move || match inner.upgrade().and_then(|inner| inner.core.turning_for()) {
        Some(time) if time > TURN_LIMIT => Err(format!(
            "an attempt has been running for {} s",
            time.as_secs()
        )),
        _ => Ok(()),
    }
}

fn occurrence(pod: &PodInfo, event: EventNote, controller: &Arc<str>) -> Occurrence {
    let EventNote {
        warning,
        reason,
        action,
        note,
    } = event;
    Occurrence {
        regarding: Regarding::scheduled(pod),
        type_: if warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason,
        action,
        note,
        controller: controller.clone(),
    }
}

/// Measures the scheduler at each scrape, as long as the driver lives.
fn measure(inner: &Arc<Inner>) -> impl Fn() -> Option<Measured> + Send + Sync + 'static {
    let inner: Weak<Inner> = Arc::downgrade(inner);
    move || {
        Some(
            inner
                .upgrade()?
                .core
                .ask(|scheduler| Measured::of(scheduler)),
        )
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

#[cfg(test)]
mod tests;
