//! The configuration file of Gardener's scheduler (`SchedulerConfiguration`), every field of it: what it holds, how it
//! is read and defaulted, and what is refused.
//!
//! As there, a field that is absent, null, empty or 0 gets its default, and validation comes after that. Fields that
//! don't exist are refused.

mod duration;
mod read;
mod validate;

pub use duration::{DurationError, parse_duration};
pub use validate::Problem;

use pilotage_placement::Strategy;

use crate::fields::{FieldError, told};

/// `apiVersion` of the file.
pub const API_VERSION: &str = "scheduler.config.gardener.cloud/v1alpha1";
/// `kind` of the file.
pub const KIND: &str = "SchedulerConfiguration";

/// The file can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It isn't YAML.
    #[error("it is no YAML: {0}")]
    Yaml(String),
    /// A field has the wrong form.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Values that aren't allowed, all of them.
    #[error("{}", validate::list(.0))]
    Invalid(Vec<Problem>),
}

/// The file's content, defaulted.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfiguration {
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// How one of several replicas is chosen.
    pub leader_election: LeaderElection,
    /// `debug`, `info` or `error`.
    pub log_level: String,
    /// `json` or `text`.
    pub log_format: String,
    /// Where health is served.
    pub health_probes: Server,
    /// Where metrics are served.
    pub metrics: Server,
    /// Whether profiles can be taken.
    pub debugging: Debugging,
    /// Nobody uses it any more.
    pub backup_bucket_concurrent_syncs: i64,
    /// How many Shoots are placed at once.
    pub shoot_concurrent_syncs: i64,
    /// Name of the strategy; [`SchedulerConfiguration::strategy`] has it parsed.
    pub candidate_determination_strategy: String,
    /// Features by name.
    pub feature_gates: Vec<(String, bool)>,
}

impl SchedulerConfiguration {
    /// Reads a file, defaults what it leaves open, and validates the result.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let value: serde_json::Value = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Yaml(told(error.to_string().trim_end()).to_owned()))?;
        let config = read::read(&value)?;
        let problems = config.validate();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError::Invalid(problems))
        }
    }

    /// The strategy; nothing if its name isn't one.
    pub fn strategy(&self) -> Option<Strategy> {
        let mut strategies = Strategy::ALL.into_iter();
        strategies.find(|strategy| strategy.name() == self.candidate_determination_strategy)
    }

    /// All that isn't allowed.
    pub fn validate(&self) -> Vec<Problem> {
        validate::validate(self)
    }
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// Path of a kubeconfig; empty is the cluster that it runs in. The environment's `KUBECONFIG` wins over it.
    pub kubeconfig: String,
    /// What is accepted; empty is the client's own choice.
    pub accept_content_types: String,
    /// What is sent; empty is the client's own choice.
    pub content_type: String,
    /// Requests a second.
    pub qps: f64,
    /// Requests at once.
    pub burst: i64,
}

/// How one of several replicas is chosen. Durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether it is done at all.
    pub leader_elect: bool,
    /// How long others wait before they take over.
    pub lease_duration: i64,
    /// How long the leader tries to renew.
    pub renew_deadline: i64,
    /// Between two tries.
    pub retry_period: i64,
    /// Kind of the lock.
    pub resource_lock: String,
    /// Namespace of the lock.
    pub resource_namespace: String,
    /// Name of the lock.
    pub resource_name: String,
}

/// Where something is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Address; empty is all.
    pub bind_address: String,
    /// Port.
    pub port: i64,
}

/// Whether profiles can be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debugging {
    /// Of CPU and memory.
    pub profiling: bool,
    /// Of locks.
    pub contention_profiling: bool,
}

#[cfg(test)]
mod tests;
