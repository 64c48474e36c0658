use serde_json::{Value, json};

use super::*;
use crate::kinds::{CloudProfile, ProfileKind, Project, RegionConfig, seed};
use pilotage_placement::{Ranking, Settings, Strategy};

pub(super) fn key(name: &str) -> ShootKey {
    ShootKey::new("garden-dev", name)
}

pub(super) fn shoot(name: &str, version: u64, patch: &Value) -> SeenShoot {
    let mut shoot = json!({
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {"namespace": "garden-dev", "name": name, "uid": format!("uid-{name}"),
        "resourceVersion": version.to_string()},
        "spec": {
            "cloudProfileName": "local",
            "region": "eu",
            "provider": {"type": "aws", "workers": [{"name": "w"}]},
            "networking": {"nodes": "10.40.0.0/16"},
        },
        "ours": {"unknown": [1.5, "kept"]},
    });
    merge(&mut shoot, patch);
    SeenShoot::read(shoot).unwrap()
}

pub(super) fn place(name: &str, allocatable: u64, patch: &Value) -> Place {
    let mut value = json!({
        "metadata": {"name": name},
        "spec": {"provider": {"type": "aws", "region": "eu"}},
        "status": {
            "lastOperation": {},
            "conditions": [{"type": "GardenletReady", "status": "True"}],
            "allocatable": {"shoots": allocatable},
        },
    });
    merge(&mut value, patch);
    seed(&value)
}

fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(patch) => {
            for (key, value) in patch {
                merge(&mut target[key], value);
            }
        }
        other => *target = other.clone(),
    }
}

fn profile() -> Profile {
    CloudProfile::read(&json!({"kind": "CloudProfile", "metadata": {"name": "local"}}))
}

fn project() -> Project {
    Project::read(&json!({"metadata": {"name": "dev"}, "spec": {"namespace": "garden-dev"}}))
        .unwrap()
}

/// A world with a profile and a project.
pub(super) fn world() -> World {
    with(Settings::default())
}

fn with(settings: Settings) -> World {
    let mut world = World::new("default-scheduler", settings);
    assert!(
        world
            .profile(ProfileKind::CloudProfile, "", "local", Some(&profile()))
            .is_empty()
    );
    assert!(world.project("dev", Some(&project())).is_empty());
    world
}

pub(super) fn bind(decision: Decision) -> Bind {
    match decision {
        Decision::Bind(bind) => bind,
        other => panic!("{other:?}"),
    }
}

fn report(decision: Decision) -> Report {
    match decision {
        Decision::Report(report) => report,
        other => panic!("{other:?}"),
    }
}

const NONE: Value = Value::Null;

fn none() -> Value {
    json!({})
}

#[test]
fn whoever_was_bound_a_moment_ago_counts() {
    let mut world = world();
    world.seed("s", Some(&place("s", 2, &none())));
    for name in ["a", "b", "c"] {
        assert_eq!(
            world.shoot(&key(name), Some(&shoot(name, 1, &none()))),
            [key(name)]
        );
    }
    let a = bind(world.decide(&key("a")));
    let b = bind(world.decide(&key("b")));
    assert_eq!((&*a.seed, &*b.seed, world.used("s")), ("s", "s", 2));
    let full = report(world.decide(&key("c")));
    assert_eq!(
        full.operation,
        "Failed to schedule Shoot: 0/1 seed cluster candidate(s) are eligible for scheduling: {s => seed does not \
         have available capacity for shoots}"
    );
    // The same question has the same answer, and counts once.
    assert_eq!(bind(world.decide(&key("a"))), a);
    assert_eq!(world.used("s"), 2);

    // What landed is waited for, whatever older version comes before it.
    world.bound(&key("a"), &a, "5");
    assert!(
        world
            .shoot(&key("a"), Some(&shoot("a", 4, &none())))
            .is_empty()
    );
    assert_eq!(
        (world.decide(&key("a")), world.used("s")),
        (Decision::Nothing, 2)
    );
    let seen = shoot("a", 5, &json!({"spec": {"seedName": "s"}}));
    assert_eq!(world.shoot(&key("a"), Some(&seen)), [key("a")]);
    assert_eq!(
        (world.decide(&key("a")), world.used("s")),
        (Decision::Nothing, 2)
    );

    // A refusal makes room, and wakes who waits for it.
    let (report, woken) = world.not_bound(&key("b"), &b, NotBound::Refused, "no");
    assert_eq!(report.unwrap().operation, "Failed to schedule Shoot: no");
    assert_eq!((woken, world.used("s")), (vec![key("c")], 1));
    bind(world.decide(&key("c")));
    // So does a Shoot that goes.
    let reported = world.decide(&key("b"));
    assert!(matches!(reported, Decision::Report(_)));
    assert_eq!(world.shoot(&key("a"), None), [key("b")]);
}

#[test]
fn those_who_are_refused_do_not_wake_each_other() {
    let mut world = world();
    world.seed("s", Some(&place("s", 1, &none())));
    let names = ["a", "b", "c"];
    for name in names {
        world.shoot(&key(name), Some(&shoot(name, 1, &none())));
    }
    let mut turns: std::collections::VecDeque<_> = names.map(key).into();
    let mut refused = Vec::new();
    while let Some(next) = turns.pop_front() {
        assert!(refused.len() < 10, "it goes round and round");
        // All others look meanwhile, and find the Seed full.
        if let Decision::Bind(bind) = world.decide(&next) {
            for other in names.map(key).iter().filter(|other| **other != next) {
                if !refused.contains(other) {
                    report(world.decide(other));
                }
            }
            let (_, woken) = world.not_bound(&next, &bind, NotBound::Refused, "no");
            refused.push(next);
            turns.extend(woken);
        }
    }
    refused.sort();
    refused.dedup();
    assert_eq!(refused, names.map(key));
    // Whoever leaves for good is news for all of them; and so is another Seed.
    let seed = world.seed("t", Some(&place("t", 1, &none())));
    assert_eq!(seed.len(), 3);
}

#[test]
fn a_refusal_says_nothing_of_an_earlier_request() {
    let mut world = world();
    world.seed("s", Some(&place("s", 1, &none())));
    world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
    let first = bind(world.decide(&key("a")));
    let _ = world.not_bound(&key("a"), &first, NotBound::Open, "no answer");
    let again = bind(world.decide(&key("a")));
    let _ = world.not_bound(&key("a"), &again, NotBound::Refused, "too many requests");
    assert_eq!(world.used("s"), 1, "the first one may have landed");
    world.shoot(
        &key("a"),
        Some(&shoot("a", 2, &json!({"status": {"x": 1}}))),
    );
    assert_eq!(world.used("s"), 0, "it hasn't");
}

#[test]
fn what_changes_while_a_binding_is_under_way_is_not_missed() {
    let mut world = world();
    world.seed("s", Some(&place("s", 1, &none())));
    world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
    let first = bind(world.decide(&key("a")));
    let unhelped = world
        .not_bound(&key("a"), &first, NotBound::Refused, "no")
        .1;
    assert_eq!(unhelped, []);
    let again = bind(world.decide(&key("a")));
    let woken = world.seed("t", Some(&place("t", 1, &none())));
    assert_eq!(woken, [], "it is on its way to another Seed");
    let (_, woken) = world.not_bound(&key("a"), &again, NotBound::Refused, "no");
    assert_eq!(woken, [key("a")]);
    assert_eq!(
        &*bind(world.decide(&key("a"))).seed,
        "t",
        "its equal hasn't refused it"
    );
}

#[test]
fn an_assumption_lasts_until_the_cache_disproves_it() {
    let mut world = world();
    world.seed("s", Some(&place("s", 5, &none())));
    world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
    let first = bind(world.decide(&key("a")));
    let (report, _) = world.not_bound(&key("a"), &first, NotBound::Open, "no answer");
    assert!(report.is_some());
    assert_eq!(world.used("s"), 1, "it may have landed");
    let again = bind(world.decide(&key("a")));
    assert_eq!((again.clone(), world.used("s")), (first, 1));
    // That the cache still shows the version that we judged proves nothing.
    let (report, _) = world.not_bound(&key("a"), &again, NotBound::Conflict, "changed");
    assert_eq!((report, world.used("s")), (None, 1));
    // A newer one without a Seed does.
    let seen = shoot("a", 2, &json!({"status": {"x": 1}}));
    assert_eq!(world.shoot(&key("a"), Some(&seen)), [key("a")]);
    assert_eq!(world.used("s"), 0);
    let third = bind(world.decide(&key("a")));
    assert_eq!(third.version, "2");
    // A conflict of a version that isn't the newest any more is settled.
    world.shoot(&key("a"), Some(&shoot("a", 3, &none())));
    let _ = world.not_bound(&key("a"), &third, NotBound::Conflict, "changed");
    assert_eq!(world.used("s"), 0);
}

#[test]
fn a_conflict_is_followed_by_an_attempt_for_the_newer_version_as_soon_as_that_shows() {
    let touched = json!({"status": {"x": 1}});
    for shows_first in [true, false] {
        let mut world = world();
        world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
        // Its status is written, which the cache doesn't show yet.
        report(world.decide(&key("a")));
        assert_eq!(world.seed("s", Some(&place("s", 5, &none()))), [key("a")]);
        let stale = bind(world.decide(&key("a")));
        assert_eq!(stale.version, "1");
        let show = |world: &mut World| world.shoot(&key("a"), Some(&shoot("a", 2, &touched)));
        let before = shows_first.then(|| show(&mut world));
        assert!(before.is_none_or(|woken| woken.is_empty()));
        let (told, mut woken) = world.not_bound(&key("a"), &stale, NotBound::Conflict, "changed");
        assert_eq!(told, None);
        if !shows_first {
            assert_eq!(woken, [], "it would meet the same");
            // Nor does it help that another attempt for the same version ends otherwise.
            let again = bind(world.decide(&key("a")));
            let _ = world.not_bound(&key("a"), &again, NotBound::Open, "no answer");
            woken = show(&mut world);
        }
        assert_eq!(woken, [key("a")]);
        assert_eq!(bind(world.decide(&key("a"))).version, "2");
        // Once.
        assert_eq!(show(&mut world), []);
    }
}

#[test]
fn what_triggers_an_attempt() {
    let mut world = world();
    let pass = |world: &mut World, name: &str, version, patch: Value| {
        !world
            .shoot(&key(name), Some(&shoot(name, version, &patch)))
            .is_empty()
    };
    // P1
    assert!(pass(&mut world, "unassigned", 1, none()));
    assert!(pass(
        &mut world,
        "named",
        1,
        json!({"spec": {"schedulerName": "default-scheduler"}})
    ));
    assert!(!pass(
        &mut world,
        "foreign",
        1,
        json!({"spec": {"schedulerName": "foo-scheduler"}})
    ));
    assert!(!pass(
        &mut world,
        "assigned",
        1,
        json!({"spec": {"seedName": "s"}})
    ));
    // P2
    let pending = json!({"status": {"lastOperation": {"type": "Create", "state": "Pending"}}});
    assert!(!pass(&mut world, "unassigned", 2, pending));
    assert!(!pass(
        &mut world,
        "unassigned",
        3,
        json!({"metadata": {"labels": {"a": "b"}}})
    ));
    assert!(pass(
        &mut world,
        "unassigned",
        4,
        json!({"spec": {"region": "us"}})
    ));
    // Self-hosted, deleting.
    let hosts = json!({"spec": {"provider": {"workers": [{"name": "w", "controlPlane": {}}]}}});
    assert!(!pass(&mut world, "hosts", 1, hosts));
    assert!(!pass(
        &mut world,
        "gone",
        1,
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    ));
    assert_eq!(world.waiting(), 2);
    // The same name again is a new Shoot.
    let again = shoot(
        "unassigned",
        5,
        &json!({"metadata": {"uid": "other"}, "spec": {"region": "us"}}),
    );
    assert_eq!(
        world.shoot(&key("unassigned"), Some(&again)),
        [key("unassigned")]
    );
    assert_eq!(world.decide(&key("nobody")), Decision::Nothing);
    // Under another name, the default one's Shoots are nobody's business.
    let mut other = World::new("foo-scheduler", Settings::default());
    let foreign = shoot(
        "foreign",
        1,
        &json!({"spec": {"schedulerName": "foo-scheduler"}}),
    );
    assert_eq!(other.shoot(&key("foreign"), Some(&foreign)).len(), 1);
    assert!(
        other
            .shoot(&key("a"), Some(&shoot("a", 1, &none())))
            .is_empty()
    );
}

#[test]
fn what_is_missing_is_told_and_wakes_when_it_comes() {
    let mut world = World::new("default-scheduler", Settings::default());
    world.seed("s", Some(&place("s", 2, &none())));
    world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
    let tell = |world: &mut World, name: &str| report(world.decide(&key(name))).operation;
    assert_eq!(
        tell(&mut world, "a"),
        "Failed to schedule Shoot: CloudProfile.core.gardener.cloud \"local\" not found"
    );
    assert_eq!(
        world.profile(ProfileKind::CloudProfile, "", "local", Some(&profile())),
        [key("a")]
    );
    assert!(
        world
            .profile(ProfileKind::CloudProfile, "", "local", Some(&profile()))
            .is_empty()
    );
    assert_eq!(
        tell(&mut world, "a"),
        "Failed to schedule Shoot: projects.core.gardener.cloud \"<unknown>\" not found"
    );
    assert_eq!(world.project("dev", Some(&project())), [key("a")]);
    assert!(world.project("dev", Some(&project())).is_empty());
    assert_eq!(&*bind(world.decide(&key("a"))).seed, "s");
    assert_eq!(world.project("dev", None), [key("a")]);

    let none_named = json!({"spec": {"cloudProfileName": NONE}});
    world.shoot(&key("b"), Some(&shoot("b", 1, &none_named)));
    assert!(tell(&mut world, "b").contains("could not determine cloudprofile from shoot"));
    let namespaced =
        json!({"spec": {"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "own"}}});
    world.shoot(&key("c"), Some(&shoot("c", 1, &namespaced)));
    assert!(
        tell(&mut world, "c")
            .contains("NamespacedCloudProfile.core.gardener.cloud \"own\" not found")
    );
    let own = |namespace: &str| {
        let value = json!({"kind": "NamespacedCloudProfile", "metadata": {"name": "own", "namespace": namespace}});
        CloudProfile::read(&value)
    };
    let kind = ProfileKind::NamespacedCloudProfile;
    assert!(
        world
            .profile(kind, "elsewhere", "own", Some(&own("elsewhere")))
            .is_empty()
    );
    assert_eq!(
        world.profile(kind, "garden-dev", "own", Some(&own("garden-dev"))),
        [key("c")]
    );

    world.shoot(
        &key("d"),
        Some(&shoot("d", 1, &json!({"spec": {"region": 7}}))),
    );
    assert!(tell(&mut world, "d").contains("spec.region: expected a string"));
}

#[test]
fn a_seed_wakes_whom_it_could_help() {
    let mut world = world();
    let unready =
        json!({"status": {"conditions": [{"type": "GardenletReady", "status": "Progressing"}]}});
    world.seed("s", Some(&place("s", 2, &unready)));
    world.shoot(&key("near"), Some(&shoot("near", 1, &none())));
    world.shoot(
        &key("far"),
        Some(&shoot("far", 1, &json!({"spec": {"region": "us"}}))),
    );
    for name in ["near", "far"] {
        let told = report(world.decide(&key(name)));
        assert_eq!(
            told.operation,
            "Failed to schedule Shoot: none of the 1 seeds is valid for scheduling (not deleting, visible and ready)"
        );
        assert!(
            told.note
                .contains("Usable: is not ready: GardenletReady is Progressing: s."),
            "{}",
            told.note
        );
    }
    assert_eq!(
        world.seed("s", Some(&place("s", 2, &none()))),
        [key("near")]
    );
    // A heartbeat is no change.
    let heartbeat = json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True",
        "lastUpdateTime": "now"}]}});
    assert!(world.seed("s", Some(&place("s", 2, &heartbeat))).is_empty());
    bind(world.decide(&key("near")));
    assert_eq!(
        world.seed(
            "t",
            Some(&place(
                "t",
                2,
                &json!({"spec": {"provider": {"region": "us"}}})
            ))
        ),
        [key("far")]
    );
    // Neither does one help that goes.
    assert!(world.seed("t", None).is_empty());
    assert!(
        world
            .seed(
                "t",
                Some(&Err(crate::fields::FieldError {
                    path: "a".into(),
                    expected: "b".into(),
                    found: "c".into()
                }))
            )
            .is_empty()
    );
    assert_eq!(world.seeds(), 1);
}

#[test]
fn whoever_spoke_against_others_helps_by_going() {
    let mut world = world();
    let zones = json!({"spec": {"provider": {"workers": [{"name": "w", "zones": ["a"]}]}}});
    world.shoot(&key("a"), Some(&shoot("a", 1, &zones)));
    let shy = json!({"spec": {"settings": {"zoneSelection": {"mode": "Prefer"}}, "provider": {"zones": ["b"]}}});
    world.seed("shy", Some(&place("shy", 2, &shy)));
    let tainted = json!({"spec": {"taints": [{"key": "t"}]}});
    world.seed("bold", Some(&place("bold", 2, &tainted)));
    assert!(
        report(world.decide(&key("a")))
            .operation
            .contains("bold => shoot does not tolerate")
    );
    assert_eq!(world.seed("bold", None), [key("a")]);
    assert_eq!(&*bind(world.decide(&key("a"))).seed, "shy");

    let domain = json!({"spec": {"dns": {"domain": "a.other.example.com"}}});
    world.shoot(&key("b"), Some(&shoot("b", 1, &domain)));
    let owner = json!({"spec": {"dns": {"defaults": [{"domain": "example.com"}]}}});
    world.seed("owner", Some(&place("owner", 2, &owner)));
    assert!(
        report(world.decide(&key("b")))
            .operation
            .contains("support the domain")
    );
    assert_eq!(world.seed("owner", None), [key("b")]);
    bind(world.decide(&key("b")));
}

#[test]
fn a_table_that_is_mended_wakes_those_whom_it_failed() {
    let mut world = with(Settings {
        ranking: Ranking::Strategy(Strategy::MinimalDistance),
        ..Settings::default()
    });
    world.seed("s", Some(&place("s", 2, &none())));
    world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
    let config = |row: &str| {
        RegionConfig::read(&json!({
            "metadata": {
                "name": "regions", "namespace": "garden",
                "labels": {"scheduling.gardener.cloud/purpose": "region-config"},
                "annotations": {"scheduling.gardener.cloud/cloudprofiles": "other, local"},
            },
            "data": {"eu": row},
        }))
        .unwrap()
    };
    assert_eq!(
        world.region_config("regions", Some(&config("{"))),
        [key("a")]
    );
    let told = report(world.decide(&key("a")));
    assert!(
        told.operation.starts_with(
            "Failed to schedule Shoot: failed to determine seed candidates. Wrong format in region ConfigMap \
             garden/regions, Region \"eu\": "
        ),
        "{told:?}"
    );
    assert!(
        world
            .region_config("regions", Some(&config("{")))
            .is_empty()
    );
    assert_eq!(
        world.region_config("regions", Some(&config("eu: 3"))),
        [key("a")]
    );
    bind(world.decide(&key("a")));
    assert_eq!(world.region_config("regions", None), [key("a")]);
}

#[test]
fn what_is_written_is_what_was_read_with_a_seed() {
    let mut world = world();
    world.seed("s", Some(&place("s", 2, &none())));
    let more =
        json!({"metadata": {"labels": {"a": "b"}, "managedFields": [{"manager": "kubectl"}]}});
    let seen = shoot("a", 7, &more);
    world.shoot(&key("a"), Some(&seen));
    let bind = bind(world.decide(&key("a")));
    let body = bind.body().unwrap();
    assert_eq!(body, seen.unassigned.unwrap().with_seed("s").unwrap());
    assert_eq!(
        (&body["spec"]["seedName"], &body["ours"]["unknown"]),
        (&json!("s"), &json!([1.5, "kept"]))
    );
    assert_eq!(body["metadata"]["labels"]["a"], "b");
    // The API server keeps its own when they aren't sent.
    assert_eq!(body["metadata"]["managedFields"], Value::Null);
    assert_eq!((bind.uid.as_str(), bind.version.as_str()), ("uid-a", "7"));
}

#[test]
fn notes_have_all_steps_and_end_in_time() {
    let mut world = world();
    for number in 0..150 {
        let patch = match number % 3 {
            0 => json!({"spec": {"taints": [{"key": "example.com/some-taint"}]}}),
            1 => json!({"spec": {"provider": {"type": "gcp"}}}),
            _ => json!({"spec": {"settings": {"scheduling": {"visible": false}}}}),
        };
        let name = format!("seed-{number:03}");
        world.seed(&name, Some(&place(&name, 2, &patch)));
    }
    world.shoot(&key("a"), Some(&shoot("a", 1, &none())));
    let long = report(world.decide(&key("a")));
    assert!(long.operation.starts_with(
        "Failed to schedule Shoot: 0/50 seed cluster candidate(s) are eligible for scheduling: {seed-000 => "
    ));
    assert!(long.operation.len() > 1024);
    let want = "Failed to schedule Shoot: 0/50 seed cluster candidate(s) are eligible for scheduling. \
        Seeds rejected by step: Usable 50, Provider 50, Taints 50. \
        Usable: is not visible: seed-002, seed-005, ";
    assert!(long.note.starts_with(want), "{}", long.note);
    for part in [
        " more). Taints",
        " Provider: is of provider \"gcp\": seed-001, ",
        " Taints: its taint example.com/some-taint is not tolerated: seed-000, ",
    ] {
        assert!(long.note.contains(part), "{part}: {}", long.note);
    }
    assert!((900..=1024).contains(&long.note.len()), "{}", long.note);
    assert!(!long.told);
    let told = json!({"status": {"lastOperation": {"type": "Create", "state": "Pending",
        "description": long.operation}}});
    world.shoot(&key("a"), Some(&shoot("a", 2, &told)));
    assert!(report(world.decide(&key("a"))).told);
}
