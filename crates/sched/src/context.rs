//! Owns what a scheduling cycle works on beside the pod: the table of nodes, nominated and waiting pods, and the
//! profile's own Filter. Most plugins get a [`Context`] of it, read-only; who asks *what if* gets the [`Cycle`].

use std::fmt;
use std::sync::Arc;

use crate::guard::{caught, guarded};
use crate::names::PodUid;
use crate::nominator::Nominator;
use crate::objects::Objects;
use crate::plugin::PreFilter;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::status::{PluginError, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, WhatIfTable};
use crate::tie::TieBreaker;
use crate::waiting::WaitingPods;

/// What a cycle may look at beside the nodes.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Pods expected on nodes.
    pub nominator: &'a Nominator,
    /// Pods held at Permit.
    pub waiting: &'a WaitingPods,
    /// Objects beside pods and nodes, of the kinds that plugins [want](crate::Plugin::wants).
    pub objects: &'a Objects,
}

/// A scheduling cycle's nodes and [`Surroundings`], as plugins see them.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    profile: &'a Profile,
    nodes: &'a NodeTable,
    around: Surroundings<'a>,
}

impl<'a> Context<'a> {
    /// The surroundings of one cycle.
    pub const fn new(profile: &'a Profile, nodes: &'a NodeTable, around: Surroundings<'a>) -> Self {
        Self {
            profile,
            nodes,
            around,
        }
    }

    /// The profile that runs.
    pub const fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// All nodes.
    pub const fn nodes(&self) -> &'a NodeTable {
        self.nodes
    }

    /// Pods expected on nodes.
    pub const fn nominator(&self) -> &'a Nominator {
        self.around.nominator
    }

    /// Pods held at Permit.
    pub const fn waiting(&self) -> &'a WaitingPods {
        self.around.waiting
    }

    /// Objects beside pods and nodes, of the kinds that plugins [want](crate::Plugin::wants).
    pub const fn objects(&self) -> &'a Objects {
        self.around.objects
    }

    /// Runs the profile's Filter plugins in order, up to the first failure.
    pub fn filter(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        let mut running = None;
        // One guard for all plugins: this runs once a node.
        let filtered = caught(|| -> Verdict {
            for (index, plugin) in self.profile.filters().iter().enumerate() {
                if !state.skipped_filters.contains(index) {
                    running = Some(plugin);
                    plugin
                        .filter(state, pod, node)
                        .map_err(|status| status.by(plugin.name()))?;
                }
            }
            Ok(())
        });
        filtered.unwrap_or_else(|panic| {
            let error = PluginError::new(panic);
            Err(Status::Error(match running {
                Some(plugin) => error.by(plugin.name()),
                None => error,
            }))
        })
    }
}

/// The surroundings of a scheduling cycle, with the table of nodes for itself.
pub struct Cycle<'a> {
    profile: &'a Profile,
    nodes: &'a mut NodeTable,
    around: Surroundings<'a>,
    ties: Option<&'a mut dyn TieBreaker>,
}

impl fmt::Debug for Cycle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cycle")
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

impl<'a> Cycle<'a> {
    /// The surroundings of one cycle.
    pub(crate) const fn new(
        profile: &'a Profile,
        nodes: &'a mut NodeTable,
        around: Surroundings<'a>,
    ) -> Self {
        Self {
            profile,
            nodes,
            around,
            ties: None,
        }
    }

    /// The same cycle, with chance.
    pub(crate) fn with_ties<'b>(&'b mut self, ties: &'b mut dyn TieBreaker) -> Cycle<'b> {
        Cycle {
            profile: self.profile,
            nodes: self.nodes,
            around: self.around,
            ties: Some(ties),
        }
    }

    /// A number below `candidates` by chance, for what would be unfair otherwise. 0 where nothing depends on chance.
    pub fn pick(&mut self, candidates: usize) -> usize {
        match &mut self.ties {
            Some(ties) if candidates > 0 => ties.pick(candidates),
            _ => 0,
        }
    }

    /// What plugins may look at.
    pub const fn context(&self) -> Context<'_> {
        Context::new(self.profile, self.nodes, self.around)
    }

    /// The profile that runs.
    pub const fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Begins a *what if*; when it is dropped, the table is as it was. Use a copy of the cycle's state for it.
    pub const fn what_if(&mut self) -> WhatIf<'_> {
        WhatIf {
            profile: self.profile,
            nodes: WhatIfTable::new(self.nodes),
            around: self.around,
        }
    }

    /// As [`Context::filter`], counting the pods nominated to the node. A node that has gone is refused.
    ///
    /// If pods of at least this pod's priority are expected on the node, the pod must fit with them *and*
    /// without them: they may never come, and affinity may depend on them.
    pub fn filter_with_nominated(
        &mut self,
        state: &CycleState,
        pod: &PodInfo,
        node: NodeId,
    ) -> Verdict {
        let gone = || Status::unresolvable("node(s) had gone");
        let view = self.nodes.get(node).ok_or_else(gone)?;
        let expected = expected_on(self.around.nominator, pod, view);
        let expected = expected.cloned().collect::<Vec<_>>();
        self.filter_with(&expected, state, pod, node)
    }

    /// Whether the pod fits with all these on the node, and without them.
    fn filter_with(
        &mut self,
        expected: &[Arc<PodInfo>],
        state: &CycleState,
        pod: &PodInfo,
        node: NodeId,
    ) -> Verdict {
        let gone = || Status::unresolvable("node(s) had gone");
        if !expected.is_empty() {
            let mut state = state.clone();
            let mut what_if = self.what_if();
            for other in expected {
                what_if.add_pod(&mut state, pod, other, node)?;
            }
            what_if.filter(&state, pod, node)?;
        }
        let view = self.nodes.get(node).ok_or_else(gone)?;
        self.context().filter(state, pod, view)
    }
}

/// The pods nominated to a node that a pod must leave room for.
pub(crate) fn expected_on<'a>(
    nominator: &'a Nominator,
    pod: &'a PodInfo,
    node: NodeView<'a>,
) -> impl Iterator<Item = &'a Arc<PodInfo>> {
    let expected = nominator.pods_on(node.row().name());
    expected.filter(|other| {
        // Those that are still there would have to go for an offer: who is as important has the room before.
        let waits = other.priority == pod.priority && nominator.is_only_offered(&other.uid);
        other.uid != pod.uid && other.priority >= pod.priority && !waits
    })
}

/// The same for a pod that evicts. What others were merely offered is there only once they have leave; nobody is
/// evicted for them before.
pub(crate) fn expected_by_preemptor<'a>(
    nominator: &'a Nominator,
    pod: &'a PodInfo,
    node: NodeView<'a>,
) -> impl Iterator<Item = &'a Arc<PodInfo>> {
    let expected = expected_on(nominator, pod, node);
    expected.filter(|other| !nominator.is_only_offered(&other.uid))
}

/// A *what if*: pods come and go, in the table and in the state of the plugins, and nobody else is told.
#[derive(Debug)]
pub struct WhatIf<'a> {
    profile: &'a Profile,
    nodes: WhatIfTable<'a>,
    around: Surroundings<'a>,
}

impl WhatIf<'_> {
    /// What plugins may look at.
    pub const fn context(&self) -> Context<'_> {
        let nodes = self.nodes.table();
        Context::new(self.profile, nodes, self.around)
    }

    /// Runs the profile's Filter plugins on a node as it would be. A node that has gone is refused.
    pub fn filter(&self, state: &CycleState, pod: &PodInfo, node: NodeId) -> Verdict {
        match self.nodes.table().get(node) {
            Some(node) => self.context().filter(state, pod, node),
            None => Err(Status::unresolvable("node(s) had gone")),
        }
    }

    /// As [`Cycle::filter_with_nominated`], on a node as it would be, for a pod that evicts.
    pub fn filter_with_nominated(
        &mut self,
        state: &CycleState,
        pod: &PodInfo,
        node: NodeId,
    ) -> Verdict {
        let gone = || Status::unresolvable("node(s) had gone");
        let view = self.nodes.table().get(node).ok_or_else(gone)?;
        let expected = expected_by_preemptor(self.around.nominator, pod, view);
        let expected = expected.cloned().collect::<Vec<_>>();
        let nodes = self.nodes.table_mut();
        Cycle::new(self.profile, nodes, self.around).filter_with(&expected, state, pod, node)
    }

    /// `other` runs on the node.
    pub fn add_pod(
        &mut self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &Arc<PodInfo>,
        node: NodeId,
    ) -> Verdict {
        self.nodes.add_pod(node, other.clone());
        self.each_extension(state, node, |plugin, state, node| {
            let extensions = plugin.extensions();
            extensions.map_or(Ok(()), |e| e.add_pod(state, pod, other, node))
        })
    }

    /// A pod leaves the node. Nothing happens if it isn't there.
    pub fn remove_pod(
        &mut self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodUid,
        node: NodeId,
    ) -> Verdict {
        let Some(other) = self.nodes.remove_pod(node, other) else {
            return Ok(());
        };
        self.each_extension(state, node, |plugin, state, node| {
            let extensions = plugin.extensions();
            extensions.map_or(Ok(()), |e| e.remove_pod(state, pod, &other, node))
        })
    }

    fn each_extension(
        &self,
        state: &mut CycleState,
        node: NodeId,
        run: impl Fn(&dyn PreFilter, &mut CycleState, NodeView<'_>) -> Verdict,
    ) -> Verdict {
        let Some(node) = self.nodes.table().get(node) else {
            return Ok(());
        };
        for (index, plugin) in self.profile.pre_filters().iter().enumerate() {
            if !state.skipped_pre_filters.contains(index) {
                guarded(plugin.name(), || run(&**plugin, state, node))
                    .map_err(|status| status.by(plugin.name()))?;
            }
        }
        Ok(())
    }
}
