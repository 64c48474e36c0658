//! The loop of the ask edge: takes in events, choices and answers, decides for what they concern, sends requests.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use pilotage_clusters::{Event, Watch};
use pilotage_proxy::{
    Action, Answer, Book, ChoiceFate, Gate, Note, Outcome, Plan, Ranked, Reach, Reply,
    board::Posting, book::Turn, class::Class, plugins::GrantFailure, profile::RANKING, rank::rank,
};
use pilotage_runtime::ready;
use pilotage_sched::{PodInfo, PodUid};
use pilotage_sched_driver::{PodBinder, publish::EventType};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Ask,
    act::Acting,
    places::Places,
    port::{Choice, Inbox, NodeEvent},
};
use crate::{
    fleet::{Fleet, FleetEvent},
    timers::{Timers, sleep_until},
};

/// A ranking is made anew after this, so that a wave is widened by what is known then.
const RANKING_LASTS: Duration = Duration::from_millis(500);

/// Reason of the event and the condition of a pod that waits without a cycle.
const WAITING: &str = "Waiting";

/// How an action ended.
struct Finished {
    uid: String,
    action: Action,
    reply: Reply,
}

/// What is kept of one proxy pod, besides what the book knows.
struct Proxy {
    pod: Arc<Pod>,
    info: Option<PodInfo>,
    choice: Option<(String, oneshot::Sender<Result<(), GrantFailure>>)>,
    ranking: Vec<Ranked>,
    ranked_at: Option<Duration>,
}

pub(super) struct Edge {
    parts: Ask,
    acting: Arc<Acting>,
    started: Instant,
    book: Book,
    proxies: HashMap<String, Proxy>,
    places: Places,
    timers: Timers<String>,
    dirty: BTreeSet<String>,
    finished: mpsc::UnboundedSender<Finished>,
    answers: mpsc::UnboundedReceiver<Finished>,
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
        Self {
            acting: Arc::new(acting),
            parts,
            started: Instant::now(),
            book: Book::default(),
            proxies: HashMap::new(),
            places: Places::default(),
            timers: Timers::default(),
            dirty: BTreeSet::new(),
            finished,
            answers,
        }
    }

    /// Works until `shutdown`.
    pub(super) async fn run(
        mut self,
        proxies: Watch<Pod>,
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
                .set_reach(target.node(), Reach::Lost, Duration::ZERO);
        }
        let Inbox {
            mut choices,
            mut nodes,
        } = inbox;
        let mut pods = proxies.subscribe();
        let mut ready = Some(ready);
        let leadership = self.parts.leadership.clone();
        let mut leads = leadership.is_leader();
        loop {
            let wake_at = self.timers.next().map(|at| self.started + at);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(finished) = self.answers.recv() => self.take_answer(finished),
                Some(event) = pods.recv() => self.take_pod(event),
                Some(event) = nodes.recv() => self.take_node(event),
                Some(event) = fleet.recv() => self.take_fleet(event),
                Some(choice) = choices.recv() => self.take_choice(choice),
                () = sleep_until(wake_at) => {}
                () = leadership.acquired(), if !leads => {
                    leads = true;
                    self.mark_all();
                }
            }
            // All that has come meanwhile is taken in first, so that one decision serves a burst.
            while let Ok(finished) = self.answers.try_recv() {
                self.take_answer(finished);
            }
            while let Ok(event) = pods.try_recv() {
                self.take_pod(event);
            }
            while let Ok(event) = nodes.try_recv() {
                self.take_node(event);
            }
            while let Ok(event) = fleet.try_recv() {
                self.take_fleet(event);
            }
            while let Ok(choice) = choices.try_recv() {
                self.take_choice(choice);
            }
            if proxies.is_synced()
                && let Some(gate) = ready.take()
            {
                gate.release();
            }
            let now = self.started.elapsed();
            while let Some(uid) = self.timers.pop(now) {
                self.dirty.insert(uid);
            }
            if leads && leadership.is_leader() {
                while let Some(uid) = self.dirty.pop_first() {
                    self.step(&uid);
                }
            } else {
                // All is looked at on becoming the leader.
                leads = false;
                self.dirty.clear();
            }
        }
    }

    fn mark_all(&mut self) {
        self.dirty.extend(self.proxies.keys().cloned());
    }

    fn take_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Applied(pod) => self.apply_pod(pod),
            Event::Deleted(pod) | Event::Gone(pod) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.forget(uid);
                }
            }
            Event::Synced => {}
        }
    }

    fn apply_pod(&mut self, pod: Arc<Pod>) {
        let Some(uid) = self.book.proxy_applied(&pod) else {
            return;
        };
        // What can't be read of it is told by the scheduler's own report.
        let info = PodInfo::parse(Arc::clone(&pod)).ok();
        if let Some(proxy) = self.proxies.get_mut(&uid) {
            (proxy.pod, proxy.info) = (pod, info);
        } else {
            let proxy = Proxy {
                pod,
                info,
                choice: None,
                ranking: Vec::new(),
                ranked_at: None,
            };
            self.proxies.insert(uid.clone(), proxy);
        }
        self.dirty.insert(uid);
    }

    fn forget(&mut self, uid: &str) {
        self.book.proxy_gone(uid);
        if let Some(Proxy {
            choice: Some((node, done)),
            ..
        }) = self.proxies.remove(uid)
        {
            let reason = "the pod is gone".to_owned();
            let _ = done.send(Err(GrantFailure::Failed { node, reason }));
        }
        self.places.forget(uid);
        self.parts.board.remove(uid);
        self.timers.set(&uid.to_owned(), None);
        self.dirty.remove(uid);
    }

    fn take_node(&mut self, event: NodeEvent) {
        let changed = match event {
            NodeEvent::Applied(node) => self.places.apply(&node),
            NodeEvent::Deleted(name) => self.places.remove(&name),
        };
        if !changed {
            return;
        }
        // A node that came, went or changed may suit pods that nobody takes.
        for (uid, proxy) in &mut self.proxies {
            let placed = |uid| Some(self.book.proxy(uid)?.node_name.is_some());
            if placed(uid) == Some(false) {
                proxy.ranked_at = None;
                self.dirty.insert(uid.clone());
            }
        }
    }

    fn take_fleet(&mut self, event: FleetEvent) {
        let now = self.started.elapsed();
        match event {
            FleetEvent::Reach(node, reach) => {
                if reach == Reach::Reachable {
                    // What it didn't answer before says nothing now.
                    self.places.set_silent(&node, false);
                }
                self.book.set_reach(&node, reach, now);
                self.mark_all();
            }
            FleetEvent::Terms(node, terms) => {
                self.book.set_terms(&node, terms, now);
                self.mark_all();
            }
            FleetEvent::Chaperon(node, news) => {
                if let Some(parent) = self.book.chaperon(&node, news, now) {
                    self.changed(&node, parent);
                }
            }
        }
    }

    /// A chaperon behind `node` changed.
    fn changed(&mut self, node: &str, parent: String) {
        let chaperons = self.book.chaperons(&parent);
        if chaperons
            .iter()
            .any(|c| c.node == node && c.class != Class::Asked)
        {
            self.places.set_silent(node, false);
        }
        self.dirty.insert(parent);
    }

    fn take_choice(&mut self, choice: Choice) {
        let Choice { uid, node, done } = choice;
        if let Some(proxy) = self.proxies.get_mut(&uid) {
            proxy.choice = Some((node, done));
            self.dirty.insert(uid);
        } else {
            let reason = "the pod is gone".to_owned();
            let _ = done.send(Err(GrantFailure::Failed { node, reason }));
        }
    }

    fn take_answer(&mut self, finished: Finished) {
        let Finished {
            uid,
            action,
            mut reply,
        } = finished;
        self.acting.fleet.drop_old(action.node(), &mut reply);
        if let Outcome::Unknown(why) | Outcome::Refused(why) = &reply.outcome {
            tracing::warn!(pod = %uid, ?action, %why, "request failed");
        }
        if let (Some(pod), Some(proxy)) = (&reply.proxy, self.proxies.get_mut(&uid)) {
            proxy.info = PodInfo::parse(Arc::clone(pod)).ok();
            proxy.pod = Arc::clone(pod);
        }
        let now = self.started.elapsed();
        self.book
            .answered(&uid, &action, reply, &self.parts.settings, now);
        match action.node() {
            Some(node) => self.changed(node, uid),
            None => {
                self.dirty.insert(uid);
            }
        }
    }

    fn step(&mut self, uid: &str) {
        let now = self.started.elapsed();
        self.rank(uid, now);
        if let Some(node) = self.book.unknown_target(uid) {
            self.acting.fleet.look_for(node);
        }
        let settings = self.parts.settings.under_load(self.places.open_questions());
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let turn = Turn {
            ranking: &proxy.ranking,
            choice: proxy.choice.as_ref().map(|(node, _)| node.as_str()),
            settings: &settings,
            now,
        };
        let Some(plan) = self.book.plan(uid, turn) else {
            return;
        };
        let Plan {
            actions,
            gate,
            answers,
            choice,
            tell,
            wake_at,
        } = plan;
        self.timers.set(&uid.to_owned(), wake_at);
        let placed = self
            .book
            .proxy(uid)
            .is_none_or(|view| view.node_name.is_some());
        let chaperons = if placed {
            &[]
        } else {
            self.book.chaperons(uid)
        };
        self.places.see(uid, chaperons);
        if let Some(note) = tell {
            let (scheduling, note) = (&self.parts.scheduling, note.to_string());
            let event = EventType::Warning;
            scheduling.record(&proxy.pod, event, WAITING, "Scheduling", note.clone());
            scheduling.say_unscheduled(Arc::clone(&proxy.pod), WAITING, note);
        }
        match choice {
            ChoiceFate::Undecided => {}
            ChoiceFate::Done => {
                if let Some((_, done)) = proxy.choice.take() {
                    let _ = done.send(Ok(()));
                }
            }
            ChoiceFate::Failed(reason) => {
                if let Some((node, done)) = proxy.choice.take() {
                    let _ = done.send(Err(GrantFailure::Failed { node, reason }));
                }
                // Decide again without it.
                self.dirty.insert(uid.to_owned());
            }
        }
        let waits = |(_, answer): &(&String, &Answer)| **answer == Answer::Waiting;
        let waiting: Vec<String> = answers
            .iter()
            .filter(waits)
            .map(|(node, _)| node.clone())
            .collect();
        let settled = gate == Gate::Closed(Note::Settled);
        let posting = Posting {
            gate,
            answers: Arc::new(answers),
        };
        if self.parts.board.post(uid, posting) && !settled {
            self.parts.scheduling.activate(&PodUid::from(uid));
        }
        // A wave that is widened while others are still to answer: they were too slow to be trusted alone.
        if actions
            .iter()
            .any(|action| matches!(action, Action::Ask { .. }))
        {
            for node in waiting {
                let silent = self.book.is_silent(&node, settings.silence, now);
                self.places.set_silent(&node, silent);
            }
        }
        for action in actions {
            if let Action::Ask { node } = &action {
                self.places.asked(uid, node);
            }
            self.send(uid, action);
        }
    }

    /// Makes the pod's ranking anew, if it needs one and has none of late.
    fn rank(&mut self, uid: &str, now: Duration) {
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let Some(view) = self.book.proxy(uid) else {
            return;
        };
        let unplaced = view.node_name.is_none() && !view.ending && !view.gated && view.has_manifest;
        let fresh = proxy.ranked_at.is_some_and(|at| now < at + RANKING_LASTS);
        if !unplaced || fresh || proxy.choice.is_some() {
            return;
        }
        proxy.ranked_at = Some(now);
        let Some(info) = &proxy.info else { return };
        proxy.ranking = match self.parts.scheduling.evaluate(RANKING, info) {
            Ok(evaluation) => {
                let feasible: Vec<_> = evaluation
                    .feasible
                    .into_iter()
                    .map(|scored| (scored.node.to_string(), scored.total))
                    .collect();
                rank(uid, &info.requests.total, &feasible, &self.places.rooms())
            }
            Err(error) => {
                tracing::error!(pod = %uid, %error, "can't rank targets");
                Vec::new()
            }
        };
    }

    fn send(&self, uid: &str, action: Action) {
        let (Some(view), Some(proxy)) = (self.book.proxy(uid), self.proxies.get(uid)) else {
            return;
        };
        let (view, pod) = (view.clone(), Arc::clone(&proxy.pod));
        let (acting, finished) = (Arc::clone(&self.acting), self.finished.clone());
        tokio::spawn(async move {
            let reply = acting.act(&view, &pod, &action).await;
            let _ = finished.send(Finished {
                uid: view.uid,
                action,
                reply,
            });
        });
    }
}
