use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use pilotage_model::manifest::SourcePod;
use pilotage_placement::{Ranking, Strategy};
use pilotage_sched::PodInfo;
use serde_json::{Value, json};

use super::*;
use crate::plan::Answer;

mod limits;

fn node(name: &str, region: &str, more: &Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/region": region } },
        "spec": { "providerID": format!("admiralty://{name}") },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    merge(&mut node, more);
    Arc::new(serde_json::from_value(node).unwrap())
}

/// Objects are merged, all else is replaced.
fn merge(value: &mut Value, more: &Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => {
            for (key, more) in more {
                merge(value.entry(key.clone()).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more.clone(),
    }
}

fn pod(more: &Value) -> PodInfo {
    let mut pod = json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
        "spec": { "containers": [] } });
    merge(&mut pod, more);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    PodInfo::parse(Arc::new(pod)).unwrap()
}

fn annotated(annotations: &Value) -> Want {
    read(&json!({ "metadata": { "annotations": annotations } }))
}

fn read(more: &Value) -> Want {
    Want::of(&pod(more), &Wishes::default())
}

fn region(name: &str) -> Want {
    annotated(&json!({ "multicluster.admiralty.io/region": name }))
}

const NEAREST: Ranking = Ranking::Strategy(Strategy::MinimalDistance);
const SAME: Ranking = Ranking::Strategy(Strategy::SameRegion);

struct World {
    placing: Placing,
    home: Home,
    tables: Tables,
}

impl World {
    fn new(nodes: &[Arc<Node>]) -> Self {
        let mut placing = Placing::default();
        for node in nodes {
            placing.apply_node(node);
        }
        Self {
            placing,
            home: Home::default(),
            tables: Tables::new(None),
        }
    }

    /// In Dublin, Frankfurt and Virginia.
    fn three() -> Self {
        Self::new(&[
            node("dub", "eu-west-1", &json!({})),
            node("fra", "eu-central-1", &json!({})),
            node("iad", "us-east-1", &json!({})),
        ])
    }

    fn table(&mut self, rows: &Value) -> Reading {
        let object = json!({
            "metadata": {
                "name": "latencies",
                "namespace": "home",
                "labels": { "scheduling.gardener.cloud/purpose": "region-config" },
            },
            "data": rows,
        });
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        self.tables.apply(&object)
    }

    fn order(&mut self, want: &Want, ranking: &Ranking) -> Order {
        let nodes: Vec<_> = self.placing.nodes.keys().cloned().collect();
        self.order_of(want, ranking, nodes.iter().map(|node| (&**node, 0)))
    }

    fn order_of<'a>(
        &mut self,
        want: &Want,
        ranking: &Ranking,
        feasible: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Order {
        let asked = Asked {
            want,
            ranking,
            home: &self.home,
            tables: &self.tables,
        };
        self.placing.order(&asked, feasible)
    }

    /// `dub=0 fra=1`, then what was passed over.
    fn text(&mut self, want: &Want, ranking: &Ranking) -> String {
        show(&self.order(want, ranking))
    }
}

fn show(order: &Order) -> String {
    let mut classes: Vec<_> = order
        .standings()
        .map(|(node, standing)| (standing.class, node.to_owned()))
        .collect();
    classes.sort();
    let classes = classes
        .into_iter()
        .map(|(class, node)| format!("{node}={class}"));
    let passed = order
        .passed()
        .map(|(node, reason)| format!("{node} {reason}"));
    classes.chain(passed).collect::<Vec<_>>().join(" ")
}

fn wishes(manifest: &str) -> Wishes {
    Wishes::of_source(&SourcePod::parse(manifest).unwrap())
}

#[test]
fn the_nearest_comes_first_and_a_table_says_what_is_near() {
    let mut world = World::three();
    let want = region("eu-west-1");
    assert_eq!(world.text(&want, &NEAREST), "dub=0 fra=1 iad=2");
    world.table(&json!({ "eu-west-1": "us-east-1: 5\neu-central-1: 10\neu-west-1: 70" }));
    assert_eq!(world.text(&want, &NEAREST), "iad=0 fra=1 dub=2");
    let order = world.order(&want, &NEAREST);
    let why = order.standing("dub").unwrap().why.as_ref().unwrap();
    assert_eq!(
        why.to_string(),
        "is farther: 70 by table against 5 by table"
    );
    // A row that can't be read is as good as none: distances go by name again.
    let reading = world.table(&json!({ "eu-west-1": "us-east-1: near" }));
    assert_eq!((reading.changed, reading.malformed.len()), (true, 1));
    assert_eq!(world.text(&want, &NEAREST), "dub=0 fra=1 iad=2");
}

#[test]
fn a_region_that_is_demanded_rules_out_and_one_that_is_wished_for_only_orders() {
    let mut world = World::three();
    let demanded = "dub=0 fra is in region \"eu-central-1\" iad is in region \"us-east-1\"";
    assert_eq!(world.text(&region("eu-west-1"), &SAME), demanded);
    let wished = read(&json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 1, "preference": { "matchExpressions": [
                { "key": "topology.kubernetes.io/region", "operator": "In", "values": ["us-east-1"] }] } },
            { "weight": 9, "preference": { "matchExpressions": [
                { "key": "topology.kubernetes.io/region", "operator": "In", "values": ["eu-central-1"] }] } },
            { "weight": 99, "preference": { "matchExpressions": [{ "key": "gpu", "operator": "Exists" }] } },
        ] } } } }));
    assert!(!wished.asks());
    assert_eq!(world.text(&wished, &SAME), "fra=0 dub=1 iad=1");
    // A proxy's author speaks through the saved manifest.
    let author = wishes(
        "{metadata: {}, spec: {containers: [], nodeSelector: {topology.kubernetes.io/region: us-east-1}}}",
    );
    let through = |more: &Value| Want::of(&pod(more), &author);
    assert_eq!(world.text(&through(&json!({})), &SAME), "iad=0 dub=1 fra=1");
    // The proxy's own selector filters virtual nodes; where the pod is to run is its author's word.
    let constrained =
        json!({ "spec": { "nodeSelector": { "topology.kubernetes.io/region": "eu-west-1" } } });
    assert_eq!(
        world.text(&through(&constrained), &NEAREST),
        "dub=0 fra its labels don't match the selector of the request itself \
         iad its labels don't match the selector of the request itself"
    );
    // Nobody asks for anything: where the source is counts.
    world.home = Home::new(Some("us-east-1"), Some("aws"));
    assert_eq!(world.text(&Want::default(), &SAME), "dub=0 fra=0 iad=0");
    for name in ["dub", "iad"] {
        let labels = [(
            "multicluster.admiralty.io/cloud-provider".to_owned(),
            "aws".to_owned(),
        )];
        let annotations = labels.into();
        world.placing.set_words(
            name,
            Words {
                annotations,
                ..Words::default()
            },
        );
    }
    assert_eq!(world.text(&Want::default(), &SAME), "iad=0 dub=1 fra=1");
    assert_eq!(world.text(&wished, &SAME), "dub=0 fra=0 iad=0");
    // Nobody knows where the source is: all are equal.
    world.home = Home::default();
    assert_eq!(world.text(&Want::default(), &SAME), "dub=0 fra=0 iad=0");
}

#[test]
fn zones_are_a_wish() {
    let zone =
        |zone: &str| json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } });
    let mut world = World::new(&[
        node("a", "eu-west-1", &zone("eu-west-1a")),
        node("b", "eu-west-1", &zone("eu-west-1b")),
        node(
            "c",
            "eu-west-1",
            &json!({ "metadata": { "annotations": { "multicluster.admiralty.io/zones": "eu-west-1c, eu-west-1b" } } }),
        ),
        node("far", "us-east-1", &zone("us-east-1b")),
    ]);
    let want = annotated(&json!({
        "multicluster.admiralty.io/zones": "eu-west-1b",
        "multicluster.admiralty.io/region": "eu-west-1",
    }));
    assert_eq!(world.text(&want, &NEAREST), "b=0 c=0 a=1 far=2");
    let order = world.order(&want, &NEAREST);
    let why = order
        .standing("a")
        .unwrap()
        .why
        .as_ref()
        .unwrap()
        .to_string();
    assert_eq!(
        why,
        "has no zone in common and prefers one, and others don't"
    );
    assert_eq!(
        world.text(&want, &SAME),
        "b=0 c=0 a=1 far is in region \"us-east-1\""
    );
    let nowhere = annotated(&json!({ "multicluster.admiralty.io/zones": "x" }));
    assert_eq!(world.text(&nowhere, &SAME), "a=0 b=0 c=0 far=0");
    let selecting = read(
        &json!({ "spec": { "nodeSelector": { "topology.kubernetes.io/zone": "eu-west-1a" } } }),
    );
    let order = world.order_of(&selecting, &NEAREST, [("a", 0)]);
    assert_eq!(show(&order), "a=0");
    let author = wishes(
        "
metadata: {}
spec:
  containers: []
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [
    {key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1b, eu-west-1d]}]}]}}}
",
    );
    let want = Want::of(&pod(&json!({})), &author);
    assert_eq!(world.text(&want, &NEAREST), "b=0 c=0 a=1 far=1");
}

#[test]
fn what_a_pod_demands_rules_out() {
    let access = "access.multicluster.admiralty.io/eu-only";
    let mut world = World::new(&[
        node(
            "plain",
            "eu",
            &json!({ "spec": { "providerID": "gce://p/z/n" } }),
        ),
        node(
            "fenced",
            "eu",
            &json!({ "metadata": { "labels": { access: "true" } }, "spec": { "providerID": "aws:///z/i" } }),
        ),
        node(
            "refused",
            "eu",
            &json!({ "metadata": { "labels": { access: "false" } } }),
        ),
    ]);
    let want =
        annotated(&json!({ "multicluster.admiralty.io/access-restrictions": "eu-only, eu-only" }));
    let lacks = "doesn't support the access restriction \"eu-only\"";
    assert_eq!(
        world.text(&want, &NEAREST),
        format!("fenced=0 plain {lacks} refused {lacks}")
    );
    let labels = [(access.to_owned(), "true".to_owned())].into();
    assert!(world.placing.set_words(
        "plain",
        Words {
            labels,
            ..Words::default()
        }
    ));
    assert_eq!(
        world.text(&want, &NEAREST),
        format!("fenced=0 plain=0 refused {lacks}")
    );
    let want = annotated(&json!({ "multicluster.admiralty.io/cloud-provider": "aws" }));
    assert_eq!(
        world.text(&want, &NEAREST),
        "fenced=0 plain is of provider \"gce\" refused is of provider \"\""
    );
}

#[test]
fn taints_are_tolerated_as_the_scheduler_does_it() {
    let tainted = |taints: Value| json!({ "spec": { "taints": taints } });
    let mut world = World::new(&[
        node(
            "a",
            "eu",
            &tainted(json!([{ "key": "k", "value": "1", "effect": "NoSchedule" }])),
        ),
        node(
            "b",
            "eu",
            &tainted(json!([{ "key": "k", "value": "2", "effect": "NoExecute" }])),
        ),
        node(
            "soft",
            "eu",
            &tainted(json!([{ "key": "x", "effect": "PreferNoSchedule" }])),
        ),
    ]);
    let want = |tolerations: Value| read(&json!({ "spec": { "tolerations": tolerations } }));
    let all = want(json!([{ "operator": "Exists" }]));
    assert_eq!(world.text(&all, &SAME), "a=0 b=0 soft=0");
    let key = want(json!([{ "key": "k", "operator": "Exists", "effect": "NoExecute" }]));
    assert_eq!(
        world.text(&key, &SAME),
        "b=0 soft=0 a its taint k=1:NoSchedule is not tolerated"
    );
    let value = want(json!([{ "key": "k", "value": "1" }]));
    assert_eq!(
        world.text(&value, &SAME),
        "a=0 soft=0 b its taint k=2:NoExecute is not tolerated"
    );
}

#[test]
fn what_isnt_ready_comes_last_and_is_never_ruled_out() {
    let mut world = World::three();
    world.placing.apply_node(&node(
        "dub",
        "eu-west-1",
        &json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown",
            "reason": "NodeStatusUnknown" }] } }),
    ));
    let want = region("eu-west-1");
    assert_eq!(world.text(&want, &NEAREST), "fra=0 iad=1 dub=2");
    let order = world.order_of(&want, &NEAREST, [("dub", 0)]);
    assert_eq!(show(&order), "dub=0");
    let why = order
        .standing("dub")
        .unwrap()
        .why
        .as_ref()
        .unwrap()
        .to_string();
    assert_eq!(why, "is not ready: NodeStatusUnknown");
}

#[test]
fn only_those_count_that_the_scheduler_left() {
    let mut world = World::three();
    let order = world.order_of(
        &region("eu-west-1"),
        &NEAREST,
        [("iad", 0), ("fra", 0), ("nobody", 0)],
    );
    assert_eq!(show(&order), "fra=0 iad=1");
    // Nothing of one selection stays for the next.
    assert_eq!(
        world.text(&region("eu-west-1"), &NEAREST),
        "dub=0 fra=1 iad=2"
    );
    world.placing.remove_node("dub");
    assert_eq!(world.text(&region("eu-west-1"), &NEAREST), "fra=0 iad=1");
    world.placing.remove_node("iad");
    assert_eq!(world.text(&region("us-east-1"), &NEAREST), "fra=0");
}

#[test]
fn rules_weigh_use_room_and_cost() {
    let shapes = |cpu: &str| {
        let shapes = json!([{ "nodes": 2, "free": { "cpu": cpu, "memory": "8Gi" } }]).to_string();
        json!({
            "metadata": { "annotations": { "multicluster.admiralty.io/free-shapes": shapes } },
            "status": { "allocatable": { "cpu": "8", "memory": "16Gi" } },
        })
    };
    let mut world = World::new(&[
        node("a", "eu", &shapes("4")),
        node("b", "eu", &shapes("1")),
        node("silent", "us", &json!({})),
    ]);
    // Shapes are rounded and there are few of them; a sum that is told counts before them.
    world.placing.apply_node(&node("a", "eu", &shapes("0")));
    let mut sum = shapes("0");
    sum["metadata"]["annotations"]["multicluster.admiralty.io/free"] =
        json!({ "cpu": "8", "memory": "16Gi" }).to_string().into();
    world.placing.apply_node(&node("a", "eu", &sum));
    let rules = |text: &str| -> Ranking {
        let rules = serde_saphyr::from_str(text).unwrap();
        Ranking::new(None, Some(rules)).unwrap()
    };
    let free = rules("[SeedResourcesLeastAllocated: {}]");
    // Who doesn't say how full it is counts as empty.
    assert_eq!(world.text(&Want::default(), &free), "a=0 silent=0 b=1");
    let used = rules("[LeastUsed: {}]");
    world.placing.set_guest("p1", Some("a"), None);
    world.placing.set_guest("p2", Some("a"), None);
    world.placing.set_guest("p2", Some("a"), None);
    let order = world.order_of(&Want::default(), &used, [("a", 1), ("b", 0), ("silent", 4)]);
    assert_eq!(show(&order), "b=0 a=1 silent=2");
    assert_eq!(order.standing("a").unwrap().used, 3);
    world.placing.set_guest("p1", None, None);
    world.placing.set_guest("p2", Some("b"), None);
    world.placing.set_guest("p3", None, None);
    assert_eq!(world.text(&Want::default(), &used), "a=0 silent=0 b=1");
    let cost = rules("[Cost: {weight: 2, annotation: example.com/cost}, LeastUsed: {}]");
    for (name, cost) in [("a", "3"), ("b", "0.5"), ("silent", "2")] {
        let annotations = [("example.com/cost".to_owned(), cost.to_owned())].into();
        world.placing.set_words(
            name,
            Words {
                annotations,
                ..Words::default()
            },
        );
    }
    assert_eq!(world.text(&Want::default(), &cost), "b=0 silent=1 a=2");
}

#[test]
fn pods_of_one_application_are_spread() {
    let owned = |owner: &str| {
        let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
            "controller": true });
        read(&json!({ "metadata": { "ownerReferences": [owner] } }))
    };
    let (web, api) = (owned("web"), owned("api"));
    let spread = serde_saphyr::from_str("[Spread: {over: Region}]").unwrap();
    let spread = Ranking::new(None, Some(spread)).unwrap();
    let mut world = World::three();
    for (uid, node, want) in [
        ("1", "dub", &web),
        ("2", "dub", &web),
        ("3", "fra", &web),
        ("4", "iad", &api),
    ] {
        world.placing.set_guest(uid, Some(node), want.application());
    }
    assert_eq!(world.text(&web, &spread), "iad=0 fra=1 dub=2");
    assert_eq!(world.text(&api, &spread), "dub=0 fra=0 iad=1");
    // Nobody owns it: all pods count.
    assert_eq!(world.text(&Want::default(), &spread), "fra=0 iad=0 dub=1");
    // One that is on its way counts, but takes no room yet.
    world
        .placing
        .expect_guest("5", Some("iad"), web.application());
    world
        .placing
        .expect_guest("6", Some("iad"), web.application());
    assert_eq!(world.text(&web, &spread), "fra=0 dub=1 iad=1");
    let order = world.order(&web, &spread);
    assert_eq!(order.standing("iad").unwrap().used, 1);
    world.placing.expect_guest("5", None, None);
    world.placing.expect_guest("6", None, None);
    world.placing.set_guest("3", Some("iad"), web.application());
    world.placing.set_guest("1", None, None);
    world.placing.set_guest("2", None, None);
    assert_eq!(world.text(&web, &spread), "dub=0 fra=0 iad=1");
}

#[test]
fn why_each_of_the_others_lost_is_told_in_one_line() {
    let mut world = World::three();
    world
        .placing
        .apply_node(&node("lhr", "eu-west-2", &json!({})));
    let order = world.order(&region("eu-west-1"), &SAME);
    let answers = [
        (
            "dub",
            Answer::Refused("0/2 nodes are available: 2 Insufficient cpu.".into()),
        ),
        ("lhr", Answer::Reserved),
    ]
    .map(|(node, answer)| (node.to_owned(), answer))
    .into();
    assert_eq!(
        order.tell("lhr", &answers).unwrap(),
        "dub refused [2 Insufficient cpu]; fra is in region \"eu-central-1\"; iad is in region \"us-east-1\""
    );
    let order = world.order(&region("eu-west-1"), &NEAREST);
    assert_eq!(
        order.tell("dub", &BTreeMap::new()).unwrap(),
        "fra is farther: 2 by name against 0 by name; lhr is farther: 2 by name against 0 by name; \
         iad is farther: 6 by name against 0 by name"
    );
    let many: Vec<_> = (0..100)
        .map(|number| node(&format!("n{number}"), "eu-west-2", &json!({})))
        .collect();
    let order = World::new(&many).order(&region("eu-west-1"), &SAME);
    let text = order.tell("", &BTreeMap::new()).unwrap();
    assert!(text.len() <= 1024 && text.ends_with(" more"), "{text}");
    let order = world.order_of(&Want::default(), &SAME, [("dub", 0), ("fra", 0)]);
    assert_eq!(order.tell("dub", &BTreeMap::new()), None);
}

#[test]
fn the_word_of_a_target_counts_before_that_of_its_node() {
    let mut world = World::three();
    let annotations = [(
        "multicluster.admiralty.io/region".to_owned(),
        " eu-west-1 ".to_owned(),
    )]
    .into();
    let words = Words {
        annotations,
        ..Words::default()
    };
    assert!(world.placing.set_words("iad", words.clone()));
    assert!(!world.placing.set_words("iad", words.clone()));
    assert_eq!(
        world.text(&region("eu-west-1"), &NEAREST),
        "dub=0 iad=0 fra=1"
    );
    // It may come before the node.
    assert!(!world.placing.set_words("new", words));
    world
        .placing
        .apply_node(&node("new", "ap-south-1", &json!({})));
    assert_eq!(
        world.text(&region("eu-west-1"), &NEAREST),
        "dub=0 iad=0 new=0 fra=1"
    );
}

#[test]
fn words_that_make_no_other_candidate_are_no_news() {
    let mut world = World::three();
    let words = |key: &str, text: &str| Words {
        annotations: [(format!("multicluster.admiralty.io/{key}"), text.to_owned())].into(),
        ..Words::default()
    };
    // A pod on its way there changes nothing of it.
    world.order_of(&Want::default(), &NEAREST, [("dub", 3)]);
    let long = words("cloud-provider", &"x".repeat(400));
    assert!(!world.placing.set_words("dub", long));
    assert!(world.placing.set_words("dub", words("region", "us-east-1")));
    assert!(world.placing.set_words("dub", Words::default()));
    assert!(!world.placing.set_words("dub", Words::default()));
    assert!(
        !world
            .placing
            .set_words("nobody", words("region", "us-east-1"))
    );
}

#[test]
fn a_target_that_is_gone_leaves_no_words() {
    let mut world = World::three();
    for round in 0..100 {
        let region = (
            "topology.kubernetes.io/region".to_owned(),
            "us-west-2".to_owned(),
        );
        let words = Words {
            labels: [region].into(),
            ..Words::default()
        };
        for node in ["dub", &format!("target-{round}")] {
            world.placing.set_words(node, words.clone());
            world.placing.set_words(node, Words::default());
        }
    }
    assert!(world.placing.words.is_empty());
    assert_eq!(
        world.text(&region("eu-west-1"), &NEAREST),
        "dub=0 fra=1 iad=2"
    );
}

#[test]
fn labels_of_a_target_say_where_it_is_and_what_it_supports() {
    let mut world = World::new(&[
        node("dub", "eu-west-1", &json!({})),
        node(
            "lies",
            "eu-west-1",
            &json!({ "metadata": { "labels": { "access.multicluster.admiralty.io/eu-only": "true" } } }),
        ),
        node("iad", "", &json!({})),
    ]);
    let words = |labels: &[(&str, &str)]| Words {
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Words::default()
    };
    let american = words(&[
        ("topology.kubernetes.io/region", "us-east-1"),
        ("access.multicluster.admiralty.io/eu-only", "true"),
    ]);
    assert!(world.placing.set_words("iad", american));
    let doubted = words(&[("access.multicluster.admiralty.io/eu-only", "false")]);
    assert!(world.placing.set_words("lies", doubted));
    assert_eq!(
        world.text(&region("us-east-1"), &NEAREST),
        "iad=0 dub=1 lies=1"
    );
    let restricted =
        annotated(&json!({ "multicluster.admiralty.io/access-restrictions": "eu-only" }));
    assert!(
        world
            .text(&restricted, &NEAREST)
            .starts_with("iad=0 dub doesn't support"),
        "and what the nodes say of it doesn't count against its Target"
    );
    let order = world.order(&restricted, &NEAREST);
    assert_eq!(order.standings().count(), 1);
}

proptest::proptest! {
    /// No pod that asks for nothing becomes impossible, whatever targets say of themselves.
    #[test]
    fn who_asks_for_nothing_may_go_anywhere(
        regions in proptest::collection::vec("(eu|us)?-?(west|east)?", 1..8),
        ready in proptest::collection::vec(proptest::bool::ANY, 8),
        home in proptest::option::of("(eu|us)-west"),
        same in proptest::bool::ANY,
    ) {
        let nodes: Vec<_> = regions.iter().enumerate().map(|(index, region)| {
            let status = if ready[index] { "True" } else { "False" };
            let more = json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
            node(&format!("n{index}"), region, &more)
        }).collect();
        let mut world = World::new(&nodes);
        world.home = Home::new(home.as_deref(), None);
        let order = world.order(&Want::default(), if same { &SAME } else { &NEAREST });
        proptest::prop_assert_eq!(order.standings().count(), regions.len());
        proptest::prop_assert_eq!(order.passed().count(), 0);
        let best = order.standings().map(|(_, standing)| standing.class).min();
        proptest::prop_assert_eq!(best, Some(0));
    }
}
