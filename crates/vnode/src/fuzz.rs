//! Whatever a target says of itself, its virtual node stays one that the API server takes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use pilotage_absurd::{json, objects, text};
use pilotage_api::annotations::{is_label_value, is_qualified_name};
use pilotage_api::{ClusterSummary, Target, keys};
use pilotage_clusters::{Connection, LostReason, Since, TargetObject};
use pilotage_model::virtual_node::{self, TargetName};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::decide::{Memory, NodeState, Observed, Step, decide};

const NAME: TargetName<'static> = TargetName {
    namespace: Some("default"),
    name: "c2",
};

fn summary() -> BoxedStrategy<Value> {
    let amounts = json!({ "cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0" });
    objects::foreign(
        json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "ClusterSummary",
            "metadata": { "name": "singleton", "labels": { "topology.kubernetes.io/region": "eu" }, "annotations": {} },
            "clusterUid": "u", "capacity": amounts, "allocatable": amounts, "free": amounts,
            "freeShapes": [{ "nodes": 3, "free": amounts }, { "nodes": 1, "free": amounts }],
        }),
        &[keys::CLOUD_PROVIDER, keys::PROVIDER],
        &[keys::ZONES],
    )
}

fn target(regexp: &str) -> Option<TargetObject> {
    let target = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "Target",
        "metadata": { "name": "c2", "namespace": "default", "uid": "t", "finalizers": [keys::VIRTUAL_NODE_GONE] },
        "spec": { "self": true, "excludedLabelsRegexp": regexp },
    });
    let target: Target = serde_json::from_value(target).ok()?;
    TargetObject::from_target(&target)
}

pilotage_absurd::properties! {
    #[test]
    fn whatever_a_summary_says_the_node_is_of_bounded_size(
        summary in summary(), regexp in text::text(), lost in prop::option::of(text::text()), several in any::<bool>(),
        node in json::extreme(Just(objects::node())),
    ) {
        let Ok(summary) = serde_json::from_value::<ClusterSummary>(summary) else { return Ok(()) };
        let target = target(&regexp);
        let connection = match lost {
            Some(why) => Connection::Lost { since: Since::now(), reason: LostReason::Unreachable(why) },
            None => Connection::Connected { since: Since::now() },
        };
        let mut stands = virtual_node::create(NAME);
        stands["metadata"]["uid"] = "n".into();
        stands["metadata"]["resourceVersion"] = "7".into();
        stands["status"] = node["status"].clone();
        let Ok(stands) = serde_json::from_value::<Node>(stands) else { return Ok(()) };
        let observed = Observed {
            name: NAME, target: target.as_ref(), has_turn: true, connection: &connection,
                summary: Some(&summary), several_huge_page_sizes: several,
            node: NodeState::There(&stands), bound: None, kubelet: None, version: "0.1.0", now: Timestamp::UNIX_EPOCH,
        };
        for step in decide(&observed, &Memory::default()) {
            let (Step::Apply(value) | Step::ApplyStatus { value, .. }) = step else { continue };
            let map = |field: &str| -> BTreeMap<String, String> {
                serde_json::from_value(value["metadata"][field].clone()).unwrap_or_default()
            };
            let labels = map("labels");
            prop_assert!(labels.len() <= 300);
            prop_assert!(labels.iter().all(|(key, value)| is_qualified_name(key) && is_label_value(value)),
                "{:?}", labels);
            prop_assert!(pilotage_api::annotations::bytes(&map("annotations")) <= pilotage_api::annotations::LIMIT / 2);
            // What an API server takes in one request, and etcd in one object, is ten times as much.
            prop_assert!(value.to_string().len() <= 400 * 1024, "{} bytes", value.to_string().len());
        }
    }
}
