//! Owns the sum of what a pod asks for as kube-scheduler 1.36 does: containers, init containers,
//! sidecars, pod-level resources, overhead, in-place resize. Knows nothing of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::quantity::QuantityError;
use crate::resources::{DEFAULT_MEMORY, DEFAULT_MILLI_CPU, ResourceName, Resources};

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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

/// A resource list of the API.
type List = BTreeMap<String, ApiQuantity>;

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
    let pod_level = PodLevel::of(pod, spec, basis, defect);
    PodRequests {
        total: read.sum(&pod_level, &overhead, |container| container.stated.clone()),
        non_zero: read.sum(&pod_level, &overhead, StatedRequests::with_defaults),
    }
}

/// Whether the kubelet has said that it can't grant what the spec asks for. The first condition of that type counts,
/// whatever its status is, as in kube-scheduler.
fn resize_is_infeasible(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let pending = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Option<&List> {
    resources.and_then(|resources| resources.requests.as_ref())
}

fn parse(list: Option<&List>, path: &str, defect: &mut Defect<'_>) -> Resources {
    list.map_or_else(Resources::default, |list| {
        Resources::parse(list, |name, error| defect(format!("{path}[{name}]"), error))
    })
}

/// What is said of the requests of one container, or of a pod as a whole. Several lists speak during a resize; of each
/// resource the largest amount counts.
struct Said<'a> {
    lists: Vec<(Option<&'a List>, String)>,
}

impl<'a> Said<'a> {
    /// `status`: what is in force and what is granted, with the path of both, once the kubelet has told.
    fn new(
        spec: (Option<&'a List>, String),
        status: Option<(&'a ResourceRequirements, Option<&'a List>, String)>,
        basis: Basis,
    ) -> Self {
        let (Basis::Assigned { infeasible }, Some((actual, allocated, path))) = (basis, status)
        else {
            return Self { lists: vec![spec] };
        };
        let mut lists = vec![
            (
                requests_of(Some(actual)),
                format!("{path}.resources.requests"),
            ),
            (allocated, format!("{path}.allocatedResources")),
        ];
        if !infeasible {
            lists.insert(0, spec);
        }
        Self { lists }
    }

    fn names(&self, resource: &str) -> bool {
        let mut lists = self.lists.iter().filter_map(|(list, _)| *list);
        lists.any(|list| list.contains_key(resource))
    }

    fn largest(&self, defect: &mut Defect<'_>) -> Resources {
        let mut largest = Resources::default();
        for (list, path) in &self.lists {
            largest.raise_to(&parse(*list, path, defect));
        }
        largest
    }
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
    let name = &container.name;
    let mut statuses = statuses
        .unwrap_or_default()
        .iter()
        .filter(|status| status.name == *name);
    let status = statuses.find_map(|status| {
        let path = format!("status.{field}[{name}]");
        Some((
            status.resources.as_ref()?,
            status.allocated_resources.as_ref(),
            path,
        ))
    });
    let path = format!("spec.{field}[{name}].resources.requests");
    let spec = (requests_of(container.resources.as_ref()), path);
    let said = Said::new(spec, status, basis);
    StatedRequests {
        stated: said.largest(defect),
        states_cpu: said.names("cpu"),
        states_memory: said.names("memory"),
    }
}

/// Requests of the pod as a whole, which replace the containers' sum for the resources that its spec names.
struct PodLevel {
    amounts: Resources,
    names: Vec<ResourceName>,
}

impl PodLevel {
    fn of(pod: &Pod, spec: &PodSpec, basis: Basis, defect: &mut Defect<'_>) -> Self {
        let list = requests_of(spec.resources.as_ref());
        let names: Vec<_> = list
            .into_iter()
            .flat_map(BTreeMap::keys)
            .filter(|name| {
                matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-")
            })
            .map(|name| ResourceName::parse(name))
            .collect();
        let status = pod.status.as_ref().and_then(|status| {
            let actual = status.resources.as_ref()?;
            let allocated = status.allocated_resources.as_ref();
            Some((actual, allocated, "status".to_owned()))
        });
        // Without a word in the spec the status says nothing either.
        let status = status.filter(|_| !names.is_empty());
        let said = Said::new((list, "spec.resources.requests".to_owned()), status, basis);
        Self {
            amounts: said.largest(defect),
            names,
        }
    }

    fn replace_in(&self, sum: &mut Resources) {
        for name in &self.names {
            sum.set(name, self.amounts.get(name));
        }
    }
}

#[cfg(test)]
mod tests;
