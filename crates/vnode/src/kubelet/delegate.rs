//! Which pod of which target a request may reach: the delegate of the proxy pod that it names, and no other. Pure.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::record::Record;
use pilotage_api::{annotations::is_subdomain, keys, names};

use super::refusal::Refusal;
use super::route::Route;
use crate::decide::is_proxy;

/// A proxy pod whose delegate may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// As it is written on the pod.
    pub(crate) record: String,
    /// The chaperon that it is granted to.
    granted: Record,
}

impl Proxy {
    /// The proxy that a request names, bound to this virtual node.
    pub(crate) fn of(pod: &Pod, node: &str, route: &Route) -> Result<Self, Refusal> {
        let meta = &pod.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        if uid.is_empty() || route.uid.as_ref().is_some_and(|asked| *asked != uid) {
            return Err(Refusal::absent("the pod of this name has another UID"));
        }
        if !is_proxy(pod) {
            let text =
                "nothing runs behind this pod: it isn't one that Pilotage has sent to a target";
            return Err(Refusal::absent(text));
        }
        let container = route.container.as_deref();
        if container.is_some_and(|name| !has_container(pod.spec.as_ref(), name)) {
            return Err(Refusal::absent("the pod has no container of this name"));
        }
        Self::recorded(meta, node)
            .ok_or_else(|| Refusal::absent("the pod isn't recorded at the target of its node"))
    }

    /// The pod with this metadata, if it is recorded behind this virtual node.
    pub(crate) fn recorded(meta: &ObjectMeta, node: &str) -> Option<Self> {
        let record = record(meta)?.clone();
        let granted: Record = record.parse().ok()?;
        let fits = granted.node == node;
        fits.then_some(())?;
        Some(Self {
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            record,
            granted,
        })
    }

    /// The name of its delegate, if that is known without a look: what has no attempt Admiralty may have granted, and
    /// then the API server made up the name.
    pub(crate) fn delegate(&self) -> Option<String> {
        let numbered = self.granted.attempt.is_some();
        numbered.then(|| names::chaperon(&self.namespace, &self.name, &self.uid))
    }

    /// The name of a pod of the target if that is its delegate: of that name, if it is known, and that parent, and
    /// controlled by the chaperon that was granted.
    pub(crate) fn name_of<'a>(&self, pod: &'a ObjectMeta) -> Option<&'a str> {
        let label = |key: &str| pod.labels.as_ref().and_then(|labels| labels.get(key));
        let mut owners = pod.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let is_of = pod.namespace.as_ref() == Some(&self.namespace)
            && label(keys::PARENT_UID) == Some(&self.uid)
            && controller.is_some_and(|owner| {
                owner.kind == "PodChaperon" && owner.uid == self.granted.chaperon_uid
            });
        // It becomes a part of a path, which a target could make lead elsewhere.
        let name = pod.name.as_deref().filter(|name| is_subdomain(name))?;
        let fits = self.delegate().is_none_or(|delegate| delegate == name);
        (is_of && fits).then_some(name)
    }

    /// Whether the pod of its name is still the same, recorded at the same place.
    pub(crate) fn is_still(&self, pod: &ObjectMeta) -> bool {
        pod.uid.as_ref() == Some(&self.uid) && record(pod) == Some(&self.record)
    }
}

fn record(meta: &ObjectMeta) -> Option<&String> {
    meta.annotations.as_ref()?.get(keys::GRANTED_TO)
}

pub(crate) fn has_container(spec: Option<&PodSpec>, name: &str) -> bool {
    spec.is_some_and(|spec| {
        let initial = spec.init_containers.iter().flatten();
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        spec.containers.iter().any(|it| it.name == name)
            || initial.into_iter().any(|it| it.name == name)
            || ephemeral.into_iter().any(|it| it.name == name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::route::Action;
    use super::*;

    const NODE: &str = "admiralty-shop-c2";

    fn route(uid: Option<&str>, container: &str) -> Route {
        Route {
            action: Action::Exec,
            namespace: "shop".into(),
            pod: "web".into(),
            uid: uid.map(str::to_owned),
            container: Some(container.to_owned()),
        }
    }

    fn proxy() -> Value {
        json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "p",
                "annotations": { keys::SOURCE_POD_MANIFEST: "{}", keys::GRANTED_TO: format!("{NODE}/c/3") },
            },
            "spec": {
                "containers": [{ "name": "app" }],
                "initContainers": [{ "name": "init" }],
                "ephemeralContainers": [{ "name": "debug" }],
            },
        })
    }

    fn found(pod: Value, route: &Route) -> Result<Proxy, Refusal> {
        Proxy::of(&serde_json::from_value(pod).unwrap(), NODE, route)
    }

    #[test]
    fn a_proxy_is_found_by_its_record() {
        for container in ["app", "init", "debug"] {
            let proxy = found(proxy(), &route(Some("p"), container)).unwrap();
            assert_eq!((&*proxy.uid, &*proxy.granted.chaperon_uid), ("p", "c"));
            let name = names::chaperon("shop", "web", "p");
            assert_eq!(proxy.delegate(), Some(name));
        }
        let mut elsewhere = proxy();
        elsewhere["metadata"]["annotations"][keys::GRANTED_TO] = "other/c/3".into();
        let mut damaged = proxy();
        damaged["metadata"]["annotations"][keys::GRANTED_TO] = NODE.into();
        let mut daemon = proxy();
        daemon["metadata"]["annotations"] = json!({ keys::GRANTED_TO: format!("{NODE}/c/3") });
        for (pod, route, word) in [
            (proxy(), route(Some("q"), "app"), "another UID"),
            (proxy(), route(None, "apps"), "no container"),
            (elsewhere, route(None, "app"), "isn't recorded"),
            (damaged, route(None, "app"), "isn't recorded"),
            (daemon, route(None, "app"), "nothing runs"),
        ] {
            let refusal = found(pod, &route).unwrap_err();
            assert_eq!(refusal.status, 404);
            assert!(refusal.text.contains(word), "{}", refusal.text);
        }
    }

    #[test]
    fn no_pod_but_the_delegate_is_reached() {
        let proxy = found(proxy(), &route(None, "app")).unwrap();
        let delegate = || {
            json!({
                "name": proxy.delegate(), "namespace": "shop", "labels": { keys::PARENT_UID: "p" },
                "ownerReferences": [{
                    "apiVersion": "x/v1", "kind": "PodChaperon", "name": "n", "uid": "c", "controller": true,
                }],
            })
        };
        let name_of = |meta: Value| {
            let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
            proxy.name_of(&meta).map(str::to_owned)
        };
        let is = |meta: Value| name_of(meta).is_some();
        assert_eq!(name_of(delegate()), proxy.delegate());
        for (pointer, value) in [
            ("/name", json!("other")),
            ("/namespace", json!("kube-system")),
            ("/labels", json!({ keys::PARENT_UID: "q" })),
            ("/labels", json!(null)),
            ("/ownerReferences", json!([])),
            ("/ownerReferences/0/uid", json!("d")),
            ("/ownerReferences/0/kind", json!("ReplicaSet")),
            ("/ownerReferences/0/controller", json!(false)),
        ] {
            let mut other = delegate();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(!is(other), "{pointer}");
        }
    }

    #[test]
    fn what_admiralty_granted_is_found_by_its_chaperon_whatever_its_name() {
        let mut migrated = proxy();
        migrated["metadata"]["annotations"][keys::GRANTED_TO] = format!("{NODE}/c/-").into();
        let proxy = found(migrated, &route(None, "app")).unwrap();
        assert_eq!(proxy.delegate(), None);
        let name_of = |name: &str, uid: &str| {
            let meta = json!({
                "name": name, "namespace": "shop", "labels": { keys::PARENT_UID: "p" },
                "ownerReferences": [{
                    "apiVersion": "x/v1", "kind": "PodChaperon", "name": "n", "uid": uid, "controller": true,
                }],
            });
            let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
            proxy.name_of(&meta).map(str::to_owned)
        };
        assert_eq!(name_of("web-x7k2p", "c").as_deref(), Some("web-x7k2p"));
        assert_eq!(name_of("web-x7k2p", "d"), None, "of another chaperon");
        for name in ["", "..", "a/b", "a?b", "a%2fb", "A", ".a", &"a".repeat(254)] {
            assert_eq!(name_of(name, "c"), None, "no name of a pod: {name}");
        }
    }

    #[test]
    fn a_proxy_that_was_made_anew_or_recorded_anew_is_another() {
        let proxy = found(proxy(), &route(None, "app")).unwrap();
        let still = |uid: &str, record: &str| {
            let meta = json!({ "uid": uid, "annotations": { keys::GRANTED_TO: record } });
            proxy.is_still(&serde_json::from_value(meta).unwrap())
        };
        let record = format!("{NODE}/c/3");
        assert!(still("p", &record));
        assert!(!still("q", &record) && !still("p", "other/c/3") && !still("p", ""));
    }
}
