//! What pods may ask for and no plugin here knows yet. A pod that needs it is refused by its name; without that it was
//! bound as if it had asked for nothing.
//!
//! Each line of the table goes when a plugin for it comes. What is only preferred refuses nobody.

use k8s_openapi::api::core::v1::{PodSpec, Volume};

use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, Plugin, PreFilter, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};

/// Name of the plugin.
pub const UNKNOWN_CONSTRAINTS: PluginName = "UnknownConstraints";

/// What a pod may need, by name, and how one sees that it does.
type Need = (&'static str, fn(&PodInfo) -> bool);

/// What no plugin knows.
const UNKNOWN: [Need; 5] = [
    ("persistent volumes", |pod| {
        has_volume(pod, |volume| volume.persistent_volume_claim.is_some())
    }),
    ("generic ephemeral volumes", |pod| {
        has_volume(pod, |volume| volume.ephemeral.is_some())
    }),
    ("in-tree disks", |pod| has_volume(pod, is_disk)),
    ("resource claims", |pod| {
        spec(pod).is_some_and(|spec| !is_empty(spec.resource_claims.as_deref()))
    }),
    ("pod groups", |pod| {
        spec(pod).is_some_and(|spec| spec.scheduling_group.is_some())
    }),
];

fn spec(pod: &PodInfo) -> Option<&PodSpec> {
    pod.pod()?.spec.as_ref()
}

fn is_empty<T>(list: Option<&[T]>) -> bool {
    list.is_none_or(<[T]>::is_empty)
}

fn has_volume(pod: &PodInfo, test: fn(&Volume) -> bool) -> bool {
    let volumes = spec(pod).and_then(|spec| spec.volumes.as_ref());
    volumes.into_iter().flatten().any(test)
}

/// Disks that a node takes a limited number of, or one pod at a time: those that kube-scheduler's `NodeVolumeLimits`
/// and `VolumeRestrictions` look at.
fn is_disk(volume: &Volume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.azure_file.is_some()
        || volume.cinder.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.iscsi.is_some()
        || volume.portworx_volume.is_some()
        || volume.rbd.is_some()
        || volume.vsphere_volume.is_some()
}

/// What the pod itself needs and nobody knows.
fn unknown_needs(pod: &PodInfo) -> Vec<&'static str> {
    let needs = UNKNOWN.iter().filter(|(_, needs)| needs(pod));
    needs.map(|(name, _)| *name).collect()
}

/// Refuses pods that need what no plugin knows. It belongs into every profile of the
/// [stock plugins](super::stock_profile), as a [mandatory](crate::ProfileBuilder::refusing_unknown_constraints) one, so
/// that no configuration can switch it off.
#[derive(Clone, Copy, Debug)]
pub struct UnknownConstraints {
    scheduler: &'static str,
}

impl UnknownConstraints {
    /// Refuses in the name of `scheduler`, as in "this scheduler", which is told to the pod's author.
    pub const fn new(scheduler: &'static str) -> Self {
        Self { scheduler }
    }

    /// Nothing that happens on a node helps.
    fn refused(self, needs: &str) -> Status {
        let scheduler = self.scheduler;
        Status::unresolvable(format!("needs {needs}, which {scheduler} doesn't know yet"))
    }
}

impl Plugin for UnknownConstraints {
    fn name(&self) -> PluginName {
        UNKNOWN_CONSTRAINTS
    }
}

impl EnqueueExtensions for UnknownConstraints {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(EventResource::TargetPod, Actions::ALL)]
    }

    /// What a pod itself needs changes with its own spec alone. Not by class: parts of the specification count that
    /// aren't among what equal pods have in common.
    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        let before = match &event.object {
            EventObject::Pod { old, .. } => old.as_ref(),
            _ => None,
        };
        let needed = before.is_none_or(|before| !unknown_needs(before).is_empty());
        Hint::queue_if(needed && unknown_needs(pod).is_empty())
    }
}

impl PreFilter for UnknownConstraints {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        match unknown_needs(pod).split_last() {
            None => Ok(PreFiltered::Skip),
            Some((last, [])) => Err(self.refused(last)),
            Some((last, first)) => Err(self.refused(&format!("{} and {last}", first.join(", ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::PodResourceClaim;

    use super::{UNKNOWN, UNKNOWN_CONSTRAINTS};
    use crate::moment::Moment;
    use crate::plugins::stock_profile;
    use crate::scheduler::{Attempt, Scheduler, SchedulerConfig};
    use crate::test_objects::{NeverBinds, node, pod};
    use crate::tie::FirstOfEquals;

    /// What users read.
    const PROMISES: &str = include_str!("../../../../docs/promises.md");

    #[test]
    fn the_table_of_the_docs_is_this_one() {
        let told = PROMISES.lines().filter_map(|line| {
            let (_, refusal) = line.split_once("| refused: `")?;
            refusal.split_once('`').map(|(name, _)| name)
        });
        let told: Vec<&str> = told.collect();
        assert_eq!(told, UNKNOWN.map(|(name, _)| name));
    }

    // The whole table is gone through by the tests of `pilotage-candidate` (`refusal`), as the source is told of it.
    #[test]
    fn a_scheduler_refuses_in_its_own_name() {
        let profile = stock_profile("test", Arc::new(NeverBinds))
            .evicting_nobody()
            .refusing_unknown_constraints("this harbour");
        let mut scheduler =
            Scheduler::new([profile.build().unwrap()], SchedulerConfig::default()).unwrap();
        let now = Moment::ZERO;
        scheduler.node_applied(&node("n").build(), now).unwrap();
        let claims = pod("a").edit(|pod| {
            let claim = PodResourceClaim {
                name: "gpu".into(),
                ..PodResourceClaim::default()
            };
            pod.spec.get_or_insert_default().resource_claims = Some(vec![claim]);
        });
        scheduler.pod_applied(claims.object(), now).unwrap();
        let failure = match scheduler.schedule_next(now, &mut FirstOfEquals) {
            Some(Attempt::Failed(failure)) => failure,
            other => panic!("not refused: {other:?}"),
        };
        assert_eq!(
            failure.cause.to_string(),
            "0/1 nodes are available: needs resource claims, which this harbour doesn't know yet."
        );
        let by = &failure.cause.diagnosis().unwrap().rejected_by;
        assert!(by.contains(UNKNOWN_CONSTRAINTS), "{by:?}");
    }
}
