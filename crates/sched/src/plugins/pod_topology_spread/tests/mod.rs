//! Owns clusters for the tests, and questions to the plugin about all of their nodes: however it is asked, it must say
//! the same.

mod defaults;
mod hints;
mod naive;
mod placing;
mod ranking;
mod what_if;

use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::PodTopologySpread;
use crate::context::Context;
use crate::objects::Objects;
use crate::plugin::{Filter, PreFilter, PreFiltered, PreScore, PreScored, Score};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, Rejections};
use crate::state::CycleState;
use crate::status::{Code, Status};
use crate::table::{NodeId, NodeTable};
use crate::test_objects::{NeverBinds, NodeBuilder, PodBuilder, Quiet, node, pod};

const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";
const HOSTNAME: &str = "kubernetes.io/hostname";
const SKEWED: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

/// Pods with the label `app: web` over the values of a label.
fn constraint(when: &str, key: &str, max_skew: i32) -> TopologySpreadConstraint {
    let web = [("app".to_owned(), "web".to_owned())];
    TopologySpreadConstraint {
        max_skew,
        topology_key: key.into(),
        when_unsatisfiable: when.into(),
        label_selector: Some(LabelSelector {
            match_labels: Some(web.into()),
            match_expressions: None,
        }),
        ..TopologySpreadConstraint::default()
    }
}

fn spread(pod: PodBuilder, constraints: Vec<TopologySpreadConstraint>) -> PodBuilder {
    pod.edit(|pod| {
        let spec = pod.spec.get_or_insert_default();
        spec.topology_spread_constraints = Some(constraints);
    })
}

/// A pod that its own constraint selects.
fn web(name: &str) -> PodBuilder {
    pod(name).label("app", "web")
}

/// A node with hostname, and a zone unless it is empty.
fn in_zone(name: &str, zone: &str) -> NodeBuilder {
    let node = node(name).label(HOSTNAME, name);
    if zone.is_empty() {
        node
    } else {
        node.label("zone", zone)
    }
}

#[derive(Default)]
struct Cluster {
    table: NodeTable,
    quiet: Quiet,
    pods: usize,
}

impl Cluster {
    /// Nodes with so many pods that the constraints select.
    fn with(nodes: Vec<(NodeBuilder, usize)>) -> Self {
        let mut cluster = Self::default();
        for (node, pods) in nodes {
            let node = node.object();
            let name = node.name.to_string();
            cluster.table.set_node(node);
            for _ in 0..pods {
                cluster.run(&name, web);
            }
        }
        cluster
    }

    fn run(&mut self, node: &str, pod: impl FnOnce(&str) -> PodBuilder) -> Arc<PodInfo> {
        self.pods += 1;
        let pod = pod(&format!("running-{}", self.pods)).on(node).info();
        self.table.add_pod(self.id(node), pod.clone());
        pod
    }

    fn id(&self, node: &str) -> NodeId {
        self.table.id(&node.into()).unwrap()
    }

    fn objects(&mut self) -> &mut Objects {
        &mut self.quiet.objects
    }

    fn ask<T>(&self, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
        ask(&Context::new(&profile, &self.table, self.quiet.around()))
    }

    /// All nodes by number.
    fn ids(&self) -> Vec<NodeId> {
        let mut ids = self.table.ids().to_vec();
        ids.sort();
        ids
    }

    /// What Filter says of each node, in their order; `None` if the plugin isn't concerned.
    fn filtered(&self, plugin: &PodTopologySpread, pod: &PodInfo) -> Option<Vec<Option<Said>>> {
        let mut state = CycleState::new();
        let found = self.ask(|cx| plugin.pre_filter(cx, &mut state, pod));
        match found.unwrap() {
            PreFiltered::Skip => None,
            PreFiltered::AllNodes => Some(said(&self.table, plugin, &state, pod)),
            PreFiltered::Nodes(names) => panic!("{names:?}"),
        }
    }

    /// Raw and normalized scores of these nodes; `None` if the plugin isn't concerned.
    fn scored(
        &self,
        plugin: &PodTopologySpread,
        pod: &PodInfo,
        nodes: &[NodeId],
    ) -> Option<(Vec<i64>, Vec<i64>)> {
        let mut state = CycleState::new();
        let wanted = self.ask(|cx| plugin.pre_score(cx, &mut state, pod, nodes));
        if wanted.unwrap() == PreScored::Skip {
            return None;
        }
        let mut raw = Vec::new();
        plugin
            .score_all(&state, pod, &self.table, nodes, &mut raw)
            .unwrap();
        let views = nodes.iter().filter_map(|id| self.table.get(*id));
        let each = views.map(|node| plugin.score(&state, pod, node).unwrap());
        assert_eq!(raw, each.collect::<Vec<_>>());
        let mut scores = raw.clone();
        plugin
            .normalize(&state, pod, &self.table, nodes, &mut scores)
            .unwrap();
        Some((raw, scores))
    }
}

/// A rejection, by code and text.
type Said = (Code, String);

/// What Filter says of each node, by number, asked alone and together.
fn said(
    table: &NodeTable,
    plugin: &PodTopologySpread,
    state: &CycleState,
    pod: &PodInfo,
) -> Vec<Option<Said>> {
    let mut ids = table.ids().to_vec();
    ids.sort();
    let views = ids.iter().filter_map(|id| table.get(*id));
    let each = views.map(|node| {
        let verdict = plugin.filter(state, pod, node);
        verdict
            .err()
            .map(|status: Status| (status.code(), status.to_string()))
    });
    let each: Vec<_> = each.collect();
    let mut known = Rejections::default();
    let mut refusals = Refusals::new("PodTopologySpread", &mut known);
    plugin
        .filter_all(state, pod, table, &ids, &mut refusals)
        .unwrap();
    let mut together = vec![None; ids.len()];
    for (at, id) in refusals.into_refused() {
        let why = known.get(id);
        together[at] = Some((why.kind().code(), why.to_string()));
    }
    assert_eq!(each, together);
    each
}

/// Whether each node will do, in their order.
fn open(cluster: &Cluster, pod: &PodInfo) -> Vec<bool> {
    let said = cluster.filtered(&PodTopologySpread::default(), pod);
    said.unwrap().iter().map(Option::is_none).collect()
}
