//! What the edge keeps of each name, and what the scheduler's driver tells it and asks of it.
//!
//! Two locks exist beside each other, the edge's and the driver's: the edge never holds its own while it calls the
//! driver's handle.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use pilotage_api::keys;
use pilotage_candidate::{Board, Memory, Refusal, Settings, plan::Dropped, preempts};
use pilotage_runtime::{moment::after, otlp::Tracer};
use pilotage_sched::{Aftermath, Failure, NodeName, PodInfo, Room, plugins::Binder};
use pilotage_sched_driver::{DriverHandle, Observer};
use thiserror::Error;
use tokio::{sync::oneshot, time::Instant};

use super::{metrics::Metrics, trace::Work, traced};
use crate::{chaperon::Key, turns::Waker};

/// Why a pod that passed Permit isn't bound.
#[derive(Clone, Debug, Error)]
pub(super) enum Unbound {
    /// The node was given back.
    #[error("{0}")]
    Dropped(Dropped),
    /// No grant is known for this pod and node.
    #[error("the node is not reserved for the pod any more")]
    NotReserved,
    /// The process ends.
    #[error("the scheduler is ending")]
    Ending,
}

/// What is kept of one name.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) memory: Memory,
    /// The scheduler waits for the binding.
    pub(super) binding: Option<oneshot::Sender<Result<(), Unbound>>>,
    /// The pod whose gate stands on the board.
    pub(super) on_board: Option<String>,
    /// What it was given back for isn't worth an event.
    pub(super) quiet: bool,
    /// Since when the source may count on a node.
    pub(super) held_since: Option<Duration>,
    /// What is under way of its trace.
    pub(super) traced: Option<Box<Work>>,
}

/// The state that turns, watches and the driver share.
pub(super) struct Edge {
    pub(super) board: Arc<Board>,
    pub(super) settings: Settings,
    /// Whether a delegate that was bound gets an event.
    scheduled_events: bool,
    pub(super) metrics: Metrics,
    pub(super) tracer: Option<Tracer>,
    waker: Waker<Key>,
    started: Instant,
    cells: Mutex<HashMap<Key, Cell>>,
    /// Chaperons that stood there when this process began to lead.
    standing: Mutex<HashSet<Key>>,
    handle: OnceLock<DriverHandle>,
    ended: AtomicBool,
}

impl Edge {
    pub(super) fn new(
        settings: Settings,
        scheduled_events: bool,
        board: Arc<Board>,
        waker: Waker<Key>,
        metrics: Metrics,
        tracer: Option<Tracer>,
    ) -> Self {
        Self {
            board,
            settings,
            scheduled_events,
            metrics,
            tracer,
            waker,
            started: Instant::now(),
            cells: Mutex::default(),
            standing: Mutex::default(),
            handle: OnceLock::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// The driver, once it is made.
    pub(super) fn connect(&self, handle: DriverHandle) {
        // A second driver would be a mistake in the wiring below; the first one stays.
        let _ = self.handle.set(handle);
    }

    pub(super) fn handle(&self) -> Option<&DriverHandle> {
        self.handle.get()
    }

    /// Time since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn instant(&self, at: Duration) -> Instant {
        after(self.started, at)
    }

    pub(super) fn wake(&self, key: Key) {
        self.waker.wake(key);
    }

    /// These chaperons stand there as this process begins to lead.
    pub(super) fn begin(&self, standing: HashSet<Key>) {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    /// Nobody takes turns any more: bindings that wait for one end, so that the driver can.
    pub(super) fn end(&self) {
        let mut cells = self.cells();
        self.ended.store(true, Ordering::Release);
        for cell in cells.values_mut() {
            cell.binding = None;
        }
    }

    /// Changes what is kept of a name.
    pub(super) fn with<R>(&self, key: &Key, change: impl FnOnce(&mut Cell) -> R) -> R {
        let mut cells = self.cells();
        let cell = cells.entry(key.clone()).or_insert_with(|| {
            let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
            Cell {
                memory: Memory::new(standing.remove(key)),
                ..Cell::default()
            }
        });
        change(cell)
    }

    /// Forgets a name, unless something hangs on it.
    pub(super) fn forget(&self, key: &Key) {
        let mut cells = self.cells();
        if cells
            .get(key)
            .is_some_and(|cell| cell.memory.is_idle() && cell.binding.is_none())
            && let Some(cell) = cells.remove(key)
        {
            if let Some(pod) = cell.on_board {
                self.board.remove(&pod);
            }
            self.trace_withdrawn(cell.traced);
        }
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<Key, Cell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(pod: &PodInfo) -> Key {
    Key {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
    }
}

fn is_candidate(pod: &PodInfo) -> bool {
    &*pod.scheduler_name == keys::CANDIDATE_SCHEDULER
}

impl Observer for Edge {
    fn assumed(&self, pod: &Arc<PodInfo>, node: &NodeName, _held: bool) {
        if is_candidate(pod) {
            let (key, now) = (key(pod), self.now());
            self.with(&key, |cell| {
                cell.memory.taken(&pod.uid, node, now);
                traced::found(cell, Some(node));
            });
            self.wake(key);
        }
    }

    fn failed(&self, failure: &Failure) {
        let pod = &failure.pod;
        if !is_candidate(pod) {
            return;
        }
        let (key, now) = (key(pod), self.now());
        self.with(&key, |cell| {
            if failure.node.is_some() {
                return cell.memory.put_back(&pod.uid);
            }
            if !matches!(failure.aftermath, Aftermath::Requeued(_)) {
                return;
            }
            match &failure.room {
                Room::Offered(offer) => {
                    let preempts = preempts::of_offer(offer);
                    cell.memory.offered(&pod.uid, &offer.node, preempts, now);
                    traced::found(cell, Some(&offer.node));
                }
                Room::Awaited(_) if cell.memory.room_awaited(&pod.uid) => {}
                Room::Awaited(_) | Room::Nowhere => {
                    self.metrics.found_none(failure);
                    let refusal = Refusal::of(&failure.cause);
                    cell.memory.found_none(&pod.uid, refusal);
                    traced::found(cell, None);
                }
            }
        });
        self.wake(key);
    }

    fn publishes(&self, failure: &Failure) -> bool {
        if !is_candidate(&failure.pod) {
            return true;
        }
        // What it would take is an answer to the source, and no failure.
        if matches!(failure.room, Room::Offered(_)) {
            return false;
        }
        failure.node.is_none()
            || !self.with(&key(&failure.pod), |cell| std::mem::take(&mut cell.quiet))
    }

    fn tells_bound(&self, pod: &Arc<PodInfo>) -> bool {
        self.scheduled_events || !is_candidate(pod)
    }

    fn bound(&self, pod: &Arc<PodInfo>, _node: &NodeName) {
        if is_candidate(pod) {
            let key = key(pod);
            self.with(&key, |cell| cell.memory.put_back(&pod.uid));
            self.wake(key);
        }
    }
}

impl Binder for Edge {
    fn bind<'a>(
        &'a self,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        let (key, now) = (key(pod), self.now());
        let outcome = self.with(&key, |cell| {
            let ended = self.ended.load(Ordering::Acquire);
            (!ended && cell.memory.bind_called(&pod.uid, node, now)).then(|| {
                let (sender, outcome) = oneshot::channel();
                cell.binding = Some(sender);
                outcome
            })
        });
        self.wake(key);
        Box::pin(async move {
            let bound = match outcome {
                None => Err(Unbound::NotReserved),
                Some(outcome) => outcome.await.unwrap_or(Err(Unbound::Ending)),
            };
            bound.map_err(Into::into)
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;
    use crate::turns::Turns;

    #[test]
    fn a_delegate_gets_an_event_only_where_that_is_wanted() {
        let pod = |scheduler: &str| {
            let metadata = json!({ "name": "p", "namespace": "default", "uid": "u" });
            let spec = json!({ "schedulerName": scheduler, "containers": [] });
            let pod: Pod =
                serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
            Arc::new(PodInfo::parse(Arc::new(pod)).unwrap())
        };
        for wanted in [false, true] {
            let (_turns, waker) = Turns::new(1);
            let metrics = Metrics::register(&mut Registry::default());
            let board = Arc::new(Board::new());
            let edge = Edge::new(Settings::default(), wanted, board, waker, metrics, None);
            assert_eq!(edge.tells_bound(&pod(keys::CANDIDATE_SCHEDULER)), wanted);
            assert!(edge.tells_bound(&pod("another")));
        }
    }
}
