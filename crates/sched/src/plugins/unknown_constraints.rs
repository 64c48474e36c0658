//! What pods may ask for and no plugin here knows yet. A pod that needs it is refused by its name; without that it was
//! bound as if it had asked for nothing.
//!
//! Each line of the table goes when a plugin for it comes. What is only preferred refuses nobody.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, Volume};

use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::labels::Labels;
use crate::plugin::{EnqueueExtensions, Filter, Plugin, PreFilter, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::table::{NodeTable, NodeView};

/// Name of the plugin.
pub const UNKNOWN_CONSTRAINTS: PluginName = "UnknownConstraints";

/// What a pod may need, by name, and how one sees that it does.
type Need = (&'static str, fn(&PodInfo) -> bool);

/// What no plugin knows.
const UNKNOWN: [Need; 8] = [
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

/// Of a node in a closed place. The words are kube-scheduler's.
const CLOSED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

fn spec(pod: &PodInfo) -> Option<&PodSpec> {
    pod.pod()?.spec.as_ref()
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

/// The topology keys over which `other` may want no pod like this one beside it.
fn kept_away<'a>(other: &'a PodInfo, pod: &PodInfo) -> impl Iterator<Item = &'a String> {
    let terms = other.needs.pod_affinity.required_anti.iter();
    let against = terms.filter(|term| term.may_match(&pod.key.namespace, pod.labels()));
    against.map(|term| &term.topology_key)
}

fn keeps_away(other: &PodInfo, pod: &PodInfo) -> bool {
    kept_away(other, pod).next().is_some()
}

/// The places, each a node label and its values, where somebody may want no pod like this one.
struct Closed(BTreeMap<String, BTreeSet<String>>);

impl Closed {
    fn to(pod: &PodInfo, nodes: &NodeTable) -> Self {
        let mut closed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in nodes.nodes_with_required_anti_affinity() {
            let row = node.row();
            let others = row.pods_with_required_anti_affinity().iter();
            for key in others.flat_map(|other| kept_away(other, pod)) {
                if let Some(value) = row.labels().get(key) {
                    closed
                        .entry(key.clone())
                        .or_default()
                        .insert(value.to_owned());
                }
            }
        }
        Self(closed)
    }

    fn holds(&self, labels: &Labels) -> bool {
        let mut closed = self.0.iter();
        closed.any(|(key, values)| labels.get(key).is_some_and(|value| values.contains(value)))
    }
}

/// Refuses pods that need what no plugin knows, and nodes that another pod may want for itself. It belongs into every
/// profile of the [stock plugins](super::stock_profile), as a
/// [mandatory](crate::ProfileBuilder::refusing_unknown_constraints) one, so that no configuration can switch it off.
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
        vec![
            EventKind::new(EventResource::TargetPod, Actions::ALL),
            EventKind::new(EventResource::AssignedPod, Actions::DELETE),
            // The pods on one that goes don't count any more; others may be where nobody minds.
            EventKind::new(
                EventResource::Node,
                Actions::DELETE | Actions::ADD | Actions::UPDATE_NODE_LABEL,
            ),
        ]
    }

    /// What a pod itself needs changes with its own spec alone. Not by class: labels and namespace count, and parts of the
    /// specification that aren't among what equal pods have in common.
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
        state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        match unknown_needs(pod).split_last() {
            None => {}
            Some((last, [])) => return Err(self.refused(last)),
            Some((last, first)) => {
                return Err(self.refused(&format!("{} and {last}", first.join(", "))));
            }
        }
        let closed = Closed::to(pod, cx.nodes());
        if closed.0.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        state.insert(closed);
        Ok(PreFiltered::AllNodes)
    }
}

impl Filter for UnknownConstraints {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        match state.get::<Closed>() {
            Some(closed) if closed.holds(node.row().labels()) => Err(Status::unschedulable(CLOSED)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::PodResourceClaim;

    use super::UNKNOWN_CONSTRAINTS;
    use crate::moment::Moment;
    use crate::plugins::stock_profile;
    use crate::scheduler::{Attempt, Scheduler, SchedulerConfig};
    use crate::test_objects::{NeverBinds, node, pod};
    use crate::tie::FirstOfEquals;

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
