//! Flags of the virtual nodes.

use std::time::Duration;

use clap::Args;
use pilotage_runtime::args::parse_period;

/// How virtual nodes show that they are alive.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Virtual nodes")]
pub struct NodeArgs {
    /// How often each virtual node's Lease is renewed.
    ///
    /// It is the heartbeat of this process, not of the target: a lost target makes its node not ready at
    /// once, while leases go on.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period)]
    pub node_heartbeat_period: Duration,

    /// Duration written into each virtual node's Lease, in whole seconds. What counts is the grace period of the
    /// node-lifecycle controller (--node-monitor-grace-period).
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = parse_period)]
    pub node_lease_duration: Duration,
}

impl Default for NodeArgs {
    /// The defaults of the flags, which are a kubelet's.
    fn default() -> Self {
        Self {
            node_heartbeat_period: Duration::from_secs(10),
            node_lease_duration: Duration::from_secs(40),
        }
    }
}
