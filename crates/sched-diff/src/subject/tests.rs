use std::collections::BTreeMap;

use pilotage_sched::plugins::DYNAMIC_RESOURCES;
use serde_json::{Value, json};

use super::{Outcome, Subject, Unplaced, stock};
use crate::configuration::Configuration;
use crate::plugins::{STOCK, Stock, here};
use crate::side::Side as _;

fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

const NO_HELP: &str = " preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
    1 Preemption is not helpful for scheduling.";

fn nowhere(message: &str) -> Outcome {
    Outcome::Failed(Unplaced {
        message: message.to_owned(),
        ..Unplaced::default()
    })
}

fn open(objects: &[Value]) -> Subject {
    let mut subject = Subject::default();
    subject.open(&Configuration::default(), objects).unwrap();
    subject
}

#[test]
fn the_list_of_plugins_is_that_of_our_stock_profile() {
    let listed: BTreeMap<String, Option<i64>> = here()
        .filter(|plugin| plugin.filters || plugin.weight.is_some())
        .map(|plugin| (plugin.name.to_owned(), plugin.weight.map(i64::from)))
        .collect();
    let ours = stock().unwrap();
    assert_eq!(ours, listed, "`here` in plugins.rs says otherwise");
}

#[test]
fn a_plugin_that_is_not_here_is_refused() {
    // Of devices what concerns pods without claims is here.
    let missing = |plugin: &&Stock| !plugin.here && plugin.name != DYNAMIC_RESOURCES;
    for missing in STOCK.iter().filter(missing) {
        let mut configuration = Configuration::default();
        configuration.plugins[2].name = missing.name.to_owned();
        let error = Subject::default().open(&configuration, &[]).unwrap_err();
        assert!(error.to_string().contains(missing.name), "{error}");
    }
}

#[test]
fn what_evaluate_says_is_what_schedule_does() {
    let mut subject = open(&[node("small", "1"), node("large", "4")]);
    let verdict = subject.evaluate(&pod("a", "2")).unwrap();
    assert_eq!(verdict.best, ["large"]);
    let refusal = &verdict.filter["small"];
    assert_eq!(
        (&*refusal.plugin, &*refusal.code, &*refusal.reasons[0]),
        (
            "NodeResourcesFit",
            "UnschedulableAndUnresolvable",
            "Insufficient cpu"
        )
    );
    let outcome = subject.schedule(&pod("a", "2"), 1).unwrap();
    assert_eq!(outcome, Outcome::Placed("large".into()));
    // It takes room from now on, and gives it back.
    let verdict = subject.judge(&pod("b", "3")).unwrap();
    let message = "0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(verdict.message.as_deref(), Some(message));
    let outcome = subject.schedule(&pod("b", "3"), 1).unwrap();
    assert_eq!(outcome, nowhere(&format!("{message}{NO_HELP}")));
    subject.delete(&pod("a", "2")).unwrap();
    let outcome = subject.schedule(&pod("b", "3"), 1).unwrap();
    assert_eq!(outcome, Outcome::Placed("large".into()));
}

#[test]
fn a_nominated_pod_counts_until_its_turn_comes() {
    let mut subject = open(&[node("n", "2"), node("m", "1")]);
    subject.nominate(&pod("first", "2"), "n").unwrap();
    let verdict = subject.evaluate(&pod("second", "500m")).unwrap();
    assert_eq!(verdict.best, ["m"]);
    let outcome = subject.schedule(&pod("first", "2"), 1).unwrap();
    assert_eq!(outcome, Outcome::Placed("n".into()));
    subject.nominate(&pod("third", "1"), "m").unwrap();
    subject.delete(&pod("third", "1")).unwrap();
    assert_eq!(
        subject.evaluate(&pod("second", "500m")).unwrap().best,
        ["m"]
    );
}

#[test]
fn a_gated_pod_is_not_tried() {
    let mut subject = open(&[node("n", "2")]);
    let mut gated = pod("a", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    let Outcome::Gated(refusal) = subject.schedule(&gated, 1).unwrap() else {
        panic!("it was tried");
    };
    assert_eq!(refusal.plugin, "SchedulingGates");
}

#[test]
fn pre_filter_narrows_or_refuses() {
    let mut subject = open(&[node("n", "2"), node("m", "1")]);
    let pinned = |field: Value| {
        let mut pod = pod("a", "1");
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"] = json!([{"matchFields": field}]);
        pod
    };
    let named = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let verdict = subject.evaluate(&pinned(json!([named("n")]))).unwrap();
    assert_eq!(verdict.nodes, Some(vec!["n".to_owned()]));
    assert!(verdict.filter.is_empty() && verdict.pre_filter.is_none());
    let conflict = pinned(json!([named("n"), named("m")]));
    let verdict = subject.evaluate(&conflict).unwrap();
    let refusal = verdict.pre_filter.unwrap();
    assert_eq!(refusal.plugin, "NodeAffinity");
    assert_eq!((verdict.nodes, verdict.best.len()), (None, 0));
}

#[test]
fn without_nodes_there_is_only_a_message() {
    let mut subject = open(&[]);
    let message = "no nodes available to schedule pods";
    let verdict = subject.evaluate(&pod("a", "1")).unwrap();
    assert_eq!(verdict.message.as_deref(), Some(message));
    let outcome = subject.schedule(&pod("a", "1"), 1).unwrap();
    assert_eq!(outcome, nowhere(message));
}

#[test]
fn what_preemption_would_do_is_told_and_not_done() {
    let mut low = pod("low", "2");
    low["spec"]["nodeName"] = "n".into();
    let mut subject = open(&[node("n", "2"), node("m", "1"), low]);
    subject.nominate(&pod("expected", "1"), "n").unwrap();
    let mut high = pod("high", "2");
    high["spec"]["priority"] = 10.into();
    for _ in 0..2 {
        let verdict = subject.evaluate(&high).unwrap();
        assert_eq!(verdict.nominated.as_deref(), Some("n"));
        assert_eq!(verdict.victims, ["default/low"]);
        assert_eq!(verdict.cleared, ["default/expected"]);
        assert_eq!(verdict.candidates.len(), 1);
    }
    let Outcome::Failed(told) = subject.schedule(&high, 1).unwrap() else {
        panic!("it has a node");
    };
    assert_eq!(told.nominated.as_deref(), Some("n"));
    assert_eq!(
        (told.victims, told.cleared),
        (
            vec!["default/low".to_owned()],
            vec!["default/expected".to_owned()]
        )
    );
}
