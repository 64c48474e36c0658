//! How many rules a pod may have whose author isn't trusted with the scheduler's time: it looks at each rule beside
//! each node, nobody else is tried meanwhile, and an object holds thousands.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::context::Context;
use crate::event::{Actions, EventKind, EventResource};
use crate::plugin::{EnqueueExtensions, Plugin, PreFilter, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};

/// Name of the plugin.
pub const RULE_LIMIT: PluginName = "RuleLimit";

/// As many rules may a pod have in all.
pub const MOST_RULES: usize = 64;

/// So many values may an expression compare with and count as one rule.
pub const VALUES_A_RULE: usize = 16;

/// So many tolerations don't count: some come by themselves.
pub const FREE_TOLERATIONS: usize = 16;

/// Refuses pods with more than [`MOST_RULES`] rules, which kube-scheduler would try. What counts is each extended
/// resource, each term about nodes or other pods, each spread constraint, and each label, expression and namespace that
/// one of these names; an expression again with every [`VALUES_A_RULE`] values more; each toleration beyond
/// [`FREE_TOLERATIONS`]; and where they are looked for, each host port.
#[derive(Clone, Copy, Debug)]
pub struct RuleLimit {
    looks_for_ports: bool,
}

impl RuleLimit {
    /// For a profile with [`NodePorts`](super::NodePorts), or without.
    pub const fn new(looks_for_ports: bool) -> Self {
        Self { looks_for_ports }
    }

    fn says(self, rules: usize) -> String {
        let counted = if self.looks_for_ports {
            "resources, host ports"
        } else {
            "resources"
        };
        format!(
            "pod has {rules} {counted} and rules about nodes and other pods, and may have {MOST_RULES}"
        )
    }
}

impl Plugin for RuleLimit {
    fn name(&self) -> PluginName {
        RULE_LIMIT
    }
}

impl EnqueueExtensions for RuleLimit {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(EventResource::TargetPod, Actions::ALL)]
    }
}

impl PreFilter for RuleLimit {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        let ports = if self.looks_for_ports {
            pod.needs.host_ports.len()
        } else {
            0
        };
        let rules = rules(pod).saturating_add(ports);
        if rules > MOST_RULES {
            return Err(Status::unresolvable(self.says(rules)));
        }
        Ok(PreFiltered::Skip)
    }
}

/// How many rules a pod has, if they are too many whatever ports it wants.
pub(crate) fn too_many(pod: &PodInfo) -> Option<usize> {
    Some(rules(pod)).filter(|rules| *rules > MOST_RULES)
}

fn rules(pod: &PodInfo) -> usize {
    let resources = pod.needs.requests.total.scalars().len();
    let spec = pod.pod().and_then(|pod| pod.spec.as_ref());
    resources.saturating_add(spec.map_or(0, rules_of))
}

fn rules_of(spec: &PodSpec) -> usize {
    let affinity = spec.affinity.as_ref();
    let nodes = affinity.and_then(|it| it.node_affinity.as_ref());
    let near = affinity.and_then(|it| it.pod_affinity.as_ref());
    let away = affinity.and_then(|it| it.pod_anti_affinity.as_ref());
    let required_nodes = nodes
        .and_then(|it| {
            it.required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .map(|it| it.node_selector_terms.as_slice());
    let preferred_nodes = nodes.and_then(|it| {
        it.preferred_during_scheduling_ignored_during_execution
            .as_deref()
    });
    let required_pods = [
        near.and_then(|it| {
            it.required_during_scheduling_ignored_during_execution
                .as_deref()
        }),
        away.and_then(|it| {
            it.required_during_scheduling_ignored_during_execution
                .as_deref()
        }),
    ];
    let preferred_pods = [
        near.and_then(|it| {
            it.preferred_during_scheduling_ignored_during_execution
                .as_deref()
        }),
        away.and_then(|it| {
            it.preferred_during_scheduling_ignored_during_execution
                .as_deref()
        }),
    ];
    let nodes = required_nodes.into_iter().flatten().map(of_nodes);
    let nodes = nodes.chain(
        preferred_nodes
            .into_iter()
            .flatten()
            .map(|it| of_nodes(&it.preference)),
    );
    let pods = required_pods.into_iter().flatten().flatten().map(of_pods);
    let wishes = preferred_pods.into_iter().flatten().flatten();
    let wishes = wishes.map(|it: &WeightedPodAffinityTerm| of_pods(&it.pod_affinity_term));
    let spread = spec
        .topology_spread_constraints
        .iter()
        .flatten()
        .map(of_spread);
    let rules = nodes.chain(pods).chain(wishes).chain(spread);
    let rules = rules.fold(0, usize::saturating_add);
    let tolerations = length(spec.tolerations.as_ref());
    rules.saturating_add(tolerations.saturating_sub(FREE_TOLERATIONS))
}

fn length<T>(list: Option<&Vec<T>>) -> usize {
    list.map_or(0, Vec::len)
}

/// An expression, by the values that it compares with.
fn of_expression(values: Option<&Vec<String>>) -> usize {
    length(values).div_ceil(VALUES_A_RULE).max(1)
}

fn of_nodes(term: &NodeSelectorTerm) -> usize {
    let lists = [&term.match_expressions, &term.match_fields];
    let each = lists.into_iter().flatten().flatten();
    let each = each.map(|it| of_expression(it.values.as_ref()));
    each.sum::<usize>().max(1)
}

fn of_selector(selector: Option<&LabelSelector>) -> usize {
    let labels = selector.and_then(|it| it.match_labels.as_ref());
    let expressions = selector.and_then(|it| it.match_expressions.as_ref());
    let expressions = expressions.into_iter().flatten();
    let expressions = expressions.map(|it| of_expression(it.values.as_ref()));
    let each = [labels.map_or(0, BTreeMap::len), expressions.sum()];
    each.iter().sum()
}

fn of_pods(term: &PodAffinityTerm) -> usize {
    let each = [
        of_selector(term.label_selector.as_ref()),
        of_selector(term.namespace_selector.as_ref()),
        length(term.namespaces.as_ref()),
        length(term.match_label_keys.as_ref()),
        length(term.mismatch_label_keys.as_ref()),
    ];
    each.iter().sum::<usize>().max(1)
}

fn of_spread(constraint: &TopologySpreadConstraint) -> usize {
    let each = [
        of_selector(constraint.label_selector.as_ref()),
        length(constraint.match_label_keys.as_ref()),
    ];
    each.iter().sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::test_objects::{PodBuilder, pod, with_context};

    /// What users read.
    const PROMISES: &str = include_str!("../../../../docs/promises.md");
    const CONSTRAINTS: &str = include_str!("../../../../docs/constraints.md");

    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

    #[test]
    fn the_docs_have_these_limits() {
        let line = format!(
            "| more than {MOST_RULES} resources, host ports and rules in all | refused by a candidate"
        );
        assert!(PROMISES.contains(&line), "{line}");
        for text in [
            format!("more than {MOST_RULES} of these in all"),
            format!("every {VALUES_A_RULE} values more"),
        ] {
            assert!(CONSTRAINTS.contains(&text), "{text}");
        }
        assert_eq!(FREE_TOLERATIONS, 16, "the docs say: after the sixteenth");
    }

    #[test]
    fn host_ports_count_where_they_are_looked_for() {
        let refusal = |limit: RuleLimit, ports: i32| {
            let wants = |pod: PodBuilder, number| pod.host_port("", "TCP", number);
            let pod = (1..=ports).fold(pod("p"), wants).info();
            let verdict = with_context(|cx| limit.pre_filter(cx, &mut CycleState::new(), &pod));
            verdict.err().map(|refusal| refusal.to_string())
        };
        let told = "pod has 65 resources, host ports and rules about nodes and other pods, and may have 64";
        for (looks_for_ports, ports, wanted) in [
            (true, 64, None),
            (true, 65, Some(told.to_owned())),
            (false, 2_000, None),
        ] {
            let limit = RuleLimit::new(looks_for_ports);
            assert_eq!(refusal(limit, ports), wanted, "{ports}");
        }
    }

    fn counted(spec: &Value) -> usize {
        let mut pod = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": spec });
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([]);
        }
        rules(&PodInfo::parse(Arc::new(serde_json::from_value(pod).unwrap())).unwrap())
    }

    #[test]
    fn each_rule_counts_wherever_it_is() {
        let selector = json!({
            "matchLabels": { "a": "b", "c": "d" }, "matchExpressions": [{ "key": "e", "operator": "Exists" }],
        });
        let pods = json!({
            "topologyKey": "k", "labelSelector": selector, "namespaceSelector": selector, "namespaces": ["m", "n"],
            "matchLabelKeys": ["x"], "mismatchLabelKeys": ["y"],
        });
        let either = json!({
            REQUIRED: [pods, { "topologyKey": "k" }], PREFERRED: [{ "weight": 1, "podAffinityTerm": pods }],
        });
        let expression = json!({ "key": "e", "operator": "Exists" });
        let nodes = json!({ "matchExpressions": [expression, expression], "matchFields": [
            { "key": "metadata.name", "operator": "In", "values": ["n", "m"] }] });
        let spread = json!({
            "maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            "matchLabelKeys": ["x"],
        });
        let requests =
            json!({ "cpu": "1", "memory": "1", "example.com/a": "1", "example.com/b": "2" });
        for (spec, wanted) in [
            (json!({}), 0),
            (
                json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] }),
                2,
            ),
            (json!({ "affinity": { "podAffinity": either } }), 21),
            (json!({ "affinity": { "podAntiAffinity": either } }), 21),
            (
                json!({ "affinity": { "nodeAffinity": {
                    REQUIRED: { "nodeSelectorTerms": [nodes, {}] },
                    PREFERRED: [{ "weight": 1, "preference": nodes }],
                } } }),
                7,
            ),
            (json!({ "topologySpreadConstraints": [spread] }), 4),
            (
                json!({ "tolerations": vec![json!({ "operator": "Exists" }); 16] }),
                0,
            ),
            (
                json!({ "tolerations": vec![json!({ "operator": "Exists" }); 18] }),
                2,
            ),
            // These cost nothing, however many they are.
            (json!({ "nodeSelector": { "a": "b", "c": "d" } }), 0),
        ] {
            assert_eq!(counted(&spec), wanted, "{spec}");
        }
    }

    #[test]
    fn an_expression_counts_again_with_every_so_many_values() {
        for (values, wanted) in [(0, 1), (1, 1), (16, 1), (17, 2), (32, 2), (1_024, 64)] {
            let values: Vec<_> = (0..values).map(|n| n.to_string()).collect();
            let expression = json!({ "key": "e", "operator": "NotIn", "values": values });
            let selector = json!({ "matchExpressions": [expression] });
            let pods = json!({ "topologyKey": "k", "labelSelector": selector });
            for spec in [
                json!({ "affinity": { "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": [selector] } } } }),
                json!({ "affinity": { "podAffinity": { REQUIRED: [pods] } } }),
                json!({ "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
                }] }),
            ] {
                assert_eq!(counted(&spec), wanted, "{spec}");
            }
        }
    }
}
