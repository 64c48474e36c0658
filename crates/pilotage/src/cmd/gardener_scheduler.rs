//! `pilotage gardener-scheduler`: wiring of the scheduler of Shoots, by the configuration file of gardener-scheduler.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use pilotage_gardener::DEFAULT_SCHEDULER;
use pilotage_gardener::config::{SchedulerConfiguration, Server};
use pilotage_gardener_scheduler::{self as scheduler, Options, Shoots};
use pilotage_runtime::args::{AdminArgs, ClientArgs, LogArgs, LogFormat, ThrottleArgs};
use pilotage_runtime::lease;
use pilotage_runtime::rbac::Rule;

use super::files::{FileError, scheduler_config, settings_file};
use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[lease::RULES, scheduler::rbac::RULES];

/// Flags of `pilotage gardener-scheduler`.
#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub struct Args {
    /// Configuration file of gardener-scheduler (SchedulerConfiguration).
    ///
    /// Leader election, ports, logs, the connection, how many Shoots are worked on at once and the strategy are all in
    /// there. Fields and features that don't exist are refused.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Kubeconfig file of the garden.
    ///
    /// Without it, KUBECONFIG is used if set, else what the configuration file names, else the service account that
    /// Kubernetes mounts into a pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Places the Shoots that ask for this scheduler (spec.schedulerName).
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SCHEDULER)]
    scheduler_name: String,

    /// File with "strategy" or weighted "rules", and "gardenerCompatible", instead of the configuration's strategy;
    /// see docs/placement.md.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let part = Part::GardenerScheduler;
    let config = scheduler_config(&args.config)?;
    let settings = args.settings.as_deref().map(settings_file).transpose()?;
    let options = Options::new(&config, &args.scheduler_name, settings);
    let lease = scheduler::lease(&config).map_err(|error| wrong(&args.config, error))?;
    let health = address(&args.config, "server.healthProbes", &config.health_probes)?;
    let metrics = address(&args.config, "server.metrics", &config.metrics)?;
    let process = ProcessArgs {
        client: ClientArgs {
            kubeconfig: kubeconfig(&args, &config),
            context: args.context.clone(),
        },
        // Its file says how often it may ask about Shoots.
        throttle: ThrottleArgs::default(),
        admin: AdminArgs { admin_addr: health },
        log: LogArgs {
            log_format: match config.log_format.as_str() {
                "text" => LogFormat::Text,
                _ => LogFormat::Json,
            },
            log_level: config.log_level.clone(),
        },
    };
    let mut process = Process::begin(part.name(), &process).await?;
    process.also_at(metrics);
    remark(&config);
    let events = process.client("shoot-events")?;
    let with = Shoots {
        client: process.client(part.name())?,
        options,
        leadership: process.elected(lease)?,
        events: process.recorder(events),
        health: process.health.clone(),
    };
    let token = process.token();
    let running = scheduler::start(with, process.metrics(part), token);
    process.component("scheduler of Shoots", running);
    process.run().await
}

/// As in the original, the environment wins over the file; our flag wins over both.
fn kubeconfig(args: &Args, config: &SchedulerConfiguration) -> Option<PathBuf> {
    let named = &config.client_connection.kubeconfig;
    let by_environment = std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty());
    args.kubeconfig.clone().or_else(|| {
        let use_file = !by_environment && !named.is_empty();
        use_file.then(|| PathBuf::from(named))
    })
}

/// No address is all of them.
fn address(path: &Path, field: &str, server: &Server) -> Result<SocketAddr, Error> {
    let given = &server.bind_address;
    let address = match given.as_str() {
        "" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        text => text.parse().map_err(|_| {
            let text = format!("{field}.bindAddress: expected an IP address, found {given:?}");
            wrong(path, text)
        })?,
    };
    // The configuration has been validated.
    let port = u16::try_from(server.port).unwrap_or_default();
    Ok(SocketAddr::new(address, port))
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> Error {
    FileError::Unfollowed {
        path: path.to_owned(),
        error: error.to_string(),
    }
    .into()
}

/// What the file asks for and can't have, without harm to anybody.
fn remark(config: &SchedulerConfiguration) {
    let connection = &config.client_connection;
    for (field, value) in [
        ("acceptContentTypes", &connection.accept_content_types),
        ("contentType", &connection.content_type),
    ] {
        if !value.is_empty() && value != "application/json" {
            tracing::warn!(
                value,
                "clientConnection.{field} has no effect: JSON is spoken"
            );
        }
    }
    let debugging = &config.debugging;
    if debugging.profiling || debugging.contention_profiling {
        tracing::warn!("debugging has no effect: there are no profiles to take");
    }
    for (feature, on) in &config.feature_gates {
        tracing::info!(
            feature,
            on,
            "the feature gate has no effect: there are no features"
        );
    }
}
