use std::sync::Arc;

use super::{FitArgs, NodeResourcesFit};
use crate::event::{Actions, Event, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, Filter, Score};
use crate::plugins::{ScoringResource, ScoringStrategy, StrategyKind};
use crate::refusals::{Refusals, Rejections};
use crate::resources::ResourceName;
use crate::state::CycleState;
use crate::status::Code;
use crate::table::NodeTable;
use crate::test_objects::{NodeBuilder, PodBuilder, node, pod, uid};

fn harbour() -> NodeBuilder {
    node("harbour")
        .allocatable("cpu", "4")
        .allocatable("memory", "8Gi")
        .allocatable("ephemeral-storage", "20Gi")
        .allocatable("port.io/crane", "2")
}

fn moored() -> Vec<PodBuilder> {
    vec![
        pod("moored")
            .request("cpu", "3")
            .request("memory", "6Gi")
            .request("port.io/crane", "1"),
    ]
}

#[test]
fn every_shortage_is_told() {
    use Code::{Unschedulable, UnschedulableAndUnresolvable};
    let fit = NodeResourcesFit::default();
    for (pod, expected) in [
        (pod("p"), None),
        (pod("p").request("cpu", "1"), None),
        (
            pod("p").request("cpu", "1001m"),
            Some((Unschedulable, "Insufficient cpu")),
        ),
        (
            pod("p").request("cpu", "2").request("memory", "3Gi"),
            Some((Unschedulable, "Insufficient cpu, Insufficient memory")),
        ),
        (
            pod("p").request("cpu", "2").request("memory", "9Gi"),
            Some((
                UnschedulableAndUnresolvable,
                "Insufficient cpu, Insufficient memory",
            )),
        ),
        (
            pod("p").request("ephemeral-storage", "21Gi"),
            Some((
                UnschedulableAndUnresolvable,
                "Insufficient ephemeral-storage",
            )),
        ),
        (
            pod("p").request("port.io/crane", "2"),
            Some((Unschedulable, "Insufficient port.io/crane")),
        ),
        (
            pod("p").request("port.io/lock", "1"),
            Some((UnschedulableAndUnresolvable, "Insufficient port.io/lock")),
        ),
        (pod("p").request("port.io/lock", "0"), None),
    ] {
        let status = fit
            .filter(
                &CycleState::new(),
                &pod.info(),
                harbour().with(moored()).view(),
            )
            .err();
        let told = status
            .as_ref()
            .map(|status| (status.code(), status.to_string()));
        assert_eq!(told, expected.map(|(code, text)| (code, text.to_owned())));
    }
}

#[test]
fn slots_for_pods_run_out_even_for_pods_that_ask_for_nothing() {
    let full = node("n").allocatable("pods", "1").with(vec![pod("there")]);
    let status =
        NodeResourcesFit::default().filter(&CycleState::new(), &pod("p").info(), full.view());
    let status = status.unwrap_err();
    assert_eq!(
        (status.code(), status.to_string().as_str()),
        (Code::Unschedulable, "Too many pods")
    );
}

#[test]
fn a_pod_that_wanted_everything_and_went_leaves_no_node_overbooked() {
    let fit = NodeResourcesFit::default();
    let state = CycleState::new();
    let wanted = pod("p").request("cpu", "2").info();
    let most = || pod("most").request("cpu", "9223372036854775807");
    let mut full = harbour().with(moored());
    for _ in 0..2 {
        full.add_pod(most().info());
        assert!(fit.filter(&state, &wanted, full.view()).is_err());
        full.remove_pod(&uid("most"));
        let status = fit.filter(&state, &wanted, full.view()).unwrap_err();
        assert_eq!(status.to_string(), "Insufficient cpu");
    }
}

#[test]
fn many_nodes_are_told_what_each_is_and_equal_shortages_once() {
    let (mut table, mut ids) = (NodeTable::default(), Vec::new());
    for number in 0..3 {
        let node = |kind: &str, cpu: &str| {
            let node = node(&format!("{kind}-{number}")).allocatable("cpu", cpu);
            node.allocatable("port.io/crane", "2")
        };
        let fitting = node("fitting", "4").allocatable("port.io/lock", "7");
        for node in [
            node("full", "4"),
            node("small", "1"),
            node("free", "4"),
            fitting,
        ] {
            let node = node.object();
            table.set_node(node.clone());
            ids.push(table.id(&node.name).unwrap());
        }
        for pod in moored() {
            table.add_pod(ids[ids.len() - 4], pod.info());
        }
    }
    let (fit, state) = (NodeResourcesFit::default(), CycleState::new());
    table.set_unread(ids[7], Some(uid("x")));
    let wanted = pod("p")
        .request("cpu", "2")
        .request("port.io/crane", "2")
        .request("port.io/lock", "7");
    let wanted = wanted.info();
    let mut known = Rejections::default();
    let mut refusals = Refusals::new("", &mut known);
    fit.filter_all(&state, &wanted, &table, &ids, &mut refusals)
        .unwrap();
    let refused = refusals.into_refused();
    let together = refused.into_iter().map(|(at, why)| {
        let why = known.get(why);
        (at, why.kind().code(), why.to_string())
    });
    let each = ids.iter().enumerate().filter_map(|(at, id)| {
        let status = fit.filter(&state, &wanted, table.get(*id)?).err()?;
        Some((at, status.code(), status.to_string()))
    });
    assert_eq!(together.collect::<Vec<_>>(), each.collect::<Vec<_>>());
    let told = known.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [
        "Insufficient cpu, Insufficient port.io/crane, Insufficient port.io/lock",
        "Insufficient cpu, Insufficient port.io/lock",
        "Insufficient port.io/lock",
        "node(s) had a pod that could not be taken in (UID uid-x)",
    ];
    assert_eq!(told, expected);
}

#[test]
fn ignored_resources_are_left_to_others() {
    let ignoring = |resources: &[&str], groups: &[&str]| {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        NodeResourcesFit::new(FitArgs {
            ignored_resources: set(resources),
            ignored_resource_groups: set(groups),
            ..FitArgs::default()
        })
    };
    let wants = |name: &str| pod("p").request(name, "9").info();
    for (fit, wanted, fits) in [
        (ignoring(&["port.io/lock"], &[]), "port.io/lock", true),
        (ignoring(&["port.io/lock"], &[]), "port.io/crane", false),
        (ignoring(&[], &["port.io"]), "port.io/crane", true),
        (ignoring(&["hugepages-2Mi"], &[]), "hugepages-2Mi", false),
    ] {
        let verdict = fit.filter(&CycleState::new(), &wants(wanted), harbour().info().view());
        assert_eq!(verdict.is_ok(), fits, "{wanted}");
    }
}

#[test]
fn room_that_is_left_ranks_nodes() {
    let state = CycleState::new();
    let used = |cpu, memory| vec![pod("used").request("cpu", cpu).request("memory", memory)];
    let sized = |cpu, memory| {
        node("n")
            .allocatable("cpu", cpu)
            .allocatable("memory", memory)
    };
    let new = pod("p")
        .request("cpu", "1")
        .request("memory", "2000")
        .info();
    let small = sized("4", "10000").with(used("2", "4000"));
    let large = sized("6", "10000").with(used("1", "2000"));
    let least = NodeResourcesFit::default();
    let scores = [&small, &large].map(|node| least.score(&state, &new, node.view()).unwrap());
    assert_eq!(scores, [32, 63]);

    let with = |kind, resources: &[(&str, i64)]| {
        let resources = resources
            .iter()
            .map(|&(name, weight)| ScoringResource {
                name: ResourceName::parse(name),
                weight,
            })
            .collect();
        let scoring_strategy = ScoringStrategy::new(kind, resources).unwrap();
        NodeResourcesFit::new(FitArgs {
            scoring_strategy,
            ..FitArgs::default()
        })
    };
    let most = with(StrategyKind::MostAllocated, &[("cpu", 1), ("memory", 1)]);
    assert_eq!(most.score(&state, &new, small.view()).unwrap(), 67);

    // A scalar that the pod doesn't ask for says nothing, nor does one that the node doesn't have.
    let cranes = with(
        StrategyKind::LeastAllocated,
        &[("cpu", 1), ("port.io/crane", 1), ("port.io/lock", 9)],
    );
    let harbour = harbour().info();
    assert_eq!(
        cranes
            .score(&state, &pod("p").request("cpu", "1").info(), harbour.view())
            .unwrap(),
        75
    );
    let lifting = pod("p")
        .request("cpu", "1")
        .request("port.io/crane", "1")
        .request("port.io/lock", "1");
    assert_eq!(
        cranes
            .score(&state, &lifting.info(), harbour.view())
            .unwrap(),
        i64::midpoint(75, 50)
    );
}

#[test]
fn the_number_of_pods_is_no_resource_to_rank_by() {
    let resources = ["cpu", "pods"].map(|name| ScoringResource {
        name: ResourceName::parse(name),
        weight: 1,
    });
    let strategy = ScoringStrategy::new(StrategyKind::LeastAllocated, resources.to_vec());
    let fit = NodeResourcesFit::new(FitArgs {
        scoring_strategy: strategy.unwrap(),
        ..FitArgs::default()
    });
    let new = pod("p").request("cpu", "1").info();
    let score = fit.score(&CycleState::new(), &new, harbour().info().view());
    assert_eq!(score.unwrap(), 75);
}

#[test]
fn pods_that_ask_for_nothing_still_spread() {
    let state = CycleState::new();
    let fit = NodeResourcesFit::default();
    let sized = || {
        node("n")
            .allocatable("cpu", "1")
            .allocatable("memory", "2000Mi")
    };
    // Each silent container counts as 100m and 200Mi.
    let empty = fit
        .score(&state, &pod("p").info(), sized().info().view())
        .unwrap();
    let busy = fit
        .score(
            &state,
            &pod("p").info(),
            sized().with(vec![pod("a"), pod("b")]).view(),
        )
        .unwrap();
    assert_eq!((empty, busy), (90, 70));
}

#[test]
fn what_helps() {
    let fit = NodeResourcesFit::default();
    let waiting = pod("p").request("cpu", "2").info();
    let assigned = EventResource::AssignedPod;
    let pod_event = |action, old: PodBuilder, new: Option<PodBuilder>| {
        Event::pod(
            assigned,
            action,
            Some(old.info()),
            new.map(PodBuilder::info),
        )
    };
    let sized = |cpu: &str, pods: &str| {
        node("n")
            .allocatable("cpu", cpu)
            .allocatable("pods", pods)
            .object()
    };
    let grows = |old, new| Event::node(Actions::UPDATE_NODE_ALLOCATABLE, Some(old), Some(new));
    let shrink = Actions::UPDATE_POD_SCALE_DOWN;
    for (what, event, hint) in [
        (
            "a pod goes",
            pod_event(Actions::DELETE, pod("x"), None),
            Hint::Queue,
        ),
        (
            "one asks for less of ours",
            pod_event(
                shrink,
                pod("x").request("cpu", "2"),
                Some(pod("x").request("cpu", "1")),
            ),
            Hint::Queue,
        ),
        (
            "one asks for less of something else",
            pod_event(
                shrink,
                pod("x").request("memory", "2"),
                Some(pod("x").request("memory", "1")),
            ),
            Hint::Skip,
        ),
        (
            "the pod itself asks for less",
            Event::pod(
                EventResource::TargetPod,
                shrink,
                Some(pod("p").request("cpu", "3").info()),
                Some(Arc::clone(&waiting)),
            ),
            Hint::Queue,
        ),
        (
            "a large node comes",
            Event::node(Actions::ADD, None, Some(sized("2", "9"))),
            Hint::Queue,
        ),
        (
            "a small node comes",
            Event::node(Actions::ADD, None, Some(sized("1", "9"))),
            Hint::Skip,
        ),
        (
            "a node grows",
            grows(sized("1", "9"), sized("2", "9")),
            Hint::Queue,
        ),
        (
            "a node gets more slots",
            grows(sized("2", "8"), sized("2", "9")),
            Hint::Queue,
        ),
        (
            "a node shrinks",
            grows(sized("3", "9"), sized("2", "9")),
            Hint::Skip,
        ),
        (
            "a node grows too little",
            grows(sized("1", "9"), sized("1500m", "9")),
            Hint::Skip,
        ),
    ] {
        assert_eq!(fit.hint(&waiting, &event), hint, "{what}");
    }
}
