//! Owns what plugins of a cycle may look at beside the pod: the snapshot, nominated and waiting pods, and the
//! profile's own Filter, for *what if* questions. Borrowed, read-only.

use std::sync::Arc;

use crate::guard::{caught, guarded};
use crate::names::PodUid;
use crate::node_info::NodeInfo;
use crate::nominator::Nominator;
use crate::plugin::PreFilter;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::snapshot::Snapshot;
use crate::state::CycleState;
use crate::status::{PluginError, Status, Verdict};
use crate::waiting::WaitingPods;

/// The surroundings of a scheduling cycle.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    profile: &'a Profile,
    snapshot: &'a Snapshot,
    nominator: &'a Nominator,
    waiting: &'a WaitingPods,
}

impl<'a> Context<'a> {
    /// The surroundings of one cycle.
    pub const fn new(
        profile: &'a Profile,
        snapshot: &'a Snapshot,
        nominator: &'a Nominator,
        waiting: &'a WaitingPods,
    ) -> Self {
        Self {
            profile,
            snapshot,
            nominator,
            waiting,
        }
    }

    /// The profile that runs.
    pub const fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// All nodes.
    pub const fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Pods expected on nodes.
    pub const fn nominator(&self) -> &'a Nominator {
        self.nominator
    }

    /// Pods held at Permit.
    pub const fn waiting(&self) -> &'a WaitingPods {
        self.waiting
    }

    /// Runs the profile's Filter plugins in order, up to the first failure.
    pub fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Verdict {
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

    /// As [`Context::filter`], counting the pods nominated to the node.
    ///
    /// If pods of at least this pod's priority are expected on the node, the pod must fit with them *and*
    /// without them: they may never come, and affinity may depend on them.
    pub fn filter_with_nominated(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Verdict {
        if !self.nominator.is_empty() {
            let mut expected = self
                .nominator
                .pods_on(node.name())
                .filter(|other| other.uid != pod.uid && other.priority >= pod.priority)
                .peekable();
            if expected.peek().is_some() {
                let mut state = state.clone();
                let mut node = node.clone();
                for other in expected {
                    self.add_pod(&mut state, pod, other, &mut node)?;
                }
                self.filter(&state, pod, &node)?;
            }
        }
        self.filter(state, pod, node)
    }

    /// *What if* `other` ran on `node`: changes both node and state.
    pub fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &Arc<PodInfo>,
        node: &mut NodeInfo,
    ) -> Verdict {
        node.add_pod(other.clone());
        self.each_extension(state, |plugin, state| {
            plugin
                .extensions()
                .map_or(Ok(()), |e| e.add_pod(state, pod, other, node))
        })
    }

    /// *What if* a pod left `node`: changes both node and state. Nothing happens if it isn't there.
    pub fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodUid,
        node: &mut NodeInfo,
    ) -> Verdict {
        let Some(other) = node.remove_pod(other) else {
            return Ok(());
        };
        self.each_extension(state, |plugin, state| {
            plugin
                .extensions()
                .map_or(Ok(()), |e| e.remove_pod(state, pod, &other, node))
        })
    }

    fn each_extension(
        &self,
        state: &mut CycleState,
        run: impl Fn(&dyn PreFilter, &mut CycleState) -> Verdict,
    ) -> Verdict {
        for (index, plugin) in self.profile.pre_filters().iter().enumerate() {
            if !state.skipped_pre_filters.contains(index) {
                guarded(plugin.name(), || run(&**plugin, state))
                    .map_err(|status| status.by(plugin.name()))?;
            }
        }
        Ok(())
    }
}
