//! The loop of the feedback controller: takes in events and answers, decides for what they concern, sends requests.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::PodChaperon;
use pilotage_clusters::{Event, Watch};
use pilotage_proxy::{
    Outcome, ProxyView, Reach, World,
    feedback::{Action, Memory, Observed, Plan, decide},
};
use pilotage_runtime::ready::Gate;
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Feedback,
    act::{Subject, act},
};
use crate::{
    fleet::{Fleet, FleetEvent, has_target, take_in},
    timers::{Timers, sleep_until},
};

/// How an action ended.
struct Finished {
    uid: String,
    action: Action,
    outcome: Outcome,
    chaperon: Option<Arc<PodChaperon>>,
}

/// How long to wait before looking again for a target that a record names and nobody knows.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What is kept of one parent UID.
#[derive(Default)]
struct Parent {
    pod: Option<(ProxyView, Arc<Pod>)>,
    memory: Memory,
    told: Option<String>,
}

pub(super) struct Edge {
    parts: Arc<Feedback>,
    fleet: Fleet,
    started: Instant,
    world: World,
    parents: HashMap<String, Parent>,
    reach: BTreeMap<String, Reach>,
    timers: Timers<String>,
    dirty: BTreeSet<String>,
    proxies_known: bool,
    /// Virtual nodes that records name and nobody knows, while a live read looks for their targets.
    looking: HashSet<String>,
    looked: mpsc::UnboundedSender<(String, bool)>,
    looks: mpsc::UnboundedReceiver<(String, bool)>,
    finished: mpsc::UnboundedSender<Finished>,
    answers: mpsc::UnboundedReceiver<Finished>,
}

impl Edge {
    pub(super) fn new(parts: Arc<Feedback>, fleet: Fleet) -> Self {
        let (finished, answers) = mpsc::unbounded_channel();
        let (looked, looks) = mpsc::unbounded_channel();
        Self {
            parts,
            fleet,
            started: Instant::now(),
            world: World::default(),
            parents: HashMap::new(),
            reach: BTreeMap::new(),
            timers: Timers::default(),
            dirty: BTreeSet::new(),
            proxies_known: false,
            looking: HashSet::new(),
            looked,
            looks,
            finished,
            answers,
        }
    }

    /// Works until `shutdown`.
    pub(super) async fn run(
        mut self,
        proxies: Watch<Pod>,
        mut fleet: mpsc::UnboundedReceiver<FleetEvent>,
        shutdown: CancellationToken,
        ready: Gate,
    ) {
        // A target that isn't known yet isn't a target that doesn't exist: the difference lifts finalizers.
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
        let mut pods = proxies.subscribe();
        let mut ready = Some(ready);
        // Everything is seen again on becoming the leader, so nothing is lost by staying quiet before.
        let leadership = self.parts.leadership.clone();
        let mut leads = leadership.is_leader();
        loop {
            let wake_at = self.timers.next().map(|at| self.started + at);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(finished) = self.answers.recv() => self.take_answer(finished),
                Some(event) = pods.recv() => self.take_pod(event),
                Some(event) = fleet.recv() => self.take_fleet(event),
                Some(look) = self.looks.recv() => self.take_look(look),
                () = sleep_until(wake_at) => {}
                () = leadership.acquired(), if !leads => {
                    leads = true;
                    self.mark_all();
                }
            }
            self.drain(&mut pods, &mut fleet);
            if self.proxies_known
                && let Some(gate) = ready.take()
            {
                gate.release();
            }
            while let Some(uid) = self.timers.pop(self.started.elapsed()) {
                self.dirty.insert(uid);
            }
            if shutdown.is_cancelled() {
                return;
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

    /// Takes in all that has come meanwhile, so that one decision serves a burst.
    fn drain(
        &mut self,
        pods: &mut mpsc::UnboundedReceiver<Event<Pod>>,
        fleet: &mut mpsc::UnboundedReceiver<FleetEvent>,
    ) {
        while let Ok(finished) = self.answers.try_recv() {
            self.take_answer(finished);
        }
        while let Ok(event) = pods.try_recv() {
            self.take_pod(event);
        }
        while let Ok(event) = fleet.try_recv() {
            self.take_fleet(event);
        }
    }

    fn mark_all(&mut self) {
        self.dirty.extend(self.parents.keys().cloned());
        self.dirty.extend(self.world.parents().map(str::to_owned));
    }

    fn take_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Applied(pod) => {
                let Some(view) = ProxyView::of(&pod) else {
                    return;
                };
                let uid = view.uid.clone();
                self.parents.entry(uid.clone()).or_default().pod = Some((view, pod));
                self.dirty.insert(uid);
            }
            Event::Deleted(pod) | Event::Gone(pod) => {
                let Some(uid) = pod.metadata.uid.clone() else {
                    return;
                };
                if self.world.of(&uid).is_empty() {
                    self.parents.remove(&uid);
                    self.timers.set(&uid, None);
                } else if let Some(parent) = self.parents.get_mut(&uid) {
                    parent.pod = None;
                    self.dirty.insert(uid);
                }
            }
            Event::Synced => {
                if !self.proxies_known {
                    self.proxies_known = true;
                    self.mark_all();
                }
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
                    if let Some(gone) = &change.gone {
                        self.parents
                            .entry(change.parent.clone())
                            .or_default()
                            .memory
                            .confirm_gone(gone);
                    }
                    self.dirty.insert(change.parent);
                }
            }
        }
    }

    /// A live read has looked for the target behind `node`.
    fn take_look(&mut self, (node, exists): (String, bool)) {
        self.looking.remove(&node);
        if !exists {
            self.reach.entry(node).or_insert(Reach::NoSuchTarget);
        }
        self.mark_all();
    }

    /// Looks for a target that a record names and nobody knows: not knowing it proves nothing.
    fn look_for(&mut self, node: &str) {
        if self.reach.contains_key(node) || !self.looking.insert(node.to_owned()) {
            return;
        }
        let (parts, looked) = (Arc::clone(&self.parts), self.looked.clone());
        let node = node.to_owned();
        tokio::spawn(async move {
            let exists = match has_target(&parts.client, &node).await {
                Ok(exists) => exists,
                Err(error) => {
                    tracing::warn!(%node, %error, "can't look for a target");
                    true
                }
            };
            if exists {
                // The watch will bring it; if it doesn't, this is asked again.
                tokio::select! {
                    () = looked.closed() => return,
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
            }
            let _ = looked.send((node, exists));
        });
    }

    fn take_answer(&mut self, finished: Finished) {
        let Finished {
            uid,
            action,
            outcome,
            chaperon,
        } = finished;
        let now = self.started.elapsed();
        if let Outcome::Unknown(why) = &outcome {
            tracing::warn!(parent = %uid, ?action, %why, "request failed");
        }
        let node = match &action {
            Action::DeleteChaperon { node, .. }
            | Action::ConfirmGone { node, .. }
            | Action::DeleteIfOrphan { node, .. } => Some(node.clone()),
            _ => None,
        };
        if let Some(node) = node {
            // A reply may come after the news of its object's end.
            let parent = self.parents.get(&uid);
            let gone = |uid: &String| parent.is_some_and(|parent| parent.memory.is_gone(uid));
            if let Some(chaperon) = chaperon
                && !chaperon.metadata.uid.as_ref().is_some_and(gone)
            {
                self.world.apply(&node, chaperon);
            }
            if let (Outcome::Gone, pilotage_proxy::feedback::Key::Chaperon(gone)) =
                (&outcome, action.key())
            {
                self.world.remove(&uid, &node, &gone);
            }
        }
        if let Some(parent) = self.parents.get_mut(&uid) {
            parent
                .memory
                .finish(&action, &outcome, &self.parts.settings, now);
        }
        self.dirty.insert(uid);
    }

    fn step(&mut self, uid: &str) {
        let recorded = self.parents.get(uid).and_then(|parent| parent.pod.as_ref());
        if let Some(record) = recorded.and_then(|(view, _)| view.record.record()) {
            let node = record.node.clone();
            self.look_for(&node);
        }
        let chaperons = self.world.of(uid);
        let parent = self.parents.entry(uid.to_owned()).or_default();
        let known = parent.pod.is_some();
        if !known && (chaperons.is_empty() || !self.proxies_known) {
            // Nothing is left of it, or it is too early to say.
            if chaperons.is_empty() {
                self.parents.remove(uid);
                self.timers.set(&uid.to_owned(), None);
            }
            return;
        }
        let now = self.started.elapsed();
        let plan = decide(&Observed {
            proxy: parent.pod.as_ref().map(|(view, pod)| (view, pod)),
            chaperons,
            reach: &self.reach,
            cluster: &self.parts.cluster,
            memory: &parent.memory,
            now,
        });
        parent.memory.begin(&plan, now);
        let Plan {
            actions,
            leftovers: _,
            differs: _,
            judged_on: _,
            tell,
            wake_at,
        } = plan;
        self.timers.set(&uid.to_owned(), wake_at);
        if tell != parent.told {
            if let (Some(note), Some((_, pod))) = (&tell, &parent.pod) {
                self.parts.events.record(Occurrence {
                    regarding: Regarding::pod(pod),
                    type_: EventType::Warning,
                    reason: "DelegateUnknown",
                    action: "Waiting",
                    note: note.clone(),
                    controller: "pilotage-feedback".into(),
                });
            }
            parent.told = tell;
        }
        let view = parent.pod.as_ref().map(|(view, _)| view);
        let requests: Vec<_> = actions
            .into_iter()
            .filter_map(|action| Some((subject(uid, view, &action)?, action)))
            .collect();
        for (subject, action) in requests {
            self.send(subject, action);
        }
    }

    fn send(&self, subject: Subject, action: Action) {
        let (parts, fleet) = (Arc::clone(&self.parts), self.fleet.clone());
        let finished = self.finished.clone();
        tokio::spawn(async move {
            let answer = act(&parts.client, &fleet, &subject, &action).await;
            let _ = finished.send(Finished {
                uid: subject.uid,
                action,
                outcome: answer.outcome,
                chaperon: answer.chaperon,
            });
        });
    }
}

/// The pod that an action is about.
fn subject(uid: &str, proxy: Option<&ProxyView>, action: &Action) -> Option<Subject> {
    let (namespace, name) = match (proxy, action) {
        (Some(proxy), _) => (&proxy.namespace, &proxy.name),
        (None, Action::DeleteIfOrphan { parent, .. }) => (&parent.namespace, &parent.name),
        (None, _) => return None,
    };
    Some(Subject {
        namespace: namespace.clone(),
        name: name.clone(),
        uid: uid.to_owned(),
    })
}
