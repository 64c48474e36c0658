//! One name's turn: look, decide, act, until there is nothing to do.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pilotage_api::{PodChaperon, keys};
use pilotage_candidate::{
    Gate, Leave, Note, Observed, Step, decide,
    plan::{Answer, Dropped},
    plugins::RESERVATION,
    seat::{BindOutcome, Fit, Outcome},
    view::{ChaperonView, PodView},
};
use pilotage_clusters::Watch;
use pilotage_runtime::lease::Leadership;
use pilotage_sched::PodUid;
use pilotage_sched_driver::{
    PodBinder,
    publish::{EventType, Occurrence, Regarding},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    act,
    edge::{Edge, Unbound},
    metrics::BOUND,
    traced,
};
use crate::{caught, chaperon::Key, turns::Next};

/// What turns work with.
pub(super) struct Worker {
    pub(super) edge: Arc<Edge>,
    pub(super) client: Client,
    pub(super) binder: PodBinder,
    pub(super) leadership: Leadership,
    pub(super) chaperons: Watch<PodChaperon>,
    pub(super) pods: Watch<Pod>,
    /// Requests that may be under way.
    pub(super) requests: Semaphore,
}

impl Worker {
    /// Waits for its turn to send a request, for at most `limit`.
    async fn may_send(&self, limit: Duration) -> Option<SemaphorePermit<'_>> {
        let permit = tokio::time::timeout(limit, self.requests.acquire()).await;
        permit.ok()?.ok()
    }

    /// Decides and acts until there is nothing to do for this name.
    pub(super) async fn turn(&self, key: &Key) -> Next {
        loop {
            if !self.leadership.is_leader() {
                // A lost lease ends the process.
                return Next::Rest;
            }
            let chaperon = self.chaperons.get(Some(&key.namespace), &key.name);
            let pod = self.pods.get(Some(&key.namespace), &key.name);
            let chaperon_view = chaperon.as_deref().and_then(ChaperonView::of);
            let pod_view = pod.as_deref().and_then(PodView::of);
            let now = self.edge.now();
            let (plan, seat) = self.edge.with(key, |cell| {
                cell.memory.see(chaperon_view.as_ref(), now);
                let plan = decide(&Observed {
                    pod: pod_view.as_ref(),
                    chaperon: chaperon_view.as_ref(),
                    memory: &cell.memory,
                    settings: &self.edge.settings,
                    now,
                });
                cell.memory.begin(&plan, now);
                let seat = cell.memory.seat().map(|seat| seat.pod_uid.clone());
                (plan, seat)
            });
            if let Some(note) = &plan.tell {
                self.tell(note, pod.as_deref(), chaperon.as_deref());
            }
            if plan.gate == Gate::Open {
                self.edge.trace_tried(key, chaperon.as_deref());
            }
            self.set_gate(
                key,
                pod_view.as_ref().map(|pod| pod.uid.as_str()),
                plan.gate,
                plan.leave,
            );
            let deadline = plan
                .wake_at
                .map_or(Duration::MAX, |at| at.saturating_sub(now));
            match (plan.step, seat) {
                (Step::Rest, _) => {
                    if chaperon.is_none() && pod.is_none() {
                        self.edge.forget(key);
                    }
                    return plan
                        .wake_at
                        .map_or(Next::Rest, |at| Next::At(self.edge.instant(at)));
                }
                (Step::Write(write), _) => {
                    // Nothing waits for a refusal; a node must not wait longer than it may.
                    let limit = match write.answer {
                        Answer::Reserved { .. } => deadline,
                        Answer::Refused(_) => Duration::MAX,
                    };
                    let numbered = chaperon_view
                        .as_ref()
                        .is_some_and(ChaperonView::is_numbered);
                    let (outcome, reply) = match self.may_send(limit).await {
                        Some(_permit) => act::write(&self.client, key, &write, limit).await,
                        None => (Outcome::Unknown, None),
                    };
                    if let Some(reply) = reply {
                        self.chaperons.fold_reply(&reply);
                    }
                    let landed = outcome == Outcome::Done;
                    if landed {
                        self.edge.metrics.answered(&write.answer);
                        self.edge.trace_answered(key, &write);
                    }
                    let holds = landed && matches!(write.answer, Answer::Reserved { .. });
                    let (settings, now) = (&self.edge.settings, self.edge.now());
                    self.edge.with(key, |cell| {
                        if holds {
                            cell.held_since.get_or_insert(now);
                        }
                        cell.memory.wrote(&write, outcome, numbered, settings, now);
                    });
                }
                (Step::Recheck { attempt }, Some(pod_uid)) => {
                    let fit = self.recheck(&pod_uid);
                    let (settings, now) = (&self.edge.settings, self.edge.now());
                    self.edge.with(key, |cell| {
                        cell.memory.rechecked(attempt, fit, settings, now);
                    });
                }
                (
                    Step::MakeRoom {
                        pod_uid,
                        attempt,
                        preempts,
                    },
                    _,
                ) => {
                    let (settings, now) = (&self.edge.settings, self.edge.now());
                    self.edge.with(key, |cell| {
                        let memory = &mut cell.memory;
                        memory.make_room(&pod_uid, attempt, preempts, settings, now);
                    });
                }
                (Step::Permit, Some(pod_uid)) => {
                    // Before the driver is told: it may ask for the binding at once.
                    self.edge.with(key, |cell| cell.memory.permitted());
                    if let Some(handle) = self.edge.handle() {
                        handle.allow(&PodUid::from(pod_uid), RESERVATION);
                    }
                }
                (Step::Bind { pod_uid, node }, _) => {
                    self.edge.with(key, traced::binds);
                    let outcome = match self.may_send(deadline).await {
                        Some(_permit) => {
                            act::bind(&self.binder, key, &pod_uid, &node, deadline).await
                        }
                        None => BindOutcome::Unknown,
                    };
                    let (settings, now) = (&self.edge.settings, self.edge.now());
                    self.edge
                        .with(key, |cell| cell.memory.bind_replied(outcome, settings, now));
                }
                (Step::Confirm, _) => {
                    let (binding, held) = self.edge.with(key, |cell| {
                        cell.memory.confirmed();
                        (cell.binding.take(), cell.held_since.take())
                    });
                    self.released(BOUND, held);
                    self.edge.trace_ended(key, BOUND);
                    if let Some(binding) = binding {
                        // It may have ended by itself: the pod is bound all the same.
                        let _ = binding.send(Ok(()));
                    }
                }
                (Step::Drop { why, debt, pause }, Some(pod_uid)) => {
                    let (settings, now) = (&self.edge.settings, self.edge.now());
                    let (binding, held) = self.edge.with(key, |cell| {
                        cell.quiet = is_quiet(&why);
                        cell.memory.dropped(&why, debt, pause, settings, now);
                        (cell.binding.take(), cell.held_since.take())
                    });
                    self.released(why.word(), held);
                    self.edge.trace_ended(key, why.word());
                    self.give_back(&pod_uid, why, binding);
                    // The refusal is another turn's: nodes that are due must not wait behind requests.
                    return Next::At(self.edge.instant(now));
                }
                // These steps need a seat, and the decision has seen one.
                (Step::Recheck { .. } | Step::Permit | Step::Drop { .. }, None) => {
                    tracing::error!(%key, "a step about a node without a node");
                    return Next::Rest;
                }
            }
        }
    }

    /// For metrics: a hold that began then ended so. What another process said isn't a hold of this one.
    fn released(&self, end: &'static str, since: Option<Duration>) {
        if let Some(since) = since {
            let after = self.edge.now().saturating_sub(since);
            self.edge.metrics.released(end, after);
        }
    }

    fn recheck(&self, pod_uid: &str) -> Fit {
        let Some(handle) = self.edge.handle() else {
            return Fit::Misfit("the scheduler has not started".to_owned());
        };
        handle.recheck(&PodUid::from(pod_uid)).into()
    }

    /// The node goes back to the scheduler, at Permit or in Bind.
    fn give_back(
        &self,
        pod_uid: &str,
        why: Dropped,
        binding: Option<tokio::sync::oneshot::Sender<Result<(), Unbound>>>,
    ) {
        tracing::debug!(pod = pod_uid, %why, "a node is given back");
        if let Some(handle) = self.edge.handle() {
            handle.give_up_room(&PodUid::from(pod_uid));
        }
        match (binding, self.edge.handle()) {
            (Some(binding), _) => {
                let _ = binding.send(Err(Unbound::Dropped(why)));
            }
            (None, Some(handle)) => {
                // Between Permit and Bind it isn't held; then Bind finds no seat.
                handle.reject(&PodUid::from(pod_uid), RESERVATION, why.to_string());
            }
            (None, None) => {}
        }
    }

    fn set_gate(&self, key: &Key, pod_uid: Option<&str>, gate: Gate, leave: Leave) {
        let before = self.edge.with(key, |cell| {
            (cell.on_board.as_deref() != pod_uid)
                .then(|| std::mem::replace(&mut cell.on_board, pod_uid.map(str::to_owned)))
                .flatten()
        });
        if let Some(before) = before {
            self.edge.board.remove(&before);
        }
        if let Some(uid) = pod_uid
            && self.edge.board.set(uid, gate, leave)
            && let Some(handle) = self.edge.handle()
        {
            handle.activate(&PodUid::from(uid));
        }
    }

    /// A mistake of ours about one name.
    pub(super) fn panicked(&self, key: &Key, panic: &str) {
        tracing::error!(%key, panic, "a turn panicked");
        let pod = self.pods.get(Some(&key.namespace), &key.name);
        let chaperon = self.chaperons.get(Some(&key.namespace), &key.name);
        let (pod, by) = (pod.as_deref(), keys::CANDIDATE_SCHEDULER);
        let told = caught::occurrence(pod, chaperon.as_deref(), by, panic);
        if let (Some(told), Some(handle)) = (told, self.edge.handle()) {
            handle.recorder().record(told);
        }
    }

    fn tell(&self, note: &Note, pod: Option<&Pod>, chaperon: Option<&PodChaperon>) {
        tracing::warn!(pod = pod.and_then(|pod| pod.metadata.name.as_deref()), %note, "told");
        let Some(handle) = self.edge.handle() else {
            return;
        };
        let about_chaperon = matches!(note, Note::Unreadable(_) | Note::WriteRefused(_));
        match (chaperon, pod) {
            (Some(chaperon), _) if about_chaperon => {
                handle.recorder().record(Occurrence {
                    regarding: Regarding::object(chaperon),
                    type_: EventType::Warning,
                    reason: "FailedReservation",
                    action: "Reserving",
                    note: note.to_string(),
                    controller: keys::CANDIDATE_SCHEDULER.into(),
                });
            }
            (_, Some(pod)) => handle.record(
                pod,
                EventType::Warning,
                "FailedScheduling",
                "Scheduling",
                note.to_string(),
            ),
            _ => {}
        }
    }
}

/// The pod, or its chaperon, is leaving anyway: nobody reads why its node was given back.
fn is_quiet(why: &Dropped) -> bool {
    match why {
        Dropped::PodLeft | Dropped::ChaperonLeft | Dropped::TakenOver | Dropped::NotNow => true,
        Dropped::Expired
        | Dropped::BindTimedOut
        | Dropped::RoomNotMade
        | Dropped::NoLongerFits(_)
        | Dropped::BindRefused(_)
        | Dropped::Unanswered => false,
    }
}
