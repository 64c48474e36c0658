//! Where amounts leave 64 bits: on which node, of which resource. A node where all amounts of a resource fit, added up,
//! is judged like any other, whatever stands elsewhere.

use std::collections::BTreeSet;

use pilotage_sched::quantity::Quantity;
use serde_json::Value;

use super::Scene;
use crate::compare::{Aspect, Difference};
use crate::object;
use crate::verdict::{Refusal, Verdict};

const FIT: &str = "NodeResourcesFit";
const BALANCED: &str = "NodeResourcesBalancedAllocation";

/// The limit; an amount beyond it is read as this one.
const MOST: i128 = i64::MAX as i128;
/// Scores are shares of a hundred, for which `NodeResourcesFit` multiplies before it divides.
const SHARES: i128 = 100;
/// More than what a node's containers are taken to need for scores where they don't say.
const SLACK: i128 = 1 << 40;

/// Whether kube-scheduler's sums or products don't fit where the two differ.
pub(super) fn explains(scene: &Scene<'_>, difference: &Difference) -> bool {
    match (difference.aspect, &difference.node, &difference.plugin) {
        // It names the plugin whose score is none, but not the node.
        (Aspect::Answer, ..) => [FIT, BALANCED].into_iter().any(|plugin| {
            let mut nodes = scene.world.nodes().keys();
            difference.theirs.contains(plugin)
                && nodes.any(|node| may_fit(scene.ours, node) && score_wraps(scene, node, plugin))
        }),
        (Aspect::Filter, Some(node), _) => refusal_wraps(scene, node),
        (Aspect::Score, Some(node), Some(plugin)) => score_wraps(scene, node, plugin),
        // Without some of its pods a node's sums wrap otherwise, or not any more.
        (Aspect::Preemption, Some(node), _) => room_wraps(scene, node),
        // It tells of all nodes together.
        (Aspect::Message, ..) => {
            let mut nodes = scene.world.nodes().keys();
            nodes.any(|node| room_wraps(scene, node))
        }
        _ => false,
    }
}

/// Whether theirs may have scored the node: ours did, or refused it only for its resources.
fn may_fit(ours: &Verdict, node: &str) -> bool {
    let refusal = ours.filter.get(node);
    ours.scores.contains_key(node) || refusal.is_some_and(|refusal| refusal.plugin == FIT)
}

/// Whether the two differ on a node only in resources of which an amount or a sum doesn't fit.
fn refusal_wraps(scene: &Scene<'_>, node: &str) -> bool {
    let of_fit = |verdict: &Verdict| -> Option<BTreeSet<String>> {
        let refusal: &Refusal = verdict.filter.get(node)?;
        (refusal.plugin == FIT).then(|| refusal.reasons.iter().cloned().collect())
    };
    let (ours, theirs) = (of_fit(scene.ours), of_fit(scene.theirs));
    let wraps = |reason: &String| {
        let resource = reason.strip_prefix("Insufficient ");
        resource.is_some_and(|resource| sum(scene, node, resource) >= MOST)
    };
    match (ours, theirs) {
        (None, None) => false,
        // The same reasons: one of them can't be helped, says one side.
        (Some(ours), Some(theirs)) if ours == theirs => ours.iter().any(wraps),
        (ours, theirs) => {
            let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
            ours.symmetric_difference(&theirs).all(wraps)
        }
    }
}

/// Whether the two may differ in whether, or how, room can be made on a node.
fn room_wraps(scene: &Scene<'_>, node: &str) -> bool {
    may_make_room(scene, node) && some_sum_wraps(scene, node)
}

/// Whether pods' leaving may let the pod on the node, as far as either can tell.
fn may_make_room(scene: &Scene<'_>, node: &str) -> bool {
    let hopeless = |verdict: &Verdict| {
        let refusal = verdict.filter.get(node);
        refusal.is_none_or(|refusal| refusal.code != "Unschedulable")
    };
    !hopeless(scene.ours) || !hopeless(scene.theirs)
}

/// Whether any resource that the node has, or the pod asks for, doesn't fit there when it is added up.
fn some_sum_wraps(scene: &Scene<'_>, node: &str) -> bool {
    let allocatable = scene
        .world
        .nodes()
        .get(node)
        .and_then(|node| node.pointer("/status/allocatable"));
    let resources = allocatable.and_then(Value::as_object);
    let mut resources = resources.into_iter().flat_map(|list| list.keys());
    resources.any(|resource| sum(scene, node, resource) >= MOST)
}

/// Whether what this plugin computes of a resource that it looks at doesn't fit.
fn score_wraps(scene: &Scene<'_>, node: &str, plugin: &str) -> bool {
    let (pointer, factor) = match plugin {
        FIT => ("/scoringStrategy/resources", SHARES),
        BALANCED => ("/resources", 1),
        _ => return false,
    };
    let arguments = scene.world.configuration().arguments(plugin);
    let named = arguments.map_or(&[][..], |arguments| object::list(arguments, pointer));
    let named = named.iter().map(|resource| object::text(resource, "/name"));
    let mut resources: Vec<&str> = named.collect();
    if resources.is_empty() {
        resources = vec!["cpu", "memory"];
    }
    let product = |resource| {
        let taken = sum(scene, node, resource).saturating_add(SLACK);
        taken.saturating_mul(factor)
    };
    resources
        .into_iter()
        .any(|resource| product(resource) >= MOST)
}

/// The most that kube-scheduler may have to hold of a resource of this node: what the node has, or all that pods there,
/// pods that are nominated for it and this pod ask for in any place.
fn sum(scene: &Scene<'_>, node: &str, resource: &str) -> i128 {
    let known = scene.world.nodes().get(node);
    let has = known.map_or(0, |node| amount(&node["status"]["allocatable"], resource));
    let pods = scene.world.pods().values();
    let there = pods.filter(|pod| object::node_of(pod) == Some(node));
    let nominations = scene.world.nominations();
    let expected = nominations
        .filter(|(_, on)| *on == node)
        .map(|(pod, _)| pod);
    let pods = there.chain(expected).chain([scene.pod]);
    let asked = pods.map(|pod| asked(pod, resource));
    has.max(asked.fold(0, i128::saturating_add))
}

/// Fields that hold what is asked for, by resource.
const ASKED: [&str; 3] = ["requests", "overhead", "allocatedResources"];

fn asked(value: &Value, resource: &str) -> i128 {
    match value {
        Value::Object(fields) => {
            let one = |(name, value): (&String, &Value)| {
                if ASKED.contains(&name.as_str()) {
                    amount(value, resource)
                } else {
                    asked(value, resource)
                }
            };
            fields.iter().map(one).fold(0, i128::saturating_add)
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| asked(item, resource));
            items.fold(0, i128::saturating_add)
        }
        _ => 0,
    }
}

/// The amount of a resource in a list; CPU is counted in thousandths.
fn amount(list: &Value, resource: &str) -> i128 {
    let text = list.get(resource).and_then(Value::as_str);
    let Some(Ok(amount)) = text.map(Quantity::parse) else {
        return 0;
    };
    let units = if resource == "cpu" {
        amount.milli_value()
    } else {
        amount.value()
    };
    units.into()
}

/// Whether an object names an amount of which a thousand don't fit into 64 bits.
pub fn is_extreme(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::Object(list) if AMOUNTS.contains(&name.as_str()) => {
                let mut resources = list.keys();
                resources.any(|resource| amount(value, resource) > MOST / 1000)
            }
            _ => is_extreme(value),
        }),
        Value::Array(items) => items.iter().any(is_extreme),
        _ => false,
    }
}

/// Fields that hold amounts by resource; an API server takes limits for requests that aren't there.
const AMOUNTS: [&str; 5] = [
    "requests",
    "limits",
    "overhead",
    "allocatable",
    "allocatedResources",
];
