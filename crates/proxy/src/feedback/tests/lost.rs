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
