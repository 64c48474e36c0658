//! What events are about. It must not know what is told.

use kube::Resource;
use pilotage_sched_driver::publish::Regarding;

/// An object, whether the API server sent it whole or not.
pub(crate) fn object<K: Resource<DynamicType = ()>>(object: &K) -> Regarding {
    let meta = object.meta();
    Regarding {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
    }
}
