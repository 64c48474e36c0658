//! Flags of the registry.

use std::time::Duration;

use clap::Args;
use pilotage_runtime::args::parse_duration;

use crate::access::Need;
use crate::probe::ProbeOptions;

/// How target clusters are watched over.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Target clusters")]
pub struct TargetArgs {
    /// How often each target's API server is asked whether it serves us.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub target_probe_period: Duration,

    /// How long a target's API server may take to answer; no answer counts as a failure.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub target_probe_timeout: Duration,

    /// After how many failures in a row a target is lost: its virtual node isn't ready any more and no new
    /// pod is sent there. Refused credentials lose it at once.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub target_probe_failures: u32,
}

impl TargetArgs {
    /// Options for a registry of `component`, which asks for `needs` in each target (none: it doesn't ask).
    pub fn to_options(self, component: &'static str, needs: &'static [Need]) -> Options {
        let probe = ProbeOptions {
            period: self.target_probe_period,
            timeout: self.target_probe_timeout,
            failures: self.target_probe_failures,
        };
        Options {
            probe,
            needs,
            ..Options::new(component)
        }
    }
}

/// Options of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Component for the User-Agent of requests to targets.
    pub component: &'static str,
    /// How targets are probed.
    pub probe: ProbeOptions,
    /// How often a target that answers is asked who it is: so long another cluster at the same address may go unnoticed.
    pub identify: Duration,
    /// Permissions to ask for in each target; empty: don't ask.
    pub needs: &'static [Need],
    /// How often permissions are asked for again while some are missing.
    pub review_missing: Duration,
    /// How often they are asked for again while none is.
    pub review_complete: Duration,
}

impl Options {
    /// The defaults, without asking for permissions.
    pub fn new(component: &'static str) -> Self {
        Self {
            component,
            probe: ProbeOptions::default(),
            identify: Duration::from_secs(30),
            needs: &[],
            review_missing: Duration::from_secs(15),
            review_complete: Duration::from_mins(5),
        }
    }
}
