//! What the plugin says and does, by attempts in small clusters.

mod eviction;
mod leave;
mod naive;
mod property;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::moment::Moment;
use crate::objects::Stored as _;
use crate::plugin::Nomination;
use crate::plugins::stock_profile;
use crate::profile::ProfileBuilder;
use crate::scheduler::{Attempt, EvictionOrder, Failure, Scheduler, SchedulerConfig};
use crate::test_objects::{NeverBinds, NodeBuilder, PodBuilder, node, pod};
use crate::tie::FirstOfEquals;

/// What the report says before preemption has a word.
const PREFACE: &str = "no new claims to deallocate, preemption: ";

/// What became of an attempt.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Where the pod is expected now.
    node: Option<String>,
    /// Who has to go, in this order.
    victims: Vec<String>,
    /// What preemption says, if it doesn't help.
    why: Option<String>,
}

impl Outcome {
    fn on(node: &str, victims: &[&str]) -> Self {
        Self {
            node: Some(node.to_owned()),
            victims: victims.iter().map(|name| (*name).to_owned()).collect(),
            why: None,
        }
    }

    fn none(why: &str) -> Self {
        Self {
            node: None,
            victims: Vec::new(),
            why: Some(why.to_owned()),
        }
    }
}

fn at(seconds: u64) -> Moment {
    Moment::after_epoch(Duration::from_secs(seconds))
}

/// A budget for the pods with a label `app` of this value.
fn budget(app: &str, allowed: i32) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": { "name": app, "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": app } } },
        "status": { "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": allowed },
    }))
    .unwrap()
}

/// A scheduler with the stock plugins.
struct Harbour(Scheduler);

impl Harbour {
    fn new() -> Self {
        Self::with(|profile| profile)
    }

    fn with(change: impl FnOnce(ProfileBuilder) -> ProfileBuilder) -> Self {
        let profile = change(stock_profile("test", Arc::new(NeverBinds)));
        let profiles = [profile.build().unwrap()];
        Self(Scheduler::new(profiles, SchedulerConfig::default()).unwrap())
    }

    /// Nodes of four cores each.
    fn nodes(mut self, names: &[&str]) -> Self {
        for name in names {
            self.node(node(name).allocatable("cpu", "4"));
        }
        self
    }

    fn node(&mut self, node: NodeBuilder) {
        self.0.node_applied(&node.build(), at(0)).unwrap();
    }

    fn budget(&mut self, budget: PodDisruptionBudget) {
        self.0.apply(Arc::new(budget).object(), at(0)).unwrap();
    }

    fn add(&mut self, pod: PodBuilder) {
        self.0.pod_applied(pod.object(), at(0)).unwrap();
    }

    /// A pod of these cores and this priority on a node, started in the second of its age's place.
    fn runs(&mut self, name: &str, node: &str, cpu: &str, priority: i32, started: i64) {
        let pod = pod(name).on(node).request("cpu", cpu).priority(priority);
        self.add(pod.started(started));
    }

    fn fails(&mut self, now: u64) -> Failure {
        match self.0.schedule_next(at(now), &mut FirstOfEquals) {
            Some(Attempt::Failed(failure)) => *failure,
            other => panic!("not failed: {other:?}"),
        }
    }

    fn asked(&mut self) -> Vec<EvictionOrder> {
        self.0.take_orders().evictions
    }

    /// Adds a pod and tries it; all evictions are made.
    fn tries(&mut self, pod: PodBuilder) -> Outcome {
        self.add(pod);
        let failure = self.fails(0);
        self.outcome(&failure)
    }

    fn outcome(&mut self, failure: &Failure) -> Outcome {
        let mut victims = Vec::new();
        loop {
            let orders = self.asked();
            if orders.is_empty() {
                break;
            }
            for order in orders {
                victims.push(order.preempted.pod.key.name.to_string());
                self.0.evicted(&order.id, true, at(0));
            }
        }
        let said = failure.cause.diagnosis().unwrap().post_filter.as_ref();
        Outcome {
            node: match &failure.nomination {
                Nomination::Set(node) => Some(node.to_string()),
                Nomination::Keep | Nomination::Clear => None,
            },
            victims,
            why: said.map(|said| said.strip_prefix(PREFACE).unwrap_or(said).to_owned()),
        }
    }
}

/// Of four cores by default, since nodes have as many.
fn heir(cpu: &str) -> PodBuilder {
    pod("heir").request("cpu", cpu).priority(10)
}
