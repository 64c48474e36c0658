//! The loop of the ask edge: takes in events, choices and answers, decides for what they concern, sends requests.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::{Pod, Taint};
use pilotage_api::{PodChaperon, keys};
use pilotage_clusters::{Event, Watch};
use pilotage_proxy::{
    Action, ActionKey, Answer, ChaperonView, ChoiceFate, Gate, Memory, Note, Observed, Outcome,
    Plan, ProxyView, Ranked, Reach, World,
    board::Posting,
    decide,
    plugins::GrantFailure,
    profile::RANKING,
    rank::{Room, rank},
    see,
    view::version,
};
use pilotage_runtime::ready;
use pilotage_sched::{PodInfo, PodUid, resources::Resources};
use pilotage_sched_driver::{PodBinder, publish::EventType};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Ask,
    act::{Acting, Reply},
    port::{Choice, Inbox, NodeEvent},
};
use crate::{
    fleet::{Fleet, FleetEvent, take_in},
    timers::{Timers, sleep_until},
};

/// A ranking is made anew after this, so that a wave is widened by what is known then.
const RANKING_LASTS: Duration = Duration::from_millis(500);

/// How an action ended.
struct Finished {
    uid: String,
    action: Action,
    reply: Reply,
}

/// What is kept of one proxy pod.
struct Proxy {
    view: ProxyView,
    pod: Arc<Pod>,
    info: Option<PodInfo>,
    memory: Memory,
    choice: Option<(String, oneshot::Sender<Result<(), GrantFailure>>)>,
    ranking: Vec<Ranked>,
    ranked_at: Option<Duration>,
}

/// What of a node decides whom it suits.
#[derive(PartialEq)]
struct Terms {
    labels: Option<BTreeMap<String, String>>,
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

/// What is kept of one virtual node.
#[derive(Default)]
struct Place {
    /// What decides whom the node suits. Its room changes all the time, and only says whom to ask first.
    terms: Option<Terms>,
    shapes: Vec<(i64, Resources)>,
    /// It let a question pass without an answer, and hasn't answered any since.
    silent: bool,
    /// Pods that were asked there and may still take room that isn't published as taken.
    outstanding: BTreeSet<String>,
}

pub(super) struct Edge {
    parts: Ask,
    acting: Arc<Acting>,
    started: Instant,
    world: World,
    proxies: HashMap<String, Proxy>,
    places: BTreeMap<String, Place>,
    reach: BTreeMap<String, Reach>,
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
            world: World::default(),
            proxies: HashMap::new(),
            places: BTreeMap::new(),
            reach: BTreeMap::new(),
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
            self.reach.insert(target.node().to_owned(), Reach::Lost);
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
        let Some(view) = ProxyView::of(&pod) else {
            return;
        };
        let uid = view.uid.clone();
        let newer =
            |known: &ProxyView| version(&known.resource_version) < version(&view.resource_version);
        match self.proxies.get_mut(&uid) {
            Some(proxy) if newer(&proxy.view) => {
                proxy.info = PodInfo::parse(Arc::clone(&pod)).ok();
                (proxy.view, proxy.pod) = (view, pod);
            }
            Some(_) => return,
            None => {
                // What can't be read of it is told by the scheduler's own report.
                let proxy = Proxy {
                    view,
                    info: PodInfo::parse(Arc::clone(&pod)).ok(),
                    pod,
                    memory: Memory::default(),
                    choice: None,
                    ranking: Vec::new(),
                    ranked_at: None,
                };
                self.proxies.insert(uid.clone(), proxy);
            }
        }
        self.dirty.insert(uid);
    }

    fn forget(&mut self, uid: &str) {
        if let Some(Proxy {
            choice: Some((node, done)),
            ..
        }) = self.proxies.remove(uid)
        {
            let reason = "the pod is gone".to_owned();
            let _ = done.send(Err(GrantFailure::Failed { node, reason }));
        }
        for place in self.places.values_mut() {
            place.outstanding.remove(uid);
        }
        self.parts.board.remove(uid);
        self.timers.set(&uid.to_owned(), None);
        self.dirty.remove(uid);
    }

    fn take_node(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Applied(node) => {
                let Some(name) = node.metadata.name.clone() else {
                    return;
                };
                let annotations = node.metadata.annotations.as_ref();
                let shapes = annotations
                    .and_then(|annotations| annotations.get(keys::FREE_SHAPES))
                    .and_then(|text| serde_json::from_str(text).ok())
                    .map(|shapes: Vec<_>| Room::shapes_of(&shapes));
                let place = self.places.entry(name).or_default();
                place.shapes = shapes.unwrap_or_default();
                let spec = node.spec.as_ref();
                let terms = Some(Terms {
                    labels: node.metadata.labels.clone(),
                    taints: spec.and_then(|spec| spec.taints.clone()),
                    unschedulable: spec.and_then(|spec| spec.unschedulable),
                });
                if place.terms == terms {
                    return;
                }
                place.terms = terms;
            }
            NodeEvent::Deleted(name) => {
                if self.places.remove(&name).is_none() {
                    return;
                }
            }
        }
        // A node that came, went or changed may suit pods that nobody takes.
        for (uid, proxy) in &mut self.proxies {
            if proxy.view.node_name.is_none() {
                proxy.ranked_at = None;
                self.dirty.insert(uid.clone());
            }
        }
    }

    fn take_fleet(&mut self, event: FleetEvent) {
        match event {
            FleetEvent::Reach { node, reach } => {
                self.reach.insert(node, reach);
                self.mark_all();
            }
            FleetEvent::Removed { node } => {
                self.reach.insert(node.clone(), Reach::NoSuchTarget);
                self.world.drop_target(&node);
                self.mark_all();
            }
            FleetEvent::Chaperon { node, event } => {
                if let Some(change) = take_in(&mut self.world, &node, event) {
                    self.changed(&node, &change.parent, change.gone.as_deref());
                }
            }
        }
    }

    /// A chaperon behind `node` changed.
    fn changed(&mut self, node: &str, parent: &str, gone: Option<&str>) {
        if let (Some(gone), Some(proxy)) = (gone, self.proxies.get_mut(parent)) {
            proxy.memory.confirm_gone(gone);
        }
        let answered = self
            .world
            .of(parent)
            .iter()
            .any(|c| c.node == node && c.class != pilotage_proxy::class::Class::Asked);
        if answered && let Some(place) = self.places.get_mut(node) {
            place.silent = false;
        }
        self.dirty.insert(parent.to_owned());
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
        let Finished { uid, action, reply } = finished;
        let now = self.started.elapsed();
        let outcome = match reply {
            Reply::Remote(answer) => {
                self.take_remote(&uid, &action, answer.chaperon, &answer.outcome);
                answer.outcome
            }
            Reply::Local(outcome, pod) => {
                if let Some(pod) = pod {
                    self.apply_pod(pod);
                }
                let bound = matches!(action, Action::BindProxy { .. }) && outcome == Outcome::Done;
                if let (true, Action::BindProxy { node, .. }) = (bound, &action)
                    && let Some(proxy) = self.proxies.get_mut(&uid)
                {
                    proxy.view.node_name = Some(node.clone());
                }
                outcome
            }
        };
        if let Outcome::Unknown(why) | Outcome::Refused(why) = &outcome {
            tracing::warn!(pod = %uid, ?action, %why, "request failed");
        }
        if let Some(proxy) = self.proxies.get_mut(&uid) {
            proxy
                .memory
                .finish(&action, &outcome, &self.parts.settings, now);
            self.dirty.insert(uid);
        }
    }

    fn take_remote(
        &mut self,
        uid: &str,
        action: &Action,
        chaperon: Option<Arc<PodChaperon>>,
        outcome: &Outcome,
    ) {
        let (Action::Ask { node }
        | Action::Grant { node, .. }
        | Action::DeleteChaperon { node, .. }
        | Action::ConfirmGone { node, .. }
        | Action::DeleteUnlessRecorded { node, .. }
        | Action::BindProxy { node, .. }) = action
        else {
            return;
        };
        // A reply may come after the news of its object's end.
        let proxy = self.proxies.get(uid);
        let gone = |uid: &String| proxy.is_some_and(|proxy| proxy.memory.is_gone(uid));
        if let Some(chaperon) = chaperon
            && !chaperon.metadata.uid.as_ref().is_some_and(gone)
            && let Some(change) = self.world.apply(node, chaperon)
        {
            self.changed(node, &change.parent, change.gone.as_deref());
        }
        if let (Outcome::Gone, ActionKey::Chaperon(gone)) = (outcome, action.key()) {
            self.world.remove(uid, node, &gone);
        }
    }

    fn step(&mut self, uid: &str) {
        let now = self.started.elapsed();
        self.rank(uid, now);
        let open = self.places.values().map(|place| place.outstanding.len());
        let settings = self.parts.settings.under_load(open.sum());
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let chaperons = self.world.of(uid);
        see(&mut proxy.memory, &proxy.view, chaperons, now);
        let plan = decide(&Observed {
            proxy: &proxy.view,
            chaperons,
            reach: &self.reach,
            ranking: &proxy.ranking,
            choice: proxy.choice.as_ref().map(|(node, _)| node.as_str()),
            memory: &proxy.memory,
            settings: &settings,
            now,
        });
        proxy.memory.begin(&plan, now);
        let Plan {
            actions,
            gate,
            answers,
            choice,
            tell,
            wake_at,
        } = plan;
        self.timers.set(&uid.to_owned(), wake_at);
        for (node, place) in &mut self.places {
            let open = chaperons
                .iter()
                .any(|c| c.node == *node && is_outstanding(c))
                && proxy.view.node_name.is_none();
            if open {
                place.outstanding.insert(uid.to_owned());
            } else {
                place.outstanding.remove(uid);
            }
        }
        if let Some(note) = tell {
            let (pod, note) = (&proxy.pod, note.to_string());
            self.parts
                .scheduling
                .record(pod, EventType::Warning, "Waiting", "Scheduling", note);
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
                if let Some(place) = self.places.get_mut(&node) {
                    place.silent = true;
                }
            }
        }
        for action in actions {
            if let Action::Ask { node } = &action
                && let Some(place) = self.places.get_mut(node)
            {
                place.outstanding.insert(uid.to_owned());
            }
            self.send(uid, action);
        }
    }

    /// Makes the pod's ranking anew, if it needs one and has none of late.
    fn rank(&mut self, uid: &str, now: Duration) {
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let view = &proxy.view;
        let unplaced = view.node_name.is_none() && !view.ending && !view.gated && view.has_manifest;
        let fresh = proxy.ranked_at.is_some_and(|at| now < at + RANKING_LASTS);
        if !unplaced || fresh || proxy.choice.is_some() {
            return;
        }
        let rooms = self.places.iter().map(|(node, place)| {
            let room = Room {
                shapes: place.shapes.clone(),
                outstanding: i64::try_from(place.outstanding.len()).unwrap_or(i64::MAX),
                silent: place.silent,
            };
            (node.clone(), room)
        });
        proxy.ranked_at = Some(now);
        let Some(info) = &proxy.info else { return };
        proxy.ranking = match self.parts.scheduling.evaluate(RANKING, info) {
            Ok(evaluation) => {
                let feasible: Vec<_> = evaluation
                    .feasible
                    .into_iter()
                    .map(|scored| (scored.node.to_string(), scored.total))
                    .collect();
                rank(uid, &info.requests.total, &feasible, &rooms.collect())
            }
            Err(error) => {
                tracing::error!(pod = %uid, %error, "can't rank targets");
                Vec::new()
            }
        };
    }

    fn send(&self, uid: &str, action: Action) {
        let Some(proxy) = self.proxies.get(uid) else {
            return;
        };
        let (view, pod) = (proxy.view.clone(), Arc::clone(&proxy.pod));
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

/// Whether a candidate may still take room that its target hasn't published as taken.
fn is_outstanding(chaperon: &ChaperonView) -> bool {
    use pilotage_proxy::class::Class;
    matches!(
        chaperon.class,
        Class::Asked | Class::Reserved(_) | Class::Granted(_) | Class::VoidReserved(_)
    )
}
