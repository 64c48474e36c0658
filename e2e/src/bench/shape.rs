//! What the pods of `make bench-sched` are like, end to end: constraints as in its cycles (`crates/sched/benches`).
//! Pure.

use std::collections::BTreeMap;

use clap::ValueEnum;
use k8s_openapi::api::core::v1::{
    Affinity, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pilotage_testkit::build::{self, NodeBuilder, PodBuilder};

use super::load;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONES: usize = 3;
/// What all pods have.
const APP: (&str, &str) = ("app", "web");
/// What all namespaces have where pods are found by their namespaces.
const TEAM: (&str, &str) = ("team", "a");
/// How many such namespaces there are.
const NAMESPACES: usize = 100;

/// Shapes of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// Equal pods.
    Plain,
    /// Equal pods that are spread over zones, and if possible over nodes.
    Spread,
    /// Pods each of which wants a node without the others: at most four on five nodes.
    Anti,
    /// Pods of a hundred namespaces that want the zone of the others, which a namespace selector finds.
    #[value(name = "nsaff")]
    NamespaceAffinity,
}

impl Shape {
    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Spread => "spread",
            Self::Anti => "anti",
            Self::NamespaceAffinity => "nsaff",
        }
    }

    /// How many of so many pods a cluster of so many nodes takes.
    pub(super) fn pods(self, pods: usize, nodes: usize) -> usize {
        match self {
            Self::Anti => pods.min((nodes * 4 / 5).max(1)),
            _ => pods,
        }
    }

    /// The namespaces that its pods are in, and their labels.
    pub(super) fn namespaces(self) -> Vec<(String, BTreeMap<String, String>)> {
        match self {
            Self::NamespaceAffinity => {
                let namespace = |number| (format!("bench-{number}"), labels(TEAM));
                (0..NAMESPACES).map(namespace).collect()
            }
            _ => vec![("bench".to_owned(), BTreeMap::new())],
        }
    }

    /// Pods of these names, dealt out to its namespaces.
    pub(super) fn build(self, names: &[String]) -> Vec<Pod> {
        let namespaces = self.namespaces();
        let places = namespaces.iter().map(|(namespace, _)| namespace).cycle();
        let pods = names.iter().zip(places).map(|(name, namespace)| {
            let pod = load::pod(name).ns(namespace).label(APP.0, APP.1);
            self.dress(pod).build()
        });
        pods.collect()
    }

    fn dress(self, pod: PodBuilder) -> PodBuilder {
        let others = LabelSelector {
            match_labels: Some(labels(APP)),
            ..LabelSelector::default()
        };
        let over = |key: &str| PodAffinityTerm {
            topology_key: key.to_owned(),
            label_selector: Some(others.clone()),
            ..PodAffinityTerm::default()
        };
        let evenly = |key: &str, otherwise: &str| TopologySpreadConstraint {
            max_skew: 1,
            topology_key: key.to_owned(),
            when_unsatisfiable: otherwise.to_owned(),
            label_selector: Some(others.clone()),
            ..TopologySpreadConstraint::default()
        };
        match self {
            Self::Plain => pod,
            Self::Spread => pod
                .spread(evenly(ZONE, "DoNotSchedule"))
                .spread(evenly(HOSTNAME, "ScheduleAnyway")),
            Self::Anti => pod.affinity(Affinity {
                pod_anti_affinity: Some(PodAntiAffinity {
                    required_during_scheduling_ignored_during_execution: Some(vec![over(HOSTNAME)]),
                    ..PodAntiAffinity::default()
                }),
                ..Affinity::default()
            }),
            Self::NamespaceAffinity => {
                let mut term = over(ZONE);
                term.namespace_selector = Some(LabelSelector {
                    match_labels: Some(labels(TEAM)),
                    ..LabelSelector::default()
                });
                pod.affinity(Affinity {
                    pod_affinity: Some(PodAffinity {
                        required_during_scheduling_ignored_during_execution: Some(vec![term]),
                        ..PodAffinity::default()
                    }),
                    ..Affinity::default()
                })
            }
        }
    }
}

/// The node of this number, in one of three zones.
pub(super) fn node(number: usize) -> NodeBuilder {
    let zone = format!("z{}", number % ZONES);
    let node = build::node(&format!("node-{number}")).label(ZONE, zone);
    node.cpu("32").memory("128Gi").ready(true)
}

fn labels((key, value): (&str, &str)) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::ResourceExt;
    use serde_json::{Value, json};

    use super::*;

    fn spec_of(shape: Shape) -> Value {
        let pod = shape.build(&load::names("p", 1)).remove(0);
        assert_eq!(pod.labels()["app"], "web", "others find it");
        serde_json::to_value(pod.spec).unwrap()
    }

    #[test]
    fn pods_are_constrained_as_in_the_cycles() {
        let others = json!({ "matchLabels": { "app": "web" } });
        let plain = spec_of(Shape::Plain);
        let constraints = ["affinity", "topologySpreadConstraints"];
        assert!(constraints.iter().all(|key| plain.get(key).is_none()));
        let spread = &spec_of(Shape::Spread)["topologySpreadConstraints"];
        let expected = [(ZONE, "DoNotSchedule"), (HOSTNAME, "ScheduleAnyway")];
        let expected = expected.map(|(key, otherwise)| {
            json!({ "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": otherwise, "labelSelector": others })
        });
        assert_eq!(spread, &json!(expected));
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let anti = &spec_of(Shape::Anti)["affinity"]["podAntiAffinity"][required];
        let term = json!({ "topologyKey": HOSTNAME, "labelSelector": others });
        assert_eq!(anti, &json!([term]));
        let together = &spec_of(Shape::NamespaceAffinity)["affinity"]["podAffinity"][required];
        let teams = json!({ "matchLabels": { "team": "a" } });
        let term =
            json!({ "topologyKey": ZONE, "labelSelector": others, "namespaceSelector": teams });
        assert_eq!(together, &json!([term]));
    }

    #[test]
    fn pods_are_dealt_out_to_namespaces_that_are_there() {
        for shape in Shape::value_variants() {
            let there: BTreeSet<String> = shape.namespaces().into_iter().map(|it| it.0).collect();
            let pods = shape.build(&load::names("p", 250));
            let used: BTreeSet<String> = pods.iter().filter_map(ResourceExt::namespace).collect();
            assert_eq!((pods.len(), used), (250, there), "{}", shape.name());
        }
    }

    #[test]
    fn a_cluster_takes_what_it_has_nodes_for() {
        assert_eq!(Shape::Anti.pods(2_000, 1_000), 800);
        assert_eq!(Shape::Anti.pods(500, 1_000), 500);
        assert_eq!(Shape::Anti.pods(500, 1), 1);
        assert_eq!(Shape::Spread.pods(2_000, 1_000), 2_000);
    }
}
