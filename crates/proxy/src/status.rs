//! What of a delegate's status goes to the proxy pod, as a patch; nothing if nothing changes.
//!
//! A target speaks for the containers that the proxy has, and in the words that a status has: it is read into our
//! types, field by field, within bounds that the API server keeps as well. What isn't so is left out, since the API
//! server refuses a status as a whole, and would refuse it for ever.

mod addresses;
mod conditions;
mod containers;
mod details;
mod reader;

use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus};
use pilotage_api::PodChaperon;
use serde_json::{Map, Value, json};

use containers::{List, containers};
use reader::{MESSAGE, Reader, WORD};

/// Fields of a pod's status that belong to the cluster where the pod object lives, or name objects there.
const LOCAL_FIELDS: [&str; 7] = [
    "observedGeneration",
    "nominatedNodeName",
    "qosClass",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "resize",
];
/// All others that are read.
const FIELDS: [&str; 14] = [
    "phase",
    "reason",
    "message",
    "startTime",
    "conditions",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resources",
    "allocatedResources",
];
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

/// A change of the proxy pod's status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// A merge patch of `pods/status`; it carries the UID, so that a pod of the same name stays alone.
    pub(crate) patch: Value,
    /// Fields of which something wasn't taken as the target said it.
    pub(crate) withheld: Vec<&'static str>,
}

/// What to write, so that the proxy looks like its delegate; `None` if it does already.
///
/// Conditions that only the proxy has (readiness gates of the source, for instance) stay.
pub(crate) fn change(proxy: &Pod, chaperon: &PodChaperon) -> Option<Change> {
    let said = &chaperon.status.as_ref()?.0;
    let none = PodStatus::default();
    let current = proxy.status.as_ref().unwrap_or(&none);
    let mut reader = Reader::new();
    let wanted = wanted(&mut reader, said, proxy, current);
    if comparable(wanted.clone()) == comparable(current.clone()) {
        return None;
    }
    let (Ok(Value::Object(mut patch)), Ok(Value::Object(current))) =
        (serde_json::to_value(wanted), serde_json::to_value(current))
    else {
        return None;
    };
    unset(&mut patch, &current, &LOCAL_FIELDS);
    Some(Change {
        patch: json!({ "metadata": { "uid": proxy.metadata.uid }, "status": patch }),
        withheld: reader.withheld(),
    })
}

fn wanted(
    reader: &mut Reader,
    said: &Map<String, Value>,
    proxy: &Pod,
    current: &PodStatus,
) -> PodStatus {
    let known = |field: &String| {
        let field = field.as_str();
        FIELDS.contains(&field) || LOCAL_FIELDS.contains(&field)
    };
    if !said.keys().all(known) {
        reader.withhold("unknown fields");
    }
    let own = current.conditions.as_deref().unwrap_or_default();
    let conditions = conditions::said(reader, said);
    let conditions = conditions::merge(conditions, own, proxy.spec.as_ref());
    let mut lists = |list, known: &Option<Vec<ContainerStatus>>| {
        let spec = proxy.spec.as_ref()?;
        containers(reader, said, list, spec, known.as_deref())
    };
    let init_container_statuses = lists(List::Init, &current.init_container_statuses);
    let container_statuses = lists(List::Plain, &current.container_statuses);
    let ephemeral_container_statuses =
        lists(List::Ephemeral, &current.ephemeral_container_statuses);
    let pod = addresses::addresses(reader, said, "podIP", "podIPs", true);
    let host = addresses::addresses(reader, said, "hostIP", "hostIPs", false);
    let (pod_ip, host_ip) = (pod.first().cloned(), host.first().cloned());
    let pod_ips: Vec<_> = pod.into_iter().map(|ip| PodIP { ip }).collect();
    let host_ips: Vec<_> = host.into_iter().map(|ip| HostIP { ip }).collect();
    PodStatus {
        // A pod always has one.
        phase: reader
            .one_of(said, "phase", &PHASES)
            .or_else(|| current.phase.clone()),
        reason: reader.text(said, "reason", WORD),
        message: reader.text(said, "message", MESSAGE),
        start_time: reader.time(said, "startTime"),
        conditions: (!conditions.is_empty()).then_some(conditions),
        init_container_statuses,
        container_statuses,
        ephemeral_container_statuses,
        pod_ip,
        pod_ips: (!pod_ips.is_empty()).then_some(pod_ips),
        host_ip,
        host_ips: (!host_ips.is_empty()).then_some(host_ips),
        resources: details::requirements(reader, said),
        allocated_resources: reader.quantities(said, "allocatedResources"),
        ..PodStatus::default()
    }
}

/// A status without what isn't the target's to say, or is the same in another order.
fn comparable(status: PodStatus) -> PodStatus {
    let order = |mut conditions: Vec<PodCondition>| {
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        for condition in &mut conditions {
            condition.observed_generation = None;
        }
        conditions
    };
    PodStatus {
        conditions: status.conditions.map(order),
        observed_generation: None,
        nominated_node_name: None,
        qos_class: None,
        resource_claim_statuses: None,
        extended_resource_claim_status: None,
        node_allocatable_resource_claim_statuses: None,
        resize: None,
        ..status
    }
}

/// Takes away, in a merge patch, what the object has and is not to have; but leaves `others` alone.
fn unset(patch: &mut Map<String, Value>, current: &Map<String, Value>, others: &[&str]) {
    for (field, old) in current {
        match (patch.get_mut(field), old) {
            (None, _) if others.contains(&field.as_str()) => {}
            (None, _) => {
                patch.insert(field.clone(), Value::Null);
            }
            (Some(Value::Object(new)), Value::Object(old)) => unset(new, old, &[]),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
