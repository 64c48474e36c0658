//! The loop of the feedback controller: takes in events and answers, decides for what they concern, sends requests.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use pilotage_clusters::{Event, Feed, Watch};
use pilotage_model::changes::Digest;
use pilotage_proxy::{
    Outcome, ProxyView, Reach, Reply,
    feedback::{Action, Book, Plan, Refused},
};
use pilotage_runtime::ready::Gate;
use pilotage_runtime::slice::Slice;
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding, Warnings};
use tokio::{sync::mpsc, time::sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    Feedback,
    act::{Subject, act},
};
use crate::{
    caught::{AFTER_PANIC, PANICKED, caught, note, replied},
    clock::Clock,
    fleet::{Fleet, FleetEvent, free},
    intake::{About, Intake, News, take_in},
    lanes::Lanes,
    proxies::keep_less,
    timers::Timers,
};

/// How an action ended.
struct Finished {
    uid: String,
    action: Action,
    reply: Reply,
}

pub(super) struct Edge {
    parts: Arc<Feedback>,
    fleet: Fleet,
    clock: Clock,
    book: Book,
    /// What the author of each pod was told last.
    told: HashMap<String, String>,
    /// The change of each pod of which it was told that the delegate doesn't have it.
    told_refused: HashMap<String, Digest>,
    /// Pods that were told that they aren't their target's any more.
    told_released: HashSet<String>,
    timers: Timers<String>,
    dirty: BTreeSet<String>,
    lanes: Lanes,
    finished: mpsc::UnboundedSender<Finished>,
    answers: mpsc::UnboundedReceiver<Finished>,
    warnings: Warnings,
}

impl News for Finished {
    fn about(&self) -> About {
        About::Proxy(self.uid.clone())
    }
}

impl Intake for Edge {
    fn mistaken(&mut self, pod: &Pod, panic: &str) {
        self.warnings.warn(occurrence(pod, PANICKED, note(panic)));
    }

    fn mistaken_about(&mut self, uid: &str, panic: &str) {
        self.panicked(uid, panic);
    }
}

impl Edge {
    pub(super) fn new(parts: Arc<Feedback>, fleet: Fleet) -> Self {
        let (finished, answers) = mpsc::unbounded_channel();
        Self {
            book: Book::new(parts.cluster.clone()),
            warnings: Warnings::new(parts.events.clone(), parts.leadership.clone()),
            parts,
            fleet,
            clock: Clock::start(),
            told: HashMap::new(),
            told_refused: HashMap::new(),
            told_released: HashSet::new(),
            timers: Timers::default(),
            dirty: BTreeSet::new(),
            lanes: Lanes::default(),
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
            self.book
                .set_reach(target.node(), Reach::Unknown, Duration::ZERO);
        }
        let mut pods = proxies.subscribe();
        let mut ready = Some(ready);
        // Everything is seen again on becoming the leader, so nothing is lost by staying quiet before.
        let leadership = self.parts.leadership.clone();
        let mut leads = leadership.is_leader();
        // What was waited for above isn't a time in which nobody ran.
        self.clock = Clock::start();
        loop {
            let wake_at = self.clock.wake_at(self.timers.next());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(finished) = self.answers.recv() => self.take_in(finished, Self::take_answer),
                Some(event) = pods.recv() => self.take_in(event, Self::take_pod),
                Some(event) = fleet.recv() => self.take_in(event, Self::take_fleet),
                () = sleep_until(wake_at) => {}
                () = leadership.acquired(), if !leads => {
                    leads = true;
                    self.mark_all();
                }
            }
            let mut slice = Slice::begin();
            self.drain(&mut pods, &mut fleet, &mut slice).await;
            if self.book.knows_proxies()
                && let Some(gate) = ready.take()
            {
                gate.release();
            }
            let now = self.clock.now();
            while let Some(uid) = self.timers.pop(now) {
                self.dirty.insert(uid);
            }
            if shutdown.is_cancelled() {
                return;
            }
            if leads && leadership.is_leader() {
                self.warnings.tell();
                loop {
                    self.dirty.extend(self.lanes.call());
                    if self.dirty.is_empty() {
                        break;
                    }
                    while let Some(uid) = self.dirty.pop_first() {
                        if !self.timers.is_held(&uid)
                            && let Err(panic) = caught(|| self.step(&uid))
                        {
                            self.panicked(&uid, &panic);
                        }
                        slice.pause().await;
                    }
                }
            } else {
                // All is looked at on becoming the leader.
                leads = false;
                self.dirty.clear();
                self.lanes.forget_waiting();
            }
        }
    }

    /// Takes in all that has come meanwhile, so that one decision serves a burst.
    async fn drain(
        &mut self,
        pods: &mut Feed<Pod>,
        fleet: &mut mpsc::UnboundedReceiver<FleetEvent>,
        slice: &mut Slice,
    ) {
        take_in! {
            slice, self,
            self.answers => take_answer,
            pods => take_pod,
            fleet => take_fleet,
        }
    }

    fn mark_all(&mut self) {
        self.dirty.extend(self.book.uids().map(str::to_owned));
    }

    fn take_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Applied(pod) => {
                self.warnings.mended(|| Regarding::pod(&pod));
                self.dirty.extend(self.book.proxy_applied(pod));
            }
            Event::Deleted(pod) | Event::Gone(pod) => {
                let Some(uid) = pod.metadata.uid.clone() else {
                    return;
                };
                self.book.proxy_gone(&uid);
                self.told.remove(&uid);
                self.told_refused.remove(&uid);
                self.told_released.remove(&uid);
                self.timers.set(&uid, None);
                self.dirty.insert(uid);
            }
            Event::Synced => {
                if self.book.proxies_listed() {
                    self.mark_all();
                }
            }
        }
    }

    fn take_fleet(&mut self, event: FleetEvent) {
        let now = self.clock.now();
        match event {
            FleetEvent::Reach(node, reach) => {
                // What stands there may go now.
                self.dirty.extend(self.book.concerned(&node));
                free(self.book.set_reach(&node, reach, now));
            }
            FleetEvent::Serves(node, serves) => self.book.set_serves(&node, serves),
            FleetEvent::Terms(node, terms) => {
                self.book.set_terms(&node, terms);
                self.dirty.extend(self.book.concerned(&node));
            }
            // Whoever ranks, or counts, cares; the Target's condition says so.
            FleetEvent::Turn(_) | FleetEvent::Words(..) | FleetEvent::TurnedAway(..) => {}
            FleetEvent::Chaperon(node, news, _unread) => {
                let heard = self.book.chaperon(&node, news);
                self.dirty.extend(heard.parents);
                if let Some(why) = heard.turned_away {
                    self.fleet.turn_away(&node, why);
                }
            }
        }
    }

    fn take_answer(&mut self, finished: Finished) {
        let Finished {
            uid,
            action,
            mut reply,
        } = finished;
        if let Some(node) = action.cleans_up_at() {
            self.lanes.leave(node);
        }
        self.fleet.drop_old(action.node(), &mut reply);
        if let Outcome::Unknown(why) = &reply.outcome {
            warn_of_failure(&uid, &action, why);
        }
        let now = self.clock.now();
        let settings = &self.parts.settings;
        let admitted = self.book.answered(&uid, &action, reply, settings, now);
        if let (Err(why), Some(node)) = (admitted, action.node()) {
            self.fleet.turn_away(node, why);
        }
        self.dirty.insert(uid);
    }

    /// A mistake of ours about one pod, of which its author hears.
    fn panicked(&mut self, uid: &str, panic: &str) {
        tracing::error!(pod = %uid, panic, "a step panicked");
        let until = self.clock.now().saturating_add(AFTER_PANIC);
        self.timers.hold(&uid.to_owned(), until);
        if let Some((_, pod)) = self.book.pod(uid) {
            self.record(pod, PANICKED, note(panic));
        }
    }

    fn record(&self, pod: &Pod, reason: &'static str, note: String) {
        self.parts.events.record(occurrence(pod, reason, note));
    }

    fn step(&mut self, uid: &str) {
        #[cfg(test)]
        crate::caught::on_purpose::step(uid);
        if let Some(node) = self.book.unknown_target(uid) {
            self.fleet.look_for(node);
        }
        let Some(plan) = self.book.plan(uid, self.clock.now()) else {
            self.timers.set(&uid.to_owned(), None);
            return;
        };
        let Plan {
            actions,
            leftovers: _,
            differs: _,
            judged_on,
            withheld,
            tell,
            released,
            refused,
            wake_at,
        } = plan;
        self.timers.set(&uid.to_owned(), wake_at);
        let pod = self.book.pod(uid);
        if tell.as_ref() != self.told.get(uid) {
            if let (Some(note), Some((_, pod))) = (&tell, pod) {
                self.record(pod, "DelegateUnknown", note.clone());
            }
            match tell {
                Some(note) => self.told.insert(uid.to_owned(), note),
                None => self.told.remove(uid),
            };
        }
        if let (Some(released), Some((_, pod))) = (released, pod)
            && self.told_released.insert(uid.to_owned())
        {
            self.record(pod, released.reason(), released.to_string());
        }
        if let (Some(Refused { of, why }), Some((_, pod))) = (refused, pod)
            && self.told_refused.get(uid) != Some(&of)
        {
            self.record(pod, "ChangeRefused", why);
            self.told_refused.insert(uid.to_owned(), of);
        }
        let copies = actions.iter().any(|it| {
            matches!(
                it,
                Action::CopyStatus { .. } | Action::CopyAnnotations { .. }
            )
        });
        if copies && !withheld.is_empty() {
            tracing::debug!(parent = %uid, ?withheld, "not all that the delegate says is copied");
        }
        for action in actions {
            let pod = self.book.pod(uid);
            if let Some(subject) = subject(uid, pod.map(|(view, _)| view), &action) {
                self.send(subject, action, judged_on.as_deref());
            }
        }
    }

    fn send(&mut self, subject: Subject, action: Action, judged_on: Option<&str>) {
        let place = action.cleans_up_at();
        if !place.is_none_or(|node| self.lanes.enter(node, &subject.uid)) {
            return;
        }
        let now = self.clock.now();
        self.book.begin(&subject.uid, &action, judged_on, now);
        let (parts, fleet) = (Arc::clone(&self.parts), self.fleet.clone());
        let finished = self.finished.clone();
        tokio::spawn(async move {
            let acted = Box::pin(act(&parts.client, &fleet, &subject, &action));
            let mut reply = replied(acted).await;
            keep_less(&parts.proxies, &mut reply);
            let _ = finished.send(Finished {
                uid: subject.uid,
                action,
                reply,
            });
        });
    }
}

/// An action may carry all that a target says of its pod, again at each try: what it is about is enough.
fn warn_of_failure(uid: &str, action: &Action, why: &str) {
    tracing::warn!(parent = %uid, about = ?action.key(), node = ?action.node(), %why, "request failed");
}

fn occurrence(pod: &Pod, reason: &'static str, note: String) -> Occurrence {
    Occurrence {
        regarding: Regarding::pod(pod),
        type_: EventType::Warning,
        reason,
        action: "Waiting",
        note,
        controller: "pilotage-feedback".into(),
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

#[cfg(test)]
mod tests {
    use std::{fmt::Debug, sync::Mutex};

    use serde_json::json;
    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl Visit for Log {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let said = format!("{field}={value:?} ");
            self.0.lock().unwrap().push_str(&said);
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_failed_request_is_logged_without_what_the_target_said() {
        let log = Log::default();
        let patch = json!({ "status": { "message": "x".repeat(256 << 10) } });
        tracing::subscriber::with_default(log.clone(), || {
            warn_of_failure("u", &Action::CopyStatus { patch }, "timed out");
        });
        let said = log.0.lock().unwrap();
        assert!(
            said.contains("about=Status") && said.contains("why=timed out"),
            "{said}"
        );
        assert!(said.len() < 256, "{} bytes", said.len());
    }
}
