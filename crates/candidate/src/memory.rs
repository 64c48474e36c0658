//! What the process remembers of one chaperon and its pod between two decisions: the hold, and what went wrong.
//!
//! All of it may be lost in a restart. The rules are in [`mod@crate::decide`]; here is only what changes by what
//! happened.

mod room;

use std::time::Duration;

use crate::{
    plan::{Answer, Dropped, Gate, Monotonic, Note, Plan, Step, Write},
    refusal::Refusal,
    seat::{BindOutcome, Debt, Fit, Outcome, Room, Seat, SeatState, Stage},
    settings::Settings,
    view::ChaperonView,
};

/// As many told notes are remembered.
const MOST_TOLD: usize = 16;

/// A write that failed.
#[derive(Clone, Debug)]
struct Failed {
    write: Write,
    outcome: Outcome,
    times: u32,
    retry_at: Monotonic,
}

/// An answer on the chaperon that this process didn't give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    attempt: u64,
    seen: Monotonic,
}

/// What is remembered of one chaperon and its pod.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    seat: Option<Seat>,
    debt: Option<Debt>,
    /// Pod and reason of the newest cycle that found no node.
    no_fit: Option<(String, Refusal)>,
    /// The pod that this process has bound; its store may not show it yet.
    bound: Option<String>,
    /// The pod that the scheduler has out of its queue.
    in_cycle: Option<String>,
    expiries: u32,
    /// Pause after an expiry; ended by any change that the source makes.
    pause: Option<Monotonic>,
    /// Pause after a binding that led nowhere: time for the watch to show why.
    settle: Option<Monotonic>,
    source_side: Option<u64>,
    /// The attempt of a reserving write of ours that landed, or may have.
    tried: Option<u64>,
    /// The granted attempt for which others were evicted here.
    room_made: Option<u64>,
    /// The process had just begun to lead when this was made.
    at_start: bool,
    chaperon_uid: Option<String>,
    start_mark: Option<u64>,
    foreign: Option<Mark>,
    failed: Option<Failed>,
    shut: Option<(Note, Monotonic)>,
    told: Vec<Note>,
}

/// When a write may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Now,
    At(Monotonic),
    OnNewVersion,
}

impl Memory {
    /// Nothing remembered. `at_start`: the chaperon stood there when this process began to lead, so that its marks are
    /// nobody's who lives.
    pub fn new(at_start: bool) -> Self {
        Self {
            at_start,
            ..Self::default()
        }
    }

    // ---- what is seen ------------------------------------------------------------------------------------------

    /// Takes in what is seen now; before each decision.
    pub fn see(&mut self, chaperon: Option<&ChaperonView>, now: Monotonic) {
        let Some(chaperon) = chaperon else { return };
        if self.chaperon_uid.as_ref() != Some(&chaperon.uid) {
            // Another chaperon of that name owes nothing to the one before; a seat is judged by the pod's owner.
            let first = self.chaperon_uid.is_none();
            self.chaperon_uid = Some(chaperon.uid.clone());
            self.debt = None;
            self.tried = None;
            self.room_made = None;
            self.failed = None;
            self.foreign = None;
            self.source_side = None;
            self.start_mark =
                (first && self.at_start && chaperon.reserved).then_some(chaperon.attempt);
        }
        if self.source_side != Some(chaperon.source_side) {
            if self.source_side.is_some() {
                self.expiries = 0;
                self.pause = None;
            }
            self.source_side = Some(chaperon.source_side);
        }
        let known = [
            self.start_mark,
            self.tried,
            self.room_made,
            self.seat.as_ref().and_then(Seat::attempt),
        ];
        if !chaperon.reserved || known.contains(&Some(chaperon.attempt)) {
            self.foreign = None;
        } else if self
            .foreign
            .is_none_or(|mark| mark.attempt != chaperon.attempt)
        {
            self.foreign = Some(Mark {
                attempt: chaperon.attempt,
                seen: now,
            });
        }
        if self
            .debt
            .as_ref()
            .is_some_and(|debt| chaperon.attempt > debt.attempt)
        {
            self.debt = None;
        }
    }

    // ---- what the scheduler says --------------------------------------------------------------------------------

    /// A cycle found a node; the pod waits at Permit.
    pub fn taken(&mut self, pod_uid: &str, node: &str, now: Monotonic) {
        self.no_fit = None;
        self.in_cycle = Some(pod_uid.to_owned());
        self.seat = Some(Seat {
            pod_uid: pod_uid.to_owned(),
            node: node.to_owned(),
            preempts: None,
            state: SeatState::Taken { since: now },
        });
    }

    /// A cycle found no node, for this reason.
    pub fn found_none(&mut self, pod_uid: &str, why: Refusal) {
        if let Some(room) = self.making(pod_uid) {
            *room = Room::Failed(why.to_string());
            return;
        }
        self.no_fit = Some((pod_uid.to_owned(), why));
    }

    /// The scheduler has put the pod back, or is done with it. A seat that stands is lost by that.
    pub fn put_back(&mut self, pod_uid: &str) {
        if self.in_cycle.as_deref() == Some(pod_uid) {
            self.in_cycle = None;
        }
        let Some(seat) = self.seat.take_if(|seat| seat.pod_uid == pod_uid) else {
            return;
        };
        if let Some(attempt) = seat.attempt().or(self.tried) {
            self.debt = Some(Debt {
                attempt,
                refusal: Refusal::NoLongerFits,
                firm: true,
            });
        }
    }

    /// The scheduler asks for the pod's binding. `false`: the seat is no more, or was never granted.
    #[must_use]
    pub fn bind_called(&mut self, pod_uid: &str, node: &str, now: Monotonic) -> bool {
        match &mut self.seat {
            Some(Seat {
                pod_uid: uid,
                node: seat,
                state: SeatState::Binding { stage, .. },
                preempts: _,
            }) if uid == pod_uid && seat == node && *stage == Stage::Permitted => {
                *stage = Stage::Called {
                    tries: 0,
                    next: now,
                };
                true
            }
            _ => false,
        }
    }

    // ---- how steps ended ----------------------------------------------------------------------------------------

    /// A write is about to be sent.
    pub fn begin_write(&mut self, write: &Write) {
        if matches!(write.answer, Answer::Reserved { .. }) {
            self.tried = Some(write.attempt);
        }
    }

    /// A write ended.
    pub fn wrote(
        &mut self,
        write: &Write,
        outcome: Outcome,
        numbered: bool,
        settings: &Settings,
        now: Monotonic,
    ) {
        let doubt = self
            .failed
            .as_ref()
            .is_some_and(|failed| failed.outcome == Outcome::Unknown && failed.write == *write);
        match (&outcome, &write.answer) {
            (Outcome::Done, answer) => {
                self.failed = None;
                match answer {
                    Answer::Refused(_) => self.debt = None,
                    Answer::Reserved {
                        pod: pod_uid,
                        preempts,
                    } => {
                        let hold = if numbered {
                            settings.hold
                        } else {
                            settings.plain_hold
                        };
                        // A pod that stays back is tried whatever its gate says: what was told may be no more.
                        if let Some(seat) = &mut self.seat
                            && seat.pod_uid == *pod_uid
                            && seat.preempts == *preempts
                            && let SeatState::Taken { since } = seat.state
                        {
                            seat.state = SeatState::Held {
                                attempt: write.attempt,
                                deadline: since.saturating_add(hold),
                            };
                        }
                    }
                }
                return;
            }
            // The same write may have landed unnoticed before it conflicted with itself.
            (Outcome::Conflict, Answer::Reserved { .. }) if !doubt => self.tried = None,
            (Outcome::Refused(_), Answer::Reserved { .. }) => self.tried = None,
            _ => {}
        }
        let times = self
            .failed
            .as_ref()
            .map_or(0, |failed| failed.times)
            .saturating_add(1);
        self.failed = Some(Failed {
            write: write.clone(),
            outcome,
            times,
            retry_at: now.saturating_add(settings.retry_after(times)),
        });
    }

    /// Filter has looked at the held node again.
    pub fn rechecked(&mut self, attempt: u64, fit: Fit, settings: &Settings, now: Monotonic) {
        if let Some(seat) = &mut self.seat {
            let stage = match fit {
                Fit::Fits => Stage::Fits,
                Fit::Leans(why) => Stage::Leans {
                    why,
                    next: now.saturating_add(settings.look_again),
                },
                Fit::Misfit(why) => Stage::Misfit(why),
            };
            let until = match seat.state {
                SeatState::Binding { until, .. } => until,
                _ => now.saturating_add(settings.bind_timeout),
            };
            seat.state = SeatState::Binding {
                attempt,
                until,
                stage,
            };
        }
    }

    /// The pod was let pass Permit.
    pub fn permitted(&mut self) {
        self.set_stage(Stage::Permitted);
    }

    /// A binding request ended.
    pub fn bind_replied(&mut self, outcome: BindOutcome, settings: &Settings, now: Monotonic) {
        let tries = match &self.seat {
            Some(Seat {
                state:
                    SeatState::Binding {
                        stage: Stage::Called { tries, .. },
                        ..
                    },
                ..
            }) => tries.saturating_add(1),
            _ => return,
        };
        self.set_stage(match outcome {
            BindOutcome::Done => Stage::Done,
            BindOutcome::Lost => Stage::Lost,
            BindOutcome::Refused(why) => Stage::Refused(why),
            BindOutcome::Unknown => Stage::Called {
                tries,
                next: now.saturating_add(settings.retry_after(tries)),
            },
        });
    }

    /// The scheduler was told that the pod is bound.
    pub fn confirmed(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.bound = Some(seat.pod_uid);
            self.expiries = 0;
            self.pause = None;
        }
    }

    /// The node was given back.
    pub fn dropped(
        &mut self,
        why: &Dropped,
        debt: Option<Debt>,
        pause: Option<Duration>,
        settings: &Settings,
        now: Monotonic,
    ) {
        self.seat = None;
        if debt.is_some() {
            self.debt = debt;
        }
        if let Some(pause) = pause {
            self.expiries = self.expiries.saturating_add(1);
            self.pause = Some(now.saturating_add(pause));
        }
        if matches!(
            why,
            Dropped::PodLeft
                | Dropped::Unanswered
                | Dropped::BindRefused(_)
                // Who took over may know another pod; an offer has no back-off meanwhile.
                | Dropped::TakenOver
        ) {
            self.settle = Some(now.saturating_add(settings.retry_after(3)));
        }
    }

    /// A plan was carried out or begun: notes the gate and what was told.
    pub fn begin(&mut self, plan: &Plan, now: Monotonic) {
        match &plan.gate {
            Gate::Open => self.shut = None,
            Gate::Shut(note) => {
                if self.shut.as_ref().is_none_or(|(known, _)| known != note) {
                    self.shut = Some((note.clone(), now));
                }
            }
        }
        if let Some(note) = &plan.tell {
            // Messages of the API server may differ each time: don't remember them for ever.
            if self.told.len() >= MOST_TOLD {
                self.told.remove(0);
            }
            self.told.push(note.clone());
        }
        if let Step::Write(write) = &plan.step {
            self.begin_write(write);
        }
    }

    fn set_stage(&mut self, to: Stage) {
        if let Some(Seat {
            state: SeatState::Binding { stage, .. },
            ..
        }) = &mut self.seat
        {
            *stage = to;
        }
    }

    // ---- what decisions ask -------------------------------------------------------------------------------------

    /// The taken node, if there is one.
    pub fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// Whether nothing would be lost by forgetting all of it, once neither pod nor chaperon is there.
    pub fn is_idle(&self) -> bool {
        self.seat.is_none() && self.in_cycle.is_none()
    }

    pub(crate) fn debt(&self) -> Option<&Debt> {
        self.debt.as_ref()
    }

    pub(crate) fn no_fit(&self, pod_uid: &str) -> Option<&Refusal> {
        self.no_fit
            .as_ref()
            .filter(|(uid, _)| uid == pod_uid)
            .map(|(_, why)| why)
    }

    pub(crate) fn has_bound(&self, pod_uid: &str) -> bool {
        self.bound.as_deref() == Some(pod_uid)
    }

    pub(crate) fn is_in_cycle(&self, pod_uid: &str) -> bool {
        self.in_cycle.as_deref() == Some(pod_uid)
    }

    pub(crate) fn expiries(&self) -> u32 {
        self.expiries
    }

    pub(crate) fn pause(&self) -> Option<Monotonic> {
        self.pause
    }

    pub(crate) fn settle(&self) -> Option<Monotonic> {
        self.settle
    }

    /// The attempt of our own reserving write that may have landed.
    pub(crate) fn tried(&self) -> Option<u64> {
        self.tried
    }

    /// Since when an answer stands there that a living other leader may back.
    pub(crate) fn foreign_since(&self) -> Option<Monotonic> {
        self.foreign.map(|mark| mark.seen)
    }

    pub(crate) fn may_write(&self, write: &Write, now: Monotonic) -> Readiness {
        let Some(failed) = &self.failed else {
            return Readiness::Now;
        };
        if failed.write.resource_version != write.resource_version {
            return Readiness::Now;
        }
        match failed.outcome {
            Outcome::Conflict => Readiness::OnNewVersion,
            _ if now < failed.retry_at => Readiness::At(failed.retry_at),
            _ => Readiness::Now,
        }
    }

    pub(crate) fn write_refused(&self) -> Option<&str> {
        match &self.failed {
            Some(Failed {
                outcome: Outcome::Refused(why),
                ..
            }) => Some(why),
            _ => None,
        }
    }

    pub(crate) fn shut_since(&self, note: &Note, now: Monotonic) -> Monotonic {
        self.shut
            .as_ref()
            .filter(|(known, _)| known == note)
            .map_or(now, |(_, since)| *since)
    }

    pub(crate) fn was_told(&self, note: &Note) -> bool {
        self.told.contains(note)
    }
}
