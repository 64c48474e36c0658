//! Owns preemption as simply as it can be said: for each question the whole cluster is made anew, and asked from
//! `PreFilter` on. Nothing is skipped, kept or undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Cycle;
use crate::cycle::recheck;
use crate::names::NodeName;
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::start_time::StartTime;
use crate::state::CycleState;
use crate::status::{Status, Verdict};
use crate::table::NodeTable;
use crate::test_objects::Quiet;

/// A budget for pods with a label `app` of this value.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) app: String,
    pub(super) allowed: i32,
}

/// A cluster, and a pod that looks for a node.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Arc<NodeObject>>,
    pub(super) pods: Vec<Arc<PodInfo>>,
    pub(super) expected: Vec<(Arc<PodInfo>, NodeName)>,
    pub(super) budgets: Vec<Budget>,
    pub(super) preemptor: Arc<PodInfo>,
}

/// Where, whom, and how many budgets that breaks; or what is said of nodes.
pub(super) type Answer = Result<(NodeName, Vec<String>, usize), String>;

/// A criterion: the most is best.
type Worth = fn(&(&NodeName, Vec<&Arc<PodInfo>>, usize)) -> i128;

impl Cluster {
    pub(super) fn table<'a>(&'a self, pods: impl Iterator<Item = &'a Arc<PodInfo>>) -> NodeTable {
        let mut table = NodeTable::default();
        for node in &self.nodes {
            table.set_node(node.clone());
        }
        for pod in pods {
            let node = pod.node_name.as_ref().unwrap();
            table.add_pod(table.id(node).unwrap(), pod.clone());
        }
        table
    }

    pub(super) fn quiet(&self) -> Quiet {
        let mut quiet = Quiet::default();
        for (pod, node) in &self.expected {
            quiet.nominator.nominate(pod.clone(), node.clone());
        }
        quiet
    }

    /// Whether the preemptor would do on a node without some pods.
    pub(super) fn fits_without(
        &self,
        profile: &Profile,
        node: &NodeName,
        gone: &[&Arc<PodInfo>],
    ) -> Verdict {
        let is_gone = |pod: &Arc<PodInfo>| gone.iter().any(|other| other.uid == pod.uid);
        let mut table = self.table(self.pods.iter().filter(|pod| !is_gone(pod)));
        let quiet = self.quiet();
        let mut cycle = Cycle::new(profile, &mut table, quiet.around());
        recheck(&mut cycle, &mut CycleState::new(), &self.preemptor, node)
    }

    fn breaks<'a>(
        &self,
        pods: &[&'a Arc<PodInfo>],
    ) -> (Vec<&'a Arc<PodInfo>>, Vec<&'a Arc<PodInfo>>) {
        let app = |pod: &PodInfo| pod.labels().get("app").cloned();
        let (mut breaking, mut others) = (Vec::new(), Vec::new());
        for (at, pod) in pods.iter().enumerate() {
            let breaks = self.budgets.iter().any(|budget| {
                let counts = |pod: &PodInfo| app(pod).as_ref() == Some(&budget.app);
                let before = pods[..=at].iter().filter(|pod| counts(pod)).count();
                counts(pod) && i64::try_from(before).unwrap() > i64::from(budget.allowed)
            });
            if breaks { &mut breaking } else { &mut others }.push(*pod);
        }
        (breaking, others)
    }

    fn by_importance<'a>(&'a self, mut pods: Vec<&'a Arc<PodInfo>>) -> Vec<&'a Arc<PodInfo>> {
        // Those that haven't started are told the other way round.
        let (mut started, mut not): (Vec<_>, Vec<_>) = pods
            .drain(..)
            .partition(|pod| pod.started != StartTime::NONE);
        let place = |pod: &Arc<PodInfo>| self.pods.iter().position(|other| other.uid == pod.uid);
        started.sort_by_key(|pod| (pod.started, place(pod)));
        not.sort_by_key(|pod| std::cmp::Reverse(place(pod)));
        started.append(&mut not);
        started.sort_by_key(|pod| std::cmp::Reverse(pod.priority));
        started
    }

    /// Victims on one node, and how many break a budget.
    fn victims(
        &self,
        profile: &Profile,
        node: &NodeName,
    ) -> Result<(Vec<&Arc<PodInfo>>, usize), Status> {
        let here = self
            .pods
            .iter()
            .filter(|pod| pod.node_name.as_ref() == Some(node));
        let lower: Vec<_> = here
            .filter(|pod| pod.priority < self.preemptor.priority)
            .collect();
        if lower.is_empty() {
            return Err(Status::unresolvable(
                "No preemption victims found for incoming pod",
            ));
        }
        self.fits_without(profile, node, &lower)?;
        let lower = self.by_importance(lower);
        let (breaking, others) = self.breaks(&lower);
        let mut gone = lower.clone();
        let mut violations = 0;
        for (pods, counts) in [(&breaking, true), (&others, false)] {
            for pod in pods {
                let without: Vec<_> = gone
                    .iter()
                    .copied()
                    .filter(|it| it.uid != pod.uid)
                    .collect();
                if self.fits_without(profile, node, &without).is_ok() {
                    gone = without;
                } else {
                    violations += usize::from(counts);
                }
            }
        }
        Ok((self.by_importance(gone), violations))
    }

    /// The answer, where `nodes` are those that may do, in the order in which they are tried.
    pub(super) fn answer(&self, profile: &Profile, nodes: &[NodeName], enough: usize) -> Answer {
        let (mut good, mut breaking) = (Vec::new(), Vec::new());
        let mut said: BTreeMap<String, usize> = BTreeMap::new();
        for node in nodes {
            match self.victims(profile, node) {
                Ok((victims, 0)) => good.push((node, victims, 0)),
                Ok((victims, violations)) => breaking.push((node, victims, violations)),
                Err(Status::Rejected(rejection)) => {
                    for reason in rejection.reasons() {
                        *said.entry(reason.to_string()).or_default() += 1;
                    }
                }
                Err(Status::Error(error)) => return Err(error.to_string()),
            }
            breaking.truncate(enough);
            if !good.is_empty() && good.len() + breaking.len() >= enough {
                break;
            }
        }
        good.append(&mut breaking);
        let mut left = good;
        if left.is_empty() {
            let rest = self.nodes.len() - nodes.len();
            if rest > 0 {
                said.insert("Preemption is not helpful for scheduling".to_owned(), rest);
            }
            let mut said: Vec<_> = said
                .iter()
                .map(|(why, count)| format!("{count} {why}"))
                .collect();
            said.sort();
            let nodes = self.nodes.len();
            return Err(format!(
                "0/{nodes} nodes are available: {}.",
                said.join(", ")
            ));
        }
        // Each criterion leaves the best.
        let criteria: [Worth; 5] = [
            |(_, _, violations)| -(*violations as i128),
            |(_, victims, _)| -i128::from(victims[0].priority),
            |(_, victims, _)| {
                let each = victims
                    .iter()
                    .map(|pod| i128::from(pod.priority) + (1 << 31));
                -each.sum::<i128>()
            },
            |(_, victims, _)| -(victims.len() as i128),
            |(_, victims, _)| {
                let dearest = victims
                    .iter()
                    .filter(|pod| pod.priority == victims[0].priority);
                let oldest = dearest.map(|pod| pod.started).min().unwrap();
                oldest.seconds().map_or(i128::MAX, i128::from)
            },
        ];
        for worth in criteria {
            let best = left.iter().map(worth).max().unwrap();
            left.retain(|candidate| worth(candidate) == best);
        }
        let (node, victims, violations) = left.swap_remove(0);
        let victims = victims.iter().map(|pod| pod.key.name.to_string()).collect();
        Ok((node.clone(), victims, violations))
    }
}
