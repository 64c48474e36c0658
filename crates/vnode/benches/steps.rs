//! The longest single step of what keeps virtual nodes, with 10,000 pods on one of them and with what hostile targets
//! say of themselves, hostile authors write into Targets, and hostile callers ask a kubelet for.
//!
//! It owns the scenes; it knows the code only by its public face. `make bench-steps` runs it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilotage_absurd::steps::{self, Times};
use pilotage_api::summary::{FreeShape, ResourceList};
use pilotage_api::{ClusterSummary, Target, TargetSpec, keys};
use pilotage_clusters::{Connection, LostReason, Since, TargetObject};
use pilotage_model::virtual_node::{ExcludedLabels, TargetName, create, tell_labels};
use pilotage_vnode::decide::{Memory, NodeState, Observed, Step, decide};
use pilotage_vnode::kubelet::query::of_target;
use pilotage_vnode::kubelet::route::{Place, route};
use pilotage_vnode::secrets::decide::{Held, Index, Name, Use, Uses};
use pilotage_vnode::{secrets, strays};
use serde_json::{Value, json};

/// How many pods are on a virtual node.
const PROXIES: usize = 10_000;
/// How often the scenes are played.
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    println!("Longest single steps of {ROUNDS} rounds with {PROXIES} proxies, processor time.");
    steps::measure(ROUNDS, |times| {
        summaries(times);
        leaving(times);
        stray(times);
        finalizers(times);
        kubelet(times);
    })
}

/// As long as names may be, and no two alike.
fn long(start: &str, number: usize) -> String {
    let start = format!("{start}-{number:05}-");
    let rest = 253_usize.saturating_sub(start.len());
    start + &"x".repeat(rest)
}

fn target(name: &str, excluded: &str) -> Option<TargetObject> {
    let spec = TargetSpec {
        self_: Some(true),
        excluded_labels_regexp: Some(excluded.to_owned()),
        ..TargetSpec::default()
    };
    let mut target = Target::new(name, spec);
    target.metadata.namespace = Some("shop".to_owned());
    target.metadata.uid = Some("t".to_owned());
    target.metadata.finalizers = Some(vec![keys::VIRTUAL_NODE_GONE.to_owned()]);
    TargetObject::from_target(&target)
}

fn node(name: TargetName<'_>, taints: usize) -> Node {
    let mut node = create(name);
    node["metadata"]["uid"] = "n".into();
    node["metadata"]["resourceVersion"] = "7".into();
    let taints: Vec<_> = (0..taints)
        .map(|number| json!({ "key": format!("example.com/t{number}"), "effect": "NoSchedule" }))
        .collect();
    node["spec"]["taints"] = taints.into();
    serde_json::from_value(node).unwrap_or_default()
}

fn amounts(count: usize, amount: &str) -> ResourceList {
    (0..count)
        .map(|number| {
            let amount = Quantity(amount.to_owned());
            (format!("example.com/resource-{number}"), amount)
        })
        .collect()
}

/// Each is as large as an API server takes an object.
fn said() -> Vec<(&'static str, ClusterSummary)> {
    let labels: BTreeMap<_, _> = (0..15_000)
        .map(|number| (format!("example.com/label-{number}"), "v".repeat(63)))
        .collect();
    let kubernetes: BTreeMap<_, _> = (0..15_000)
        .map(|number| (format!("node.kubernetes.io/l-{number}"), "v".repeat(63)))
        .collect();
    let with = |change: &dyn Fn(&mut ClusterSummary)| {
        let mut summary = ClusterSummary::default();
        change(&mut summary);
        summary
    };
    let lists = |list: &ResourceList| {
        with(&|it| {
            (it.capacity, it.allocatable) = (Some(list.clone()), Some(list.clone()));
            it.free = Some(list.clone());
        })
    };
    let shapes = |count: usize, free: &ResourceList| {
        with(&|it| {
            let shape = FreeShape {
                nodes: i64::MAX,
                free: free.clone(),
            };
            it.free_shapes = Some(vec![shape; count]);
        })
    };
    let zones = |zones: String| {
        with(&|it| {
            it.metadata.annotations = Some([(keys::ZONES.to_owned(), zones.clone())].into());
        })
    };
    vec![
        (
            "15,000 labels",
            with(&|it| it.metadata.labels = Some(labels.clone())),
        ),
        (
            "15,000 labels of Kubernetes",
            with(&|it| it.metadata.labels = Some(kubernetes.clone())),
        ),
        ("10,000 amounts thrice", lists(&amounts(10_000, "1"))),
        (
            "1,000 amounts of 500 bytes thrice",
            lists(&amounts(1_000, &"9".repeat(500))),
        ),
        (
            "one amount of 1 MB thrice",
            lists(&amounts(1, &"9".repeat(500_000))),
        ),
        ("60,000 shapes of nothing", shapes(60_000, &amounts(0, ""))),
        (
            "3,000 shapes of 10 amounts",
            shapes(3_000, &amounts(10, "1e99")),
        ),
        ("200 kB of zones", zones("z,".repeat(100_000))),
        ("a zone of 200 kB", zones("z".repeat(200_000))),
    ]
}

/// A target says much, or nothing of use.
fn summaries(times: &mut Times) {
    let long_name = long("target", 0);
    let expressions = [
        ("no pattern", String::new()),
        ("a slow pattern", "([a-z./-]{0,5}[0-9]?){1,3}=w$".to_owned()),
        ("a pattern that is none", "(".repeat(1_000)),
        ("a pattern of 200 kB", "a".repeat(200_000)),
    ];
    for (_, readable) in &expressions[..2] {
        assert!(ExcludedLabels::parse(Some(readable)).is_ok());
    }
    let connection = Connection::Connected {
        since: Since::now(),
    };
    let lost = Connection::Lost {
        since: Since::now(),
        reason: LostReason::Unreachable("no ".repeat(70_000)),
    };
    let summaries = said();
    for (excluded, expression) in &expressions {
        let Some(target) = target(&long_name, expression) else {
            continue;
        };
        let name = TargetName {
            namespace: Some("shop"),
            name: &long_name,
        };
        for (what, summary) in &summaries {
            let mut node = node(name, 5_000);
            let mut observed = Observed {
                name,
                target: Some(&target),
                has_turn: true,
                connection: &connection,
                summary: Some(summary),
                several_huge_page_sizes: false,
                node: NodeState::There(&node),
                bound: None,
                kubelet: None,
                version: "0.1.0",
                now: Timestamp::UNIX_EPOCH,
            };
            let step = format!("a target with {what}, {excluded}");
            let wanted = times.step(&step, || decide(&observed, &Memory::default()));
            let memory = remember(&wanted);
            times.step("the same again", || decide(&observed, &memory));
            observed.connection = &lost;
            times.step("a target is lost for reasons of 200 kB", || {
                decide(&observed, &memory)
            });
            observed.summary = None;
            times.step("a target says nothing any more", || {
                decide(&observed, &memory)
            });
            shown(&mut node, &wanted);
            times.step("who schedules reads the labels of a virtual node", || {
                tell_labels(&mut node);
            });
        }
    }
}

fn remember(steps: &[Step]) -> Memory {
    let mut memory = Memory {
        uid: Some("n".to_owned()),
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

/// What was applied stands on the node.
fn shown(node: &mut Node, steps: &[Step]) {
    for step in steps {
        if let Step::Apply(value) = step {
            let all = |value: &Value| serde_json::from_value(value.clone()).ok();
            node.metadata.labels = all(&value["metadata"]["labels"]);
            node.metadata.annotations = all(&value["metadata"]["annotations"]);
        }
    }
}

fn pods(annotations: &Value, owner: &str) -> Vec<Arc<Pod>> {
    let pod = |number: usize| {
        let pod = json!({ "metadata": {
            "name": long("web", number), "namespace": "shop", "uid": format!("u-{number:030}"), "resourceVersion": "7",
            "annotations": annotations,
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": true },
            ],
        } });
        Arc::new(serde_json::from_value(pod).unwrap_or_default())
    };
    (0..PROXIES).map(pod).collect()
}

/// A Target goes, with 10,000 proxies on its node.
fn leaving(times: &mut Times) {
    let name = TargetName {
        namespace: Some("shop"),
        name: "paris",
    };
    let mut node = node(name, 5_000);
    let spec = node.spec.get_or_insert_default();
    spec.unschedulable = Some(true);
    let bound = pods(&json!({ keys::SOURCE_POD_MANIFEST: "m" }), "ReplicaSet");
    let connection = Connection::Connecting;
    let observed = Observed {
        name,
        target: None,
        has_turn: true,
        connection: &connection,
        summary: None,
        several_huge_page_sizes: false,
        node: NodeState::There(&node),
        bound: Some(&bound),
        kubelet: None,
        version: "0.1.0",
        now: Timestamp::UNIX_EPOCH,
    };
    let steps = times.step("a virtual node with 10,000 proxies is emptied", || {
        decide(&observed, &Memory::default())
    });
    assert!(steps.len() >= PROXIES);
}

fn stray(times: &mut Times) {
    let strays = pods(&json!({}), "DaemonSet");
    let due = times.step("10,000 strays on a virtual node", || {
        strays::decide(&strays)
    });
    assert_eq!(due.len(), PROXIES);
}

/// As many Targets use Secrets, and as many Secrets have our finalizer that nobody uses.
fn finalizers(times: &mut Times) {
    let name = |start: &str, number: usize| Name {
        namespace: format!("ns-{}", number % 1_000),
        name: long(start, number),
    };
    let uses: Vec<_> = (0..PROXIES)
        .map(|number| Use {
            secret: name("used", number),
            deleting: number % 3 == 0,
            housemate: number % 2 == 0,
            holds: Some(true),
        })
        .collect();
    let held: Vec<_> = (0..2 * PROXIES)
        .map(|number| Held {
            secret: name(["used", "unused"][number % 2], number),
            uid: format!("u-{number}"),
            ending: number % 5 == 0,
            home_ending: None,
        })
        .collect();
    let uses = Uses { uses, all: true };
    for turn in 0..3 {
        let index = times.step("Secrets of 10,000 Targets", || Index::new(&uses.uses));
        let work = times.step("finalizers of 20,000 Secrets", || {
            secrets::decide::decide(&uses, &index, &held, true, turn)
        });
        assert!(work.more && !work.steps.is_empty());
    }
}

/// What a caller may write into a request, of which HTTP takes 64 KiB.
fn kubelet(times: &mut Times) {
    let length = 64 << 10;
    let paths = [
        "/".repeat(length),
        "/exec".repeat(length / 5),
        format!("/exec/shop/{}/c", "w.".repeat(length / 2)),
        format!("/exec/shop/{}/c", "w".repeat(length)),
        format!("/containerLogs/{}/web/c", "n".repeat(length)),
        format!("/metrics/resource/{}", "n-".repeat(length / 2)),
        format!("/exec/shop/{}/{}/c", long("web", 0), "u".repeat(length)),
    ];
    for path in &paths {
        _ = times.step("a path of 64 KiB", || route(&Method::POST, path));
    }
    let queries = [
        "&".repeat(60 << 10),
        "command&".repeat(4_000),
        "command=x&".repeat(4_096),
        format!("command={}", "%00".repeat(15_000)),
        format!("command={}", "\u{1}".repeat(19_000)),
        "port=1,2,3,4,5,6,7,8,9&".repeat(2_500),
        format!("port={}", ",".repeat(60_000)),
        "tailLines=1&".repeat(5_000),
        format!("tailLines={}", "9".repeat(60_000)),
        format!("sinceTime={}", "2026-".repeat(12_000)),
        format!("x={}", "x".repeat(64 << 10)),
    ];
    for action in ["containerLogs", "exec", "attach", "portForward"] {
        let pod = format!("/{action}/shop/{}", long("web", 0));
        let container = if action == "portForward" { "" } else { "/c" };
        let Ok(Place::Pod(asked)) = route(&Method::GET, &(pod + container)) else {
            continue;
        };
        for query in &queries {
            _ = times.step("a question of 60 KiB", || {
                of_target(&asked, &long("web", 1), query)
            });
        }
    }
}
