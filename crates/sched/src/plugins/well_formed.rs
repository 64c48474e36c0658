//! Keeps pods and nodes with malformed fields apart: everybody else trusts what was parsed. In every profile,
//! always first.

use crate::context::Context;
use crate::event::{Actions, EventKind, EventResource};
use crate::plugin::{EnqueueExtensions, Filter, HintReads, Plugin, PreFilter, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::table::{NodeView, Reads};

/// Name of the plugin.
pub const WELL_FORMED: PluginName = "WellFormed";

/// Rejects malformed pods, and malformed nodes. [`crate::ProfileBuilder`] adds it to every profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct WellFormed;

impl Plugin for WellFormed {
    fn name(&self) -> PluginName {
        WELL_FORMED
    }
}

impl EnqueueExtensions for WellFormed {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(EventResource::TargetPod, Actions::ALL),
            EventKind::new(EventResource::Node, Actions::ALL),
        ]
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl PreFilter for WellFormed {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        match pod.defects().first() {
            Some(defect) => Err(Status::unresolvable(format!("pod is malformed: {defect}"))),
            None => Ok(PreFiltered::AllNodes),
        }
    }
}

impl Filter for WellFormed {
    fn filter(&self, _state: &CycleState, _pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        match node.node().defects().first() {
            Some(defect) => Err(Status::unresolvable(format!(
                "node(s) were malformed: {defect}"
            ))),
            None => Ok(()),
        }
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT
    }
}
