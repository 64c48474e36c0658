//! `pilotage candidate-scheduler`: wiring of the scheduler of candidate pods, which holds nodes for sources.

use pilotage_controllers::reserve::{self, Reserve, ReserveArgs};
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::lease::{self, unique_identity};
use pilotage_runtime::otlp::TraceArgs;
use pilotage_runtime::rbac::Rule;

use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[
    lease::RULES,
    pilotage_sched_driver::rbac::RULES,
    pilotage_sched_driver::rbac::STOCK_RULES,
    // Its own word on the chaperon comes first: nobody is evicted before the source has granted.
    pilotage_sched_driver::rbac::PREEMPTION,
    reserve::rbac::RULES,
];

/// Flags of `pilotage candidate-scheduler`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    reserve: ReserveArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let mut process = Process::begin(Part::CandidateScheduler.name(), &args.process).await?;
    start(&mut process, &args.reserve, &args.lease, &args.trace)?;
    process.run().await
}

/// Adds the candidate scheduler to a process.
pub(crate) fn start(
    process: &mut Process,
    args: &ReserveArgs,
    lease: &LeaseArgs,
    trace: &TraceArgs,
) -> Result<(), Error> {
    let part = Part::CandidateScheduler;
    let with = Reserve {
        client: process.client(part.name())?,
        settings: args.to_settings(lease.lease_duration),
        scheduled_events: args.scheduled_events,
        instance: unique_identity(),
        leadership: process.leadership(lease, &part.object_name())?,
        health: process.health.clone(),
        tracer: process.tracer(part, trace),
    };
    let token = process.token();
    let running = reserve::start(with, process.metrics(part), token).map_err(Error::start(part))?;
    process.component("candidate scheduler", running);
    Ok(())
}
