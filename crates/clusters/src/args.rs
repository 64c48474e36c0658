//! Flags of the registry.

use std::time::Duration;

use clap::Args;
use pilotage_runtime::args::{MOST_QPS, parse_period, parse_qps, rate};
use pilotage_runtime::throttle::{Rate, Unthrottled};

use crate::access::Need;
use crate::allow::{Allowed, Place};
use crate::door::streams::LocalStreams;
use crate::kept::Kept;
use crate::namespaces::TargetNamespaces;
use crate::probe::ProbeOptions;

/// How target clusters are watched over.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Target clusters")]
pub struct TargetArgs {
    /// How often each target's API server is asked whether it serves us.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_period)]
    pub target_probe_period: Duration,

    /// How long a target's API server may take to answer; no answer counts as a failure.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_period)]
    pub target_probe_timeout: Duration,

    /// After how many failures in a row a target is lost: its virtual node isn't ready any more and no new
    /// pod is sent there. Refused credentials lose it at once.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub target_probe_failures: u32,

    /// Requests a second that this process sends to each target on average. Without it, nothing is held back here, and
    /// the target's priority and fairness decides who waits.
    ///
    /// Requests that are too many wait for their turn. One that would wait for over 3s isn't sent and fails at once, to
    /// be made again later. The log tells of both. Probes of the target, and streams, don't count; the question before
    /// a stream which pod it leads to does.
    #[arg(long, value_name = "N", value_parser = parse_qps)]
    pub target_api_qps: Option<f64>,

    /// Requests that may be sent to a target at once, before the average counts. Default: --target-api-qps, rounded up.
    #[arg(long, value_name = "N", requires = "target_api_qps",
        value_parser = clap::value_parser!(u32).range(1..=MOST_QPS))]
    pub target_api_burst: Option<u32>,

    /// Where kubeconfigs of Targets may lead: hosts (api.example.com, *.example.com), addresses and CIDRs. May be given
    /// several times, or once with commas. Without it they may lead everywhere that this process reaches.
    ///
    /// A host that is named here is allowed whatever its addresses; any other one if the address that a connection is
    /// made to lies in one of the CIDRs.
    #[arg(long, value_name = "HOST|CIDR", value_delimiter = ',')]
    pub allow_targets_at: Vec<Place>,

    /// Take kubeconfigs of Targets with an http server, or with "insecure-skip-tls-verify": whoever is on the way can
    /// read the credentials, and speak in the target's name.
    #[arg(long)]
    pub allow_insecure_targets: bool,

    /// Read Secrets of these namespaces only, 256 at most, separated by commas. A Target or ClusterTarget whose Secret
    /// is elsewhere is lost. Without names, Secrets of all namespaces are read.
    ///
    /// All parts that run in a source, and "pilotage rbac", need the same names. The roles for these namespaces go with
    /// them, so Secrets carry no finalizer of ours then.
    #[arg(long, value_name = "NAMESPACES")]
    pub target_namespaces: Option<TargetNamespaces>,
}

impl TargetArgs {
    /// Options for a registry of `component`, which asks for `needs` in each target (none: it doesn't ask).
    pub fn to_options(self, component: &'static str, needs: &[Need]) -> Options {
        let probe = ProbeOptions {
            period: self.target_probe_period,
            timeout: self.target_probe_timeout,
            failures: self.target_probe_failures,
        };
        Options {
            probe,
            rate: rate(self.target_api_qps, self.target_api_burst),
            needs: needs.to_vec(),
            allowed: Allowed {
                insecure: self.allow_insecure_targets,
                places: self.allow_targets_at.into(),
            },
            namespaces: self.target_namespaces.unwrap_or_default(),
            ..Options::new(component)
        }
    }
}

/// Options of a registry.
#[derive(Clone, Debug)]
pub struct Options {
    /// Component for the User-Agent of requests to targets.
    pub component: &'static str,
    /// How targets are probed.
    pub probe: ProbeOptions,
    /// How many requests each target gets; none: as many as there are.
    pub rate: Option<Rate>,
    /// How often a target that answers is asked who it is: so long another cluster at the same address may go
    /// unnoticed.
    pub identify: Duration,
    /// Where targets may be.
    pub allowed: Allowed,
    /// Where their Secrets may be.
    pub namespaces: TargetNamespaces,
    /// What is read of their labels and annotations beside well-known ones.
    pub kept: Kept,
    /// Permissions to ask for in each target; empty: don't ask.
    pub needs: Vec<Need>,
    /// How often permissions are asked for again while some are missing.
    pub review_missing: Duration,
    /// How often they are asked for again while none is.
    pub review_complete: Duration,
    /// What streams of a target that is this very cluster come by; `None`: by the client for everything else, which
    /// takes long silence for a dead connection.
    pub local_streams: Option<LocalStreams>,
    /// What Targets and their Secrets are watched with, and what a target that is this very cluster is probed by;
    /// `None`: the client for everything else, which may wait for its turn.
    pub unthrottled: Option<Unthrottled>,
}

impl Options {
    /// The defaults, without asking for permissions.
    pub fn new(component: &'static str) -> Self {
        Self {
            component,
            probe: ProbeOptions::default(),
            rate: None,
            identify: Duration::from_secs(30),
            allowed: Allowed::default(),
            namespaces: TargetNamespaces::default(),
            kept: Kept::default(),
            needs: Vec::new(),
            review_missing: Duration::from_secs(15),
            review_complete: Duration::from_mins(5),
            local_streams: None,
            unthrottled: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        targets: TargetArgs,
    }

    #[test]
    fn places_may_be_given_one_by_one_or_together() {
        let parse = |args: &[&str]| {
            let args = std::iter::once(&"pilotage").chain(args);
            let command = Command::try_parse_from(args)?;
            Ok::<_, clap::Error>(command.targets.to_options("test", &[]).allowed)
        };
        let none = parse(&[]).unwrap();
        assert!(!none.insecure && none.places.is_empty());
        let two = parse(&[
            "--allow-targets-at=10.0.0.0/8,*.a",
            "--allow-targets-at=b.a",
        ])
        .unwrap();
        assert_eq!(two.places.len(), 3);
        assert!(parse(&["--allow-insecure-targets"]).unwrap().insecure);
        let error = parse(&["--allow-targets-at=10.0.0.0/99"]).unwrap_err();
        assert!(error.to_string().contains("neither a host"), "{error}");
    }

    #[test]
    fn targets_get_as_many_requests_as_there_are_unless_somebody_says_how_many() {
        let parse = |args: &[&str]| {
            let args = std::iter::once(&"pilotage").chain(args);
            let command = Command::try_parse_from(args)?;
            Ok::<_, clap::Error>(command.targets.to_options("test", &[]).rate)
        };
        assert_eq!(parse(&[]).unwrap(), None);
        let (qps, burst) = (50.0, 80);
        let given = parse(&["--target-api-qps=50", "--target-api-burst=80"]);
        assert_eq!(given.unwrap(), Some(Rate { qps, burst }));
        let error = parse(&["--target-api-qps=0"]).unwrap_err().to_string();
        assert!(error.contains("from 0.1 to 100000"), "{error}");
        assert!(parse(&["--target-api-burst=80"]).is_err());
    }

    #[test]
    fn secrets_of_all_namespaces_are_read_unless_some_are_named() {
        let parse = |args: &[&str]| {
            let args = std::iter::once(&"pilotage").chain(args);
            let command = Command::try_parse_from(args)?;
            Ok::<_, clap::Error>(command.targets.to_options("test", &[]).namespaces)
        };
        for all in [&[][..], &["--target-namespaces="]] {
            assert!(!parse(all).unwrap().is_narrow(), "{all:?}");
        }
        let two = parse(&["--target-namespaces=shop,bank"]).unwrap();
        assert_eq!(two.names(), ["bank", "shop"]);
        let error = parse(&["--target-namespaces=shop,Bank"]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("--target-namespaces"), "{error}");
        assert!(
            error.contains("\"Bank\" is no name of a namespace"),
            "{error}"
        );
    }
}
