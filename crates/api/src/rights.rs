//! What a source may do in a target besides running pods there: each right is asked for in a Source and given by a role
//! of its own, so that an operator of a target gives no more than is used.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One such right. On the wire it has its name, in flags and in names of roles its [`flag`](Self::flag).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Right {
    /// Copies of `ConfigMap`s that pods use.
    FollowConfigMaps,
    /// Copies of Secrets that pods use.
    FollowSecrets,
    /// Copies of Services that select pods.
    FollowServices,
    /// Copies of Ingresses in front of these Services.
    FollowIngresses,
    /// Reading what containers write.
    Logs,
    /// Running commands in containers.
    Exec,
    /// Attaching to what containers run.
    Attach,
    /// Reaching ports of pods.
    PortForward,
    /// Reading how much CPU and memory containers use.
    Metrics,
}

/// Not the flag of a right.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no such right; there are {}", Right::ALL.map(Right::flag).join(", "))]
pub struct UnknownRight;

impl Right {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::FollowConfigMaps,
        Self::FollowSecrets,
        Self::FollowServices,
        Self::FollowIngresses,
        Self::Logs,
        Self::Exec,
        Self::Attach,
        Self::PortForward,
        Self::Metrics,
    ];

    /// In a Source.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FollowConfigMaps => "FollowConfigMaps",
            Self::FollowSecrets => "FollowSecrets",
            Self::FollowServices => "FollowServices",
            Self::FollowIngresses => "FollowIngresses",
            Self::Logs => "Logs",
            Self::Exec => "Exec",
            Self::Attach => "Attach",
            Self::PortForward => "PortForward",
            Self::Metrics => "Metrics",
        }
    }

    /// In a flag.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::FollowConfigMaps => "follow-configmaps",
            Self::FollowSecrets => "follow-secrets",
            Self::FollowServices => "follow-services",
            Self::FollowIngresses => "follow-ingresses",
            Self::Logs => "logs",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "port-forward",
            Self::Metrics => "metrics",
        }
    }

    /// The `ClusterRole` that gives it.
    pub const fn role(self) -> &'static str {
        match self {
            Self::FollowConfigMaps => "pilotage-source-follow-configmaps",
            Self::FollowSecrets => "pilotage-source-follow-secrets",
            Self::FollowServices => "pilotage-source-follow-services",
            Self::FollowIngresses => "pilotage-source-follow-ingresses",
            Self::Logs => "pilotage-source-logs",
            Self::Exec => "pilotage-source-exec",
            Self::Attach => "pilotage-source-attach",
            Self::PortForward => "pilotage-source-port-forward",
            Self::Metrics => "pilotage-source-metrics",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Right {
    type Err = UnknownRight;

    fn from_str(flag: &str) -> Result<Self, UnknownRight> {
        let mut all = Self::ALL.into_iter();
        all.find(|right| right.flag() == flag).ok_or(UnknownRight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_has_one_name_one_flag_and_a_role_of_that_flag() {
        for right in Right::ALL {
            assert_eq!(serde_json::to_value(right).unwrap(), right.name());
            assert_eq!(right.flag().parse(), Ok(right));
            assert_eq!(right.role(), format!("pilotage-source-{}", right.flag()));
        }
        let error = "Logs".parse::<Right>().unwrap_err().to_string();
        assert!(
            error.contains("follow-secrets, follow-services, follow-ingresses, logs"),
            "{error}"
        );
    }
}
