//! Keeps pods with scheduling gates from being tried.

use crate::event::{Actions, Event, EventKind, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, Plugin, PreEnqueue};
use crate::pod_info::PodInfo;
use crate::status::{PluginName, Status, Verdict};

/// Gates pods whose `spec.schedulingGates` isn't empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> PluginName {
        "SchedulingGates"
    }
}

impl EnqueueExtensions for SchedulingGates {
    fn events(&self) -> Vec<EventKind> {
        let freed = Actions::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
        vec![EventKind::new(EventResource::TargetPod, freed)]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        Hint::queue_if(event.is_about(&pod.uid))
    }
}

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict {
        if pod.scheduling_gates.is_empty() {
            return Ok(());
        }
        let gates = pod.scheduling_gates.join(" ");
        Err(Status::unresolvable(format!(
            "waiting for scheduling gates: [{gates}]"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::SchedulingGates;
    use crate::plugin::PreEnqueue;
    use crate::test_objects::pod;

    #[test]
    fn gates_hold() {
        assert!(SchedulingGates.pre_enqueue(&pod("a").info()).is_ok());
        let held = SchedulingGates.pre_enqueue(&pod("a").gate("quota").gate("tide").info());
        assert_eq!(
            held.unwrap_err().to_string(),
            "waiting for scheduling gates: [quota tide]"
        );
    }
}
