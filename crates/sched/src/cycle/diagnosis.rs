//! Owns the report of a cycle that found no node: which plugin rejected which node and why, and the text that
//! users and their tools read, byte for byte as kube-scheduler writes it. Knows nothing of how nodes are searched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::names::NodeName;
use crate::refusals::{RejectionId, Rejections};
use crate::status::{PluginError, PluginName, Rejection, RejectionKind};
use crate::table::{NodeId, NodeTable, NodeView};

/// Why nodes were rejected: each reason once, with how many nodes it concerns, and which ones if somebody asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatuses {
    total: usize,
    rejections: Rejections,
    // How many nodes have each rejection.
    counts: Vec<usize>,
    // Nodes rejected one by one, in search order.
    rejected: Vec<Rejected>,
    // What counts for all nodes that aren't counted: left out by PreFilter.
    others: Option<Rejection>,
    // Whose rejections the report doesn't tell, unless there are no others.
    left_out: Option<PluginName>,
}

/// One of them.
#[derive(Clone, Debug)]
struct Rejected {
    name: NodeName,
    why: RejectionId,
    // Its number in the cycle's table, if that is at hand.
    id: Option<NodeId>,
}

impl PartialEq for Rejected {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.why) == (&other.name, other.why)
    }
}

impl Eq for Rejected {}

impl NodeStatuses {
    /// For a table of `total` nodes.
    pub(crate) fn new(total: usize) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, node: NodeName, rejection: Rejection) {
        let why = self.count(rejection, 1);
        self.rejected.push(Rejected {
            name: node,
            why,
            id: None,
        });
    }

    /// So many nodes were rejected for this.
    pub(crate) fn count(&mut self, rejection: Rejection, nodes: usize) -> RejectionId {
        let id = self.rejections.id(rejection);
        if self.counts.len() < self.rejections.len() {
            self.counts.push(0);
        }
        self.counts[id.index()] = self.counts[id.index()].saturating_add(nodes);
        id
    }

    /// This node is one of those that were counted.
    pub(crate) fn name(&mut self, node: NodeView<'_>, rejection: RejectionId) {
        self.rejected.push(Rejected {
            name: node.name().clone(),
            why: rejection,
            id: Some(node.id()),
        });
    }

    /// The report is silent of nodes that this plugin rejected, as if they weren't there, unless it rejected all.
    pub(crate) const fn leave_out(&mut self, plugin: Option<PluginName>) {
        self.left_out = plugin;
    }

    /// Whether the report tells of this rejection.
    fn tells_of(&self, rejection: &Rejection) -> bool {
        self.left_out.is_none() || rejection.plugin() != self.left_out
    }

    /// How many nodes it doesn't tell of.
    fn untold(&self) -> usize {
        let untold = self
            .counts()
            .filter(|(rejection, _)| !self.tells_of(rejection));
        let untold = untold.fold(0, |all: usize, (_, nodes)| all.saturating_add(nodes));
        if untold < self.total { untold } else { 0 }
    }

    pub(crate) fn set_others(&mut self, rejection: Rejection) {
        self.others = Some(rejection);
    }

    /// Nodes rejected one by one, in search order. Empty if no `PostFilter` plugin could ask for them.
    pub fn rejected(&self) -> impl ExactSizeIterator<Item = (&NodeName, &Rejection)> {
        let rejected = self.rejected.iter();
        rejected.map(|it| (&it.name, self.rejections.get(it.why)))
    }

    /// The same by number, as far as they are nodes of this table, which must be the cycle's.
    pub(crate) fn rejected_in<'a>(
        &'a self,
        table: &'a NodeTable,
    ) -> impl Iterator<Item = (NodeId, &'a Rejection)> {
        self.rejected.iter().filter_map(|it| {
            let id = it.id.or_else(|| table.id(&it.name))?;
            Some((id, self.rejections.get(it.why)))
        })
    }

    /// Each rejection once, with how many nodes have it.
    pub fn counts(&self) -> impl Iterator<Item = (&Rejection, usize)> {
        let counts = self.counts.iter().copied();
        self.rejections.iter().zip(counts)
    }

    /// How many nodes were rejected one by one.
    pub fn counted(&self) -> usize {
        let counts = self.counts.iter();
        counts.fold(0, |all, nodes| all.saturating_add(*nodes))
    }

    /// What counts for all other nodes; `None` if every node is counted.
    pub const fn others(&self) -> Option<&Rejection> {
        self.others.as_ref()
    }

    /// How many nodes there are in all.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Why this node was rejected. Walks the list: to look at all nodes, use the parts.
    pub fn get(&self, node: &NodeName) -> Option<&Rejection> {
        let listed = self.rejected().find(|(name, _)| *name == node);
        listed
            .map(|(_, rejection)| rejection)
            .or(self.others.as_ref())
    }

    /// How many nodes have each reason. A node with two reasons counts in both.
    fn histogram(&self) -> BTreeMap<&str, usize> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let tells_all = self.untold() == 0;
        let others = self.total.saturating_sub(self.counted());
        let others = self.others.as_ref().map(|rejection| (rejection, others));
        let told = self.counts().chain(others);
        for (rejection, nodes) in told.filter(|(it, _)| tells_all || self.tells_of(it)) {
            for reason in rejection.reasons().filter(|_| nodes > 0) {
                let all = counts.entry(reason.as_str()).or_default();
                *all = all.saturating_add(nodes);
            }
        }
        counts
    }
}

/// The report of a cycle that found no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Why each node was rejected.
    pub statuses: NodeStatuses,
    /// What `PreFilter` said, if it ended the search; then it stands for all nodes.
    pub pre_filter: Option<String>,
    /// Whether `PostFilter` was asked for help.
    pub post_filtered: bool,
    /// What `PostFilter` said.
    pub post_filter: Option<String>,
    /// Plugins whose events bring the pod back.
    pub rejected_by: BTreeSet<PluginName>,
    /// Plugins whose events bring the pod back without backoff.
    pub pending_by: BTreeSet<PluginName>,
    /// How many nodes Filter looked at.
    pub evaluated: usize,
}

impl Diagnosis {
    /// What the report says of nodes alone, without what `PostFilter` said.
    pub fn of_nodes(&self) -> impl fmt::Display + '_ {
        OfNodes(self)
    }

    /// For a table of `total` nodes.
    pub(crate) fn new(total: usize) -> Self {
        Self {
            statuses: NodeStatuses::new(total),
            ..Self::default()
        }
    }

    /// The report of one node that was chosen, and then rejected (Reserve, Permit, binding).
    pub(crate) fn of_chosen_node(node: NodeName, rejection: Rejection) -> Self {
        let mut diagnosis = Self::new(1);
        diagnosis.note(&rejection);
        diagnosis.statuses.push(node, rejection);
        diagnosis
    }

    /// Remembers who rejected.
    pub(crate) fn note(&mut self, rejection: &Rejection) {
        let Some(plugin) = rejection.plugin() else {
            return;
        };
        if rejection.kind() == RejectionKind::Pending {
            self.pending_by.insert(plugin);
        } else {
            self.rejected_by.insert(plugin);
        }
    }
}

/// A report without what `PostFilter` said.
struct OfNodes<'a>(&'a Diagnosis);

impl fmt::Display for OfNodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(diagnosis) = self;
        let statuses = &diagnosis.statuses;
        let nodes = statuses.total.saturating_sub(statuses.untold());
        write!(f, "0/{nodes} nodes are available:")?;
        if let Some(message) = &diagnosis.pre_filter {
            write!(f, " {message}.")?;
        } else {
            let mut lines = diagnosis
                .statuses
                .histogram()
                .into_iter()
                .map(|(reason, count)| format!("{count} {reason}"))
                .collect::<Vec<_>>();
            // As texts, not as numbers: users' tools compare these messages.
            lines.sort();
            if !lines.is_empty() {
                write!(f, " {}.", lines.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OfNodes(self).fmt(f)?;
        match &self.post_filter {
            Some(message) => write!(f, " {message}"),
            None => Ok(()),
        }
    }
}

/// Why a scheduling attempt failed.
#[derive(Clone, Debug)]
pub enum Cause {
    /// There is no node at all.
    NoNodes,
    /// No node will do, or the chosen one was rejected later.
    Unfit(Box<Diagnosis>),
    /// A plugin failed.
    Error(PluginError),
}

impl Cause {
    /// Whether plugins rejected the pod (*Unschedulable*), rather than something broke (*`SchedulerError`*).
    pub const fn is_rejection(&self) -> bool {
        !matches!(self, Self::Error(_))
    }

    /// The report, if there is one.
    pub fn diagnosis(&self) -> Option<&Diagnosis> {
        match self {
            Self::Unfit(diagnosis) => Some(diagnosis),
            _ => None,
        }
    }
}

impl From<PluginError> for Cause {
    fn from(error: PluginError) -> Self {
        Self::Error(error)
    }
}

/// The text of event and condition.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("no nodes available to schedule pods"),
            Self::Unfit(diagnosis) => fmt::Display::fmt(diagnosis, f),
            Self::Error(error) => fmt::Display::fmt(error, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Diagnosis;
    use crate::names::NodeName;
    use crate::status::{Rejection, RejectionKind};

    fn rejection(reason: &str) -> Rejection {
        Rejection::new(RejectionKind::Unschedulable, reason.to_owned()).by("Test")
    }

    fn diagnosis(total: usize, nodes: &[(usize, &[&str])]) -> Diagnosis {
        let mut diagnosis = Diagnosis::new(total);
        for (count, reasons) in nodes {
            for at in 0..*count {
                let first = rejection(reasons[0]);
                let all = reasons[1..]
                    .iter()
                    .fold(first, |r, reason| r.and((*reason).to_owned()));
                diagnosis
                    .statuses
                    .push(NodeName::from(format!("{}-{at}", reasons[0])), all);
            }
        }
        diagnosis
    }

    #[test]
    fn counts_are_sorted_as_texts() {
        let report = diagnosis(12, &[(2, &["Too many pods"]), (10, &["Insufficient cpu"])]);
        let text = "0/12 nodes are available: 10 Insufficient cpu, 2 Too many pods.";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn a_node_with_two_reasons_counts_twice() {
        let report = diagnosis(
            3,
            &[
                (1, &["Insufficient cpu", "Insufficient memory"]),
                (2, &["Insufficient cpu"]),
            ],
        );
        let text = "0/3 nodes are available: 1 Insufficient memory, 3 Insufficient cpu.";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn unlisted_nodes_get_the_common_reason() {
        let mut report = diagnosis(5, &[(2, &["Insufficient cpu"])]);
        report
            .statuses
            .set_others(rejection("node(s) didn't satisfy plugin(s) [A B]"));
        let text = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [A B].";
        assert_eq!(report.to_string(), text);
        assert_eq!(
            report.statuses.get(&NodeName::from("x")),
            report.statuses.others()
        );
    }

    #[test]
    fn nodes_out_of_scope_are_not_told_of_unless_there_are_no_others() {
        let mut report = diagnosis(3, &[(1, &["a refused [full]"])]);
        report.statuses.leave_out(Some("Scope"));
        let stray = Rejection::new(RejectionKind::Unschedulable, "stray".to_owned()).by("Scope");
        report.statuses.count(stray.clone(), 2);
        let text = "0/1 nodes are available: 1 a refused [full].";
        assert_eq!(report.to_string(), text);
        assert_eq!(report.statuses.total(), 3);

        let mut none = diagnosis(2, &[]);
        none.statuses.leave_out(Some("Scope"));
        none.statuses.count(stray, 2);
        assert_eq!(none.to_string(), "0/2 nodes are available: 2 stray.");
    }

    #[test]
    fn pre_filter_stands_for_all_and_post_filter_comes_last() {
        let mut report = diagnosis(5, &[]);
        report.pre_filter = Some("node(s) didn't satisfy plugin A".into());
        report.post_filter = Some(
            "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
                .into(),
        );
        let text = "0/5 nodes are available: node(s) didn't satisfy plugin A. preemption: 0/5 nodes are available: 5 \
            Preemption is not helpful for scheduling.";
        assert_eq!(report.to_string(), text);
        let nodes = report.of_nodes().to_string();
        assert_eq!(
            nodes,
            "0/5 nodes are available: node(s) didn't satisfy plugin A."
        );
    }
}
