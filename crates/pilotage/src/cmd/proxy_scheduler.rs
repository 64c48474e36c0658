//! `pilotage proxy-scheduler`: wiring of the scheduler of proxy pods and of the edge that asks targets.

use std::path::PathBuf;
use std::sync::Arc;

use pilotage_clusters::{Kept, Registry, TargetArgs, cluster_uid, identity};
use pilotage_controllers::{ask, fleet::FleetMetrics, target};
use pilotage_dashboard::Dashboard;
use pilotage_proxy::{Configuration, board::Board, profile::profiles};
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::lease::{self, unique_identity};
use pilotage_runtime::otlp::TraceArgs;
use pilotage_runtime::rbac::Rule;
use pilotage_sched_driver::{Driver, DriverOptions, Pods};

use super::files::{FileError, text};
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
    trace: TraceArgs,
    #[command(flatten)]
    own: ProxySchedulerArgs,
    #[command(flatten)]
    targets: TargetArgs,
}

/// Flags that only this part has.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxySchedulerArgs {
    /// Configuration file of the proxy scheduler (ProxySchedulerConfiguration): what decides where pods go, and how
    /// targets are asked. What it says counts before the flags. docs/placement.md is its reference.
    #[arg(long, value_name = "FILE", help_heading = "Asking targets")]
    config: Option<PathBuf>,

    /// Serve a live page at /dashboard of the admin port: targets with their room, pods by stage, who waits and why.
    ///
    /// It shows pods of all namespaces, by name, and changes nothing. It answers only who comes by a port-forward, whom
    /// the API server has let in: "kubectl pilotage dashboard". Leave it off where another container of the pod passes
    /// requests on to the admin port, as a service mesh does.
    #[arg(long, help_heading = "Health and metrics")]
    dashboard: bool,

    #[command(flatten)]
    ask: ask::AskArgs,
}

impl ProxySchedulerArgs {
    /// What flags and file say.
    pub(crate) fn configuration(&self) -> Result<Configuration, FileError> {
        let asking = self.ask.settings();
        let Some(path) = &self.config else {
            return Ok(Configuration::without_file(asking));
        };
        Configuration::parse(&text(path)?, &asking).map_err(|error| FileError::ProxyScheduler {
            path: path.clone(),
            error,
        })
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let configuration = args.own.configuration()?;
    let mut process = Process::begin(Part::ProxyScheduler.name(), &args.process).await?;
    let own = (&args.own, configuration);
    start(&mut process, own, (&args.lease, &args.trace), args.targets)?;
    process.run().await
}

/// Adds the proxy scheduler to a process.
pub(crate) fn start(
    process: &mut Process,
    (args, configuration): (&ProxySchedulerArgs, Configuration),
    (lease, trace): (&LeaseArgs, &TraceArgs),
    targets: TargetArgs,
) -> Result<(), Error> {
    let part = Part::ProxyScheduler;
    let client = process.client(part.name())?;
    let leadership = process.leadership(lease, &part.object_name())?;
    let token = process.token();
    let board = Arc::<Board>::default();
    let (port, nodes, inbox) = ask::connect();
    let profiles = profiles(&board, Arc::new(port)).map_err(Error::start(part))?;
    let proxies = ask::watch_proxies(&client, &token);
    let options = DriverOptions {
        pods: Pods::Told(ask::news(&proxies)),
        prepare_node: ask::tell_labels,
        leadership: leadership.clone(),
        health: process.health.clone(),
        observer: Arc::new(nodes),
        // The virtual node is bound right after the choice, so nobody needs to expect it.
        announce_nominations: false,
        ..DriverOptions::new(client.clone(), profiles.to_vec(), unique_identity())
    };
    let (driver, scheduling) =
        Driver::new(options, process.metrics(part)).map_err(Error::start(part))?;
    let mut options = targets.to_options(part.name(), &[]);
    options.unthrottled = Some(process.unthrottled(part.name())?);
    let readable = configuration.readable();
    options.kept = Kept {
        labels: readable.labels().clone(),
        annotations: readable.annotations().clone(),
    };
    let registry = Registry::start(&client, options, &token);
    let metrics = FleetMetrics::register(process.metrics(part), registry.clone());
    let counts = ask::AskMetrics::register(process.metrics(part));
    let tracer = process.tracer(part, trace);
    let ready = process.health.gate("proxy pods listed");
    let cluster_name = args.ask.cluster_name.clone();
    // Each would hold up a binding.
    let stage_events = if process.is_throttled() {
        0
    } else {
        args.ask.stage_events_per_second
    };
    let namespace = process.namespace().to_owned();
    let dashboard = args.dashboard.then(|| Dashboard::new(token.clone()));
    if let Some(dashboard) = &dashboard {
        process.also_serves(dashboard.routes());
    }
    process.component("proxy scheduler", driver.run(token.clone()));
    process.tasks.essential("ask edge", async move {
        let cluster = cluster_uid(&client).await?;
        let ask = ask::Ask {
            client,
            cluster,
            cluster_name,
            proxies,
            registry,
            board,
            scheduling,
            configuration,
            namespace,
            leadership,
            metrics,
            counts,
            tracer,
            stage_events,
            dashboard,
        };
        ask::run(ask, inbox, token, ready).await;
        Ok::<_, identity::IdentityError>(())
    });
    Ok(())
}
