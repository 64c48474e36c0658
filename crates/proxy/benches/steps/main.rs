//! The longest single step of what decides in the source, among 10,000 proxies and with what hostile authors of pods,
//! Targets and tables write.
//!
//! It owns the scenes; it knows the code only by its public face. `make bench-steps` runs it.

#![expect(clippy::expect_used, reason = "what it makes itself can be read")]

mod cycles;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use pilotage_absurd::steps::{self, Times};
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::{PodChaperon, keys, names};
use pilotage_model::manifest::{self, SourcePod};
use pilotage_placement::{Ranking, Region, Strategy};
use pilotage_proxy::book::Turn;
use pilotage_proxy::door::Serves;
use pilotage_proxy::feedback::{self, Plan};
use pilotage_proxy::placing::{Asked, Home, Placing, Tables, Want, Wishes, Words};
use pilotage_proxy::rank::{Room, Seen, rank};
use pilotage_proxy::{Action, Book, ChaperonNews, Outcome, Ranked, Reach, Reply, Settings};
use pilotage_sched::PodInfo;
use serde_json::{Value, json};

/// How many pods wait at once.
const PROXIES: usize = 10_000;
/// How many virtual nodes there are to choose from.
const TARGETS: usize = 1_000;
/// How often the scenes are played.
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    println!(
        "Longest single steps of {ROUNDS} rounds with {PROXIES} proxies and {TARGETS} targets, processor time."
    );
    steps::measure(ROUNDS, |times| {
        names_of_users(times);
        placing(times);
        book(times);
        feedback(times);
        cycles::play(times);
    })
}

/// Names and texts as long as the API server takes them.
fn names_of_users(times: &mut Times) {
    let (one, other) = ("w".repeat(90_000), "e".repeat(200_000));
    times.step("distance of region names of 90 kB and 200 kB", || {
        Region::new(&one).distance(&Region::new(&other))
    });
    let rows: Value = (0..8_000)
        .map(|row| (format!("region-{row:05}"), json!("a: 1\nb: [\nc: 3\n")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let row: Vec<_> = (0..1_000)
        .map(|n| format!("region-{n:05}: {n}\n"))
        .collect();
    let row = row.concat();
    for (name, data) in [
        ("table of regions with 8,000 rows that can't be read", rows),
        ("table of regions with 50 rows of 1,000 regions", {
            let rows = (0..50).map(|n| (format!("r{n}"), json!(row)));
            rows.collect::<serde_json::Map<_, _>>().into()
        }),
    ] {
        let table: ConfigMap = serde_json::from_value(json!({
            "metadata": {
                "name": "t", "namespace": "p",
                "labels": { keys::REGION_TABLE_LABEL: keys::REGION_TABLE_LABEL_VALUE },
            },
            "data": data,
        }))
        .unwrap_or_default();
        times.step(name, || Tables::new(None).apply(&table));
    }
    let text = largest_manifest();
    let source = times.step("reading the largest manifest", || SourcePod::parse(&text));
    let bomb = format!("{}a: &a [x]\nb: [*a]\n", "- ".repeat(100_000));
    _ = times.step("reading a manifest that is none", || {
        SourcePod::parse(&bomb)
    });
    if let Ok(source) = source {
        times.step("what its author wishes", || Wishes::of_source(&source));
    }
}

/// A manifest with as many small values as fit.
fn largest_manifest() -> String {
    let variable = |number: usize| json!({ "name": format!("V{number}"), "value": "x".repeat(40) });
    let pod = |count: usize| {
        let env: Vec<_> = (0..count).map(variable).collect();
        let container = json!({ "name": "c", "image": "i", "env": env });
        let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [container] } });
        SourcePod::new(pod).and_then(|pod| pod.render()).ok()
    };
    let fitting = (1..=40).rev().find_map(|hundreds| pod(hundreds * 100));
    let text = fitting.unwrap_or_default();
    assert!(text.len() > manifest::LONGEST / 2);
    text
}

fn node(number: usize) -> Arc<Node> {
    // As long as a name may be, and no two alike.
    let region = format!("{}{number:05}", "eu-west-".repeat(7));
    let name = format!("admiralty-shop-{number:05}");
    let labels: serde_json::Map<_, _> = (0..64)
        .map(|label| (format!("example.com/label-{label}"), json!("value")))
        .chain([("topology.kubernetes.io/region".to_owned(), json!(region))])
        .collect();
    let shapes = json!([{ "nodes": 3, "free": { "cpu": "4", "memory": "8Gi" } }]).to_string();
    let node = json!({
        "metadata": { "name": name, "labels": labels, "annotations": { keys::FREE_SHAPES: shapes } },
        "spec": { "providerID": format!("admiralty://{name}") },
        "status": {
            "allocatable": { "cpu": "64", "memory": "256Gi" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    Arc::new(serde_json::from_value(node).unwrap_or_default())
}

fn pod(number: usize, annotations: &Value, selector: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "uid": uid(number),
            "resourceVersion": (number + 1).to_string(), "finalizers": [keys::DELEGATE_GONE],
            "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "metadata: {}\nspec: {containers: []}" },
        },
        "spec": { "schedulerName": keys::PROXY_SCHEDULER, "containers": [], "nodeSelector": selector },
    });
    for (key, value) in annotations.as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap_or_default()
}

fn uid(number: usize) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// The order of a pod's targets.
fn placing(times: &mut Times) {
    let mut placing = Placing::default();
    let nodes: Vec<_> = (0..TARGETS).map(node).collect();
    for node in &nodes {
        times.step("a virtual node comes", || placing.apply_node(node));
    }
    let node_names: Vec<String> = nodes
        .iter()
        .filter_map(|node| node.metadata.name.clone())
        .collect();
    let long = "r".repeat(200_000);
    let words = Words {
        annotations: [keys::REGION, keys::ZONES, keys::CLOUD_PROVIDER]
            .map(|key| (key.to_owned(), long.clone()))
            .into(),
        labels: (0..5_000)
            .map(|number| (format!("l{number}"), String::new()))
            .collect(),
    };
    times.step("a Target says 600 kB of where it is", || {
        placing.set_words(&node_names[0], words)
    });
    for number in 0..PROXIES {
        let (uid, at) = (uid(number), &node_names[number % TARGETS]);
        times.step("a pod is placed", || {
            placing.set_guest(&uid, Some(at), Some(&Arc::from("application")));
        });
    }
    let selector: Value = (0..256)
        .map(|label| (format!("example.com/label-{}", label % 64), json!("value")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let demands = json!({
        keys::REGION: "w".repeat(90_000),
        keys::ZONES: "z,".repeat(50_000),
        keys::CLOUD_PROVIDER: "p".repeat(90_000),
        keys::ACCESS_RESTRICTIONS: "a,".repeat(50_000),
    });
    let region = json!({ keys::REGION: format!("{}x", "eu-west-".repeat(7)) });
    let ranking = Ranking::Strategy(Strategy::MinimalDistance);
    let (home, tables) = (Home::new(Some("eu-west-1"), Some("aws")), Tables::new(None));
    for (name, annotations, selector) in [
        (
            "order for a pod with 63 bytes of region, all others near",
            region,
            json!({}),
        ),
        ("order for a pod with 360 kB of demands", demands, json!({})),
        (
            "order for a pod with the largest selector",
            json!({}),
            selector,
        ),
    ] {
        let pod = Arc::new(pod(0, &annotations, &selector));
        let Ok(info) = PodInfo::parse(pod) else {
            continue;
        };
        let want = times.step("reading what a pod asks for", || {
            Want::of(&info, &Wishes::default())
        });
        let asked = Asked {
            want: &want,
            ranking: &ranking,
            home: &home,
            tables: &tables,
        };
        let feasible = node_names.iter().map(|name| (&**name, 0));
        let order = times.step(name, || placing.order(&asked, feasible));
        times.step("why not the others", || order.tell("", &BTreeMap::new()));
        let feasible: Vec<_> = node_names.iter().map(|name| (name.clone(), 1)).collect();
        let room = Room {
            shapes: vec![(1, info.needs.requests.total.clone()); 256],
            ..Room::default()
        };
        let seen = |_: &str| Seen {
            room: Some(&room),
            used: 1,
            silent: false,
            others: pilotage_proxy::others::Others::Leave,
        };
        times.step("ranking what the scheduler has left", || {
            rank(
                "u",
                &info.needs.requests.total,
                &feasible,
                seen,
                Some(&order),
            )
        });
    }
    times.step("a virtual node goes", || {
        placing.remove_node(&node_names[0]);
    });
}

fn chaperon(number: usize, version: usize, says: &Value) -> Arc<PodChaperon> {
    let link = ParentLink {
        cluster_uid: Some(ClusterUid("source".to_owned())),
        cluster_name: None,
        uid: uid(number),
        namespace: "shop".to_owned(),
        name: format!("web-{number}"),
    };
    let mut annotations = json!(link.annotations());
    for (key, value) in says.as_object().into_iter().flatten() {
        annotations[key] = value.clone();
    }
    let chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": {
            "name": names::chaperon(&link.namespace, &link.name, &link.uid), "namespace": link.namespace,
            "uid": format!("c-{}", link.uid), "resourceVersion": version.to_string(),
            "labels": link.labels(), "annotations": annotations,
        },
        "spec": { "containers": [] },
    });
    Arc::new(serde_json::from_value(chaperon).unwrap_or_default())
}

/// The books of all pods: what comes in, and what is decided.
fn book(times: &mut Times) {
    let mut book = Book::default();
    let settings = Settings::default();
    let targets = ["admiralty-a", "admiralty-b", "admiralty-c"];
    let mut now = Duration::ZERO;
    for target in targets {
        book.set_reach(target, Reach::Reachable, now);
        book.set_serves(target, Serves::Everybody);
    }
    let ranking = targets.map(|target| Ranked {
        node: target.to_owned(),
        surely_fits: false,
        class: 0,
        kept_away: false,
    });
    let uids: Vec<_> = (0..PROXIES).map(uid).collect();
    for number in 0..PROXIES {
        let pod = pod(number, &json!({}), &json!({}));
        times.step("a proxy comes", || book.proxy_applied(&pod));
    }
    // Who is asked answers, some of them at great length; meanwhile the others are called.
    let refusal = "full ".repeat(40_000);
    let (mut version, mut due): (usize, Vec<usize>) = (0, (0..PROXIES).collect());
    for _ in 0..40 {
        now += Duration::from_millis(500);
        let mut asked = Vec::new();
        for number in std::mem::take(&mut due) {
            let uid = &uids[number];
            let turn = Turn {
                ranking: &ranking,
                choice: None,
                settings: &settings,
                now,
            };
            let plan = times.step("deciding for a proxy", || book.plan(uid, turn));
            for action in plan.into_iter().flat_map(|plan| plan.actions) {
                book.begin(uid, &action, now);
                if let Action::Ask { node } = &action {
                    asked.push((number, node.clone()));
                }
                let reply = Reply {
                    outcome: Outcome::Done,
                    chaperon: None,
                    proxy: None,
                };
                let taken = times.step("an answer to a request", || {
                    book.answered(uid, &action, reply, &settings, now)
                });
                assert!(taken.is_ok(), "{taken:?}");
            }
        }
        for (place, (number, node)) in asked.into_iter().enumerate() {
            version += 1;
            let says = match place % 3 {
                0 => json!({ keys::ATTEMPT: "1", keys::IS_RESERVED: "true" }),
                1 => json!({ keys::ATTEMPT: "1", keys::REFUSAL: refusal }),
                _ => json!({ keys::ATTEMPT: "99999999999999999999999" }),
            };
            let chaperon = chaperon(number, version, &says);
            let taken = times.step("a chaperon comes", || {
                book.chaperon(&node, ChaperonNews::Applied(chaperon), now)
            });
            assert_eq!(taken.turned_away, None);
        }
        let called = times.step("calling who waits", || book.call(now));
        due.extend(called.iter().filter_map(|uid| {
            let digits = uid.rsplit('-').next()?;
            digits.parse::<usize>().ok()
        }));
    }
    for number in 0..PROXIES {
        version += 1;
        let chaperon = chaperon(number, version, &json!({ keys::ATTEMPT: "0" }));
        let taken = times.step("a chaperon that nobody asked for comes", || {
            book.chaperon(targets[0], ChaperonNews::Applied(chaperon), now)
        });
        assert_eq!(taken.turned_away, None);
    }
    times.step("a target is lost", || {
        book.set_reach(targets[1], Reach::Lost, now)
    });
    // What it showed is freed elsewhere.
    let dropped = times.step("a target with 10,000 chaperons goes", || {
        book.set_reach(targets[0], Reach::NoSuchTarget, now)
    });
    assert!(!dropped.is_empty());
    for uid in &uids {
        times.step("a proxy goes", || book.proxy_gone(uid, now));
    }
}

/// A chaperon that names this pod as one of a plain source, under a name of its own.
fn forged(of: usize, number: usize) -> Arc<PodChaperon> {
    let mut forged = chaperon(of, number + 1, &json!({}));
    let meta = &mut Arc::make_mut(&mut forged).metadata;
    meta.name = Some(format!("web-{number}"));
    meta.uid = Some(format!("f-{number}"));
    if let Some(labels) = &mut meta.labels {
        labels.remove(keys::PARENT_CLUSTER_UID);
    }
    forged
}

/// What comes back from delegates, and what is cleaned up after them.
fn feedback(times: &mut Times) {
    let mut book = feedback::Book::new(ClusterUid("source".to_owned()));
    let settings = Settings::default();
    let evil = "admiralty-evil";
    book.set_serves(evil, Serves::Everybody);
    book.set_reach(evil, Reach::Reachable, Duration::ZERO);
    book.proxies_listed();
    for number in 0..PROXIES {
        let record = format!("{evil}/c-{}/1", uid(number));
        let mut pod = pod(number, &json!({ keys::GRANTED_TO: record }), &json!({}));
        if let Some(spec) = &mut pod.spec {
            spec.node_name = Some(evil.to_owned());
        }
        let pod = Arc::new(pod);
        times.step("feedback: a proxy comes", || book.proxy_applied(pod));
    }
    let mut version = 1;
    let mut tell = |times: &mut Times, book: &mut feedback::Book, number, says: &Value| {
        version += 1;
        let mut chaperon = chaperon(number, version, says);
        let mut status = json!({
            "phase": "Running", "podIP": "10.0.0.1", "message": "x".repeat(200_000),
            "conditions": vec![json!({ "type": "PodScheduled", "status": "True" }); 500],
            "containerStatuses": vec![json!({ "name": "c", "restartCount": version }); 500],
        });
        // As large as an API server takes it.
        if number % 50 == 0 {
            let container =
                json!({ "name": "c", "containerID": "x".repeat(200), "restartCount": version });
            status["containerStatuses"] = vec![container; 3_000].into();
            status["conditions"] =
                vec![json!({ "type": "x".repeat(90), "status": "True" }); 2_000].into();
            status["podIPs"] = vec![json!({ "ip": "2001:db8::1" }); 5_000].into();
        }
        let object = Arc::make_mut(&mut chaperon);
        object.status = serde_json::from_value(status).ok();
        assert!(object.status.is_some());
        times.step("feedback: a delegate's word comes", || {
            book.chaperon(evil, ChaperonNews::Applied(chaperon))
        })
    };
    let words: serde_json::Map<_, _> = (0..4_000)
        .map(|word| (format!("example.com/word-{word}"), json!("x".repeat(40))))
        .collect();
    for (number, says) in (0..200).map(|number| (number, Value::from(words.clone()))) {
        let heard = tell(times, &mut book, number, &says);
        assert_eq!(heard.turned_away, None);
    }
    // As many chaperons of one pod as a target may show objects, and some of pods that nobody knows.
    let mut turned_away = 0;
    let forgeries = || (0..50_000).map(|number| forged(0, number));
    let orphans = || (PROXIES..2 * PROXIES).map(|number| chaperon(number, 1, &json!({})));
    for forged in forgeries().chain(orphans()) {
        let heard = times.step("feedback: a forged chaperon comes", || {
            book.chaperon(evil, ChaperonNews::Applied(forged))
        });
        turned_away += usize::from(heard.turned_away.is_some());
    }
    assert!(turned_away > 40_000);
    let mut now = Duration::from_secs(1);
    for _ in 0..3 {
        for number in (0..200).chain(PROXIES..2 * PROXIES) {
            let uid = uid(number);
            let step = match number {
                0 => "feedback: deciding for a pod with 50,000 forged chaperons",
                1..PROXIES => "feedback: deciding what is copied",
                _ => "feedback: deciding for an orphan",
            };
            let plan = times.step(step, || book.plan(&uid, now));
            let Plan {
                actions, judged_on, ..
            } = plan.unwrap_or_default();
            for action in actions {
                book.begin(&uid, &action, judged_on.as_deref(), now);
                let reply = Reply::from(Outcome::Done);
                let taken = times.step("feedback: an answer to a request", || {
                    book.answered(&uid, &action, reply, &settings, now)
                });
                assert!(taken.is_ok(), "{taken:?}");
            }
        }
        now += Duration::from_secs(5);
    }
    for forged in forgeries() {
        _ = times.step("feedback: a forged chaperon goes", || {
            book.chaperon(evil, ChaperonNews::Deleted(forged))
        });
    }
    // As all that was seen there is told first.
    let delegates = (0..200).map(|number| chaperon(number, 1, &json!({})));
    for seen in delegates.chain(orphans()) {
        _ = times.step("feedback: a chaperon of a Target that goes", || {
            book.chaperon(evil, ChaperonNews::Vanished(seen))
        });
    }
    let dropped = times.step("feedback: a Target goes", || {
        book.set_reach(evil, Reach::NoSuchTarget, now)
    });
    drop(dropped);
    for number in 0..PROXIES {
        let uid = uid(number);
        times.step("feedback: a proxy goes", || book.proxy_gone(&uid));
    }
}
