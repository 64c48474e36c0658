//! Recorded at a target that is lost, forgotten, or on its way out.

use pilotage_api::lost::LostPolicy;

use super::*;
use crate::{settings::LONGEST_BUSY, targets::Terms};

const AFTER: Duration = Duration::from_mins(1);

fn terms(scene: &mut Scene, node: &str, terms: Terms) {
    scene.targets.set_terms(node, terms);
}

/// Recorded at a, which is lost from now on.
fn lost_at_a() -> Scene {
    Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1))
        .lost("a")
}

#[test]
fn after_the_time_that_its_author_gave_a_lost_pod_is_placed_elsewhere() {
    let mut scene = lost_at_a();
    scene.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    let plan = scene.step();
    assert!(plan.actions.is_empty(), "held until then");
    assert!(plan.wake_at.is_some_and(|at| at <= NOW + AFTER));

    let plan = scene.later(AFTER).step();
    assert_eq!(asked(&plan), ["b", "c", "d"]);
    let released = |given_up| Released {
        node: "a".into(),
        given_up,
        placed: false,
    };
    assert_eq!(plan.released, Some(released(true)));
    assert_eq!(scene.step().released, None, "told once");
    let mut gone = Scene::new().recorded("a/ua/1");
    gone.memory.confirm_gone("a", "ua");
    assert_eq!(gone.step().released, Some(released(false)));
    let scene = scene.with(chaperon("b", "ub").reserved(1)).chose("b");
    let mut back = scene;
    assert!(is_record(&back.step(), "b/ub/1"), "R5");

    // The target came back before that: it wins.
    back.memory = Memory::default();
    back.targets.set_reach("a", Reach::Reachable, back.now);
    let plan = back.step();
    assert!(
        !plan
            .actions
            .iter()
            .any(|a| matches!(a, Action::Record { .. }))
    );
    assert!(matches!(plan.choice, ChoiceFate::Failed(_)));
}

#[test]
fn a_target_may_say_it_for_its_pods_and_forget_needs_no_time() {
    let mut scene = lost_at_a();
    let policy = Terms {
        lost_policy: Some(LostPolicy::ReplaceAfter(AFTER)),
        ..Terms::default()
    };
    terms(&mut scene, "a", policy);
    assert!(asked(&scene.later(Duration::from_secs(59)).step()).is_empty());
    assert_eq!(
        asked(&scene.later(Duration::from_secs(1)).step()),
        ["b", "c", "d"]
    );

    let mut scene = lost_at_a();
    let forgotten = Terms {
        forgotten: true,
        ..Terms::default()
    };
    terms(&mut scene, "a", forgotten);
    assert_eq!(asked(&scene.step()), ["b", "c", "d"]);
}

#[test]
fn a_target_whose_pilotage_is_down_is_as_good_as_lost() {
    let granted = || chaperon("a", "ua").granted(1);
    let waiting = [
        ("nobody ends the pod", granted().gives_up()),
        ("nobody lifts the finalizer", granted().ending()),
    ];
    for (name, stuck) in waiting {
        let mut scene = Scene::new().recorded("a/ua/1").with(stuck);
        scene.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
        assert!(asked(&scene.step()).is_empty(), "{name}: it may yet");
        let plan = scene.later(AFTER).step();
        assert_eq!(asked(&plan), ["b", "c", "d"], "{name}");
        let mut scene = scene.with(chaperon("b", "ub").reserved(1)).chose("b");
        assert!(is_record(&scene.step(), "b/ub/1"), "{name}");
    }

    let mut answered = Scene::new()
        .recorded("a/ua/1")
        .with(granted().gives_up().missing());
    answered.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    assert!(is_delete(&answered.step(), "ua"));
    assert!(asked(&answered.later(AFTER).step()).is_empty());

    let mut forgotten = Scene::new().recorded("a/ua/1").with(granted().gives_up());
    let word = Terms {
        forgotten: true,
        ..Terms::default()
    };
    terms(&mut forgotten, "a", word);
    assert!(asked(&forgotten.step()).is_empty(), "it may merely be busy");
    assert_eq!(
        asked(&forgotten.later(LONGEST_BUSY).step()),
        ["b", "c", "d"]
    );

    let mut bound = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1).bound().ending());
    bound.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    bound.step();
    let plan = bound.later(AFTER).step();
    assert!(
        asked(&plan).is_empty(),
        "a delegate may take its time to end"
    );
}

#[test]
fn a_target_that_is_being_removed_gets_nothing_and_keeps_only_what_is_bound() {
    let leaving = Terms {
        leaving: true,
        ..Terms::default()
    };
    let mut open = Scene::new().with(chaperon("a", "ua").reserved(1));
    terms(&mut open, "a", leaving);
    terms(&mut open, "b", leaving);
    let plan = open.step();
    assert_eq!(asked(&plan), ["c", "d", "e"]);
    assert!(
        plan.actions
            .iter()
            .any(|a| matches!(a, Action::DeleteChaperon { uid, .. } if uid == "ua"))
    );

    let mut granted = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1));
    terms(&mut granted, "a", leaving);
    assert!(is_give_up(&granted.step(), "ua"));

    let mut bound = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1).bound());
    terms(&mut bound, "a", leaving);
    assert!(matches!(
        bound.step().actions.as_slice(),
        [Action::BindProxy { .. }]
    ));
}

#[test]
fn the_time_to_give_up_begins_anew_when_a_lost_target_answers_again() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").granted(1))
        .recorded("a/ua/1");
    scene.step();
    scene.later(Duration::from_secs(1));
    scene.targets.set_reach("a", Reach::Lost, scene.now);
    scene.step();
    scene.later(Duration::from_mins(1));
    scene.targets.set_reach("a", Reach::Reachable, scene.now);
    let plan = scene.step();
    assert!(plan.actions.is_empty(), "it may be binding: {plan:?}");
    scene.later(scene.settings.give_up);
    assert!(is_give_up(&scene.step(), "ua"));
}

#[test]
fn time_in_which_a_target_could_not_be_seen_is_not_its_pilotages() {
    let mut scene = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1).gives_up());
    scene.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    scene.step();
    scene.targets.set_reach("a", Reach::Unseen, scene.now);
    assert!(asked(&scene.later(AFTER).step()).is_empty());
    scene.targets.set_reach("a", Reach::Reachable, scene.now);
    assert!(asked(&scene.step()).is_empty(), "it has just come back");
    assert_eq!(asked(&scene.later(AFTER).step()), ["b", "c", "d"]);
}

#[test]
fn a_forgotten_target_that_was_asked_to_end_a_grant_is_waited_for_by_our_own_clock() {
    let word = |forgotten, leaving| Terms {
        leaving,
        forgotten,
        ..Terms::default()
    };
    let second = Duration::from_secs(1);
    // It shows the same for ever, as if nobody had asked for anything.
    let scene = || {
        Scene::new()
            .recorded("a/ua/1")
            .with(chaperon("a", "ua").granted(1))
    };
    let mut leaving = scene();
    terms(&mut leaving, "a", word(true, true));
    let refused = Outcome::Unknown("it shows what it was".to_owned());
    let plan = leaving.step();
    assert!(is_give_up(&plan, "ua"));
    leaving.finish(&plan, &refused);
    let plan = leaving.later(LONGEST_BUSY.saturating_sub(second)).step();
    leaving.finish(&plan, &refused);
    assert!(asked(&leaving.step()).is_empty(), "it may merely be busy");
    let after = leaving.later(second).step();
    assert_eq!(asked(&after), ["b", "c", "d"]);
    let again = |action: &Action| matches!(action, Action::GiveUp { uid, .. } if uid == "ua");
    assert!(
        after.actions.iter().any(again),
        "it may be well again: {after:?}"
    );

    let mut held = scene();
    terms(&mut held, "a", word(false, true));
    assert!(is_give_up(&held.step(), "ua"));
    assert!(asked(&held.later(AFTER).step()).is_empty(), "nobody's word");
    // What was asked for since, counts.
    terms(&mut held, "a", word(true, true));
    assert_eq!(asked(&held.step()), ["b", "c", "d"]);

    let mut bound = scene();
    terms(&mut bound, "a", word(true, true));
    bound.step();
    bound = bound.with(chaperon("a", "ua").granted(1).bound());
    assert!(
        matches!(
            bound.later(AFTER).step().actions.as_slice(),
            [Action::BindProxy { .. }]
        ),
        "one that says that it is bound gets the pod"
    );

    let mut unasked = scene();
    terms(&mut unasked, "a", word(true, false));
    unasked.step();
    let give_up = unasked.settings.give_up;
    assert!(is_give_up(&unasked.later(give_up).step(), "ua"));
    // Another attempt is another grant.
    let mut anew = unasked
        .recorded("a/ua/2")
        .with(chaperon("a", "ua").granted(2));
    anew.later(LONGEST_BUSY).step();
    assert!(asked(&anew.step()).is_empty());
}
