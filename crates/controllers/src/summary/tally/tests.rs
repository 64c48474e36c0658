use serde_json::{Value, json};

use super::*;

fn node(name: &str, labels: &Value, cpu: &str, spec: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": spec,
        "status": {
            "capacity": { "cpu": cpu, "memory": "8Gi", "pods": "110" },
            "allocatable": { "cpu": cpu, "memory": "7Gi", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }))
    .unwrap()
}

fn pod(uid: &str, node: &str, cpu: &str, phase: &str) -> Arc<Pod> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": uid, "uid": uid },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }],
            },
            "status": { "phase": phase },
        }))
        .unwrap(),
    )
}

fn amount<'a>(list: &'a ResourceList, name: &str) -> &'a str {
    list.get(name).map_or("", |amount| &amount.0)
}

/// CPU of all shapes, with how many nodes.
fn shapes(tally: &Tally) -> Vec<(i64, String)> {
    let facts = tally.facts();
    facts
        .free_shapes
        .iter()
        .map(|s| (s.nodes, amount(&s.free, "cpu").to_owned()))
        .collect()
}

#[test]
fn sums_and_shared_labels_leave_virtual_nodes_out() {
    let mut tally = Tally::default();
    assert_eq!(tally.facts(), Facts::default());
    tally.node(&node(
        "a",
        &json!({ "zone": "eu", "host": "a", "os": "linux" }),
        "4",
        &json!({}),
    ));
    tally.node(&node(
        "b",
        &json!({ "zone": "eu", "host": "b" }),
        "8",
        &json!({}),
    ));
    let provider = &json!({ "virtual-kubelet.io/provider": "admiralty" });
    tally.node(&node("v", provider, "100", &json!({})));
    let facts = tally.facts();
    assert_eq!(facts.labels, [("zone".to_owned(), "eu".to_owned())].into());
    assert_eq!(
        (
            amount(&facts.capacity, "cpu"),
            amount(&facts.capacity, "memory")
        ),
        ("12", "16Gi")
    );
    assert_eq!(amount(&facts.allocatable, "memory"), "14Gi");
    assert_eq!(shapes(&tally), [(1, "8".into()), (1, "4".into())]);

    tally.no_node("b");
    assert_eq!(amount(&tally.facts().capacity, "cpu"), "4");
    // A node that becomes a virtual one isn't counted any more.
    let provider = &json!({ "virtual-kubelet.io/provider": "admiralty" });
    tally.node(&node("a", provider, "4", &json!({})));
    assert_eq!(tally.facts(), Facts::default());
}

#[test]
fn pods_take_room_while_they_live() {
    let mut tally = Tally::default();
    // The pod may be seen before its node.
    tally.pod(&pod("p", "a", "1", "Running"));
    tally.node(&node("a", &json!({}), "4", &json!({})));
    assert_eq!(shapes(&tally), [(1, "3".into())]);
    tally.pod(&pod("q", "a", "500m", "Pending"));
    assert_eq!(shapes(&tally), [(1, "2500m".into())]);
    // Told twice, counted once; resized; finished; gone.
    tally.pod(&pod("q", "a", "1", "Running"));
    assert_eq!(shapes(&tally), [(1, "2".into())]);
    tally.pod(&pod("q", "a", "1", "Succeeded"));
    assert_eq!(shapes(&tally), [(1, "3".into())]);
    tally.no_pod("p");
    tally.no_pod("p");
    assert_eq!(shapes(&tally), [(1, "4".into())]);
    assert!(tally.used.is_empty() && tally.pods.is_empty());
}

#[test]
fn the_sum_of_what_is_free_is_exact_and_no_reason_to_write() {
    let mut tally = Tally::default();
    // More kinds of nodes than shapes are told, none of a round size.
    for number in 1..=40 {
        let cpu = format!("{}m", number * 8000 + 99);
        tally.node(&node(&format!("n{number}"), &json!({}), &cpu, &json!({})));
    }
    let told = |tally: &Tally| amount(&tally.facts().free.list(), "cpu").to_owned();
    let empty = tally.facts();
    assert_eq!(told(&tally), amount(&empty.allocatable, "cpu"));
    assert_eq!(told(&tally), "6563960m");
    tally.pod(&pod("p", "n1", "90m", "Running"));
    assert_eq!(told(&tally), "6563870m");
    assert!(tally.facts().is_told_by(&empty), "it is a little less");
    // Somewhere that no shape tells of, a good part goes.
    for number in 2..=6 {
        let name = format!("n{number}");
        tally.pod(&pod(&name, &name, &(8 * number).to_string(), "Running"));
    }
    let fuller = tally.facts();
    assert_eq!(fuller.free_shapes, empty.free_shapes);
    assert!(
        fuller.is_told_by(&empty),
        "160 of 6,563 are less than a thirty-second"
    );
    tally.pod(&pod("last", "n9", "72", "Running"));
    assert!(!tally.facts().is_told_by(&empty));
    // Another size is news at once.
    tally.no_node("n1");
    assert!(!tally.facts().is_told_by(&fuller));
}

#[test]
fn what_wanted_everything_leaves_nothing_behind() {
    const MOST: &str = "9223372036854775807";
    let mut tally = Tally::default();
    tally.node(&node("a", &json!({}), "4", &json!({})));
    tally.pod(&pod("p", "a", "1", "Running"));
    let before = tally.facts();
    assert_eq!(shapes(&tally), [(1, "3".to_owned())]);
    for phase in ["Succeeded", "Running"] {
        tally.pod(&pod("q", "a", MOST, "Running"));
        tally.pod(&pod("r", "a", MOST, "Running"));
        assert_eq!(shapes(&tally), [(1, "0".to_owned())]);
        tally.pod(&pod("q", "a", MOST, phase));
        tally.no_pod("q");
        tally.no_pod("r");
        assert_eq!(tally.facts(), before);
    }
    // Nodes that claim everything come to what can be told, and go again.
    for name in ["b", "c"] {
        tally.node(&node(name, &json!({}), MOST, &json!({})));
    }
    let facts = tally.facts();
    assert_eq!(amount(&facts.allocatable, "cpu"), "9223372036854775807m");
    assert_eq!(amount(&facts.free.list(), "cpu"), "9223372036854775807m");
    for name in ["b", "c"] {
        tally.no_node(name);
    }
    assert_eq!(tally.facts(), before);
}

#[test]
fn what_no_pod_gets_is_not_allocatable_and_what_only_some_get_has_no_shape() {
    let taint = |effect: &str| json!({ "taints": [{ "key": "k", "effect": effect }] });
    // An empty list would be taken for the capacity.
    let (four, nothing) = ("4", "0");
    for (spec, ready, allocatable, open) in [
        (json!({}), "True", four, true),
        (taint("PreferNoSchedule"), "True", four, true),
        (taint("NoSchedule"), "True", four, false),
        (taint("NoExecute"), "True", four, false),
        (json!({ "unschedulable": true }), "True", nothing, false),
        (json!({}), "False", nothing, false),
        (json!({}), "Unknown", nothing, false),
    ] {
        let mut node = node("a", &json!({}), "4", &spec);
        let conditions = node.status.as_mut().unwrap().conditions.as_mut();
        ready.clone_into(&mut conditions.unwrap()[0].status);
        let mut tally = Tally::default();
        tally.node(&node);
        assert_eq!(!shapes(&tally).is_empty(), open, "{spec} {ready}");
        let facts = tally.facts();
        assert_eq!(amount(&facts.capacity, "cpu"), "4", "{spec} {ready}");
        assert_eq!(
            amount(&facts.allocatable, "cpu"),
            allocatable,
            "{spec} {ready}"
        );
    }
}

#[test]
fn pods_and_taints_take_of_what_is_free_and_not_of_allocatable() {
    let mut tally = Tally::default();
    tally.node(&node("a", &json!({}), "4", &json!({})));
    let taint = json!({ "taints": [{ "key": "control-plane", "effect": "NoSchedule" }] });
    tally.node(&node("b", &json!({}), "8", &taint));
    tally.pod(&pod("p", "a", "1", "Running"));
    tally.pod(&pod("q", "b", "1", "Running"));
    let facts = tally.facts();
    assert_eq!(amount(&facts.allocatable, "cpu"), "12");
    assert_eq!(amount(&facts.free.list(), "cpu"), "3");
}

#[test]
fn what_changes_no_sum_is_no_change() {
    let mut tally = Tally::default();
    let news = |tally: &mut Tally| {
        let changed = tally.has_changed();
        tally.told();
        changed
    };
    let mut a = node("a", &json!({}), "4", &json!({}));
    tally.node(&a);
    assert!(news(&mut tally));
    let now = jiff::Timestamp::UNIX_EPOCH.to_string();
    let beat = json!([{ "type": "Ready", "status": "True", "lastHeartbeatTime": now }]);
    a.status.as_mut().unwrap().conditions = serde_json::from_value(beat).unwrap();
    tally.node(&a);
    tally.no_node("b");
    tally.no_pod("p");
    assert!(!news(&mut tally), "a heartbeat, and what nobody knew");
    for (phase, changes) in [
        ("Pending", true),
        ("Running", false),
        ("Succeeded", true),
        ("Succeeded", false),
    ] {
        tally.pod(&pod("p", "a", "1", phase));
        assert_eq!(news(&mut tally), changes, "{phase}");
    }
    tally.no_node("a");
    assert!(news(&mut tally));
}

#[test]
fn the_provider_of_all_nodes_is_a_label() {
    let provider = |tally: &Tally| tally.facts().labels.get(keys::CLOUD_PROVIDER).cloned();
    let of = |name: &str, label: Option<&str>, id: &str| {
        let labels = label.map_or(json!({}), |label| json!({ keys::CLOUD_PROVIDER: label }));
        node(name, &labels, "4", &json!({ "providerID": id }))
    };
    let mut tally = Tally::default();
    tally.node(&of("a", None, "aws:///eu-west-1a/i-1"));
    assert_eq!(provider(&tally).as_deref(), Some("aws"));
    tally.node(&of("b", Some("aws"), "strange scheme://"));
    assert_eq!(provider(&tally).as_deref(), Some("aws"));
    tally.node(&of("c", None, "gce://p/z/n"));
    assert_eq!(provider(&tally), None);
    tally.node(&of("c", None, "bare"));
    assert_eq!(provider(&tally), None);
}

#[test]
fn zones_of_all_nodes_are_told() {
    let mut tally = Tally::default();
    for (name, label, zone) in [
        ("one", "topology.kubernetes.io/zone", "eu-west-1b"),
        ("two", "topology.kubernetes.io/zone", "eu-west-1a"),
        ("three", "topology.kubernetes.io/zone", "eu-west-1b"),
        (
            "old",
            "failure-domain.beta.kubernetes.io/zone",
            "eu-west-1c",
        ),
        ("none", "zone", "x"),
    ] {
        tally.node(&node(name, &json!({ label: zone }), "4", &json!({})));
    }
    assert_eq!(tally.facts().zones, "eu-west-1a,eu-west-1b,eu-west-1c");
    tally.no_node("two");
    assert_eq!(tally.facts().zones, "eu-west-1b,eu-west-1c");
}
