use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilotage_api::{Target, TargetSpec};
use pilotage_clusters::{LostReason, Since};
use serde_json::json;

use super::*;

const NAME: TargetName<'static> = TargetName {
    namespace: Some("default"),
    name: "c2",
};

fn target(finalizers: &[&str], deleting: bool) -> TargetObject {
    let mut target = Target::new(
        "c2",
        TargetSpec {
            self_: Some(true),
            ..TargetSpec::default()
        },
    );
    target.metadata.namespace = Some("default".into());
    target.metadata.uid = Some("t".into());
    target.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
    target.metadata.deletion_timestamp = deleting.then_some(Time(Timestamp::UNIX_EPOCH));
    TargetObject::from_target(&target).unwrap()
}

fn ours() -> TargetObject {
    target(&[keys::VIRTUAL_NODE_GONE], false)
}

fn node(extra: Value) -> Node {
    let mut value = virtual_node::create(NAME);
    merge(
        &mut value,
        json!({ "metadata": { "uid": "n", "resourceVersion": "7" } }),
    );
    merge(&mut value, extra);
    serde_json::from_value(value).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn summary(labels: &[(&str, &str)], cpu: &str) -> ClusterSummary {
    let mut summary = ClusterSummary::default();
    summary.metadata.labels = Some(
        labels
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
    );
    let resources: ResourceList = [("cpu".to_owned(), Quantity(cpu.into()))].into();
    summary.capacity = Some(resources.clone());
    summary.allocatable = Some(resources);
    summary
}

fn connected() -> Connection {
    Connection::Connected {
        since: Since::now(),
    }
}

fn lost() -> Connection {
    Connection::Lost {
        since: Since::now(),
        reason: LostReason::Unreachable("no route".into()),
    }
}

struct Case<'a> {
    target: Option<&'a TargetObject>,
    connection: Connection,
    summary: Option<&'a ClusterSummary>,
    node: NodeState<'a>,
    bound: Option<&'a [Arc<Pod>]>,
}

impl Case<'_> {
    fn decide(&self, memory: &Memory) -> Vec<Step> {
        self.decide_with(memory, None, true)
    }

    fn decide_with(
        &self,
        memory: &Memory,
        kubelet: Option<&KubeletEndpoint>,
        has_turn: bool,
    ) -> Vec<Step> {
        let Self {
            target,
            connection,
            summary,
            node,
            bound,
        } = self;
        decide(
            &Observed {
                name: NAME,
                target: *target,
                has_turn,
                connection,
                summary: *summary,
                several_huge_page_sizes: false,
                node: *node,
                bound: *bound,
                kubelet,
                version: "0.1.0",
                now: Timestamp::UNIX_EPOCH,
            },
            memory,
        )
    }
}

/// What is remembered after the steps, as the actor does it.
fn remember(steps: &[Step]) -> Memory {
    let mut memory = Memory {
        uid: Some("n".into()),
        ..Memory::default()
    };
    for step in steps {
        match step {
            Step::Apply(value) => memory.applied = Some(value.clone()),
            Step::ApplyStatus { key, .. } => memory.status = Some((**key).clone()),
            _ => {}
        }
    }
    memory
}

/// The node after the steps, as the API server would have it.
fn after(node: &Node, steps: &[Step]) -> Node {
    let mut value = serde_json::to_value(node).unwrap();
    for step in steps {
        match step {
            Step::Apply(applied) | Step::ApplyStatus { value: applied, .. } => {
                merge(&mut value, applied.clone());
            }
            _ => {}
        }
    }
    serde_json::from_value(value).unwrap()
}

#[test]
fn finalizer_then_node_then_status_then_nothing() {
    let bare = target(&[], false);
    let summary = summary(&[("tier", "gold")], "8");
    let case = |target, node| Case {
        target: Some(target),
        connection: connected(),
        summary: Some(&summary),
        node,
        bound: None,
    };
    assert_eq!(
        case(&bare, NodeState::Absent).decide(&Memory::default()),
        [Step::AddFinalizer]
    );
    let ours = ours();
    assert_eq!(
        case(&ours, NodeState::Unknown).decide(&Memory::default()),
        []
    );
    let create = case(&ours, NodeState::Absent).decide(&Memory::default());
    assert_eq!(create, [Step::Create(virtual_node::create(NAME))]);

    let new = node(json!({}));
    let steps = case(&ours, NodeState::There(&new)).decide(&Memory::default());
    let [Step::Apply(applied), Step::ApplyStatus { value, .. }] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(applied["metadata"]["labels"]["tier"], "gold");
    assert_eq!(value["status"]["allocatable"]["cpu"], "8");
    assert_eq!(value["status"]["conditions"][0]["status"], "True");
    let settled = after(&new, &steps);
    assert_eq!(
        case(&ours, NodeState::There(&settled)).decide(&remember(&steps)),
        []
    );
    // Another node under the name knows nothing of that.
    let mut other = settled.clone();
    other.metadata.uid = Some("m".into());
    assert_eq!(
        case(&ours, NodeState::There(&other))
            .decide(&remember(&steps))
            .len(),
        2
    );
}

#[test]
fn who_is_too_young_has_no_node_made_and_keeps_one_that_is_there() {
    let (bare, ours, ending) = (
        target(&[], false),
        ours(),
        target(&[keys::VIRTUAL_NODE_GONE], true),
    );
    let decide = |target, node, has_turn| {
        let case = Case {
            target: Some(target),
            connection: lost(),
            summary: None,
            node,
            bound: None,
        };
        case.decide_with(&Memory::default(), None, has_turn)
    };
    for target in [&bare, &ours] {
        assert_eq!(decide(target, NodeState::Unknown, false), []);
        assert_eq!(decide(target, NodeState::Absent, false), []);
        assert_ne!(decide(target, NodeState::Absent, true), []);
    }
    // It goes as any other.
    let absent = NodeState::Absent;
    assert_eq!(decide(&ending, absent, false), [Step::RemoveFinalizer]);
    // Pods may be on it.
    let stands = node(json!({}));
    let there = NodeState::There(&stands);
    assert_eq!(decide(&bare, there, false), [Step::AddFinalizer]);
    let steps = decide(&ours, there, false);
    assert!(!steps.is_empty() && steps == decide(&ours, there, true));
}

#[test]
fn a_lost_target_is_not_ready_and_keeps_room_and_labels() {
    let ours = ours();
    let stands = node(json!({
        "metadata": { "labels": { "tier": "gold" } },
        "status": {
            "capacity": { "cpu": "8" },
            "allocatable": { "cpu": "7" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }));
    let case = |connection| Case {
        target: Some(&ours),
        connection,
        summary: None,
        node: NodeState::There(&stands),
        bound: None,
    };
    let steps = case(lost()).decide(&Memory::default());
    let [Step::ApplyStatus { value, .. }] = &steps[..] else {
        panic!("{steps:?}")
    };
    let condition = &value["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("TargetLost"))
    );
    assert!(
        condition["message"]
            .as_str()
            .unwrap()
            .starts_with("Unreachable: "),
        "{condition}"
    );
    assert_eq!(value["status"]["allocatable"]["cpu"], "7");
    assert_eq!(
        value["status"]["conditions"][1]["type"], "TargetReached",
        "it was ready once"
    );
    // Right after a start nothing is known, so nothing is said.
    assert_eq!(case(Connection::Connecting).decide(&Memory::default()), []);
}

#[test]
fn a_node_shows_where_its_kubelet_is_and_follows_it() {
    let (ours, summary) = (ours(), summary(&[], "8"));
    let case = |node| Case {
        target: Some(&ours),
        connection: connected(),
        summary: Some(&summary),
        node,
        bound: None,
    };
    let at = |address: &str| KubeletEndpoint {
        address: address.parse().unwrap(),
        port: 10250,
    };
    let shows = |node: &Node, kubelet: &KubeletEndpoint| {
        node.status
            .as_ref()
            .is_some_and(|status| kubelet.is_told_by(status))
    };
    let (first, second) = (at("10.0.0.1"), at("10.0.0.2"));
    let new = node(json!({}));
    let steps = case(NodeState::There(&new)).decide_with(&Memory::default(), Some(&first), true);
    let shown = after(&new, &steps);
    assert!(shows(&shown, &first));
    let memory = remember(&steps);
    assert_eq!(
        case(NodeState::There(&shown)).decide_with(&memory, Some(&first), true),
        []
    );

    // Another process leads, which remembers nothing.
    let steps = case(NodeState::There(&shown)).decide_with(&Memory::default(), Some(&second), true);
    let moved = after(&shown, &steps);
    assert!(shows(&moved, &second) && !shows(&moved, &first));

    // The first one again, whose word somebody has changed; and one that has none takes it off.
    let steps = case(NodeState::There(&moved)).decide_with(&memory, Some(&first), true);
    assert!(shows(&after(&moved, &steps), &first));
    let path = |applied: &Value| {
        applied["metadata"]["annotations"]
            .get(keys::RESOURCE_METRICS_PATH)
            .cloned()
    };
    let there = serde_json::to_value(&moved).unwrap();
    assert_eq!(
        path(&there),
        Some(json!("/metrics/resource/admiralty-default-c2"))
    );
    let steps = case(NodeState::There(&moved)).decide(&memory);
    let [Step::Apply(applied), Step::ApplyStatus { value, .. }] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(value["status"].get("addresses"), None);
    assert_eq!(path(applied), None);
}

#[test]
fn that_a_target_was_reached_stands_for_ever_and_never_before() {
    let ours = ours();
    let conditions = |node: &Node, connection| {
        let case = Case {
            target: Some(&ours),
            connection,
            summary: None,
            node: NodeState::There(node),
            bound: None,
        };
        let steps = case.decide(&Memory::default());
        let Some(Step::ApplyStatus { value, .. }) = steps.last() else {
            panic!("{steps:?}")
        };
        let conditions = value["status"]["conditions"].as_array().unwrap();
        let types = conditions.iter().map(|it| it["type"].to_string());
        (types.collect::<Vec<_>>(), after(node, &steps))
    };
    let (types, node) = conditions(&node(json!({})), lost());
    assert_eq!(types, [r#""Ready""#]);
    assert!(!virtual_node::was_reached(&node));
    let (types, node) = conditions(&node, connected());
    assert_eq!(types, [r#""Ready""#, r#""TargetReached""#]);
    let (types, node) = conditions(&node, lost());
    assert_eq!(types, [r#""Ready""#, r#""TargetReached""#]);
    assert!(virtual_node::was_reached(&node));
}

#[test]
fn what_node_lifecycle_or_people_change_is_mended_only_where_it_is_ours() {
    let ours = ours();
    let summary = summary(&[], "8");
    let new = node(json!({}));
    let steps = Case {
        target: Some(&ours),
        connection: connected(),
        summary: Some(&summary),
        node: NodeState::There(&new),
        bound: None,
    }
    .decide(&Memory::default());
    let (settled, memory) = (after(&new, &steps), remember(&steps));
    let changed = |change: Value| {
        let mut value = serde_json::to_value(&settled).unwrap();
        merge(&mut value, change);
        let node: Node = serde_json::from_value(value).unwrap();
        let (target, summary) = (Some(&ours), Some(&summary));
        let node = NodeState::There(&node);
        Case {
            target,
            connection: connected(),
            summary,
            node,
            bound: None,
        }
        .decide(&memory)
    };
    let foreign = json!({ "metadata": { "labels": { "beta.kubernetes.io/os": "linux" } } });
    assert_eq!(changed(foreign), []);
    assert_eq!(
        changed(json!({ "spec": { "unschedulable": true } })),
        [],
        "a person's cordon"
    );
    let relabelled = changed(json!({ "metadata": { "labels": { "type": "x" } } }));
    assert!(matches!(relabelled[..], [Step::Apply(_)]), "{relabelled:?}");
    let unknown = json!([{ "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown" }]);
    let doubted = changed(json!({ "status": { "conditions": unknown } }));
    assert!(
        matches!(doubted[..], [Step::ApplyStatus { .. }]),
        "{doubted:?}"
    );
    let lifecycle = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
    let untainted = changed(json!({ "spec": { "taints": [lifecycle] } }));
    let [
        Step::AddTaint {
            taints,
            resource_version,
        },
    ] = &untainted[..]
    else {
        panic!()
    };
    assert_eq!((taints.len(), resource_version.as_str()), (2, "7"));
}

#[test]
fn an_unreadable_expression_hides_all_labels() {
    let new = node(json!({}));
    let summary = summary(&[("tier", "gold")], "8");
    let hidden = TargetObject {
        excluded_labels_regexp: Some("a(b".into()),
        ..ours()
    };
    let case = Case {
        target: Some(&hidden),
        connection: connected(),
        summary: Some(&summary),
        node: NodeState::There(&new),
        bound: None,
    };
    let steps = case.decide(&Memory::default());
    let [Step::Apply(node), Step::ApplyStatus { .. }] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!(node["metadata"]["labels"].get("tier"), None);
}

fn pod(name: &str, proxy: bool, ending: bool) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some("default".into());
    pod.metadata.name = Some(name.into());
    pod.metadata.uid = Some(format!("uid-{name}"));
    if proxy {
        pod.metadata.annotations = Some([(keys::SOURCE_POD_MANIFEST.into(), "{}".into())].into());
    }
    pod.metadata.deletion_timestamp = ending.then_some(Time(Timestamp::UNIX_EPOCH));
    Arc::new(pod)
}

#[test]
fn a_removed_target_cordons_then_empties_then_removes_then_lets_go() {
    let deleting = target(&[keys::VIRTUAL_NODE_GONE, "other"], true);
    let open = node(json!({}));
    let cordoned = node(json!({ "spec": { "unschedulable": true } }));
    let memory = |node: &Node| {
        let case = Case {
            target: Some(&deleting),
            connection: connected(),
            summary: None,
            node: NodeState::There(node),
            bound: None,
        };
        let steps = case.decide(&Memory::default());
        (remember(&steps), after(node, &steps))
    };
    let decide = |node: NodeState<'_>, bound: Option<&[Arc<Pod>]>, memory: &Memory| {
        let target = Some(&deleting);
        Case {
            target,
            connection: connected(),
            summary: None,
            node,
            bound,
        }
        .decide(memory)
    };

    // Pods that are bound already wait until no new one can come.
    let first = decide(NodeState::There(&open), Some(&[]), &Memory::default());
    assert!(
        matches!(&first[..], [Step::Apply(node), Step::ApplyStatus { .. }] if node["spec"]["unschedulable"] == true)
    );

    let (memory, cordoned) = memory(&cordoned);
    let there = NodeState::There(&cordoned);
    assert_eq!(
        decide(there, None, &memory),
        [],
        "not known which pods are there"
    );
    let bound = [
        pod("a", true, false),
        pod("b", true, true),
        pod("daemon", false, false),
    ];
    assert_eq!(
        decide(there, Some(&bound), &memory),
        [Step::DeleteProxy {
            namespace: "default".into(),
            name: "a".into(),
            uid: "uid-a".into()
        }]
    );
    assert_eq!(decide(there, Some(&bound[1..]), &memory), [], "waits for b");
    assert_eq!(
        decide(there, Some(&bound[2..]), &memory),
        [Step::RemoveNode { uid: "n".into() }]
    );
    assert_eq!(
        decide(NodeState::Absent, None, &memory),
        [Step::RemoveFinalizer]
    );
    let released = target(&["other"], true);
    let case = Case {
        target: Some(&released),
        connection: connected(),
        summary: None,
        node: NodeState::Absent,
        bound: None,
    };
    assert_eq!(case.decide(&memory), []);
}

#[test]
fn a_removed_target_goes_whatever_it_says_of_itself() {
    let deleting = target(&[keys::VIRTUAL_NODE_GONE], true);
    let summary = summary(&[("tier", "gold"), ("a", "b c")], "-1e999");
    for unschedulable in [false, true] {
        let node = node(json!({ "spec": { "unschedulable": unschedulable } }));
        let decide = |summary| {
            let case = Case {
                target: Some(&deleting),
                connection: connected(),
                summary,
                node: NodeState::There(&node),
                bound: Some(&[]),
            };
            case.decide(&Memory::default())
        };
        assert_eq!(decide(Some(&summary)), decide(None), "{unschedulable}");
    }
}

#[test]
fn a_node_without_target_goes_the_same_way() {
    let cordoned = node(json!({ "spec": { "unschedulable": true } }));
    let case = Case {
        target: None,
        connection: Connection::Connecting,
        summary: None,
        node: NodeState::There(&cordoned),
        bound: Some(&[]),
    };
    let steps = case.decide(&Memory::default());
    assert!(
        matches!(&steps[..], [Step::ApplyStatus { value, .. }, Step::RemoveNode { .. }]
            if value["status"]["conditions"][0]["reason"] == "TargetRemoved"),
        "{steps:?}"
    );
}
