//! `pilotage proxy-scheduler`: wiring of the scheduler of proxy pods and of the edge that asks targets.

use std::sync::Arc;

use futures::FutureExt;
use pilotage_clusters::{Registry, TargetArgs, cluster_uid, identity};
use pilotage_controllers::{ask, target};
use pilotage_proxy::{board::Board, profile::profiles};
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::lease::{self, unique_identity};
use pilotage_runtime::rbac::Rule;
use pilotage_sched_driver::{Driver, DriverOptions};

use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[
    ask::rbac::RULES,
    target::rbac::SELF_TARGET_RULES,
    identity::RULES,
    lease::RULES,
    pilotage_clusters::rbac::RULES,
    pilotage_sched_driver::rbac::RULES,
];

/// Flags of `pilotage proxy-scheduler`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    own: ProxySchedulerArgs,
    #[command(flatten)]
    targets: TargetArgs,
}

/// Flags that only this part has.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxySchedulerArgs {
    #[command(flatten)]
    ask: ask::AskArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let mut process = Process::begin(Part::ProxyScheduler.name(), &args.process).await?;
    start(&mut process, &args.own, &args.lease, args.targets)?;
    process.run().await
}

/// Adds the proxy scheduler to a process.
pub(crate) fn start(
    process: &mut Process,
    args: &ProxySchedulerArgs,
    lease: &LeaseArgs,
    targets: TargetArgs,
) -> Result<(), Error> {
    let part = Part::ProxyScheduler;
    let client = process.client(part.name())?;
    let leadership = process.leadership(lease, &part.object_name())?;
    let token = process.token();
    let board = Arc::<Board>::default();
    let (port, nodes, inbox) = ask::connect();
    let profiles = profiles(&board, Arc::new(port)).map_err(Error::start(part))?;
    let options = DriverOptions {
        leadership: leadership.clone(),
        health: process.health.clone(),
        observer: Arc::new(nodes),
        // The virtual node is bound right after the choice, so nobody needs to expect it.
        announce_nominations: false,
        ..DriverOptions::new(client.clone(), profiles.to_vec(), unique_identity())
    };
    let (driver, scheduling) =
        Driver::new(options, process.metrics(part)).map_err(Error::start(part))?;
    let registry = Registry::start(&client, targets.to_options(part.name(), &[]), &token);
    let ready = process.health.gate("proxy pods listed");
    let (settings, cluster_name) = (args.ask.settings(), args.ask.cluster_name.clone());
    process.component("proxy scheduler", driver.run(token.clone()).boxed());
    process.tasks.essential("ask edge", async move {
        let cluster = cluster_uid(&client).await?;
        let ask = ask::Ask {
            client,
            cluster,
            cluster_name,
            registry,
            board,
            scheduling,
            settings,
            leadership,
        };
        ask::run(ask, inbox, token, ready).await;
        Ok::<_, identity::IdentityError>(())
    });
    Ok(())
}
