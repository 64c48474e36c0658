//! Owns which values are allowed. Paths and kinds of problems are those that Gardener's scheduler reports.

use super::SchedulerConfiguration;
use crate::fields::told;
use pilotage_placement::Strategy;

/// A value that isn't allowed, by the path of its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Out of its range.
    #[error("{path}: Invalid value: {value}: {detail}")]
    Invalid {
        /// The field.
        path: &'static str,
        /// What stood there.
        value: String,
        /// What is allowed.
        detail: &'static str,
    },
    /// None of a few.
    #[error("{path}: Unsupported value: {value:?}: supported values: {}", .supported.join(", "))]
    NotSupported {
        /// The field.
        path: &'static str,
        /// What stood there.
        value: String,
        /// What is allowed.
        supported: &'static [&'static str],
    },
    /// Empty.
    #[error("{path}: Required value")]
    Required {
        /// The field.
        path: &'static str,
    },
}

const LEVELS: &[&str] = &["debug", "info", "error"];
const FORMATS: &[&str] = &["json", "text"];
const STRATEGIES: &[&str] = &[Strategy::ALL[0].name(), Strategy::ALL[1].name()];

pub(super) fn list(problems: &[Problem]) -> String {
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    problems.join("; ")
}

pub(super) fn validate(config: &SchedulerConfiguration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut invalid = |bad: bool, path, value: String, detail| {
        if bad {
            problems.push(Problem::Invalid {
                path,
                value,
                detail,
            });
        }
    };
    let not_negative = "must not be negative";
    let burst = config.client_connection.burst;
    invalid(
        burst < 0,
        "clientConnection.burst",
        burst.to_string(),
        not_negative,
    );
    for (path, syncs) in [
        (
            "schedulers.backupBucket.concurrentSyncs",
            config.backup_bucket_concurrent_syncs,
        ),
        (
            "schedulers.shoot.concurrentSyncs",
            config.shoot_concurrent_syncs,
        ),
    ] {
        invalid(syncs < 0, path, syncs.to_string(), not_negative);
    }
    let election = &config.leader_election;
    if election.leader_elect {
        let positive = "must be greater than zero";
        for (path, nanos) in [
            ("leaderElection.leaseDuration", election.lease_duration),
            ("leaderElection.renewDeadline", election.renew_deadline),
            ("leaderElection.retryPeriod", election.retry_period),
        ] {
            invalid(nanos <= 0, path, seconds(nanos), positive);
        }
        invalid(
            election.lease_duration < election.renew_deadline,
            "leaderElection.leaseDuration",
            seconds(election.lease_duration),
            "must not be less than renewDeadline",
        );
        invalid(
            election.renew_deadline < election.retry_period,
            "leaderElection.renewDeadline",
            seconds(election.renew_deadline),
            "must not be less than retryPeriod",
        );
        for (path, value) in [
            ("leaderElection.resourceLock", &election.resource_lock),
            (
                "leaderElection.resourceNamespace",
                &election.resource_namespace,
            ),
            ("leaderElection.resourceName", &election.resource_name),
        ] {
            if value.is_empty() {
                problems.push(Problem::Required { path });
            }
        }
    }
    for (path, value, supported) in [
        ("logLevel", &config.log_level, LEVELS),
        ("logFormat", &config.log_format, FORMATS),
        // Gardener reports it under this path, which isn't the field's name.
        (
            "schedulers.shoot.strategy",
            &config.candidate_determination_strategy,
            STRATEGIES,
        ),
    ] {
        if !supported.contains(&value.as_str()) {
            problems.push(Problem::NotSupported {
                path,
                value: told(value).to_owned(),
                supported,
            });
        }
    }
    problems
}

fn seconds(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}
