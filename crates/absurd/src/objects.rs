//! Objects of Kubernetes that have a value in every field that some reader looks at, so that each can be made absurd.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::json;

/// Metadata of a stored object.
pub fn metadata(namespace: Option<&str>) -> Value {
    json!({
        "name": "web-1",
        "namespace": namespace,
        "uid": "5f6c0000-0000-4000-8000-000000000000",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "labels": { "app": "web", "example.com/team": "a" },
        "annotations": { "example.com/note": "x" },
        "finalizers": ["example.com/x"],
        "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs",
        "controller": true }],
        "managedFields": [{ "manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": {} } }],
    })
}

fn amounts() -> Value {
    json!({ "cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "2Gi", "example.com/gpu": "1",
        "hugepages-2Mi": "4Mi" })
}

fn selector() -> Value {
    json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web", "api"] }],
    })
}

fn container(name: &str) -> Value {
    json!({
        "name": name,
        "image": "registry/web:1",
        "resources": { "requests": amounts(), "limits": amounts() },
        "ports": [{ "containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP" }],
        "env": [{ "name": "APP", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app']" } } }],
        "volumeMounts": [{ "name": "kube-api-access-a", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }],
        "restartPolicy": "Always",
    })
}

fn container_status(name: &str) -> Value {
    let ended = json!({ "exitCode": 1, "signal": 9, "reason": "Error", "message": "x",
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z", "containerID": "c://1" });
    json!({
        "name": name,
        "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        "lastState": { "terminated": ended },
        "ready": true,
        "started": true,
        "restartCount": 3,
        "image": "registry/web:1",
        "imageID": "registry/web@sha256:1",
        "containerID": "c://2",
        "resources": { "requests": amounts(), "limits": amounts() },
        "allocatedResources": amounts(),
    })
}

/// A pod's spec.
pub fn pod_spec() -> Value {
    let expressions = json!([{ "key": "zone", "operator": "Gt", "values": ["1"] }]);
    let node_term = json!({ "matchExpressions": expressions, "matchFields": [{ "key": "metadata.name",
        "operator": "In", "values": ["n"] }] });
    let pod_term = json!({ "labelSelector": selector(), "namespaceSelector": selector(), "namespaces": ["shop"],
        "topologyKey": "zone", "matchLabelKeys": ["app"], "mismatchLabelKeys": ["x"] });
    let pods = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [pod_term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": pod_term }],
    });
    json!({
        "nodeName": "n1",
        "schedulerName": "default-scheduler",
        "serviceAccount": "web",
        "priority": 1000,
        "priorityClassName": "high",
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 30,
        "activeDeadlineSeconds": 60,
        "containers": [container("main")],
        "initContainers": [container("first")],
        "overhead": amounts(),
        "resources": { "requests": amounts() },
        "nodeSelector": { "disk": "ssd" },
        "tolerations": [{ "key": "gpu", "operator": "Equal", "value": "x", "effect": "NoExecute",
        "tolerationSeconds": 300 }],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [node_term] },
                "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": node_term }],
            },
            "podAffinity": pods,
            "podAntiAffinity": pods,
        },
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector(), "matchLabelKeys": ["app"] }],
        "schedulingGates": [{ "name": "example.com/wait" }],
        "readinessGates": [{ "conditionType": "example.com/gate" }],
        "volumes": [
            { "name": "kube-api-access-a", "projected": { "sources": [
                { "downwardAPI": { "items": [{ "path": "l",
                "fieldRef": { "fieldPath": "metadata.labels['app']" } }] } }] } },
            { "name": "data", "downwardAPI": { "items": [{ "path": "l",
            "fieldRef": { "fieldPath": "metadata.labels['app']" } }] } },
        ],
    })
}

/// A pod's status.
pub fn pod_status() -> Value {
    json!({
        "phase": "Running",
        "reason": "Evicted",
        "message": "x",
        "startTime": "2026-01-01T00:00:00Z",
        "nominatedNodeName": "n2",
        "qosClass": "Burstable",
        "podIP": "10.0.0.1",
        "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }],
        "hostIP": "10.0.0.2",
        "hostIPs": [{ "ip": "10.0.0.2" }],
        "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1 },
            { "type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "x" },
        ],
        "containerStatuses": [container_status("main")],
        "initContainerStatuses": [container_status("first")],
        "ephemeralContainerStatuses": [container_status("shell")],
        "resources": { "requests": amounts() },
        "allocatedResources": amounts(),
    })
}

/// A pod.
pub fn pod() -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata(Some("shop")), "spec": pod_spec(),
        "status": pod_status() })
}

/// A node.
pub fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(None),
        "spec": {
            "providerID": "aws:///eu-west-1a/i-1",
            "unschedulable": true,
            "taints": [{ "key": "gpu", "value": "x", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z" }],
        },
        "status": {
            "capacity": amounts(),
            "allocatable": amounts(),
            "conditions": [{ "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "x",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "images": [{ "names": ["registry/web:1"], "sizeBytes": 1000 }],
        },
    })
}

/// An object with some more labels and annotations, of these keys.
pub fn told(
    object: Value,
    labels: &[&'static str],
    annotations: &[&'static str],
) -> BoxedStrategy<Value> {
    let values = |keys: &[&'static str]| {
        let keys = keys.to_vec();
        let count = keys.len();
        let values = prop::collection::vec(prop::option::of(crate::text::text()), count);
        values.prop_map(move |values| {
            let pairs = keys.iter().zip(values);
            let said = pairs.filter_map(|(key, value)| Some(((*key).to_owned(), value?)));
            said.collect::<Vec<_>>()
        })
    };
    (values(labels), values(annotations))
        .prop_map(move |(labels, annotations)| {
            let mut object = object.clone();
            for (field, more) in [("labels", labels), ("annotations", annotations)] {
                for (key, value) in more {
                    object["metadata"][field][key] = value.into();
                }
            }
            object
        })
        .boxed()
}

/// [`told`] with other values, most of which its kind can have; a quarter has anything in some places.
pub fn foreign(
    object: Value,
    labels: &[&'static str],
    annotations: &[&'static str],
) -> BoxedStrategy<Value> {
    let told = told(object, labels, annotations);
    prop_oneof![3 => json::extreme(told.clone()), 1 => json::junk_in(told)].boxed()
}

/// A pod of extreme values, most of which the API server would take.
pub fn extreme_pod() -> BoxedStrategy<Value> {
    json::extreme(Just(pod()))
}
