//! Groups of command line flags that all subcommands share.
//!
//! Owns names, defaults and help texts; what a group configures lives beside it (`client`, `lease`,
//! `logs`, `admin`). Must not know any component.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use jiff::SignedDuration;

use crate::lease::{ConfigError, LeaseConfig};
use crate::moment::LONGEST_TIME;
use crate::throttle::{Rate, Throttle};

/// How to reach the cluster that this process belongs to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster connection")]
pub struct ClientArgs {
    /// Kubeconfig file of the cluster to work for.
    ///
    /// Without it, KUBECONFIG is used if set (several files are merged as kubectl does), else the
    /// service account that Kubernetes mounts into a pod. ~/.kube/config is never read, so that a
    /// process started by mistake on a workstation does nothing to whatever cluster is current.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of its current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// How many requests the API server of this cluster gets.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Client limits")]
pub struct ThrottleArgs {
    /// Requests a second that this process sends to its own cluster's API server on average, all its parts together.
    /// Without it, nothing is held back here: the API server's priority and fairness decides who waits.
    ///
    /// Requests that are too many wait for their turn. One that would wait for over 3s isn't sent and fails at once, to
    /// be made again later. The log tells of both. Leases, Targets with their Secrets, probes, and streams (logs, exec)
    /// with what is asked about their callers and pods don't count. An open watch counts as one request.
    #[arg(long, value_name = "N", value_parser = parse_qps)]
    pub kube_api_qps: Option<f64>,

    /// Requests that may be sent at once, before the average counts. Default: --kube-api-qps, rounded up.
    #[arg(long, value_name = "N", requires = "kube_api_qps",
        value_parser = clap::value_parser!(u32).range(1..=MOST_QPS))]
    pub kube_api_burst: Option<u32>,
}

impl ThrottleArgs {
    /// What all clients of the process share; none, if nothing is held back.
    pub fn to_throttle(&self) -> Option<Throttle> {
        let rate = rate(self.kube_api_qps, self.kube_api_burst)?;
        Some(Throttle::new(rate, "--kube-api-qps"))
    }
}

/// The most requests a second, or at once, that a flag may name.
pub const MOST_QPS: i64 = 100_000;

/// Parses requests a second, of [`ThrottleArgs`] and its like.
pub fn parse_qps(text: &str) -> Result<f64, String> {
    let qps: Option<f64> = text.parse().ok();
    // What isn't a number isn't in the range, either.
    qps.filter(|qps| (0.1..=100_000.0).contains(qps))
        .ok_or_else(|| format!("{text:?} is no number of requests a second from 0.1 to {MOST_QPS}"))
}

/// The limit that two such flags name.
pub fn rate(qps: Option<f64>, burst: Option<u32>) -> Option<Rate> {
    let qps = qps?;
    // It was parsed, and is in range.
    let burst = burst.unwrap_or(qps.ceil() as u32);
    Some(Rate { qps, burst })
}

/// Where health and metrics are served.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Health and metrics")]
pub struct AdminArgs {
    /// Address for /livez, /readyz and /metrics (plain HTTP, no authentication). `[::]` is all addresses, of IPv4 too.
    ///
    /// Port 0 takes a free port; the address really bound is in the log line "admin server listens".
    #[arg(long, value_name = "IP:PORT", default_value = "[::]:8080")]
    pub admin_addr: SocketAddr,
}

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// Lines for people, coloured on a terminal.
    Text,
}

/// What is logged and how. Logs go to standard error.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Form of the log lines, on standard error.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// What to log: error, warn, info, debug, trace, or a filter such as
    /// `info,pilotage_sched_driver=debug`.
    ///
    /// A plain level leaves the HTTP and TLS libraries at "info"; name them in a filter to see more
    /// of them.
    #[arg(
        long,
        value_name = "LEVEL|FILTER",
        default_value = "info",
        env = "PILOTAGE_LOG"
    )]
    pub log_level: String,
}

/// Leader election among the replicas of a component.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Let only one replica act, the holder of a Lease; the others stand by with warm caches.
    ///
    /// Switch it off (--leader-elect=false) only if there is never a second replica, not even during
    /// a rollout.
    #[arg(
        long,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        value_name = "true|false"
    )]
    pub leader_elect: bool,

    /// Name of the Lease. Each component has its own default.
    #[arg(long, value_name = "NAME")]
    pub lease_name: Option<String>,

    /// Namespace of the Lease. Default: the namespace of this pod, or of the kubeconfig's context.
    #[arg(long, value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// How long the others wait after the leader's last sign of life before one of them takes over.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub lease_duration: Duration,

    /// How long a leader that can't renew its Lease goes on; then its process ends. Must be shorter
    /// than --lease-duration: the difference is what clocks may drift apart.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub renew_deadline: Duration,

    /// How often the leader renews and the others look. Must be shorter than --renew-deadline.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub retry_period: Duration,
}

impl LeaseArgs {
    /// The checked configuration, or `None` if leader election is off. `default_name` is the
    /// component's own name for its Lease, `default_namespace` where this process runs.
    pub fn to_config(
        &self,
        default_name: &str,
        default_namespace: &str,
    ) -> Result<Option<LeaseConfig>, ConfigError> {
        if !self.leader_elect {
            return Ok(None);
        }
        LeaseConfig::new(
            self.lease_namespace.as_deref().unwrap_or(default_namespace),
            self.lease_name.as_deref().unwrap_or(default_name),
            self.lease_duration,
            self.renew_deadline,
            self.retry_period,
        )
        .map(Some)
    }
}

/// Parses "15s", "500ms", "1m30s", "2h": a number needs its unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let example = "write it with units, as 15s, 500ms or 1m30s";
    let signed: SignedDuration = text
        .parse()
        .map_err(|_| format!("{text:?} is no duration; {example}"))?;
    Duration::try_from(signed)
        .map(|time| time.min(LONGEST_TIME))
        .map_err(|_| format!("{text:?} is negative; {example}"))
}

/// Parses a [duration](parse_duration) of which something happens each time, or which something is given: a millisecond
/// at least.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    if period < Duration::from_millis(1) {
        return Err(format!("{text:?} is shorter than a millisecond"));
    }
    Ok(period)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        throttle: ThrottleArgs,
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        lease: LeaseArgs,
    }

    fn parse(args: &[&str]) -> Result<Command, clap::Error> {
        Command::try_parse_from(std::iter::once(&"pilotage").chain(args))
    }

    #[test]
    fn durations_need_units() {
        for (text, want) in [
            ("15s", Some(Duration::from_secs(15))),
            ("500ms", Some(Duration::from_millis(500))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("2h", Some(Duration::from_hours(2))),
            ("15", None),
            ("-1s", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(parse_duration(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn nothing_happens_all_the_time() {
        assert_eq!(parse_period("1ms"), Ok(Duration::from_millis(1)));
        for text in ["0s", "999us", "-1s", "5"] {
            assert!(parse_period(text).is_err(), "{text}");
        }
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let command = parse(&[]).unwrap();
        assert_eq!(command.admin.admin_addr.to_string(), "[::]:8080");
        assert_eq!(command.log.log_format, LogFormat::Json);
        let config = command
            .lease
            .to_config("proxy", "pilotage")
            .unwrap()
            .unwrap();
        assert_eq!(config, LeaseConfig::with_default_times("pilotage", "proxy"));
    }

    #[test]
    fn requests_are_limited_only_if_somebody_says_how() {
        let limit = |args: &[&str]| {
            let ThrottleArgs {
                kube_api_qps,
                kube_api_burst,
            } = parse(args)?.throttle;
            Ok::<_, clap::Error>(rate(kube_api_qps, kube_api_burst))
        };
        assert_eq!(limit(&[]).unwrap(), None);
        for (args, qps, burst) in [
            (&["--kube-api-qps=20"][..], 20.0, 20),
            (&["--kube-api-qps=0.5"], 0.5, 1),
            (&["--kube-api-qps=20", "--kube-api-burst=30"], 20.0, 30),
        ] {
            assert_eq!(limit(args).unwrap(), Some(Rate { qps, burst }), "{args:?}");
        }
        for qps in ["0", "-1", "NaN", "inf", "1e6", "many", ""] {
            let error = limit(&[&format!("--kube-api-qps={qps}")]).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("from 0.1 to 100000"), "{qps}: {error}");
        }
        let error = limit(&["--kube-api-burst=30"]).unwrap_err().to_string();
        assert!(error.contains("--kube-api-qps"), "{error}");
        assert!(limit(&["--kube-api-qps=20", "--kube-api-burst=0"]).is_err());
    }

    #[test]
    fn leader_election_can_be_switched_off_and_on() {
        for (args, want) in [
            (&["--leader-elect=false"][..], false),
            (&["--leader-elect=true"], true),
            (&["--leader-elect"], true),
            (&[], true),
        ] {
            let lease = parse(args).unwrap().lease;
            assert_eq!(
                lease.to_config("a", "b").unwrap().is_some(),
                want,
                "{args:?}"
            );
        }
    }

    #[test]
    fn lease_times_must_be_ordered() {
        let lease = parse(&["--lease-duration=10s", "--renew-deadline=10s"])
            .unwrap()
            .lease;
        let error = lease.to_config("a", "b").unwrap_err().to_string();
        assert!(
            error.contains("--lease-duration") && error.contains("10s"),
            "{error}"
        );
    }

    #[test]
    fn a_bad_value_is_explained() {
        let error = parse(&["--retry-period=2"]).unwrap_err().to_string();
        assert!(
            error.contains("--retry-period") && error.contains("1m30s"),
            "{error}"
        );
    }
}
