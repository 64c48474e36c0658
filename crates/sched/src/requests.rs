//! Owns the sums of what a pod asks for: containers, init containers, sidecars, pod-level resources, overhead, in-place
//! resize. After kube-scheduler 1.36.3: `PodRequests` of its `component-helpers/resource`, and the options that the
//! scheduler calls it with. Knows nothing of nodes.
//!
//! Amounts are added up exactly and rounded once, at the end.

mod exact;

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, ResourceRequirements};

use self::exact::{Exact, List};
use crate::quantity::{Quantity, QuantityError};
use crate::resources::{DEFAULT_MEMORY, DEFAULT_MILLI_CPU, Resources};

/// What a pod asks for, summed in the four ways that kube-scheduler sums it in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRequests {
    /// What it takes on a node: the most of spec and status, since a resize may be under way.
    pub total: Resources,
    /// The same with defaults for containers that state no CPU or memory; for scoring only.
    pub non_zero: Resources,
    /// What its spec asks for: what `NodeResourcesFit` looks for room for.
    pub asked: Resources,
    /// What `NodeResourcesFit` ranks nodes for: what its containers ask for with defaults, and overhead. Here
    /// kube-scheduler 1.36.3 leaves out the requests of the pod as a whole.
    pub ranked: Resources,
}

/// A malformed amount, with the path of its field.
pub(crate) type Defect<'a> = dyn FnMut(String, QuantityError) + 'a;

/// Sums the requests of a pod; malformed amounts count as zero and are given to `defect`, each once.
pub(crate) fn pod_requests(pod: &Pod, defect: &mut Defect<'_>) -> PodRequests {
    let Some(spec) = &pod.spec else {
        return PodRequests::default();
    };
    let read = ReadPod::of(pod, spec, defect);
    let total = read.sum(Basis::Node, Defaults::NONE);
    // What the pod states as a whole, or is summed already, needs no default.
    let defaults = if read.whole.spec.is_empty() {
        Defaults::ALL
    } else {
        Defaults {
            cpu: !total.names("cpu"),
            memory: !total.names("memory"),
        }
    };
    let mut ranked = read.containers(Basis::Spec, Defaults::ALL);
    ranked.add(&read.overhead);
    PodRequests {
        non_zero: read.sum(Basis::Node, defaults).rounded(),
        asked: read.sum(Basis::Spec, Defaults::NONE).rounded(),
        ranked: ranked.rounded(),
        total: total.rounded(),
    }
}

/// Which values count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The spec alone: what a node is looked for.
    Spec,
    /// Spec and status: what is taken on a node.
    Node,
}

/// What containers are taken to need that don't say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Defaults {
    cpu: bool,
    memory: bool,
}

impl Defaults {
    const NONE: Self = Self {
        cpu: false,
        memory: false,
    };
    const ALL: Self = Self {
        cpu: true,
        memory: true,
    };

    /// Adds a container's amounts, and what it doesn't name. A stated zero is a statement.
    fn add_to<'a>(self, sum: &mut Exact<'a>, own: &Exact<'a>) {
        sum.add(own);
        if self.cpu && !own.names("cpu") {
            sum.add_one("cpu", Quantity::of_milli(DEFAULT_MILLI_CPU));
        }
        if self.memory && !own.names("memory") {
            sum.add_one("memory", Quantity::of(DEFAULT_MEMORY));
        }
    }
}

/// What is said of the requests of one container, or of a pod as a whole.
struct Said<'a> {
    spec: Exact<'a>,
    /// The most of what is asked for, granted and in force, once the kubelet has told.
    on_node: Option<Exact<'a>>,
}

impl<'a> Said<'a> {
    /// Takes in what is in force and what is granted. What the kubelet can't grant isn't counted.
    fn resized(mut self, actual: Exact<'a>, allocated: &Exact<'a>, infeasible: bool) -> Self {
        let mut most = actual;
        most.raise_to(allocated);
        if !infeasible {
            most.raise_to(&self.spec);
        }
        self.on_node = Some(most);
        self
    }

    fn at(&self, basis: Basis) -> &Exact<'a> {
        match (basis, &self.on_node) {
            (Basis::Node, Some(on_node)) => on_node,
            _ => &self.spec,
        }
    }
}

/// A pod's lists, each read once.
struct ReadPod<'a> {
    apps: Vec<Said<'a>>,
    /// In order; `true` for sidecars.
    inits: Vec<(Said<'a>, bool)>,
    /// Of the pod as a whole: what its spec names of the resources that it may name.
    whole: Said<'a>,
    overhead: Exact<'a>,
}

impl<'a> ReadPod<'a> {
    fn of(pod: &'a Pod, spec: &'a PodSpec, defect: &mut Defect<'_>) -> Self {
        let resizes = Resizes::of(pod);
        Self {
            apps: spec
                .containers
                .iter()
                .map(|container| read(container, "containers", Some(&resizes), defect))
                .collect(),
            inits: spec
                .init_containers
                .iter()
                .flatten()
                .map(|container| {
                    let sidecar = is_sidecar(container);
                    let resizes = sidecar.then_some(&resizes);
                    (read(container, "initContainers", resizes, defect), sidecar)
                })
                .collect(),
            whole: whole(pod, spec, resizes.infeasible, defect),
            overhead: exact::read(spec.overhead.as_ref(), || "spec.overhead".into(), defect),
        }
    }

    /// What the containers need together: those that run in the end, or more while they start.
    fn containers(&self, basis: Basis, defaults: Defaults) -> Exact<'a> {
        let mut running = Exact::default();
        for app in &self.apps {
            defaults.add_to(&mut running, app.at(basis));
        }
        let mut sidecars = Exact::default();
        let mut starting = Exact::default();
        for (init, sidecar) in &self.inits {
            let own = init.at(basis);
            if *sidecar {
                // Its own start needs no more than what runs in the end, which it is part of.
                defaults.add_to(&mut running, own);
                defaults.add_to(&mut sidecars, own);
            } else {
                let mut needed = sidecars.clone();
                defaults.add_to(&mut needed, own);
                starting.raise_to(&needed);
            }
        }
        running.raise_to(&starting);
        running
    }

    fn sum(&self, basis: Basis, defaults: Defaults) -> Exact<'a> {
        let mut sum = self.containers(basis, defaults);
        sum.replace(&self.whole.spec, self.whole.at(basis));
        sum.add(&self.overhead);
        sum
    }
}

/// What the kubelet tells of resizes.
struct Resizes<'a> {
    statuses: HashMap<&'a str, &'a ContainerStatus>,
    infeasible: bool,
}

impl<'a> Resizes<'a> {
    fn of(pod: &'a Pod) -> Self {
        let status = pod.status.as_ref();
        let apps = status.and_then(|status| status.container_statuses.as_ref());
        let inits = status.and_then(|status| status.init_container_statuses.as_ref());
        let statuses = apps.into_iter().chain(inits).flatten();
        Self {
            statuses: statuses.map(|status| (&*status.name, status)).collect(),
            infeasible: resize_is_infeasible(pod),
        }
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

/// Whether an init container goes on running beside the app containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Option<&List> {
    resources.and_then(|resources| resources.requests.as_ref())
}

/// One container; `resizes` if it can be resized.
fn read<'a>(
    container: &'a Container,
    field: &str,
    resizes: Option<&Resizes<'a>>,
    defect: &mut Defect<'_>,
) -> Said<'a> {
    let name = &container.name;
    let requests = requests_of(container.resources.as_ref());
    let path = || format!("spec.{field}[{name}].resources.requests");
    let said = Said {
        spec: exact::read(requests, path, defect),
        on_node: None,
    };
    let told = resizes.and_then(|resizes| {
        let status = *resizes.statuses.get(&**name)?;
        Some((status, status.resources.as_ref()?, resizes.infeasible))
    });
    let Some((status, actual, infeasible)) = told else {
        return said;
    };
    let path = |list| move || format!("status.{field}[{name}].{list}");
    let actual = exact::read(
        requests_of(Some(actual)),
        path("resources.requests"),
        defect,
    );
    let allocated = status.allocated_resources.as_ref();
    let allocated = exact::read(allocated, path("allocatedResources"), defect);
    said.resized(actual, &allocated, infeasible)
}

/// Requests of the pod as a whole. Where the spec says nothing the status says nothing either.
fn whole<'a>(
    pod: &'a Pod,
    spec: &'a PodSpec,
    infeasible: bool,
    defect: &mut Defect<'_>,
) -> Said<'a> {
    let requests = requests_of(spec.resources.as_ref());
    let mut named = exact::read(requests, || "spec.resources.requests".into(), defect);
    named.keep(|name| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-"));
    let nothing = named.is_empty();
    let said = Said {
        spec: named,
        on_node: None,
    };
    let status = pod.status.as_ref().filter(|_| !nothing);
    let Some((status, actual)) = status.and_then(|it| Some((it, it.resources.as_ref()?))) else {
        return said;
    };
    let path = |list| move || format!("status.{list}");
    let actual = exact::read(
        requests_of(Some(actual)),
        path("resources.requests"),
        defect,
    );
    let allocated = status.allocated_resources.as_ref();
    let allocated = exact::read(allocated, path("allocatedResources"), defect);
    said.resized(actual, &allocated, infeasible)
}

#[cfg(test)]
mod tests;
