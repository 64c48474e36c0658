use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{EXPLAINED, Explanation, Scene, explain};
use crate::compare::{Aspect, Difference, compare};
use crate::configuration::Configuration;
use crate::verdict::{Refusal, Verdict};
use crate::world::World;

const SCORES_OF_P: Explanation = Explanation {
    name: "p",
    reason: "P is another one.",
    most: 1000,
    explains: |_, difference| difference.plugin.as_deref() == Some("P"),
};

fn difference(aspect: Aspect, plugin: Option<&str>) -> Difference {
    let mut difference = Difference::new(aspect, "1", "2");
    difference.plugin = plugin.map(str::to_owned);
    difference
}

fn left(differences: Vec<Difference>) -> (usize, usize) {
    let (pod, world, verdict) = (Value::Null, World::default(), Verdict::default());
    let scene = Scene {
        pod: &pod,
        world: &world,
        ours: &verdict,
        theirs: &verdict,
    };
    let (open, names) = explain(&scene, differences, &[SCORES_OF_P]);
    (open.len(), names.len())
}

#[test]
fn what_follows_from_an_explained_difference_is_explained_with_it() {
    let p = || difference(Aspect::Score, Some("P"));
    let q = || difference(Aspect::Score, Some("Q"));
    let best = || difference(Aspect::Best, None);
    assert_eq!(left(vec![p(), best()]), (0, 1));
    assert_eq!(left(vec![best()]), (1, 0));
    assert_eq!(left(vec![p(), q(), best()]), (2, 1));
}

#[test]
fn a_node_more_or_less_shifts_only_scores_that_nodes_have_beside_each_other() {
    let refused = || difference(Aspect::Filter, Some("P"));
    let score = |plugin| difference(Aspect::Score, Some(plugin));
    assert_eq!(left(vec![refused(), score("TaintToleration")]), (0, 1));
    for plugin in super::SCORED_ALONE {
        assert_eq!(left(vec![refused(), score(plugin)]), (1, 1), "{plugin}");
    }
}

#[test]
fn who_fails_before_it_looks_for_victims_has_none() {
    let preemption = || difference(Aspect::Preemption, None);
    let of_p = |aspect| difference(aspect, Some("P"));
    assert_eq!(left(vec![of_p(Aspect::Answer), preemption()]), (0, 1));
    assert_eq!(left(vec![of_p(Aspect::Score), preemption()]), (1, 1));
}

#[test]
fn each_explanation_has_its_paragraph() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/scheduler-differences.md")).unwrap();
    let (mut parts, mut headings) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            parts.push(part);
        } else if let Some(heading) = line.strip_prefix("### ") {
            headings.push((parts.len(), heading));
        }
    }
    assert_eq!(parts, ["What the test allows", "What the test doesn't see"]);
    let of = |part: usize| {
        let headings = headings.iter().filter(move |(at, _)| *at == part);
        headings.map(|(_, heading)| *heading).collect::<Vec<_>>()
    };
    let names: Vec<_> = EXPLAINED.iter().map(|one| one.name).collect();
    assert_eq!(of(1), names);
    assert!(!of(2).is_empty());
}

/// What one side says of a node: the plugin that refuses it, and its reasons.
type Said<'a> = Option<(&'a str, &'a [&'a str])>;

fn verdict(node: &str, said: Said<'_>) -> Verdict {
    let refusal = |(plugin, reasons): (&str, &[&str])| Refusal {
        plugin: plugin.to_owned(),
        code: "Unschedulable".to_owned(),
        reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
    };
    Verdict {
        filter: said
            .map(|said| (node.to_owned(), refusal(said)))
            .into_iter()
            .collect(),
        ..Verdict::default()
    }
}

/// Whether the two verdicts on the pod differ, and all of that is explained.
fn is_explained(world: &World, pod: &Value, ours: &Verdict, theirs: &Verdict) -> bool {
    let scene = Scene {
        pod,
        world,
        ours,
        theirs,
    };
    let (open, names) = explain(&scene, compare(ours, theirs, |_| true), EXPLAINED);
    open.is_empty() && !names.is_empty()
}

fn node(name: &str, allocatable: &Value) -> Value {
    json!({"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}})
}

fn pod(name: &str, node: &str, container: &Value) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "d"},
        "spec": {"nodeName": node, "containers": [container]}})
}

const PORTS: Said<'static> = Some(("NodePorts", &["node(s) didn't have free ports"]));

fn explained_ports(world: &World, wanted: &Value, ours: Said<'_>, theirs: Said<'_>) -> bool {
    let pod = pod("asks", "", &json!({ "ports": wanted }));
    is_explained(world, &pod, &verdict("n", ours), &verdict("n", theirs))
}

#[test]
fn a_host_port_is_explained_once_one_of_its_holders_has_gone() {
    let held = json!({"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]});
    let (first, second) = (pod("a", "n", &held), pod("b", "n", &held));
    let mut world = World::new(&Configuration::default(), &[first.clone(), second.clone()]);
    let wanted = json!([{"hostPort": 80}]);
    assert!(!explained_ports(&world, &wanted, PORTS, None));
    world.delete(&first);
    assert!(explained_ports(&world, &wanted, PORTS, None));
    // kube-scheduler goes on to a plugin that comes later.
    let later = Some(("NodeName", &["n"][..]));
    assert!(explained_ports(&world, &wanted, PORTS, later));
    // It doesn't refuse more than ours, nor does ours what isn't in the way.
    assert!(!explained_ports(&world, &wanted, None, PORTS));
    assert!(!explained_ports(&world, &wanted, later, PORTS));
    for other in [
        json!([{"hostPort": 80, "protocol": "UDP"}]),
        json!([{"hostPort": 80, "hostIP": "10.0.0.2"}]),
        json!([{"hostPort": 81}]),
    ] {
        assert!(!explained_ports(&world, &other, PORTS, None), "{other}");
    }
    // What else is in the way is in both.
    let other = json!({"ports": [{"hostPort": 80, "hostIP": "10.0.0.2"}]});
    world.apply(&pod("c", "n", &other));
    assert!(!explained_ports(&world, &wanted, PORTS, None));
    world.delete(&pod("c", "n", &other));
    world.nominate(&pod("d", "", &other), "n");
    assert!(!explained_ports(&world, &wanted, PORTS, None));
    world.delete(&pod("d", "", &other));
    assert!(explained_ports(&world, &wanted, PORTS, None));
    // Said anew, the port is back.
    world.apply(&second);
    assert!(!explained_ports(&world, &wanted, PORTS, None));
}

fn asks(amounts: &Value) -> Value {
    json!({"resources": { "requests": amounts }})
}

#[test]
fn a_refusal_is_explained_by_the_amounts_of_its_node_and_resource() {
    let usual = json!({"cpu": "4", "memory": "8Gi"});
    let nodes = [node("n", &usual), node("m", &usual)];
    let mut world = World::new(&Configuration::default(), &nodes);
    world.apply(&pod("a", "m", &asks(&json!({"memory": "7Ei"}))));
    let pod_here = pod("p", "", &asks(&json!({"cpu": "1", "memory": "7Ei"})));
    let explained = |ours: &[&str], theirs: &[&str], node| {
        let fit = |reasons| verdict(node, Some(("NodeResourcesFit", reasons)));
        is_explained(&world, &pod_here, &fit(ours), &fit(theirs))
    };
    let (cpu, memory) = ("Insufficient cpu", "Insufficient memory");
    // On n the pod's own amount is all there is, which fits; on m there are two of them, which don't.
    assert!(!explained(&[memory], &[], "n"));
    assert!(explained(&[memory], &[], "m"));
    assert!(explained(&[memory, cpu], &[cpu], "m"));
    assert!(!explained(&[memory, cpu], &[memory], "m"));
    assert!(!explained(&[memory, "Too many pods"], &[], "m"));
}

#[test]
fn an_amount_that_just_fits_explains_no_refusal_and_one_that_does_not_explains_it() {
    let explained = |resource: &str, amount: &str| {
        let allocatable = json!({ resource: amount });
        let world = World::new(&Configuration::default(), &[node("n", &allocatable)]);
        let reason = format!("Insufficient {resource}");
        let ours = verdict("n", Some(("NodeResourcesFit", &[&reason])));
        let pod = pod("p", "", &asks(&json!({ resource: "1" })));
        is_explained(&world, &pod, &ours, &verdict("n", None))
    };
    assert!(!explained("memory", "9223372036854775806"));
    assert!(explained("memory", "9223372036854775808"));
    assert!(!explained("cpu", "9223372036854775"));
    assert!(explained("cpu", "9223372036854776"));
}

#[test]
fn a_score_is_explained_by_the_amounts_that_its_plugin_looks_at() {
    let mut configuration = Configuration::default();
    let nodes = [
        node("large", &json!({"memory": "1E", "example.com/gpu": "8Ei"})),
        node("usual", &json!({"memory": "8Gi", "example.com/gpu": "8"})),
    ];
    let pod = pod("p", "", &json!({}));
    let explained = |configuration: &Configuration, node: &str, plugin: &str| {
        let world = World::new(configuration, &nodes);
        let scored = |score: i64| Verdict {
            scores: [(node.to_owned(), [(plugin.to_owned(), score)].into())].into(),
            ..Verdict::default()
        };
        is_explained(&world, &pod, &scored(1), &scored(2))
    };
    // A hundred times 1E don't fit; that of balance is no integer.
    assert!(explained(&configuration, "large", "NodeResourcesFit"));
    assert!(!explained(&configuration, "usual", "NodeResourcesFit"));
    let balanced = "NodeResourcesBalancedAllocation";
    assert!(!explained(&configuration, "large", balanced));
    assert!(!explained(&configuration, "large", "TaintToleration"));
    let resources = json!({"resources": [{"name": "example.com/gpu"}]});
    configuration
        .arguments
        .insert(balanced.to_owned(), resources);
    assert!(explained(&configuration, "large", balanced));
    assert!(!explained(&configuration, "usual", balanced));
}

#[test]
fn an_invalid_score_is_explained_by_a_node_that_may_have_got_it() {
    let nodes = [
        node("n", &json!({"memory": "8Ei"})),
        node("m", &json!({"memory": "8Gi"})),
    ];
    let world = World::new(&Configuration::default(), &nodes);
    let pod = pod("p", "", &json!({}));
    let explained = |ours: &Verdict, plugin: &str| {
        let theirs = Verdict::failed(format!("plugin \"{plugin}\" returns an invalid score -7"));
        is_explained(&world, &pod, ours, &theirs)
    };
    let scored = |node: &str| Verdict {
        scores: [(node.to_owned(), [].into())].into(),
        ..Verdict::default()
    };
    assert!(explained(&scored("n"), "NodeResourcesFit"));
    assert!(!explained(&scored("n"), "ImageLocality"));
    assert!(!explained(&scored("m"), "NodeResourcesFit"));
    let refused = |plugin| verdict("n", Some((plugin, &["r"])));
    assert!(explained(&refused("NodeResourcesFit"), "NodeResourcesFit"));
    assert!(!explained(&refused("NodeName"), "NodeResourcesFit"));
}

#[test]
fn a_term_that_selects_namespaces_by_absence_explains_what_its_plugin_says_of_strangers() {
    const ITS: &str = "InterPodAffinity";
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let node = |name: &str, zone: &str| {
        let labels = json!({ "zone": zone });
        json!({"kind": "Node", "metadata": {"name": name, "labels": labels}})
    };
    let nodes = [node("n", "a"), node("m", "a"), node("far", "b")];
    let mut world = World::new(&Configuration::default(), &nodes);
    let explained = |world: &World, field: &str, selector: &Value, at: (&str, &str)| {
        let mut pod = pod("p", "", &json!({}));
        pod["spec"]["affinity"][field][REQUIRED] = json!([{"topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "x"}}, "namespaceSelector": selector}]);
        let refused = verdict(at.0, Some((at.1, &["r"])));
        is_explained(world, &pod, &verdict(at.0, None), &refused)
    };
    let anti = |world: &World, selector: &Value, node: &str| {
        explained(world, "podAntiAffinity", selector, (node, ITS))
    };
    let absent = json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]});
    assert!(!anti(&world, &absent, "n"), "nobody is there");
    let mut stranger = pod("q", "m", &json!({}));
    stranger["metadata"]["labels"] = json!({"app": "x"});
    world.apply(&stranger);
    assert!(anti(&world, &absent, "n") && anti(&world, &absent, "m"));
    assert!(!anti(&world, &absent, "far"), "it is elsewhere");
    let near = ("far", ITS);
    assert!(explained(&world, "podAffinity", &absent, near));
    let other = ("n", "PodTopologySpread");
    assert!(!explained(&world, "podAntiAffinity", &absent, other));
    let mut more = absent.clone();
    more["matchLabels"] = json!({"team": "x"});
    for other in [
        json!({}),
        json!({"matchLabels": {"team": "x"}}),
        json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
        more,
    ] {
        assert!(!anti(&world, &other, "n"), "{other}");
    }
    world.apply(&json!({"kind": "Namespace", "metadata": {"name": "d"}}));
    assert!(!anti(&world, &absent, "n"), "both count it");
    stranger["metadata"]["labels"] = json!({"app": "y"});
    world.apply(&json!({"kind": "Namespace",
        "metadata": {"name": "d", "labels": {"team": "x"}}}));
    assert!(anti(&world, &absent, "n"));
    world.apply(&stranger);
    assert!(!anti(&world, &absent, "n"), "neither counts it");
}

#[test]
fn whom_preemption_evicts_is_explained_by_the_nodes_that_it_is_about() {
    let nodes = [
        node("n", &json!({"memory": "8Ei"})),
        node("m", &json!({"memory": "8Gi"})),
    ];
    let world = World::new(&Configuration::default(), &nodes);
    let pod = pod("p", "", &json!({}));
    let said: Said<'_> = Some(("NodeResourcesFit", &["Insufficient memory"]));
    let mut full = verdict("n", said);
    full.filter.extend(verdict("m", said).filter);
    let left = |ours: &Verdict, differences: Vec<Difference>| {
        let scene = Scene {
            pod: &pod,
            world: &world,
            ours,
            theirs: &full,
        };
        explain(&scene, differences, EXPLAINED).0.len()
    };
    let room = |node: &str| Difference {
        node: Some(node.to_owned()),
        ..Difference::new(Aspect::Preemption, "", "")
    };
    assert_eq!(left(&full, vec![room("n")]), 0);
    assert_eq!(left(&full, vec![room("m")]), 1);
    assert_eq!(left(&full, vec![room("n"), room("m")]), 1);
    // On n ours sees room as it is; then it has no need of any on m.
    let fits = Verdict {
        filter: verdict("m", said).filter,
        scores: [("n".to_owned(), [].into())].into(),
        ..Verdict::default()
    };
    let refused = compare(&full, &fits, |_| true);
    let filter = || {
        refused
            .iter()
            .filter(|it| it.aspect == Aspect::Filter)
            .cloned()
    };
    assert_eq!(left(&fits, filter().chain([room("m")]).collect()), 0);
    assert_eq!(left(&full, filter().chain([room("m")]).collect()), 1);
}
