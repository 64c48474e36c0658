//! The scheduler as a whole, driven as a driver drives it.

mod attempts;
mod classes;
mod extenders;
mod histories;
mod nominations;
mod objects;
mod orders;
mod panics;
mod permit;
mod property;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;
use crate::names::NodeName;
use crate::plugin::PermitDecision;
use crate::plugins::stock_profile;
use crate::profile::ProfileBuilder;
use crate::scheduler::{Assumed, Attempt, Failure, PodChange, Scheduler, SchedulerConfig};
use crate::test_objects::{NeverBinds, PodBuilder, node};
use crate::test_plugins::{Fake, Log};
use crate::tie::FirstOfEquals;

fn at(seconds: u64) -> Moment {
    Moment::after_epoch(Duration::from_secs(seconds))
}

fn scheduler(profile: ProfileBuilder) -> Scheduler {
    Scheduler::new([profile.build().unwrap()], SchedulerConfig::default()).unwrap()
}

/// The stock plugins, and a node with four cores.
fn stock() -> Scheduler {
    let mut scheduler = scheduler(stock_profile("test", Arc::new(NeverBinds)).evicting_nobody());
    add_node(&mut scheduler, "n", "4");
    scheduler
}

fn add_node(scheduler: &mut Scheduler, name: &str, cpu: &str) {
    let node = node(name)
        .allocatable("cpu", cpu)
        .allocatable("memory", "8Gi");
    scheduler.node_applied(&node.build(), at(0)).unwrap();
}

fn add(scheduler: &mut Scheduler, pod: PodBuilder) -> PodChange {
    scheduler.pod_applied(pod.object(), at(0)).unwrap()
}

fn next(scheduler: &mut Scheduler, now: u64) -> Option<Attempt> {
    scheduler.schedule_next(at(now), &mut FirstOfEquals)
}

fn assumed(scheduler: &mut Scheduler) -> Assumed {
    match next(scheduler, 0) {
        Some(Attempt::Assumed(assumed)) => *assumed,
        other => panic!("not assumed: {other:?}"),
    }
}

fn failed(scheduler: &mut Scheduler, now: u64) -> Failure {
    match next(scheduler, now) {
        Some(Attempt::Failed(failure)) => *failure,
        other => panic!("not failed: {other:?}"),
    }
}

fn cpu_taken(scheduler: &mut Scheduler, name: &str) -> i128 {
    let nodes = scheduler.nodes();
    nodes
        .by_name(&NodeName::from(name))
        .unwrap()
        .requested()
        .milli_cpu
}

fn reserving(name: &'static str, log: &Log) -> Arc<Fake> {
    Arc::new(Fake::new(name).log(log))
}

fn waiting(name: &'static str, seconds: u64) -> Arc<Fake> {
    let wait = PermitDecision::Wait(Duration::from_secs(seconds));
    Arc::new(Fake::new(name).set(|fake| fake.permit = Box::new(move |_, _| Ok(wait))))
}
