//! Flags of the candidate scheduler's side of the protocol.

use std::time::Duration;

use clap::Args;
use pilotage_candidate::Settings;
use pilotage_runtime::args::parse_period;

/// How long the candidate scheduler holds nodes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reservations")]
pub struct ReserveArgs {
    /// How long a node is held for a pod while its source cluster chooses.
    ///
    /// After that the node is given back and the source is told. Sources that number no attempts (Admiralty) get 30s.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period)]
    pub hold_deadline: Duration,

    /// How long binding may take after the source cluster has chosen this candidate.
    ///
    /// A source gives a silent candidate up after 15s by default: keep this shorter.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period)]
    pub bind_timeout: Duration,

    /// Write an event "Scheduled" on each pod that was bound, as kube-scheduler does.
    ///
    /// It costs this cluster's API server one request a pod. Without it, the pod's own fields say the same, and in the
    /// source the event of the pod that it runs for.
    #[arg(long)]
    pub scheduled_events: bool,
}

impl ReserveArgs {
    /// The settings; `lease_duration` is that of the leader election.
    pub fn to_settings(&self, lease_duration: Duration) -> Settings {
        Settings {
            hold: self.hold_deadline,
            bind_timeout: self.bind_timeout,
            lease_duration,
            ..Settings::default()
        }
    }
}
