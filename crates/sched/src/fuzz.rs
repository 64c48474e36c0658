//! Pods and nodes with any amounts, names and selectors: they are read, summed and compared, and what is kept of them
//! is no more than they said.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{Affinity, Container, Node, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use pilotage_absurd::text;
use proptest::prelude::*;
use proptest::sample::select;

use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::quantity::Quantity;
use crate::resources::Resources;
use crate::table::NodeInfo;
use crate::taints::{Comparison, first_untolerated};

type List = BTreeMap<String, ApiQuantity>;

fn amounts() -> BoxedStrategy<List> {
    let name = prop_oneof![
        6 => select(&["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi",
            "a.b/gpu"][..]).prop_map(str::to_owned),
        1 => text::text(),
    ];
    let amount = prop_oneof![4 => text::quantity(), 1 => text::text()].prop_map(ApiQuantity);
    prop::collection::btree_map(name, amount, 0..6).boxed()
}

fn container() -> BoxedStrategy<Container> {
    let port = (any::<i32>(), prop::option::of(any::<i32>()), text::text());
    let ports = prop::collection::vec(port, 0..3);
    (
        amounts(),
        ports,
        prop::option::of(Just("Always".to_owned())),
    )
        .prop_map(|(requests, ports, restart_policy)| Container {
            name: "main".to_owned(),
            resources: Some(ResourceRequirements {
                requests: Some(requests),
                ..ResourceRequirements::default()
            }),
            ports: Some(
                ports
                    .into_iter()
                    .map(
                        |(container_port, host_port, protocol)| core::ContainerPort {
                            container_port,
                            host_port,
                            protocol: Some(protocol),
                            ..core::ContainerPort::default()
                        },
                    )
                    .collect(),
            ),
            restart_policy,
            ..Container::default()
        })
        .boxed()
}

fn node_term() -> BoxedStrategy<core::NodeSelectorTerm> {
    let operator = prop_oneof![
        6 => select(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"][..]).prop_map(str::to_owned),
        1 => text::text(),
    ];
    let values = prop::option::of(prop::collection::vec(text::text(), 0..3));
    let requirement = (text::text(), operator, values)
        .prop_map(|(key, operator, values)| core::NodeSelectorRequirement {
            key,
            operator,
            values,
        })
        .boxed();
    let list = || prop::option::of(prop::collection::vec(requirement.clone(), 0..3));
    (list(), list())
        .prop_map(|(match_expressions, match_fields)| core::NodeSelectorTerm {
            match_expressions,
            match_fields,
        })
        .boxed()
}

fn affinity() -> BoxedStrategy<Affinity> {
    let preferred = (any::<i32>(), node_term());
    let required = prop::collection::vec(node_term(), 0..3);
    (required, prop::collection::vec(preferred, 0..3))
        .prop_map(|(node_selector_terms, preferred)| Affinity {
            node_affinity: Some(core::NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(core::NodeSelector {
                    node_selector_terms,
                }),
                preferred_during_scheduling_ignored_during_execution: Some(
                    preferred
                        .into_iter()
                        .map(|(weight, preference)| core::PreferredSchedulingTerm {
                            weight,
                            preference,
                        })
                        .collect(),
                ),
            }),
            ..Affinity::default()
        })
        .boxed()
}

fn effect() -> BoxedStrategy<String> {
    let known = select(&["NoSchedule", "PreferNoSchedule", "NoExecute", ""][..]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => text::text()].boxed()
}

fn tolerations() -> BoxedStrategy<Vec<core::Toleration>> {
    let operator = prop_oneof![
        4 => select(&["Equal", "Exists", "", "Gt", "Lt"][..]).prop_map(str::to_owned),
        1 => text::text(),
    ];
    let one = (
        text::text(),
        operator,
        text::text(),
        effect(),
        prop::option::of(any::<i64>()),
    );
    let one = one.prop_map(
        |(key, operator, value, effect, toleration_seconds)| core::Toleration {
            key: Some(key),
            operator: Some(operator),
            value: Some(value),
            effect: Some(effect),
            toleration_seconds,
        },
    );
    prop::collection::vec(one, 0..4).boxed()
}

fn pod() -> BoxedStrategy<Pod> {
    let containers = || prop::collection::vec(container(), 0..3);
    (
        (containers(), containers()),
        (amounts(), amounts()),
        affinity(),
        tolerations(),
        prop::option::of(text::text()),
    )
        .prop_map(
            |((apps, inits), (overhead, whole), affinity, tolerations, node_name)| {
                let mut pod = Pod::default();
                pod.metadata.name = Some("web".to_owned());
                pod.metadata.uid = Some("u".to_owned());
                pod.spec = Some(PodSpec {
                    containers: apps,
                    init_containers: Some(inits),
                    overhead: Some(overhead),
                    resources: Some(ResourceRequirements {
                        requests: Some(whole),
                        ..ResourceRequirements::default()
                    }),
                    affinity: Some(affinity),
                    tolerations: Some(tolerations),
                    node_name,
                    ..PodSpec::default()
                });
                pod
            },
        )
        .boxed()
}

fn node() -> BoxedStrategy<Node> {
    let taint = (text::text(), text::text(), effect());
    let taint = taint.prop_map(|(key, value, effect)| core::Taint {
        key,
        value: Some(value),
        effect,
        time_added: None,
    });
    let labels = prop::collection::btree_map(text::text(), text::text(), 0..4);
    (amounts(), prop::collection::vec(taint, 0..4), labels)
        .prop_map(|(allocatable, taints, labels)| {
            let mut node = Node::default();
            node.metadata.name = Some("n".to_owned());
            node.metadata.labels = Some(labels);
            node.spec.get_or_insert_default().taints = Some(taints);
            node.status.get_or_insert_default().allocatable = Some(allocatable);
            node
        })
        .boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn an_amount_is_what_it_says_up_to_the_ends(text in prop_oneof![4 => text::quantity(), 1 => text::text()]) {
        let Ok(amount) = Quantity::parse(&text) else { return Ok(()) };
        // The one is the other a thousandfold, rounded away from zero, as long as there is room.
        let (whole, milli) = (i128::from(amount.value()), i128::from(amount.milli_value()));
        if milli > i128::from(i64::MIN) && milli < i128::from(i64::MAX) {
            prop_assert!((whole * 1000 - milli).abs() < 1000, "{}: {} and {}", text, whole, milli);
        }
    }

    #[test]
    fn of_a_list_no_more_amounts_are_kept_than_it_has(list in amounts()) {
        let mut wrong = 0;
        let read = Resources::parse(&list, |_, _| wrong += 1);
        prop_assert!(read.scalars().len() + wrong <= list.len());
        let mut sum = read.clone();
        sum.raise_to(&read);
        prop_assert_eq!(sum, read);
    }

    #[test]
    fn whatever_a_pod_asks_for_a_node_is_as_before_when_it_has_gone(
        pods in prop::collection::vec(pod(), 1..5), node in node(), leave in any::<prop::sample::Index>(),
    ) {
        let node = Arc::new(NodeObject::parse(&node).unwrap());
        let mut pods: Vec<_> = pods.into_iter().enumerate().map(|(number, mut pod)| {
            pod.metadata.uid = Some(number.to_string());
            Arc::new(PodInfo::parse(Arc::new(pod)).unwrap())
        }).collect();
        let mut info = NodeInfo::new(node);
        for pod in &pods {
            info.add_pod(pod.clone());
        }
        let first = pods.swap_remove(leave.index(pods.len()));
        for pod in pods.iter().rev() {
            prop_assert!(info.remove_pod(&pod.uid).is_some());
        }
        let mut alone = NodeInfo::new(info.node().clone());
        alone.add_pod(first);
        prop_assert_eq!(info.requested(), alone.requested());
        prop_assert_eq!(info.non_zero_requested(), alone.non_zero_requested());
        prop_assert_eq!(info.used_ports(), alone.used_ports());
    }

    #[test]
    fn of_a_pod_and_a_node_no_more_is_kept_than_they_say(pod in pod(), node in node()) {
        let spec = pod.spec.clone().unwrap_or_default();
        let info = PodInfo::parse(Arc::new(pod)).unwrap();
        let said = |containers: &[Container]| -> usize {
            let lists = containers.iter().filter_map(|it| it.resources.as_ref()?.requests.as_ref());
            lists.map(BTreeMap::len).sum()
        };
        let overhead = spec.overhead.map_or(0, |list| list.len());
        let whole = spec.resources.and_then(|it| it.requests).map_or(0, |list| list.len());
        let most = said(&spec.containers) + said(&spec.init_containers.unwrap_or_default()) + overhead + whole;
        prop_assert!(info.needs.requests.total.scalars().len() <= most);
        let tolerations = spec.tolerations.map_or(0, |list| list.len());
        // Nodes' and pods' affinity are told of once each.
        prop_assert!(info.defects().len() <= most + tolerations + 2);
        prop_assert!(info.needs.tolerations.len() <= tolerations);

        let node = NodeObject::parse(&node).unwrap();
        let matches = info.needs.node_affinity.matches("n", node.labels());
        prop_assert!(matches || !info.needs.node_affinity.is_empty());
        for preferred in &info.needs.preferred_nodes {
            let score = preferred.score("n", node.labels());
            prop_assert!(score == 0 || score == preferred.weight);
        }
        for comparison in [Comparison::Off, Comparison::On] {
            let untolerated = first_untolerated(&node.taints, &info.needs.tolerations, comparison);
            prop_assert!(untolerated.is_none_or(|taint| node.taints.contains(taint)));
        }
    }
}
