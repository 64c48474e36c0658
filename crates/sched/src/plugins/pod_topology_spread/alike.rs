//! Owns which pods a pod without constraints is spread with: those that its Services and its controller select. As in
//! kube-scheduler 1.36.3 (`plugins/helper/spread.go`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::labels::{Requirement, Test};
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
        let mut wanted = service.pairs.iter();
        // A Service without a selector selects no pods, and adds nothing.
        if wanted.all(|(key, value)| labels.get(key) == Some(value)) {
            let wanted = service.pairs.iter();
            pairs.extend(wanted.map(|(key, value)| (&**key, &**value)));
        }
    }
    let mut by_controller: &[Requirement] = &[];
    if let Some(owner) = controller(pod) {
        let key = ObjectKey {
            namespace: namespace.clone(),
            name: owner.name.as_str().into(),
        };
        let set = match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => {
                let found = objects.replication_controllers().get(&key);
                let selector = found.into_iter().flat_map(|found| &found.pairs);
                // The controller may want another value than the pod has.
                pairs.extend(selector.map(|(key, value)| (&**key, &**value)));
                None
            }
            ("apps/v1", "ReplicaSet") => objects.replica_sets().get(&key),
            ("apps/v1", "StatefulSet") => objects.stateful_sets().get(&key),
            _ => None,
        };
        by_controller = set.map_or(&[][..], |set| set.requirements.as_slice());
    }
    let pairs = pairs.into_iter().map(|(key, value)| Requirement {
        key: key.to_owned(),
        test: Test::In(BTreeSet::from([value.to_owned()])),
    });
    let mut all: Vec<_> = pairs.collect();
    for requirement in by_controller {
        if !all.contains(requirement) {
            all.push(requirement.clone());
        }
    }
    all
}

fn controller(pod: &PodInfo) -> Option<&OwnerReference> {
    let owners = pod.pod()?.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.next()
}
