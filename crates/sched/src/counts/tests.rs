use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::counters::{Counters, Limits};
use super::places::Places;
use super::{Namespaces, PodCounts, PodSet, Selected};
use crate::labels::{Labels, Requirement, Selector, Test};
use crate::names::NodeName;
use crate::pod_info::PodInfo;
use crate::table::{NodeId, NodeTable, WhatIfTable};
use crate::test_objects::{PodBuilder, node, pod, uid};

const KEYS: [&str; 2] = ["zone", "rack"];

fn has(key: &str, value: &str) -> Selector {
    let test = if value.is_empty() {
        Test::DoesNotExist
    } else {
        Test::In([value.to_owned()].into())
    };
    Selector::All(vec![Requirement {
        key: key.into(),
        test,
    }])
}

/// Pods of few sorts, so that many are in the same sets.
fn sort_of_pod(name: usize, sort: usize) -> PodBuilder {
    let mut built = pod(&format!("p{name}")).label("app", ["a", "b", "c"][sort % 3]);
    if sort.is_multiple_of(2) {
        let against = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
            match_labels: Some([("app".to_owned(), ["a", "b"][sort / 2 % 2].to_owned())].into()),
            match_expressions: None,
        };
        built = built.anti_affinity(KEYS[sort / 3 % 2], against);
    }
    if sort.is_multiple_of(5) {
        built = built.deleting();
    }
    if sort.is_multiple_of(7) {
        built = built.edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()));
    }
    built
}

fn sets() -> Vec<PodSet> {
    let in_one = |selector| Selected {
        namespaces: Namespaces::one(&"default".into()),
        selector,
    };
    let anywhere = |selector| Selected {
        namespaces: Namespaces::All,
        selector,
    };
    vec![
        PodSet::staying(in_one(has("app", "a"))),
        PodSet::all_of(vec![in_one(has("app", "a"))]),
        PodSet::all_of(vec![anywhere(has("app", "b")), anywhere(has("tier", ""))]),
        PodSet::staying(anywhere(Selector::All(vec![]))),
        PodSet::staying(in_one(Selector::Nothing)),
        PodSet::all_of(vec![]),
    ]
}

/// All counts and places, as they are kept.
fn kept(table: &NodeTable) -> String {
    let counts = sets()
        .into_iter()
        .map(|set| format!("{:?}", table.count(&set)));
    let told = table.carried_terms().all().into_iter().chain(counts);
    let told = told.collect::<Vec<_>>().join("\n");
    for key in KEYS {
        let topology = table.topology(key);
        let nodes = table.iter().map(|node| {
            let place = topology.place(node.id());
            let value = node.labels().get(key);
            assert_eq!(place, value.and_then(|value| topology.place_of(value)));
            assert_eq!(place.is_some(), value.is_some());
            node.name().to_string()
        });
        assert_eq!(nodes.count(), table.len());
    }
    told
}

/// The same from a table that never counted before, and counts all at once.
fn naive(table: &NodeTable) -> String {
    let mut anew = NodeTable::default();
    // Rows have to be the same ones: gaps are filled and removed again.
    for row in 0..table.rows() {
        let filler = node(&format!("filler{row}")).object();
        match table.get(NodeId::new(row)) {
            Some(view) => anew.set_node(view.row().node().clone()),
            None => anew.set_node(filler),
        };
    }
    for row in 0..table.rows() {
        let id = NodeId::new(row);
        match table.get(id) {
            Some(view) => {
                for pod in view.row().pods() {
                    anew.add_pod(id, pod.clone());
                }
            }
            None => {
                anew.remove_node(&NodeName::from(&format!("filler{row}")));
            }
        }
    }
    let sets = sets();
    anew.prepare(sets.iter().chain(&sets), KEYS.into_iter().chain(KEYS));
    kept(&anew)
}

#[derive(Clone, Debug)]
enum Step {
    Node(usize, usize),
    NoNode(usize),
    Pod(usize, usize, usize),
    NoPod(usize),
    WhatIf(Vec<(usize, usize, usize)>),
}

fn step() -> impl Strategy<Value = Step> {
    let what_if = proptest::collection::vec((0..4_usize, 0..9_usize, 0..42_usize), 1..6);
    prop_oneof![
        2 => (0..4_usize, 0..9_usize).prop_map(|(node, labels)| Step::Node(node, labels)),
        1 => (0..4_usize).prop_map(Step::NoNode),
        6 => (0..4_usize, 0..9_usize, 0..42_usize).prop_map(|(n, p, sort)| Step::Pod(n, p, sort)),
        3 => (0..9_usize).prop_map(Step::NoPod),
        2 => what_if.prop_map(Step::WhatIf),
    ]
}

fn labelled(name: usize, labels: usize) -> Arc<crate::node_object::NodeObject> {
    let mut built = node(&format!("n{name}"));
    for (key, value) in [("zone", labels % 3), ("rack", labels / 3)] {
        if value > 0 {
            built = built.label(key, &value.to_string());
        }
    }
    built.object()
}

proptest! {
    #[test]
    fn counts_are_those_of_a_table_that_counts_anew(steps in proptest::collection::vec(step(), 1..40)) {
        let mut table = NodeTable::default();
        let mut on = BTreeMap::new();
        kept(&table);
        for step in steps {
            match step {
                Step::Node(name, labels) => { table.set_node(labelled(name, labels)); }
                Step::NoNode(name) => {
                    if let Some(gone) = table.remove_node(&NodeName::from(&format!("n{name}"))) {
                        for pod in gone.pods() { on.remove(&pod.uid); }
                    }
                }
                Step::Pod(name, number, sort) => {
                    let pod = sort_of_pod(number, sort).info();
                    if let Some(id) = table.id(&NodeName::from(&format!("n{name}")))
                        && !on.contains_key(&pod.uid)
                    {
                        on.insert(pod.uid.clone(), id);
                        table.add_pod(id, pod);
                    }
                }
                Step::NoPod(number) => {
                    let uid = uid(&format!("p{number}"));
                    if let Some(id) = on.remove(&uid) { table.remove_pod(id, &uid); }
                }
                Step::WhatIf(tries) => {
                    let before = kept(&table);
                    let mut what_if = WhatIfTable::new(&mut table);
                    for (name, number, sort) in tries {
                        let pod = sort_of_pod(number, sort).info();
                        let Some(id) = what_if.table().id(&NodeName::from(&format!("n{name}"))) else { continue };
                        if on.get(&pod.uid) == Some(&id) {
                            what_if.remove_pod(id, &pod.uid);
                        } else {
                            what_if.add_pod(id, pod);
                        }
                        prop_assert_eq!(kept(what_if.table()), naive(what_if.table()));
                    }
                    drop(what_if);
                    prop_assert_eq!(kept(&table), before);
                }
            }
            prop_assert_eq!(kept(&table), naive(&table));
        }
    }
}

fn on_nodes(pods: usize) -> Vec<(NodeId, Vec<Arc<PodInfo>>)> {
    let on = |row| {
        (
            NodeId::new(row),
            vec![pod(&format!("p{row}")).label("app", "a").info()],
        )
    };
    (0..pods).map(on).collect()
}

fn count(
    counters: &mut Counters,
    set: &PodSet,
    nodes: &[(NodeId, Vec<Arc<PodInfo>>)],
) -> Arc<PodCounts> {
    counters.count(set, nodes.iter().map(|(node, pods)| (*node, &**pods)))
}

#[test]
fn what_is_kept_is_bounded_and_what_was_forgotten_is_counted_anew() {
    let mut counters = Counters::new(Limits {
        entries: 20,
        sets: 4,
    });
    let nodes = on_nodes(5);
    let set = |namespace: &str| {
        let namespaces = Namespaces::These(Arc::new(["default".into(), namespace.into()].into()));
        PodSet::staying(Selected {
            namespaces,
            selector: has("app", "a"),
        })
    };
    for number in 0..50 {
        let counts = count(&mut counters, &set(&number.to_string()), &nodes);
        assert_eq!(counts.len(), 5);
        let (sets, entries) = counters.sizes();
        assert!(sets <= 4 && entries == 5 * sets, "{sets} {entries}");
    }
    counters.pod_came(NodeId::new(9), &nodes[0].1[0], &Places::default());
    let (sets, entries) = counters.sizes();
    assert_eq!(entries, 6 * sets, "entries that came later are counted");
}

#[test]
fn who_keeps_counts_keeps_them_as_they_were() {
    let mut table = NodeTable::default();
    table.set_node(node("n").object());
    let all = PodSet::all_of(vec![]);
    let before = table.count(&all);
    table.add_pod(NodeId::new(0), pod("p").info());
    assert!(before.is_empty());
    assert_eq!(*table.count(&all), [(NodeId::new(0), 1)]);
}

#[test]
fn places_of_nodes_that_have_gone_do_not_pile_up() {
    let mut table = NodeTable::default();
    for number in 0..2_000 {
        let name = format!("n{number}");
        table.set_node(node(&name).label("host", &name).object());
        assert!(table.topology("host").places() <= 200);
        table.remove_node(&NodeName::from(&name));
    }
    for number in 0..500 {
        table.topology(&format!("key{number}"));
    }
    table.set_node(node("n").label("key99", "a").object());
    for start in [0, 50, 400] {
        let keys: Vec<_> = (start..start + 200).map(|it| format!("key{it}")).collect();
        table.prepare(std::iter::empty(), keys.iter().map(|key| &**key));
        let placed = keys.iter().filter(|key| table.topology(key).placed() == 1);
        assert_eq!(placed.count(), usize::from(start < 100));
    }
}

#[test]
fn a_namespace_s_own_labels_decide_whom_a_term_means() {
    let mut table = NodeTable::default();
    table.set_node(node("n").object());
    let anti = |name: &str| {
        pod(name).anti_affinity(
            "zone",
            k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::default(),
        )
    };
    let by_label = anti("a").edit(|pod| {
        let affinity = pod
            .spec
            .as_mut()
            .and_then(|spec| spec.affinity.as_mut())
            .unwrap();
        let terms = affinity.pod_anti_affinity.as_mut().unwrap();
        let terms = terms
            .required_during_scheduling_ignored_during_execution
            .as_mut()
            .unwrap();
        terms[0].namespace_selector = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
                match_labels: Some([("team".to_owned(), "x".to_owned())].into()),
                match_expressions: None,
            },
        );
    });
    table.add_pod(NodeId::new(0), by_label.info());
    table.add_pod(NodeId::new(0), anti("b").info());
    let labels = Labels::new();
    for (namespace, team, terms) in [
        ("default", "", 1),
        ("other", "x", 1),
        ("other", "y", 0),
        ("default", "x", 2),
    ] {
        let of = Labels::from([("team".to_owned(), team.to_owned())]);
        let found = table.carried_terms().meaning(namespace, &of, &labels);
        assert_eq!(found.count(), terms, "{namespace} {team}");
    }
}
