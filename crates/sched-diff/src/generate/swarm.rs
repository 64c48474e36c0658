//! How often each feature occurs in a case. Drawn anew for each: where all features occur all the time, each pod fails
//! by one of them and the others show nothing.

use super::amounts::USUAL_SCALARS;
use crate::draw::Draw;

/// Chances in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Swarm {
    /// Amounts that don't fit into 64 bits, or whose sums don't. Few cases have them: nearly all differ there.
    pub(super) overflowing: usize,
    /// Odd and extreme amounts.
    pub(super) extreme: usize,
    /// Resources other than CPU, memory and storage.
    pub(super) scalars: usize,
    /// The one of them that pods, and the configuration, name most: all three have to meet for its score.
    pub(super) scalar: &'static str,
    /// Containers that don't state requests.
    pub(super) silent: usize,
    /// Init containers and sidecars.
    pub(super) init: usize,
    /// Requests of the pod as a whole.
    pub(super) whole: usize,
    /// Overhead.
    pub(super) overhead: usize,
    /// Statuses of containers, and resizes.
    pub(super) resize: usize,
    /// Large requests, so that nodes fill up.
    pub(super) large: usize,
    /// Taints.
    pub(super) taints: usize,
    /// Tolerations.
    pub(super) tolerations: usize,
    /// Unschedulable nodes.
    pub(super) unschedulable: usize,
    /// Node selectors and required affinity.
    pub(super) required: usize,
    /// Preferred affinity.
    pub(super) preferred: usize,
    /// Bounds of affinity that aren't numbers.
    pub(super) odd_bounds: usize,
    /// Host ports.
    pub(super) ports: usize,
    /// Images on nodes.
    pub(super) images: usize,
    /// Images whose sizes differ from node to node.
    pub(super) odd_images: usize,
    /// Features that nodes declare and pods need.
    pub(super) features: usize,
    /// Priorities.
    pub(super) priorities: usize,
    /// Pods that haven't started.
    pub(super) unstarted: usize,
    /// Disruption budgets.
    pub(super) budgets: usize,
    /// How many pods more are on a node, at most.
    pub(super) crowd: usize,
    /// Pods that come again.
    pub(super) again: usize,
    /// Affinity to other pods.
    pub(super) near: usize,
    /// Anti-affinity.
    pub(super) apart: usize,
    /// Nominations.
    pub(super) nominations: usize,
    /// Scheduling gates.
    pub(super) gates: usize,
    /// Pods that name their node.
    pub(super) named: usize,
    /// Topology spread constraints.
    pub(super) spread: usize,
    /// Events between two pods.
    pub(super) events: usize,
    /// Arguments of plugins.
    pub(super) arguments: usize,
}

impl Swarm {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let scalar = *draw.one(USUAL_SCALARS);
        let mut often = |chances: &[usize]| *draw.one(chances);
        Self {
            overflowing: often(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]),
            extreme: often(&[0, 0, 0, 2, 10, 40]),
            scalars: often(&[0, 0, 20, 50]),
            scalar,
            silent: often(&[0, 10, 50]),
            init: often(&[0, 20, 50]),
            whole: often(&[0, 0, 20, 50]),
            overhead: often(&[0, 0, 20]),
            resize: often(&[0, 20, 60]),
            large: often(&[0, 10, 40]),
            taints: often(&[0, 0, 20, 60]),
            tolerations: often(&[0, 30, 70]),
            unschedulable: often(&[0, 0, 5, 30]),
            required: often(&[0, 0, 10, 40]),
            preferred: often(&[0, 0, 30, 70]),
            odd_bounds: often(&[0, 0, 0, 10]),
            ports: often(&[0, 0, 20, 60]),
            images: often(&[0, 30, 80]),
            odd_images: often(&[0, 0, 0, 30]),
            features: often(&[0, 0, 30, 70]),
            priorities: often(&[0, 40, 80]),
            unstarted: often(&[0, 0, 0, 5]),
            budgets: often(&[0, 0, 40, 80]),
            crowd: often(&[0, 0, 3, 6]),
            again: often(&[0, 10, 30]),
            near: often(&[0, 0, 20, 60]),
            apart: often(&[0, 0, 20, 60]),
            nominations: often(&[0, 0, 15]),
            gates: often(&[0, 0, 0, 10]),
            named: often(&[0, 0, 0, 10]),
            spread: often(&[0, 30, 80]),
            events: often(&[0, 20, 60]),
            arguments: often(&[0, 50, 100]),
        }
    }
}
