//! Pods that are questions only.

use super::*;

fn question() -> Scene {
    let mut scene = Scene::new();
    scene.proxy.what_if = true;
    scene
}

/// What a plan writes that gives the pod to somebody.
fn gives(plan: &Plan) -> bool {
    let is_gift = |action: &Action| {
        matches!(
            action,
            Action::Record { .. } | Action::Grant { .. } | Action::BindProxy { .. }
        )
    };
    plan.actions.iter().any(is_gift)
}

#[test]
fn all_are_asked_at_once_and_told_when_the_last_has_answered() {
    let mut scene = question();
    // The first would do for a pod that is to run.
    scene.ranking[0].surely_fits = true;
    let plan = scene.step();
    assert_eq!(asked(&plan), ["a", "b", "c", "d", "e"]);
    assert!(matches!(plan.gate, Gate::Closed(Note::Asked(_))));
    scene.finish(&plan, &Outcome::Done);

    let mut scene = scene
        .with(chaperon("a", "ua").reserved(1))
        .with(chaperon("b", "ub").refused(1))
        .with(chaperon("c", "uc").reserved(1).evicting(2))
        .with(chaperon("d", "ud"))
        .lost("e");
    let plan = scene.step();
    assert!(matches!(plan.gate, Gate::Closed(Note::Asked(_))));

    let mut scene = scene.with(chaperon("d", "ud").reserved(1));
    let plan = scene.step();
    assert_eq!((plan.actions, plan.gate), (vec![], Gate::Open));
    let says = |node: &str| plan.answers[node].objection().unwrap();
    assert_eq!(says("a"), "could take the pod");
    assert_eq!(says("b"), "refused [full]");
    assert_eq!(says("c"), "could take the pod by evicting 2 pod(s)");
    assert_eq!(says("e"), "can't be reached");
    assert!(plan.answers.values().all(|answer| !answer.is_choosable()));
}

#[test]
fn one_that_stays_silent_is_waited_for_with_patience() {
    let mut scene = question();
    let plan = scene.step();
    scene.finish(&plan, &Outcome::Done);
    for node in ["a", "b", "c", "d", "e"] {
        scene = scene.with(chaperon(node, &format!("u{node}")));
    }
    let plan = scene.step();
    assert_eq!(plan.wake_at, Some(NOW + scene.settings.patience));
    scene.later(scene.settings.patience);
    let plan = scene.step();
    assert_eq!(plan.gate, Gate::Open);
    assert_eq!(plan.answers["a"], Answer::Silent);
}

#[test]
fn nobody_is_given_it_whatever_a_cycle_chose() {
    let mut scene = question().with(chaperon("a", "ua").reserved(1)).chose("a");
    let plan = scene.step();
    assert!(!gives(&plan));
    assert!(matches!(plan.choice, ChoiceFate::Failed(_)));
    // Who is asked for a pod without reservation runs it.
    scene.proxy.no_reservation = true;
    let plan = scene.step();
    assert!(asked(&plan).is_empty() && !gives(&plan));
}

#[test]
fn nobody_is_given_it_by_showing_a_grant() {
    let ours = || vec![pilotage_api::keys::DELEGATE_GONE.to_owned()];
    for (recorded, finalizers) in [
        (true, vec![]),
        (true, ours()),
        (false, ours()),
        (false, vec![]),
    ] {
        let mut scene = question().with(chaperon("a", "ua").granted(1).bound());
        scene.proxy.recorded = recorded;
        scene.proxy.finalizers = finalizers;
        let plan = scene.step();
        assert!(!gives(&plan), "{plan:?}");
        assert_eq!(cleared(&plan), ["ua"]);
        assert_eq!(asked(&plan), ["b", "c", "d", "e"], "the others are asked");
    }
}
