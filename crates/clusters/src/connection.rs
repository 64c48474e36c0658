//! Whether a target answers, and why not.
//!
//! Must not know how that is found out (see `probe` and `supervise`).

use std::time::Duration;

use jiff::Timestamp;
use pilotage_api::parent::ClusterUid;
use pilotage_runtime::caught::PANICKED;
use thiserror::Error;
use tokio::time::Instant;

use crate::allow::Refusal;
use crate::kubeconfig::KubeconfigFault;
use crate::spec::{SecretRef, SpecFault};

/// A moment by two clocks: one to show, one to count with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// For people. May jump.
    pub wall: Timestamp,
    /// For "lost for at least T": never jumps, means nothing in another process.
    pub monotonic: Instant,
}

impl Since {
    /// This moment.
    pub fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            monotonic: Instant::now(),
        }
    }

    /// How long ago it was at `now`.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.monotonic)
    }
}

/// State of the connection to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Not known yet: it neither answered nor failed to since the process started.
    Connecting,
    /// Its API server answers and knows us.
    Connected {
        /// Since when.
        since: Since,
    },
    /// It doesn't, or there is no way to try.
    Lost {
        /// When the first attempt failed after the last success.
        since: Since,
        /// Why.
        reason: LostReason,
    },
}

impl Connection {
    /// Whether the target answers.
    pub fn is_connected(&self) -> bool {
        matches!(self, Self::Connected { .. })
    }

    /// Why it is lost, if it is.
    pub fn lost(&self) -> Option<&LostReason> {
        match self {
            Self::Lost { reason, .. } => Some(reason),
            Self::Connecting | Self::Connected { .. } => None,
        }
    }

    /// For how long it has been lost at `now`, by the monotonic clock.
    pub fn lost_for(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::Lost { since, .. } => Some(since.age(now)),
            Self::Connecting | Self::Connected { .. } => None,
        }
    }
}

/// Why a target is lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LostReason {
    /// The spec doesn't say how it is reached.
    #[error("{0}")]
    InvalidSpec(#[from] SpecFault),
    /// Others of its namespace are older.
    #[error(
        "namespace {namespace} has more Targets than the {most} that are connected at the same time, and this one \
         isn't among the oldest: it waits until others are deleted"
    )]
    TooManyTargets {
        /// Which one.
        namespace: String,
        /// So many are connected.
        most: usize,
    },
    /// The secret isn't looked at.
    #[error(
        "secret {}/{} isn't read: its namespace is none of those whose Secrets Pilotage reads (--target-namespaces)",
        .0.namespace, .0.name
    )]
    NamespaceNotAllowed(SecretRef),
    /// The secret isn't there.
    #[error("secret {}/{} does not exist", .0.namespace, .0.name)]
    SecretMissing(SecretRef),
    /// The secret can't be read from the local API server.
    #[error("failed to read secret {}/{}: {message}", .secret.namespace, .secret.name)]
    SecretUnreadable {
        /// The secret.
        secret: SecretRef,
        /// The local API server's answer.
        message: String,
    },
    /// The secret has no such key.
    #[error(
        "secret {}/{} has no key {:?}; it has {}",
        .secret.namespace, .secret.name, .secret.key,
            if .known.is_empty() { "none".to_owned() } else { .known.join(", ") }
    )]
    KeyMissing {
        /// The secret with the key that was asked for.
        secret: SecretRef,
        /// The keys that it has.
        known: Vec<String>,
    },
    /// The kubeconfig can't be used.
    #[error("the kubeconfig in secret {}/{}, key {:?}, {fault}", .secret.namespace, .secret.name, .secret.key)]
    KubeconfigUnreadable {
        /// Where it stands.
        secret: SecretRef,
        /// What is wrong with it.
        fault: Box<KubeconfigFault>,
    },
    /// Targets may not lead to where it leads.
    #[error("{}{refusal}", place(.secret.as_ref()))]
    Refused {
        /// Where that stands; `None` if it showed only when a connection was made.
        secret: Option<SecretRef>,
        /// Why not.
        refusal: Refusal,
    },
    /// It sends more than is read or kept of any target.
    #[error("the target sends more than is taken from it: {0}")]
    TooMuch(String),
    /// It answers as no API server does.
    #[error("what answers there doesn't behave as an API server: {0}")]
    Misbehaving(String),
    /// A mistake of ours. What it was may quote the secret, so only the log says it.
    #[error(
        "a mistake in Pilotage, please report it with what its log says; it tries again after a pause"
    )]
    Internal,
    /// Its API server doesn't answer, or answers that it can't serve.
    #[error(
        "the API server of the target can't be reached: {0}; it is tried again, and \"kubectl pilotage connect \
         --target-server\" gives it another address"
    )]
    Unreachable(String),
    /// Another cluster answers there.
    #[error(
        "another cluster answers there (its kube-system has the UID {found}, the target's had {known}): pods may \
         still run in the old one. Mend the kubeconfig; or delete this object and make another one for the new \
         cluster"
    )]
    OtherCluster {
        /// The target's identity.
        known: ClusterUid,
        /// That of the cluster that answers.
        found: ClusterUid,
    },
    /// A cluster answers there that doesn't say who it is.
    #[error(
        "the cluster that answers there doesn't say who it is, and the target's kube-system had the UID {known}: it \
         may be another one, and pods may still run in the old one. If it is the target, its ClusterSummary \
         \"singleton\" must give that clusterUid (its Pilotage writes it) and we must be permitted to list it (a \
         Source or ClusterSource there permits it). If it isn't, mend the kubeconfig; or delete this object and make \
         another one for the new cluster"
    )]
    Unidentified {
        /// The target's identity.
        known: ClusterUid,
    },
    /// Its API server doesn't know us.
    #[error(
        "the API server of the target refuses our credentials: {0}; its Secret needs another kubeconfig, which \
         \"kubectl pilotage connect --renew-token\" makes if it made this one"
    )]
    Unauthorized(String),
}

fn place(secret: Option<&SecretRef>) -> String {
    secret.map_or_else(
        || "the kubeconfig ".to_owned(),
        |it| {
            format!(
                "the kubeconfig in secret {}/{}, key {:?}, ",
                it.namespace, it.name, it.key
            )
        },
    )
}

impl LostReason {
    /// One word in camel case, for conditions.
    pub fn word(&self) -> &'static str {
        match self {
            Self::InvalidSpec(_) => "InvalidSpec",
            Self::TooManyTargets { .. } => "TooManyTargets",
            Self::NamespaceNotAllowed(_) => "NamespaceNotAllowed",
            Self::SecretMissing(_) => "SecretMissing",
            Self::SecretUnreadable { .. } => "SecretUnreadable",
            Self::KeyMissing { .. } => "KeyMissing",
            Self::KubeconfigUnreadable { .. } => "KubeconfigUnreadable",
            Self::Refused { refusal, .. } => refusal.word(),
            Self::TooMuch(_) => "TooMuch",
            Self::Misbehaving(_) => "Misbehaving",
            Self::Internal => PANICKED,
            Self::Unreachable(_) => "Unreachable",
            Self::Unauthorized(_) => "Unauthorized",
            Self::OtherCluster { .. } => "OtherCluster",
            Self::Unidentified { .. } => "Unidentified",
        }
    }

    /// Whether there was a way to try: a client exists, and only the target doesn't do its part.
    pub fn was_tried(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Unauthorized(_)
                | Self::TooMuch(_)
                | Self::Misbehaving(_)
                | Self::OtherCluster { .. }
                | Self::Unidentified { .. }
        )
    }

    /// Whether whoever answers may be another cluster.
    pub fn is_strange(&self) -> bool {
        matches!(self, Self::OtherCluster { .. } | Self::Unidentified { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_which_secret_and_key() {
        let secret = SecretRef {
            namespace: "ns".into(),
            name: "c2".into(),
            key: "config".into(),
            context: None,
        };
        for (reason, want) in [
            (
                LostReason::NamespaceNotAllowed(secret.clone()),
                "secret ns/c2 isn't read: its namespace is none of those whose Secrets Pilotage reads \
                 (--target-namespaces)",
            ),
            (
                LostReason::SecretMissing(secret.clone()),
                "secret ns/c2 does not exist",
            ),
            (
                LostReason::KeyMissing {
                    secret: secret.clone(),
                    known: vec!["value".into()],
                },
                r#"secret ns/c2 has no key "config"; it has value"#,
            ),
            (
                LostReason::KubeconfigUnreadable {
                    secret,
                    fault: Box::new(KubeconfigFault::NotText),
                },
                r#"the kubeconfig in secret ns/c2, key "config", is not UTF-8 text"#,
            ),
            (
                LostReason::Refused {
                    secret: None,
                    refusal: Refusal::Elsewhere { host: "a".into() },
                },
                "the kubeconfig leads to \"a\", which is none of the places that Pilotage lets Targets lead to \
                 (--allow-targets-at)",
            ),
        ] {
            assert_eq!(reason.to_string(), want);
        }
    }
}
