//! Pods that are too dear for a full cluster come one after another. Our framework says on which node room is made for
//! each, and who has to go; the real binary and ours do so, say the same of it, and the pod gets that node.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_sched_diff::side::Side as _;
use pilotage_testkit::{build, list_until, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Yard, condition, node_of, value, yards};

const CLASSES: [(&str, i32); 3] = [("low", 10), ("middle", 100), ("dear", 1000)];
/// Who is on which node, of which class, with how many of its four cores. No two nodes cost the same.
const THERE: [(&str, &str, &str, &str); 7] = [
    ("alone", "n-middle", "middle", "4"),
    ("first", "n-two", "low", "2"),
    ("second", "n-two", "low", "2"),
    ("cheap", "n-one", "low", "4"),
    ("kept-1", "n-kept", "low", "1"),
    ("kept-2", "n-kept", "low", "1"),
    ("kept-3", "n-kept", "low", "2"),
];
/// The pods on this node a budget covers.
const KEPT: &str = "n-kept";
/// Who goes, and from where, for one pod after the other: no budget is broken without need; then the lowest priorities,
/// of these the fewest.
const GOES: [(&str, &[&str]); 4] = [
    ("n-one", &["cheap"]),
    ("n-two", &["first", "second"]),
    ("n-middle", &["alone"]),
    (KEPT, &["kept-1", "kept-2", "kept-3"]),
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
        let budget = json!({ "metadata": { "name": KEPT },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "on": KEPT } } } });
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.plane.admin(), "default");
        let budget = serde_json::from_value(budget).unwrap();
        let created = budgets.create(&PostParams::default(), &budget).await;
        created.unwrap();
        for (name, node, class, cpu) in THERE {
            let pod = build::pod(name).priority_class(class).node_name(node);
            self.add_pod(pod.label("on", node).request("cpu", cpu))
                .await;
        }
        self.see(0).await;
    }

    /// A dear pod comes, and gets the room of others. What was said of each of them.
    async fn evict(&self, name: &str, (node, victims): (&str, &[&str])) -> Vec<Value> {
        let what = format!("{}, {name}", self.plane.name());
        let dear = build::pod(name).priority_class("dear").request("cpu", "4");
        // Once the pod is there its victims may be going already.
        let mut framework = self.framework(&dear.clone().build()).await;
        let dear = self.add_pod(dear).await;
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
        let mut told = Vec::new();
        for victim in &going {
            let event = self.preempted(victim, &what).await;
            told.push(said_of(victim, &event, &dear));
        }
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
        told
    }

    /// The event about a pod that had to go.
    async fn preempted(&self, victim: &Pod, what: &str) -> Event {
        let is_it = |event: &Event| {
            let about = event.regarding.as_ref().and_then(|it| it.uid.as_ref());
            about == victim.metadata.uid.as_ref() && event.reason.as_deref() == Some("Preempted")
        };
        let events: Api<Event> = Api::namespaced(self.plane.admin(), "default");
        let all = watcher::Config::default();
        let seen = list_until(&events, all, |all| all.values().any(is_it), LIMIT).await;
        let seen = seen.unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut found = seen.into_iter().filter(is_it);
        let event = found.next().unwrap();
        assert_eq!(found.next(), None, "{what}: it is told once");
        event
    }
}

/// What was said of a pod that had to go, in its condition and in the event. UIDs are those of one cluster.
fn said_of(victim: &Pod, event: &Event, preemptor: &Pod) -> Value {
    let conditions = victim.status.as_ref().and_then(|it| it.conditions.as_ref());
    let targets = conditions.into_iter().flatten();
    let targets = targets.filter(|condition| condition.type_ == "DisruptionTarget");
    let targets = targets.map(|condition| {
        let generation = condition.observed_generation;
        json!([
            condition.status,
            condition.reason,
            condition.message,
            generation
        ])
    });
    let note = event.note.clone().unwrap_or_default();
    let name = |object: &Option<ObjectReference>| {
        let object = object.clone().unwrap_or_default();
        json!([
            object.api_version,
            object.kind,
            object.namespace,
            object.name
        ])
    };
    json!({
        "conditions": targets.collect::<Vec<_>>(),
        "type": event.type_,
        "action": event.action,
        "note": note.replace(&preemptor.uid().unwrap(), "UID"),
        "regarding": name(&event.regarding),
        "related": name(&event.related),
        "controller": event.reporting_controller,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_binary_and_ours_evict_whom_our_framework_says() {
    let (both, process) = Box::pin(yards(["real-evicts", "ours-evicts"])).await;
    let mut told = Vec::new();
    for yard in &both {
        yard.fill().await;
        let mut of_all = Vec::new();
        for (number, goes) in GOES.into_iter().enumerate() {
            let name = format!("dear-{number}");
            let evicting = Box::pin(yard.evict(&name, goes));
            of_all.extend(evicting.await);
        }
        assert_eq!(of_all.len(), THERE.len());
        assert!(of_all.iter().all(|said| said["conditions"][0].is_array()));
        told.push(of_all);
    }
    let named = |all: &mut Vec<Value>| {
        let related = all.iter_mut().map(|said| said["related"].take());
        related.collect::<Vec<_>>()
    };
    let [real, ours] = [0, 1].map(|side| named(&mut told[side]));
    // An explained difference: the real one's recorder doesn't know what it is given.
    let nobody = json!([null, null, null, null]);
    assert!(real.iter().all(|name| *name == nobody), "{real:?}");
    let dear = |name: &Value| name[3].as_str().is_some_and(|it| it.starts_with("dear-"));
    assert!(ours.iter().all(dear), "{ours:?}");
    assert_eq!(told[1], told[0], "ours, and the real one");
    for yard in both {
        yard.plane.stop().await;
    }
    drop(process);
}
