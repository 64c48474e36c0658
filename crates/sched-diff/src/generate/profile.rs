//! Draws configurations: the order of the plugins, so that each is the first to refuse sometimes, their weights and
//! arguments, and a feature gate.

use serde_json::{Map, Value, json};

use super::affinity::affinity;
use super::amounts::SCALARS;
use super::swarm::Swarm;
use super::{preemption, spread};
use crate::configuration::{COMPARES_TAINTS, Configuration, Enabled};
use crate::draw::Draw;
use crate::plugins::{here, is_here};

/// Without these nothing runs at all.
const NEEDED: &[&str] = &["PrioritySort", "DefaultBinder", "SchedulingGates"];

/// A profile.
pub(super) fn profile(draw: &mut Draw, swarm: &Swarm) -> Configuration {
    let mut configuration = Configuration::default();
    if draw.percent(20) {
        return configuration;
    }
    let mut plugins: Vec<Enabled> = Vec::new();
    for plugin in here() {
        let needed = NEEDED.contains(&plugin.name);
        // The default weight, or any; no two alike by chance alone.
        let other = *draw.one(&[1, 2, 5, 10, 37, 100]);
        let weight = plugin
            .weight
            .map(|usual| if draw.percent(50) { usual } else { other });
        if needed || !draw.percent(8) {
            plugins.push(Enabled {
                name: plugin.name.to_owned(),
                weight,
            });
        }
    }
    draw.shuffle(&mut plugins);
    configuration.plugins = plugins;
    if draw.percent(30) {
        let gate = COMPARES_TAINTS.to_owned();
        configuration.gates.insert(gate, true);
    }
    for (plugin, arguments) in [
        ("NodeResourcesFit", fit as fn(&mut Draw, &Swarm) -> Value),
        ("NodeResourcesBalancedAllocation", balanced),
        ("NodeAffinity", node_affinity),
        ("PodTopologySpread", spread::arguments),
        ("InterPodAffinity", inter_pod_affinity),
        ("DefaultPreemption", preemption::arguments),
    ] {
        let runs = configuration
            .plugins
            .iter()
            .any(|enabled| enabled.name == plugin);
        if is_here(plugin) && runs && draw.percent(swarm.arguments) {
            let arguments = arguments(draw, swarm);
            configuration.arguments.insert(plugin.to_owned(), arguments);
        }
    }
    configuration
}

fn fit(draw: &mut Draw, swarm: &Swarm) -> Value {
    let mut arguments = Map::new();
    if draw.percent(30) {
        let count = draw.within(1, 2);
        let names = draw.some(
            &["example.com/gpu", "other.org/nic", "cpu", "hugepages-2Mi"],
            count,
        );
        arguments.insert("ignoredResources".to_owned(), names.into());
    }
    if draw.percent(30) {
        let groups = draw.some(&["example.com", "other.org", "example.kubernetes.io"], 1);
        arguments.insert("ignoredResourceGroups".to_owned(), groups.into());
    }
    if draw.percent(85) {
        arguments.insert("scoringStrategy".to_owned(), strategy(draw, swarm));
    }
    arguments.into()
}

fn strategy(draw: &mut Draw, swarm: &Swarm) -> Value {
    let kind = draw.word(&[
        "LeastAllocated",
        "MostAllocated",
        "RequestedToCapacityRatio",
    ]);
    let mut strategy =
        json!({"type": kind, "resources": resources(draw, swarm, &[1, 1, 2, 3, 50, 100])});
    if kind == "RequestedToCapacityRatio" {
        let mut utilization: Vec<usize> = (0..draw.within(1, 5)).map(|_| draw.below(101)).collect();
        utilization.sort_unstable();
        utilization.dedup();
        let point =
            |utilization: usize| json!({"utilization": utilization, "score": draw.below(11)});
        let shape: Vec<Value> = utilization.into_iter().map(point).collect();
        strategy["requestedToCapacityRatio"] = json!({ "shape": shape });
    }
    strategy
}

fn balanced(draw: &mut Draw, swarm: &Swarm) -> Value {
    json!({ "resources": resources(draw, swarm, &[1]) })
}

/// Resources with weights.
fn resources(draw: &mut Draw, swarm: &Swarm, weights: &[usize]) -> Vec<Value> {
    let mut names = vec!["cpu", "memory", "ephemeral-storage"];
    names.extend_from_slice(SCALARS);
    let count = draw.within(1, 4);
    let mut chosen = draw.some(&names, count);
    if draw.percent(60) {
        chosen.retain(|name| !["cpu", "memory"].contains(name));
        chosen.extend(["cpu", "memory"]);
    }
    if draw.percent(50) && !chosen.contains(&swarm.scalar) {
        chosen.push(swarm.scalar);
    }
    let one = |name: &str| json!({"name": name, "weight": *draw.one(weights)});
    chosen.into_iter().map(one).collect()
}

fn inter_pod_affinity(draw: &mut Draw, _: &Swarm) -> Value {
    json!({"hardPodAffinityWeight": *draw.one(&[0, 1, 10, 100]),
        "ignorePreferredTermsOfExistingPods": draw.percent(50)})
}

fn node_affinity(draw: &mut Draw, swarm: &Swarm) -> Value {
    let swarm = Swarm {
        required: 30,
        preferred: 60,
        // The configuration is read by stricter rules than pods.
        odd_bounds: 0,
        ..*swarm
    };
    let added = affinity(draw, &swarm);
    added.map_or_else(|| json!({}), |added| json!({ "addedAffinity": added }))
}
