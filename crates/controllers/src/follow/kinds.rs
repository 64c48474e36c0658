//! The kinds that follow pods: what is the same of all, and what the watches keep of an object.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceSpec};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use pilotage_api::parent::ParentLink;
use pilotage_api::{Right, bounds, keys};
use pilotage_clusters::Watchable;
use pilotage_model::followed::{
    Content, Kind, NotCopied, certificates, config_map, ingress, is_linked, keep_class,
    keep_load_balancer, only_names, secret, selected, service,
};
use serde::Serialize;

/// In the annotations of an object that is kept, and nowhere else: what its content is known by.
pub(super) const DIGEST: &str = "digest";
/// The same: whether it may be changed.
pub(super) const IMMUTABLE: &str = "immutable";
/// The same: the type of a Secret.
pub(super) const TYPE: &str = "type";
/// The same: it is being deleted, and a finalizer of Admiralty keeps it.
pub(super) const HELD: &str = "held";

/// What says whose copy an object is, and how a Service is rerouted, is kept.
pub(super) const KEPT_LABELS: [&str; 3] = [
    keys::PARENT_UID,
    keys::PARENT_CLUSTER_UID,
    keys::IS_DELEGATE,
];
pub(super) const KEPT_ANNOTATIONS: [&str; 8] = [
    keys::PARENT_NAME,
    keys::PARENT_NAMESPACE,
    keys::ORIGINAL_SELECTOR,
    keys::NO_PREFIX_LABEL_REGEXP,
    keys::GLOBAL,
    keys::IS_DELEGATE,
    keys::CILIUM_GLOBAL[0],
    keys::CILIUM_GLOBAL[1],
];
/// Bytes of one of these.
const KEPT: usize = 4096;

/// A kind that follows pods.
pub(super) trait Followed:
    Watchable + Serialize + Resource<Scope = NamespaceResourceScope>
{
    /// Its name among needs.
    const KIND: Kind;
    /// Its plural.
    const PLURAL: &'static str;
    /// What a target has to give.
    const RIGHT: Right;
    /// Whether controllers of the target write to the copies, too.
    const SHARED: bool = false;

    /// What two objects must have in common to be copies of each other.
    fn content(&self) -> Content;
    /// The copy for a target.
    fn copy(&self, link: &ParentLink) -> Result<Self, NotCopied>;
    /// Takes away what it holds, but for what needs follow from.
    fn empty(&mut self);

    /// Keeps for the next state of a copy what its cluster has filled in where the author left it open.
    fn keep(&mut self, _found: &Self) {}

    /// Secrets that it names and doesn't bring along.
    fn secrets(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Whether it is known what its author wants; it is kept as it is otherwise.
    fn is_readable(&self) -> bool {
        true
    }
}

impl Followed for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
    const PLURAL: &'static str = "configmaps";
    const RIGHT: Right = Right::FollowConfigMaps;

    fn content(&self) -> Content {
        Content::of_config_map(self)
    }

    fn copy(&self, link: &ParentLink) -> Result<Self, NotCopied> {
        config_map(self, link)
    }

    fn empty(&mut self) {
        (self.data, self.binary_data) = (None, None);
    }
}

impl Followed for Secret {
    const KIND: Kind = Kind::Secret;
    const PLURAL: &'static str = "secrets";
    const RIGHT: Right = Right::FollowSecrets;

    fn content(&self) -> Content {
        Content::of_secret(self)
    }

    fn copy(&self, link: &ParentLink) -> Result<Self, NotCopied> {
        secret(self, link)
    }

    fn empty(&mut self) {
        (self.data, self.string_data) = (None, None);
    }
}

impl Followed for Service {
    const KIND: Kind = Kind::Service;
    const PLURAL: &'static str = "services";
    const RIGHT: Right = Right::FollowServices;
    const SHARED: bool = true;

    fn content(&self) -> Content {
        Content::of_service(self)
    }

    fn copy(&self, link: &ParentLink) -> Result<Self, NotCopied> {
        service(self, link)
    }

    fn keep(&mut self, found: &Self) {
        keep_load_balancer(self, found);
    }

    fn empty(&mut self) {
        self.status = None;
        let own = self.spec.take().filter(|_| !is_linked(&self.metadata));
        self.spec = own.map(|spec| ServiceSpec {
            selector: spec.selector,
            type_: spec.type_,
            ..ServiceSpec::default()
        });
    }

    fn is_readable(&self) -> bool {
        selected(self).is_ok()
    }
}

impl Followed for Ingress {
    const KIND: Kind = Kind::Ingress;
    const PLURAL: &'static str = "ingresses";
    const RIGHT: Right = Right::FollowIngresses;
    const SHARED: bool = true;

    fn content(&self) -> Content {
        Content::of_ingress(self)
    }

    fn copy(&self, link: &ParentLink) -> Result<Self, NotCopied> {
        ingress(self, link)
    }

    fn keep(&mut self, found: &Self) {
        keep_class(self, found);
    }

    fn secrets(&self) -> BTreeSet<String> {
        certificates(self)
    }

    fn empty(&mut self) {
        let own = self.spec.take().filter(|_| !is_linked(&self.metadata));
        (self.spec, self.status) = (own.as_ref().map(only_names), None);
    }
}

/// Leaves of an object who it is, whose copy it is, and what its content is known by.
pub(super) fn trim<K: Followed>(object: &mut K) {
    let Content {
        digest,
        immutable,
        type_,
    } = object.content();
    object.empty();
    let meta = object.meta_mut();
    let mut finalizers = meta.finalizers.iter().flatten();
    let held = meta.deletion_timestamp.is_some()
        && finalizers.any(|finalizer| keys::is_admiraltys_finalizer(finalizer));
    (meta.finalizers, meta.owner_references, meta.managed_fields) = (None, None, None);
    if let Some(labels) = &mut meta.labels {
        labels.retain(|key, _| KEPT_LABELS.contains(&key.as_str()));
    }
    let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
    annotations.retain(|key, _| KEPT_ANNOTATIONS.contains(&key.as_str()));
    for value in annotations.values_mut() {
        // Too long to be read, and so it stays.
        value.truncate(bounds::cut(value, KEPT).len());
    }
    annotations.insert(DIGEST.to_owned(), digest);
    if immutable {
        annotations.insert(IMMUTABLE.to_owned(), String::new());
    }
    if let Some(type_) = type_ {
        annotations.insert(TYPE.to_owned(), type_);
    }
    if held {
        annotations.insert(HELD.to_owned(), String::new());
    }
}
