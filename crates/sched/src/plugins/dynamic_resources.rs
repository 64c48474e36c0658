//! Says of a pod without resource claims that fits nowhere what kube-scheduler 1.36.3 says: that no claims could be
//! given back for it. Pods with claims are refused before (see `unknown_constraints`).

use crate::context::{Context, Cycle};
use crate::cycle::NodeStatuses;
use crate::event::EventKind;
use crate::plugin::{
    EnqueueExtensions, HintReads, Nomination, Plugin, PostFilter, PostFiltered, PreFilter,
    PreFiltered,
};
use crate::plugins::{UNKNOWN_CONSTRAINTS, WELL_FORMED};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Rejection, Status, Verdict};

/// Name of the plugin.
pub const DYNAMIC_RESOURCES: PluginName = "DynamicResources";

/// The part of dynamic resource allocation that concerns pods without claims.
#[derive(Clone, Copy, Debug, Default)]
pub struct DynamicResources;

/// Its `PreFilter` has run in this cycle.
struct Asked;

impl Plugin for DynamicResources {
    fn name(&self) -> PluginName {
        DYNAMIC_RESOURCES
    }
}

impl EnqueueExtensions for DynamicResources {
    /// It rejects nobody.
    fn events(&self) -> Vec<EventKind> {
        Vec::new()
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        state: &mut CycleState,
        _pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        state.insert(Asked);
        Ok(PreFiltered::Skip)
    }
}

impl PostFilter for DynamicResources {
    /// If a plugin before it ended `PreFilter`, kube-scheduler's misses its own state, which ends the search for help.
    fn post_filter(
        &self,
        _cycle: &mut Cycle<'_>,
        state: &mut CycleState,
        _pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFiltered {
        // These two kube-scheduler hasn't got.
        let ours = [WELL_FORMED, UNKNOWN_CONSTRAINTS];
        let ended_by = statuses.others().and_then(Rejection::plugin);
        let status =
            if state.get::<Asked>().is_some() || ended_by.is_some_and(|by| ours.contains(&by)) {
                Status::unschedulable("no new claims to deallocate")
            } else {
                Status::unresolvable("not found")
            };
        PostFiltered::no_help(Nomination::Keep, status)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::context::Cycle;
    use crate::cycle::{Search, SearchSize, choose};
    use crate::plugins::stock_profile;
    use crate::state::CycleState;
    use crate::table::NodeTable;
    use crate::test_objects::{NeverBinds, PodBuilder, Quiet, node, pod, requirement, term};
    use crate::tie::FirstOfEquals;

    fn said(pod: PodBuilder) -> String {
        let profile =
            stock_profile("test", Arc::new(NeverBinds)).refusing_unknown_constraints("us");
        let (profile, quiet) = (profile.build().unwrap(), Quiet::default());
        let mut table = NodeTable::default();
        table.set_node(node("n").object());
        let how = Search {
            size: SearchSize::All,
            start: &mut 0,
            ties: &mut FirstOfEquals,
            classes: &mut crate::classes::Classes::default(),
            is_offered: false,
            nominated_first: true,
            mishaps: &mut Vec::new(),
        };
        let mut cycle = Cycle::new(&profile, &mut table, quiet.around());
        let found = choose(&mut cycle, &mut CycleState::new(), &pod.info(), how);
        let cause = found.unwrap_err().cause;
        cause.diagnosis().unwrap().post_filter.clone().unwrap()
    }

    #[test]
    fn it_speaks_first_unless_its_pre_filter_was_left_out() {
        let unhelpful = "no new claims to deallocate, preemption: 0/1 nodes are available: \
                         1 Preemption is not helpful for scheduling.";
        assert_eq!(said(pod("a").request("cpu", "1")), unhelpful);
        let spreading = pod("a").edit(|pod| {
            let claim = serde_json::from_value(serde_json::json!({ "name": "gpu" })).unwrap();
            pod.spec.get_or_insert_default().resource_claims = Some(vec![claim]);
        });
        assert_eq!(said(spreading), unhelpful);
        // Nobody is both, which ends PreFilter.
        let field = |name| requirement("metadata.name", "In", &[name]);
        let nowhere = term(&[], &[field("n"), field("m")]);
        assert_eq!(said(pod("a").required_nodes(&[nowhere])), "not found");
    }
}
