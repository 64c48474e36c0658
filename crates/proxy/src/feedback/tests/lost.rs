//! Placed at, or ending with a record of, a target that is lost or forgotten.

use std::time::Duration;

use pilotage_api::lost::LostPolicy;

use super::*;
use crate::{settings::LONGEST_BUSY, targets::Terms};

const AFTER: Duration = Duration::from_mins(1);

fn impatient(mut scene: Scene) -> Scene {
    if let Some(proxy) = &mut scene.proxy {
        proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    }
    scene.targets.set_reach("a", Reach::Lost, NOW);
    scene
}

#[test]
fn a_placed_pod_is_replaced_only_when_its_time_is_over() {
    let mut held = Scene::placed("a/ua/1");
    held.targets.set_reach("a", Reach::Lost, NOW);
    held.now += AFTER * 100;
    assert!(held.step().actions.is_empty(), "held for ever");

    let mut scene = impatient(Scene::placed("a/ua/1"));
    let plan = scene.step();
    assert!(plan.actions.is_empty());
    assert_eq!(plan.wake_at, Some(NOW + AFTER));
    scene.now += AFTER;
    let plan = scene.step();
    assert_eq!(plan.actions, [Action::DeleteProxy]);
    let released = plan.released.unwrap();
    assert!(released.given_up && released.placed, "{released}");
}

#[test]
fn an_ending_pod_waits_no_longer_than_its_policy_says() {
    let mut scene = impatient(Scene::ending(Some("a/ua/1")));
    let plan = scene.step();
    assert!(plan.actions.is_empty() && plan.tell.is_some());
    scene.now += AFTER;
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::RemoveFinalizer { .. }]
    ));
}

#[test]
fn a_forgotten_target_holds_nobody_as_long_as_it_is_away() {
    let terms = Terms {
        forgotten: true,
        ..Terms::default()
    };
    let mut placed = Scene::placed("a/ua/1").with(chaperon("a", "ua").granted(1).bound());
    placed.targets.set_terms("a", terms);
    let plan = placed.step();
    assert!(!plan.actions.contains(&Action::DeleteProxy), "it answers");
    placed.targets.set_reach("a", Reach::Lost, NOW);
    assert_eq!(placed.step().actions, [Action::DeleteProxy]);
}

#[test]
fn an_ending_pod_does_not_wait_for_a_pilotage_that_is_down() {
    let stuck = || Scene::ending(Some("a/ua/1")).with(chaperon("a", "ua").granted(1).ending());
    let mut held = stuck();
    assert_eq!(held.step().wake_at, Some(NOW + LONGEST_BUSY));
    held.now += LONGEST_BUSY;
    let plan = held.step();
    assert!(plan.actions.is_empty(), "held");
    assert!(plan.tell.is_some_and(|text| text.contains("Pilotage")));

    let mut replaced = stuck();
    if let Some(proxy) = &mut replaced.proxy {
        proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    }
    replaced.step();
    replaced.now += AFTER;
    assert!(matches!(
        replaced.step().actions.as_slice(),
        [Action::RemoveFinalizer { .. }]
    ));

    let mut bound =
        Scene::ending(Some("a/ua/1")).with(chaperon("a", "ua").granted(1).bound().ending());
    if let Some(proxy) = &mut bound.proxy {
        proxy.lost_policy = Some(LostPolicy::ReplaceAfter(AFTER));
    }
    bound.step();
    bound.now += AFTER * 100;
    let plan = bound.step();
    assert!(
        plan.actions.is_empty(),
        "a delegate may take its time to end"
    );
    assert!(plan.tell.is_some_and(|text| text.contains("forget=true")));

    // Until nobody is to wait for it any more.
    let forgotten = Terms {
        forgotten: true,
        ..Terms::default()
    };
    bound.targets.set_terms("a", forgotten);
    assert!(matches!(
        bound.step().actions.as_slice(),
        [Action::RemoveFinalizer { .. }]
    ));
}

fn forgotten() -> Terms {
    Terms {
        forgotten: true,
        ..Terms::default()
    }
}

/// What a target that answers may show for ever of a chaperon that we have told to end.
fn shown() -> Vec<(&'static str, Option<ChaperonBuilder>)> {
    let granted = || chaperon("a", "ua").granted(1);
    vec![
        ("unchanged", Some(granted().bound())),
        ("not even bound", Some(granted())),
        ("missing", Some(granted().missing())),
        ("void", Some(chaperon("a", "ua").marks(2, 1, false))),
        ("nothing", None),
    ]
}

#[test]
fn whatever_a_forgotten_target_shows_its_ending_pods_go() {
    // Busy for half a minute, and the usual grace.
    let wait = LONGEST_BUSY * 2;
    let is_let_go = |plan: &Plan| {
        let lets_go = |action: &Action| matches!(action, Action::RemoveFinalizer { .. });
        plan.actions.iter().any(lets_go)
    };
    for (name, chaperon) in shown() {
        let mut scene = Scene::ending(Some("a/ua/1"));
        scene.chaperons = chaperon.map(ChaperonBuilder::build).into_iter().collect();
        scene.now += AFTER;
        let plan = scene.step();
        assert_eq!(plan.wake_at, None, "{name}: nobody's word");
        scene.targets.set_terms("a", forgotten());
        let plan = scene.step();
        assert!(!is_let_go(&plan), "{name}: it may merely be busy");
        assert_eq!(plan.wake_at, Some(NOW + AFTER + wait), "{name}");
        scene.now = NOW + AFTER + wait;
        assert!(is_let_go(&scene.step()), "{name}");
        scene.targets.set_terms("a", Terms::default());
        assert!(!is_let_go(&scene.step()), "{name}: nobody's word");
    }
}

#[test]
fn a_forgotten_target_that_shows_something_else_each_time_gains_no_time() {
    let mut scene = Scene::ending(Some("a/ua/1"));
    scene.targets.set_terms("a", forgotten());
    let mut steps = 0;
    let gone = loop {
        for (name, chaperon) in shown() {
            scene.chaperons = chaperon.map(ChaperonBuilder::build).into_iter().collect();
            let reach = [Reach::Reachable, Reach::Unknown][steps % 2];
            scene.targets.set_reach("a", reach, scene.now);
            scene.step();
            steps += 1;
            scene.now += Duration::from_secs(1);
            assert!(scene.now < NOW + AFTER * 2, "{name}: it never ends");
        }
        let plan = scene.step();
        let lets_go = |action: &Action| matches!(action, Action::RemoveFinalizer { .. });
        if plan.actions.iter().any(lets_go) {
            break scene.now;
        }
    };
    assert!(gone >= NOW + LONGEST_BUSY * 2, "{gone:?}");
}

#[test]
fn a_pod_that_nobody_deletes_stays_in_a_forgotten_target_that_answers() {
    for (name, chaperon) in shown() {
        let mut scene = Scene::placed("a/ua/1");
        scene.targets.set_terms("a", forgotten());
        scene.chaperons = chaperon.map(ChaperonBuilder::build).into_iter().collect();
        for _ in 0..10 {
            let plan = scene.step();
            assert!(!plan.actions.contains(&Action::DeleteProxy), "{name}");
            scene.now += AFTER;
        }
    }
}
