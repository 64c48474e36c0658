//! Targets that would have to evict others.

use super::*;

fn offers(costs: &[(&str, u32)]) -> Scene {
    let mut scene = Scene::new();
    for (node, pods) in costs {
        scene = scene.with(chaperon(node, node).reserved(1).evicting(*pods));
    }
    scene
}

fn choosable(plan: &Plan) -> Vec<&str> {
    let answers = plan.answers.iter();
    let able = answers.filter(|(_, answer)| answer.is_choosable());
    able.map(|(node, _)| &**node).collect()
}

#[test]
fn who_has_room_goes_first() {
    let mut scene = offers(&[("a", 1)]).with(chaperon("b", "b").reserved(1));
    let plan = scene.step();
    assert_eq!((&plan.gate, choosable(&plan)), (&Gate::Open, vec!["b"]));
    assert!(asked(&plan).is_empty(), "nobody else is needed");
    let said = plan.answers["a"].objection().unwrap();
    assert_eq!(said, "would evict 1 pod(s), at a higher cost than others");
}

#[test]
fn nobody_is_chosen_for_evictions_while_others_can_be_asked() {
    let mut scene = offers(&[("a", 1), ("b", 2), ("c", 3)]);
    let plan = scene.step();
    assert_eq!(asked(&plan), ["d", "e"]);
    assert!(matches!(plan.gate, Gate::Closed(Note::Asked(_))));
    assert!(choosable(&plan).is_empty());
}

#[test]
fn of_all_that_would_evict_the_cheapest_are_chosen_among() {
    let mut scene = offers(&[("a", 3), ("b", 2), ("c", 2), ("d", 4)]);
    scene = scene.with(chaperon("e", "e").refused(1));
    let plan = scene.step();
    assert_eq!(
        (&plan.gate, choosable(&plan)),
        (&Gate::Open, vec!["b", "c"])
    );
    let mut scene = scene.chose("b");
    let plan = scene.step();
    assert!(matches!(&plan.actions[..], [Action::Record { record, .. }] if record.node == "b"));
}

#[test]
fn one_that_does_not_suit_any_more_outbids_nobody() {
    let mut scene = offers(&[("a", 1), ("b", 2)]);
    scene.ranking.retain(|ranked| ranked.node == "b");
    assert_eq!(choosable(&scene.step()), ["b"]);
}

#[test]
fn the_silent_are_waited_for_with_patience_before_anybody_goes() {
    let mut scene = Scene::new();
    scene.ranking.truncate(2);
    let plan = scene.step();
    scene.finish(&plan, &Outcome::Done);
    let mut scene = scene
        .with(chaperon("a", "a").reserved(1).evicting(1))
        .with(chaperon("b", "b"));
    let plan = scene.step();
    assert!(matches!(plan.gate, Gate::Closed(Note::Asked(_))));
    let patience = scene.settings.patience;
    assert_eq!(plan.wake_at, Some(NOW + patience));
    scene.later(patience);
    let plan = scene.step();
    assert_eq!((&plan.gate, choosable(&plan)), (&Gate::Open, vec!["a"]));
}

#[test]
fn a_grant_that_evicts_may_take_as_long_as_that_takes() {
    let granted = |builder: ChaperonBuilder| {
        let mut scene = Scene::new().with(builder.granted(1)).recorded("a/ua/1");
        scene.step();
        scene
    };
    let settings = Settings::default();
    let mut scene = granted(chaperon("a", "ua").evicting(1));
    scene.later(settings.give_up);
    assert!(!is_give_up(&scene.step(), "ua"));
    scene.later(settings.make_room + Duration::from_mins(1));
    assert!(is_give_up(&scene.step(), "ua"));
    let mut scene = granted(chaperon("a", "ua"));
    scene.later(settings.give_up);
    assert!(is_give_up(&scene.step(), "ua"));
}

/// A grant came to nothing, or never came: the target has an offer anew, and this time it would evict.
#[test]
fn a_choice_that_needed_no_eviction_is_not_granted_as_one() {
    // None has landed, so the record is dead, and all offers are compared again.
    let anew = || chaperon("a", "a").reserved(2).evicting(1);
    let mut scene = Scene::new().with(anew()).recorded("a/a/1");
    scene = scene.with(chaperon("b", "b").reserved(1));
    let plan = scene.step();
    assert_eq!((&plan.gate, choosable(&plan)), (&Gate::Open, vec!["b"]));
    assert!(plan.actions.is_empty(), "{plan:?}");
    let mut scene = Scene::new().with(anew()).recorded("a/a/1");
    let plan = scene.step();
    assert!(
        matches!(plan.gate, Gate::Closed(Note::Asked(_))),
        "{plan:?}"
    );
    assert_eq!(asked(&plan), ["b", "c", "d"], "others may have room");
    // One has landed: only who lets go of it is asked again.
    let void = chaperon("a", "a").marks(2, 1, true).evicting(1);
    let plan = Scene::new().with(void).recorded("a/a/1").step();
    assert!(is_give_up(&plan, "a"), "{plan:?}");
}

/// The cycle that chose it knew another answer.
#[test]
fn a_choice_is_not_recorded_once_the_target_has_to_evict_and_others_may_not() {
    let mut scene = offers(&[("a", 1)]).with(chaperon("b", "b").reserved(1));
    scene = scene.chose("a");
    let plan = scene.step();
    assert!(matches!(plan.choice, ChoiceFate::Failed(_)), "{plan:?}");
    assert!(
        !plan
            .actions
            .iter()
            .any(|it| matches!(it, Action::Record { .. }))
    );
    let mut scene = offers(&[("a", 1)]).chose("a");
    let plan = scene.step();
    assert!(
        matches!(plan.choice, ChoiceFate::Failed(_)),
        "not all were asked: {plan:?}"
    );
}
