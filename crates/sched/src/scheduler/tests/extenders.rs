//! Attempts that wait for extenders, while everything else goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{add, add_node, at, cpu_taken, failed, next, scheduler, stock};
use crate::extender::{Extender, Filtered};
use crate::names::NodeName;
use crate::queue::Place;
use crate::scheduler::{Aftermath, AnswerError, Attempt, Paused, Question, Scheduler, SkipReason};
use crate::test_objects::{pod, uid};
use crate::test_plugins::{Fake, profile};
use crate::tie::FirstOfEquals;

fn extender(name: &str) -> Extender {
    Extender {
        name: name.into(),
        filters: true,
        weight: None,
        ignorable: false,
        managed_resources: [].into(),
    }
}

fn with(extenders: impl IntoIterator<Item = Extender>) -> Scheduler {
    let mut scheduler = stock().extended_by(extenders);
    for name in ["o", "p"] {
        add_node(&mut scheduler, name, "4");
    }
    scheduler
}

fn paused(scheduler: &mut Scheduler) -> Paused {
    match next(scheduler, 0) {
        Some(Attempt::Asks(paused)) => *paused,
        other => panic!("not asked: {other:?}"),
    }
}

fn resume(scheduler: &mut Scheduler, paused: Paused) -> Attempt {
    scheduler.resume(paused, at(1), &mut FirstOfEquals)
}

fn node_of(attempt: Attempt) -> String {
    match attempt {
        Attempt::Assumed(assumed) => assumed.node().to_string(),
        other => panic!("not assumed: {other:?}"),
    }
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<NodeName> {
    names.into_iter().map(NodeName::from).collect()
}

fn agree<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Filtered {
    Filtered {
        nodes: names(nodes).into_iter().collect(),
        ..Filtered::default()
    }
}

fn asked(paused: &Paused) -> (String, Vec<NodeName>) {
    match paused.question() {
        Question::Filter(extender, nodes) => (format!("{} filter", extender.name), nodes.to_vec()),
        Question::Prioritize(extender, nodes) => {
            (format!("{} prioritize", extender.name), nodes.to_vec())
        }
        Question::None => ("none".to_owned(), Vec::new()),
    }
}

#[test]
fn each_is_asked_about_what_the_one_before_left() {
    let scores = Extender {
        filters: false,
        weight: Some(2),
        ..extender("scores")
    };
    let both = Extender {
        weight: Some(1),
        ..extender("both")
    };
    let mut scheduler = with([extender("first"), scores, both]);
    add(&mut scheduler, pod("a").request("cpu", "1"));
    let mut waits = paused(&mut scheduler);
    assert_eq!(
        asked(&waits),
        ("first filter".into(), names(["n", "o", "p"]))
    );
    waits.filtered(Ok(agree(["n", "o"]))).unwrap();
    assert_eq!(asked(&waits), ("both filter".into(), names(["n", "o"])));
    waits.filtered(Ok(agree(["n", "o"]))).unwrap();
    assert_eq!(asked(&waits).0, "scores prioritize");
    waits
        .prioritized(Ok([("n".into(), 3), ("p".into(), 10)].into()))
        .unwrap();
    assert_eq!(asked(&waits).0, "both prioritize");
    waits.prioritized(Ok([("o".into(), 7)].into())).unwrap();
    assert_eq!(asked(&waits).0, "none");
    // 3 × 2 beside 7 × 1.
    assert_eq!(node_of(resume(&mut scheduler, waits)), "o");
    assert_eq!(cpu_taken(&mut scheduler, "o"), 1000);
}

#[test]
fn others_are_scheduled_while_one_waits() {
    let gpu = Extender {
        managed_resources: ["cpu".to_owned()].into(),
        ..extender("gpu")
    };
    let mut scheduler = with([gpu]);
    add(&mut scheduler, pod("a").request("cpu", "4").priority(1));
    add(&mut scheduler, pod("b"));
    let mut waits = paused(&mut scheduler);
    assert_eq!(scheduler.place(&uid("a")), Some(Place::InFlight));
    assert_eq!(node_of(next(&mut scheduler, 0).unwrap()), "n");
    assert!(next(&mut scheduler, 0).is_none(), "it isn't tried twice");
    // The books are made anew meanwhile.
    scheduler.mend(at(0));
    assert!(next(&mut scheduler, 0).is_none(), "it isn't tried twice");
    waits.filtered(Ok(agree(["p"]))).unwrap();
    assert_eq!(node_of(resume(&mut scheduler, waits)), "p");
}

#[test]
fn nodes_are_looked_at_again() {
    let mut scheduler = with([extender("slow")]);
    add(&mut scheduler, pod("a").request("cpu", "3"));
    let mut waits = paused(&mut scheduler);
    // One node is taken, one goes, while the extender thinks.
    add(&mut scheduler, pod("b").request("cpu", "2").on("n"));
    scheduler.node_deleted(&"o".into(), at(0));
    waits.filtered(Ok(agree(["n", "o"]))).unwrap();
    let Attempt::Failed(failure) = resume(&mut scheduler, waits) else {
        panic!("there is no room");
    };
    assert_eq!(
        failure.message(),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) were left out by extender slow."
    );
    // The event that took the room away is none that helps; that of the node is one.
    assert!(matches!(failure.aftermath, Aftermath::Requeued(_)));
}

#[test]
fn why_nodes_were_turned_down_is_told() {
    let mut scheduler = with([extender("strict")]);
    add(&mut scheduler, pod("a"));
    let mut waits = paused(&mut scheduler);
    let said = Filtered {
        failed: [("n".into(), "no licence".to_owned())].into(),
        failed_and_unresolvable: [("o".into(), "no licence, ever".to_owned())].into(),
        ..Filtered::default()
    };
    waits.filtered(Ok(said)).unwrap();
    assert_eq!(asked(&waits).0, "none", "nothing is left to ask about");
    let Attempt::Failed(failure) = resume(&mut scheduler, waits) else {
        panic!("nothing will do");
    };
    assert_eq!(
        failure.message(),
        "0/3 nodes are available: 1 no licence, 1 no licence, ever, \
         1 node(s) were left out by extender strict."
    );
    let diagnosis = failure.cause.diagnosis().unwrap();
    assert_eq!(diagnosis.rejected_by, ["Extender"].into());
}

#[test]
fn one_that_fails_ends_the_attempt_unless_it_can_be_ignored() {
    for ignorable in [false, true] {
        let unreliable = Extender {
            ignorable,
            ..extender("unreliable")
        };
        let mut scheduler = with([unreliable]);
        add(&mut scheduler, pod("a"));
        let mut waits = paused(&mut scheduler);
        let error = waits.filtered(Err("it timed out".into())).unwrap_err();
        assert_eq!(error.to_string(), "extender unreliable: it timed out");
        match resume(&mut scheduler, waits) {
            Attempt::Assumed(_) => assert!(ignorable),
            Attempt::Failed(failure) => {
                assert!(!ignorable);
                assert!(!failure.cause.is_rejection());
                assert_eq!(failure.message(), "extender unreliable: it timed out");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_answer_that_is_none_has_no_effect() {
    let both = Extender {
        weight: Some(u32::MAX),
        ignorable: true,
        ..extender("liar")
    };
    let mut scheduler = with([both]);
    add(&mut scheduler, pod("a"));
    let mut waits = paused(&mut scheduler);
    let error = waits.filtered(Ok(agree(["n", "elsewhere"]))).unwrap_err();
    assert!(matches!(error, AnswerError::UnknownNode { node, .. } if node == "elsewhere".into()));
    let lies: BTreeMap<_, _> = [("o".into(), 10), ("p".into(), i64::MAX)].into();
    let error = waits.prioritized(Ok(lies)).unwrap_err();
    assert!(matches!(error, AnswerError::Priority { priority, .. } if priority == i64::MAX));
    // More answers than questions are none.
    waits.filtered(Ok(agree([]))).unwrap();
    waits.prioritized(Ok([("p".into(), 10)].into())).unwrap();
    assert_eq!(node_of(resume(&mut scheduler, waits)), "n");
}

#[test]
fn a_pod_that_goes_or_finds_its_place_meanwhile_is_left_alone() {
    for (case, why) in [
        ("deleted", SkipReason::Gone),
        ("deleting", SkipReason::Deleting),
        ("bound", SkipReason::Placed),
    ] {
        let mut scheduler = with([extender("slow")]);
        add(&mut scheduler, pod("a"));
        let mut waits = paused(&mut scheduler);
        match case {
            "deleted" => {
                scheduler.pod_deleted(&uid("a"), at(0));
            }
            "deleting" => {
                add(&mut scheduler, pod("a").deleting());
            }
            _ => {
                add(&mut scheduler, pod("a").on("n"));
            }
        }
        waits.filtered(Ok(agree(["n", "o", "p"]))).unwrap();
        match resume(&mut scheduler, waits) {
            Attempt::Skipped(skipped) => assert_eq!(skipped.why, why),
            other => panic!("{case}: {other:?}"),
        }
        assert_eq!(scheduler.place(&uid("a")), None, "{case}");
    }
}

#[test]
fn a_nominated_node_is_asked_about_first() {
    for agrees in [true, false] {
        let mut scheduler = with([extender("picky")]);
        add(&mut scheduler, pod("a").nominated("o"));
        let mut waits = paused(&mut scheduler);
        assert_eq!(asked(&waits).1, names(["o"]));
        waits.filtered(Ok(agree(agrees.then_some("o")))).unwrap();
        match resume(&mut scheduler, waits) {
            Attempt::Assumed(assumed) => {
                assert!(agrees);
                assert_eq!(*assumed.node(), "o".into());
            }
            Attempt::Asks(mut again) => {
                assert!(!agrees);
                assert_eq!(asked(&again).1, names(["n", "o", "p"]));
                again.filtered(Ok(agree(["p"]))).unwrap();
                assert_eq!(node_of(resume(&mut scheduler, *again)), "p");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_single_node_needs_no_priorities() {
    let scores = Extender {
        filters: false,
        weight: Some(1),
        ..extender("scores")
    };
    let mut scheduler = stock().extended_by([scores]);
    add(&mut scheduler, pod("a"));
    let waits = paused(&mut scheduler);
    assert_eq!(waits.question(), Question::None);
    assert_eq!(node_of(resume(&mut scheduler, waits)), "n");
}

#[test]
fn all_nodes_are_offered_even_if_no_plugin_scores() {
    let mut scheduler = scheduler(profile()).extended_by([extender("one")]);
    for name in ["n", "o"] {
        add_node(&mut scheduler, name, "4");
    }
    add(&mut scheduler, pod("a"));
    assert_eq!(asked(&paused(&mut scheduler)).1, names(["n", "o"]));
}

#[test]
fn a_panic_fails_the_attempt_alone() {
    let mut first = true;
    let calls = std::sync::Mutex::new(move || std::mem::take(&mut first));
    let breaks = Fake::new("Breaks").set(|fake| {
        fake.filter = Box::new(move |_, _| {
            let first = calls.lock().unwrap()();
            assert!(first, "broken");
            Ok(())
        });
    });
    let profile = profile().filter(Arc::new(breaks));
    let mut scheduler = scheduler(profile).extended_by([extender("one")]);
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("a"));
    let mut waits = paused(&mut scheduler);
    waits.filtered(Ok(agree(["n"]))).unwrap();
    let Attempt::Failed(failure) = resume(&mut scheduler, waits) else {
        panic!("the second look panics");
    };
    assert!(failure.message().contains("broken"), "{failure:?}");
    scheduler.flush(at(60));
    let again = failed(&mut scheduler, 60);
    assert!(again.message().contains("broken"), "{again:?}");
}
