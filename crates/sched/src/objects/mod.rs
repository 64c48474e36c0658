//! Owns the objects beside pods and nodes that plugins read, each kind as its watch shows it. Knows nothing of watches;
//! a kind is watched only if a plugin of a profile wants it, see [`Plugin::wants`](crate::Plugin::wants).

mod store;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};

pub use self::store::Store;
use crate::event::{AnyObject, Event};
use crate::names::ObjectKey;
use crate::pod_info::IdentityError;

macro_rules! kinds {
    ($($kind:ident, $store:ident, $doc:literal;)*) => {
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

        /// The objects of all kinds that are wanted.
        #[derive(Debug, Default)]
        pub struct Objects {
            $($store: Store<$kind>,)*
        }

        impl Objects {
            $(#[doc = $doc] pub const fn $store(&self) -> &Store<$kind> {
                &self.$store
            })*

            /// Takes an object in; the event that it means.
            pub(crate) fn apply(&mut self, object: Object) -> Result<Event, IdentityError> {
                match object {
                    $(Object::$kind(new) => {
                        let old = self.$store.apply(new.clone())?;
                        Ok(event(Kind::$kind, old, Some(new)))
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
    Namespace, namespaces, "A Namespace, whose labels affinity may select.";
    Service, services, "A Service, whose pods are spread.";
    ReplicationController, replication_controllers, "A `ReplicationController`, whose pods are spread.";
    ReplicaSet, replica_sets, "A `ReplicaSet`, whose pods are spread.";
    StatefulSet, stateful_sets, "A `StatefulSet`, whose pods are spread.";
    PodDisruptionBudget, disruption_budgets, "A `PodDisruptionBudget`, which preemption respects where it can.";
    PersistentVolume, volumes, "A `PersistentVolume`.";
    PersistentVolumeClaim, volume_claims, "A `PersistentVolumeClaim`.";
    StorageClass, storage_classes, "A `StorageClass`.";
    CSINode, csi_nodes, "A `CSINode`, which says how many volumes a node takes.";
    CSIDriver, csi_drivers, "A `CSIDriver`.";
    CSIStorageCapacity, storage_capacities, "A `CSIStorageCapacity`.";
    VolumeAttachment, volume_attachments, "A `VolumeAttachment`.";
    ResourceClaim, resource_claims, "A `ResourceClaim`.";
    ResourceSlice, resource_slices, "A `ResourceSlice`.";
    DeviceClass, device_classes, "A `DeviceClass`.";
}

fn event<K: Send + Sync + 'static>(kind: Kind, old: Option<Arc<K>>, new: Option<Arc<K>>) -> Event {
    let any = |object: Arc<K>| object as AnyObject;
    Event::object(kind, old.map(any), new.map(any))
}
