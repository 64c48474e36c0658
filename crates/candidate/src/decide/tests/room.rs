//! Room that evictions would make: offered under an attempt, made once that is granted.

use pilotage_api::preempts::Preempts;

use super::*;
use crate::plan::Leave;

fn cost(pods: u32) -> Preempts {
    Preempts {
        budgets: 0,
        highest: 5,
        sum: 7,
        pods,
        oldest: Some(1),
        grace: secs(60),
    }
}

fn with_offer(chaperon: ChaperonView) -> ChaperonView {
    ChaperonView {
        preempts: Some(cost(2)),
        ..chaperon
    }
}

/// An offer under attempt 1 since second 0.
fn offered() -> Case {
    let mut case = Case::new();
    case.memory.offered("p1", "n1", cost(2), case.now);
    let write = case.write(Outcome::Done);
    let answer = Answer::Reserved {
        pod: "p1".into(),
        preempts: Some(cost(2)),
    };
    assert_eq!((write.attempt, write.answer), (1, answer));
    case.chaperon = Some(with_offer(reserved(1)));
    case
}

/// The same, granted: the scheduler has leave to evict.
fn making() -> Case {
    let mut case = offered();
    case.chaperon = Some(with_offer(granted(1)));
    make_room(&mut case, 1);
    case
}

fn make_room(case: &mut Case, attempt: u64) {
    let Step::MakeRoom {
        pod_uid,
        attempt: granted,
        preempts,
    } = case.step()
    else {
        panic!("room was to be made")
    };
    assert_eq!((&*pod_uid, granted, preempts), ("p1", attempt, cost(2)));
    case.memory
        .make_room(&pod_uid, attempt, preempts, &SETTINGS, case.now);
}

#[test]
fn nobody_is_evicted_before_the_grant() {
    let mut case = Case::new();
    assert_eq!(case.plan().leave, Leave::Offer);
    case = offered();
    let plan = case.plan();
    assert_eq!(plan, Plan::shut(Note::Seated).wake(secs(10)));
    assert_eq!(plan.leave, Leave::Offer);
}

#[test]
fn an_offer_ends_like_a_hold() {
    let mut case = offered();
    case.now = secs(10);
    case.drop(&Dropped::Expired);
    case.refuses(&Refusal::Expired);
}

#[test]
fn an_offer_that_was_replaced_while_it_was_told_gives_no_leave_and_is_told_anew() {
    let replaced = || {
        let mut case = Case::new();
        case.memory.offered("p1", "n1", cost(2), case.now);
        let Step::Write(write) = case.step() else {
            panic!("it was to be told")
        };
        case.now = secs(1);
        case.memory.offered("p1", "n2", cost(3), case.now);
        (case.memory).wrote(&write, Outcome::Done, true, &SETTINGS, case.now);
        case
    };
    let mut case = replaced();
    case.chaperon = Some(with_offer(reserved(1)));
    let write = case.write(Outcome::Done);
    let answer = Answer::Reserved {
        pod: "p1".into(),
        preempts: Some(cost(3)),
    };
    assert_eq!((write.attempt, write.answer), (2, answer));

    let mut case = replaced();
    case.chaperon = Some(with_offer(granted(1)));
    case.drop(&Dropped::NoLongerFits("evictions would be needed".into()));
    case.refuses(&Refusal::NoLongerFits);
}

#[test]
fn the_grant_gives_leave_up_to_what_was_said_and_once() {
    let mut case = making();
    let until = secs(60) + SETTINGS.make_room;
    let open = |leave| Plan {
        leave,
        ..Plan::rest(Gate::Open).wake(until)
    };
    assert_eq!(case.plan(), open(Leave::UpTo(cost(2))));
    assert!(case.memory.room_awaited("p1"));
    assert_eq!(case.plan(), open(Leave::Used));
    // The room is there, if not on the same node.
    case.memory.taken("p1", "n2", secs(20));
    assert_eq!(case.step(), Step::Recheck { attempt: 1 });
    case.memory.rechecked(1, Fit::Fits, &SETTINGS, secs(20));
    assert_eq!(case.step(), Step::Permit);
}

#[test]
fn room_that_was_made_and_lost_is_not_made_again_for_the_same_grant() {
    let mut case = making();
    assert!(case.memory.room_awaited("p1"));
    // An answer that may have landed, and didn't.
    let write = Write {
        chaperon_uid: "c1".into(),
        resource_version: "0".into(),
        attempt: 2,
        answer: Answer::Reserved {
            pod: "p1".into(),
            preempts: None,
        },
    };
    case.memory.begin_write(&write);
    case.memory.taken("p1", "n2", secs(20));
    case.memory.put_back("p1");
    case.refuses(&Refusal::NoLongerFits);
}

#[test]
fn what_cannot_be_kept_is_taken_back() {
    let fails: [fn(&mut Memory); 2] = [
        |memory| memory.found_none("p1", unschedulable("full")),
        |memory| memory.offered("p1", "n1", cost(3), secs(1)),
    ];
    for fail in fails {
        let mut case = making();
        fail(&mut case.memory);
        let Step::Drop { why, debt, pause } = case.step() else {
            panic!("a drop was due")
        };
        assert!(matches!(why, Dropped::NoLongerFits(_)), "{why}");
        assert!(debt.as_ref().is_some_and(|debt| debt.firm));
        (case.memory).dropped(&why, debt, pause, &SETTINGS, case.now);
        case.refuses(&Refusal::NoLongerFits);
    }
    let mut case = making();
    case.now = secs(60) + SETTINGS.make_room;
    case.drop(&Dropped::RoomNotMade);
    case.refuses(&Refusal::Expired);
}

#[test]
fn a_source_that_moves_on_ends_it() {
    let mut case = making();
    case.chaperon = Some(reserved(2));
    case.drop(&Dropped::TakenOver);
    let mut case = making();
    case.pod.as_mut().unwrap().ending = true;
    case.drop(&Dropped::PodLeft);
    let mut case = making();
    case.chaperon = None;
    case.drop(&Dropped::ChaperonLeft);
}

#[test]
fn another_process_keeps_the_promise() {
    let mut case = Case::new();
    case.memory = Memory::new(true);
    case.chaperon = Some(with_offer(granted(3)));
    make_room(&mut case, 3);
    assert_eq!(case.plan().leave, Leave::UpTo(cost(2)));
    // It has room by now.
    case.memory.taken("p1", "n1", case.now);
    assert_eq!(case.step(), Step::Recheck { attempt: 3 });
}

#[test]
fn who_was_promised_room_for_nothing_has_no_leave() {
    let mut case = Case::new();
    case.memory = Memory::new(true);
    case.chaperon = Some(granted(3));
    assert_eq!(case.plan().leave, Leave::Offer);
    case.memory.offered("p1", "n1", cost(2), case.now);
    case.drop(&Dropped::NoLongerFits("evictions would be needed".into()));
    case.refuses(&Refusal::NoLongerFits);
}
