use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Cause, Choice, Chosen, NoChoice, Search, SearchSize, choose, evaluate, recheck};
use crate::classes::Classes;
use crate::context::Cycle;
use crate::names::NodeName;
use crate::plugin::{Nomination, PostFiltered, PreFiltered};
use crate::pod_info::PodInfo;
use crate::profile::{Profile, ProfileBuilder};
use crate::state::CycleState;
use crate::status::{Code, Status};
use crate::table::{NodeTable, NodeView};
use crate::test_objects::{Quiet, node, pod, uid};
use crate::test_plugins::{Fake, Log, profile, taken};
use crate::tie::{FirstOfEquals, SeededTies};

/// A cluster of empty nodes, and what a cycle needs beside it.
struct Harbour {
    profile: Arc<Profile>,
    nodes: NodeTable,
    classes: Classes,
    quiet: Quiet,
    start: usize,
}

impl Harbour {
    fn new(profile: ProfileBuilder, nodes: usize) -> Self {
        let mut table = NodeTable::default();
        for n in 0..nodes {
            // Each its own zone, so that they are searched in this order.
            let zone = format!("{n:04}");
            let node = node(&format!("n{n}")).label("topology.kubernetes.io/zone", &zone);
            table.set_node(node.object());
        }
        Self {
            profile: profile.build().unwrap(),
            nodes: table,
            classes: Classes::default(),
            quiet: Quiet::default(),
            start: 0,
        }
    }

    fn cycle(&mut self) -> Cycle<'_> {
        Cycle::new(&self.profile, &mut self.nodes, self.quiet.around())
    }

    fn choose_for(&mut self, pod: &PodInfo, size: SearchSize) -> Result<Choice, NoChoice> {
        let how = Search {
            size,
            start: &mut self.start,
            ties: &mut FirstOfEquals,
            classes: &mut self.classes,
            is_offered: false,
            nominated_first: true,
            mishaps: &mut Vec::new(),
        };
        let mut cycle = Cycle::new(&self.profile, &mut self.nodes, self.quiet.around());
        choose(&mut cycle, &mut CycleState::new(), pod, how).map(Chosen::node)
    }

    fn choose(&mut self) -> Result<Choice, NoChoice> {
        self.choose_for(&pod("p").info(), SearchSize::Percentage(0))
    }

    fn failure(&mut self) -> (Cause, Nomination) {
        let NoChoice { cause, nomination } = self.choose().unwrap_err();
        (cause, nomination)
    }
}

fn is(node: NodeView<'_>, names: &[&str]) -> bool {
    names.contains(&node.name().as_str())
}

/// Accepts only these nodes.
fn only(name: &'static str, nodes: &'static [&'static str], reason: &'static str) -> Fake {
    Fake::new(name).set(|fake| {
        fake.filter = Box::new(move |_, node| {
            if is(node, nodes) {
                Ok(())
            } else {
                Err(Status::unschedulable(reason))
            }
        });
    })
}

fn pre(
    name: &'static str,
    says: impl Fn() -> crate::Verdict<PreFiltered> + Send + Sync + 'static,
) -> Arc<Fake> {
    Arc::new(Fake::new(name).set(|fake| fake.pre_filter = Box::new(move |_| says())))
}

fn names(names: &[&str]) -> PreFiltered {
    PreFiltered::Nodes(names.iter().map(|name| NodeName::from(*name)).collect())
}

fn by(plugins: &[&'static str]) -> BTreeSet<&'static str> {
    plugins.iter().copied().collect()
}

#[test]
fn an_empty_cluster_has_its_own_text() {
    let mut harbour = Harbour::new(profile().post_filter(Arc::new(Fake::new("Post"))), 0);
    let (cause, nomination) = harbour.failure();
    assert_eq!(cause.to_string(), "no nodes available to schedule pods");
    assert!(matches!(cause, Cause::NoNodes));
    assert_eq!(nomination, Nomination::Clear);
}

#[test]
fn the_first_rejection_on_a_node_counts() {
    let mut harbour = Harbour::new(
        profile()
            .filter(Arc::new(only(
                "Depth",
                &["n0", "n1"],
                "node(s) were too shallow",
            )))
            .filter(Arc::new(only("Width", &["n2"], "node(s) were too narrow"))),
        4,
    );
    let (cause, nomination) = harbour.failure();
    let text = "0/4 nodes are available: 2 node(s) were too narrow, 2 node(s) were too shallow.";
    assert_eq!(cause.to_string(), text);
    let diagnosis = cause.diagnosis().unwrap();
    assert_eq!(diagnosis.rejected_by, by(&["Depth", "Width"]));
    assert_eq!(diagnosis.evaluated, 4);
    assert_eq!(
        nomination,
        Nomination::Clear,
        "no PostFilter plugin could keep it"
    );
}

#[test]
fn an_error_of_a_filter_ends_the_cycle() {
    let broken =
        Fake::new("Broken").set(|fake| fake.filter = Box::new(|_, _| Err(Status::error("leak"))));
    let (cause, _) = Harbour::new(profile().filter(Arc::new(broken)), 2).failure();
    assert!(!cause.is_rejection());
    assert_eq!(cause.to_string(), "plugin \"Broken\" failed: leak");
}

#[test]
fn pre_filters_narrow_the_search_together() {
    let mut harbour = Harbour::new(
        profile()
            .pre_filter(pre("A", || Ok(names(&["n0", "n1", "gone"]))))
            .pre_filter(pre("B", || Ok(names(&["n1", "n2", "gone"]))))
            .filter(Arc::new(only("Depth", &[], "too shallow"))),
        5,
    );
    let (cause, _) = harbour.failure();
    let text = "0/5 nodes are available: 1 too shallow, 4 node(s) didn't satisfy plugin(s) [A B].";
    assert_eq!(cause.to_string(), text);
    assert_eq!(
        cause.diagnosis().unwrap().rejected_by,
        by(&["A", "B", "Depth"])
    );
}

#[test]
fn an_empty_intersection_ends_the_search() {
    let one = profile().pre_filter(pre("A", || Ok(names(&[]))));
    let two = profile()
        .pre_filter(pre("A", || Ok(names(&["n0"]))))
        .pre_filter(pre("B", || Ok(names(&["n1"]))));
    for (profile, text) in [
        (
            one,
            "0/2 nodes are available: node(s) didn't satisfy plugin A.",
        ),
        (
            two,
            "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.",
        ),
    ] {
        let (cause, _) = Harbour::new(profile, 2).failure();
        assert_eq!(cause.to_string(), text);
        let others = cause.diagnosis().unwrap().statuses.others().unwrap();
        assert!(!others.resolvable());
    }
}

#[test]
fn how_pre_filters_reject() {
    let soft = || pre("Soft", || Err(Status::unschedulable("soft")));
    let hard = || pre("Hard", || Err(Status::unresolvable("hard")));
    let pending = || pre("Pending", || Err(Status::pending("pending")));
    let none = BTreeSet::new();
    for (profile, text, rejected_by, pending_by) in [
        // The first unresolvable rejection ends the point; others let the rest speak.
        (
            profile().pre_filter(soft()).pre_filter(hard()),
            "hard",
            by(&["Soft", "Hard"]),
            none.clone(),
        ),
        (
            profile().pre_filter(hard()).pre_filter(soft()),
            "hard",
            by(&["Hard"]),
            none.clone(),
        ),
        (
            profile().pre_filter(pending()).pre_filter(soft()),
            "soft",
            by(&["Soft"]),
            by(&["Pending"]),
        ),
    ] {
        let (cause, _) = Harbour::new(profile, 1).failure();
        assert_eq!(
            cause.to_string(),
            format!("0/1 nodes are available: {text}.")
        );
        let diagnosis = cause.diagnosis().unwrap();
        assert_eq!(
            (&diagnosis.rejected_by, &diagnosis.pending_by),
            (&rejected_by, &pending_by)
        );
    }
}

#[test]
fn skip_leaves_out_filter_and_extensions() {
    let log = Log::default();
    let skipping = Arc::new(Fake::new("Skips").log(&log).set(|fake| {
        fake.pre_filter = Box::new(|_| Ok(PreFiltered::Skip));
        fake.filter = Box::new(|_, _| Err(Status::unschedulable("never")));
        fake.follows = true;
    }));
    let mut harbour = Harbour::new(profile().pre_filter(skipping.clone()).filter(skipping), 1);
    harbour
        .quiet
        .nominator
        .nominate(pod("other").info(), NodeName::from("n0"));
    assert_eq!(harbour.choose().unwrap().node.as_str(), "n0");
    assert_eq!(taken(&log), Vec::<String>::new());
}

#[test]
fn nominated_pods_count_twice_with_and_without() {
    let log = Log::default();
    let fit = Arc::new(Fake::new("Fit").log(&log).set(|fake| fake.follows = true));
    let mut harbour = Harbour::new(profile().pre_filter(fit.clone()).filter(fit), 1);
    let expected = |name: &str, priority| pod(name).priority(priority).info();
    harbour
        .quiet
        .nominator
        .nominate(expected("equal", 5), NodeName::from("n0"));
    harbour
        .quiet
        .nominator
        .nominate(expected("lower", 4), NodeName::from("n0"));
    let pod = pod("p").priority(5).info();
    harbour.choose_for(&pod, SearchSize::Percentage(0)).unwrap();
    let calls = [
        "Fit add equal to n0",
        "Fit filter n0 with 1",
        "Fit filter n0 with 0",
    ];
    assert_eq!(taken(&log), calls);
    harbour.quiet.nominator.clear(&uid("equal"));
    harbour.choose_for(&pod, SearchSize::Percentage(0)).unwrap();
    assert_eq!(taken(&log), ["Fit filter n0 with 0"]);
}

#[test]
fn a_nominated_node_is_tried_first_and_alone() {
    let log = Log::default();
    let filter = only("Width", &["n0", "n2"], "too narrow").log(&log);
    let mut harbour = Harbour::new(
        profile()
            .filter(Arc::new(filter))
            .score(Arc::new(Fake::new("S")), 1),
        3,
    );
    let pod = pod("p").info();
    harbour
        .quiet
        .nominator
        .nominate(pod.clone(), NodeName::from("n2"));
    assert_eq!(
        harbour
            .choose_for(&pod, SearchSize::Percentage(0))
            .unwrap()
            .node
            .as_str(),
        "n2"
    );
    assert_eq!(taken(&log), ["Width filter n2 with 0"]);
    assert_eq!(harbour.start, 0);
    harbour
        .quiet
        .nominator
        .nominate(pod.clone(), NodeName::from("n1"));
    assert_eq!(
        harbour
            .choose_for(&pod, SearchSize::Percentage(0))
            .unwrap()
            .node
            .as_str(),
        "n0"
    );
    harbour
        .quiet
        .nominator
        .nominate(pod.clone(), NodeName::from("gone"));
    assert_eq!(
        harbour
            .choose_for(&pod, SearchSize::Percentage(0))
            .unwrap()
            .evaluated,
        3
    );
}

#[test]
fn each_search_starts_where_the_last_one_ended() {
    let odd = Fake::new("Odd").set(|fake| {
        fake.filter = Box::new(|_, node| {
            let number: u32 = node.name()[1..].parse().unwrap();
            if number % 2 == 1 {
                Ok(())
            } else {
                Err(Status::unschedulable("even"))
            }
        });
    });
    let mut harbour = Harbour::new(profile().filter(Arc::new(odd)), 5);
    let pod = pod("p").info();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let choice = harbour.choose_for(&pod, SearchSize::One).unwrap();
        seen.push(format!(
            "{} after {} at {}",
            choice.node, choice.evaluated, harbour.start
        ));
    }
    // n0 no, n1 yes | n2 no, n3 yes | n4 no, n0 no, n1 yes | …
    assert_eq!(
        seen,
        [
            "n1 after 2 at 2",
            "n3 after 2 at 4",
            "n1 after 3 at 2",
            "n3 after 2 at 4"
        ]
    );
}

fn scoring(name: &'static str, scores: &'static [i64]) -> Arc<Fake> {
    Arc::new(Fake::new(name).set(|fake| {
        fake.score = Box::new(|_, node| Ok(scores[node.name()[1..].parse::<usize>().unwrap()]));
    }))
}

#[test]
fn weights_decide_and_ties_are_broken_from_outside() {
    let profile = || {
        profile()
            .score(scoring("A", &[10, 40, 0]), 1)
            .score(scoring("B", &[50, 40, 50]), 3)
    };
    let mut harbour = Harbour::new(profile(), 3);
    let choice = harbour.choose().unwrap();
    // 160, 160, 150.
    assert_eq!((choice.node.as_str(), choice.feasible), ("n0", 3));
    let mut picked = BTreeSet::new();
    for seed in 0..20 {
        let how = Search {
            size: SearchSize::Percentage(0),
            start: &mut 0,
            ties: &mut SeededTies::new(seed),
            classes: &mut Classes::default(),
            is_offered: false,
            nominated_first: true,
            mishaps: &mut Vec::new(),
        };
        let (mut cycle, pod) = (harbour.cycle(), pod("p").info());
        let chosen = choose(&mut cycle, &mut CycleState::new(), &pod, how).unwrap();
        picked.insert(chosen.node().node.to_string());
    }
    assert_eq!(
        picked.into_iter().collect::<Vec<_>>(),
        ["n0", "n1"],
        "never the worse one"
    );
}

#[test]
fn a_single_feasible_node_is_not_scored() {
    let log = Log::default();
    let score = Fake::new("S")
        .log(&log)
        .set(|fake| fake.score = Box::new(|_, _| Ok(101)));
    let builder = || profile().score(Arc::new(Fake::new("T")), 1);
    let mut harbour = Harbour::new(
        builder()
            .filter(Arc::new(only("F", &["n1"], "no")))
            .score(Arc::new(score), 1),
        2,
    );
    assert_eq!(harbour.choose().unwrap().node.as_str(), "n1");
    assert_eq!(taken(&log), Vec::<String>::new());
}

#[test]
fn scores_beyond_the_range_are_errors_and_so_are_rejections() {
    let (cause, _) = Harbour::new(profile().score(scoring("S", &[0, 101]), 1), 2).failure();
    let text = "plugin \"S\" failed: score 101 of node \"n1\" isn't within 0..=100";
    assert_eq!(cause.to_string(), text);
    let rejecting =
        Fake::new("S").set(|f| f.score = Box::new(|_, _| Err(Status::unschedulable("late"))));
    let (cause, _) = Harbour::new(profile().score(Arc::new(rejecting), 1), 2).failure();
    assert!(!cause.is_rejection());
}

fn post(
    name: &'static str,
    log: &Log,
    says: impl Fn() -> PostFiltered + Send + Sync + 'static,
) -> Arc<Fake> {
    Arc::new(
        Fake::new(name)
            .log(log)
            .set(|fake| fake.post_filter = Box::new(move |_| says())),
    )
}

#[test]
fn post_filters_run_until_one_helps_or_none_can() {
    let log = Log::default();
    let soft = || {
        post("Soft", &log, || {
            PostFiltered::no_help(Nomination::Keep, Status::unschedulable("no claims"))
        })
    };
    let hard = || {
        post("Hard", &log, || {
            PostFiltered::no_help(Nomination::Clear, Status::unresolvable("never"))
        })
    };
    let helps = || {
        post("Helps", &log, || {
            PostFiltered::nominate(NodeName::from("n0"))
        })
    };
    let unfit = || profile().filter(Arc::new(only("F", &[], "no")));
    let fails = || {
        post("Fails", &log, || {
            PostFiltered::no_help(Nomination::Clear, Status::error("leak"))
        })
    };
    let n0 = Nomination::Set(NodeName::from("n0"));
    let failed = " plugin \"Fails\" failed: leak";
    for (builder, ran, tail, nomination) in [
        (unfit().post_filter(soft()).post_filter(helps()), 2, "", n0),
        (
            unfit().post_filter(hard()).post_filter(helps()),
            1,
            " never",
            Nomination::Clear,
        ),
        (
            unfit().post_filter(soft()).post_filter(hard()),
            2,
            " never",
            Nomination::Clear,
        ),
        (
            unfit().post_filter(soft()),
            1,
            " no claims",
            Nomination::Keep,
        ),
        (
            unfit().post_filter(fails()).post_filter(helps()),
            1,
            failed,
            Nomination::Keep,
        ),
    ] {
        let (cause, nominated) = Harbour::new(builder, 1).failure();
        assert_eq!(
            cause.to_string(),
            format!("0/1 nodes are available: 1 no.{tail}")
        );
        assert_eq!((taken(&log).len(), nominated), (ran, nomination));
    }
}

#[test]
fn malformed_pods_and_nodes_are_kept_apart() {
    let mut harbour = Harbour::new(profile(), 1);
    let bad_pod = pod("bad").request("cpu", "many").info();
    let no_choice = harbour
        .choose_for(&bad_pod, SearchSize::Percentage(0))
        .unwrap_err();
    let text = "0/1 nodes are available: pod is malformed: \
                spec.containers[main].resources.requests[cpu] has no number.";
    assert_eq!(no_choice.cause.to_string(), text);
    assert_eq!(
        no_choice.cause.diagnosis().unwrap().rejected_by,
        by(&["WellFormed"])
    );

    harbour.nodes = NodeTable::default();
    harbour
        .nodes
        .set_node(node("bad").allocatable("cpu", "4x").object());
    harbour.nodes.set_node(node("good").object());
    let choice = harbour.choose().unwrap();
    assert_eq!((choice.node.as_str(), choice.feasible), ("good", 1));
}

#[test]
fn an_evaluation_tells_everything_and_takes_nothing() {
    let mut harbour = Harbour::new(
        profile()
            .pre_filter(pre("Named", || Ok(names(&["n0", "n1", "n2"]))))
            .filter(Arc::new(only("Depth", &["n0", "n2", "n3"], "too shallow")))
            .score(scoring("A", &[10, 0, 90, 0]), 2)
            .score(scoring("B", &[5, 0, 5, 0]), 1),
        4,
    );
    let found = evaluate(
        &mut harbour.cycle(),
        &mut CycleState::new(),
        &pod("p").info(),
    )
    .unwrap();
    let totals = found
        .feasible
        .iter()
        .map(|n| (n.node.to_string(), n.total))
        .collect::<Vec<_>>();
    assert_eq!(totals, [("n2".into(), 185), ("n0".into(), 25)]);
    let parts = found.feasible[0]
        .parts
        .iter()
        .map(|p| (p.plugin, p.weighted))
        .collect::<Vec<_>>();
    assert_eq!(parts, [("A", 180), ("B", 5)]);
    let rejected = found
        .rejected
        .iter()
        .map(|n| format!("{} {}", n.node, n.rejection));
    let expected = [
        "n1 too shallow",
        "n3 node(s) didn't satisfy plugin(s) [Named]",
    ];
    assert_eq!(rejected.collect::<Vec<_>>(), expected);

    let mut empty = Harbour::new(profile(), 0);
    let found = evaluate(&mut empty.cycle(), &mut CycleState::new(), &pod("p").info()).unwrap();
    assert!(found.feasible.is_empty() && found.rejected.is_empty());
}

#[test]
fn a_recheck_asks_for_one_node_alone() {
    let log = Log::default();
    let filter = only("Depth", &["n1"], "too shallow").log(&log);
    let mut harbour = Harbour::new(
        profile()
            .pre_filter(pre("Named", || Ok(names(&["n0", "n1"]))))
            .filter(Arc::new(filter)),
        3,
    );
    let pod = pod("p").info();
    let mut ask = |node: &str| {
        recheck(
            &mut harbour.cycle(),
            &mut CycleState::new(),
            &pod,
            &NodeName::from(node),
        )
    };
    assert!(ask("n1").is_ok());
    assert_eq!(taken(&log), ["Depth filter n1 with 0"]);
    for (node, plugin, text) in [
        ("n0", Some("Depth"), "too shallow"),
        ("n2", Some("Named"), "node(s) didn't satisfy plugin Named"),
    ] {
        let status = ask(node).unwrap_err();
        assert_eq!(
            (status.plugin(), status.to_string().as_str()),
            (plugin, text)
        );
    }
    let mut everywhere = Harbour::new(profile(), 1);
    let gone = NodeName::from("gone");
    let status = recheck(&mut everywhere.cycle(), &mut CycleState::new(), &pod, &gone).unwrap_err();
    assert_eq!(status.code(), Code::UnschedulableAndUnresolvable);
}
