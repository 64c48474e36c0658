//! What is left of a pod of which there is too much: who it is, and what it takes on its node. A pod that looks for a
//! node isn't placed then, and is told why; one that has a node takes as much there as the whole one does.
//!
//! Whoever may create pods says how much of them there is. Must not know who watches them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_runtime::caught::caught;
use pilotage_runtime::thin::{FIELD, Path, thin};
use pilotage_runtime::weight;
use pilotage_sched::resources::Resources;
use pilotage_sched::{OUTLINE, PodInfo, PodNeeds};
use serde::{Deserialize, Serialize};

/// Host ports that are known of one pod.
const PORTS: usize = 1024;

/// Who a pod is, and where.
const NAMES: [Path; 22] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "generation"],
    &["metadata", "creationTimestamp"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
    &["metadata", "ownerReferences"],
    &["metadata", "labels"],
    &["spec", "nodeName"],
    &["spec", "schedulerName"],
    &["spec", "priority"],
    &["spec", "preemptionPolicy"],
    &["spec", "terminationGracePeriodSeconds"],
    &["spec", "schedulingGates"],
    &["status", "phase"],
    &["status", "nominatedNodeName"],
    &["status", "startTime"],
    &["status", "conditions"],
];

/// Reads an outline of a pod that is too heavy to be read whole.
pub fn read(text: &str) -> serde_json::Result<Pod> {
    let names = thin(text, &NAMES, FIELD)?;
    let mut pod: Pod = serde_json::from_str(&names.text)?;
    let amounts: Amounts = serde_json::from_str(text)?;
    amounts.put_into(&mut pod);
    fold(&mut pod);
    Ok(pod)
}

/// Leaves an outline of a pod, with one container for all.
pub fn fold(pod: &mut Pod) {
    let whole = Arc::new(std::mem::take(pod));
    // One without identity is nobody's.
    let needs = caught(|| PodInfo::parse(whole.clone()).ok().map(|info| info.needs));
    let needs = needs.ok().flatten();
    let Pod {
        metadata: meta,
        spec,
        status,
    } = Arc::unwrap_or_clone(whole);
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    *pod = Pod {
        metadata: ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            owner_references: light(meta.owner_references),
            labels: light(meta.labels),
            annotations: Some(BTreeMap::from([(OUTLINE.to_owned(), String::new())])),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: needs.as_deref().map(one_container).into_iter().collect(),
            node_name: spec.node_name,
            scheduler_name: spec.scheduler_name,
            priority: spec.priority,
            preemption_policy: spec.preemption_policy,
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            scheduling_gates: light(spec.scheduling_gates),
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: status.phase,
            nominated_node_name: status.nominated_node_name,
            start_time: status.start_time,
            conditions: light(status.conditions),
            ..PodStatus::default()
        }),
    };
}

fn light<T: Serialize>(field: Option<T>) -> Option<T> {
    field.filter(|it| weight::of(it) <= FIELD)
}

/// A container that takes as much as all of a pod.
fn one_container(needs: &PodNeeds) -> Container {
    Container {
        name: "all".to_owned(),
        resources: Some(requests(list(&needs.requests.total))),
        ports: Some(needs.host_ports.container_ports(PORTS)),
        ..Container::default()
    }
}

/// Amounts of resources by name.
type List = BTreeMap<String, Quantity>;

fn list(amounts: &Resources) -> List {
    let own = [
        ("cpu", amounts.milli_cpu, "m"),
        ("memory", amounts.memory, ""),
        ("ephemeral-storage", amounts.ephemeral_storage, ""),
    ];
    let own = own.into_iter();
    let scalars = amounts.scalars();
    let scalars = scalars.map(|(name, amount)| (&**name, amount, ""));
    own.chain(scalars)
        .filter(|(_, amount, _)| *amount > 0)
        .map(|(name, amount, unit)| (name.to_owned(), Quantity(format!("{amount}{unit}"))))
        .collect()
}

fn requests(list: List) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(list),
        ..ResourceRequirements::default()
    }
}

// ---- what a pod takes, of a text --------------------------------------------------------------------------------

/// What a pod takes on its node, and nothing else: what isn't read costs nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Amounts {
    spec: Option<Wanted>,
    status: Option<Given>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wanted {
    containers: Option<Vec<Asking>>,
    init_containers: Option<Vec<Asking>>,
    overhead: Option<List>,
    resources: Option<Requests>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Given {
    container_statuses: Option<Vec<Told>>,
    init_container_statuses: Option<Vec<Told>>,
    allocated_resources: Option<List>,
    resources: Option<Requests>,
}

#[derive(Deserialize)]
struct Requests {
    requests: Option<List>,
}

/// A container.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asking {
    name: String,
    resources: Option<Requests>,
    restart_policy: Option<String>,
    ports: Option<Vec<ContainerPort>>,
}

/// What is told of one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    name: String,
    resources: Option<Requests>,
    allocated_resources: Option<List>,
}

impl Amounts {
    fn put_into(self, pod: &mut Pod) {
        let wanted = self.spec.unwrap_or_default();
        let spec = pod.spec.get_or_insert_default();
        spec.containers = all(wanted.containers);
        spec.init_containers = Some(all(wanted.init_containers));
        spec.overhead = wanted.overhead;
        spec.resources = wanted.resources.map(Into::into);
        let given = self.status.unwrap_or_default();
        let status = pod.status.get_or_insert_default();
        status.container_statuses = Some(all(given.container_statuses));
        status.init_container_statuses = Some(all(given.init_container_statuses));
        status.allocated_resources = given.allocated_resources;
        status.resources = given.resources.map(Into::into);
    }
}

fn all<A: Into<B>, B>(list: Option<Vec<A>>) -> Vec<B> {
    let list = list.into_iter().flatten();
    list.map(Into::into).collect()
}

impl From<Requests> for ResourceRequirements {
    fn from(said: Requests) -> Self {
        requests(said.requests.unwrap_or_default())
    }
}

impl From<Asking> for Container {
    fn from(said: Asking) -> Self {
        Self {
            name: said.name,
            resources: said.resources.map(Into::into),
            restart_policy: said.restart_policy,
            ports: said.ports,
            ..Self::default()
        }
    }
}

impl From<Told> for ContainerStatus {
    fn from(said: Told) -> Self {
        Self {
            name: said.name,
            resources: said.resources.map(Into::into),
            allocated_resources: said.allocated_resources,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use pilotage_sched::Defect;
    use serde_json::{Value, json};

    use super::*;

    fn container(name: &str, cpu: &str, port: i32) -> Value {
        json!({
            "name": name, "image": "i", "env": [{ "name": "A", "value": "b" }],
            "resources": { "requests": { "cpu": cpu, "memory": "1Gi", "a.b/gpu": "1" }, "limits": { "cpu": "9" } },
            "ports": [{ "containerPort": 80, "hostPort": port }, { "containerPort": 81 }],
        })
    }

    /// A pod with all that counts, and thousands of volumes.
    fn pod() -> Value {
        let mut sidecar = container("sidecar", "200m", 8080);
        sidecar["restartPolicy"] = "Always".into();
        let volume = |number: usize| json!({ "name": format!("v{number}"), "emptyDir": {} });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7", "generation": 2,
                "labels": { "app": "web" }, "annotations": { "a": "x".repeat(100_000) },
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
                "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x" }],
            },
            "spec": {
                "nodeName": "n", "schedulerName": "s", "priority": 7, "preemptionPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "overhead": { "cpu": "10m" },
                "initContainers": [sidecar, container("init", "7", 9090)],
                "containers": [container("a", "1", 443), container("b", "2", 443)],
                "volumes": (0..10_000).map(volume).collect::<Vec<_>>(),
            },
            "status": {
                "phase": "Running", "nominatedNodeName": "m", "startTime": "2026-01-01T00:00:01Z",
                "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "x" }],
                "containerStatuses": [{
                    "name": "a", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                    "allocatedResources": { "cpu": "9" }, "resources": { "requests": { "cpu": "8" } },
                }],
            },
        })
    }

    fn info(pod: &Pod) -> PodInfo {
        PodInfo::parse(Arc::new(pod.clone())).unwrap()
    }

    #[test]
    fn an_outline_takes_on_its_node_what_the_whole_pod_takes() {
        let text = pod();
        let whole: Pod = serde_json::from_value(text.clone()).unwrap();
        let (mut folded, outlined) = (whole.clone(), read(&text.to_string()).unwrap());
        fold(&mut folded);
        assert_eq!(folded, outlined);
        let before = info(&whole);
        let total = &before.needs.requests.total;
        // Two sidecar and containers run in the end, and one was resized.
        assert!(
            total.milli_cpu > 11_000 && total.scalar("a.b/gpu") == 3,
            "{total:?}"
        );
        for left in [&folded, &outlined] {
            let after = info(left);
            assert_eq!(&after.needs.requests.total, total);
            let ports = |pod: &PodInfo| pod.needs.host_ports.container_ports(PORTS);
            assert_eq!(ports(&after), ports(&before));
            assert!(!ports(&after).is_empty());
            assert_eq!((&after.uid, &after.key), (&before.uid, &before.key));
            assert_eq!(after.node_name, before.node_name);
            assert_eq!(after.scheduler_name, before.scheduler_name);
            assert_eq!(
                (after.priority, after.preempts, after.grace_seconds),
                (before.priority, before.preempts, before.grace_seconds)
            );
            assert_eq!(
                (after.deleting, after.terminal, after.started),
                (before.deleting, before.terminal, before.started)
            );
            assert_eq!(after.disruption, before.disruption);
            assert_eq!(after.labels(), before.labels());
            // A pod that looked for a node would be told why it gets none.
            assert_eq!(after.defects(), [Defect::Outline]);
            assert!(serde_json::to_string(left).unwrap().len() < 2000);
        }
        let again = folded.clone();
        fold(&mut folded);
        assert_eq!(folded, again);
    }

    #[test]
    fn an_outline_is_small_whatever_there_is_of_a_pod() {
        let mut text = pod();
        let many = |what: Value| Value::from(vec![what; 20_000]);
        text["metadata"]["labels"]["a"] = "x".repeat(100_000).into();
        text["metadata"]["ownerReferences"] = many(text["metadata"]["ownerReferences"][0].clone());
        text["spec"]["containers"] =
            many(json!({ "name": "c", "resources": { "requests": { "cpu": "1m" } } }));
        text["spec"]["schedulingGates"] = many(json!({ "name": "a/b" }));
        text["status"]["conditions"] = many(json!({ "type": "A", "status": "True" }));
        let outlined = read(&text.to_string()).unwrap();
        assert!(serde_json::to_string(&outlined).unwrap().len() < 2000);
        assert!(info(&outlined).needs.requests.total.milli_cpu >= 20_000);
    }
}
