//! How good nodes are for soft constraints.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::{Cluster, HARD, HOSTNAME, SOFT, constraint, in_zone, spread, web};
use crate::plugins::PodTopologySpread;
use crate::test_objects::{PodBuilder, node};

fn scored(cluster: &Cluster, pod: PodBuilder) -> (Vec<i64>, Vec<i64>) {
    let plugin = PodTopologySpread::default();
    let scored = cluster.scored(&plugin, &pod.info(), &cluster.ids());
    scored.unwrap()
}

#[test]
fn fewer_pods_in_a_place_are_better() {
    let nodes = |pods: [usize; 3]| {
        let names = ["a", "b", "c"].into_iter().zip(pods);
        Cluster::with(
            names
                .map(|(name, pods)| (node(name).label("node", name), pods))
                .collect(),
        )
    };
    let pod = || spread(web("p"), vec![constraint(SOFT, "node", 1)]);
    for (pods, raw, scores) in [
        ([2, 1, 0], [3, 2, 0], [0, 33, 100]),
        ([2, 1, 1], [3, 2, 2], [66, 100, 100]),
        ([0, 0, 0], [0, 0, 0], [100, 100, 100]),
    ] {
        let expected = (raw.to_vec(), scores.to_vec());
        assert_eq!(scored(&nodes(pods), pod()), expected, "{pods:?}");
    }
}

#[test]
fn constraints_are_summed_up_by_weight_and_skew() {
    let cluster = Cluster::with(vec![
        (in_zone("a", "x"), 2),
        (in_zone("b", "x"), 1),
        (in_zone("c", "y"), 1),
        (in_zone("d", "y"), 0),
    ]);
    let both = vec![constraint(SOFT, "zone", 5), constraint(SOFT, HOSTNAME, 3)];
    let expected = (vec![14, 12, 9, 7], vec![50, 64, 85, 100]);
    assert_eq!(scored(&cluster, spread(web("p"), both)), expected);
}

#[test]
fn a_node_without_a_label_gets_nothing_and_does_not_count() {
    let cluster = Cluster::with(vec![
        (in_zone("a", "x"), 1),
        (in_zone("b", ""), 7),
        (in_zone("c", "y"), 0),
    ]);
    let both = vec![constraint(SOFT, "zone", 1), constraint(SOFT, HOSTNAME, 1)];
    // Two zones and two hosts, since the third isn't ranked: ln 4 + ln 4.
    let expected = (vec![3, 0, 0], vec![0, 0, 100]);
    assert_eq!(scored(&cluster, spread(web("p"), both)), expected);
}

#[test]
fn pods_on_nodes_that_will_not_do_count_in_places_of_those_that_will() {
    let cluster = Cluster::with(vec![
        (in_zone("a", "x"), 0),
        (in_zone("b", "x"), 2),
        (in_zone("c", "y"), 1),
        (in_zone("d", "z"), 9),
    ]);
    let pod = spread(web("p"), vec![constraint(SOFT, "zone", 1)]).info();
    let feasible = [cluster.id("a"), cluster.id("c")];
    let scored = cluster.scored(&PodTopologySpread::default(), &pod, &feasible);
    // Two zones, ln 4.
    assert_eq!(scored.unwrap(), (vec![3, 1], vec![33, 100]));
}

#[test]
fn policies_hold_for_places_and_not_for_the_node_itself() {
    let cluster = Cluster::with(vec![
        (in_zone("a", "x").label("disk", "ssd"), 1),
        (in_zone("b", "x").label("disk", "hdd"), 2),
        (
            in_zone("c", "y")
                .label("disk", "ssd")
                .taint("t", "", "NoSchedule"),
            4,
        ),
    ]);
    let raw = |key, affinity: &str, taints: &str| {
        let given = TopologySpreadConstraint {
            node_affinity_policy: Some(affinity.to_owned()),
            node_taints_policy: Some(taints.to_owned()),
            ..constraint(SOFT, key, 1)
        };
        let pod = web("p").node_selector("disk", "ssd");
        scored(&cluster, spread(pod, vec![given])).0
    };
    // Two zones, ln 4; three hosts, ln 5.
    assert_eq!(raw("zone", "Honor", "Ignore"), [1, 1, 6]);
    assert_eq!(raw("zone", "Ignore", "Ignore"), [4, 4, 6]);
    assert_eq!(raw("zone", "Honor", "Honor"), [1, 1, 0]);
    assert_eq!(raw(HOSTNAME, "Honor", "Honor"), [2, 3, 6]);
}

#[test]
fn only_staying_pods_of_the_namespace_count() {
    let mut cluster = Cluster::with(vec![(in_zone("a", "x"), 1), (in_zone("b", "y"), 0)]);
    for node in ["a", "b"] {
        cluster.run(node, |name| web(name).deleting());
        cluster.run(node, |name| {
            web(name).edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()))
        });
    }
    for key in ["zone", HOSTNAME] {
        let pod = spread(web("p"), vec![constraint(SOFT, key, 1)]);
        assert_eq!(scored(&cluster, pod), (vec![1, 0], vec![0, 100]), "{key}");
    }
}

#[test]
fn without_soft_constraints_nothing_is_scored() {
    let cluster = Cluster::with(vec![(in_zone("a", "x"), 1)]);
    let plugin = PodTopologySpread::default();
    for constraints in [
        vec![],
        vec![constraint(HARD, "zone", 1)],
        vec![constraint("Sometimes", "zone", 1)],
    ] {
        let pod = spread(web("p"), constraints).info();
        assert_eq!(cluster.scored(&plugin, &pod, &cluster.ids()), None);
    }
}
