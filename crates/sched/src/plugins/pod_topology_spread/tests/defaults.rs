//! Constraints of pods that have none of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerSpec, Service, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference,
};

use super::super::alike;
use super::{Cluster, HARD, HOSTNAME, SKEWED, SOFT, constraint, in_zone, spread, web};
use crate::labels::{Labels, Selector};
use crate::objects::{Kind, Object};
use crate::plugin::Plugin;
use crate::plugins::{DefaultConstraint, PodTopologySpread, SpreadArgs, SpreadDefaults};
use crate::taints::Comparison;
use crate::test_objects::{PodBuilder, node};
use crate::topology_spread::{SpreadRule, WhenUnsatisfiable};

const ZONE: &str = "topology.kubernetes.io/zone";

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn service(namespace: &str, name: &str, selector: Option<&[(&str, &str)]>) -> Object {
    Object::Service(Arc::new(Service {
        metadata: meta(namespace, name),
        spec: Some(ServiceSpec {
            selector: selector.map(labels),
            ..ServiceSpec::default()
        }),
        status: None,
    }))
}

fn replication_controller(name: &str, selector: &[(&str, &str)]) -> Object {
    Object::ReplicationController(Arc::new(ReplicationController {
        metadata: meta("default", name),
        spec: Some(ReplicationControllerSpec {
            selector: Some(labels(selector)),
            ..ReplicationControllerSpec::default()
        }),
        status: None,
    }))
}

fn label_selector(pairs: &[(&str, &str)], exists: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels(pairs)),
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: exists.to_owned(),
            operator: "Exists".to_owned(),
            values: None,
        }]),
    }
}

fn replica_set(name: &str, selector: LabelSelector) -> Object {
    Object::ReplicaSet(Arc::new(ReplicaSet {
        metadata: meta("default", name),
        spec: Some(ReplicaSetSpec {
            selector,
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }))
}

fn stateful_set(name: &str, selector: LabelSelector) -> Object {
    Object::StatefulSet(Arc::new(StatefulSet {
        metadata: meta("default", name),
        spec: Some(StatefulSetSpec {
            selector,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }))
}

fn owned(pod: PodBuilder, owners: &[(&str, &str, &str, bool)]) -> PodBuilder {
    pod.edit(|pod| {
        let owners = owners
            .iter()
            .map(|(version, kind, name, controller)| OwnerReference {
                api_version: (*version).to_owned(),
                kind: (*kind).to_owned(),
                name: (*name).to_owned(),
                controller: controller.then_some(true),
                ..OwnerReference::default()
            });
        pod.metadata.owner_references = Some(owners.collect());
    })
}

#[test]
fn services_and_the_controller_say_which_pods_are_alike() {
    let mut cluster = Cluster::default();
    let unreadable = LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: "k".into(),
            operator: "Like".into(),
            values: None,
        }]),
        ..LabelSelector::default()
    };
    for object in [
        service("default", "web", Some(&[("app", "web")])),
        service("default", "front", Some(&[("tier", "front")])),
        service("default", "both", Some(&[("app", "web"), ("tier", "back")])),
        service("default", "manual", None),
        service("default", "empty", Some(&[])),
        service("elsewhere", "team", Some(&[("team", "x")])),
        replication_controller("rc", &[("app", "other"), ("rc", "1")]),
        replica_set("rs", label_selector(&[("app", "web")], "hash")),
        replica_set("odd", unreadable),
        replica_set("all", LabelSelector::default()),
        stateful_set("ss", label_selector(&[("set", "1")], "index")),
    ] {
        cluster.objects().apply(object).unwrap();
    }
    let none = || crate::test_objects::pod("p").label("team", "x");
    let (apps, controls) = ("apps/v1", true);
    for (what, pod, selected, others) in [
        ("nobody", none(), None, vec![]),
        (
            "a service",
            web("p"),
            Some(labels(&[("app", "web")])),
            vec![],
        ),
        (
            "two services",
            web("p").label("tier", "front"),
            Some(labels(&[("app", "web"), ("tier", "front")])),
            vec![labels(&[("app", "web")]), labels(&[("tier", "front")])],
        ),
        (
            "a controller of replicas, which outdoes a service",
            owned(web("p"), &[("v1", "ReplicationController", "rc", controls)]),
            Some(labels(&[("app", "other"), ("rc", "1")])),
            vec![labels(&[("app", "web"), ("rc", "1")])],
        ),
        (
            "a set of replicas and a service",
            owned(web("p"), &[(apps, "ReplicaSet", "rs", controls)]),
            Some(labels(&[("app", "web"), ("hash", "1")])),
            vec![labels(&[("app", "web")])],
        ),
        (
            "a stateful set without a service",
            owned(none(), &[(apps, "StatefulSet", "ss", controls)]),
            Some(labels(&[("set", "1"), ("index", "0")])),
            vec![labels(&[("set", "1")])],
        ),
        (
            "the second owner controls",
            owned(
                none(),
                &[
                    (apps, "ReplicaSet", "rs", false),
                    (apps, "StatefulSet", "ss", controls),
                ],
            ),
            Some(labels(&[("set", "1"), ("index", "0")])),
            vec![labels(&[("app", "web"), ("hash", "1")])],
        ),
        (
            "an owner that doesn't control",
            owned(none(), &[(apps, "ReplicaSet", "rs", false)]),
            None,
            vec![],
        ),
        (
            "of another version",
            owned(none(), &[("apps/v1beta1", "ReplicaSet", "rs", controls)]),
            None,
            vec![],
        ),
        (
            "of a kind that nobody reads",
            owned(none(), &[("batch/v1", "Job", "rs", controls)]),
            None,
            vec![],
        ),
        (
            "not there",
            owned(none(), &[(apps, "ReplicaSet", "gone", controls)]),
            None,
            vec![],
        ),
        (
            "a selector that can't be read",
            owned(none(), &[(apps, "ReplicaSet", "odd", controls)]),
            None,
            vec![],
        ),
        (
            "an empty one",
            owned(none(), &[(apps, "ReplicaSet", "all", controls)]),
            None,
            vec![],
        ),
    ] {
        let found = alike::selector(&pod.info(), &cluster.quiet.objects);
        assert_eq!(found.is_empty(), selected.is_none(), "{what}: {found:?}");
        let selector = Selector::All(found);
        if let Some(selected) = &selected {
            assert!(selector.matches(selected), "{what}: {selector:?}");
            assert!(!selector.matches(&Labels::new()), "{what}: {selector:?}");
        }
        for other in others {
            assert!(!selector.matches(&other), "{what}: {selector:?} {other:?}");
        }
    }
}

#[test]
fn what_two_of_them_say_is_asked_for_once() {
    let mut cluster = Cluster::default();
    let web_alone = LabelSelector {
        match_labels: Some(labels(&[("app", "web")])),
        match_expressions: None,
    };
    let objects = cluster.objects();
    objects
        .apply(service("default", "web", Some(&[("app", "web")])))
        .unwrap();
    objects.apply(replica_set("rs", web_alone)).unwrap();
    let pod = owned(web("p"), &[("apps/v1", "ReplicaSet", "rs", true)]).info();
    assert_eq!(alike::selector(&pod, &cluster.quiet.objects).len(), 1);
}

fn served(nodes: Vec<(crate::test_objects::NodeBuilder, usize)>) -> Cluster {
    let mut cluster = Cluster::with(nodes);
    let web = service("default", "web", Some(&[("app", "web")]));
    cluster.objects().apply(web).unwrap();
    cluster
}

fn in_real_zone(name: &str, zone: &str) -> crate::test_objects::NodeBuilder {
    in_zone(name, "").label(ZONE, zone)
}

#[test]
fn the_system_spreads_over_hosts_and_zones() {
    let cluster = served(vec![
        (in_real_zone("a", "x"), 2),
        (in_real_zone("b", "x"), 1),
        (in_real_zone("c", "y"), 1),
        (in_real_zone("d", "y"), 0),
    ]);
    let plugin = PodTopologySpread::default();
    let scored = cluster.scored(&plugin, &web("p").info(), &cluster.ids());
    let expected = (vec![14, 12, 9, 7], vec![50, 64, 85, 100]);
    assert_eq!(scored, Some(expected));
    assert_eq!(cluster.filtered(&plugin, &web("p").info()), None);
    let stranger = crate::test_objects::pod("p").info();
    assert_eq!(cluster.scored(&plugin, &stranger, &cluster.ids()), None);
    // A pod that has any of its own gets none of these.
    let own = spread(web("p"), vec![constraint(HARD, HOSTNAME, 1)]).info();
    assert_eq!(cluster.scored(&plugin, &own, &cluster.ids()), None);
}

#[test]
fn the_system_ranks_nodes_without_labels_by_those_that_they_have() {
    // Zones x, and that of nodes without one: ln 4 each, and 5 hosts, ln 7.
    let cluster = served(vec![
        (in_real_zone("a", "x"), 1),
        (in_zone("b", ""), 2),
        (in_zone("c", ""), 0),
        (node("d").label(ZONE, "x"), 1),
        (node("e"), 6),
    ]);
    let scored = cluster.scored(
        &PodTopologySpread::default(),
        &web("p").info(),
        &cluster.ids(),
    );
    // 1 ln 7 + 2 + 2 ln 4 + 4; 2 ln 7 + 2; 2; 2 ln 4 + 4; nothing at all.
    assert_eq!(scored.unwrap().0, [11, 6, 2, 7, 0]);
}

#[test]
fn nodes_without_a_zone_are_as_those_of_an_empty_one() {
    let cluster = served(vec![
        (in_zone("a", "").label(ZONE, ""), 1),
        (in_zone("b", ""), 3),
        (in_zone("c", "").label(ZONE, "x"), 0),
    ]);
    let scored = cluster.scored(
        &PodTopologySpread::default(),
        &web("p").info(),
        &cluster.ids(),
    );
    // Two zones, ln 4, of which the empty one has four pods; three hosts, ln 5.
    assert_eq!(scored.unwrap().0, [13, 7, 6]);
}

#[test]
fn a_list_takes_the_place_of_the_systems_defaults() {
    let list = |constraints: Vec<(&str, i32, WhenUnsatisfiable)>| {
        let constraints = constraints
            .into_iter()
            .map(|(key, skew, when)| DefaultConstraint {
                rule: SpreadRule::new(key, skew),
                when,
            });
        let args = SpreadArgs {
            defaults: SpreadDefaults::List(constraints.collect()),
        };
        PodTopologySpread::new(args, Comparison::Off).unwrap()
    };
    let (hard, soft) = (
        WhenUnsatisfiable::DoNotSchedule,
        WhenUnsatisfiable::ScheduleAnyway,
    );
    let cluster = served(vec![
        (in_zone("a", "x"), 2),
        (in_zone("b", "y"), 1),
        (in_zone("c", ""), 0),
    ]);
    let plugin = list(vec![("zone", 1, hard), ("zone", 1, soft)]);
    let pod = web("p").info();
    let texts = cluster.filtered(&plugin, &pod).unwrap();
    let texts: Vec<_> = texts
        .iter()
        .map(|said| said.as_ref().map(|said| &*said.1))
        .collect();
    assert_eq!(texts[..2], [Some(SKEWED), None]);
    // Nodes without a zone aren't ranked, as with constraints of the pod's own.
    let scored = cluster.scored(&plugin, &pod, &cluster.ids());
    assert_eq!(scored, Some((vec![3, 1, 0], vec![33, 100, 0])));
    let own = spread(web("p"), vec![constraint(SOFT, "zone", 1)]).info();
    assert_eq!(cluster.filtered(&plugin, &own), None);
    let nothing = list(vec![]);
    assert_eq!(cluster.filtered(&nothing, &pod), None);
    assert_eq!(cluster.scored(&nothing, &pod, &cluster.ids()), None);
    assert!(nothing.wants().is_empty());
    let all = [
        Kind::Service,
        Kind::ReplicationController,
        Kind::ReplicaSet,
        Kind::StatefulSet,
    ];
    assert_eq!(plugin.wants(), all);
    assert_eq!(PodTopologySpread::default().wants(), all);
}
