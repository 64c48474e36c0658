//! Owns the sum of what a pod asks for as kube-scheduler 1.36 does: containers, init containers,
//! sidecars, pod-level resources, overhead, in-place resize. Knows nothing of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::quantity::QuantityError;
use crate::resources::{DEFAULT_MEMORY, DEFAULT_MILLI_CPU, ResourceName, Resources};

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// What Filter compares with the room on a node.
    pub total: Resources,
    /// The same with defaults for containers that state no CPU or memory; for scoring only.
    pub non_zero: Resources,
}

/// Which values count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The spec alone: pods that look for a node.
    Spec,
    /// The largest of spec and status: pods on a node, where a resize may be under way.
    Assigned { infeasible: bool },
}

/// A malformed amount, with the path of its field.
pub(crate) type Defect<'a> = dyn FnMut(String, QuantityError) + 'a;

/// Sums the requests of a pod; malformed amounts are left out and given to `defect`.
pub(crate) fn pod_requests(pod: &Pod, defect: &mut Defect<'_>) -> PodRequests {
    let Some(spec) = &pod.spec else {
        return PodRequests::default();
    };
    let basis = if spec.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
        Basis::Assigned {
            infeasible: resize_is_infeasible(pod),
        }
    } else {
        Basis::Spec
    };
    let read = ReadContainers::of(pod, spec, basis, defect);
    let overhead = parse(spec.overhead.as_ref(), "spec.overhead", defect);
    let pod_level = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let pod_level = PodLevel::of(pod_level, defect);
    PodRequests {
        total: read.sum(&pod_level, &overhead, |container| container.stated.clone()),
        non_zero: read.sum(&pod_level, &overhead, StatedRequests::with_defaults),
    }
}

fn resize_is_infeasible(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending"
            && condition.status == "True"
            && condition.reason.as_deref() == Some("Infeasible")
    })
}

fn parse(
    list: Option<&BTreeMap<String, ApiQuantity>>,
    path: &str,
    defect: &mut Defect<'_>,
) -> Resources {
    list.map_or_else(Resources::default, |list| {
        Resources::parse(list, |name, error| defect(format!("{path}[{name}]"), error))
    })
}

/// One container's requests, and whether it stated CPU and memory (an explicit 0 is a statement).
struct StatedRequests {
    stated: Resources,
    states_cpu: bool,
    states_memory: bool,
}

impl StatedRequests {
    fn with_defaults(&self) -> Resources {
        let mut resources = self.stated.clone();
        if !self.states_cpu {
            resources.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if !self.states_memory {
            resources.memory = DEFAULT_MEMORY;
        }
        resources
    }
}

struct ReadContainers {
    apps: Vec<StatedRequests>,
    /// In order; `true` for sidecars (restart policy Always).
    inits: Vec<(StatedRequests, bool)>,
}

impl ReadContainers {
    fn of(pod: &Pod, spec: &PodSpec, basis: Basis, defect: &mut Defect<'_>) -> Self {
        let status = pod.status.as_ref();
        let statuses = status.and_then(|status| status.container_statuses.as_deref());
        let init_statuses = status.and_then(|status| status.init_container_statuses.as_deref());
        let apps = spec
            .containers
            .iter()
            .map(|container| read(container, statuses, basis, "containers", defect))
            .collect();
        let inits = spec
            .init_containers
            .iter()
            .flatten()
            .map(|container| {
                let sidecar = is_sidecar(container);
                let basis = if sidecar { basis } else { Basis::Spec };
                (
                    read(container, init_statuses, basis, "initContainers", defect),
                    sidecar,
                )
            })
            .collect();
        Self { apps, inits }
    }

    fn sum(
        &self,
        pod_level: &PodLevel,
        overhead: &Resources,
        amount: impl Fn(&StatedRequests) -> Resources,
    ) -> Resources {
        let mut running = Resources::default();
        for app in &self.apps {
            running.add(&amount(app));
        }
        let mut sidecars = Resources::default();
        let mut starting = Resources::default();
        for (init, sidecar) in &self.inits {
            let own = amount(init);
            if *sidecar {
                // Its own start needs no more than what runs in the end, which it is part of.
                running.add(&own);
                sidecars.add(&own);
            } else {
                let mut needed = sidecars.clone();
                needed.add(&own);
                starting.raise_to(&needed);
            }
        }
        running.raise_to(&starting);
        pod_level.replace_in(&mut running);
        running.add(overhead);
        running
    }
}

/// Whether an init container goes on running beside the app containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn read(
    container: &Container,
    statuses: Option<&[ContainerStatus]>,
    basis: Basis,
    field: &str,
    defect: &mut Defect<'_>,
) -> StatedRequests {
    let requests = container
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let path = format!("spec.{field}[{}].resources.requests", container.name);
    let mut stated = parse(requests, &path, defect);
    let states = |list: Option<&BTreeMap<String, ApiQuantity>>, name: &str| {
        list.is_some_and(|list| list.contains_key(name))
    };
    let mut states_cpu = states(requests, "cpu");
    let mut states_memory = states(requests, "memory");
    if let Basis::Assigned { infeasible } = basis {
        let status = statuses
            .unwrap_or_default()
            .iter()
            .find(|status| status.name == container.name && status.resources.is_some());
        if let Some(status) = status {
            let actual = status.resources.as_ref().and_then(|r| r.requests.as_ref());
            let allocated = status.allocated_resources.as_ref();
            if infeasible {
                stated = Resources::default();
            }
            let path = format!("status.{field}[{}]", container.name);
            stated.raise_to(&parse(
                actual,
                &format!("{path}.resources.requests"),
                defect,
            ));
            stated.raise_to(&parse(
                allocated,
                &format!("{path}.allocatedResources"),
                defect,
            ));
            states_cpu |= states(actual, "cpu") || states(allocated, "cpu");
            states_memory |= states(actual, "memory") || states(allocated, "memory");
        }
    }
    StatedRequests {
        stated,
        states_cpu,
        states_memory,
    }
}

/// Requests of the pod as a whole, which replace the containers' sum for the resources they name.
struct PodLevel {
    amounts: Resources,
    names: Vec<ResourceName>,
}

impl PodLevel {
    fn of(list: Option<&BTreeMap<String, ApiQuantity>>, defect: &mut Defect<'_>) -> Self {
        let amounts = parse(list, "spec.resources.requests", defect);
        let names = list
            .into_iter()
            .flat_map(BTreeMap::keys)
            .filter(|name| {
                matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-")
            })
            .map(|name| ResourceName::parse(name))
            .collect();
        Self { amounts, names }
    }

    fn replace_in(&self, sum: &mut Resources) {
        for name in &self.names {
            sum.set(name, self.amounts.get(name));
        }
    }
}

#[cfg(test)]
mod tests;
