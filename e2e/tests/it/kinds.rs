//! The six kinds on a real API server: what their rules take and refuse, and what `kubectl get` shows of them.

use std::sync::Arc;

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, discovery::ApiResource};
use pilotage_api::{GROUP, VERSION, keys};
use pilotage_testkit::{ControlPlane, shared};
use serde_json::{Value, json};

const LONG_NAME: &str = "metadata.name may have 63 characters";
const BOTH: &str = "exactly one of spec.self (true) and spec.kubeconfigSecret must be given";
const NOBODY: &str = "spec.serviceAccountName or spec.userName must be given";
const CLUSTER_NOBODY: &str = "spec.serviceAccount or spec.userName must be given";

async fn plane() -> Arc<ControlPlane> {
    shared::plane("kinds", || ControlPlane::builder("kinds"))
        .await
        .unwrap()
}

/// The objects of one kind; `namespace` only for kinds that live in one.
fn objects(plane: &ControlPlane, kind: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(GROUP, VERSION, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    if kind.starts_with("Cluster") {
        Api::all_with(plane.admin(), &resource)
    } else {
        Api::namespaced_with(plane.admin(), namespace, &resource)
    }
}

fn object(kind: &str, name: &str, rest: &Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": kind,
        "metadata": { "name": name },
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn targets_and_sources_are_taken_or_refused_with_the_reason() {
    let plane = plane().await;
    let namespace = plane.namespace("rules").await.unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // The same for both kinds of target but for the secret's namespace.
    let mut cases = Vec::new();
    for (kind, plural, secret) in [
        ("Target", "targets", json!({ "name": "s" })),
        (
            "ClusterTarget",
            "clustertargets",
            json!({ "name": "s", "namespace": "n" }),
        ),
    ] {
        for (spec, refusal) in [
            (json!({ "self": true }), None),
            (json!({ "kubeconfigSecret": secret }), None),
            (json!({ "self": false, "kubeconfigSecret": secret }), None),
            (json!({ "self": null, "kubeconfigSecret": secret }), None),
            (json!({ "self": true, "kubeconfigSecret": null }), None),
            (
                json!({ "self": true, "kubeconfigSecret": secret }),
                Some(BOTH),
            ),
            (json!({}), Some(BOTH)),
            (json!({ "self": false }), Some(BOTH)),
            (json!({ "self": null }), Some(BOTH)),
            (json!({ "kubeconfigSecret": null }), Some(BOTH)),
            (
                json!({ "self": false, "kubeconfigSecret": null }),
                Some(BOTH),
            ),
            (
                json!({ "kubeconfigSecret": {} }),
                Some("spec.kubeconfigSecret.name"),
            ),
        ] {
            cases.push((kind, plural, spec, refusal));
        }
        let mut long = json!({ "kubeconfigSecret": secret });
        for (field, length) in [("name", 253), ("key", 253), ("context", 253)] {
            long["kubeconfigSecret"][field] = "s".repeat(length).into();
            cases.push((kind, plural, long.clone(), None));
            let mut longer = long.clone();
            longer["kubeconfigSecret"][field] = "s".repeat(length + 1).into();
            cases.push((kind, plural, longer, Some("spec.kubeconfigSecret")));
        }
        let pattern = json!({ "self": true, "excludedLabelsRegexp": "a".repeat(1025) });
        cases.push((kind, plural, pattern, Some("spec.excludedLabelsRegexp")));
    }
    let account = json!({ "name": "a", "namespace": "n" });
    for (kind, plural, field, account, nobody) in [
        (
            "Source",
            "sources",
            "serviceAccountName",
            json!("a"),
            NOBODY,
        ),
        (
            "ClusterSource",
            "clustersources",
            "serviceAccount",
            account,
            CLUSTER_NOBODY,
        ),
    ] {
        for (spec, refusal) in [
            (json!({ field: account }), None),
            (json!({ "userName": "u" }), None),
            (json!({ field: account, "userName": "u" }), None),
            (json!({ field: null, "userName": "u" }), None),
            (json!({ field: account, "userName": null }), None),
            (json!({}), Some(nobody)),
            (json!({ field: null }), Some(nobody)),
            (json!({ field: null, "userName": null }), Some(nobody)),
            (json!({ "userName": "" }), Some("spec.userName")),
        ] {
            cases.push((kind, plural, spec, refusal));
        }
    }
    let mut wrong = Vec::new();
    for (kind, plural, spec, refusal) in cases {
        let api = objects(&plane, kind, plural, namespace.name());
        let answer = api
            .create(&dry, &object(kind, "case", &json!({ "spec": spec })))
            .await;
        let answer = answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            other => panic!("{kind} {spec}: no answer of the API server: {other}"),
        });
        let as_wanted = match (&answer, refusal) {
            (Ok(_), None) => true,
            (Err(message), Some(part)) => message.contains(part),
            _ => false,
        };
        if !as_wanted {
            let answer = answer.map(|_| "taken");
            wrong.push(format!("{kind} {spec}: wanted {refusal:?}, got {answer:?}"));
        }
    }
    // The virtual node has a target's name as a label; others' names go into names of objects alone.
    for (kind, plural, length, refusal) in [
        ("Target", "targets", 63, None),
        ("Target", "targets", 64, Some(LONG_NAME)),
        ("ClusterTarget", "clustertargets", 63, None),
        ("ClusterTarget", "clustertargets", 64, Some(LONG_NAME)),
        ("ClusterTarget", "clustertargets", 253, Some(LONG_NAME)),
    ] {
        let api = objects(&plane, kind, plural, namespace.name());
        let name = "n".repeat(length);
        let target = object(kind, &name, &json!({ "spec": { "self": true } }));
        let answer = api
            .create(&dry, &target)
            .await
            .map_err(|error| error.to_string());
        match (&answer, refusal) {
            (Ok(_), None) => {}
            (Err(message), Some(part)) if message.contains(part) => {}
            _ => wrong.push(format!("{kind} of {length}: {:?}", answer.map(|_| "taken"))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn kubectl_shows_what_one_wants_to_know_of_every_kind() {
    let plane = plane().await;
    let namespace = plane.namespace("columns").await.unwrap();
    let condition = |kind: &str, status: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("{kind}Reason"), "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let target_status = json!({
        "node": "the-node",
        "conditions": [condition("Connected", "False", "no-route"), condition("Authorized", "Unknown", "-")],
    });
    let source_status = json!({ "conditions": [condition("Ready", "True", "all-well")] });
    for (kind, plural, body, status, columns) in [
        (
            "Target",
            "targets",
            json!({ "spec": { "self": true } }),
            Some(target_status.clone()),
            &[
                ("CONNECTED", "False"),
                ("AUTHORIZED", "Unknown"),
                ("NODE", "the-node"),
                ("REASON", "ConnectedReason"),
                ("MESSAGE", "no-route"),
            ][..],
        ),
        (
            "ClusterTarget",
            "clustertargets",
            json!({ "spec": { "self": true } }),
            Some(target_status),
            &[
                ("CONNECTED", "False"),
                ("AUTHORIZED", "Unknown"),
                ("NODE", "the-node"),
                ("REASON", "ConnectedReason"),
                ("MESSAGE", "no-route"),
            ],
        ),
        (
            "Source",
            "sources",
            json!({ "spec": { "serviceAccountName": "robot", "userName": "alice" } }),
            Some(source_status.clone()),
            &[
                ("SERVICEACCOUNT", "robot"),
                ("USER", "alice"),
                ("READY", "True"),
                ("MESSAGE", "all-well"),
            ],
        ),
        (
            "ClusterSource",
            "clustersources",
            json!({ "spec": { "serviceAccount": { "name": "robot", "namespace": "home" }, "userName": "alice" } }),
            Some(source_status),
            &[
                ("SERVICEACCOUNT", "robot"),
                ("SERVICEACCOUNTNAMESPACE", "home"),
                ("USER", "alice"),
                ("READY", "True"),
                ("MESSAGE", "all-well"),
            ],
        ),
        (
            "PodChaperon",
            "podchaperons",
            json!({
                "metadata": {
                    "name": "one",
                    "annotations": {
                        keys::IS_RESERVED: "true", keys::IS_ALLOWED: "yes", keys::ATTEMPT: "7",
                        keys::PARENT_NAME: "web", keys::REFUSAL: "full", keys::ALLOWED_ATTEMPT: "6",
                    },
                    "labels": { keys::PARENT_CLUSTER_NAME: "paris" },
                },
                "spec": { "containers": [], "schedulerName": "stock" },
            }),
            Some(json!({
                "phase": "Pending",
                "conditions": [{ "type": "PodScheduled", "status": "True" }],
            })),
            &[
                ("RESERVED", "true"),
                ("ALLOWED", "yes"),
                ("ATTEMPT", "7"),
                ("SCHEDULER", "stock"),
                ("SCHEDULED", "True"),
                ("PHASE", "Pending"),
                ("PARENT", "web"),
                ("SOURCE", "paris"),
                ("REFUSAL", "full"),
                ("ALLOWED-ATTEMPT", "6"),
            ],
        ),
        (
            "ClusterSummary",
            "clustersummaries",
            json!({ "allocatable": { "cpu": "12", "memory": "34Gi", "pods": "56" } }),
            None,
            &[("CPU", "12"), ("MEMORY", "34Gi"), ("PODS", "56")],
        ),
    ] {
        let api = objects(&plane, kind, plural, namespace.name());
        api.create(&PostParams::default(), &object(kind, "one", &body))
            .await
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        if let Some(status) = status {
            let status = Patch::Merge(json!({ "status": status }));
            api.patch_status("one", &PatchParams::default(), &status)
                .await
                .unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
        let resource = format!("{plural}.{GROUP}");
        let shown = plane
            .kubectl(&[
                "get",
                &resource,
                "one",
                "-n",
                namespace.name(),
                "-o",
                "wide",
            ])
            .await
            .unwrap();
        // No value here has a space, so words are cells.
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let [header, row] = rows.as_slice() else {
            panic!("{kind}: {shown}");
        };
        assert_eq!((header[0], row[0]), ("NAME", "one"), "{shown}");
        assert_eq!(header.len(), row.len(), "no empty cell: {shown}");
        let mut cells: Vec<(&str, &str)> = Vec::new();
        for (title, cell) in header.iter().zip(row).skip(1) {
            if *title != "AGE" {
                cells.push((*title, *cell));
            }
        }
        // Columns that only `-o wide` shows stand last or where the definition has them; the order is its affair.
        let mut wanted = columns.to_vec();
        cells.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(cells, wanted, "{shown}");
        assert!(header.contains(&"AGE"), "{shown}");
    }
}
