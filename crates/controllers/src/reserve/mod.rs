//! The candidate scheduler: the driver with the candidate's profile, and the edge of [`pilotage_candidate`].
//!
//! ```text
//! watches of chaperons and candidate pods ─┐
//! driver: assumed, failed, bound, bind ────┼─► turns: observe → decide (pure) → one step ─► chaperon, binding
//! timers ──────────────────────────────────┘                                └─► board, driver handle
//! ```
//!
//! A held node costs no task and no request: its name just rests until its deadline or the next event. Turns of one
//! name never overlap, and the reply to a write is folded into the store before the next decision.

mod act;
mod args;
mod edge;
mod metrics;
pub mod rbac;
mod trace;
mod traced;
mod trim;
mod turn;

use std::{collections::HashSet, sync::Arc};

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use pilotage_api::keys;
use pilotage_candidate::{Board, Settings, chaperon::kept, plugins::candidate_profile};
use pilotage_clusters::{Event, Watch, WatchConfig, Watchable};
use pilotage_runtime::{
    lease::Leadership,
    otlp::Tracer,
    ready::{Gate, Health},
};
use pilotage_sched::ProfileError;
use pilotage_sched_driver::{Driver, DriverError, DriverOptions, PodBinder};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use args::ReserveArgs;

use crate::{
    caught::caught_turn,
    chaperon::{Key, objects},
    turns::{Turns, Waker},
};
use edge::Edge;
use metrics::Metrics;
use turn::Worker;

/// Requests under way at once. Turns aren't limited: a node whose time is over goes back without waiting for a request.
const CONCURRENCY: usize = 256;

/// What the candidate scheduler works with.
pub struct Reserve {
    /// The target's API server, which is the local one.
    pub client: Client,
    /// Times.
    pub settings: Settings,
    /// Whether a delegate that was bound gets an event, as kube-scheduler's pods do.
    pub scheduled_events: bool,
    /// This process, as events name it.
    pub instance: String,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Gets the gates of the watches.
    pub health: Health,
    /// Takes the spans of candidates, if they are traced.
    pub tracer: Option<Tracer>,
}

/// Why the candidate scheduler ended.
#[derive(Debug, Error)]
pub enum ReserveError {
    /// Its profile can't be made.
    #[error("failed to make the profile of candidate pods: {0}")]
    Profile(#[from] ProfileError),
    /// The driver can't start or has failed.
    #[error("the candidate scheduler stopped: {0}")]
    Driver(#[from] DriverError),
}

/// Runs the candidate scheduler until `shutdown`. Its metrics go into `registry`.
pub async fn run(
    with: Reserve,
    registry: &mut Registry,
    shutdown: CancellationToken,
) -> Result<(), ReserveError> {
    start(with, registry, shutdown)?.await
}

/// [`run`] in two steps: what comes back runs it, and needs the registry no more.
pub fn start(
    with: Reserve,
    registry: &mut Registry,
    shutdown: CancellationToken,
) -> Result<BoxFuture<'static, Result<(), ReserveError>>, ReserveError> {
    let Reserve {
        client,
        settings,
        scheduled_events,
        instance,
        leadership,
        health,
        tracer,
    } = with;
    let (turns, waker) = Turns::new(usize::MAX);
    let board = Arc::new(Board::new());
    let edge = Arc::new(Edge::new(
        settings,
        scheduled_events,
        board.clone(),
        waker.clone(),
        Metrics::register(registry),
        tracer,
    ));
    let profile = candidate_profile(board, edge.clone()).build()?;
    let options = DriverOptions {
        leadership: leadership.clone(),
        health: health.clone(),
        observer: edge.clone(),
        // Every candidate waits at Permit: it would cost a write each, and losers are deleted anyway.
        announce_nominations: false,
        ..DriverOptions::new(client.clone(), vec![profile], instance)
    };
    let (driver, handle) = Driver::new(options, registry)?;
    edge.connect(handle);

    let chaperons = WatchConfig::all().trim(trim::chaperon);
    let chaperons = chaperons.slim(kept::slim).heavy(objects::outline);
    let chaperons = Watch::of_client(client.clone(), chaperons, &shutdown);
    // The driver's watch tells no more of pods that are over: of a delegate that ran, this one mustn't hear that it has
    // gone.
    let candidates = format!("spec.schedulerName={}", keys::CANDIDATE_SCHEDULER);
    let candidates = WatchConfig::all().fields(candidates).trim(trim::pod);
    let candidates = candidates.slim(trim::slim).heavy(trim::outline);
    let pods = Watch::of_client(client.clone(), candidates, &shutdown);
    let worker = Arc::new(Worker {
        edge,
        binder: PodBinder::new(client.clone()),
        client,
        leadership,
        chaperons,
        pods,
        requests: Semaphore::new(CONCURRENCY),
    });
    let gate = health.gate("chaperons and candidate pods listed");
    Ok(serve(worker, turns, waker, driver, gate, shutdown).boxed())
}

async fn serve(
    worker: Arc<Worker>,
    turns: Turns<Key>,
    waker: Waker<Key>,
    driver: Driver,
    gate: Gate,
    shutdown: CancellationToken,
) -> Result<(), ReserveError> {
    // Whatever ends the driver ends the edge, and the other way round.
    let ending = shutdown.child_token();
    let edge = async {
        let listed = async {
            worker.chaperons.synced().await;
            worker.pods.synced().await;
            gate.release();
            // Before that, what a store lacks means nothing, and what stands there may be another leader's.
            worker.leadership.acquired().await;
        };
        if ending.run_until_cancelled(listed).await.is_none() {
            return;
        }
        let standing: HashSet<Key> = worker
            .chaperons
            .list()
            .iter()
            .map(|chaperon| Key::of(&**chaperon))
            .collect();
        worker.edge.begin(standing);
        let turn = {
            let worker = worker.clone();
            move |key: Key| {
                let worker = worker.clone();
                async move {
                    caught_turn(worker.turn(&key), |panic| worker.panicked(&key, panic)).await
                }
                .boxed()
            }
        };
        futures::join!(
            turns.run(turn, ending.clone()),
            ending.run_until_cancelled(follow(&worker.chaperons, &waker)),
            ending.run_until_cancelled(follow(&worker.pods, &waker)),
        );
        worker.edge.end();
    };
    let driver = async {
        let ended = driver.run(ending.clone()).await;
        ending.cancel();
        ended
    };
    let (ended, ()) = futures::join!(driver, edge);
    Ok(ended?)
}

/// Wakes the names of all that changes.
async fn follow<K: Watchable>(watch: &Watch<K>, waker: &Waker<Key>) {
    let mut events = watch.subscribe();
    while let Some(event) = events.recv().await {
        match event {
            Event::Applied(object) | Event::Deleted(object) | Event::Gone(object) => {
                waker.wake(Key::of(&*object));
            }
            Event::Synced => {}
        }
    }
}
