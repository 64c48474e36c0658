//! Objects that aren't what they should be: they are refused with a path, or selected over, and nothing panics.

use pilotage_gardener::kinds::{CloudProfile, Project, RegionConfig, Shoot, choose, seed};
use pilotage_gardener::{Texts, request};
use pilotage_placement::{Settings, select};
use proptest::prelude::{Just, any, prop_assert, prop_oneof};
use proptest::sample::Index;
use proptest::strategy::Strategy;
use serde_json::{Value, json};

/// A JSON value that has no business where it stands.
fn junk() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "(Enforce|zone|IPv6|10.0.0.0/8|fd00::/8|Exists|1e999999999|-5|ü)".prop_map(Value::from),
        Just(json!([null, {}, "x", 1])),
        Just("x".repeat(200_000).into()),
        Just(vec!["x"; 5000].into()),
        Just(
            vec![json!({"name": "n", "key": "k", "operator": "Exists", "domain": "d"}); 300].into()
        ),
        Just(json!({"a": null, "name": [], "key": {}, "b": "c"})),
    ]
}

/// All places in a document, depth first.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(places).sum(),
        Value::Object(map) => map.values().map(places).sum::<usize>(),
        _ => 0,
    }
}

fn replace(value: &mut Value, place: &mut usize, junk: &Value) {
    if *place == 0 {
        *value = junk.clone();
        *place = usize::MAX;
        return;
    }
    *place -= 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        if *place == usize::MAX {
            return;
        }
        replace(child, place, junk);
    }
}

fn full() -> [Value; 5] {
    [
        json!({
            "metadata": {"name": "shoot", "namespace": "ns", "deletionTimestamp": null},
            "spec": {
                "seedName": null, "schedulerName": "x", "region": "eu", "purpose": "testing2",
                "cloudProfile": {"kind": "CloudProfile", "name": "p"}, "cloudProfileName": "p",
                "seedSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k",
                "operator": "NotIn", "values": ["v"]}]},
                "tolerations": [{"key": "t", "value": "v"}],
                "accessRestrictions": [{"name": "r"}],
                "provider": {"type": "foo", "workers": [{"zones": ["a"], "controlPlane": null}]},
                "controlPlane": {"zones": ["a"], "highAvailability": {"failureTolerance": {"type": "node"}}},
                "networking": {"nodes": "10.1.0.0/16", "pods": "fd00::/16", "services": "10.3.0.0/16",
                "ipFamilies": ["IPv4", "IPv6"]},
                "dns": {"domain": "shoot.project.example.com"},
            },
            "status": {"seedName": "s", "networking": {"nodes": ["10.1.0.0/16"], "pods": ["10.2.0.0/16"],
            "services": ["10.3.0.0/16"]}},
        }),
        json!({
            "metadata": {"name": "seed", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "backup": {}, "taints": [{"key": "t", "value": "v"}], "accessRestrictions": [{"name": "r"}],
                "provider": {"type": "foo", "region": "eu", "zones": ["a", "b", "c"]},
                "networks": {"nodes": "10.1.0.0/16", "pods": "fd01::/16", "services": "10.3.0.0/16",
                "shootDefaults": {"pods": "10.4.0.0/16", "services": "10.5.0.0/16"}},
                "dns": {"defaults": [{"domain": "example.com"}]},
                "settings": {"scheduling": {"visible": true}, "zoneSelection": {"mode": "Prefer"}},
            },
            "status": {
                "lastOperation": {"type": "Reconcile"}, "allocatable": {"shoots": "250"},
                "conditions": [{"type": "GardenletReady", "status": "True"}, {"type": "BackupBucketsReady",
                "status": "True"}],
            },
        }),
        json!({
            "kind": "CloudProfile", "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"seedSelector": {"providerTypes": ["foo", "bar"], "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}},
        }),
        json!({"metadata": {"name": "project"}, "spec": {"namespace": "ns"}}),
        json!({
            "metadata": {
                "name": "c", "namespace": "garden", "labels": {"scheduling.gardener.cloud/purpose": "region-config"},
                "annotations": {"scheduling.gardener.cloud/cloudprofiles": "p"},
            },
            "data": {"eu": "{us: 1}"},
        }),
    ]
}

/// Whether all could be read and a Seed was found.
fn place(objects: &[Value; 5]) -> Result<bool, String> {
    let [shoot, one, profile, project, config] = objects;
    let tell = |error: pilotage_gardener::fields::FieldError| error.to_string();
    let shoot = Shoot::read(shoot).map_err(tell)?;
    let seeds = [seed(one).map_err(tell)?];
    let profile = CloudProfile::read(profile).map_err(tell)?;
    let project = Project::read(project).map_err(tell)?;
    let config = RegionConfig::read(config).map_err(tell)?;
    let table = choose([&config], &profile.name).map(|config| config.table.clone());
    let request =
        request(&shoot, &profile, [&project], table).map_err(|error| error.to_string())?;
    let settings = Settings::default();
    let selection = select(&request, &seeds, &settings);
    let texts = Texts {
        request: &request,
        settings: &settings,
        profile: &profile.name,
    };
    let text = texts.failure(&selection);
    assert_eq!(text.is_some(), selection.winner().is_none());
    Ok(text.is_none())
}

#[test]
fn as_they_should_be() {
    assert_eq!(place(&full()), Ok(true));
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #![proptest_config(proptest::test_runner::Config {
            cases: 3000,
            ..pilotage_absurd::config()
        })]

        #[test]
        fn never_panics(which in 0..5usize, at in any::<Index>(), junk in junk()) {
            let mut objects = full();
            let mut place_of_junk = at.index(places(&objects[which]));
            replace(&mut objects[which], &mut place_of_junk, &junk);
            if let Err(error) = place(&objects) {
                prop_assert!(!error.is_empty() && error.len() < 400, "{error}");
            }
        }
    }
}
