//! Pods without reservation: chosen unasked, made after the grant, and left by who has no node for them.

use super::*;

#[test]
fn a_pod_without_reservation_is_chosen_unasked_then_asked_recorded_granted() {
    let mut scene = Scene::new();
    scene.proxy.no_reservation = true;
    let plan = scene.step();
    assert_eq!(
        (plan.gate, &plan.answers["a"]),
        (Gate::Open, &Answer::Unasked)
    );
    let mut scene = scene.chose("a");
    let plan = scene.step();
    assert_eq!(asked(&plan), ["a"]);
    scene.finish(&plan, &Outcome::Done);
    let mut scene = scene.with(chaperon("a", "ua"));
    let plan = scene.step();
    assert!(is_record(&plan, "a/ua/1"));
    scene.finish(&plan, &Outcome::Done);
    let mut scene = scene.recorded("a/ua/1");
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::Grant {
            form: GrantForm::Unreserved,
            ..
        }]
    ));
}

#[test]
fn a_pod_without_reservation_waits_long_only_for_a_target_that_has_made_its_delegate() {
    let mut scene = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").marks(0, 1, false));
    scene.proxy.no_reservation = true;
    assert!(scene.step().actions.is_empty());
    assert!(matches!(
        scene
            .later(Duration::from_mins(1))
            .step()
            .actions
            .as_slice(),
        [Action::GiveUp { .. }]
    ));
    let mut named = pilotage_api::PodChaperon::default();
    named.metadata.annotations =
        Some([(pilotage_api::keys::RESERVED_POD_UID.into(), "p".into())].into());
    scene.chaperons[0].object = std::sync::Arc::new(named);
    assert!(scene.step().actions.is_empty());
}

#[test]
fn a_pod_without_reservation_leaves_a_target_that_has_no_node_for_one_that_may() {
    let granted = |scene: Scene, node: &str, uid: &str| {
        let mut scene = scene.recorded(&format!("{node}/{uid}/1"));
        let unfit = chaperon(node, uid).marks(0, 1, false);
        scene.chaperons = vec![
            unfit
                .unschedulable("0/3 nodes are available: 3 full.")
                .build(),
        ];
        scene
    };
    let mut scene = granted(Scene::new(), "a", "ua");
    scene.proxy.no_reservation = true;
    scene.ranking.truncate(2);
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::GiveUp { node, .. }] if node == "a"
    ));
    // It has ended there.
    scene.chaperons.clear();
    scene.memory.confirm_gone("a", "ua");
    let plan = scene.step();
    assert!(matches!(&plan.answers["a"], Answer::Refused(why) if why.contains("3 full")));
    assert_eq!(plan.answers["b"], Answer::Unasked);

    // The other one has none either: it stays there until the first one may be asked again.
    let mut scene = granted(scene, "b", "ub");
    let plan = scene.step();
    assert!(plan.actions.is_empty(), "{:?}", plan.actions);
    let note = Note::Unfit("b".into(), "0/3 nodes are available: 3 full.".into());
    assert_eq!(plan.gate, Gate::Closed(note.clone()));
    assert_eq!(note.reasons(), ("Unschedulable", "FailedScheduling"));
    assert_eq!(
        note.to_string(),
        "b refused [3 full]; the pod waits there, as no other target may take it now"
    );
    let left = |plan: &Plan| matches!(&*plan.actions, [Action::GiveUp { node, .. }] if node == "b");
    let mut plan = plan;
    while !left(&plan) {
        assert!(scene.now < NOW + Duration::from_mins(1), "{plan:?}");
        scene.now = plan.wake_at.expect("something is to be done");
        plan = scene.step();
    }
}

#[test]
fn a_pod_without_reservation_asks_a_target_that_refused_it_again() {
    let mut scene = Scene::new().chose("a");
    scene.proxy.no_reservation = true;
    let plan = scene.step();
    assert_eq!(asked(&plan), ["a"]);
    scene.finish(&plan, &Outcome::Refused("no rights".to_owned()));
    assert!(matches!(scene.step().choice, ChoiceFate::Failed(_)));
    scene.choice = None;
    let plan = scene.step();
    assert_eq!(plan.answers["a"], Answer::Refused("no rights".to_owned()));
    let at = plan.wake_at.expect("it is to be asked again");
    scene.now = at;
    assert_eq!(scene.step().answers["a"], Answer::Unasked);
    assert_eq!(asked(&scene.chose("a").step()), ["a"]);
}

#[test]
fn a_pod_without_reservation_is_offered_just_what_it_may_choose() {
    let states = [
        (chaperon("b", "ub"), true),
        (chaperon("a", "ua"), true),
        (chaperon("a", "ua").reserved(1), true),
        (chaperon("a", "ua").refused(1), false),
        (chaperon("a", "ua").missing(), false),
        (chaperon("a", "ua").bound(), false),
        (chaperon("a", "ua").ending(), false),
    ];
    for (chaperon, may_be_chosen) in states {
        let mut scene = Scene::new().with(chaperon);
        let class = &scene.chaperons[0].class.clone();
        scene.proxy.no_reservation = true;
        let offered = scene.step().answers["a"] == Answer::Unasked;
        assert_eq!(offered, may_be_chosen, "{class:?}");
        let failed = matches!(scene.chose("a").step().choice, ChoiceFate::Failed(_));
        assert_eq!(failed, !may_be_chosen, "{class:?}");
    }
}

#[test]
fn a_pod_without_reservation_is_not_offered_the_grant_that_was_given_up() {
    let mut scene = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").marks(0, 1, false).gives_up());
    scene.proxy.no_reservation = true;
    scene.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(Duration::ZERO));
    scene.step();
    scene.later(Duration::from_mins(1));
    let plan = scene.step();
    assert_eq!(plan.gate, Gate::Open);
    assert_eq!(plan.answers["a"], Answer::Waiting);
    assert_eq!(plan.answers["b"], Answer::Unasked);
    // Its target answers at last: there is no pod, and the chaperon has gone.
    scene.chaperons.clear();
    scene.memory.confirm_gone("a", "ua");
    assert_eq!(scene.step().answers["a"], Answer::Unasked);
}
