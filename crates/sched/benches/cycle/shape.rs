//! Loads: what the pods of each are like. Both sides get the same; the oracle has its own words for them (`bench.go`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use pilotage_sched::Object;
use serde_json::{Value, json};

use crate::cluster::node_name;

/// Shapes of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Equal pods.
    Plain,
    /// Fifty sorts of pods in turn.
    Classes,
    /// More sorts than there is room for, of large clusters.
    Rotation,
    /// Each pod is the first of its class.
    Miss,
    /// Pods that fit nowhere, in turn with pods that do.
    Unschedulable,
    /// Equal pods of a Service, which are spread by default.
    Service,
    /// Equal pods that are spread over zones, and if possible over nodes.
    Spread,
    /// Pods each of which wants a node without the others.
    Anti,
    /// Pods of a hundred namespaces that want the zone of the others, which a namespace selector finds.
    NamespaceAffinity,
    /// Pods that evict one of the pods of lower priority that the nodes are full of.
    Preempt,
}

/// All of them.
pub(crate) const SHAPES: [Shape; 10] = [
    Shape::Plain,
    Shape::Classes,
    Shape::Rotation,
    Shape::Miss,
    Shape::Unschedulable,
    Shape::Service,
    Shape::Spread,
    Shape::Anti,
    Shape::NamespaceAffinity,
    Shape::Preempt,
];

const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

impl Shape {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Classes => "classes",
            Self::Rotation => "rotation",
            Self::Miss => "miss",
            Self::Unschedulable => "unschedulable",
            Self::Service => "service",
            Self::Spread => "spread",
            Self::Anti => "anti",
            Self::NamespaceAffinity => "nsaff",
            Self::Preempt => "preempt",
        }
    }

    /// What the oracle calls it; to that each pod is as good as new.
    pub(crate) const fn of_oracle(self) -> &'static str {
        match self {
            Self::Miss => "plain",
            Self::Rotation => "classes",
            other => other.name(),
        }
    }

    /// How many sorts of pods there are, as far as any comes twice.
    pub(crate) const fn sorts(self) -> usize {
        match self {
            Self::Unschedulable => 2,
            Self::Classes => 50,
            Self::Rotation => 200,
            _ => 1,
        }
    }

    /// Requests of the pod of this number.
    fn requests(self, number: usize) -> Value {
        let pod = |milli: usize| json!({"cpu": format!("{milli}m"), "memory": "200Mi"});
        match self {
            Self::Classes | Self::Rotation => pod(100 + number % self.sorts()),
            // So little more that all fit.
            Self::Miss => json!({"cpu": "100m", "memory": format!("{}Ki", 204_800 + number)}),
            Self::Unschedulable if number.is_multiple_of(2) => pod(64_000),
            Self::Preempt => pod(8_000),
            _ => pod(100),
        }
    }

    /// What the pod of this number has beside its requests.
    fn dress(self, number: usize, pod: &mut Value) {
        let others = json!({"matchLabels": {"app": "web"}});
        match self {
            Self::Spread => {
                pod["spec"]["topologySpreadConstraints"] = json!([
                    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": others},
                    {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": others},
                ]);
            }
            Self::Anti => {
                let term = json!({"labelSelector": others, "topologyKey": HOSTNAME});
                pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([term]);
            }
            Self::NamespaceAffinity => {
                pod["metadata"]["namespace"] = json!(format!("ns{}", number % 100));
                let term = json!({
                    "labelSelector": others, "topologyKey": ZONE, "namespaceSelector": {"matchLabels": {"team": "a"}},
                });
                pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([term]);
            }
            Self::Preempt => pod["spec"]["priority"] = json!(1_000),
            _ => {}
        }
    }

    /// The pod of this number.
    pub(crate) fn pod(self, number: usize) -> Arc<Pod> {
        Arc::new(serde_json::from_value(self.manifest(number)).expect("a pod"))
    }

    fn manifest(self, number: usize) -> Value {
        let mut pod = json!({
            "metadata": {
                "name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}"),
                "labels": {"app": "web"},
            },
            "spec": {
                "schedulerName": "bench",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": self.requests(number)}}],
            },
        });
        self.dress(number, &mut pod);
        pod
    }

    /// The pods that are on the nodes before.
    pub(crate) fn there(self, nodes: usize) -> impl Iterator<Item = Arc<Pod>> {
        let pods = if self == Self::Preempt { 4 * nodes } else { 0 };
        (0..pods).map(move |number| {
            let mut pod = self.manifest(number);
            let name = format!("low{number}");
            (pod["metadata"]["name"], pod["metadata"]["uid"]) = (json!(name), json!(name));
            pod["spec"]["priority"] = json!(0);
            pod["spec"]["nodeName"] = json!(node_name(number % nodes));
            // Each a second younger than the one before.
            let started = Timestamp::new(1_700_000_000 + number as i64, 0).expect("a time");
            pod["status"] = json!({"phase": "Running", "startTime": started.to_string()});
            Arc::new(serde_json::from_value(pod).expect("a pod"))
        })
    }

    /// Objects beside nodes and pods.
    pub(crate) fn objects(self) -> Vec<Object> {
        match self {
            Self::Service => {
                let service = json!({
                    "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}},
                });
                vec![Object::Service(Arc::new(
                    serde_json::from_value(service).expect("a service"),
                ))]
            }
            Self::NamespaceAffinity => {
                let namespace = |number: usize| {
                    let namespace = json!({"metadata": {"name": format!("ns{number}"), "labels": {"team": "a"}}});
                    Object::Namespace(Arc::new(
                        serde_json::from_value(namespace).expect("a namespace"),
                    ))
                };
                (0..100).map(namespace).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How many pods of all those a cluster takes.
    pub(crate) const fn most(self, nodes: usize) -> usize {
        match self {
            Self::Anti => nodes * 8 / 10,
            Self::Preempt => nodes * 2,
            _ => usize::MAX / 10,
        }
    }
}
