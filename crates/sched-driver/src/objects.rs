//! Watches of the objects beside pods and nodes: one for each kind that a plugin of a profile wants, and none for
//! others. Knows nothing of what plugins read in them.

use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};
use kube::{Client, Resource};
use pilotage_runtime::caught::caught;
use pilotage_sched::{Kind, ObjectKey, Stored};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::driver::Inner;
use crate::feed::{self, Sink};

/// Follows all objects of a kind until `token` is cancelled; `synced` is called after the first whole list.
pub(crate) fn follow(
    kind: Kind,
    client: Client,
    inner: Arc<Inner>,
    synced: impl FnOnce() + Send + 'static,
    token: CancellationToken,
) -> BoxFuture<'static, ()> {
    macro_rules! one_of {
        ($($name:ident)*) => {
            match kind {
                $(Kind::$name => one::<$name>(client, inner, synced, token),)*
            }
        };
    }
    one_of!(
        Namespace Service ReplicationController ReplicaSet StatefulSet PodDisruptionBudget
        PersistentVolume PersistentVolumeClaim StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment
        ResourceClaim ResourceSlice DeviceClass
    )
}

fn one<K>(
    client: Client,
    inner: Arc<Inner>,
    synced: impl FnOnce() + Send + 'static,
    token: CancellationToken,
) -> BoxFuture<'static, ()>
where
    K: Stored + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    async move {
        let sink = ObjectSink { inner };
        feed::objects::<K>(K::KIND.name(), &client, sink, synced, token).await;
    }
    .boxed()
}

/// Takes objects of any kind.
struct ObjectSink {
    inner: Arc<Inner>,
}

impl<K: Stored + Resource> Sink<K> for ObjectSink {
    fn applied(&mut self, object: &Arc<K>) {
        let core = &self.inner.core;
        let applied =
            caught(|| core.with(|scheduler, now| scheduler.apply(object.clone().object(), now)));
        match applied {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, kind = K::KIND.name(), "an object is left out");
            }
            Err(panic) => self.panicked(object, &panic),
        }
    }

    fn deleted(&mut self, namespace: &str, name: &str, _uid: &str) {
        let key = ObjectKey {
            namespace: namespace.into(),
            name: name.into(),
        };
        let core = &self.inner.core;
        let removed = caught(|| core.with(|scheduler, now| scheduler.remove(K::KIND, &key, now)));
        if let Err(panic) = removed {
            let mistakes = &self.inner.mistakes;
            mistakes.unheard(K::KIND.name(), namespace, name, &panic);
        }
    }

    fn panicked(&mut self, object: &Arc<K>, panic: &str) {
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let mistakes = &self.inner.mistakes;
        mistakes.unheard(K::KIND.name(), namespace, name, panic);
    }
}
