//! Labels of a target that Kubernetes acts on, where a namespace's Target names it: on its node they would have a say
//! about pods of everybody, so they stand in an annotation, which those read who schedule proxies. Knows no summary.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use pilotage_api::annotations::{is_label_value, is_qualified_name};
use pilotage_api::keys;

use super::shown::HOSTNAME;
use super::{TargetName, is_ours};

/// How many of them are told: all annotations of a node together have to pass the API server.
const TOLD: usize = 64;

/// Those that stand on the node as labels, and the others.
pub(super) fn split(
    target: TargetName<'_>,
    labels: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (quiet, shown): (BTreeMap<_, _>, _) = (labels.clone().into_iter())
        .partition(|(key, _)| target.namespace.is_some() && keys::is_of_kubernetes(key));
    (shown, quiet.into_iter().take(TOLD).collect())
}

/// Gives a virtual node all labels of its target, for whoever schedules proxies, and its own name as the host's: to
/// those it is one place, as a machine is to other pods. A label that stands there counts before what is told of it.
pub fn tell_labels(node: &mut Node) {
    if !is_ours(node) {
        return;
    }
    let annotations = node.metadata.annotations.as_mut();
    let told = annotations.and_then(|all| all.remove(keys::LABELS));
    let told = told.and_then(|text| serde_json::from_str::<BTreeMap<String, String>>(&text).ok());
    let told = told.into_iter().flatten().filter(|(key, value)| {
        keys::is_of_kubernetes(key) && is_qualified_name(key) && is_label_value(value)
    });
    let labels = node.metadata.labels.get_or_insert_default();
    let name = node.metadata.name.clone().unwrap_or_default();
    labels.entry(HOSTNAME.to_owned()).or_insert(name);
    for (key, value) in told.take(TOLD) {
        labels.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::map;
    use super::super::{Published, apply, create};
    use super::*;

    const ZONE: &str = "topology.kubernetes.io/zone";
    const TENANTS: TargetName<'static> = TargetName {
        namespace: Some("shop"),
        name: "c2",
    };

    fn told() -> BTreeMap<String, String> {
        map(&[
            (ZONE, "evil"),
            ("kubernetes.io/arch", "arm64"),
            ("node.kubernetes.io/instance-type", "m5"),
            ("cloud.google.com/gke-nodepool", "a"),
            ("tier", "gold"),
        ])
    }

    #[test]
    fn a_tenants_target_has_no_label_that_kubernetes_acts_on_and_who_schedules_proxies_reads_all() {
        let applied = apply(TENANTS, &told(), Published::default(), false);
        let labels = applied["metadata"]["labels"].as_object().unwrap();
        let own = create(TENANTS)["metadata"]["labels"].clone();
        assert_eq!(own.get(HOSTNAME), None, "it would be a machine to others");
        for key in labels.keys().filter(|key| keys::is_of_kubernetes(key)) {
            assert!(own.get(key).is_some(), "{key}");
        }
        assert_eq!(labels["tier"], "gold");
        assert_eq!(labels["cloud.google.com/gke-nodepool"], "a");

        let mut node: Node = serde_json::from_value(applied).unwrap();
        tell_labels(&mut node);
        let all = node.metadata.labels.unwrap();
        for (key, value) in told() {
            assert_eq!(all.get(&key), Some(&value), "{key}");
        }
        assert_eq!(all["kubernetes.io/role"], "cluster");
        assert_eq!(all[HOSTNAME], TENANTS.node());
        assert!(
            !node
                .metadata
                .annotations
                .unwrap()
                .contains_key(keys::LABELS)
        );
    }

    #[test]
    fn an_operators_target_shows_all_of_its_labels() {
        let everybodys = TargetName {
            namespace: None,
            name: "c2",
        };
        let applied = apply(everybodys, &told(), Published::default(), false);
        assert_eq!(applied["metadata"]["labels"][ZONE], "evil");
        assert_eq!(applied["metadata"].get("annotations"), None);
    }

    #[test]
    fn what_is_told_changes_no_other_label_and_no_other_node() {
        let node = |provider: &str, told: &str| -> Node {
            let labels = json!({ keys::PROVIDER: provider, ZONE: "a", HOSTNAME: "h" });
            let annotations = json!({ keys::LABELS: told });
            let meta = json!({ "name": "n", "labels": labels, "annotations": annotations });
            serde_json::from_value(json!({ "metadata": meta })).unwrap()
        };
        let text = json!({ ZONE: "b", keys::TARGET_NAME: "c3", "tier": "gold", "kubernetes.io/os": "a b" });
        let text = text.to_string();
        for (provider, told) in [("other", &*text), ("admiralty", &*text), ("admiralty", "[")] {
            let mut node = node(provider, told);
            let before = node.metadata.labels.clone();
            tell_labels(&mut node);
            assert_eq!(node.metadata.labels, before, "{provider}: {told}");
        }
    }

    #[test]
    fn as_many_are_told_as_a_node_has_room_for() {
        let long = "x".repeat(63);
        let many = (0..256).map(|number| {
            (
                format!("{number}{}.k8s.io/{long}", ".x".repeat(120)),
                long.clone(),
            )
        });
        let applied = apply(TENANTS, &many.collect(), Published::default(), false);
        let text = applied["metadata"]["annotations"][keys::LABELS]
            .as_str()
            .unwrap();
        assert!(text.len() < 32 << 10, "{}", text.len());
        assert!(text.len() > 16 << 10, "{}", text.len());
    }
}
