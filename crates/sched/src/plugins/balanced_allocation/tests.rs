use std::sync::Arc;

use super::{ListedTwice, NodeResourcesBalancedAllocation, evenness, score};
use crate::coming::Coming;
use crate::plugin::{PreScore, PreScored, Score};
use crate::plugins::resource_load::ResourceLoad;
use crate::resources::ResourceName;
use crate::state::CycleState;
use crate::test_objects::{NodeBuilder, PodBuilder, node, pod, with_context};

fn plugin(names: &[&str]) -> NodeResourcesBalancedAllocation {
    let names = names.iter().map(|name| ResourceName::parse(name));
    NodeResourcesBalancedAllocation::new(names.collect()).unwrap()
}

fn pre_scored(plugin: &NodeResourcesBalancedAllocation, pod: PodBuilder) -> PreScored {
    let pod = pod.info();
    with_context(|cx| plugin.pre_score(cx, &mut CycleState::new(), &pod, &[])).unwrap()
}

fn ship(cpu: &str, memory: &str) -> PodBuilder {
    pod("p").request("cpu", cpu).request("memory", memory)
}

fn quay() -> NodeBuilder {
    node("quay")
        .allocatable("cpu", "10")
        .allocatable("memory", "1000")
}

#[test]
fn the_deviation_of_shares() {
    for (shares, expected) in [
        (&[][..], 100),
        (&[0.3], 100),
        (&[0.3, 0.3], 100),
        (&[0.8, 0.5], 85),
        (&[0.0, 1.0], 50),
        // Mean 1/3, deviation √2/3 = 0.4714.
        (&[1.0, 0.0, 0.0], 52),
        // Mean 0.5, deviation √0.125 = 0.3536.
        (&[0.0, 0.5, 0.5, 1.0], 64),
        (&[6.0 / 7.0, 1.0 / 8.0, 1.0 / 2.0], 70),
    ] {
        assert_eq!(evenness(shares.iter().copied()), expected, "{shares:?}");
    }
}

#[test]
fn the_change_of_balance() {
    let load = |(before, after)| ResourceLoad {
        allocatable: 10,
        before,
        after,
    };
    for (loads, expected) in [
        (&[][..], 75),
        (&[(2, 4)], 75),
        (&[(0, 3), (0, 3)], 75),
        // 100 to 50.
        (&[(0, 10), (0, 0)], 50),
        // 50 to 100.
        (&[(0, 10), (10, 10)], 100),
        // 85 to 95: 50 + 60 / 2.
        (&[(1, 3), (4, 4)], 80),
        // 95 to 80: 50 + 35 / 2, cut.
        (&[(4, 7), (3, 3)], 67),
        // More than there is counts as all.
        (&[(10, 90), (10, 10)], 75),
    ] {
        assert_eq!(
            score(loads.iter().copied().map(load)),
            expected,
            "{loads:?}"
        );
    }
}

#[test]
fn real_requests_count_and_not_defaults() {
    let score = |plugin: &NodeResourcesBalancedAllocation,
                 pod: PodBuilder,
                 node: &crate::table::NodeInfo| {
        plugin
            .score(&CycleState::new(), &pod.info(), node.view())
            .unwrap()
    };
    let stock = NodeResourcesBalancedAllocation::default();
    let empty = quay().info();
    // 0.8 and 0.5: 85; nothing: 100.
    assert_eq!(score(&stock, ship("8", "500"), &empty), 67);
    // A silent pod there changes nothing; one that takes memory does: 0.0/0.3 is 85, 0.3/0.3 is 100.
    let silent = quay().with(vec![pod("silent")]);
    assert_eq!(score(&stock, ship("8", "500"), &silent), 67);
    let tilted = quay().with(vec![pod("cargo").request("memory", "300")]);
    assert_eq!(score(&stock, ship("3", "0"), &tilted), 82);
    // As a whole, since that is what it takes.
    let whole = pod("p").request("cpu", "1").edit(|pod| {
        let spec = pod.spec.get_or_insert_default();
        spec.resources = ship("8", "500").object().spec.as_ref().unwrap().containers[0]
            .resources
            .clone();
    });
    assert_eq!(score(&stock, whole, &empty), 67);
    // What the node hasn't got, or the pod doesn't ask for, is left out.
    let more = plugin(&["cpu", "memory", "port.io/crane", "port.io/lock"]);
    assert_eq!(score(&more, ship("8", "500"), &empty), 67);
    let craned = || quay().allocatable("port.io/crane", "2");
    assert_eq!(score(&more, ship("8", "500"), &craned().info()), 67);
    // 0.8, 0.5 and 0.5: deviation √0.02 = 0.1414.
    let lifting = || ship("8", "500").request("port.io/crane", "1");
    assert_eq!(score(&more, lifting(), &craned().info()), 67);
    assert_eq!(score(&more, lifting(), &empty), 67);
    let two = || ship("8", "500").request("port.io/crane", "2");
    // 0.8, 0.5 and 1: mean 0.7667, deviation 0.2055, 79.
    assert_eq!(score(&more, two(), &craned().info()), 64);
}

#[test]
fn what_a_pod_does_to_the_balance_of_a_node() {
    let of = |cpu: &str, memory: &str| {
        let node = node("quay").allocatable("cpu", cpu);
        node.allocatable("memory", memory)
    };
    let half = pod("cargo").request("cpu", "3");
    for (node, asking, expected) in [
        // 0.75 and 0.5: 87; nothing: 100.
        (of("4", "10000").info(), ship("3", "5000"), 68),
        // 0.5 and 0.5.
        (of("6", "10000").info(), ship("3", "5000"), 75),
        // 0.5 and nothing: 75; 0.5 and 0.5: 100.
        (of("6", "12000").with(vec![half]), ship("0", "6000"), 87),
    ] {
        let plugin = NodeResourcesBalancedAllocation::default();
        let score = plugin.score(&CycleState::new(), &asking.info(), node.view());
        assert_eq!(score.unwrap(), expected);
    }
}

#[test]
fn what_is_coming_is_taken() {
    let tug = pod("tug").request("memory", "300").info();
    let mut coming = Coming::default();
    coming.add("quay", &tug.needs.requests);
    let mut state = CycleState::new();
    state.insert(Arc::new(coming));
    let stock = NodeResourcesBalancedAllocation::default();
    let score = stock.score(&state, &ship("3", "0").info(), quay().info().view());
    assert_eq!(score.unwrap(), 82);
}

#[test]
fn pods_that_ask_for_none_of_it_are_not_ranked() {
    let stock = NodeResourcesBalancedAllocation::default();
    assert_eq!(pre_scored(&stock, pod("p")), PreScored::Skip);
    let cranes = || pod("p").request("port.io/crane", "1");
    assert_eq!(pre_scored(&stock, cranes()), PreScored::Skip);
    assert_eq!(pre_scored(&stock, ship("0", "0")), PreScored::Skip);
    assert_eq!(pre_scored(&stock, ship("1m", "0")), PreScored::Proceed);
    let with_cranes = plugin(&["memory", "port.io/crane"]);
    assert_eq!(pre_scored(&with_cranes, cranes()), PreScored::Proceed);
}

#[test]
fn each_resource_is_listed_once() {
    let names = ["cpu", "memory", "cpu"].map(ResourceName::parse);
    let error = NodeResourcesBalancedAllocation::new(names.to_vec()).unwrap_err();
    assert_eq!(error, ListedTwice("cpu".into()));
    assert_eq!(error.to_string(), "resource \"cpu\" is listed twice");
}
