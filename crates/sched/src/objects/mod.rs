//! Owns the objects beside pods and nodes that plugins read: what they read of each kind, as its watch shows it. Knows
//! nothing of watches; a kind is watched only if a plugin of a profile wants it, see
//! [`Plugin::wants`](crate::Plugin::wants).

#[cfg(test)]
mod fuzz;
mod kept;
mod store;

use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::kept::Kept;
pub use self::kept::{Budget, Labelled, PairSelector, SetSelector};
pub use self::store::Store;
use crate::event::{AnyObject, Event};
use crate::names::ObjectKey;
use crate::pod_info::IdentityError;

macro_rules! kinds {
    ($($kind:ident, $store:ident, $kept:ident, $doc:literal;)*) => {
        /// A kind of objects beside pods and nodes that plugins may want to read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(clippy::upper_case_acronyms, reason = "these are names of kinds")]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }

        /// An object of one of these kinds.
        #[derive(Clone, Debug)]
        pub enum Object {
            $(#[doc = $doc] $kind(Arc<$kind>),)*
        }

        /// The objects of all kinds that are wanted: of each what plugins read ([`Kind::fields`]).
        #[derive(Debug, Default)]
        pub struct Objects {
            $($store: Store<$kept>,)*
        }

        impl Objects {
            $(#[doc = $doc] pub const fn $store(&self) -> &Store<$kept> {
                &self.$store
            })*

            /// Takes an object in; the event that it means, if there is news in what stays of it.
            pub(crate) fn apply(&mut self, object: Object) -> Result<Option<Event>, IdentityError> {
                match object {
                    $(Object::$kind(new) => {
                        let (old, new) = keep(&mut self.$store, &new)?;
                        let is_news = old.as_ref() != Some(&new);
                        Ok(is_news.then(|| event(Kind::$kind, old, Some(new))))
                    })*
                }
            }

            /// Forgets an object; the event that it means, if it was known.
            pub(crate) fn remove(&mut self, kind: Kind, key: &ObjectKey) -> Option<Event> {
                match kind {
                    $(Kind::$kind => {
                        let old = self.$store.remove(key)?;
                        Some(event(kind, Some(old), None))
                    })*
                }
            }
        }

        $(impl Stored for $kind {
            const KIND: Kind = Kind::$kind;

            fn object(self: Arc<Self>) -> Object {
                Object::$kind(self)
            }
        })*
    };
}

/// A type whose objects plugins may want to read.
pub trait Stored: Send + Sync + Sized + 'static {
    /// Its kind.
    const KIND: Kind;

    /// The object as one of any kind.
    fn object(self: Arc<Self>) -> Object;
}

kinds! {
    Namespace, namespaces, Labelled, "A Namespace, whose labels affinity may select.";
    Service, services, PairSelector, "A Service, whose pods are spread.";
    ReplicationController, replication_controllers, PairSelector, "A `ReplicationController`, whose pods are spread.";
    ReplicaSet, replica_sets, SetSelector, "A `ReplicaSet`, whose pods are spread.";
    StatefulSet, stateful_sets, SetSelector, "A `StatefulSet`, whose pods are spread.";
    PodDisruptionBudget, disruption_budgets, Budget, "A `PodDisruptionBudget`, which preemption respects where it can.";
    PersistentVolume, volumes, PersistentVolume, "A `PersistentVolume`.";
    PersistentVolumeClaim, volume_claims, PersistentVolumeClaim, "A `PersistentVolumeClaim`.";
    StorageClass, storage_classes, StorageClass, "A `StorageClass`.";
    CSINode, csi_nodes, CSINode, "A `CSINode`, which says how many volumes a node takes.";
    CSIDriver, csi_drivers, CSIDriver, "A `CSIDriver`.";
    CSIStorageCapacity, storage_capacities, CSIStorageCapacity, "A `CSIStorageCapacity`.";
    VolumeAttachment, volume_attachments, VolumeAttachment, "A `VolumeAttachment`.";
    ResourceClaim, resource_claims, ResourceClaim, "A `ResourceClaim`.";
    ResourceSlice, resource_slices, ResourceSlice, "A `ResourceSlice`.";
    DeviceClass, device_classes, DeviceClass, "A `DeviceClass`.";
}

/// Takes in what stays of an object; what stayed of it before, and what does now.
fn keep<O, K>(
    store: &mut Store<K>,
    object: &Arc<O>,
) -> Result<(Option<Arc<K>>, Arc<K>), IdentityError>
where
    O: Metadata<Ty = ObjectMeta>,
    K: Kept<O>,
{
    let meta = object.metadata();
    let name = meta.name.as_deref().filter(|name| !name.is_empty());
    let key = ObjectKey {
        namespace: meta.namespace.as_deref().unwrap_or_default().into(),
        name: name.ok_or(IdentityError::Name)?.into(),
    };
    let kept = <K as Kept<O>>::of(object);
    let old = store.apply(key, kept.clone(), <K as Kept<O>>::labels);
    Ok((old, kept))
}

fn event<K: Send + Sync + 'static>(kind: Kind, old: Option<Arc<K>>, new: Option<Arc<K>>) -> Event {
    let any = |object: Arc<K>| object as AnyObject;
    Event::object(kind, old.map(any), new.map(any))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Service;

    use super::{Objects, Stored as _};
    use crate::pod_info::IdentityError;

    #[test]
    fn an_object_without_a_name_is_refused() {
        let mut objects = Objects::default();
        let mut service = Service::default();
        for name in [None, Some(String::new())] {
            service.metadata.name = name;
            let nameless = Arc::new(service.clone()).object();
            assert_eq!(objects.apply(nameless).unwrap_err(), IdentityError::Name);
        }
        assert_eq!(objects.services().iter().count(), 0);
    }
}
