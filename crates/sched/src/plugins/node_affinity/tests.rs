use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;

use super::NodeAffinity;
use crate::event::{Actions, Event, Hint};
use crate::labels::RequirementError;
use crate::names::NodeName;
use crate::plugin::{
    EnqueueExtensions, Filter, PreFilter, PreFiltered, PreScore, PreScored, Score,
};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{Code, Verdict};
use crate::table::NodeTable;
use crate::test_objects::{PodBuilder, node, pod, requirement, term, with_context};

fn pre_filter(plugin: &NodeAffinity, pod: &PodInfo) -> Verdict<PreFiltered> {
    with_context(|cx| plugin.pre_filter(cx, &mut CycleState::new(), pod))
}

fn names(names: &[&str]) -> PreFiltered {
    PreFiltered::Nodes(
        names
            .iter()
            .map(|name| NodeName::from(*name))
            .collect::<BTreeSet<_>>(),
    )
}

fn added(
    required: &[core::NodeSelectorTerm],
    preferred: &[(i32, core::NodeSelectorTerm)],
) -> NodeAffinity {
    NodeAffinity::with_added(&core::NodeAffinity {
        required_during_scheduling_ignored_during_execution: (!required.is_empty()).then(|| {
            core::NodeSelector {
                node_selector_terms: required.to_vec(),
            }
        }),
        preferred_during_scheduling_ignored_during_execution: Some(
            preferred
                .iter()
                .map(|(weight, term)| core::PreferredSchedulingTerm {
                    weight: *weight,
                    preference: term.clone(),
                })
                .collect(),
        ),
    })
    .unwrap()
}

#[test]
fn selector_and_terms() {
    let pier = || {
        node("pier-1")
            .label("zone", "north")
            .label("depth", "12")
            .info()
    };
    let zone = |zones: &[&str]| term(&[requirement("zone", "In", zones)], &[]);
    let deep = |bound: &str| requirement("depth", "Gt", &[bound]);
    let names_of = |operator, names: &[&str]| requirement("metadata.name", operator, names);
    let named = |name: &str| names_of("In", &[name]);
    for (what, pod, fits) in [
        ("nothing asked", pod("p"), true),
        (
            "selector matches",
            pod("p").node_selector("zone", "north"),
            true,
        ),
        (
            "selector doesn't",
            pod("p")
                .node_selector("zone", "north")
                .node_selector("tug", "yes"),
            false,
        ),
        (
            "one term of two",
            pod("p").required_nodes(&[zone(&["south"]), zone(&["east", "north"])]),
            true,
        ),
        (
            "no term",
            pod("p").required_nodes(&[zone(&["south"])]),
            false,
        ),
        (
            "all of a term",
            pod("p")
                .required_nodes(&[term(&[requirement("zone", "Exists", &[]), deep("11")], &[])]),
            true,
        ),
        (
            "not all of a term",
            pod("p")
                .required_nodes(&[term(&[requirement("zone", "Exists", &[]), deep("12")], &[])]),
            false,
        ),
        (
            "bound isn't a number",
            pod("p").required_nodes(&[term(&[deep("shallow")], &[])]),
            false,
        ),
        (
            "by name",
            pod("p").required_nodes(&[term(&[], &[named("pier-1")])]),
            true,
        ),
        (
            "by several names at once",
            pod("p").required_nodes(&[term(&[], &[names_of("In", &["pier-1", "pier-2"])])]),
            false,
        ),
        (
            "not by name",
            pod("p").required_nodes(&[term(&[], &[names_of("NotIn", &["pier-2"])])]),
            true,
        ),
        (
            "not by several names at once",
            pod("p").required_nodes(&[term(&[], &[names_of("NotIn", &["pier-2", "pier-3"])])]),
            false,
        ),
        (
            "by name and label",
            pod("p").required_nodes(&[term(&[deep("20")], &[named("pier-1")])]),
            false,
        ),
        (
            "an empty term matches nothing",
            pod("p").required_nodes(&[term(&[], &[])]),
            false,
        ),
        (
            "no terms match nothing",
            pod("p").required_nodes(&[]),
            false,
        ),
        (
            "selector and terms",
            pod("p")
                .node_selector("zone", "south")
                .required_nodes(&[zone(&["north"])]),
            false,
        ),
    ] {
        let pod = pod.info();
        assert_eq!(pod.defects(), [], "{what}");
        let verdict = NodeAffinity::default().filter(&CycleState::new(), &pod, pier().view());
        assert_eq!(verdict.is_ok(), fits, "{what}");
        if let Err(status) = verdict {
            assert_eq!(status.code(), Code::UnschedulableAndUnresolvable);
            assert_eq!(
                status.to_string(),
                "node(s) didn't match Pod's node affinity/selector"
            );
        }
    }
}

#[test]
fn the_configuration_s_affinity_comes_first() {
    let plugin = added(&[term(&[requirement("fleet", "Exists", &[])], &[])], &[]);
    let ours = node("n").label("fleet", "a").info();
    let pod = pod("p").node_selector("zone", "north").info();
    let told = |node: &crate::table::NodeInfo| {
        plugin
            .filter(&CycleState::new(), &pod, node.view())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        told(&node("n").info()),
        "node(s) didn't match scheduler-enforced node affinity"
    );
    assert_eq!(
        told(&ours),
        "node(s) didn't match Pod's node affinity/selector"
    );
}

#[test]
fn the_configuration_names_one_node_a_requirement() {
    let two = term(&[], &[requirement("metadata.name", "In", &["a", "b"])]);
    let required = core::NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(core::NodeSelector {
            node_selector_terms: vec![two.clone()],
        }),
        ..core::NodeAffinity::default()
    };
    let preferred = core::NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![
            core::PreferredSchedulingTerm {
                weight: 1,
                preference: two,
            },
        ]),
        ..core::NodeAffinity::default()
    };
    for affinity in [required, preferred] {
        let error = NodeAffinity::with_added(&affinity).unwrap_err();
        assert_eq!(error, RequirementError::Values("In".into()));
    }
}

#[test]
fn names_narrow_the_search() {
    let plugin = NodeAffinity::default();
    let named = |names: &[&str]| requirement("metadata.name", "In", names);
    let of = |terms: &[core::NodeSelectorTerm]| pod("p").required_nodes(terms).info();
    let zone = || requirement("zone", "Exists", &[]);
    for (what, pod, expected) in [
        ("nothing asked", pod("p").info(), PreFiltered::Skip),
        (
            "a selector",
            pod("p").node_selector("a", "b").info(),
            PreFiltered::AllNodes,
        ),
        (
            "one name",
            of(&[term(&[], &[named(&["a"])])]),
            names(&["a"]),
        ),
        (
            "names of all terms",
            of(&[
                term(&[], &[named(&["a"])]),
                term(&[zone()], &[named(&["b"])]),
            ]),
            names(&["a", "b"]),
        ),
        (
            "a term without",
            of(&[term(&[], &[named(&["a"])]), term(&[zone()], &[])]),
            PreFiltered::AllNodes,
        ),
        (
            "names of one term intersect",
            of(&[term(&[], &[named(&["a", "b"]), named(&["b", "c"])])]),
            names(&["b"]),
        ),
        (
            "a term that can't match doesn't hurt the other",
            of(&[
                term(&[], &[named(&["a"]), named(&["b"])]),
                term(&[], &[named(&["c"])]),
            ]),
            names(&["c"]),
        ),
    ] {
        assert_eq!(pre_filter(&plugin, &pod).unwrap(), expected, "{what}");
    }
    let conflict =
        pre_filter(&plugin, &of(&[term(&[], &[named(&["a"]), named(&["b"])])])).unwrap_err();
    assert_eq!(conflict.code(), Code::UnschedulableAndUnresolvable);
    assert_eq!(conflict.to_string(), "pod affinity terms conflict");

    let enforced = added(&[term(&[zone()], &[])], &[]);
    assert_eq!(
        pre_filter(&enforced, &pod("p").info()).unwrap(),
        PreFiltered::AllNodes
    );
}

#[test]
fn preferences_add_up() {
    let zone = |zone: &str| term(&[requirement("zone", "In", &[zone])], &[]);
    let nodes = [("a", "south"), ("b", "north"), ("c", "west")]
        .map(|(name, zone)| node(name).label("zone", zone).info());
    let score = |plugin: &NodeAffinity, pod: PodBuilder| {
        let pod = pod.info();
        let scores = nodes
            .iter()
            .map(|node| plugin.score(&CycleState::new(), &pod, node.view()).unwrap());
        let mut scores = scores.collect::<Vec<_>>();
        let raw = scores.clone();
        plugin
            .normalize(
                &CycleState::new(),
                &pod,
                &NodeTable::default(),
                &[],
                &mut scores,
            )
            .unwrap();
        (raw, scores)
    };
    let own = || {
        pod("p")
            .preferred_node(10, zone("south"))
            .preferred_node(30, zone("north"))
    };
    let plugin = NodeAffinity::default();
    assert_eq!(score(&plugin, own()), (vec![10, 30, 0], vec![33, 100, 0]));
    let more = own()
        .preferred_node(10, term(&[], &[]))
        .preferred_node(0, zone("west"));
    assert_eq!(
        score(&plugin, more).0,
        [10, 30, 0],
        "an empty preference and one without weight say nothing"
    );
    let added = added(&[], &[(50, zone("west"))]);
    assert_eq!(score(&added, own()).0, [10, 30, 50]);

    let pre_score = |plugin: &NodeAffinity, pod: PodBuilder| {
        with_context(|cx| plugin.pre_score(cx, &mut CycleState::new(), &pod.info(), &[])).unwrap()
    };
    assert_eq!(pre_score(&plugin, pod("p")), PreScored::Skip);
    assert_eq!(pre_score(&plugin, own()), PreScored::Proceed);
    let off = pod("p").preferred_node(0, zone("west"));
    assert_eq!(pre_score(&plugin, off), PreScored::Proceed);
    assert_eq!(pre_score(&added, pod("p")), PreScored::Proceed);
}

#[test]
fn what_helps() {
    let plugin = NodeAffinity::default();
    let pod = pod("p").node_selector("zone", "north").info();
    let (north, south) = (
        node("n").label("zone", "north").object(),
        node("n").label("zone", "south").object(),
    );
    let relabel = |old: &Arc<_>, new: &Arc<_>| {
        Event::node(
            Actions::UPDATE_NODE_LABEL,
            Some(Arc::clone(old)),
            Some(Arc::clone(new)),
        )
    };
    assert_eq!(
        plugin.hint(&pod, &Event::node(Actions::ADD, None, Some(north.clone()))),
        Hint::Queue
    );
    assert_eq!(
        plugin.hint(&pod, &Event::node(Actions::ADD, None, Some(south.clone()))),
        Hint::Skip
    );
    assert_eq!(plugin.hint(&pod, &relabel(&south, &north)), Hint::Queue);
    assert_eq!(plugin.hint(&pod, &relabel(&north, &north)), Hint::Skip);
}
