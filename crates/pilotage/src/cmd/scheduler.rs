//! `pilotage scheduler`: wiring of the stand-alone scheduler of one cluster. It is the driver without any edge.

use std::sync::Arc;

use clap::builder::NonEmptyStringValueParser;
use pilotage_api::names;
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::lease::{self, unique_identity};
use pilotage_runtime::rbac::Rule;
use pilotage_sched::plugins::stock_profile;
use pilotage_sched_driver::{Driver, DriverOptions, PodBinder};

use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[
    lease::RULES,
    pilotage_sched_driver::rbac::RULES,
    pilotage_sched_driver::rbac::STOCK_RULES,
    pilotage_sched_driver::rbac::PREEMPTION,
];

/// The scheduler that pods ask for, unless another name is given.
const DEFAULT_NAME: &str = "pilotage-scheduler";
/// Longest scheduler name that its Lease is called by; names of objects have 253 bytes at most.
const LONGEST_NAME: usize = 200;

/// Flags of `pilotage scheduler`.
#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub struct Args {
    /// Places the pods that ask for this scheduler (spec.schedulerName).
    ///
    /// Any name will do that no other scheduler of the cluster has; admiralty-proxy and admiralty-candidate are those
    /// of other parts. Each name has a Lease of its own, so that schedulers of several names may run in one namespace.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = NonEmptyStringValueParser::new())]
    scheduler_name: String,

    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    lease: LeaseArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let part = Part::Scheduler;
    let mut process = Process::begin(part.name(), &args.process).await?;
    let client = process.client(part.name())?;
    let binder = Arc::new(PodBinder::new(client.clone()));
    let profile = stock_profile(&args.scheduler_name, binder)
        .refusing_unknown_constraints("this scheduler")
        .build()
        .map_err(Error::start(part))?;
    let options = DriverOptions {
        leadership: process.leadership(&args.lease, &lease_name(&args.scheduler_name))?,
        health: process.health.clone(),
        ..DriverOptions::new(client, vec![profile], unique_identity())
    };
    // Nobody asks the driver anything.
    let (driver, _) = Driver::new(options, process.metrics(part)).map_err(Error::start(part))?;
    let token = process.token();
    process.component("scheduler", driver.run(token));
    process.run().await
}

/// The Lease of a scheduler. With one for all names the second scheduler in a namespace would stand by for ever.
fn lease_name(scheduler_name: &str) -> String {
    let own = Part::Scheduler.object_name();
    if scheduler_name == DEFAULT_NAME {
        return own;
    }
    let mut bytes = scheduler_name.bytes();
    let fits = scheduler_name.len() <= LONGEST_NAME
        && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !scheduler_name.ends_with('-');
    if fits {
        format!("{own}-{scheduler_name}")
    } else {
        // Pods may name schedulers as no object can be called.
        format!("{own}-{}", names::hash(scheduler_name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;
    use crate::Cli;

    #[test]
    fn any_name_will_do_but_none() {
        let parse =
            |name: &str| Cli::try_parse_from(["pilotage", "scheduler", "--scheduler-name", name]);
        assert!(parse("default-scheduler").is_ok());
        let error = parse("").unwrap_err().to_string();
        assert!(error.contains("--scheduler-name"), "{error}");
    }

    #[test]
    fn each_scheduler_name_has_a_lease_that_can_be_made() {
        assert_eq!(lease_name(DEFAULT_NAME), "pilotage-scheduler");
        assert_eq!(lease_name("harbour-2"), "pilotage-scheduler-harbour-2");
        let long = "x".repeat(300);
        let odd = [
            "Harbour",
            "harbour_2",
            "harbour-",
            "a/b",
            "häfen",
            long.as_str(),
        ];
        let leases = odd.map(lease_name);
        for lease in &leases {
            let hash = lease.strip_prefix("pilotage-scheduler-").unwrap();
            assert!(
                hash.len() == 10 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{lease}"
            );
        }
        let different: BTreeSet<_> = leases.iter().collect();
        assert_eq!(different.len(), leases.len(), "{leases:?}");
    }
}
