//! What kube-apiserver demands of an update of a pod's status (`ValidatePodStatusUpdate` of Kubernetes 1.36).

use k8s_openapi::api::core::v1::ContainerStatus;
use pilotage_api::annotations::is_qualified_name;

use super::*;

/// Why the API server refuses this update, if it does.
pub(super) fn refusal(old: &Pod, new: &Pod) -> Option<String> {
    let (old_status, new_status) = (old.status.as_ref()?, new.status.as_ref()?);
    if old_status.qos_class != new_status.qos_class {
        return Some("qosClass is immutable".into());
    }
    conditions(new_status)
        .or_else(|| containers(old_status, new_status, old))
        .or_else(|| pod_ips(new_status))
        .or_else(|| host_ips(new_status))
}

fn conditions(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let wrong = conditions.find(|c| !is_qualified_name(&c.type_));
    wrong.map(|c| format!("condition {:?}", c.type_))
}

fn lists(status: &PodStatus) -> [&[ContainerStatus]; 3] {
    [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ]
    .map(|list| list.as_deref().unwrap_or_default())
}

fn containers(old: &PodStatus, new: &PodStatus, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let names: [Vec<&str>; 3] = [
        spec.init_containers
            .iter()
            .flatten()
            .map(|c| &*c.name)
            .collect(),
        spec.containers.iter().map(|c| &*c.name).collect(),
        ephemeral.map(|c| &*c.name).collect(),
    ];
    let on_failure = spec.restart_policy.as_deref() == Some("OnFailure");
    let rules = spec.containers.iter().any(|c| c.restart_policy.is_some());
    let all = lists(old).into_iter().zip(lists(new)).zip(names);
    for (at, ((old, new), names)) in all.enumerate() {
        for status in new {
            let twice = new.iter().filter(|c| c.name == status.name).count() > 1;
            if twice || !names.contains(&&*status.name) || status.restart_count < 0 {
                return Some(format!("status of {:?}", status.name));
            }
            let linux = status.user.as_ref().and_then(|user| user.linux.as_ref());
            let ids = linux.map(|it| [it.uid, it.gid]).into_iter().flatten();
            let groups = linux.and_then(|it| it.supplemental_groups.clone());
            if !ids
                .chain(groups.into_iter().flatten())
                .all(|id| (0..=i64::from(i32::MAX)).contains(&id))
            {
                return Some("a user".into());
            }
            let allocated = status.allocated_resources_status.iter().flatten();
            if allocated
                .clone()
                .any(|it| at != 1 || !["cpu"].contains(&&*it.name))
            {
                return Some("allocatedResourcesStatus".into());
            }
            for resource in allocated.flat_map(|it| it.resources.iter().flatten()) {
                let health = resource.health.as_deref().unwrap_or_default();
                if !["Healthy", "Unhealthy", "Unknown"].contains(&health) {
                    return Some("health".into());
                }
            }
        }
        for before in old {
            let ended = before.state.as_ref().and_then(|s| s.terminated.as_ref());
            let after = new.iter().find(|after| after.name == before.name);
            let runs = after.is_some_and(|after| {
                after
                    .state
                    .as_ref()
                    .is_none_or(|state| state.terminated.is_none())
            });
            // A container's own policy has a table of its own.
            let may = at != 2 && (rules || (on_failure && ended.is_some_and(|e| e.exit_code != 0)));
            if ended.is_some() && runs && !may {
                return Some(format!("{:?} has ended", before.name));
            }
        }
    }
    None
}

fn pod_ips(status: &PodStatus) -> Option<String> {
    let all: Vec<_> = status.pod_ips.iter().flatten().map(|it| &it.ip).collect();
    (status.pod_ip.as_ref() != all.first().copied())
        .then(|| "podIP".to_owned())
        .or_else(|| families(&all))
}

fn host_ips(status: &PodStatus) -> Option<String> {
    let all: Vec<_> = status.host_ips.iter().flatten().map(|it| &it.ip).collect();
    (status.host_ip.as_ref() != all.first().copied())
        .then(|| "hostIP".to_owned())
        .or_else(|| families(&all))
}

fn families(all: &[&String]) -> Option<String> {
    let parsed: Vec<std::net::IpAddr> = all.iter().filter_map(|ip| ip.parse().ok()).collect();
    let wrong = parsed.len() != all.len()
        || parsed.len() > 2
        || matches!(parsed[..], [a, b] if a.is_ipv4() == b.is_ipv4());
    wrong.then(|| format!("{all:?}"))
}
