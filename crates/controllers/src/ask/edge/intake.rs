//! What the ask edge takes in: pods, nodes, tables, targets, choices, and replies to its own requests. Nothing is
//! decided here.

use std::{collections::hash_map::Entry, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use pilotage_api::keys;
use pilotage_clusters::Event;
use pilotage_proxy::{Action, Outcome, Reach, Reaction, placing::Want, plugins::GrantFailure};
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};

use super::{Edge, Finished, proxy::Proxy};
use crate::{
    ask::{
        port::{Choice, Failed, NodeEvent},
        progress::Stage,
        story::of_others,
    },
    caught::{PANICKED, note},
    fleet::{FleetEvent, free},
    intake::{About, Intake, News, about_object},
};

impl News for Event<ConfigMap> {
    fn about(&self) -> About {
        about_object("ConfigMap", self)
    }
}

impl News for NodeEvent {
    fn about(&self) -> About {
        let name = match self {
            Self::Applied(node) => node.metadata.name.clone().unwrap_or_default(),
            Self::Deleted(name) => name.clone(),
            Self::Home(_) => "the source's own".to_owned(),
        };
        About::Other("Node", name)
    }
}

impl News for Choice {
    fn about(&self) -> About {
        About::Proxy(self.uid.clone())
    }
}

impl News for Failed {
    fn about(&self) -> About {
        About::Proxy(self.uid.clone())
    }
}

impl News for Finished {
    fn about(&self) -> About {
        About::Proxy(self.uid.clone())
    }
}

impl Intake for Edge {
    fn mistaken(&mut self, pod: &Pod, panic: &str) {
        self.warnings.warn(Occurrence {
            regarding: Regarding::pod(pod),
            type_: EventType::Warning,
            reason: PANICKED,
            action: "Scheduling",
            note: note(panic),
            controller: keys::PROXY_SCHEDULER.into(),
        });
    }

    fn mistaken_about(&mut self, uid: &str, panic: &str) {
        self.panicked(uid, panic);
    }
}

impl Edge {
    pub(super) fn mark_all(&mut self) {
        self.dirty.extend(self.proxies.keys().cloned());
    }

    pub(super) fn take_pod(&mut self, event: Event<Pod>) {
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

    pub(super) fn apply_pod(&mut self, pod: Arc<Pod>) {
        self.warnings.mended(|| Regarding::pod(&pod));
        let Some(uid) = self.book.proxy_applied(&pod) else {
            return;
        };
        let policy = self.ranker.policy_of(&pod);
        let mut moved = false;
        match self.proxies.entry(uid.clone()) {
            Entry::Occupied(mut proxy) => {
                moved = counts_otherwise(&proxy.get().pod, &pod);
                proxy.get_mut().set_pod(pod, policy);
            }
            Entry::Vacant(place) => {
                place.insert(Proxy::new(pod, policy));
            }
        }
        self.dirty.insert(uid);
        if moved {
            self.others_moved();
        }
    }

    pub(super) fn forget(&mut self, uid: &str) {
        self.paint_gone(uid);
        self.book.proxy_gone(uid, self.clock.now());
        if let Some(proxy) = self.proxies.remove(uid) {
            let Proxy {
                choice,
                queued,
                traced,
                ..
            } = proxy;
            self.parts.counts.queued(&queued, &[]);
            self.trace_gone(traced);
            if let Some((node, done)) = choice {
                let reason = "the pod is gone".to_owned();
                let _ = done.send(Err(GrantFailure::Failed { node, reason }));
            }
        }
        self.others_moved();
        self.places.forget(uid);
        self.expected.set(uid, None);
        self.ranker.set_guest(uid, None, &Want::default());
        self.parts.board.remove(uid);
        self.stories.take(uid);
        self.timers.set(&uid.to_owned(), None);
        self.dirty.remove(uid);
    }

    pub(super) fn take_node(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Applied(node) => {
                self.ranker.apply_node(&node);
                self.paint_node(
                    node.metadata.name.as_deref().unwrap_or_default(),
                    Some(&node),
                );
                if self.places.apply(&node) {
                    self.node_changed(node.metadata.name.as_deref().unwrap_or_default());
                }
            }
            NodeEvent::Deleted(name) => {
                self.ranker.remove_node(&name);
                self.paint_node(&name, None);
                if self.places.remove(&name) {
                    self.node_changed(&name);
                }
            }
            NodeEvent::Home(home) => {
                if self.ranker.set_home(&home) {
                    self.rank_anew();
                }
            }
        }
    }

    /// A virtual node that came, went or changed may suit pods that nobody takes. Others decide what it says and when:
    /// it concerns the pods that its Target serves, now and then.
    fn node_changed(&mut self, node: &str) {
        if self.changed.note(node, self.clock.now()) {
            self.rank_anew_for(node);
        }
    }

    /// Pods without a place that a virtual node concerns are ranked again.
    pub(super) fn rank_anew_for(&mut self, node: &str) {
        for uid in self.book.concerned(node) {
            self.rank_again(uid);
        }
    }

    pub(super) fn take_table(&mut self, event: Event<ConfigMap>) {
        if self.ranker.take_table(event) {
            self.rank_anew();
        }
    }

    /// All pods without a place are ranked again: the source's operator, or its own nodes, say something else.
    fn rank_anew(&mut self) {
        for uid in self.proxies.keys().cloned().collect::<Vec<_>>() {
            self.rank_again(uid);
        }
    }

    pub(super) fn rank_again(&mut self, uid: String) {
        let view = self.book.proxy(&uid);
        if view.is_some_and(|view| view.node_name.is_none())
            && let Some(proxy) = self.proxies.get_mut(&uid)
        {
            proxy.ranked_at = None;
            self.dirty.insert(uid);
        }
    }

    pub(super) fn take_fleet(&mut self, event: FleetEvent) {
        let now = self.clock.now();
        match event {
            FleetEvent::Reach(node, reach) => {
                self.dirty.extend(self.book.concerned(&node));
                free(self.book.set_reach(&node, reach, now));
                if matches!(reach, Reach::Lost | Reach::NoSuchTarget) {
                    self.trace_lost(&node);
                }
                self.paint_reach(&node, reach);
                if reach == Reach::NoSuchTarget {
                    self.parts.counts.end(&node);
                }
            }
            FleetEvent::Turn(node) => self.parts.counts.begin(&node),
            FleetEvent::Serves(node, serves) => {
                self.book.set_serves(&node, serves);
                // Its virtual node may have been there before.
                self.node_changed(&node);
            }
            FleetEvent::Terms(node, terms) => {
                self.book.set_terms(&node, terms);
                self.dirty.extend(self.book.concerned(&node));
            }
            // The Target's condition is the controllers', which hear no answer to a request of ours.
            FleetEvent::TurnedAway(target, note) => {
                self.parts.scheduling.recorder().record(Occurrence {
                    regarding: Regarding::reference(target),
                    type_: EventType::Warning,
                    reason: "TargetTurnedAway",
                    action: "Asking",
                    note,
                    controller: keys::PROXY_SCHEDULER.into(),
                });
            }
            FleetEvent::Words(node, words) => {
                if self.ranker.set_words(&node, words) {
                    self.node_changed(&node);
                }
            }
            FleetEvent::Chaperon(node, news, _unread) => {
                let heard = self.book.chaperon(&node, news, now);
                if let Some(answer) = heard.answer {
                    self.parts.counts.answered(&node, answer);
                    let holds = matches!(answer, Reaction::Reserved | Reaction::Evicts);
                    if let Some(parent) = heard.parents.last() {
                        self.trace_answer(parent, &node, answer);
                        if holds {
                            self.reach(parent, Stage::Reserved);
                        }
                    }
                }
                self.dirty.extend(heard.parents);
                if let Some(why) = heard.turned_away {
                    self.acting.fleet.turn_away(&node, why);
                }
            }
        }
    }

    pub(super) fn take_choice(&mut self, choice: Choice) {
        let Choice { uid, node, done } = choice;
        if let Some(proxy) = self.proxies.get_mut(&uid) {
            let order = proxy.order.as_ref();
            let answers = self.parts.board.get(&uid).answers;
            proxy.passed_over = order.and_then(|order| order.tell(&node, &answers));
            let untold = proxy.passed_over.is_none();
            proxy.others = untold.then(|| of_others(&node, &answers));
            proxy.choice = Some((node.clone(), done));
            self.trace_choice(&uid, &node);
            self.dirty.insert(uid);
            self.others_moved();
        } else {
            let reason = "the pod is gone".to_owned();
            let _ = done.send(Err(GrantFailure::Failed { node, reason }));
        }
    }

    pub(super) fn take_failed(&mut self, failed: Failed) {
        let Failed { uid, words } = failed;
        if let Some(proxy) = self.proxies.get_mut(&uid) {
            // The cycle saw something that its ranking didn't.
            proxy.ranked_at = None;
            self.book.say(&uid, words);
            self.dirty.insert(uid);
        }
    }

    pub(super) fn take_answer(&mut self, finished: Finished) {
        let Finished {
            uid,
            action,
            mut reply,
        } = finished;
        if let Some(node) = action.cleans_up_at() {
            self.lanes.leave(node);
        }
        self.acting.fleet.drop_old(action.node(), &mut reply);
        if let Outcome::Unknown(why) | Outcome::Refused(why) = &reply.outcome {
            tracing::warn!(pod = %uid, ?action, %why, "request failed");
        }
        if let Some(proxy) = self.proxies.get_mut(&uid)
            && let Some(pod) = reply.proxy.as_ref().filter(|pod| self.book.is_news(pod))
        {
            let policy = self.ranker.policy_of(pod);
            proxy.set_pod(Arc::clone(pod), policy);
        }
        self.trace_ended(&uid, &action, &reply.outcome);
        let now = self.clock.now();
        let policy = self.proxies.get(&uid).map(|proxy| proxy.policy);
        let policy = self.ranker.policy(policy.unwrap_or_default());
        self.parts.counts.ended(&action, &reply.outcome);
        let granted = matches!(action, Action::Grant { .. }) && reply.outcome == Outcome::Done;
        let admitted = self
            .book
            .answered(&uid, &action, reply, &policy.asking, now);
        if granted {
            self.reach(&uid, Stage::Granted);
            if let Some(node) = action.node() {
                self.tell_granted(&uid, node);
            }
        }
        if let (Err(why), Some(node)) = (admitted, action.node()) {
            self.acting.fleet.turn_away(node, why);
        }
        self.dirty.insert(uid);
    }
}

/// Whether a pod counts otherwise for others in this version than in the one before: it has come to a node, has ended
/// there, or has other labels.
fn counts_otherwise(before: &Pod, now: &Pod) -> bool {
    let counts = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let ended = phase.is_some_and(|phase| matches!(&*phase, "Succeeded" | "Failed"));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let deleting = pod.metadata.deletion_timestamp.is_some();
        node.map(|node| (node, ended, deleting))
    };
    counts(before) != counts(now) || before.metadata.labels != now.metadata.labels
}
