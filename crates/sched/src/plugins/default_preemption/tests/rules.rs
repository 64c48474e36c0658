//! Each rule of who is evicted for whom, and each text.

use std::sync::Arc;

use super::{Harbour, Outcome, budget, heir};
use crate::plugin::Nomination;
use crate::plugins::{DefaultPreemption, stock_profile_with};
use crate::scheduler::{Scheduler, SchedulerConfig};
use crate::test_objects::{NeverBinds, node, pod, uid};

#[test]
fn room_is_made_by_the_cheapest_victims() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("a", "n", "2", 3, 10);
    harbour.runs("b", "n", "1", 2, 10);
    harbour.runs("c", "n", "1", 2, 20);
    // The oldest of the lower ones stays, beside the dearest.
    assert_eq!(harbour.tries(heir("1")), Outcome::on("n", &["c"]));
}

#[test]
fn the_report_counts_what_keeps_each_node() {
    let mut harbour = Harbour::new().nodes(&["n1", "n2", "n3"]);
    harbour.node(
        node("tainted")
            .allocatable("cpu", "4")
            .taint("t", "", "NoSchedule"),
    );
    harbour.node(node("small").allocatable("cpu", "1"));
    harbour.runs("equal", "n1", "4", 10, 1);
    harbour.runs("higher", "n2", "4", 11, 1);
    harbour.runs("equal-too", "n3", "3", 10, 1);
    harbour.runs("lower", "n3", "1", 1, 1);
    let outcome = harbour.tries(heir("3"));
    let why = "0/5 nodes are available: 1 Insufficient cpu, \
               2 No preemption victims found for incoming pod, \
               2 Preemption is not helpful for scheduling.";
    assert_eq!(outcome, Outcome::none(why));
}

#[test]
fn nodes_that_preemption_cannot_help_are_counted_together() {
    let mut harbour = Harbour::new().nodes(&["n1", "n2"]);
    for name in ["n3", "n4", "n5"] {
        let tainted = node(name).taint("t", "", "NoSchedule");
        harbour.node(tainted.allocatable("cpu", "4"));
    }
    harbour.runs("equal", "n1", "4", 10, 1);
    harbour.runs("higher", "n2", "4", 11, 1);
    let why = "0/5 nodes are available: 2 No preemption victims found for incoming pod, \
               3 Preemption is not helpful for scheduling.";
    assert_eq!(harbour.tries(heir("3")), Outcome::none(why));
}

#[test]
fn the_whole_message_is_kube_schedulers() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.add(heir("5"));
    let failure = harbour.fails(0);
    assert_eq!(
        failure.message(),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    assert_eq!(failure.nomination, Nomination::Clear);
    // Help that is on its way isn't spoken of.
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("a", "n", "3", 0, 1);
    harbour.add(heir("2"));
    let failure = harbour.fails(0);
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(failure.message(), message);
    assert_eq!(failure.nomination, Nomination::Set("n".into()));
}

#[test]
fn who_may_not_evict() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("a", "n", "4", 0, 1);
    let outcome = harbour.tries(heir("1").never_preempts());
    let never = "not eligible due to preemptionPolicy=Never.";
    assert_eq!(outcome, Outcome::none(never));
}

#[test]
fn a_pod_waits_while_its_victims_end() {
    let terminating = "not eligible due to a terminating pod on the nominated node.";
    let busy = |victim: crate::test_objects::PodBuilder| {
        let mut harbour = Harbour::new().nodes(&["n", "m"]);
        harbour.add(victim.request("cpu", "4").on("n"));
        harbour.runs("other", "m", "4", 0, 1);
        let outcome = harbour.tries(heir("4").nominated("n"));
        let failure = harbour.0.pending_pod(&uid("heir")).cloned();
        assert!(failure.is_some());
        outcome
    };
    let waits = busy(pod("victim").preempted());
    assert_eq!(waits, Outcome::none(terminating));
    // It is no lower one, or ends for another reason, or doesn't end.
    let dearer = busy(pod("victim").preempted().priority(10));
    assert_eq!(dearer, Outcome::on("m", &["other"]));
    let drained = busy(pod("victim").deleting().started(5));
    assert_eq!(drained.node.as_deref(), Some("n"));
    assert!(drained.victims.is_empty(), "it is going already");
    let marked = busy(pod("victim").started(5));
    assert_eq!(marked, Outcome::on("n", &["victim"]));
}

#[test]
fn a_nominated_node_that_is_hopeless_now_is_left() {
    let mut harbour = Harbour::new();
    harbour.node(node("n").allocatable("cpu", "4").unschedulable());
    harbour.node(node("m").allocatable("cpu", "4"));
    harbour.add(pod("victim").request("cpu", "4").on("n").preempted());
    harbour.runs("other", "m", "4", 0, 1);
    let outcome = harbour.tries(heir("4").nominated("n"));
    assert_eq!(outcome, Outcome::on("m", &["other"]));
}

#[test]
fn budgets_are_respected_before_all_else() {
    let mut harbour = Harbour::new().nodes(&["guarded", "open"]);
    harbour.budget(budget("web", 0));
    let web = pod("web").label("app", "web").request("cpu", "4");
    harbour.add(web.on("guarded").started(9));
    harbour.runs("dear", "open", "4", 9, 1);
    assert_eq!(harbour.tries(heir("4")), Outcome::on("open", &["dear"]));
}

#[test]
fn on_one_node_who_breaks_a_budget_is_spared_first() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.budget(budget("web", 0));
    harbour.runs("dear", "n", "2", 5, 1);
    let web = pod("web").label("app", "web").request("cpu", "2");
    harbour.add(web.on("n").started(9));
    assert_eq!(harbour.tries(heir("2")), Outcome::on("n", &["dear"]));
}

#[test]
fn a_budget_is_broken_where_nothing_else_helps() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.budget(budget("web", 0));
    harbour.runs("dear", "n", "2", 5, 1);
    let web = pod("web").label("app", "web").request("cpu", "2");
    harbour.add(web.on("n").started(9));
    // Victims go by importance, whatever their budgets say.
    assert_eq!(harbour.tries(heir("4")), Outcome::on("n", &["dear", "web"]));
}

#[test]
fn of_several_nodes_the_cheapest_is_taken() {
    type Pods = &'static [(&'static str, &'static str, &'static str, i32, i64)];
    let cases: [(Pods, &str, &[&str]); 4] = [
        // The highest priority.
        (
            &[
                ("a", "n1", "4", 3, 1),
                ("b", "n2", "2", 2, 1),
                ("c", "n2", "2", 2, 1),
            ],
            "n2",
            &["b", "c"],
        ),
        // The sum.
        (
            &[
                ("a", "n1", "2", 3, 1),
                ("b", "n1", "2", 2, 1),
                ("c", "n2", "2", 3, 1),
                ("d", "n2", "2", 1, 1),
            ],
            "n2",
            &["c", "d"],
        ),
        // The age of the oldest of the highest.
        (
            &[("a", "n1", "4", 3, 10), ("b", "n2", "4", 3, 20)],
            "n2",
            &["b"],
        ),
        // The first.
        (
            &[("a", "n1", "4", 3, 10), ("b", "n2", "4", 3, 10)],
            "n1",
            &["a"],
        ),
    ];
    for (pods, node, victims) in cases {
        let mut harbour = Harbour::new().nodes(&["n1", "n2"]);
        for (name, node, cpu, priority, started) in pods {
            harbour.runs(name, node, cpu, *priority, *started);
        }
        assert_eq!(harbour.tries(heir("4")), Outcome::on(node, victims));
    }
}

#[test]
fn host_ports_are_freed_by_who_has_them() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.add(
        pod("port")
            .host_port("", "TCP", 80)
            .on("n")
            .priority(5)
            .started(1),
    );
    harbour.add(pod("idle").on("n").started(2));
    let outcome = harbour.tries(heir("1").host_port("", "TCP", 80));
    assert_eq!(outcome, Outcome::on("n", &["port"]));

    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.add(pod("port").host_port("", "TCP", 80).on("n").priority(10));
    harbour.add(pod("idle").on("n"));
    let outcome = harbour.tries(heir("1").host_port("", "TCP", 80));
    let why =
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(outcome, Outcome::none(why));
}

#[test]
fn room_of_pods_that_are_expected_is_not_given_away() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("a", "n", "4", 0, 1);
    harbour.add(
        pod("expected")
            .request("cpu", "2")
            .priority(10)
            .nominated("n")
            .gate("later"),
    );
    let why = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(harbour.tries(heir("3")), Outcome::none(why));
    // There is room for both.
    harbour.add(pod("second").request("cpu", "2").priority(10));
    let failure = harbour.fails(0);
    assert_eq!(harbour.outcome(&failure), Outcome::on("n", &["a"]));
}

#[test]
fn lower_pods_that_are_expected_there_are_sent_away() {
    let mut harbour = Harbour::new().nodes(&["n", "m"]);
    harbour.runs("a", "n", "4", 0, 1);
    harbour.runs("equal", "m", "4", 10, 1);
    for (name, node, priority) in [
        ("lower", "n", 9),
        ("equal-too", "n", 10),
        ("elsewhere", "m", 1),
    ] {
        let expected = pod(name).priority(priority).nominated(node);
        harbour.add(expected.gate("later"));
    }
    harbour.add(heir("4"));
    harbour.fails(0);
    let cleared = harbour.0.take_orders().cleared;
    let names: Vec<_> = cleared.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(names, ["lower"]);
}

#[test]
fn nobody_is_sent_away_if_nobody_is_evicted() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.add(pod("going").request("cpu", "4").on("n").deleting());
    harbour.add(pod("lower").priority(1).nominated("n").gate("later"));
    harbour.add(heir("4"));
    let failure = harbour.fails(0);
    assert!(harbour.0.take_orders().is_empty());
    assert_eq!(failure.nomination, Nomination::Set("n".into()));
}

#[test]
fn what_preemption_reads_of_a_pod_on_a_node_is_its_newest_version() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    for (name, started) in [("a", 5), ("b", 7)] {
        let pod = || pod(name).request("cpu", "2").on("n");
        harbour.add(pod());
        harbour.add(pod().started(started));
    }
    assert_eq!(harbour.tries(heir("2")), Outcome::on("n", &["b"]));
    harbour.add(pod("b").request("cpu", "2").on("n").started(7).preempted());
    let nodes = harbour.0.nodes();
    let node = nodes.by_name(&"n".into()).unwrap();
    let b = node
        .row()
        .pods()
        .iter()
        .find(|pod| pod.uid == uid("b"))
        .unwrap();
    assert_eq!(b.disruption, crate::disruption::Disruption::Preemption);
}

/// Where a port is what keeps the pod away, its pods have to leave to see whether it helps.
#[test]
fn a_search_moves_so_many_pods_and_no_more() {
    for (moves, tried) in [(6, 3), (5, 2), (1, 0)] {
        let preemption = DefaultPreemption::default().with_moves(moves);
        let profile = stock_profile_with("test", Arc::new(NeverBinds), preemption);
        let profiles = [profile.build().unwrap()];
        let scheduler = Scheduler::new(profiles, SchedulerConfig::default()).unwrap();
        let mut harbour = Harbour(scheduler).nodes(&["n1", "n2", "n3"]);
        for on in ["n1", "n2", "n3"] {
            let keeper = pod(&format!("keeper-{on}")).on(on).priority(11);
            harbour.add(keeper.host_port("", "TCP", 80));
            for name in ["a", "b"] {
                harbour.runs(&format!("{name}-{on}"), on, "1", 1, 7);
            }
        }
        let outcome = harbour.tries(heir("1").host_port("", "TCP", 80));
        let why = outcome.why.unwrap();
        let left = 3 - tried;
        let not_tried = format!("{left} node(s) not tried: too many pods would have to be moved");
        assert_eq!(why.contains(&not_tried), left > 0, "{moves}: {why}");
        let refused = format!("{tried} node(s) didn't have free ports");
        assert_eq!(why.contains(&refused), tried > 0, "{moves}: {why}");
    }
}
