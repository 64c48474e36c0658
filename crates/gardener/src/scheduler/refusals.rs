//! Whom a Shoot is sent to after a refusal: of equal Seeds each in its turn, as by the chance of gardener-scheduler,
//! but in an order that can be told beforehand.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tests::{bind, key, place, shoot, world};
use super::*;

/// A world with Seeds that are equal, and a Shoot.
fn with(seeds: &[&str]) -> World {
    let mut world = world();
    for name in seeds {
        world.seed(name, Some(&place(name, 9, &json!({}))));
    }
    see(&mut world, 1, &json!({}));
    world
}

fn see(world: &mut World, version: u64, patch: &Value) {
    world.shoot(&key("a"), Some(&shoot("a", version, patch)));
}

fn attempt(world: &mut World) -> Bind {
    bind(world.decide(&key("a")))
}

/// Where it is sent to, to no avail.
fn refused(world: &mut World) -> Arc<str> {
    let bind = attempt(world);
    world.not_bound(&key("a"), &bind, NotBound::Refused, "no");
    bind.seed
}

fn remembered(world: &World) -> usize {
    world.waiting[&key("a")].refused.len()
}

#[test]
fn equal_seeds_take_turns() {
    let mut world = with(&["t", "s"]);
    // One that is used more isn't equal.
    world.seed("more", Some(&place("more", 9, &json!({}))));
    let other = shoot("b", 1, &json!({"spec": {"seedName": "more"}}));
    world.shoot(&key("b"), Some(&other));
    let sent: Vec<_> = (0..5).map(|_| refused(&mut world)).collect();
    assert_eq!(
        sent.iter().map(|seed| &**seed).collect::<Vec<_>>(),
        ["s", "t", "s", "t", "s"]
    );
    // Asked twice, it says the same.
    assert_eq!(attempt(&mut world), attempt(&mut world));
    assert_eq!((world.used("s"), world.used("t")), (0, 1));
}

#[test]
fn whoever_is_better_is_asked_again_though_it_refused() {
    let mut world = with(&["s", "t"]);
    assert_eq!(&*refused(&mut world), "s");
    let other = shoot("b", 1, &json!({"spec": {"seedName": "t"}}));
    world.shoot(&key("b"), Some(&other));
    assert_eq!(&*refused(&mut world), "s");
    world.shoot(&key("b"), None);
    assert_eq!(&*refused(&mut world), "t");
}

#[test]
fn only_refusals_count() {
    for how in [NotBound::Conflict, NotBound::Open] {
        let mut world = with(&["s", "t"]);
        let first = attempt(&mut world);
        world.not_bound(&key("a"), &first, how, "no");
        assert_eq!(attempt(&mut world), first);
        assert_eq!(remembered(&world), 0);
    }
}

#[test]
fn a_seed_that_changes_is_tried_again() {
    let mut world = with(&["s", "t"]);
    refused(&mut world);
    let heartbeat = json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True",
        "lastUpdateTime": "now"}]}});
    world.seed("s", Some(&place("s", 9, &heartbeat)));
    assert_eq!(&*refused(&mut world), "t");
    world.seed("t", Some(&place("t", 8, &json!({}))));
    assert_eq!(&*refused(&mut world), "t", "s has still refused it");
    assert_eq!(remembered(&world), 2);
    world.seed("s", None);
    world.seed("t", None);
    assert_eq!(remembered(&world), 0);
}

#[test]
fn a_shoot_that_changes_is_sent_to_the_first_again() {
    let mut world = with(&["s", "t"]);
    refused(&mut world);
    // What we tell it is no change.
    see(&mut world, 2, &json!({"status": {"x": 1}}));
    assert_eq!(&*attempt(&mut world).seed, "t");
    let purpose = |purpose: &str| json!({"spec": {"purpose": purpose}});
    see(&mut world, 3, &purpose("evaluation"));
    let stale = attempt(&mut world);
    assert_eq!(&*stale.seed, "s");
    // A refusal of what it doesn't ask for any more says nothing.
    see(&mut world, 4, &purpose("production"));
    world.not_bound(&key("a"), &stale, NotBound::Refused, "no");
    assert_eq!(&*refused(&mut world), "s");
    // The same name again is a new Shoot.
    see(
        &mut world,
        5,
        &json!({"metadata": {"uid": "other"}, "spec": {"purpose": "production"}}),
    );
    assert_eq!(remembered(&world), 0);
}
