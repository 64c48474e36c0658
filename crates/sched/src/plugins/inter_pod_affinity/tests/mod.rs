//! What the tests of inter-pod affinity share: a small cluster that pods and namespaces come to.

mod hints;
mod naive;
mod preferred;
mod required;

use std::sync::Arc;

use super::{InterPodAffinity, InterPodAffinityArgs};
use crate::context::Context;
use crate::names::NodeName;
use crate::objects::Object;
use crate::plugin::{Filter, PreFilter, PreFiltered, PreScore, PreScored, Score};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::refusals::{Refusals, Rejections};
use crate::state::CycleState;
use crate::status::{Code, Status, Verdict};
use crate::table::{NodeId, NodeTable};
use crate::test_objects::{NeverBinds, PodBuilder, Quiet, namespace, node};

const LONELY: &str = "node(s) didn't match pod affinity rules";
const CROWDED: &str = "node(s) didn't match pod anti-affinity rules";
const UNWANTED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// A cluster, and the plugin that looks at it.
struct World {
    profile: Arc<Profile>,
    table: NodeTable,
    quiet: Quiet,
    plugin: InterPodAffinity,
}

impl World {
    /// Of nodes with these labels.
    fn of(nodes: &[(&str, &[(&str, &str)])]) -> Self {
        let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
        let mut world = Self {
            profile,
            table: NodeTable::default(),
            quiet: Quiet::default(),
            plugin: InterPodAffinity::default(),
        };
        for (name, labels) in nodes {
            let node = labels.iter();
            let node = node.fold(node_of(name), |node, (key, value)| node.label(key, value));
            world.table.set_node(node.object());
        }
        world
    }

    fn told(mut self, args: InterPodAffinityArgs) -> Self {
        self.plugin = InterPodAffinity::new(args).unwrap();
        self
    }

    fn id(&self, node: &str) -> NodeId {
        self.table.id(&NodeName::from(node)).unwrap()
    }

    /// With a pod on a node.
    fn with(mut self, node: &str, pod: PodBuilder) -> Self {
        self.table.add_pod(self.id(node), pod.on(node).info());
        self
    }

    fn namespace(mut self, name: &str, labels: &[(&str, &str)]) -> Self {
        self.apply(namespace(name, labels));
        self
    }

    fn apply(&mut self, object: Object) {
        self.quiet.objects.apply(object).unwrap();
    }

    fn ask<T>(&self, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        ask(&Context::new(
            &self.profile,
            &self.table,
            self.quiet.around(),
        ))
    }

    /// The state after `PreFilter`; `None` if the plugin isn't concerned.
    fn pre_filter(&self, pod: &PodInfo) -> Option<CycleState> {
        let mut state = CycleState::new();
        let said = self.ask(|cx| self.plugin.pre_filter(cx, &mut state, pod));
        match said.unwrap() {
            PreFiltered::Skip => None,
            PreFiltered::AllNodes => Some(state),
            PreFiltered::Nodes(names) => panic!("{names:?}"),
        }
    }

    /// Why each node is refused, with its name; nothing is said of those that will do.
    fn refused(&self, pod: PodBuilder) -> Vec<(String, String)> {
        let pod = pod.info();
        let Some(state) = self.pre_filter(&pod) else {
            return Vec::new();
        };
        refused(&self.plugin, &state, &pod, &self.table)
    }

    /// The normalized scores of all nodes by name, or of these; `None` if nothing is preferred.
    fn scores(&self, pod: PodBuilder) -> Option<Vec<(i64, i64)>> {
        let pod = pod.info();
        let mut state = CycleState::new();
        let nodes = by_name(&self.table);
        let said = self.ask(|cx| self.plugin.pre_score(cx, &mut state, &pod, &nodes));
        if said.unwrap() == PreScored::Skip {
            return None;
        }
        let raw = scores(&self.plugin, &state, &pod, &self.table);
        let mut normalized = raw.clone();
        let normalize = |scores: &mut [i64]| {
            self.plugin
                .normalize(&state, &pod, &self.table, &nodes, scores)
        };
        normalize(&mut normalized).unwrap();
        Some(raw.into_iter().zip(normalized).collect())
    }
}

fn node_of(name: &str) -> crate::test_objects::NodeBuilder {
    node(name).label("kubernetes.io/hostname", name)
}

fn by_name(table: &NodeTable) -> Vec<NodeId> {
    let mut nodes: Vec<_> = table
        .iter()
        .map(|node| (node.name().clone(), node.id()))
        .collect();
    nodes.sort();
    nodes.into_iter().map(|(_, id)| id).collect()
}

/// What Filter says of all nodes, one by one and together.
fn refused(
    plugin: &InterPodAffinity,
    state: &CycleState,
    pod: &PodInfo,
    table: &NodeTable,
) -> Vec<(String, String)> {
    let nodes = by_name(table);
    let mut known = Rejections::default();
    let mut refusals = Refusals::new("", &mut known);
    plugin
        .filter_all(state, pod, table, &nodes, &mut refusals)
        .unwrap();
    let together: Vec<_> = refusals.into_refused();
    let together: Vec<_> = together
        .into_iter()
        .map(|(at, why)| (nodes[at], known.get(why).to_string()))
        .collect();
    let each = nodes.iter().filter_map(|id| {
        let said = plugin.filter(state, pod, table.get(*id).unwrap());
        Some((*id, reason(said)?))
    });
    let each: Vec<_> = each.collect();
    assert_eq!(each, together);
    let named = each.into_iter();
    let named = named.map(|(id, why)| (table.get(id).unwrap().name().to_string(), why));
    named.collect()
}

fn reason(said: Verdict) -> Option<String> {
    let status = said.err()?;
    let code = if status.to_string() == LONELY {
        Code::UnschedulableAndUnresolvable
    } else {
        Code::Unschedulable
    };
    assert_eq!(status.code(), code, "{status}");
    assert!(matches!(status, Status::Rejected(_)));
    Some(status.to_string())
}

/// The raw scores of all nodes by name, one by one and together.
fn scores(
    plugin: &InterPodAffinity,
    state: &CycleState,
    pod: &PodInfo,
    table: &NodeTable,
) -> Vec<i64> {
    let nodes = by_name(table);
    // Others' scores stay as they are.
    let mut together = vec![7];
    plugin
        .score_all(state, pod, table, &nodes, &mut together)
        .unwrap();
    let each = nodes.iter();
    let each = each.map(|id| plugin.score(state, pod, table.get(*id).unwrap()).unwrap());
    let each: Vec<_> = each.collect();
    assert_eq!(together[0], 7);
    assert_eq!(together[1..], each);
    each
}

#[test]
fn a_weight_outside_its_bounds_is_an_error() {
    for (weight, fits) in [(-1, false), (0, true), (100, true), (101, false)] {
        let args = InterPodAffinityArgs {
            hard_pod_affinity_weight: weight,
            ..InterPodAffinityArgs::default()
        };
        let made = InterPodAffinity::new(args).map(|_| ());
        assert_eq!(made.is_ok(), fits, "{weight}");
        if let Err(error) = made {
            let text = format!("hardPodAffinityWeight {weight} isn't within 0..=100");
            assert_eq!(error.to_string(), text);
        }
    }
}
