//! The loop of the ask edge: takes in events, choices and answers, and gives what they concern its turn.

mod intake;
mod loss;
mod painting;
mod proxy;
mod ranking;
mod telling;
mod traced;
mod turn;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use pilotage_clusters::Watch;
use pilotage_proxy::{Action, Book, Reach, Reply, milestones::Budget};
use pilotage_runtime::{ready, slice::Slice};
use pilotage_sched_driver::{PodBinder, publish::Warnings};
use tokio::{sync::mpsc, time::sleep_until};
use tokio_util::sync::CancellationToken;

use self::{proxy::Proxy, ranking::OTHERS_PACE};
use super::{
    Ask,
    act::Acting,
    changed::Changed,
    expected::Expected,
    places::Places,
    port::Inbox,
    ranker::{Ranker, watch_tables},
    story::Stories,
};
use crate::{
    clock::Clock,
    fleet::{Fleet, FleetEvent},
    intake::{Intake, take_in},
    lanes::Lanes,
    timers::Timers,
};

/// How long the first ranking waits for tables of regions. They may be unreadable for ever, and only order.
const TABLES_WITHIN: Duration = Duration::from_secs(5);

/// What the edge follows in the source.
pub(super) struct Watches {
    pub(super) proxies: Watch<Pod>,
    pub(super) tables: Watch<ConfigMap>,
}

impl Watches {
    pub(super) fn of(ask: &Ask, stop: &CancellationToken) -> Self {
        Self {
            proxies: ask.proxies.clone(),
            tables: watch_tables(&ask.client, &ask.namespace, stop),
        }
    }
}

/// How an action ended.
struct Finished {
    uid: String,
    action: Action,
    reply: Reply,
}

pub(super) struct Edge {
    parts: Ask,
    acting: Arc<Acting>,
    clock: Clock,
    book: Book,
    proxies: HashMap<String, Proxy>,
    places: Places,
    expected: Expected,
    ranker: Ranker,
    timers: Timers<String>,
    /// Virtual nodes that have changed.
    changed: Changed,
    /// Pods that have come or gone, in the scheduler's eyes.
    moved: Changed,
    dirty: BTreeSet<String>,
    lanes: Lanes,
    stories: Stories,
    /// What may be told of stages.
    budget: Budget,
    finished: mpsc::UnboundedSender<Finished>,
    answers: mpsc::UnboundedReceiver<Finished>,
    warnings: Warnings,
}

impl Edge {
    pub(super) fn new(parts: Ask, fleet: Fleet) -> Self {
        let (finished, answers) = mpsc::unbounded_channel();
        let acting = Acting {
            client: parts.client.clone(),
            binder: PodBinder::new(parts.client.clone()),
            cluster: parts.cluster.clone(),
            cluster_name: parts.cluster_name.clone(),
            fleet,
        };
        let recorder = parts.scheduling.recorder().clone();
        Self {
            acting: Arc::new(acting),
            warnings: Warnings::new(recorder, parts.leadership.clone()),
            ranker: Ranker::new(parts.configuration.clone(), parts.namespace.clone()),
            budget: Budget::per_second(parts.stage_events),
            parts,
            clock: Clock::start(),
            book: Book::default(),
            proxies: HashMap::new(),
            places: Places::default(),
            expected: Expected::default(),
            timers: Timers::default(),
            changed: Changed::default(),
            moved: Changed::each(OTHERS_PACE),
            dirty: BTreeSet::new(),
            lanes: Lanes::default(),
            stories: Stories::default(),
            finished,
            answers,
        }
    }

    /// Works until `shutdown`.
    pub(super) async fn run(
        mut self,
        watches: Watches,
        mut fleet: mpsc::UnboundedReceiver<FleetEvent>,
        inbox: Inbox,
        shutdown: CancellationToken,
        ready: ready::Gate,
    ) {
        // A target that isn't known yet isn't a target that doesn't exist.
        if shutdown
            .run_until_cancelled(self.parts.registry.synced())
            .await
            .is_none()
        {
            return;
        }
        for target in self.parts.registry.targets() {
            self.book
                .set_reach(target.node(), Reach::Unknown, Duration::ZERO);
        }
        let Watches { proxies, tables } = watches;
        if self.ranker.needs_tables() {
            let synced = tokio::time::timeout(TABLES_WITHIN, tables.synced());
            if let Some(Err(_)) = shutdown.run_until_cancelled(synced).await {
                tracing::warn!("region tables can't be listed yet; regions are compared by name");
            }
        }
        let mut tables = tables.subscribe();
        while let Ok(event) = tables.try_recv() {
            self.take_in(event, Self::take_table);
        }
        let Inbox {
            mut choices,
            mut nodes,
            mut failed,
            stories,
        } = inbox;
        self.stories = stories;
        let mut pods = proxies.subscribe();
        let mut ready = Some(ready);
        let leadership = self.parts.leadership.clone();
        let mut leads = leadership.is_leader();
        self.paint_leads(leads);
        // What was waited for above isn't a time in which nobody ran.
        self.clock = Clock::start();
        loop {
            let turn = self.book.wake_at().filter(|_| leads);
            let due = self.timers.next().into_iter();
            let due = due.chain(turn).chain(self.changed.next());
            let due = due.chain(self.moved.next()).min();
            let wake_at = self.clock.wake_at(due);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(finished) = self.answers.recv() => self.take_in(finished, Self::take_answer),
                Some(event) = pods.recv() => self.take_in(event, Self::take_pod),
                Some(event) = nodes.recv() => self.take_in(event, Self::take_node),
                Some(event) = fleet.recv() => self.take_in(event, Self::take_fleet),
                Some(choice) = choices.recv() => self.take_in(choice, Self::take_choice),
                Some(failed) = failed.recv() => self.take_in(failed, Self::take_failed),
                Some(event) = tables.recv() => self.take_in(event, Self::take_table),
                () = sleep_until(wake_at) => {}
                () = leadership.acquired(), if !leads => {
                    leads = true;
                    self.paint_leads(true);
                    self.mark_all();
                }
            }
            let mut slice = Slice::begin();
            // All that has come meanwhile is taken in first, so that one decision serves a burst.
            take_in! {
                slice, self,
                self.answers => take_answer,
                pods => take_pod,
                nodes => take_node,
                fleet => take_fleet,
                choices => take_choice,
                failed => take_failed,
                tables => take_table,
            }
            if proxies.is_synced()
                && let Some(gate) = ready.take()
            {
                gate.release();
            }
            let now = self.clock.now();
            while let Some(uid) = self.timers.pop(now) {
                self.dirty.insert(uid);
                slice.pause().await;
            }
            while let Some(node) = self.changed.pop(now) {
                self.rank_anew_for(&node);
                // As many as there are targets may come at once, each of which concerns all pods.
                slice.pause().await;
            }
            if self.moved.pop(now).is_some() {
                self.rank_kept_away();
            }
            if leads && leadership.is_leader() {
                self.warnings.tell();
                self.ranker.tell(self.parts.scheduling.recorder());
                loop {
                    // Each decision may make room for somebody who waits for it.
                    self.dirty.extend(self.book.call(now));
                    self.dirty.extend(self.lanes.call());
                    if self.dirty.is_empty() {
                        break;
                    }
                    let mut turns: Vec<String> =
                        std::mem::take(&mut self.dirty).into_iter().collect();
                    turns.sort_by_cached_key(|uid| Some(self.book.proxy(uid)?.ticket.clone()));
                    slice.pause().await;
                    for uid in turns {
                        self.take_turn(&uid, &mut slice).await;
                        slice.pause().await;
                    }
                }
            } else {
                // All is looked at on becoming the leader.
                leads = false;
                self.paint_leads(false);
                self.dirty.clear();
                self.lanes.forget_waiting();
            }
        }
    }
}
