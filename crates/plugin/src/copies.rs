//! Copies of what followed pods that stay in a target. Pilotage deletes them, but only while their kind follows: those
//! that a connection leaves there are found and told with the command that deletes them. Nothing is deleted here.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use pilotage_api::parent::{ClusterUid, selector_of_source};
use pilotage_runtime::call::{CALL_LIMIT, Failure};
use pilotage_runtime::pages;

use crate::cluster::Cluster;
use crate::progress;
use crate::table::plain;

/// Their kinds, as kubectl takes them.
const KINDS: &str = "configmaps,secrets,services,ingresses";
/// So many are named.
const NAMED: usize = 10;

/// Those that were found.
#[derive(Debug, Default)]
struct Left {
    /// The first of them.
    named: Vec<String>,
    /// How many more there are.
    more: usize,
}

/// What is to be said of the copies that this source has in a target, in one namespace or in all; nothing, if none is
/// seen. What can't be looked at is told as a warning.
pub(crate) async fn left(
    target: &Cluster,
    namespace: Option<&str>,
    source: Option<&str>,
) -> String {
    let Some(source) = source else {
        progress(
            "warning: target: copies of what followed pods may be left there: they are known by the UID of the \
             source's namespace kube-system, which you may not read",
        );
        return String::new();
    };
    let selector = selector_of_source(&ClusterUid(source.to_owned()));
    let mut left = Left::default();
    left.look::<ConfigMap>(target, namespace, &selector).await;
    left.look::<Secret>(target, namespace, &selector).await;
    left.look::<Service>(target, namespace, &selector).await;
    left.look::<Ingress>(target, namespace, &selector).await;
    left.told(&target.flags("--context"), namespace, &selector)
}

impl Left {
    async fn look<K: Resource<DynamicType = ()>>(
        &mut self,
        target: &Cluster,
        namespace: Option<&str>,
        selector: &str,
    ) {
        let (api, kind) = (target.untyped::<K>(namespace), K::kind(&()));
        let params = ListParams::default().labels(selector);
        let take = |it: PartialObjectMeta<DynamicObject>| self.add(&kind, &it.metadata);
        if let Err(error) = pages::each_metadata(CALL_LIMIT, &api, params, take).await {
            let why = match error.kind() {
                Failure::Forbidden => "you may not list them".to_owned(),
                _ => error.message(),
            };
            progress(&format!(
                "warning: target: {} that followed pods may be left there: {why}",
                K::plural(&())
            ));
        }
    }

    fn add(&mut self, kind: &str, meta: &ObjectMeta) {
        if self.named.len() >= NAMED {
            self.more = self.more.saturating_add(1);
            return;
        }
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        self.named
            .push(plain(&format!("{kind} {namespace}/{name}")));
    }

    fn told(&self, reach: &str, namespace: Option<&str>, selector: &str) -> String {
        let Self { named, more } = self;
        if named.is_empty() {
            return String::new();
        }
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = match namespace {
            Some(namespace) => format!("--namespace {namespace}"),
            None => "--all-namespaces".to_owned(),
        };
        format!(
            "copies of what followed pods are left in the target, and nobody deletes them any more: {}{more}; unless \
             another Target leads there: kubectl {reach} delete {KINDS} {place} --selector {selector}\n",
            named.join(", ")
        )
    }
}

/// What is to be said if some of the kinds that follow, as the controllers say, aren't among those that will.
pub(crate) fn turned_off(said: Option<&str>, will: &[&str]) -> Option<String> {
    let kinds = said?.split(',').filter(|it| !it.is_empty());
    let gone = kinds.filter(|it| !will.contains(it));
    let gone = gone.collect::<Vec<_>>().join(", ");
    (!gone.is_empty()).then(|| {
        format!(
            "{gone} followed pods so far, and don't any more: copies that are in targets stay there, and nobody \
             deletes them"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(copies: usize) -> Left {
        let mut left = Left::default();
        for number in 0..copies {
            let meta = ObjectMeta {
                namespace: Some("shop".to_owned()),
                name: Some(format!("a{number}")),
                ..ObjectMeta::default()
            };
            left.add("Secret", &meta);
        }
        left
    }

    #[test]
    fn copies_that_are_left_are_told_with_the_command_that_deletes_them() {
        let told = |copies, namespace| left(copies).told("--context paris", namespace, "a=b");
        assert_eq!(told(0, None), "");
        assert_eq!(
            told(2, Some("shop")),
            "copies of what followed pods are left in the target, and nobody deletes them any more: Secret shop/a0, \
             Secret shop/a1; unless another Target leads there: kubectl --context paris delete \
             configmaps,secrets,services,ingresses --namespace shop --selector a=b\n"
        );
        let many = told(12, None);
        assert!(many.contains("Secret shop/a9 and 2 more; "), "{many}");
        assert!(many.contains("--all-namespaces --selector a=b"), "{many}");
    }

    #[test]
    fn kinds_that_follow_no_more_are_told() {
        let said = "configmaps,secrets,services";
        let note = turned_off(Some(said), &["configmaps"]).unwrap();
        assert!(note.starts_with("secrets, services followed"), "{note}");
        assert_eq!(
            turned_off(Some(said), &["services", "secrets", "configmaps"]),
            None
        );
        for nothing in [Some(""), None] {
            assert_eq!(turned_off(nothing, &[]), None);
        }
    }
}
