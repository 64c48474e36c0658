//! What pods may ask for and no plugin of the candidate's scheduler knows yet. A pod that needs it is refused by its
//! name; without that it was bound as if it had asked for nothing.
//!
//! Each line of the table goes when a plugin for it comes. What is only preferred refuses nobody.

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use pilotage_sched::{
    Actions, Cause, Context, CycleState, EnqueueExtensions, Event, EventKind, EventObject,
    EventResource, Hint, Plugin, PluginName, PodInfo, PreFilter, PreFiltered, Status, Verdict,
};

use crate::refusal::Refusal;

/// Name of the plugin.
pub const UNKNOWN_CONSTRAINTS: PluginName = "UnknownConstraints";

/// What a pod may need, by name, and how one sees that it does.
type Need = (&'static str, fn(&PodInfo) -> bool);

/// What no plugin knows.
const UNKNOWN: [Need; 9] = [
    ("host ports", |pod| !pod.needs.host_ports.is_empty()),
    ("inter-pod affinity", |pod| {
        !pod.needs.pod_affinity.required.is_empty()
    }),
    ("inter-pod anti-affinity", |pod| {
        !pod.needs.pod_affinity.required_anti.is_empty()
    }),
    ("topology spreading", |pod| spec(pod).is_some_and(spreads)),
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

/// What a pod needs that doesn't ask for anything: somebody on a node wants to be alone there.
const OTHERS: &str = "the anti-affinity of other pods";

fn spec(pod: &PodInfo) -> Option<&PodSpec> {
    pod.pod().spec.as_ref()
}

fn is_empty<T>(list: Option<&[T]>) -> bool {
    list.is_none_or(<[T]>::is_empty)
}

fn spreads(spec: &PodSpec) -> bool {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    let mut hard = constraints.filter(|given| given.when_unsatisfiable != "ScheduleAnyway");
    hard.next().is_some()
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

/// Whether `other` may want no pod like this one beside it. Where it is, and how far that reaches, isn't looked at.
fn keeps_away(other: &PodInfo, pod: &PodInfo) -> bool {
    let terms = other.needs.pod_affinity.required_anti.iter();
    let mut against = terms.filter(|term| term.may_match(&pod.key.namespace, pod.labels()));
    against.next().is_some()
}

/// Refuses pods that need what no plugin knows. No configuration can switch it off.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownConstraints;

impl Plugin for UnknownConstraints {
    fn name(&self) -> PluginName {
        UNKNOWN_CONSTRAINTS
    }
}

impl EnqueueExtensions for UnknownConstraints {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(EventResource::TargetPod, Actions::ALL),
            EventKind::new(EventResource::AssignedPod, Actions::DELETE),
            // The pods on it don't count any more.
            EventKind::new(EventResource::Node, Actions::DELETE),
        ]
    }

    /// What a pod itself needs changes with its own spec alone.
    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        if !unknown_needs(pod).is_empty() {
            return Hint::Skip;
        }
        match &event.object {
            EventObject::Pod {
                old: Some(gone),
                new: None,
            } => Hint::queue_if(keeps_away(gone, pod)),
            EventObject::Pod {
                old: Some(before),
                new: Some(_),
            } => {
                let other_labels = before.labels() != pod.labels();
                Hint::queue_if(other_labels || !unknown_needs(before).is_empty())
            }
            _ => Hint::Queue,
        }
    }
}

impl PreFilter for UnknownConstraints {
    fn pre_filter(
        &self,
        cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        let mut needs = unknown_needs(pod);
        if needs.is_empty() {
            let nodes = cx.nodes().nodes_with_required_anti_affinity();
            let mut others = nodes.flat_map(|node| node.row().pods_with_required_anti_affinity());
            needs.extend(others.any(|other| keeps_away(other, pod)).then_some(OTHERS));
        }
        match needs.split_last() {
            None => Ok(PreFiltered::AllNodes),
            Some((last, [])) => Err(refused(last)),
            Some((last, first)) => Err(refused(&format!("{} and {last}", first.join(", ")))),
        }
    }
}

/// Nothing that happens on a node helps.
fn refused(needs: &str) -> Status {
    Status::unresolvable(format!(
        "needs {needs}, which this candidate scheduler doesn't know yet"
    ))
}

/// How the chaperon is told of an attempt that found no node for this reason.
pub fn refusal(cause: &Cause) -> Refusal {
    let ours = cause
        .diagnosis()
        .filter(|diagnosis| diagnosis.rejected_by.contains(UNKNOWN_CONSTRAINTS))
        .and_then(|diagnosis| diagnosis.pre_filter.clone());
    ours.map_or_else(
        || Refusal::Unschedulable(cause.to_string()),
        Refusal::Unknown,
    )
}

#[cfg(test)]
mod tests;
