//! One test a row of the table of the protocol's candidate side.

mod binding;
mod room;

use std::time::Duration;

use super::*;
use crate::{
    seat::{BindOutcome, Fit, Outcome},
    view::{Fault, Grant},
};

const SETTINGS: Settings = Settings {
    hold: secs(10),
    plain_hold: secs(30),
    bind_timeout: secs(10),
    look_again: Duration::from_millis(100),
    make_room: secs(30),
    longest_pause: secs(300),
    lease_duration: secs(15),
    retry: (Duration::from_millis(250), secs(10)),
    tell_after: secs(3),
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn unschedulable(why: &str) -> Refusal {
    Refusal::Unschedulable(why.to_owned())
}

fn pod() -> PodView {
    PodView {
        uid: "p1".into(),
        node: None,
        ending: false,
        finished: false,
        owner: Some("c1".into()),
        gates: None,
    }
}

fn chaperon() -> ChaperonView {
    ChaperonView {
        uid: "c1".into(),
        resource_version: "100".into(),
        ending: false,
        attempt: 0,
        reserved: false,
        reserved_pod_uid: None,
        preempts: None,
        refusal: None,
        grant: Grant::Attempt(0),
        was_bound: false,
        bound: false,
        source_side: 0,
        faults: vec![],
    }
}

fn reserved(attempt: u64) -> ChaperonView {
    ChaperonView {
        attempt,
        reserved: true,
        reserved_pod_uid: Some("p1".into()),
        resource_version: (100 + attempt).to_string(),
        ..chaperon()
    }
}

fn granted(attempt: u64) -> ChaperonView {
    let mut chaperon = reserved(attempt);
    chaperon.resource_version = (200 + attempt).to_string();
    chaperon.grant = Grant::Attempt(attempt);
    chaperon.source_side = 1;
    chaperon
}

/// The machine at one moment.
struct Case {
    memory: Memory,
    pod: Option<PodView>,
    chaperon: Option<ChaperonView>,
    now: Duration,
}

impl Case {
    fn new() -> Self {
        Self {
            memory: Memory::new(false),
            pod: Some(pod()),
            chaperon: Some(chaperon()),
            now: secs(0),
        }
    }

    /// A hold under attempt 1 since second 0.
    fn held() -> Self {
        let mut case = Self::new();
        case.memory.taken("p1", "n1", case.now);
        case.write(Outcome::Done);
        case.chaperon = Some(reserved(1));
        case
    }

    /// A binding under attempt 1 since second 0, about to be sent.
    fn binding() -> Self {
        let mut case = Self::held();
        case.chaperon = Some(granted(1));
        assert_eq!(case.step(), Step::Recheck { attempt: 1 });
        case.memory.rechecked(1, Fit::Fits, &SETTINGS, case.now);
        assert_eq!(case.step(), Step::Permit);
        case.memory.permitted();
        assert_eq!(
            case.step(),
            Step::Rest,
            "until the scheduler asks for the binding"
        );
        assert!(case.memory.bind_called("p1", "n1", case.now));
        case
    }

    fn plan(&mut self) -> Plan {
        self.memory.see(self.chaperon.as_ref(), self.now);
        let plan = decide(&Observed {
            pod: self.pod.as_ref(),
            chaperon: self.chaperon.as_ref(),
            memory: &self.memory,
            settings: &SETTINGS,
            now: self.now,
        });
        self.memory.begin(&plan, self.now);
        plan
    }

    fn step(&mut self) -> Step {
        self.plan().step
    }

    /// The next step is a write; it ends so.
    fn write(&mut self, outcome: Outcome) -> Write {
        let Step::Write(write) = self.step() else {
            panic!("a write was due")
        };
        self.memory
            .wrote(&write, outcome, true, &SETTINGS, self.now);
        write
    }

    /// The next step gives the node back for this reason.
    fn drop(&mut self, want: &Dropped) {
        let Step::Drop { why, debt, pause } = self.step() else {
            panic!("a drop was due: {want:?}")
        };
        assert_eq!(why, *want);
        self.memory.dropped(&why, debt, pause, &SETTINGS, self.now);
        self.memory.put_back("p1");
    }

    /// The next step refuses the chaperon's newest attempt for this reason.
    fn refuses(&mut self, why: &Refusal) {
        let attempt = self.chaperon.as_ref().unwrap().attempt + 1;
        let write = self.write(Outcome::Done);
        assert_eq!(write.answer, Answer::Refused(why.clone()));
        assert_eq!(write.attempt, attempt);
        let before = self.chaperon.take().unwrap();
        self.chaperon = Some(ChaperonView {
            attempt,
            reserved: false,
            refusal: Some(why.to_string()),
            resource_version: (300 + attempt).to_string(),
            ..before
        });
    }
}

// ---- hold: none -------------------------------------------------------------------------------------------------

#[test]
fn an_open_pod_is_tried_and_a_node_found_is_said_under_the_next_attempt() {
    let mut case = Case::new();
    assert_eq!(case.plan(), Plan::rest(Gate::Open));
    case.memory.taken("p1", "n1", secs(1));
    let write = case.write(Outcome::Done);
    assert_eq!((write.attempt, write.resource_version.as_str()), (1, "100"));
    let answer = Answer::Reserved {
        pod: "p1".into(),
        preempts: None,
    };
    assert_eq!(write.answer, answer);
    case.chaperon = Some(reserved(1));
    let plan = case.plan();
    assert_eq!(
        plan,
        Plan::shut(Note::Seated).wake(secs(11)),
        "the deadline counts from the taking"
    );
}

#[test]
fn a_conflict_waits_for_the_new_version_and_decides_anew() {
    let mut case = Case::new();
    case.memory.taken("p1", "n1", case.now);
    case.write(Outcome::Conflict);
    assert_eq!(case.step(), Step::Rest);
    case.chaperon.as_mut().unwrap().resource_version = "101".into();
    assert_eq!(case.write(Outcome::Done).resource_version, "101");
}

#[test]
fn a_cycle_that_finds_none_is_a_refusal_and_the_same_refusal_is_not_said_twice() {
    let mut case = Case::new();
    case.memory
        .found_none("p1", unschedulable("0/3 nodes are available"));
    assert_eq!(
        case.plan().gate,
        Gate::Open,
        "the queue knows when to try again"
    );
    case.refuses(&unschedulable("0/3 nodes are available"));
    case.memory
        .found_none("p1", unschedulable("0/3 nodes are available"));
    assert_eq!(case.plan(), Plan::rest(Gate::Open));
    case.memory
        .found_none("p1", unschedulable("0/4 nodes are available"));
    case.refuses(&unschedulable("0/4 nodes are available"));
}

#[test]
fn after_a_restart_an_answer_is_renewed_or_taken_back_at_once() {
    let restarted = |chaperon: ChaperonView| {
        let mut case = Case::new();
        case.memory = Memory::new(true);
        case.chaperon = Some(chaperon);
        assert_eq!(case.plan(), Plan::rest(Gate::Open), "find a node");
        case
    };
    // Not granted: a node gives a new number…
    let mut case = restarted(reserved(3));
    case.memory.taken("p1", "n2", case.now);
    assert_eq!(case.write(Outcome::Done).attempt, 4);
    // …no node takes the answer back.
    let mut case = restarted(reserved(3));
    case.memory.found_none("p1", unschedulable("full"));
    case.refuses(&unschedulable("full"));
    // Granted for this pod: bound at once under the same number.
    let mut case = restarted(granted(3));
    case.memory.taken("p1", "n2", case.now);
    assert_eq!(case.step(), Step::Recheck { attempt: 3 });
    // Granted, but no node.
    let mut case = restarted(granted(3));
    case.memory.found_none("p1", unschedulable("full"));
    case.refuses(&unschedulable("full"));
    // Granted for an earlier pod.
    let mut case = restarted(ChaperonView {
        reserved_pod_uid: Some("p0".into()),
        ..granted(3)
    });
    case.memory.taken("p1", "n2", case.now);
    assert_eq!(case.write(Outcome::Done).attempt, 4);
    // Its pod is gone.
    let mut case = Case {
        pod: None,
        ..Case::new()
    };
    case.memory = Memory::new(true);
    case.chaperon = Some(reserved(3));
    case.refuses(&Refusal::PodGone);
}

#[test]
fn an_answer_of_a_living_other_leader_is_left_alone_for_one_lease_duration() {
    let mut case = Case::new();
    case.plan();
    case.chaperon = Some(reserved(1));
    case.now = secs(5);
    assert_eq!(case.plan(), Plan::shut(Note::OtherLeader).wake(secs(20)));
    case.now = secs(20);
    assert_eq!(case.plan(), Plan::rest(Gate::Open));
    // Each number of its own counts anew.
    case.chaperon = Some(reserved(2));
    assert_eq!(case.plan(), Plan::shut(Note::OtherLeader).wake(secs(35)));
    // For another pod than this one nobody can hold a node.
    case.chaperon.as_mut().unwrap().reserved_pod_uid = Some("p0".into());
    assert_eq!(case.plan(), Plan::rest(Gate::Open));
}

#[test]
fn pods_that_are_not_open_wait_and_say_why() {
    let other_owner = PodView {
        owner: Some("c0".into()),
        ..pod()
    };
    let no_owner = PodView {
        owner: None,
        ..pod()
    };
    let ending = ChaperonView {
        ending: true,
        ..granted(1)
    };
    for (pod, chaperon, note) in [
        (pod(), None, Note::NoChaperon),
        (pod(), Some(ending), Note::ChaperonEnding),
        (other_owner, Some(chaperon()), Note::OtherChaperon),
        (no_owner, Some(chaperon()), Note::NotACandidate),
        (
            PodView {
                ending: true,
                ..pod()
            },
            Some(chaperon()),
            Note::Settled,
        ),
        (
            PodView {
                finished: true,
                ..pod()
            },
            Some(chaperon()),
            Note::Settled,
        ),
        (
            PodView {
                node: Some("n".into()),
                ..pod()
            },
            Some(granted(1)),
            Note::Settled,
        ),
    ] {
        let mut case = Case {
            pod: Some(pod),
            chaperon,
            ..Case::new()
        };
        let plan = case.plan();
        assert_eq!(
            (plan.step, plan.gate),
            (Step::Rest, Gate::Shut(note.clone()))
        );
        if note.is_trouble() {
            assert_eq!(plan.wake_at, Some(secs(3)));
            case.now = secs(3);
            assert_eq!(case.plan().tell, Some(note));
            assert_eq!(case.plan().tell, None, "once");
        } else {
            assert_eq!(plan.wake_at, None);
        }
    }
}

#[test]
fn a_gated_pod_is_refused_by_its_gates_and_gets_no_node_before_they_are_gone() {
    let gates = || "example.com/queue".to_owned();
    let mut case = Case::new();
    case.pod = Some(PodView {
        gates: Some(gates()),
        ..pod()
    });
    case.refuses(&Refusal::Gated(gates()));
    assert_eq!(case.plan(), Plan::shut(Note::Gated), "it is said once");
    // Whatever a queue makes of it.
    case.memory.taken("p1", "n1", case.now);
    case.drop(&Dropped::NotNow);
    assert_eq!(case.step(), Step::Rest);
    case.pod = Some(pod());
    assert_eq!(case.plan(), Plan::rest(Gate::Open));
    case.memory.taken("p1", "n1", case.now);
    let write = case.write(Outcome::Done);
    assert!(matches!(write.answer, Answer::Reserved { .. }), "{write:?}");
    assert_eq!(write.attempt, 2);
}

#[test]
fn nothing_is_bound_for_a_gated_pod() {
    let mut case = Case::held();
    case.chaperon = Some(granted(1));
    case.pod.as_mut().unwrap().gates = Some("example.com/queue".into());
    case.drop(&Dropped::NotNow);
    case.refuses(&Refusal::Gated("example.com/queue".into()));
}

// ---- hold: n ----------------------------------------------------------------------------------------------------

#[test]
fn a_newer_attempt_means_that_someone_took_over() {
    let mut case = Case::held();
    case.chaperon = Some(reserved(2));
    case.drop(&Dropped::TakenOver);
    let plan = case.plan();
    assert_eq!(
        (plan.step, plan.gate),
        (Step::Rest, Gate::Shut(Note::OtherLeader))
    );
}

#[test]
fn a_store_older_than_our_own_write_changes_nothing() {
    let mut case = Case::held();
    case.chaperon = Some(chaperon());
    assert_eq!(case.plan(), Plan::shut(Note::Seated).wake(secs(10)));
}

#[test]
fn a_pod_that_is_gone_takes_its_answer_along() {
    let mut case = Case::held();
    case.pod = None;
    case.drop(&Dropped::PodLeft);
    case.refuses(&Refusal::PodGone);
    // A new pod of that name is another pod.
    let mut case = Case::held();
    case.pod = Some(PodView {
        uid: "p2".into(),
        ..pod()
    });
    case.drop(&Dropped::PodLeft);
    case.refuses(&Refusal::PodGone);
}

#[test]
fn a_pod_or_chaperon_that_leaves_ends_the_hold_without_a_word() {
    let bound = PodView {
        node: Some("n9".into()),
        ..pod()
    };
    let ending = PodView {
        ending: true,
        ..pod()
    };
    for (pod, chaperon, why) in [
        (bound, Some(reserved(1)), Dropped::PodLeft),
        (ending, Some(reserved(1)), Dropped::PodLeft),
        (pod(), None, Dropped::ChaperonLeft),
        (
            pod(),
            Some(ChaperonView {
                ending: true,
                ..granted(1)
            }),
            Dropped::ChaperonLeft,
        ),
    ] {
        let mut case = Case {
            pod: Some(pod),
            chaperon,
            ..Case::held()
        };
        case.drop(&why);
        assert_eq!(case.step(), Step::Rest, "{why:?}");
    }
}

#[test]
fn at_the_deadline_the_node_goes_first_then_the_answer_and_the_next_one_waits() {
    let mut case = Case::held();
    case.now = secs(10);
    case.drop(&Dropped::Expired);
    case.refuses(&Refusal::Expired);
    assert_eq!(case.plan(), Plan::shut(Note::Pausing).wake(secs(20)));
    case.now = secs(20);
    assert_eq!(case.plan().gate, Gate::Open);
    // The second time in a row it waits twice as long.
    case.memory.taken("p1", "n1", case.now);
    assert_eq!(case.write(Outcome::Done).attempt, 3);
    case.chaperon = Some(reserved(3));
    case.now = secs(30);
    case.drop(&Dropped::Expired);
    case.refuses(&Refusal::Expired);
    assert_eq!(case.plan(), Plan::shut(Note::Pausing).wake(secs(50)));
    // A source that moves is waiting: no pause.
    case.chaperon.as_mut().unwrap().source_side = 1;
    assert_eq!(case.plan().gate, Gate::Open);
}

#[test]
fn a_grant_that_came_before_the_withdrawal_is_honoured() {
    let mut case = Case::held();
    case.now = secs(10);
    case.drop(&Dropped::Expired);
    case.write(Outcome::Conflict);
    case.chaperon = Some(granted(1));
    assert_eq!(case.plan(), Plan::rest(Gate::Open), "a node again");
    case.memory.taken("p1", "n2", case.now);
    assert_eq!(case.step(), Step::Recheck { attempt: 1 });
}

#[test]
fn a_withdrawal_that_failed_for_another_reason_is_sent_again() {
    let mut case = Case::held();
    case.now = secs(10);
    case.drop(&Dropped::Expired);
    case.write(Outcome::Unknown);
    assert_eq!(
        case.plan(),
        Plan::shut(Note::InDebt).wake(secs(10) + Duration::from_millis(250))
    );
    case.now = secs(11);
    case.write(Outcome::Conflict);
    // The conflict was a status update: still reserved, still owed.
    case.chaperon.as_mut().unwrap().resource_version = "150".into();
    case.refuses(&Refusal::Expired);
}

#[test]
fn a_grant_for_this_attempt_is_rechecked_permitted_and_bound() {
    let mut case = Case::binding();
    assert_eq!(
        case.step(),
        Step::Bind {
            pod_uid: "p1".into(),
            node: "n1".into()
        }
    );
    case.memory
        .bind_replied(BindOutcome::Done, &SETTINGS, case.now);
    assert_eq!(case.step(), Step::Confirm);
    case.memory.confirmed();
    case.memory.put_back("p1");
    assert_eq!(
        case.plan(),
        Plan::shut(Note::Settled),
        "though the store shows no node yet"
    );
}

#[test]
fn a_grant_for_another_attempt_keeps_the_hold_and_binds_nothing() {
    let mut case = Case::held();
    for allowed in [0, 2, 7] {
        case.chaperon = Some(ChaperonView {
            grant: Grant::Attempt(allowed),
            ..reserved(1)
        });
        assert_eq!(case.plan().step, Step::Rest, "{allowed}");
    }
    assert_eq!(case.memory.seat().unwrap().attempt(), Some(1));
}

#[test]
fn a_source_without_numbers_allows_every_attempt_and_is_given_longer() {
    let plain = |allowed: bool, chaperon: ChaperonView| ChaperonView {
        grant: Grant::Plain(allowed),
        ..chaperon
    };
    let mut case = Case::new();
    case.chaperon = Some(plain(false, chaperon()));
    case.memory.taken("p1", "n1", case.now);
    let Step::Write(write) = case.step() else {
        panic!()
    };
    case.memory
        .wrote(&write, Outcome::Done, false, &SETTINGS, case.now);
    case.chaperon = Some(plain(false, reserved(1)));
    assert_eq!(case.plan(), Plan::shut(Note::Seated).wake(secs(30)));
    case.chaperon = Some(plain(true, reserved(1)));
    assert_eq!(case.step(), Step::Recheck { attempt: 1 });
}

#[test]
fn the_successor_of_a_bound_pod_needs_its_own_reserving_write_but_no_new_grant() {
    let mut case = Case::new();
    let left = ChaperonView {
        reserved_pod_uid: Some("p0".into()),
        was_bound: true,
        ..granted(1)
    };
    case.chaperon = Some(left.clone());
    assert_eq!(case.plan().gate, Gate::Open);
    case.memory.taken("p1", "n2", case.now);
    assert_eq!(case.write(Outcome::Done).attempt, 2);
    case.chaperon = Some(ChaperonView {
        attempt: 2,
        reserved_pod_uid: Some("p1".into()),
        resource_version: "300".into(),
        ..left
    });
    assert_eq!(case.step(), Step::Recheck { attempt: 2 });
}

#[test]
fn room_that_somebody_took_is_said_although_it_was_granted() {
    let mut case = Case::held();
    case.chaperon = Some(granted(1));
    assert_eq!(case.step(), Step::Recheck { attempt: 1 });
    case.memory.rechecked(
        1,
        Fit::Misfit("Insufficient cpu".into()),
        &SETTINGS,
        case.now,
    );
    case.drop(&Dropped::NoLongerFits("Insufficient cpu".into()));
    case.refuses(&Refusal::NoLongerFits);
    assert_eq!(case.plan().gate, Gate::Open, "another node may do");
}

// ---- requests ---------------------------------------------------------------------------------------------------

#[test]
fn a_node_that_cannot_be_announced_in_time_is_given_back() {
    let mut case = Case::new();
    case.memory.taken("p1", "n1", case.now);
    case.write(Outcome::Unknown);
    case.now = secs(10);
    case.drop(&Dropped::Unanswered);
    // It had landed: nobody holds a node for it.
    case.chaperon = Some(reserved(1));
    case.now = secs(12);
    case.refuses(&Refusal::Expired);
}

#[test]
fn a_reservation_of_unknown_outcome_that_landed_is_numbered_anew() {
    let mut case = Case::new();
    case.memory.taken("p1", "n1", case.now);
    case.write(Outcome::Unknown);
    case.now = secs(1);
    case.write(Outcome::Conflict);
    case.chaperon = Some(reserved(1));
    assert_eq!(
        case.write(Outcome::Done).attempt,
        2,
        "it may be another leader's, so it is none of ours"
    );
}

#[test]
fn a_write_that_is_refused_is_told_and_tried_again() {
    let mut case = Case::new();
    case.memory.found_none("p1", unschedulable("full"));
    case.write(Outcome::Refused("forbidden".into()));
    let plan = case.plan();
    assert_eq!(plan.tell, Some(Note::WriteRefused("forbidden".into())));
    assert_eq!(plan.wake_at, Some(Duration::from_millis(250)));
    case.now = secs(1);
    case.write(Outcome::Done);
}

#[test]
fn a_meaningless_value_is_told_once() {
    let mut case = Case::new();
    let fault = Fault {
        key: pilotage_api::keys::ATTEMPT,
        value: "x".into(),
    };
    case.chaperon.as_mut().unwrap().faults = vec![fault.clone()];
    assert_eq!(case.plan().tell, Some(Note::Unreadable(fault)));
    assert_eq!(case.plan().tell, None);
}

#[test]
fn notes_that_differ_each_time_fill_no_memory() {
    let mut case = Case::new();
    let mut is_told = |value: u32| {
        let (key, value) = (pilotage_api::keys::ATTEMPT, value.to_string());
        case.chaperon.as_mut().unwrap().faults = vec![Fault { key, value }];
        case.plan().tell.is_some()
    };
    assert!((0..17_u32).all(&mut is_told));
    assert!(!(1..17_u32).any(&mut is_told), "sixteen are remembered");
    assert!(is_told(0), "the oldest one isn't");
}
