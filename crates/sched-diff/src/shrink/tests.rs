use serde_json::json;

use super::shrink;
use crate::case::{Case, Step};
use crate::configuration::Configuration;
use crate::object;

fn large() -> Case {
    let node = |n: usize| {
        json!({"kind": "Node", "metadata": {"name": format!("n{n}"), "labels": {"a": "b"}},
            "spec": {"taints": [{"key": "x"}, {"key": "y"}, {"key": "z"}]},
            "status": {"allocatable": {"cpu": "1", "memory": "2"}}})
    };
    let pod = |n: usize| json!({"kind": "Pod", "metadata": {"name": format!("p{n}"), "uid": "u"}});
    let mut configuration = Configuration::default();
    let arguments = json!({"shape": [1, 2, 3], "other": 1});
    configuration.arguments.insert("Fit".to_owned(), arguments);
    Case {
        seed: 1,
        configuration,
        objects: (0..20).map(node).collect(),
        steps: (0..30).map(|n| Step::Schedule(pod(n))).collect(),
    }
}

/// Holds while one taint of one node, one pod and one argument are there.
fn holds(case: &Case) -> bool {
    let tainted = |node: &serde_json::Value| {
        let taints = object::list(node, "/spec/taints");
        object::name(node) == "n7" && taints.contains(&json!({"key": "y"}))
    };
    let arguments = case.configuration.arguments("Fit");
    case.objects.iter().any(tainted)
        && case
            .steps
            .iter()
            .any(|step| object::name(step.object()) == "p13")
        && arguments.is_some_and(|arguments| object::list(arguments, "/shape").contains(&json!(2)))
}

#[test]
fn what_is_left_is_what_it_takes() {
    let mut tried = 0;
    let small = shrink(&large(), 5000, &mut |case| {
        tried += 1;
        holds(case)
    });
    assert_eq!(
        small.objects,
        [json!({"kind": "Node", "metadata": {"name": "n7"}, "spec": {"taints": [{"key": "y"}]}})]
    );
    let pod = json!({"kind": "Pod", "metadata": {"name": "p13", "uid": "u"}});
    assert_eq!(small.steps, [Step::Schedule(pod)]);
    assert_eq!(small.configuration.arguments["Fit"], json!({"shape": [2]}));
    assert_eq!(small.configuration.plugins, []);
    // By halves: far fewer than one try for each part of each object.
    assert!(tried < 250, "{tried}");
}

#[test]
fn it_ends_when_its_tries_are_used_up() {
    let mut tried = 0;
    let small = shrink(&large(), 10, &mut |case| {
        tried += 1;
        holds(case)
    });
    assert_eq!(tried, 10);
    assert!(holds(&small));
}
