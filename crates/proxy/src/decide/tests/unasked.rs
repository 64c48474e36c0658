//! Grants that targets show and nobody of ours gave: of pods that are recorded before they are granted.

use super::*;

/// A pod as our webhook makes it: our finalizer comes with its record.
fn fresh() -> Scene {
    let mut scene = Scene::new();
    scene.proxy.finalizers.clear();
    scene
}

fn records(plan: &Plan) -> Vec<String> {
    let records = plan.actions.iter().filter_map(|action| match action {
        Action::Record { record, .. } => Some(record.to_string()),
        _ => None,
    });
    records.collect()
}

#[test]
fn a_target_that_shows_a_grant_gets_no_pod_by_that_and_keeps_it_from_nobody() {
    let shown = || chaperon("e", "ue");
    for form in [
        shown().granted(1),
        shown().granted(1).bound(),
        shown().marks(2, 1, true),
        shown().plainly_granted(),
        shown().plainly_granted().bound(),
    ] {
        for suits in [false, true] {
            let mut scene = fresh().with(form.clone());
            if !suits {
                scene.ranking.retain(|ranked| ranked.node != "e");
            }
            let plan = scene.step();
            assert_eq!(asked(&plan), ["a", "b", "c"], "{plan:?}");
            assert_eq!(cleared(&plan), ["ue"]);
            scene.finish(&plan, &Outcome::Done);
            // It goes on to show it.
            let mut scene = scene.with(chaperon("a", "ua").reserved(1)).chose("a");
            assert_eq!(records(&scene.step()), ["a/ua/1"]);
        }
    }
}

#[test]
fn a_target_that_shows_the_end_of_a_grant_keeps_the_pod_from_nobody() {
    let mut scene = fresh()
        .with(chaperon("d", "ud").granted(1).ending())
        .with(chaperon("e", "ue").granted(1));
    let plan = scene.step();
    assert_eq!(asked(&plan), ["a", "b", "c"]);
    assert_eq!(cleared(&plan), ["ue"], "the other one goes already");
}

/// Our finalizer is there, so that there was a record, or an earlier webhook of ours made the pod.
#[test]
fn grants_of_a_pod_whose_record_was_taken_away_end_before_anybody_is_asked() {
    let granted = |node, uid| chaperon(node, uid).granted(1);
    let waits = |plan: &Plan| matches!(plan.gate, Gate::Closed(Note::Asked(_)));
    let mut scene = Scene::new().with(granted("a", "ua"));
    let plan = scene.step();
    assert_eq!((cleared(&plan), plan.actions.len()), (vec!["ua"], 1));
    assert!(waits(&plan));
    scene.finish(&plan, &Outcome::Done);
    let mut ending = scene.with(granted("a", "ua").ending());
    let plan = ending.step();
    assert!(plan.actions.is_empty() && waits(&plan), "{plan:?}");
    ending.chaperons.clear();
    assert_eq!(asked(&ending.step()), ["a", "b", "c"]);

    let mut two = Scene::new()
        .with(granted("a", "ua"))
        .with(granted("b", "ub").bound());
    assert_eq!(cleared(&two.step()), ["ua", "ub"]);
    let mut going = Scene::new()
        .with(granted("a", "ua"))
        .with(granted("b", "ub").ending());
    let plan = going.step();
    assert!(cleared(&plan) == ["ua"] && waits(&plan), "{plan:?}");
    let mut missing = Scene::new().with(granted("a", "ua").missing());
    let plan = missing.step();
    assert!(is_delete(&plan, "ua") && waits(&plan), "{plan:?}");
}

#[test]
fn a_lost_target_with_such_a_grant_is_waited_for_unless_somebody_says_otherwise() {
    let lost = || Scene::new().with(chaperon("a", "ua").granted(1)).lost("a");
    let mut held = lost();
    let plan = held.step();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.gate, Gate::Closed(Note::Asked(vec!["a".into()])));
    let mut forgotten = lost();
    let terms = Terms {
        forgotten: true,
        ..Terms::default()
    };
    forgotten.targets.set_terms("a", terms);
    assert_eq!(asked(&forgotten.step()), ["b", "c", "d"]);
    let mut impatient = lost();
    let after = Duration::from_mins(1);
    impatient.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(after));
    let plan = impatient.step();
    assert!(plan.actions.is_empty() && plan.wake_at.is_some_and(|at| at <= NOW + after));
    assert_eq!(asked(&impatient.later(after).step()), ["b", "c", "d"]);
}
