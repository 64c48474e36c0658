//! What a candidate that holds a node keeps from others: as much as a pod that runs there, until the hold ends.

use pilotage_sched::Assumed;

use super::*;
use crate::{plan::Note, plugins::RESERVATION};

impl Bench {
    /// Tries the next pod, which gets a node and waits there for the edge's word.
    fn hold(&mut self, name: &str, spec: &Value) -> Assumed {
        self.apply(&pod(name, spec));
        let attempt = self
            .scheduler
            .schedule_next(Moment::ZERO, &mut FirstOfEquals);
        match attempt {
            Some(Attempt::Assumed(assumed)) if assumed.waits() => *assumed,
            other => panic!("{name} holds no node: {other:?}"),
        }
    }

    /// The edge ends a hold, and doesn't want that pod tried again.
    fn end(&mut self, assumed: Assumed) {
        let uid = assumed.uid().clone();
        self.board.set(&uid, Gate::Shut(Note::InDebt), Leave::Offer);
        assert!(self.scheduler.reject(&uid, RESERVATION, "expired"));
        let status = self.scheduler.start_binding(&uid).unwrap_err();
        let failure = self.scheduler.binding_failed(assumed, status, Moment::ZERO);
        assert!(!self.scheduler.is_assumed(&uid), "{}", failure.cause);
    }
}

fn room() -> Value {
    let resources = json!({ "requests": { "cpu": "3" } });
    json!({ "containers": [{ "name": "c", "resources": resources }] })
}

#[test]
fn what_a_hold_keeps_is_kept_from_the_next_candidate_until_it_ends() {
    let alone = affinity_over("kubernetes.io/hostname", "podAntiAffinity", true);
    let mut spread = spreading("kubernetes.io/hostname", "DoNotSchedule");
    // More than there are: a second pod is too many anywhere.
    spread["topologySpreadConstraints"][0]["minDomains"] = 3.into();
    for (holds, next, why) in [
        (room(), room(), "Insufficient cpu"),
        (
            port(80),
            port(80),
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (
            alone.clone(),
            alone.clone(),
            "node(s) didn't match pod anti-affinity rules",
        ),
        (
            alone,
            json!({}),
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
        (
            spread.clone(),
            spread,
            "node(s) didn't match pod topology spread constraints",
        ),
    ] {
        let mut bench = Bench::new();
        let first = bench.hold("a", &holds);
        let second = bench.hold("c", &holds);
        assert_ne!(first.node(), second.node(), "{why}");
        bench.apply(&pod("b", &next));
        let told = format!("Unschedulable: 0/2 nodes are available: 2 {why}.");
        assert_eq!(bench.try_next(), Some(told));
        assert_eq!(bench.place("b"), Some(Place::Unschedulable), "{why}");

        let node = first.node().clone();
        bench.end(first);
        assert_eq!(bench.place("b"), Some(Place::Backoff), "{why}");
        let attempt = bench
            .scheduler
            .schedule_next(Moment::ZERO, &mut FirstOfEquals);
        let Some(Attempt::Assumed(next)) = attempt else {
            panic!("{why}: {attempt:?}")
        };
        assert_eq!((&**next.uid(), next.node()), ("b", &node), "{why}");
        assert!(bench.scheduler.is_assumed(second.uid()), "{why}");
    }
}
