//! Whatever a pod or a node says: without what is dropped, the scheduler reads the same, and decides the same.

use std::error::Error;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_absurd::{json, objects, text};
use pilotage_sched::plugins::{Binder, stock_profile};
use pilotage_sched::{
    Evaluation, Moment, NodeName, NodeObject, PodInfo, Scheduler, SchedulerConfig,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::LAST_APPLIED;

/// Nothing is bound here.
struct Never;

impl Binder for Never {
    fn bind<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async { Err("nothing is bound here".into()) })
    }
}

/// A container with all that is dropped, and claims and names that something else could have been read from.
fn full(container: &mut Value) {
    let probe = json!({ "httpGet": { "path": "/", "port": 8080 }, "periodSeconds": 1 });
    let more = json!({
        "args": ["--port=80"],
        "command": ["run"],
        "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }],
        "envFrom": [{ "configMapRef": { "name": "c" } }],
        "lifecycle": { "preStop": { "exec": { "command": ["stop"] } } },
        "livenessProbe": probe,
        "readinessProbe": probe,
        "startupProbe": probe,
        "terminationMessagePath": "/dev/log",
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
        "workingDir": "/",
    });
    merge(container, more);
}

fn merge(into: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        for (field, value) in more {
            into[field] = value;
        }
    }
}

/// A pod with all that is dropped, and any of what plugins look at first, so that the others are asked, too.
fn whole_pod(left_out: [bool; 5]) -> Value {
    let mut pod = objects::pod();
    pod["metadata"]["annotations"][LAST_APPLIED] = "{}".into();
    let volumes = json!([
        { "name": "data", "persistentVolumeClaim": { "claimName": "c" } },
        { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
        { "name": "disk", "gcePersistentDisk": { "pdName": "d" } },
        { "name": "empty", "emptyDir": {} },
        { "name": "config", "configMap": { "name": "c" } },
    ]);
    let spec = &mut pod["spec"];
    full(&mut spec["containers"][0]);
    full(&mut spec["initContainers"][0]);
    let mut shell = spec["containers"][0].clone();
    shell["name"] = "shell".into();
    spec["ephemeralContainers"] = json!([shell]);
    merge(
        spec,
        json!({
            "volumes": volumes,
            "hostNetwork": true,
            "hostUsers": false,
            "resourceClaims": [{ "name": "gpu", "resourceClaimName": "g" }],
            "schedulerName": "test",
        }),
    );
    let fields = [
        "affinity",
        "topologySpreadConstraints",
        "volumes",
        "resourceClaims",
        "nodeName",
    ];
    for (field, left_out) in fields.iter().zip(left_out) {
        if left_out {
            spec[*field] = Value::Null;
        }
    }
    pod
}

fn pods() -> BoxedStrategy<Value> {
    let left_out = prop_oneof![Just([true; 5]), any::<[bool; 5]>()];
    let whole = left_out.prop_map(whole_pod).boxed();
    any_of(whole)
}

fn nodes() -> BoxedStrategy<Value> {
    let whole = any::<bool>().prop_map(|open| {
        let mut node = objects::node();
        node["metadata"]["annotations"][LAST_APPLIED] = "{}".into();
        node["metadata"]["labels"]["zone"] = "2".into();
        node["status"]["declaredFeatures"] = json!(["UserNamespacesHostNetworkSupport"]);
        if open {
            node["spec"] = json!({});
        }
        node
    });
    any_of(whole.boxed())
}

fn any_of(whole: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![2 => whole.clone(), 3 => json::extreme(whole.clone()), 1 => json::junk_in(whole)]
        .boxed()
}

/// All that plugins read of a pod, but for the object itself.
fn read(pod: &PodInfo) -> String {
    let PodInfo {
        uid,
        key,
        node_name,
        scheduler_name,
        priority,
        nominated_node,
        needs,
        scheduling_gates,
        deleting,
        terminal,
        ..
    } = pod;
    let named = (
        uid,
        key,
        node_name,
        scheduler_name,
        priority,
        nominated_node,
    );
    let rest = (
        scheduling_gates,
        deleting,
        terminal,
        pod.labels(),
        pod.defects(),
    );
    format!("{named:?} {needs:?} {rest:?}")
}

/// What a scheduler with this one node says of the pod.
fn judged(node: &Node, pod: &PodInfo) -> Result<Evaluation, String> {
    let profile = stock_profile("test", Arc::new(Never)).refusing_unknown_constraints("us");
    let profile = profile.build().map_err(|error| error.to_string())?;
    let config = SchedulerConfig::default();
    let scheduler = Scheduler::new([profile], config);
    let mut scheduler = scheduler.map_err(|error| error.to_string())?;
    let applied = scheduler.node_applied(node, Moment::ZERO);
    applied.map_err(|error| error.to_string())?;
    let judged = scheduler.evaluate("test", pod, Arc::default());
    judged.map_err(|error| error.to_string())
}

pilotage_absurd::properties! {
    #[test]
    fn the_scheduler_reads_and_decides_the_same_without_what_is_dropped(
        pod in pods(), node in nodes(), name in text::text(),
    ) {
        let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return Ok(()) };
        let Ok(mut node) = serde_json::from_value::<Node>(node) else { return Ok(()) };
        node.metadata.labels.get_or_insert_default().insert("name".to_owned(), name);
        let (mut lean_pod, mut lean_node) = (pod.clone(), node.clone());
        super::pod(&mut lean_pod);
        super::node(&mut lean_node);
        let (Ok(before), Ok(after)) = (NodeObject::parse(&node), NodeObject::parse(&lean_node)) else {
            prop_assert!(node.metadata.name.is_none());
            return Ok(());
        };
        prop_assert_eq!(
            (&before.allocatable, &before.taints, before.unschedulable, before.labels(), before.defects()),
            (&after.allocatable, &after.taints, after.unschedulable, after.labels(), after.defects())
        );
        prop_assert_eq!((&before.images, before.features), (&after.images, after.features));
        let before = PodInfo::parse(Arc::new(pod));
        let after = PodInfo::parse(Arc::new(lean_pod));
        match (before, after) {
            (Ok(before), Ok(after)) => {
                prop_assert_eq!(read(&before), read(&after));
                prop_assert_eq!(judged(&node, &before), judged(&lean_node, &after));
            }
            (before, after) => prop_assert_eq!(before.err(), after.err()),
        }
    }
}
