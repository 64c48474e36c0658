//! The proxy scheduler's configuration file: what decides where pods go, how their targets are asked, and for which
//! pods that differs. Read strictly: a mistake is told with its place in the file. `docs/placement.md` is its
//! reference.
//!
//! It knows no file system and no flags but as the numbers that hold where the file says nothing.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use pilotage_placement::{Labels, Ranking, Selector, Strategy};
use thiserror::Error;

use crate::{
    placing::{Home, Readable, Want},
    settings::Settings,
};

/// The file can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// It isn't YAML.
    #[error("it is no YAML: {0}")]
    Yaml(String),
    /// It is the file of something else.
    #[error("{field}: expected {expected}, found {found}")]
    Kind {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// What had to stand there.
        expected: &'static str,
        /// What stood there.
        found: String,
    },
    /// A field doesn't exist, or has a value that it can't have.
    #[error("{}{}{reason}", .path, if .path.is_empty() { "" } else { ": " })]
    Field {
        /// Where, as `pods[0].placement.rules[1]`; empty for the whole file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// What holds for some pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What decides where they go; `None`: the scheduler's own scores, unless a pod's annotations say where it belongs.
    pub ranking: Option<Ranking>,
    /// How their targets are asked.
    pub asking: Settings,
}

/// What decides where a pod goes that says where it belongs, if nobody configured anything.
static NEAREST: Ranking = Ranking::Strategy(Strategy::MinimalDistance);

impl Policy {
    /// What decides where a pod goes; `None`: the scheduler's own scores.
    pub fn ranking_of(&self, want: &Want) -> Option<&Ranking> {
        let own = self.ranking.as_ref();
        own.or_else(|| want.asks().then_some(&NEAREST))
    }
}

/// Which pods have a policy of their own. All that is said must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodRule {
    namespaces: Option<BTreeSet<String>>,
    selector: Option<Selector>,
    policy: Policy,
}

impl PodRule {
    fn fits(&self, pod: &Pod) -> bool {
        static NO_LABELS: Labels = Labels::new();
        let meta = &pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let labels = meta.labels.as_ref().unwrap_or(&NO_LABELS);
        self.namespaces
            .as_ref()
            .is_none_or(|names| names.contains(namespace))
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(labels))
    }
}

/// Which policy a pod has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyId(usize);

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Where the source is, as far as the file says so.
    pub home: Home,
    /// Names of the `ConfigMap`s with distances between regions; `None`: all that have the label.
    pub region_tables: Option<Vec<String>>,
    policy: Policy,
    rules: Vec<PodRule>,
}

impl Configuration {
    /// What holds without a file: no pipeline, and these numbers.
    pub fn without_file(asking: Settings) -> Self {
        Self {
            policy: Policy {
                ranking: None,
                asking,
            },
            ..Self::default()
        }
    }

    /// Reads a file; what it doesn't say of asking is as given.
    pub fn parse(text: &str, asking: &Settings) -> Result<Self, ConfigError> {
        read::configuration(text, asking)
    }

    /// Which policy a pod has: that of the first entry of `pods` that selects it, or the common one.
    pub fn policy_of(&self, pod: &Pod) -> PolicyId {
        let fitting = self.rules.iter().position(|rule| rule.fits(pod));
        PolicyId(fitting.map_or(0, |index| index.saturating_add(1)))
    }

    /// One policy.
    pub fn policy(&self, id: PolicyId) -> &Policy {
        let own = id.0.checked_sub(1).and_then(|index| self.rules.get(index));
        own.map_or(&self.policy, |rule| &rule.policy)
    }

    /// Whether a pipeline decides where some pods go that say nothing of it themselves.
    pub fn ranks(&self) -> bool {
        let mut own = self.rules.iter().map(|rule| &rule.policy);
        self.policy.ranking.is_some() || own.any(|policy| policy.ranking.is_some())
    }

    /// What rankings read of a Target's labels and annotations.
    pub fn readable(&self) -> Readable {
        let own = self.rules.iter().map(|rule| &rule.policy);
        let policies = own.chain([&self.policy]);
        Readable::by(policies.filter_map(|policy| policy.ranking.as_ref()))
    }

    /// What holds for pods that no entry selects.
    pub const fn common(&self) -> &Policy {
        &self.policy
    }
}
