//! What is required, case by case.

use k8s_openapi::api::core::v1::PodAffinityTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{CROWDED, LONELY, UNWANTED, World, refused};
use crate::plugin::PreFilterExtensions;
use crate::test_objects::{PodBuilder, pod, pods_with, selecting};

/// Two zones of two nodes each, racks 1 and 2 across them, and a node that is nowhere.
fn harbour() -> World {
    World::of(&[
        ("east1", &[("zone", "east"), ("rack", "1")]),
        ("east2", &[("zone", "east"), ("rack", "2")]),
        ("nowhere", &[]),
        ("west1", &[("zone", "west"), ("rack", "1")]),
        ("west2", &[("zone", "west"), ("rack", "2")]),
    ])
}

fn app(name: &str, app: &str) -> PodBuilder {
    pod(name).label("app", app)
}

/// These nodes, each for this reason.
fn all(nodes: &[&str], why: &str) -> Vec<(String, String)> {
    let nodes = nodes.iter();
    nodes
        .map(|node| ((*node).to_owned(), why.to_owned()))
        .collect()
}

#[test]
fn a_pod_goes_where_those_are_that_it_wants_to_be_near() {
    let world = harbour().with("east1", app("db", "db"));
    let near = |key| pod("p").near(pods_with(key, &[("app", "db")]));
    for (what, pod, refused) in [
        ("its zone", near("zone"), &["nowhere", "west1", "west2"][..]),
        ("its rack", near("rack"), &["east2", "nowhere", "west2"]),
        (
            "its node",
            near("kubernetes.io/hostname"),
            &["east2", "nowhere", "west1", "west2"],
        ),
        (
            "both",
            near("zone").near(pods_with("rack", &[("app", "db")])),
            &["east2", "nowhere", "west1", "west2"],
        ),
        (
            "a label that no node has",
            near("planet"),
            &["east1", "east2", "nowhere", "west1", "west2"],
        ),
    ] {
        assert_eq!(world.refused(pod), all(refused, LONELY), "{what}");
    }
}

#[test]
fn one_pod_has_to_be_what_all_terms_mean() {
    let both = || {
        pod("p")
            .near(pods_with("zone", &[("app", "db")]))
            .near(pods_with("rack", &[("tier", "back")]))
    };
    let apart = harbour()
        .with("east1", app("a", "db"))
        .with("east1", pod("b").label("tier", "back"));
    let nodes = ["east1", "east2", "nowhere", "west1", "west2"];
    assert_eq!(apart.refused(both()), all(&nodes, LONELY));
    // Each term has its place from it: the zone of one and the rack of another one are together somewhere else.
    let together = |name| app(name, "db").label("tier", "back");
    let world = harbour()
        .with("east1", together("a"))
        .with("west2", together("b"));
    assert_eq!(world.refused(both()), all(&["nowhere"], LONELY));
}

#[test]
fn the_first_of_pods_that_want_to_be_together_may_go_anywhere() {
    let first = || app("p", "db").near(pods_with("zone", &[("app", "db")]));
    assert_eq!(harbour().refused(first()), all(&["nowhere"], LONELY));
    // One that its term doesn't mean waits for one that it does.
    let other = app("p", "web").near(pods_with("zone", &[("app", "db")]));
    let nodes = ["east1", "east2", "nowhere", "west1", "west2"];
    assert_eq!(harbour().refused(other), all(&nodes, LONELY));
    // As does one of which not all terms mean it.
    let half = first().near(pods_with("rack", &[("app", "web")]));
    assert_eq!(harbour().refused(half), all(&nodes, LONELY));
    // The second one is bound to the first one's place.
    let second = harbour().with("west1", app("db", "db"));
    assert_eq!(
        second.refused(first()),
        all(&["east1", "east2", "nowhere"], LONELY)
    );
    // One that is at no place is no first one.
    let lost = harbour().with("nowhere", app("db", "db"));
    assert_eq!(lost.refused(first()), all(&["nowhere"], LONELY));
}

#[test]
fn a_pod_keeps_away_from_those_that_any_of_its_terms_means() {
    let world = harbour()
        .with("east1", app("a", "db"))
        .with("nowhere", app("b", "db"));
    let away = |key| pod("p").away_from(pods_with(key, &[("app", "db")]));
    for (what, pod, refused) in [
        ("its zone", away("zone"), &["east1", "east2"][..]),
        (
            "its node",
            away("kubernetes.io/hostname"),
            &["east1", "nowhere"],
        ),
        ("a label that no node has", away("planet"), &[]),
        (
            "either",
            away("rack").away_from(pods_with("zone", &[("app", "web")])),
            &["east1", "west1"],
        ),
        (
            "two by one label",
            away("zone").away_from(pods_with("zone", &[("app", "web")])),
            &["east1", "east2"],
        ),
    ] {
        assert_eq!(world.refused(pod), all(refused, CROWDED), "{what}");
    }
}

#[test]
fn pods_that_are_there_keep_others_away() {
    let world = harbour()
        .with(
            "east1",
            app("a", "db").away_from(pods_with("zone", &[("app", "web")])),
        )
        .with(
            "west2",
            app("b", "db").away_from(pods_with("rack", &[("app", "api")])),
        )
        .with(
            "nowhere",
            app("c", "db").away_from(pods_with("zone", &[("app", "cron")])),
        );
    for (what, pod, refused) in [
        ("from its zone", app("p", "web"), &["east1", "east2"][..]),
        ("from its rack", app("p", "api"), &["east2", "west2"]),
        ("who has no place keeps nobody", app("p", "cron"), &[]),
        ("nobody else", app("p", "tug"), &[]),
    ] {
        assert_eq!(world.refused(pod), all(refused, UNWANTED), "{what}");
    }
}

#[test]
fn the_first_reason_is_told() {
    let world = harbour()
        .with(
            "east1",
            app("a", "db").away_from(pods_with("zone", &[("app", "web")])),
        )
        .with(
            "west1",
            app("b", "db").away_from(pods_with("rack", &[("app", "web")])),
        );
    let pod = app("p", "web")
        .near(pods_with("zone", &[("app", "db")]))
        .away_from(pods_with("kubernetes.io/hostname", &[("app", "db")]));
    let told = |node: &str, why: &str| (node.to_owned(), why.to_owned());
    assert_eq!(
        world.refused(pod),
        [
            told("east1", CROWDED),
            told("east2", UNWANTED),
            told("nowhere", LONELY),
            told("west1", CROWDED),
        ]
    );
}

#[test]
fn a_term_without_selector_means_nobody_and_an_empty_one_everybody() {
    let world = harbour().with("east1", app("a", "db"));
    let nobody = PodAffinityTerm {
        label_selector: None,
        ..pods_with("zone", &[])
    };
    assert_eq!(world.refused(pod("p").away_from(nobody)), []);
    let everybody = pod("p").away_from(pods_with("zone", &[]));
    assert_eq!(world.refused(everybody), all(&["east1", "east2"], CROWDED));
}

#[test]
fn pods_that_are_being_deleted_count_as_long_as_they_are_there() {
    let away = pods_with("zone", &[("app", "web")]);
    let world = harbour().with("east1", app("a", "db").away_from(away).deleting());
    let refused = world.refused(app("p", "web"));
    assert_eq!(refused, all(&["east1", "east2"], UNWANTED));
    let away = pod("p").away_from(pods_with("zone", &[("app", "db")]));
    assert_eq!(world.refused(away), all(&["east1", "east2"], CROWDED));
}

#[test]
fn pods_of_other_namespaces_count_if_a_term_says_so() {
    let world = harbour()
        .namespace("shop", &[("team", "x")])
        .namespace("bank", &[("team", "y")])
        .with("east1", app("a", "db").namespace("shop"))
        .with("west1", app("b", "db").namespace("unknown"));
    let not_y = LabelSelector {
        match_labels: None,
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "team".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec!["y".to_owned()]),
        }]),
    };
    let (east, west) = (["east1", "east2"], ["west1", "west2"]);
    for (what, names, selector, refused) in [
        ("the own one", &[][..], None, vec![]),
        ("by name", &["shop"], None, east.to_vec()),
        ("one that isn't there", &["unknown"], None, west.to_vec()),
        (
            "by label",
            &[],
            Some(selecting(&[("team", "x")])),
            east.to_vec(),
        ),
        (
            "by another one",
            &[],
            Some(selecting(&[("team", "y")])),
            vec![],
        ),
        (
            "both",
            &["unknown"],
            Some(selecting(&[("team", "x")])),
            [east, west].concat(),
        ),
        // Nobody knows what labels the unknown one has.
        ("by no label", &[], Some(not_y.clone()), east.to_vec()),
        ("all", &[], Some(selecting(&[])), [east, west].concat()),
    ] {
        let term = PodAffinityTerm {
            namespaces: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            namespace_selector: selector,
            ..pods_with("zone", &[("app", "db")])
        };
        let told = world.refused(pod("p").away_from(term));
        assert_eq!(told, all(&refused, CROWDED), "{what}");
    }
    // The other way around the labels of the pod's own namespace count; of one that isn't known there are none.
    let keeps = |selector| PodAffinityTerm {
        namespace_selector: Some(selector),
        ..pods_with("zone", &[("app", "web")])
    };
    let world = world
        .with(
            "east1",
            app("c", "db").away_from(keeps(selecting(&[("team", "x")]))),
        )
        .with("west1", app("d", "db").away_from(keeps(not_y)));
    for (namespace, refused) in [
        ("shop", &["east1", "east2", "west1", "west2"][..]),
        ("bank", &[]),
        ("unknown", &["west1", "west2"]),
    ] {
        let told = world.refused(app("p", "web").namespace(namespace));
        assert_eq!(told, all(refused, UNWANTED), "{namespace}");
    }
}

#[test]
fn namespaces_that_are_relabelled_count_as_they_are() {
    let mut world = harbour().with("east1", app("a", "db").namespace("shop"));
    let away = || {
        let mut term = pods_with("zone", &[("app", "db")]);
        term.namespace_selector = Some(selecting(&[("team", "x")]));
        pod("p").away_from(term)
    };
    for team in ["x", "y", "x"] {
        world = world.namespace("shop", &[("team", team)]);
        let refused = world.refused(away());
        assert_eq!(refused.len(), if team == "x" { 2 } else { 0 }, "{team}");
    }
}

#[test]
fn pods_that_nobody_has_terms_about_are_no_concern() {
    let plain = app("p", "web").info();
    assert!(harbour().pre_filter(&plain).is_none());
    // One that is at no place says nothing; neither do preferences.
    let world = harbour()
        .with(
            "nowhere",
            app("a", "db").away_from(pods_with("zone", &[("app", "web")])),
        )
        .with(
            "east1",
            app("b", "db").prefers(-1, pods_with("zone", &[("app", "web")])),
        );
    assert!(world.pre_filter(&plain).is_none());
    let prefers = app("p", "web").prefers(1, pods_with("zone", &[("app", "web")]));
    assert!(world.pre_filter(&prefers.info()).is_none());
    let requires = app("p", "web").away_from(pods_with("zone", &[("app", "web")]));
    assert!(world.pre_filter(&requires.info()).is_some());
}

/// Asks what would be if a pod came to a node, or left it.
fn what_if(
    world: &mut World,
    pod: PodBuilder,
    steps: Vec<(&str, PodBuilder, bool)>,
) -> Vec<(String, String)> {
    let pod = pod.info();
    let state = world.pre_filter(&pod).unwrap();
    let before = refused(&world.plugin, &state, &pod, &world.table);
    let mut what_if = state.clone();
    for (node, other, comes) in steps {
        let (id, other) = (world.id(node), other.on(node).info());
        if comes {
            world.table.add_pod(id, other.clone());
            let node = world.table.get(id).unwrap();
            world
                .plugin
                .add_pod(&mut what_if, &pod, &other, node)
                .unwrap();
        } else {
            assert!(world.table.remove_pod(id, &other.uid).is_some());
            let node = world.table.get(id).unwrap();
            world
                .plugin
                .remove_pod(&mut what_if, &pod, &other, node)
                .unwrap();
        }
    }
    let told = refused(&world.plugin, &what_if, &pod, &world.table);
    let still = refused(&world.plugin, &state, &pod, &world.table);
    assert_eq!(still, before, "the state itself is as it was");
    told
}

#[test]
fn a_what_if_is_followed() {
    let db = |name| app(name, "db");
    let keeper = |key: &str| db("keeper").away_from(pods_with(key, &[("app", "web")]));
    let near = || app("p", "web").near(pods_with("zone", &[("app", "db")]));
    let mut world = harbour().with("east1", db("a"));
    let everywhere = ["east1", "east2", "nowhere", "west1", "west2"];
    // The only one goes: there is none, and it is no first one.
    let told = what_if(&mut world, near(), vec![("east1", db("a"), false)]);
    assert_eq!(told, all(&everywhere, LONELY));
    let told = what_if(&mut world, near(), vec![("west1", db("a"), true)]);
    assert_eq!(told, all(&["east1", "east2", "nowhere"], LONELY));
    // By a label that mattered to nobody before.
    let told = what_if(&mut world, near(), vec![("east2", keeper("rack"), true)]);
    let expected = [
        all(&["east2"], UNWANTED),
        all(&["nowhere"], LONELY),
        all(&["west2"], UNWANTED),
    ];
    assert_eq!(told, expected.concat());
    let steps = vec![
        ("east2", keeper("rack"), false),
        ("nowhere", keeper("zone"), true),
    ];
    let told = what_if(&mut world, near(), steps);
    assert_eq!(told, all(&["east1", "east2", "nowhere"], LONELY));
    // Two come to one place, and one of them goes.
    let away = || pod("p").away_from(pods_with("zone", &[("app", "db")]));
    let steps = vec![
        ("east1", db("b"), true),
        ("east2", db("c"), true),
        ("east1", db("b"), false),
    ];
    let told = what_if(&mut world, away(), steps);
    assert_eq!(told, all(&["east1", "east2", "west1", "west2"], CROWDED));
}

#[test]
fn a_first_one_counts_in_a_what_if() {
    let db = |name| app(name, "db").near(pods_with("zone", &[("app", "db")]));
    let mut world = harbour().with("east1", db("a"));
    let told = what_if(&mut world, db("p"), vec![("east1", db("a"), false)]);
    assert_eq!(told, all(&["nowhere"], LONELY));
    let told = what_if(&mut world, db("p"), vec![("west1", db("a"), true)]);
    assert_eq!(told, all(&["east1", "east2", "nowhere"], LONELY));
}
