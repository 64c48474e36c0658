//! Differences that are meant, or that aren't worth what it would cost to copy them. Each has a reason here and its
//! paragraph in `docs/scheduler-differences.md`; all others fail the run, and so does a reason that is needed too
//! often.

mod amounts;
mod namespaces;
mod ports;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::amounts::is_extreme;
use crate::compare::{Aspect, Difference};
use crate::verdict::Verdict;
use crate::world::World;

/// What both said of a pod, and when.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The pod.
    pub pod: &'a Value,
    /// What there was.
    pub world: &'a World,
    /// What ours said.
    pub ours: &'a Verdict,
    /// What the oracle said.
    pub theirs: &'a Verdict,
}

/// A reason for differences.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// Its name, which is the heading of its paragraph in the document.
    pub name: &'static str,
    /// The reason in a sentence.
    pub reason: &'static str,
    /// The most pods of a thousand that may need it in a long run, by what was measured and some room for chance. If
    /// more do, something else may hide behind it.
    pub most: u64,
    /// Whether it is the reason for this difference.
    pub explains: fn(&Scene<'_>, &Difference) -> bool,
}

/// All of them.
pub const EXPLAINED: &[Explanation] = &[
    Explanation {
        name: "Amounts that 64 bits can't hold",
        reason: "kube-scheduler's sums wrap or count such an amount as nothing; ours don't.",
        most: 50,
        explains: amounts::explains,
    },
    Explanation {
        name: "A bound that is no integer",
        reason: "kube-scheduler fails the cycle; to ours it is a preference that no node has.",
        most: 5,
        explains: |_, difference| {
            difference.aspect == Aspect::Answer
                && difference.theirs.contains("the value must be an integer")
        },
    },
    Explanation {
        name: "A host port that several pods of a node have",
        reason: "kube-scheduler takes it for free when one of them goes; ours when the last one does.",
        most: 6,
        explains: ports::explains,
    },
    Explanation {
        name: "A namespace selector that no labels satisfy",
        reason: "to kube-scheduler it means pods of all namespaces; to ours those of namespaces that it selects.",
        most: 5,
        explains: namespaces::explains,
    },
];

/// Plugins whose score of a node depends on nothing but that node. Those of others change with the nodes beside it.
const SCORED_ALONE: [&str; 3] = [
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
];

/// Splits differences: those that nothing explains, and the names of what explains the others. What only follows from
/// an explained difference is explained with it. Whom preemption evicts follows from what was said of the same node, or
/// of the one that the pod is nominated for, and from that only one side found a node at all, or that one of them
/// failed before.
pub fn explain<'a>(
    scene: &Scene<'_>,
    differences: Vec<Difference>,
    explanations: &'a [Explanation],
) -> (Vec<Difference>, Vec<&'a str>) {
    let mut names = Vec::new();
    let mut open = Vec::new();
    // Whoever is refused a node, or let on one, shifts the scores that nodes have beside each other.
    let mut others_on_nodes = false;
    let mut refused_otherwise = BTreeSet::new();
    let mut one_failed = false;
    for difference in differences {
        let found = explanations
            .iter()
            .find(|explanation| (explanation.explains)(scene, &difference));
        if let Some(explanation) = found {
            names.push(explanation.name);
            others_on_nodes |= difference.aspect <= Aspect::Filter;
            one_failed |= difference.aspect == Aspect::Answer;
            if difference.aspect == Aspect::Filter {
                refused_otherwise.extend(difference.node);
            }
        } else {
            open.push(difference);
        }
    }
    let fits = |verdict: &Verdict| !verdict.scores.is_empty();
    let only_one_fits = fits(scene.ours) != fits(scene.theirs);
    let nominated = scene.world.nomination(scene.pod);
    let makes_room_otherwise = |difference: &Difference| {
        let mut nodes = difference.node.as_deref().into_iter().chain(nominated);
        only_one_fits || one_failed || nodes.any(|node| refused_otherwise.contains(node))
    };
    let follows = |difference: &Difference| {
        if difference.aspect == Aspect::Preemption {
            return makes_room_otherwise(difference);
        }
        let plugin = difference.plugin.as_deref().unwrap_or_default();
        let shifts = others_on_nodes && !SCORED_ALONE.contains(&plugin);
        difference.aspect.follows() || (shifts && difference.aspect == Aspect::Score)
    };
    if !names.is_empty() && open.iter().all(follows) {
        open.clear();
    }
    (open, names)
}

#[cfg(test)]
mod tests;
