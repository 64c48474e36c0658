//! Whether a host port that kube-scheduler has lost sight of is why only ours refuses a node.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Scene;
use crate::compare::{Aspect, Difference};
use crate::object;
use crate::ports::{self, Port};
use crate::verdict::Verdict;

/// Whether all that stands in the pod's way on that node is such ports, or would be once victims have gone.
pub(super) fn explains(scene: &Scene<'_>, difference: &Difference) -> bool {
    match (difference.aspect, &difference.node) {
        (Aspect::Preemption, Some(node)) => return a_victim_may_lose_one(scene, |it| it == node),
        // It tells of all nodes together.
        (Aspect::Message, _) => return a_victim_may_lose_one(scene, |_| true),
        _ => {}
    }
    let (Aspect::Filter, Some(node)) = (difference.aspect, &difference.node) else {
        return false;
    };
    let refuses = |verdict: &Verdict| {
        let refusal = verdict.filter.get(node);
        refusal.is_some_and(|refusal| refusal.plugin == "NodePorts")
    };
    if !refuses(scene.ours) || refuses(scene.theirs) {
        return false;
    }
    let wanted = ports::of(scene.pod);
    let conflicts = |port: &Port| wanted.iter().any(|wanted| wanted.conflicts(port));
    let pods = scene.world.pods().values();
    let there = pods.filter(|pod| object::node_of(pod) == Some(node.as_str()));
    let held: BTreeSet<Port> = there.flat_map(ports::of).filter(conflicts).collect();
    let mut expected = expected_there(scene, node).flat_map(ports::of);
    let lost = held.iter().all(|port| scene.world.is_lost(node, port));
    !held.is_empty() && lost && !expected.any(|port| conflicts(&port))
}

/// Whether on some node several pods have the same port, which the pod wants: when one of them is tried to be gone, so
/// is the port of the others.
fn a_victim_may_lose_one(scene: &Scene<'_>, meant: impl Fn(&str) -> bool) -> bool {
    let wanted = ports::of(scene.pod);
    let conflicts = |port: &Port| wanted.iter().any(|wanted| wanted.conflicts(port));
    let mut held: BTreeSet<(&str, Port)> = BTreeSet::new();
    let on_nodes = scene.world.pods().values().filter_map(|pod| {
        let node = object::node_of(pod).filter(|node| meant(node));
        Some((node?, pod))
    });
    let mut on_nodes = on_nodes.flat_map(|(node, pod)| {
        let held = ports::of(pod).into_iter().filter(conflicts);
        held.map(move |port| (node, port)).collect::<Vec<_>>()
    });
    on_nodes.any(|held_there| {
        let (node, port) = &held_there;
        let is_lost = scene.world.is_lost(node, port);
        is_lost || !held.insert(held_there)
    })
}

/// The pods that are nominated for the node and come before this one: both schedulers count their ports.
fn expected_there<'a>(scene: &Scene<'a>, node: &str) -> impl Iterator<Item = &'a Value> {
    let priority = |pod: &Value| pod["spec"]["priority"].as_i64().unwrap_or(0);
    let (own, key) = (priority(scene.pod), object::key(scene.pod));
    let there = scene.world.nominations().filter(move |(_, on)| *on == node);
    let pods = there.map(|(pod, _)| pod);
    pods.filter(move |pod| priority(pod) >= own && object::key(pod) != key)
}
