//! Whatever an object says: all that stays of it is what the table of fields names, and what plugins want is in the
//! table.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, ReplicationController, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pilotage_absurd::{json, objects};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Kind, Objects, Stored as _};
use crate::plugins::stock_profile;
use crate::test_objects::NeverBinds;

const CUT: [Kind; 6] = [
    Kind::Namespace,
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::PodDisruptionBudget,
];

/// An object of this kind with all that is read, and much beside it.
fn whole(kind: Kind) -> Value {
    let selector = match kind {
        Kind::Service | Kind::ReplicationController => json!({ "app": "web", "tier": "front" }),
        _ => json!({
            "matchLabels": { "app": "web" },
            "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["front", "back"] }],
        }),
    };
    let pod = objects::pod();
    json!({
        "metadata": pod["metadata"],
        "spec": {
            "selector": selector,
            "replicas": 3,
            "minReadySeconds": 5,
            "maxUnavailable": 1,
            "serviceName": "web",
            "type": "ClusterIP",
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod["spec"] },
        },
        "status": {
            "replicas": 3,
            "phase": "Active",
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "disruptionsAllowed": 1,
            "disruptedPods": { "web-2": "2026-01-01T00:00:00Z" },
            "expectedPods": 3,
        },
    })
}

/// What stays of an object of this kind; `None` if it can't be read, or has no name.
fn kept(kind: Kind, object: &Value) -> Option<String> {
    let mut objects = Objects::default();
    macro_rules! kept {
        ($($kind:ident $store:ident)*) => {
            match kind {
                $(Kind::$kind => {
                    let object: $kind = serde_json::from_value(object.clone()).ok()?;
                    objects.apply(Arc::new(object).object()).ok()?;
                    let entries: Vec<_> = objects.$store().entries().collect();
                    Some(format!("{entries:?}"))
                })*
                _ => None,
            }
        };
    }
    kept!(
        Namespace namespaces
        Service services
        ReplicationController replication_controllers
        ReplicaSet replica_sets
        StatefulSet stateful_sets
        PodDisruptionBudget disruption_budgets
    )
}

/// The object with the fields of the table alone.
fn stripped(kind: Kind, object: &Value) -> Value {
    let mut left = json!({});
    let names = ["/metadata/namespace", "/metadata/name"];
    for pointer in names.iter().chain(kind.fields().unwrap()) {
        if let Some(found) = object.pointer(pointer) {
            let (parent, field) = pointer[1..].split_once('/').unwrap();
            left[parent][field] = found.clone();
        }
    }
    left
}

fn any_object() -> impl Strategy<Value = (Kind, Value)> {
    select(&CUT[..]).prop_flat_map(|kind| {
        let whole = Just(whole(kind));
        let object = prop_oneof![
            1 => whole.clone(),
            4 => json::extreme(whole.clone()),
            1 => json::junk_in(whole),
        ];
        (Just(kind), object)
    })
}

pilotage_absurd::properties! {
    #[test]
    fn no_field_stays_that_the_table_does_not_name((kind, object) in any_object()) {
        let Some(kept_of_all) = kept(kind, &object) else { return Ok(()) };
        prop_assert_eq!(Some(kept_of_all), kept(kind, &stripped(kind, &object)));
    }
}

#[test]
fn each_field_of_the_table_stays() {
    for kind in CUT {
        let whole = stripped(kind, &whole(kind));
        let with = kept(kind, &whole).unwrap();
        for pointer in kind.fields().unwrap() {
            let mut without = whole.clone();
            let (parent, field) = pointer[1..].split_once('/').unwrap();
            assert!(
                without[parent]
                    .as_object_mut()
                    .unwrap()
                    .remove(field)
                    .is_some()
            );
            assert_ne!(kept(kind, &without).unwrap(), with, "{kind:?} {pointer}");
        }
    }
}

#[test]
fn what_stock_plugins_want_is_cut() {
    let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
    for kind in Kind::ALL {
        let is_cut = kind.fields().is_some();
        assert_eq!(is_cut, CUT.contains(kind), "{kind:?}");
        assert_eq!(is_cut, profile.wants().contains(kind), "{kind:?}");
    }
}
