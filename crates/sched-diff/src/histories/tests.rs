use serde_json::{Value, json};

use super::play;
use crate::case::{Case, Step};
use crate::compare::{Aspect, Difference};
use crate::configuration::Configuration;
use crate::generate::generate;
use crate::object;
use crate::play::{Players, Report};
use crate::shrink::shrink;
use crate::side::SideError;
use crate::subject::{Subject, deaf};

/// Plays a history beside our own plugins' word.
fn tried(case: &Case, ours: &mut Subject) -> Result<Report, SideError> {
    let mut theirs = Subject::default();
    let mut players = Players {
        ours,
        theirs: &mut theirs,
        explanations: &[],
    };
    play(case, &mut players)
}

fn played(case: &Case) -> Report {
    tried(case, &mut Subject::default()).unwrap()
}

#[test]
fn nobody_is_overlooked_by_our_own_plugins_word() {
    let (mut asked, mut placed) = (0, 0);
    for seed in 0..20 {
        let report = played(&generate(seed));
        assert_eq!(report.disagreements, [], "seed {seed}");
        asked += report.pods;
        placed += report.placed;
    }
    assert!(asked > 500 && placed > 100, "{asked} and {placed}");
}

/// Who is overlooked first.
fn overlooked(case: &Case, ours: &mut Subject) -> Option<Difference> {
    // What a side refuses is no case.
    let report = tried(case, ours).ok()?;
    let found = report.disagreements.into_iter();
    let mut found = found.flat_map(|found| found.differences);
    found.find(|difference| difference.aspect == Aspect::Waiting)
}

#[test]
fn hints_that_pass_over_all_news_are_found_and_the_case_is_made_small() {
    let case = |seed| Case {
        configuration: deaf::configuration(),
        ..generate(seed)
    };
    let by_deaf = |case: &Case| overlooked(case, &mut deaf::deaf());
    let seed = (0..50).find(|seed| by_deaf(&case(*seed)).is_some());
    let case = case(seed.unwrap());
    assert_eq!(overlooked(&case, &mut Subject::default()), None);
    let small = shrink(&case, 1000, &mut |case| by_deaf(case).is_some());
    assert!(
        small.objects.len() <= 5 && small.steps.len() <= 5,
        "{small:?}"
    );
    let found = by_deaf(&small).unwrap();
    assert!(found.plugin.is_some(), "{found}");
    assert!(found.ours.contains(" after "), "{found}");
}

fn node(pods: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "pods": pods}}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "default-scheduler", "containers": []}})
}

fn case(steps: Vec<Step>) -> Case {
    Case {
        seed: 1,
        configuration: Configuration::default(),
        objects: vec![node("1")],
        steps,
    }
}

#[test]
fn who_waits_is_tried_when_something_helps() {
    let placed = |steps: Vec<Step>| {
        let report = played(&case(steps));
        assert_eq!(report.disagreements, []);
        report.placed
    };
    let come = |name: &str| Step::Schedule(pod(name));
    let after = |step: Step| placed(vec![come("a"), come("b"), step]);
    // The node takes one pod at a time.
    assert_eq!(placed(vec![come("a"), come("b")]), 1);
    assert_eq!(after(Step::Ask(pod("c"))), 1);
    assert_eq!(after(Step::Delete(pod("a"))), 2);
    assert_eq!(after(Step::Finish(pod("a"))), 2);
    assert_eq!(after(Step::Apply(node("2"))), 2);
    assert_eq!(after(Step::Delete(pod("b"))), 1);
    // With the node its pod is gone.
    let again = vec![
        come("a"),
        Step::Delete(node("1")),
        come("b"),
        Step::Apply(node("1")),
    ];
    assert_eq!(placed(again), 2);
    // A pod that ends is there until the next step.
    let mut ending = pod("a");
    ending["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
    let ends = || Step::Apply(ending.clone());
    assert_eq!(after(ends()), 1);
    let later = vec![come("a"), come("b"), ends(), Step::Ask(pod("c"))];
    assert_eq!(placed(later), 2);
    // One that is expected keeps its equals off the node.
    let nominate = || Step::Nominate {
        pod: pod("b"),
        node: "n".to_owned(),
    };
    assert_eq!(placed(vec![nominate(), come("a")]), 0);
    assert_eq!(placed(vec![nominate(), come("a"), come("b")]), 1);
    let gone = vec![nominate(), come("a"), Step::Delete(pod("b"))];
    assert_eq!(placed(gone), 1);
}

#[test]
fn each_pod_that_waits_is_asked_about_after_each_step() {
    let come = |name: &str| Step::Schedule(pod(name));
    let asked = |steps| played(&case(steps)).pods;
    assert_eq!(asked(vec![come("a")]), 0);
    assert_eq!(asked(vec![come("a"), come("b")]), 1);
    assert_eq!(asked(vec![come("a"), come("b"), come("c")]), 1 + 2);
    // Nobody is asked about that a gate keeps back.
    let held = Step::Nominate {
        pod: pod("b"),
        node: "n".to_owned(),
    };
    assert_eq!(asked(vec![held]), 0);
}

#[test]
fn victims_go_for_whoever_is_more_important() {
    let mut important = pod("high");
    important["spec"]["priority"] = 10.into();
    let quiet = || Step::Ask(pod("c"));
    let steps = vec![
        Step::Schedule(pod("low")),
        Step::Schedule(important),
        quiet(),
        quiet(),
    ];
    for seed in 0..8 {
        // At once by some seeds, with the next step by others.
        let mut case = case(steps.clone());
        case.seed = seed << 8;
        let report = played(&case);
        assert_eq!(report.disagreements, []);
        assert_eq!(report.placed, 2);
    }
}

#[test]
fn a_pod_that_waits_may_change() {
    let mut large = pod("a");
    large["spec"]["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]);
    let mut small = large.clone();
    let request = "/spec/containers/0/resources/requests/cpu";
    object::replace(&mut small, request, "1".into());
    let steps = vec![Step::Schedule(large), Step::Apply(small)];
    let report = played(&case(steps));
    assert_eq!((report.placed, report.disagreements), (1, vec![]));
}
