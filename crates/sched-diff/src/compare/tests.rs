use serde_json::{Value, json};

use super::{
    Aspect, Difference, compare, compare_choice, compare_gate, compare_message, compare_report,
};
use crate::verdict::Verdict;

fn verdict(text: Value) -> Verdict {
    let mut verdict: Verdict = serde_json::from_value(text).unwrap();
    verdict.sum();
    verdict
}

fn usual() -> Value {
    json!({
        "filter": {"c": {"plugin": "Fit", "code": "Unschedulable", "reasons": ["x", "y"]}},
        "scores": {"a": {"P": 10, "Q": 0}, "b": {"P": 5}},
        "nodes": ["a", "b", "c"],
    })
}

fn differences(ours: Value, theirs: Value) -> Vec<Difference> {
    compare(&verdict(ours), &verdict(theirs), |node| node != "gone")
}

fn aspects(ours: Value, theirs: Value) -> Vec<(Aspect, Option<String>, Option<String>)> {
    let found = differences(ours, theirs).into_iter();
    found.map(|it| (it.aspect, it.node, it.plugin)).collect()
}

fn changed(change: impl Fn(&mut Value)) -> Value {
    let mut value = usual();
    change(&mut value);
    value
}

#[test]
fn the_same_in_another_order_is_no_difference() {
    let other = changed(|it| {
        it["filter"]["c"]["reasons"] = json!(["y", "x"]);
        it["nodes"] = json!(["c", "gone", "b", "a"]);
        it["raw"] = json!({"a": {"P": 1}});
    });
    assert_eq!(differences(usual(), other), []);
}

#[test]
fn each_part_of_a_refusal_counts() {
    let on_c = |plugin: &str| {
        (
            Aspect::Filter,
            Some("c".to_owned()),
            Some(plugin.to_owned()),
        )
    };
    for (field, value, plugin) in [
        ("plugin", json!("Taints"), "Fit and Taints"),
        ("code", json!("Error"), "Fit"),
        ("reasons", json!(["x"]), "Fit"),
    ] {
        let other = changed(|it| it["filter"]["c"][field] = value.clone());
        assert_eq!(aspects(usual(), other), [on_c(plugin)], "{field}");
    }
    let other = changed(|it| it["filter"] = json!({}));
    assert_eq!(aspects(usual(), other), [on_c("Fit")]);
}

#[test]
fn a_score_changes_sum_and_best_nodes() {
    let other = changed(|it| it["scores"]["b"]["P"] = json!(20));
    let b = || Some("b".to_owned());
    assert_eq!(
        aspects(usual(), other),
        [
            (Aspect::Score, b(), Some("P".to_owned())),
            (Aspect::Total, b(), None),
            (Aspect::Best, None, None),
        ]
    );
    // A plugin that said nothing isn't one that said 0.
    let silent = changed(|it| it["scores"]["a"] = json!({"P": 10}));
    let a = Some("a".to_owned());
    assert_eq!(
        aspects(usual(), silent),
        [(Aspect::Score, a, Some("Q".to_owned()))]
    );
}

#[test]
fn pre_filter_and_the_nodes_it_leaves_are_compared() {
    let refused = json!({"preFilter": {"plugin": "P", "code": "Unschedulable", "reasons": ["r"]}});
    let plugin = Some("P".to_owned());
    let found = aspects(json!({}), refused.clone());
    assert_eq!(found, [(Aspect::PreFilter, None, plugin)]);
    assert_eq!(aspects(refused.clone(), refused), []);
    let fewer = changed(|it| it["nodes"] = json!(["a", "b"]));
    assert_eq!(aspects(usual(), fewer), [(Aspect::Offered, None, None)]);
    let all = changed(|it| it["nodes"] = Value::Null);
    assert_eq!(aspects(usual(), all), [(Aspect::Offered, None, None)]);
}

#[test]
fn failures_are_compared_as_such() {
    let failed = || json!({"error": "no"});
    assert_eq!(aspects(failed(), json!({"error": "nay"})), []);
    assert_eq!(aspects(failed(), usual()), [(Aspect::Answer, None, None)]);
}

#[test]
fn texts_and_gates_are_compared_whole() {
    assert_eq!(compare_message(Some("a"), Some("a")), None);
    let difference = compare_message(Some("a"), None).unwrap();
    assert_eq!(
        difference.to_string(),
        "Message: ours \"a\", theirs nothing"
    );
    let gate = serde_json::from_value(json!({"plugin": "G", "code": "C", "reasons": []}));
    let gate = gate.unwrap();
    assert_eq!(compare_gate(Some(&gate), Some(&gate)), None);
    let difference = compare_gate(None, Some(&gate)).unwrap();
    assert_eq!(difference.signature().to_string(), "PreEnqueue of G");
}

#[test]
fn what_only_theirs_says_of_preemption_is_passed_over() {
    let theirs = Some("1 full. preemption: none");
    assert_eq!(compare_report(Some("1 full."), theirs), None);
    assert_eq!(compare_report(Some("1 full."), Some("1 full.")), None);
    assert!(compare_report(Some("1 empty."), theirs).is_some());
}

#[test]
fn the_nominated_node_is_taken_alone_if_it_will_do() {
    let theirs = verdict(json!({"scores": {"a": {"P": 10}, "b": {"P": 10}, "c": {"P": 1}}}));
    let said = |ours: &str, nominated: Option<&str>| {
        let nominated = nominated.map(str::to_owned);
        let found = compare_choice(ours, &theirs, nominated.as_ref());
        found.map(|it| (it.aspect, it.theirs))
    };
    let one_of = |nodes: &str| Some((Aspect::Choice, format!("one of {nodes}")));
    for best in ["a", "b"] {
        assert_eq!(said(best, None), None);
        assert_eq!(said(best, Some("gone")), None, "it won't do");
        assert_eq!(said(best, Some("c")), one_of("[\"c\"]"));
    }
    assert_eq!(said("c", None), one_of("[\"a\", \"b\"]"));
    assert_eq!(said("c", Some("c")), None);
    assert_eq!(
        said("b", Some("a")),
        one_of("[\"a\"]"),
        "although it is as good"
    );
}
