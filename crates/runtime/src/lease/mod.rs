//! Leader election by a `coordination.k8s.io` Lease.
//!
//! Leadership is a question asked when writing, not a state that was once reached: a
//! [`Leadership`] compares the claim's expiry with the monotonic clock at each question, so that a
//! leader cut off from its API server stops by itself, before anybody else may begin. Times are as
//! client-go's: the leader renews every *retry period*, ends when it couldn't for the *renew
//! deadline*, and the others wait for the *lease duration* since they last saw the Lease change.
//! No clock of another machine is ever compared with ours.
//!
//! `decide` holds the rules without clock or client, `edge` runs them. A lost lease is an error of
//! [`Elector::run`] that is to end the process: what it had in memory belongs to the new leader now.

mod decide;
mod edge;
mod metrics;

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

pub use edge::{Elector, LeaseError, unique_identity};
pub use metrics::Leaders;

use crate::rbac::Rule;

/// The rules that [`Elector`] needs in the Lease's namespace. `create` can't be limited to a name.
pub const RULES: &[Rule] = &[Rule::own_namespace(
    &["coordination.k8s.io"],
    &["leases"],
    &["get", "create", "patch"],
)];

/// Which Lease, and how long what takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    namespace: String,
    name: String,
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    annotations: BTreeMap<String, String>,
}

/// Why a [`LeaseConfig`] can't work.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Others could take over while the leader still believes in itself.
    #[error(
        "--lease-duration ({lease_duration:?}) must be longer than --renew-deadline ({renew_deadline:?}), or two \
         leaders may act at once"
    )]
    DeadlineTooLong {
        /// What was given.
        lease_duration: Duration,
        /// What was given.
        renew_deadline: Duration,
    },
    /// The leader would end before its first renewal.
    #[error(
        "--renew-deadline ({renew_deadline:?}) must be longer than --retry-period ({retry_period:?}), or the leader \
         ends before it renews"
    )]
    PeriodTooLong {
        /// What was given.
        renew_deadline: Duration,
        /// What was given.
        retry_period: Duration,
    },
    /// A Lease counts whole seconds, and a period of zero would spin.
    #[error(
        "--lease-duration ({lease_duration:?}) must be whole seconds and --retry-period ({retry_period:?}) more than \
         zero"
    )]
    OutOfRange {
        /// What was given.
        lease_duration: Duration,
        /// What was given.
        retry_period: Duration,
    },
}

impl LeaseConfig {
    /// A checked configuration: lease duration > renew deadline > retry period > 0.
    pub fn new(
        namespace: &str,
        name: &str,
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, ConfigError> {
        if lease_duration <= renew_deadline {
            return Err(ConfigError::DeadlineTooLong {
                lease_duration,
                renew_deadline,
            });
        }
        if renew_deadline <= retry_period {
            return Err(ConfigError::PeriodTooLong {
                renew_deadline,
                retry_period,
            });
        }
        let whole =
            lease_duration.subsec_nanos() == 0 && i32::try_from(lease_duration.as_secs()).is_ok();
        if !whole || retry_period.is_zero() {
            return Err(ConfigError::OutOfRange {
                lease_duration,
                retry_period,
            });
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            lease_duration,
            renew_deadline,
            retry_period,
            annotations: BTreeMap::new(),
        })
    }

    /// Kubernetes' own times: 15 s, 10 s, 2 s.
    pub fn with_default_times(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            annotations: BTreeMap::new(),
        }
    }

    /// Whoever takes the Lease writes this annotation on it, which tells others who leads.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Namespace of the Lease.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the Lease.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Who holds the Lease, as far as this process knows, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    holder: String,
    expiry: Instant,
}

impl Claim {
    /// The holder's identity.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Whether `identity` holds it at `now`.
    pub fn is_held_by(&self, identity: &str, now: Instant) -> bool {
        self.holder == identity && now < self.expiry
    }
}

/// Answers whether this process may act. Clones are cheap; ask right before each write.
#[derive(Debug, Clone)]
pub struct Leadership {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Always,
    Elected {
        identity: String,
        claim: watch::Receiver<Option<Claim>>,
    },
}

impl Leadership {
    /// For a process without leader election.
    pub fn always() -> Self {
        Self { kind: Kind::Always }
    }

    /// Whether this process leads now.
    pub fn is_leader(&self) -> bool {
        match &self.kind {
            Kind::Always => true,
            Kind::Elected { identity, claim } => claim
                .borrow()
                .as_ref()
                .is_some_and(|claim| claim.is_held_by(identity, Instant::now())),
        }
    }

    /// Who leads now, as far as this process knows.
    pub fn leader(&self) -> Option<String> {
        match &self.kind {
            Kind::Always => None,
            Kind::Elected { claim, .. } => claim
                .borrow()
                .as_ref()
                .filter(|claim| Instant::now() < claim.expiry)
                .map(|claim| claim.holder.clone()),
        }
    }

    /// Completes as soon as this process leads; never if it doesn't come to that.
    pub async fn acquired(&self) {
        let Kind::Elected { identity, claim } = &self.kind else {
            return;
        };
        let mut claim = claim.clone();
        let held = |claim: &Option<Claim>| {
            claim
                .as_ref()
                .is_some_and(|claim| claim.is_held_by(identity, Instant::now()))
        };
        if claim.wait_for(held).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_checked() {
        let s = Duration::from_secs;
        for (duration, deadline, period, ok) in [
            (s(15), s(10), s(2), true),
            (s(2), s(1), Duration::from_millis(200), true),
            (s(10), s(10), s(2), false),
            (s(15), s(2), s(2), false),
            (s(15), s(10), s(0), false),
            (
                Duration::from_millis(1500),
                s(1),
                Duration::from_millis(100),
                false,
            ),
        ] {
            let config = LeaseConfig::new("ns", "name", duration, deadline, period);
            assert_eq!(config.is_ok(), ok, "{duration:?} {deadline:?} {period:?}");
        }
        let config = LeaseConfig::new("ns", "name", s(15), s(10), s(2)).unwrap();
        assert_eq!(config, LeaseConfig::with_default_times("ns", "name"));
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_ends_by_itself_when_the_claim_expires() {
        let (sender, claim) = watch::channel(None);
        let leadership = Leadership {
            kind: Kind::Elected {
                identity: "me".to_owned(),
                claim,
            },
        };
        assert!(!leadership.is_leader());
        let expiry = Instant::now() + Duration::from_secs(10);
        sender.send_replace(Some(Claim {
            holder: "me".to_owned(),
            expiry,
        }));
        leadership.acquired().await;
        assert!(leadership.is_leader());
        assert_eq!(leadership.leader().as_deref(), Some("me"));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!leadership.is_leader());
        assert_eq!(leadership.leader(), None);
        let expiry = Instant::now() + Duration::from_secs(10);
        sender.send_replace(Some(Claim {
            holder: "other".to_owned(),
            expiry,
        }));
        assert!(!leadership.is_leader());
        assert_eq!(leadership.leader().as_deref(), Some("other"));
    }
}
