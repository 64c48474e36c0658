//! Pods that are too dear for a full cluster come one after another. Our framework says on which node room is made for
//! each, and who has to go; the real binary and ours do so, and the pod gets that node.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use pilotage_sched_diff::side::Side as _;
use pilotage_testkit::{build, wait_for};
use serde_json::json;

use super::{LIMIT, Yard, condition, node_of, value, yards};

const CLASSES: [(&str, i32); 3] = [("low", 10), ("middle", 100), ("dear", 1000)];
/// Who is on which node, of which class, with how many of its four cores. No two nodes cost the same.
const THERE: [(&str, &str, &str, &str); 4] = [
    ("alone", "n-middle", "middle", "4"),
    ("first", "n-two", "low", "2"),
    ("second", "n-two", "low", "2"),
    ("cheap", "n-one", "low", "4"),
];
/// Who goes, and from where, for one pod after the other: the lowest priorities, of these the fewest.
const GOES: [(&str, &[&str]); 3] = [
    ("n-one", &["cheap"]),
    ("n-two", &["first", "second"]),
    ("n-middle", &["alone"]),
];

impl Yard {
    async fn fill(&self) {
        let classes: Api<PriorityClass> = Api::all(self.plane.admin());
        for (name, priority) in CLASSES {
            let class = json!({ "metadata": { "name": name }, "value": priority });
            let class = serde_json::from_value(class).unwrap();
            let created = classes.create(&PostParams::default(), &class).await;
            created.unwrap();
        }
        for (node, _) in GOES {
            self.add_node(&build::node(node).value()).await;
        }
        for (name, node, class, cpu) in THERE {
            let pod = build::pod(name).priority_class(class).node_name(node);
            self.add_pod(pod.request("cpu", cpu)).await;
        }
        self.see(0).await;
    }

    /// A dear pod comes, and gets the room of others.
    async fn evict(&self, name: &str, (node, victims): (&str, &[&str])) {
        let what = format!("{}, {name}", self.plane.name());
        let dear = build::pod(name).priority_class("dear").request("cpu", "4");
        let dear = self.add_pod(dear).await;
        let mut framework = self.framework(&dear).await;
        let expected = framework.evaluate(&value(&dear)).unwrap();
        assert_eq!(expected.nominated.as_deref(), Some(node), "{what}");
        let keys = victims.iter().map(|victim| format!("default/{victim}"));
        assert!(keys.eq(expected.victims), "{what}");
        assert_eq!(expected.candidates.len(), 1, "{what}: the choice is clear");

        let pods = self.pods("default");
        let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        for victim in victims {
            let going = wait_for(&pods, victim, is_going, LIMIT).await;
            going.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let all = pods.list(&ListParams::default()).await.unwrap();
        let mut going: Vec<_> = all.iter().filter(|pod| is_going(pod)).collect();
        going.sort_by_key(|pod| pod.name_any());
        let going: Vec<_> = going.iter().map(|pod| pod.name_any()).collect();
        assert_eq!(going, victims, "{what}: nobody else goes");
        let is_nominated = |pod: &Pod| {
            let status = pod.status.as_ref();
            let nominated = status.and_then(|status| status.nominated_node_name.as_deref());
            nominated == Some(node)
        };
        let waits = wait_for(&pods, name, is_nominated, LIMIT).await.unwrap();
        assert_eq!(node_of(&waits), None, "{what}: victims are still there");
        let reason = condition(&waits).and_then(|condition| condition.reason.as_deref());
        assert_eq!(reason, Some("Unschedulable"), "{what}");

        for victim in victims {
            self.delete("default", victim).await;
        }
        let bound = wait_for(&pods, name, |pod| node_of(pod).is_some(), LIMIT).await;
        assert_eq!(node_of(&bound.unwrap()), Some(node), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_binary_and_ours_evict_whom_our_framework_says() {
    let (both, process) = yards(["real-evicts", "ours-evicts"]).await;
    for yard in &both {
        yard.fill().await;
        for (number, goes) in GOES.into_iter().enumerate() {
            yard.evict(&format!("dear-{number}"), goes).await;
        }
    }
    for yard in both {
        yard.plane.stop().await;
    }
    drop(process);
}
