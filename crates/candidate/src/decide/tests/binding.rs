//! After the grant: the second look at the node, and the binding.

use super::*;

/// The held node is looked at, and does only while others stay.
fn leans(case: &mut Case) {
    assert_eq!(case.step(), Step::Recheck { attempt: 1 });
    case.memory
        .rechecked(1, Fit::Leans("alone".into()), &SETTINGS, case.now);
}

#[test]
fn a_node_that_does_only_while_others_stay_is_looked_at_until_they_are_bound() {
    let mut case = Case::held();
    case.chaperon = Some(granted(1));
    for _ in 0..2 {
        leans(&mut case);
        let plan = case.plan();
        assert_eq!(plan.step, Step::Rest);
        assert_eq!(plan.wake_at, Some(case.now + SETTINGS.look_again));
        case.now += SETTINGS.look_again;
    }
    assert_eq!(case.step(), Step::Recheck { attempt: 1 });
    case.memory.rechecked(1, Fit::Fits, &SETTINGS, case.now);
    assert_eq!(case.step(), Step::Permit);
}

#[test]
fn others_that_never_resolve_are_not_waited_for() {
    let mut case = Case::held();
    case.chaperon = Some(granted(1));
    let until = case.now + SETTINGS.bind_timeout;
    while case.now < until {
        leans(&mut case);
        case.now += SETTINGS.look_again;
    }
    case.drop(&Dropped::NoLongerFits("alone".into()));
    case.refuses(&Refusal::NoLongerFits);
}

#[test]
fn a_grant_that_is_taken_back_while_others_are_waited_for_ends_it() {
    let mut case = Case::held();
    case.chaperon = Some(granted(1));
    leans(&mut case);
    case.chaperon = Some(ChaperonView {
        reserved: false,
        ..granted(1)
    });
    case.drop(&Dropped::TakenOver);
}

#[test]
fn a_binding_that_is_seen_needs_no_reply() {
    let mut case = Case::binding();
    case.step();
    case.pod.as_mut().unwrap().node = Some("n1".into());
    assert_eq!(case.step(), Step::Confirm);
    case.pod.as_mut().unwrap().node = Some("n2".into());
    case.drop(&Dropped::PodLeft);
}

#[test]
fn a_binding_that_the_pods_state_forbids_ends_the_hold_and_the_watch_shows_why() {
    let mut case = Case::binding();
    case.step();
    case.memory
        .bind_replied(BindOutcome::Lost, &SETTINGS, case.now);
    case.drop(&Dropped::PodLeft);
    assert_eq!(case.plan().gate, Gate::Shut(Note::Settling));
    case.pod = None;
    case.chaperon = Some(granted(1));
    case.refuses(&Refusal::PodGone);
}

#[test]
fn a_binding_of_unknown_outcome_is_sent_again_until_the_time_out() {
    let mut case = Case::binding();
    case.step();
    case.memory
        .bind_replied(BindOutcome::Unknown, &SETTINGS, case.now);
    assert_eq!(
        case.plan(),
        Plan::shut(Note::Seated)
            .wake(Duration::from_millis(250))
            .wake(secs(10))
    );
    case.now = Duration::from_millis(250);
    assert!(matches!(case.step(), Step::Bind { .. }));
    case.memory
        .bind_replied(BindOutcome::Unknown, &SETTINGS, case.now);
    case.now = secs(10);
    case.drop(&Dropped::BindTimedOut);
    case.refuses(&Refusal::Expired);
    assert_eq!(case.plan().gate, Gate::Shut(Note::Pausing));
}

#[test]
fn a_binding_that_the_api_server_refuses_is_an_answer_with_its_reason() {
    let mut case = Case::binding();
    case.step();
    case.memory
        .bind_replied(BindOutcome::Refused("quota".into()), &SETTINGS, case.now);
    case.drop(&Dropped::BindRefused("quota".into()));
    case.refuses(&unschedulable("binding refused: quota"));
    assert_eq!(case.plan().gate, Gate::Shut(Note::Settling));
}

#[test]
fn a_scheduler_that_lost_the_pod_by_itself_leaves_no_answer_behind() {
    let mut case = Case::held();
    case.memory.put_back("p1");
    case.refuses(&Refusal::NoLongerFits);
}
