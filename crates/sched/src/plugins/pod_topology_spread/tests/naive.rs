//! The plugin held against a pass over all pods on all nodes that keeps nothing, over whatever clusters, constraints
//! and changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServiceSpec, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::{Cluster, HARD, HOSTNAME, NO_LABEL, SKEWED, SOFT, Said, said, spread};
use crate::objects::Object;
use crate::plugin::{PreFilter, PreFilterExtensions, PreFiltered};
use crate::plugins::PodTopologySpread;
use crate::state::CycleState;
use crate::status::Code;
use crate::test_objects::{NodeBuilder, PodBuilder, node, pod};

const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Clone, Debug)]
struct DrawnNode {
    zone: Option<&'static str>,
    has_host: bool,
    disk: &'static str,
    taint: &'static str,
}

#[derive(Clone, Debug)]
struct DrawnPod {
    node: usize,
    app: &'static str,
    hash: &'static str,
    deleting: bool,
    elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Selects {
    Absent,
    Empty,
    App,
    AnyApp,
    OtherHash,
}

#[derive(Clone, Debug)]
struct DrawnConstraint {
    when: &'static str,
    key: &'static str,
    skew: i32,
    min_domains: Option<i32>,
    selects: Selects,
    by_hash: bool,
    affinity: Option<&'static str>,
    taints: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Asking {
    app: &'static str,
    hash: &'static str,
    disk: Option<&'static str>,
    host: bool,
    tolerates: bool,
    constraints: Vec<DrawnConstraint>,
}

fn drawn_node() -> impl Strategy<Value = DrawnNode> {
    let zones = [None, Some(""), Some("x"), Some("y"), Some("z")];
    let taints = ["", "", "NoSchedule", "PreferNoSchedule"];
    (
        select(zones.to_vec()),
        prop::bool::weighted(0.9),
        select(vec!["ssd", "hdd", ""]),
        select(taints.to_vec()),
    )
        .prop_map(|(zone, has_host, disk, taint)| DrawnNode {
            zone,
            has_host,
            disk,
            taint,
        })
}

fn drawn_pod() -> impl Strategy<Value = DrawnPod> {
    (
        0..6_usize,
        select(vec!["", "a", "a", "b"]),
        select(vec!["", "1", "2"]),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(node, app, hash, deleting, elsewhere)| DrawnPod {
            node,
            app,
            hash,
            deleting,
            elsewhere,
        })
}

fn drawn_constraint() -> impl Strategy<Value = DrawnConstraint> {
    let policies = vec![None, Some("Honor"), Some("Ignore")];
    let selects = [
        Selects::Absent,
        Selects::Empty,
        Selects::App,
        Selects::App,
        Selects::AnyApp,
        Selects::OtherHash,
    ];
    (
        select(vec![HARD, HARD, SOFT, SOFT, "Sometimes"]),
        select(vec![ZONE, ZONE, HOSTNAME, "disk"]),
        1..4_i32,
        prop::option::of(1..5_i32),
        select(selects.to_vec()),
        any::<bool>(),
        select(policies.clone()),
        select(policies),
    )
        .prop_map(
            |(when, key, skew, min_domains, selects, by_hash, affinity, taints)| DrawnConstraint {
                when,
                key,
                skew,
                min_domains,
                selects,
                by_hash,
                affinity,
                taints,
            },
        )
}

fn asking() -> impl Strategy<Value = Asking> {
    (
        select(vec!["", "a", "b"]),
        select(vec!["", "1", "2"]),
        select(vec![None, None, Some("ssd"), Some("hdd")]),
        prop::bool::weighted(0.1),
        any::<bool>(),
        prop::collection::vec(drawn_constraint(), 0..4),
    )
        .prop_map(|(app, hash, disk, host, tolerates, constraints)| Asking {
            app,
            hash,
            disk,
            host,
            tolerates,
            constraints,
        })
}

impl DrawnNode {
    fn build(&self, at: usize) -> NodeBuilder {
        let name = format!("n{at}");
        let mut built = node(&name);
        if self.has_host {
            built = built.label(HOSTNAME, &name);
        }
        if let Some(zone) = self.zone {
            built = built.label(ZONE, zone);
        }
        if !self.disk.is_empty() {
            built = built.label("disk", self.disk);
        }
        if self.taint.is_empty() {
            built
        } else {
            built.taint("t", "", self.taint)
        }
    }

    fn value(&self, at: usize, key: &str) -> Option<String> {
        match key {
            ZONE => self.zone.map(str::to_owned),
            HOSTNAME => self.has_host.then(|| format!("n{at}")),
            _ => (!self.disk.is_empty()).then(|| self.disk.to_owned()),
        }
    }
}

fn labelled(pod: PodBuilder, app: &str, hash: &str) -> PodBuilder {
    let pairs = [("app", app), ("hash", hash)].into_iter();
    let pairs = pairs.filter(|(_, value)| !value.is_empty());
    pairs.fold(pod, |pod, (key, value)| pod.label(key, value))
}

impl DrawnPod {
    fn build(&self, name: &str) -> PodBuilder {
        let built = labelled(pod(name), self.app, self.hash);
        let built = if self.deleting {
            built.deleting()
        } else {
            built
        };
        if self.elsewhere {
            built.edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()))
        } else {
            built
        }
    }
}

impl DrawnConstraint {
    fn build(&self) -> TopologySpreadConstraint {
        let expression = |key: &str, operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        };
        let of = |expression| LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![expression]),
        };
        TopologySpreadConstraint {
            max_skew: self.skew,
            topology_key: self.key.to_owned(),
            when_unsatisfiable: self.when.to_owned(),
            min_domains: self.min_domains,
            node_affinity_policy: self.affinity.map(str::to_owned),
            node_taints_policy: self.taints.map(str::to_owned),
            match_label_keys: self.by_hash.then(|| vec!["hash".to_owned()]),
            label_selector: match self.selects {
                Selects::Absent => None,
                Selects::Empty => Some(LabelSelector::default()),
                Selects::App => Some(of(expression("app", "In", &["a"]))),
                Selects::AnyApp => Some(of(expression("app", "Exists", &[]))),
                Selects::OtherHash => Some(of(expression("hash", "NotIn", &["1"]))),
            },
        }
    }

    fn selects(&self, asking: &Asking, app: &str, hash: &str) -> bool {
        let by_selector = match self.selects {
            Selects::Absent => return false,
            Selects::Empty => true,
            Selects::App => app == "a",
            Selects::AnyApp => !app.is_empty(),
            Selects::OtherHash => hash != "1",
        };
        let own_hash = self.by_hash && !asking.hash.is_empty();
        by_selector && (!own_hash || hash == asking.hash)
    }

    /// How many pods of a node count.
    fn count(&self, asking: &Asking, pods: &[DrawnPod], node: usize) -> i64 {
        let selects_by_hash = self.by_hash && !asking.hash.is_empty();
        if self.selects == Selects::Empty && !selects_by_hash {
            return 0;
        }
        let counted = |pod: &&DrawnPod| {
            pod.node == node
                && !pod.deleting
                && !pod.elsewhere
                && self.selects(asking, pod.app, pod.hash)
        };
        pods.iter().filter(counted).count() as i64
    }

    /// Whether a node counts.
    fn includes(&self, asking: &Asking, node: &DrawnNode, at: usize) -> bool {
        let allowed = asking.disk.is_none_or(|disk| node.disk == disk)
            && (!asking.host || node.has_host && at == 0);
        let tolerated = asking.tolerates || node.taint != "NoSchedule";
        (self.affinity == Some("Ignore") || allowed) && (self.taints != Some("Honor") || tolerated)
    }
}

impl Asking {
    fn build(&self) -> PodBuilder {
        let mut built = labelled(pod("asking"), self.app, self.hash);
        if let Some(disk) = self.disk {
            built = built.node_selector("disk", disk);
        }
        if self.host {
            built = built.node_selector(HOSTNAME, "n0");
        }
        if self.tolerates {
            built = built.tolerate("t", "Exists", "", "");
        }
        spread(
            built,
            self.constraints
                .iter()
                .map(DrawnConstraint::build)
                .collect(),
        )
    }

    /// Its constraints of one kind, the system's if it has none at all.
    fn of(&self, when: &str, served: bool) -> Vec<DrawnConstraint> {
        let own = self.constraints.iter().filter(|it| it.when == when);
        let mut all: Vec<_> = own.cloned().collect();
        if self.constraints.is_empty() && when == SOFT && served && self.app == "a" {
            all.extend(
                [(HOSTNAME, 3), (ZONE, 5)].map(|(key, skew)| DrawnConstraint {
                    when: SOFT,
                    key,
                    skew,
                    min_domains: None,
                    selects: Selects::App,
                    by_hash: false,
                    affinity: None,
                    taints: None,
                }),
            );
        }
        all
    }
}

/// What becomes of the sums when pods come to nodes and leave them.
type Changes<'a> = &'a [(DrawnPod, i64)];

fn filtered(
    asking: &Asking,
    nodes: &[DrawnNode],
    pods: &[DrawnPod],
    changes: Changes<'_>,
) -> Option<Vec<Option<Said>>> {
    let hard = asking.of(HARD, false);
    if hard.is_empty() {
        return None;
    }
    let has_all = |at: usize| hard.iter().all(|it| nodes[at].value(at, it.key).is_some());
    let sums: Vec<BTreeMap<String, i64>> = hard
        .iter()
        .map(|it| {
            let mut sums = BTreeMap::new();
            for (at, node) in nodes.iter().enumerate() {
                if has_all(at) && it.includes(asking, node, at) {
                    let value = node.value(at, it.key).unwrap();
                    let sum = sums.entry(value).or_insert(0);
                    *sum += it.count(asking, pods, at);
                    for (pod, by) in changes.iter().filter(|(pod, _)| pod.node == at) {
                        if !pod.elsewhere && it.selects(asking, pod.app, pod.hash) {
                            *sum += by;
                        }
                    }
                }
            }
            sums
        })
        .collect();
    let judge = |at: usize| {
        for (it, sums) in hard.iter().zip(&sums) {
            let Some(value) = nodes[at].value(at, it.key) else {
                let code = Code::UnschedulableAndUnresolvable;
                return Some((code, NO_LABEL.to_owned()));
            };
            let enough = sums.len() >= it.min_domains.unwrap_or(1) as usize;
            let lowest = sums.values().copied().min().filter(|_| enough);
            let itself = i64::from(it.selects(asking, asking.app, asking.hash));
            let there = sums.get(&value).copied().unwrap_or(0);
            if there + itself - lowest.unwrap_or(0) > i64::from(it.skew) {
                return Some((Code::Unschedulable, SKEWED.to_owned()));
            }
        }
        None
    };
    Some((0..nodes.len()).map(judge).collect())
}

fn scored(
    asking: &Asking,
    nodes: &[DrawnNode],
    pods: &[DrawnPod],
    feasible: &[usize],
    served: bool,
) -> Option<(Vec<i64>, Vec<i64>)> {
    let soft = asking.of(SOFT, served);
    if soft.is_empty() {
        return None;
    }
    let by_system = asking.constraints.is_empty();
    let has_all = |at: usize| soft.iter().all(|it| nodes[at].value(at, it.key).is_some());
    let is_ranked = |at: usize| by_system || has_all(at);
    let value = |at: usize, key: &str| nodes[at].value(at, key).unwrap_or_default();
    let raw_of = |at: usize| {
        let mut raw = 0.0;
        for it in &soft {
            let Some(own) = nodes[at].value(at, it.key) else {
                continue;
            };
            let ranked = feasible.iter().filter(|at| is_ranked(**at));
            let (places, pods) = if it.key == HOSTNAME {
                (ranked.count(), it.count(asking, pods, at))
            } else {
                let places: std::collections::BTreeSet<_> =
                    ranked.map(|at| value(*at, it.key)).collect();
                let there = (0..nodes.len()).filter(|other| {
                    is_ranked(*other)
                        && value(*other, it.key) == own
                        && it.includes(asking, &nodes[*other], *other)
                });
                let pods = there.map(|other| it.count(asking, pods, other)).sum();
                (places.len(), pods)
            };
            raw += pods as f64 * ((places + 2) as f64).ln() + f64::from(it.skew - 1);
        }
        raw.round() as i64
    };
    let ranked = |at: &usize| is_ranked(*at);
    let raw: Vec<_> = feasible
        .iter()
        .map(|at| if is_ranked(*at) { raw_of(*at) } else { 0 })
        .collect();
    let of_ranked = feasible.iter().zip(&raw).filter(|(at, _)| ranked(at));
    let of_ranked: Vec<_> = of_ranked.map(|(_, raw)| *raw).collect();
    let max = of_ranked.iter().copied().max().unwrap_or(0);
    let min = of_ranked.iter().copied().min().unwrap_or(0);
    let scores = feasible.iter().zip(&raw).map(|(at, raw)| match max {
        _ if !is_ranked(*at) => 0,
        0 => 100,
        max => 100 * (max + min - raw) / max,
    });
    let scores = scores.collect();
    Some((raw, scores))
}

proptest! {
    #[test]
    fn a_pass_over_all_pods_says_the_same(
        nodes in prop::collection::vec(drawn_node(), 1..7),
        pods in prop::collection::vec(drawn_pod(), 0..24),
        asking in asking(),
        served in any::<bool>(),
        left_out in prop::collection::vec(prop::bool::weighted(0.2), 6),
        changes in prop::collection::vec((drawn_pod(), any::<bool>()), 0..5),
    ) {
        let plugin = PodTopologySpread::default();
        let pods: Vec<_> = pods.into_iter().filter(|pod| pod.node < nodes.len()).collect();
        let mut cluster = Cluster::default();
        for (at, node) in nodes.iter().enumerate() {
            cluster.table.set_node(node.build(at).object());
        }
        let built = asking.build().info();
        // What is counted first is kept up to date then.
        let half = pods.len() / 2;
        for (number, pod) in pods.iter().enumerate() {
            if number == half {
                cluster.filtered(&plugin, &built);
            }
            cluster.run(&format!("n{}", pod.node), |name| pod.build(name));
        }
        if served {
            let selector = [("app".to_owned(), "a".to_owned())];
            let service = Service {
                metadata: ObjectMeta {
                    name: Some("s".to_owned()),
                    namespace: Some("default".to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(ServiceSpec {
                    selector: Some(selector.into()),
                    ..ServiceSpec::default()
                }),
                status: None,
            };
            cluster.objects().apply(Object::Service(Arc::new(service))).unwrap();
        }

        let expected = filtered(&asking, &nodes, &pods, &[]);
        prop_assert_eq!(cluster.filtered(&plugin, &built), expected.clone());
        let feasible: Vec<_> = (0..nodes.len()).filter(|at| !left_out[*at]).collect();
        let ids = cluster.ids();
        let feasible_ids: Vec<_> = feasible.iter().map(|at| ids[*at]).collect();
        prop_assert_eq!(
            cluster.scored(&plugin, &built, &feasible_ids),
            scored(&asking, &nodes, &pods, &feasible, served)
        );

        let mut state = CycleState::new();
        let found = cluster.ask(|cx| plugin.pre_filter(cx, &mut state, &built)).unwrap();
        if found == PreFiltered::Skip {
            return Ok(());
        }
        let mut what_if = state.clone();
        let mut so_far = Vec::new();
        for (other, comes) in changes.into_iter().filter(|(pod, _)| pod.node < nodes.len()) {
            let info = other.build("other").info();
            let node = cluster.table.get(ids[other.node]).unwrap();
            let changed = if comes {
                plugin.add_pod(&mut what_if, &built, &info, node)
            } else {
                plugin.remove_pod(&mut what_if, &built, &info, node)
            };
            prop_assert!(changed.is_ok());
            so_far.push((other, if comes { 1 } else { -1 }));
            prop_assert_eq!(
                Some(said(&cluster.table, &plugin, &what_if, &built)),
                filtered(&asking, &nodes, &pods, &so_far)
            );
        }
        prop_assert_eq!(Some(said(&cluster.table, &plugin, &state, &built)), expected);
    }
}
