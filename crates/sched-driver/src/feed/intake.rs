//! Objects of lists and events, of each as little read at once as is looked at: a page of whole ones would take too
//! much, and whoever may create them says how much. Must not know who is told of them.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::Event;
use pilotage_runtime::guarded::Guarded;
use pilotage_runtime::thin::{Path, Thin, thin};
use pilotage_runtime::weight;
use pilotage_sched::{Kind, Stored};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::lean;
use crate::outline;

/// How objects of a kind are read.
pub(super) trait Reading<K> {
    /// Reads an object's JSON.
    fn read(text: &str) -> Guarded<K>;
}

/// An object of which no more was read than is looked at.
#[derive(Clone, Debug)]
pub(super) struct Lean<K, R>(Guarded<K>, PhantomData<R>);

impl<K, R> Lean<K, R> {
    pub(super) fn into_inner(self) -> Guarded<K> {
        self.0
    }
}

impl<'de, K, R: Reading<K>> Deserialize<'de> for Lean<K, R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(R::read(text.get()), PhantomData))
    }
}

impl<K: Resource, R> Resource for Lean<K, R> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// The event about what was read.
pub(super) fn bare<K, R>(event: Event<Lean<K, R>>) -> Event<Guarded<K>> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(object.0),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(object.0),
        Event::Delete(object) => Event::Delete(object.0),
    }
}

// ---- pods -------------------------------------------------------------------------------------------------------

/// A pod whose JSON would take more is read in outline.
const MOST: usize = 8 << 20;
/// One of which more is left has an outline made of it. Usual ones have a hundredth of that.
const MOST_LEFT: usize = 1 << 20;
/// Of a shorter text no more is left.
const SHORT: usize = 64 << 10;

/// Reads pods without what nobody looks at.
#[derive(Clone, Debug)]
pub(super) enum LeanPods {}

impl Reading<Pod> for LeanPods {
    fn read(text: &str) -> Guarded<Pod> {
        let mut guarded = Guarded::read_within(text, MOST, outline::read);
        if let Ok(pod) = &mut guarded.0 {
            lean::dropping(pod, lean::pod);
            if text.len() > SHORT && weight::of(&*pod) > MOST_LEFT {
                outline::fold(pod);
            }
        }
        guarded
    }
}

// ---- other objects ----------------------------------------------------------------------------------------------

/// What each field may weigh of an object. One with more isn't read at all.
const FIELD: usize = 1 << 20;
const NAME: Path = &["metadata", "name"];
const NAMESPACE: Path = &["metadata", "namespace"];
const UID: Path = &["metadata", "uid"];
const VERSION: Path = &["metadata", "resourceVersion"];
const SELECTOR: Path = &["spec", "selector"];

/// Reads of other objects what stays of them.
#[derive(Clone, Debug)]
pub(super) enum Fields {}

impl<K: Stored + Resource + DeserializeOwned> Reading<K> for Fields {
    fn read(text: &str) -> Guarded<K> {
        let Some(fields) = fields(K::KIND) else {
            let mut guarded = Guarded::read(text);
            if let Ok(object) = &mut guarded.0 {
                lean::dropping(object, lean::object);
            }
            return guarded;
        };
        // Whatever it weighs.
        Guarded::read_within(text, 0, |text| {
            let Thin { text, left_out } = thin(text, fields, FIELD)?;
            if left_out.is_empty() {
                serde_json::from_str(&text)
            } else {
                let why = "what is looked at of it is too heavy";
                Err(serde_json::Error::custom(why))
            }
        })
    }
}

/// [`Kind::fields`], and who the object is.
fn fields(kind: Kind) -> Option<&'static [Path]> {
    match kind {
        Kind::Namespace => Some(&[NAME, NAMESPACE, UID, VERSION, &["metadata", "labels"]]),
        Kind::Service | Kind::ReplicationController | Kind::ReplicaSet | Kind::StatefulSet => {
            Some(&[NAME, NAMESPACE, UID, VERSION, SELECTOR])
        }
        Kind::PodDisruptionBudget => Some(&[
            NAME,
            NAMESPACE,
            UID,
            VERSION,
            SELECTOR,
            &["status", "disruptedPods"],
            &["status", "disruptionsAllowed"],
        ]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::ReplicaSet;
    use pilotage_sched::{Defect, PodInfo};
    use serde_json::{Value, json};

    use super::*;

    /// What is left of a pod, and what it weighs.
    fn left(containers: usize, volumes: usize) -> (PodInfo, usize) {
        let container = |number: usize| {
            json!({
                "name": format!("c{number}"), "image": "i", "env": [{ "name": "A", "value": "b" }],
                "resources": { "requests": { "cpu": "1m" } },
            })
        };
        let volume = |number: usize| json!({ "name": format!("v{number}"), "emptyDir": {} });
        let pod = json!({
            "metadata": { "namespace": "shop", "name": "web", "uid": "u" },
            "spec": {
                "containers": (0..containers).map(container).collect::<Vec<Value>>(),
                "volumes": (0..volumes).map(volume).collect::<Vec<Value>>(),
            },
        });
        let read: Lean<Pod, LeanPods> = serde_json::from_str(&pod.to_string()).unwrap();
        let pod = read.0.0.unwrap();
        let weight = weight::of(&pod);
        (PodInfo::parse(Arc::new(pod)).unwrap(), weight)
    }

    #[test]
    fn of_a_heavy_pod_little_is_left_and_its_amounts_are_the_same() {
        for (containers, volumes, outlined) in [
            (10, 0, false),
            (10, 3_000, false),
            (10, 60_000, true),
            (1_000, 0, true),
            (5_000, 0, true),
            (5_000, 60_000, true),
        ] {
            let (pod, weight) = left(containers, volumes);
            let millis = i64::try_from(containers).unwrap();
            assert_eq!(pod.needs.requests.total.milli_cpu, millis);
            let defects: &[Defect] = if outlined { &[Defect::Outline] } else { &[] };
            assert_eq!(pod.defects(), defects, "{containers} {volumes}");
            assert!(weight < 64 << 10, "{containers} {volumes}: {weight}");
        }
    }

    #[test]
    fn of_other_objects_what_stays_is_read_and_nothing_else() {
        for kind in Kind::ALL.iter().copied() {
            let read = fields(kind).map(|fields| {
                let stays = fields.iter().skip(4);
                let pointers = stays.map(|path| format!("/{}", path.join("/")));
                pointers.collect::<Vec<_>>()
            });
            let stays = kind.fields().map(|fields| {
                let fields = fields.iter().map(|field| (*field).to_owned());
                fields.collect::<Vec<_>>()
            });
            assert_eq!(read, stays, "{}", kind.name());
        }
        let set = |values: usize| {
            let values: Vec<String> = (0..values).map(|it| it.to_string()).collect();
            let selector =
                json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": values }] });
            let volumes = vec![json!({ "name": "v", "emptyDir": {} }); 10_000];
            let set = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": { "namespace": "shop", "name": "web", "uid": "u", "annotations": { "a": "b" } },
                "spec": { "selector": selector, "template": { "spec": { "containers": [], "volumes": volumes } } },
            });
            let read: Lean<ReplicaSet, Fields> = serde_json::from_str(&set.to_string()).unwrap();
            read.0
        };
        let light = set(10).0.unwrap();
        let spec = light.spec.unwrap();
        assert_eq!(light.metadata.uid.as_deref(), Some("u"));
        assert_eq!(spec.selector.match_expressions.unwrap()[0].key, "a");
        assert!(spec.template.is_none() && light.metadata.annotations.is_none());
        let heavy = set(100_000);
        assert!(heavy.0.is_err());
        assert_eq!(heavy.meta().name.as_deref(), Some("web"));
    }
}
