//! Each kind of object that the real scheduler's plugins watch can be told to the oracle, changed and deleted; and what
//! most of them are for shows in its answers. Our scheduler isn't asked: plugins that it hasn't got yet will need
//! these.

use std::thread;
use std::time::Duration;

use pilotage_sched_diff::side::{Side as _, SideError};
use pilotage_sched_diff::verdict::Verdict;
use pilotage_sched_diff::{Oracle, object};
use serde_json::{Value, json};

use crate::oracle::program;

/// How often, at intervals of 20 ms, an answer is looked at: plugins' own caches follow a moment later.
const LOOKS: usize = 250;

/// An oracle with the default configuration and two nodes, `a` and `b`.
struct World(Oracle);

impl World {
    fn open() -> Self {
        let mut oracle = Oracle::start(&program()).unwrap();
        let node = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}})
        };
        let body = json!({"objects": [node("a"), node("b")]});
        oracle.ask("open", &body, "opened").unwrap();
        Self(oracle)
    }

    fn apply(&mut self, object: &Value) {
        let applied = self.0.apply(object);
        applied.unwrap_or_else(|error| panic!("{}: {error}", object::kind(object)));
    }

    fn delete(&mut self, object: &Value) {
        let deleted = self.0.delete(object);
        deleted.unwrap_or_else(|error| panic!("{}: {error}", object::kind(object)));
    }

    /// Asks of a pod until the answer is as expected.
    fn expect(&mut self, pod: &Value, what: &str, is_expected: impl Fn(&Verdict) -> bool) {
        let mut verdict = Verdict::default();
        for _ in 0..LOOKS {
            verdict = self.0.evaluate(pod).unwrap();
            if is_expected(&verdict) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("{what}: {verdict:#?}");
    }
}

fn new(version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "uid": format!("{kind}-{name}")}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = new("v1", "Pod", name, Some("d"));
    pod["metadata"]["labels"] = json!({"app": name});
    let mut all = json!({"schedulerName": "default-scheduler", "containers": [{"name": "c"}]});
    for (field, value) in spec.as_object().unwrap() {
        all[field] = value.clone();
    }
    with(pod, "spec", all)
}

fn refused_by(verdict: &Verdict, node: &str, plugin: &str) -> bool {
    let refusal = verdict.filter.get(node);
    refusal.is_some_and(|refusal| refusal.plugin == plugin)
}

#[test]
fn each_kind_comes_changes_and_goes() {
    let storage = "storage.k8s.io/v1";
    let driver = "csi.example.com";
    let capacity = with(
        new(storage, "CSIStorageCapacity", "x", Some("d")),
        "storageClassName",
        "x".into(),
    );
    let attachment = json!({"attacher": driver, "nodeName": "a",
        "source": {"persistentVolumeName": "x"}});
    let slice = json!({"driver": driver, "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}});
    let mut world = World::open();
    for object in [
        new("v1", "Namespace", "x", None),
        new("v1", "Service", "x", Some("d")),
        new("v1", "ReplicationController", "x", Some("d")),
        new("apps/v1", "ReplicaSet", "x", Some("d")),
        new("apps/v1", "StatefulSet", "x", Some("d")),
        new("policy/v1", "PodDisruptionBudget", "x", Some("d")),
        new("v1", "PersistentVolume", "x", None),
        new("v1", "PersistentVolumeClaim", "x", Some("d")),
        with(
            new(storage, "StorageClass", "x", None),
            "provisioner",
            driver.into(),
        ),
        new(storage, "CSINode", "a", None),
        new(storage, "CSIDriver", driver, None),
        capacity,
        with(
            new(storage, "VolumeAttachment", "x", None),
            "spec",
            attachment,
        ),
        new("resource.k8s.io/v1", "ResourceClaim", "x", Some("d")),
        new("resource.k8s.io/v1", "DeviceClass", "x", None),
        with(
            new("resource.k8s.io/v1", "ResourceSlice", "x", None),
            "spec",
            slice,
        ),
    ] {
        world.apply(&object);
        let mut changed = object.clone();
        changed["metadata"]["labels"] = json!({"changed": "yes"});
        world.apply(&changed);
        world.delete(&object);
        let again = world.0.delete(&object);
        let refused = matches!(again, Err(SideError::Refused { .. }));
        assert!(refused, "{}: {again:?}", object::kind(&object));
    }
    world.expect(&pod("p", &json!({})), "all is gone", |verdict| {
        verdict.best == ["a", "b"]
    });
}

#[test]
fn a_disruption_budget_keeps_preemption_off_its_pods() {
    let mut world = World::open();
    let full = |node: &str| {
        let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
        json!({"nodeName": node, "containers": containers})
    };
    for (name, node) in [("low-a", "a"), ("low-b", "b")] {
        world.apply(&pod(name, &full(node)));
    }
    let mut high = pod("high", &full(""));
    high["spec"]["priority"] = 100.into();
    // Preemption looks it up.
    world.apply(&high);
    for (kept, node) in [("low-a", "b"), ("low-b", "a")] {
        let mut budget = new("policy/v1", "PodDisruptionBudget", kept, Some("d"));
        budget["spec"]["selector"]["matchLabels"] = json!({"app": kept});
        budget["status"] = json!({"disruptionsAllowed": 0});
        world.apply(&budget);
        let victim = format!("d/low-{node}");
        world.expect(&high, kept, |verdict| {
            verdict.nominated.as_deref() == Some(node) && verdict.victims == [victim.as_str()]
        });
        world.delete(&budget);
    }
}

fn with_claim(claim: &str) -> Value {
    pod(
        "p",
        &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}),
    )
}

#[test]
fn a_bound_claim_leads_to_where_its_volume_is() {
    let mut world = World::open();
    let pod = with_claim("data");
    world.expect(&pod, "no claim", |verdict| verdict.pre_filter.is_some());
    let mut volume = new("v1", "PersistentVolume", "pv", None);
    volume["spec"] = json!({
        "hostPath": {"path": "/data"},
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "d", "name": "data", "uid": "PersistentVolumeClaim-data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}},
    });
    world.apply(&volume);
    let mut claim = new("v1", "PersistentVolumeClaim", "data", Some("d"));
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"] = json!({"volumeName": "pv", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    world.apply(&claim);
    world.expect(&pod, "bound", |verdict| {
        verdict.best == ["a"] && refused_by(verdict, "b", "VolumeBinding")
    });
    world.delete(&claim);
    world.expect(&pod, "no claim", |verdict| verdict.pre_filter.is_some());
}

#[test]
fn a_claim_that_waits_needs_a_class_and_room_with_its_driver() {
    let mut world = World::open();
    let pod = with_claim("late");
    let mut claim = new("v1", "PersistentVolumeClaim", "late", Some("d"));
    claim["spec"] = json!({"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    world.apply(&claim);
    world.expect(&pod, "no class", |verdict| verdict.pre_filter.is_some());
    let mut class = new("storage.k8s.io/v1", "StorageClass", "late", None);
    class["provisioner"] = "csi.example.com".into();
    class["volumeBindingMode"] = "WaitForFirstConsumer".into();
    world.apply(&class);
    world.expect(&pod, "class", |verdict| verdict.best == ["a", "b"]);
    let mut driver = new("storage.k8s.io/v1", "CSIDriver", "csi.example.com", None);
    driver["spec"] = json!({"storageCapacity": true});
    world.apply(&driver);
    world.expect(&pod, "no room", |verdict| {
        refused_by(verdict, "a", "VolumeBinding") && refused_by(verdict, "b", "VolumeBinding")
    });
    let mut capacity = new("storage.k8s.io/v1", "CSIStorageCapacity", "c", Some("d"));
    capacity["storageClassName"] = "late".into();
    capacity["nodeTopology"] = json!({"matchLabels": {"kubernetes.io/hostname": "b"}});
    capacity["capacity"] = "10Gi".into();
    world.apply(&capacity);
    world.expect(&pod, "room on b", |verdict| verdict.best == ["b"]);
}

#[test]
fn a_claim_for_a_device_leads_to_where_one_is() {
    let mut world = World::open();
    let version = "resource.k8s.io/v1";
    let pod = pod(
        "p",
        &json!({"resourceClaims": [{"name": "g", "resourceClaimName": "one"}],
            "containers": [{"name": "c", "resources": {"claims": [{"name": "g"}]}}]}),
    );
    world.expect(&pod, "no claim", |verdict| verdict.best.is_empty());
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "gpu",
        "allocationMode": "ExactCount", "count": 1}}]);
    let claim = new(version, "ResourceClaim", "one", Some("d"));
    world.apply(&with(
        claim,
        "spec",
        json!({"devices": {"requests": requests}}),
    ));
    world.expect(&pod, "no class", |verdict| verdict.best.is_empty());
    world.apply(&with(
        new(version, "DeviceClass", "gpu", None),
        "spec",
        json!({}),
    ));
    world.expect(&pod, "no device", |verdict| {
        refused_by(verdict, "a", "DynamicResources") && refused_by(verdict, "b", "DynamicResources")
    });
    let slice = json!({"driver": "gpu.example.com", "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}]});
    world.apply(&with(
        new(version, "ResourceSlice", "s", None),
        "spec",
        slice,
    ));
    world.expect(&pod, "a device on a", |verdict| {
        verdict.best == ["a"] && refused_by(verdict, "b", "DynamicResources")
    });
}

#[test]
fn a_service_spreads_its_pods_and_a_namespace_is_found_by_its_labels() {
    let mut world = World::open();
    let mut beside = pod("beside", &json!({"nodeName": "a"}));
    beside["metadata"]["labels"] = json!({"app": "p"});
    for n in 0..4 {
        beside["metadata"]["name"] = format!("beside-{n}").into();
        beside["metadata"]["uid"] = format!("beside-{n}").into();
        world.apply(&beside);
    }
    let spread = |verdict: &Verdict| -> Vec<Option<i64>> {
        let score = |node: &str| verdict.scores[node].get("PodTopologySpread").copied();
        ["a", "b"].map(score).to_vec()
    };
    let service = with(
        new("v1", "Service", "s", Some("d")),
        "spec",
        json!({"selector": {"app": "p"}}),
    );
    let asks = pod("p", &json!({}));
    world.expect(&asks, "no service", |verdict| {
        spread(verdict)[0] == spread(verdict)[1]
    });
    world.apply(&service);
    world.expect(&asks, "a service", |verdict| {
        spread(verdict)[0] < spread(verdict)[1]
    });

    let apart = json!([{"topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"team": "x"}},
        "labelSelector": {"matchLabels": {"app": "p"}}}]);
    let field = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut far = pod(
        "far",
        &json!({"affinity": {"podAntiAffinity": { field: apart }}}),
    );
    far["metadata"]["namespace"] = "elsewhere".into();
    world.expect(&far, "no namespace", |verdict| verdict.filter.is_empty());
    let mut namespace = new("v1", "Namespace", "d", None);
    namespace["metadata"]["labels"] = json!({"team": "x"});
    world.apply(&namespace);
    world.expect(&far, "a namespace", |verdict| {
        verdict.best == ["b"] && refused_by(verdict, "a", "InterPodAffinity")
    });
}
