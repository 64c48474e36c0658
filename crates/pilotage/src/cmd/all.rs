//! `pilotage all`: every part in one process, each with a client and a Lease of its own.

use pilotage_clusters::TargetArgs;
use pilotage_controllers::reserve::ReserveArgs;
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::otlp::TraceArgs;
use pilotage_webhook::WebhookArgs;

use super::{candidate_scheduler, controllers, proxy_scheduler, webhook};
use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// Flags of `pilotage all`: those of all parts.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run only these parts, separated by commas.
    #[arg(long, value_name = "PART", value_delimiter = ',', default_values_t = Part::ALL, value_parser = Part::of_all)]
    parts: Vec<Part>,
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    webhook: WebhookArgs,
    #[command(flatten)]
    controllers: controllers::ControllersArgs,
    #[command(flatten)]
    proxy_scheduler: proxy_scheduler::ProxySchedulerArgs,
    #[command(flatten)]
    candidate_scheduler: ReserveArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let mut configuration = args.proxy_scheduler.configuration()?;
    let mut process = Process::begin("all", &args.process).await?;
    for part in Part::ALL
        .into_iter()
        .filter(|part| args.parts.contains(part))
    {
        let lease = lease_of(part, &args.lease);
        match part {
            Part::Webhook => webhook::start(&mut process, &args.webhook)?,
            Part::Controllers => {
                let targets = args.targets.clone();
                controllers::start(&mut process, &args.controllers, &lease, targets)?;
            }
            Part::ProxyScheduler => {
                let own = (&args.proxy_scheduler, std::mem::take(&mut configuration));
                let targets = args.targets.clone();
                proxy_scheduler::start(&mut process, own, (&lease, &args.trace), targets)?;
            }
            Part::CandidateScheduler => {
                let own = &args.candidate_scheduler;
                candidate_scheduler::start(&mut process, own, &lease, &args.trace)?;
            }
            // They aren't among them.
            Part::GardenerScheduler | Part::Scheduler => {}
        }
    }
    process.run().await
}

/// A given name of the Lease becomes one a part: they are led separately.
fn lease_of(part: Part, args: &LeaseArgs) -> LeaseArgs {
    let lease_name = args
        .lease_name
        .as_ref()
        .map(|name| format!("{name}-{part}"));
    LeaseArgs {
        lease_name,
        ..args.clone()
    }
}
