//! Which nodes hard constraints leave.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    Cluster, HARD, HOSTNAME, NO_LABEL, SKEWED, SOFT, constraint, in_zone, open, spread, web,
};
use crate::plugins::PodTopologySpread;
use crate::status::Code;
use crate::test_objects::{PodBuilder, node, pod, requirement, term};

/// A node for each zone, with so many pods.
fn zones(pods: &[usize]) -> Cluster {
    let names = ["a", "b", "c", "d"];
    let nodes = names.iter().zip(pods);
    Cluster::with(
        nodes
            .map(|(name, pods)| (in_zone(name, name), *pods))
            .collect(),
    )
}

fn over_zones() -> TopologySpreadConstraint {
    constraint(HARD, "zone", 1)
}

#[test]
fn no_place_may_be_ahead_by_more_than_the_skew() {
    let at_least = |domains| TopologySpreadConstraint {
        min_domains: Some(domains),
        ..over_zones()
    };
    let skew = |max_skew| TopologySpreadConstraint {
        max_skew,
        ..over_zones()
    };
    for (pods, given, expected) in [
        (&[3, 1, 0][..], over_zones(), &[false, false, true][..]),
        (&[3, 1, 0], at_least(4), &[false, false, true]),
        (&[1, 1], at_least(3), &[false, false]),
        (&[1, 1], at_least(2), &[true, true]),
        (&[1, 1], over_zones(), &[true, true]),
        (&[3, 1, 0], skew(2), &[false, true, true]),
        (&[3, 1, 0], skew(4), &[true, true, true]),
        (&[0, 0, 0, 0], over_zones(), &[true; 4]),
    ] {
        let pod = spread(web("p"), vec![given]).info();
        assert_eq!(open(&zones(pods), &pod), expected, "{pods:?}");
    }
}

#[test]
fn a_pod_that_its_constraint_does_not_select_makes_no_skew() {
    let cluster = zones(&[1, 0]);
    let pod = |pod| spread(pod, vec![over_zones()]).info();
    assert_eq!(open(&cluster, &pod(web("p"))), [false, true]);
    assert_eq!(open(&cluster, &pod(pod_of("p", "db"))), [true, true]);
}

#[test]
fn what_is_said_of_nodes() {
    let mut cluster = zones(&[2, 0]);
    cluster.table.set_node(node("nowhere").object());
    let pod = spread(web("p"), vec![over_zones()]).info();
    let said = cluster.filtered(&PodTopologySpread::default(), &pod);
    assert_eq!(
        said.unwrap(),
        [
            Some((Code::Unschedulable, SKEWED.to_owned())),
            None,
            Some((Code::UnschedulableAndUnresolvable, NO_LABEL.to_owned())),
        ]
    );
}

#[test]
fn the_first_constraint_that_a_node_violates_is_told_and_nodes_without_a_label_do_not_count() {
    // The node without a rack has pods; for the zone they don't count, either.
    let mut cluster = Cluster::with(vec![
        (in_zone("a", "x").label("rack", "1"), 2),
        (in_zone("b", "x"), 5),
        (in_zone("c", "y").label("rack", "2"), 1),
    ]);
    cluster
        .table
        .set_node(node("d").label("rack", "1").object());
    let said = |constraints| {
        let pod = spread(web("p"), constraints).info();
        let said = cluster.filtered(&PodTopologySpread::default(), &pod);
        let texts = said
            .unwrap()
            .into_iter()
            .map(|said| said.map(|said| said.1));
        texts.map(Option::unwrap_or_default).collect::<Vec<_>>()
    };
    let rack = |skew| constraint(HARD, "rack", skew);
    assert_eq!(
        said(vec![over_zones(), rack(1)]),
        [SKEWED, SKEWED, "", NO_LABEL],
        "the skew of its zone comes before the rack that the second node lacks"
    );
    assert_eq!(
        said(vec![rack(2), constraint(HARD, "zone", 2)]),
        ["", NO_LABEL, "", NO_LABEL]
    );
}

#[test]
fn only_staying_pods_of_the_namespace_with_the_labels_count() {
    let pod = spread(web("p"), vec![over_zones()]).info();
    let elsewhere =
        |name: &str| web(name).edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()));
    let mut cluster = zones(&[0, 0]);
    cluster.run("a", |name| web(name).deleting());
    cluster.run("a", elsewhere);
    cluster.run("a", |name| pod_of(name, "db"));
    assert_eq!(open(&cluster, &pod), [true, true]);
    cluster.run("a", |name| web(name).phase("Running"));
    assert_eq!(open(&cluster, &pod), [false, true]);
}

fn pod_of(name: &str, app: &str) -> PodBuilder {
    pod(name).label("app", app)
}

#[test]
fn an_empty_selector_counts_nobody_and_no_selector_selects_nobody() {
    let with = |selector| {
        let given = TopologySpreadConstraint {
            label_selector: selector,
            ..over_zones()
        };
        spread(web("p"), vec![given]).info()
    };
    let cluster = zones(&[3, 0]);
    assert_eq!(open(&cluster, &with(None)), [true, true]);
    assert_eq!(
        open(&cluster, &with(Some(LabelSelector::default()))),
        [true, true]
    );
    // The pod itself is selected by the empty one, so with no skew at all it has no place; the API takes no such.
    let no_skew = |selector| {
        let given = TopologySpreadConstraint {
            max_skew: 0,
            label_selector: selector,
            ..over_zones()
        };
        spread(web("p"), vec![given]).info()
    };
    assert_eq!(open(&cluster, &no_skew(None)), [true, true]);
    let empty = Some(LabelSelector::default());
    assert_eq!(open(&cluster, &no_skew(empty)), [false, false]);
}

#[test]
fn nodes_count_that_the_pod_may_go_to_by_its_affinity_unless_the_policy_says_otherwise() {
    // An empty zone that the pod can't go to would hold it up.
    let cluster = Cluster::with(vec![
        (in_zone("a", "x").label("disk", "ssd"), 1),
        (in_zone("b", "y").label("disk", "ssd"), 2),
        (in_zone("c", "z").label("disk", "hdd"), 0),
    ]);
    let with = |policy: Option<&str>| TopologySpreadConstraint {
        node_affinity_policy: policy.map(str::to_owned),
        ..over_zones()
    };
    let ssd = term(&[requirement("disk", "In", &["ssd"])], &[]);
    let this = term(&[], &[requirement("metadata.name", "In", &["a"])]);
    let open = |pod, policy| open(&cluster, &spread(pod, vec![with(policy)]).info());
    for policy in [None, Some("Honor")] {
        let selected = web("p").node_selector("disk", "ssd");
        assert_eq!(open(selected, policy), [true, false, true], "{policy:?}");
        let required = web("p").required_nodes(std::slice::from_ref(&ssd));
        assert_eq!(open(required, policy), [true, false, true], "{policy:?}");
        let by_hostname = web("p").node_selector(HOSTNAME, "b");
        assert_eq!(open(by_hostname, policy), [true, true, true], "{policy:?}");
        let by_name = web("p").required_nodes(std::slice::from_ref(&this));
        assert_eq!(open(by_name, policy), [true, true, true], "{policy:?}");
    }
    for policy in [Some("Ignore"), Some("")] {
        let selected = web("p").node_selector("disk", "ssd");
        assert_eq!(open(selected, policy), [false, false, true], "{policy:?}");
    }
}

#[test]
fn tainted_nodes_count_unless_the_policy_says_otherwise() {
    let cluster = Cluster::with(vec![
        (in_zone("a", "x"), 1),
        (in_zone("b", "y").taint("dock", "", "NoExecute"), 0),
        (
            in_zone("c", "z")
                .taint("soft", "", "PreferNoSchedule")
                .unschedulable(),
            1,
        ),
    ]);
    let with = |policy: Option<&str>| TopologySpreadConstraint {
        node_taints_policy: policy.map(str::to_owned),
        ..over_zones()
    };
    let open = |pod, policy| open(&cluster, &spread(pod, vec![with(policy)]).info());
    for policy in [None, Some("Ignore")] {
        assert_eq!(open(web("p"), policy), [false, true, false], "{policy:?}");
    }
    // A cordoned node without the taint for it counts.
    assert_eq!(open(web("p"), Some("Honor")), [true, true, true]);
    let tolerant = web("p").tolerate("dock", "Exists", "", "");
    assert_eq!(open(tolerant, Some("Honor")), [false, true, false]);
}

#[test]
fn own_values_of_match_label_keys_tell_generations_apart() {
    let mut cluster = zones(&[0, 0]);
    for _ in 0..2 {
        cluster.run("a", |name| web(name).label("hash", "1"));
    }
    cluster.run("b", |name| web(name).label("hash", "2"));
    let given = TopologySpreadConstraint {
        match_label_keys: Some(vec!["hash".into(), "absent".into()]),
        ..over_zones()
    };
    let of = |hash| spread(web("p").label("hash", hash), vec![given.clone()]).info();
    assert_eq!(open(&cluster, &of("1")), [false, true]);
    assert_eq!(open(&cluster, &of("2")), [true, false]);
    assert_eq!(open(&cluster, &of("3")), [true, true]);
}

#[test]
fn soft_and_unknown_constraints_keep_nobody_away() {
    let cluster = zones(&[9, 0]);
    let plugin = PodTopologySpread::default();
    let filtered = |pod: PodBuilder| cluster.filtered(&plugin, &pod.info());
    assert_eq!(filtered(web("p")), None);
    for when in [SOFT, "Sometimes"] {
        let pod = spread(web("p"), vec![constraint(when, "zone", 1)]);
        assert_eq!(filtered(pod), None, "{when}");
    }
}

#[test]
fn without_any_place_only_nodes_that_do_not_count_are_judged() {
    // No node counts; upstream's lowest sum is the highest number there is, unless places are fewer than wanted.
    let cluster = zones(&[2]);
    let given = |min_domains| TopologySpreadConstraint {
        min_domains: Some(min_domains),
        ..over_zones()
    };
    let pod = |min_domains| {
        let pod = web("p").node_selector("disk", "ssd");
        spread(pod, vec![given(min_domains)]).info()
    };
    assert_eq!(open(&cluster, &pod(1)), [true], "its pods don't count");
    assert_eq!(open(&cluster, &pod(-1)), [true]);
}

#[test]
fn extreme_numbers_do_no_harm() {
    let cluster = zones(&[1, 0]);
    for (max_skew, min_domains, expected) in [
        (i32::MAX, i32::MAX, [true, true]),
        (i32::MIN, i32::MIN, [false, false]),
        (i32::MAX, i32::MIN, [true, true]),
    ] {
        let given = TopologySpreadConstraint {
            min_domains: Some(min_domains),
            ..constraint(HARD, "zone", max_skew)
        };
        let soft = constraint(SOFT, "zone", max_skew);
        let pod = spread(web("p"), vec![given, soft]).info();
        assert_eq!(open(&cluster, &pod), expected, "{max_skew} {min_domains}");
        let scored = cluster.scored(&PodTopologySpread::default(), &pod, &cluster.ids());
        assert!(scored.is_some());
    }
}
