//! Owns which pods a pod without constraints is spread with: those that its Services and its controller select. As in
//! kube-scheduler 1.36.3 (`plugins/helper/spread.go`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};

use crate::labels::{Requirement, Selector, Test};
use crate::names::ObjectKey;
use crate::objects::{Kind, Objects};
use crate::pod_info::PodInfo;

/// The kinds that are read.
pub(super) const KINDS: &[Kind] = &[
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
];

/// What the pod's Services and its controller ask for, all of it together; empty if it has neither.
pub(super) fn selector(pod: &PodInfo, objects: &Objects) -> Vec<Requirement> {
    let namespace = &pod.key.namespace;
    let labels = pod.labels();
    let mut pairs: BTreeMap<&str, &str> = BTreeMap::new();
    for service in objects.services().in_namespace(namespace) {
        let spec = service.spec.as_ref();
        // A Service without a selector selects no pods.
        let Some(selector) = spec.and_then(|spec| spec.selector.as_ref()) else {
            continue;
        };
        let mut wanted = selector.iter();
        if wanted.all(|(key, value)| labels.get(key) == Some(value)) {
            pairs.extend(selector.iter().map(|(key, value)| (&**key, &**value)));
        }
    }
    let mut by_controller = None;
    if let Some(owner) = controller(pod) {
        let key = ObjectKey {
            namespace: namespace.clone(),
            name: owner.name.as_str().into(),
        };
        match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => {
                let spec = objects.replication_controllers().get(&key);
                let spec = spec.and_then(|found| found.spec.as_ref());
                let selector = spec.and_then(|spec| spec.selector.as_ref());
                let selector = selector.into_iter().flatten();
                // The controller may want another value than the pod has.
                pairs.extend(selector.map(|(key, value)| (&**key, &**value)));
            }
            ("apps/v1", "ReplicaSet") => {
                let spec = objects.replica_sets().get(&key);
                let spec = spec.and_then(|found| found.spec.as_ref());
                by_controller = spec.map(|spec| &spec.selector);
            }
            ("apps/v1", "StatefulSet") => {
                let spec = objects.stateful_sets().get(&key);
                let spec = spec.and_then(|found| found.spec.as_ref());
                by_controller = spec.map(|spec| &spec.selector);
            }
            _ => {}
        }
    }
    let pairs = pairs.into_iter().map(|(key, value)| Requirement {
        key: key.to_owned(),
        test: Test::In(BTreeSet::from([value.to_owned()])),
    });
    let mut all: Vec<_> = pairs.collect();
    for requirement in requirements(by_controller) {
        if !all.contains(&requirement) {
            all.push(requirement);
        }
    }
    all
}

fn controller(pod: &PodInfo) -> Option<&OwnerReference> {
    let owners = pod.pod()?.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.next()
}

/// A selector that can't be read is passed over.
fn requirements(selector: Option<&LabelSelector>) -> Vec<Requirement> {
    match Selector::parse(selector) {
        Ok(Selector::All(requirements)) => requirements,
        Ok(Selector::Nothing) | Err(_) => Vec::new(),
    }
}
