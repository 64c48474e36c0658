//! Runs the rules of `decide` against a real Lease: clock, requests, and the published claim.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt};
use serde_json::json;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::{Election, Moment, Record, Seen, Step, Times};
use super::{Claim, Kind, Leadership, LeaseConfig};
use crate::backoff::dice;
use crate::call::{CallError, Failure, within};
use crate::moment::{LONGEST_TIME, after};

/// Why an election ended.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LeaseError {
    /// It couldn't be renewed in time.
    #[error("lost the lease {lease}: it couldn't be renewed in time")]
    NotRenewed {
        /// Namespace and name.
        lease: String,
    },
    /// Another process holds it.
    #[error("lost the lease {lease} to {to}")]
    Taken {
        /// Namespace and name.
        lease: String,
        /// The holder now.
        to: String,
    },
}

/// Takes part in the election for one Lease.
pub struct Elector {
    api: Api<Lease>,
    config: LeaseConfig,
    identity: String,
    election: Election,
    origin: Instant,
    claim: watch::Sender<Option<Claim>>,
}

impl Elector {
    /// A candidate called `identity`, which must be unique among all processes that ever run (see
    /// [`unique_identity`]), with the handle that answers whether it leads. Does nothing before
    /// [`Elector::run`].
    pub fn new(client: Client, config: LeaseConfig, identity: String) -> (Self, Leadership) {
        let times = Times {
            lease_duration: config.lease_duration,
            renew_deadline: config.renew_deadline,
            retry_period: config.retry_period,
        };
        let (sender, claim) = watch::channel(None);
        let elector = Self {
            api: Api::namespaced(client, &config.namespace),
            election: Election::new(identity.clone(), times),
            identity: identity.clone(),
            origin: Instant::now(),
            claim: sender,
            config,
        };
        (
            elector,
            Leadership {
                kind: Kind::Elected { identity, claim },
            },
        )
    }

    /// Takes part until `token` is cancelled, then gives the Lease back if it holds it. Cancel it
    /// only after the work that needs leadership has drained.
    ///
    /// An error means that leadership was had and is lost; the process must end. The API server
    /// being away is none as long as this process doesn't lead.
    pub fn run(mut self, token: CancellationToken) -> BoxFuture<'static, Result<(), LeaseError>> {
        async move {
            let lease = format!("{}/{}", self.config.namespace, self.config.name);
            tracing::info!(
                lease,
                identity = self.identity,
                "taking part in leader election"
            );
            let mut led = false;
            loop {
                let step = self.election.decide(self.now());
                let writing_as_leader = self.election.own_expiry().is_some()
                    && matches!(step, Step::Create | Step::Take { .. });
                let acting: BoxFuture<'_, ()> = match step {
                    Step::Lost { to } => {
                        self.claim.send_replace(None);
                        return Err(match to {
                            Some(to) => LeaseError::Taken { lease, to },
                            None => LeaseError::NotRenewed { lease },
                        });
                    }
                    Step::Wait(until) => {
                        tokio::time::sleep_until(after(self.origin, until)).boxed()
                    }
                    Step::Look => self.look().boxed(),
                    Step::Create => self.create().boxed(),
                    Step::Take {
                        version,
                        transitions,
                        fresh,
                    } => self.take(version, transitions, fresh).boxed(),
                };
                // A leader's write is awaited, since giving the Lease back needs its newest version.
                tokio::select! {
                    () = token.cancelled(), if !writing_as_leader => break,
                    () = acting => {}
                }
                self.publish();
                if !led && self.election.own_expiry().is_some() {
                    led = true;
                    tracing::info!(lease, identity = self.identity, "leading");
                }
            }
            self.vacate().await;
            Ok(())
        }
        .boxed()
    }

    fn now(&self) -> Moment {
        self.origin.elapsed()
    }

    /// A request may take half the renew deadline, so that a hung connection leaves time for another
    /// try, and never longer than our own claim lasts.
    fn call_limit(&self) -> Duration {
        let half = self.config.renew_deadline.mul_f64(0.5);
        match self.election.own_expiry() {
            Some(expiry) => half.min(expiry.saturating_sub(self.now())),
            None => half,
        }
    }

    fn publish(&self) {
        let claim = match self.election.own_expiry() {
            Some(expiry) => Some(Claim {
                holder: self.identity.clone(),
                expiry: after(self.origin, expiry),
            }),
            None => self.election.foreign().map(|(holder, expiry)| Claim {
                holder: holder.to_owned(),
                expiry: after(self.origin, expiry),
            }),
        };
        self.claim.send_if_modified(|published| {
            let changed = *published != claim;
            *published = claim;
            changed
        });
    }

    async fn look(&mut self) {
        match within(self.call_limit(), self.api.get_opt(&self.config.name)).await {
            Ok(lease) => {
                let seen = lease
                    .as_ref()
                    .map_or(Seen::Absent, |lease| Seen::Present(record(lease)));
                let now = self.now();
                self.election.looked(seen, now, dice());
            }
            Err(error) => {
                tracing::warn!(%error, "failed to read the lease");
                self.election.look_failed(self.now());
            }
        }
    }

    async fn create(&mut self) {
        let now = Timestamp::now();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": ObjectMeta {
                name: Some(self.config.name.clone()),
                annotations: Some(self.config.annotations.clone()).filter(|all| !all.is_empty()),
                ..ObjectMeta::default()
            },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self.config.lease_duration.as_secs(),
                "acquireTime": micro_time(now),
                "renewTime": micro_time(now),
                "leaseTransitions": 0,
            },
        });
        let sent = self.now();
        // The typed object holds nothing but what was written above, so nothing is lost in it.
        let written = match serde_json::from_value::<Lease>(lease) {
            Ok(lease) => {
                within(
                    self.call_limit(),
                    self.api.create(&PostParams::default(), &lease),
                )
                .await
            }
            Err(error) => Err(CallError::Api(kube::Error::SerdeError(error))),
        };
        self.written(written, sent);
    }

    async fn take(&mut self, version: String, transitions: i32, fresh: bool) {
        let now = micro_time(Timestamp::now());
        let mut spec = json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.config.lease_duration.as_secs(),
            "renewTime": now,
            "leaseTransitions": transitions,
        });
        if fresh {
            spec["acquireTime"] = json!(now);
        }
        // Whoever held it before wrote his own.
        let annotations = fresh.then_some(&self.config.annotations);
        let sent = self.now();
        let written = self.patch(&version, spec, annotations).await;
        self.written(written, sent);
    }

    /// A merge patch that fails unless `version` is still the newest.
    async fn patch(
        &self,
        version: &str,
        spec: serde_json::Value,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Result<Lease, CallError> {
        let mut metadata = json!({ "resourceVersion": version });
        if let Some(annotations) = annotations.filter(|all| !all.is_empty()) {
            metadata["annotations"] = json!(annotations);
        }
        let patch = Patch::Merge(json!({ "metadata": metadata, "spec": spec }));
        let params = PatchParams::default();
        within(
            self.call_limit(),
            self.api.patch(&self.config.name, &params, &patch),
        )
        .await
    }

    fn written(&mut self, written: Result<Lease, CallError>, sent: Moment) {
        match written {
            Ok(lease) => self.election.wrote(record(&lease), sent),
            Err(error) => {
                let stale = matches!(
                    error.kind(),
                    Failure::Conflict | Failure::AlreadyExists | Failure::NotFound
                );
                if stale {
                    tracing::debug!(%error, "the lease has changed");
                } else {
                    tracing::warn!(%error, "failed to write the lease");
                }
                let now = self.now();
                self.election.write_failed(stale, now);
            }
        }
    }

    /// Gives the Lease back, so that the next leader needn't wait. If that fails, it waits.
    async fn vacate(self) {
        let Some(record) = self.election.vacate(self.now()).cloned() else {
            return;
        };
        // From here on nobody in this process may act as leader, whether or not the write lands.
        self.claim.send_replace(None);
        let spec = json!({
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": micro_time(Timestamp::now()),
        });
        match self.patch(&record.version, spec, None).await {
            Ok(_) => tracing::info!(lease = self.config.name, "gave the lease back"),
            Err(error) => tracing::warn!(%error, "failed to give the lease back"),
        }
    }
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector")
            .field("config", &self.config)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// `<host>_<random>`: unique for each process, and a reader knows the pod.
pub fn unique_identity() -> String {
    let host = std::env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map_or_else(|| "unknown-host".to_owned(), |name| name.trim().to_owned());
    let bits = |dice: f64| (dice * f64::from(u32::MAX)) as u32;
    format!("{host}_{:08x}{:08x}", bits(dice()), bits(dice()))
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    Record {
        version: lease.resource_version().unwrap_or_default(),
        holder: spec
            .and_then(|spec| spec.holder_identity.clone())
            .filter(|holder| !holder.is_empty()),
        duration: spec
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST_TIME)),
        transitions: spec
            .and_then(|spec| spec.lease_transitions)
            .unwrap_or_default(),
    }
}

/// RFC 3339 with microseconds, the only form that a Lease takes.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits() {
        let time = Timestamp::new(1_700_000_000, 120_000_000).unwrap();
        assert_eq!(micro_time(time), "2023-11-14T22:13:20.120000Z");
    }

    #[test]
    fn identities_differ() {
        assert_ne!(unique_identity(), unique_identity());
    }

    #[test]
    fn a_lease_is_read_leniently() {
        let read = |lease: serde_json::Value| record(&serde_json::from_value(lease).unwrap());
        let full = read(json!({
            "metadata": {"resourceVersion": "5"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 2},
        }));
        assert_eq!(
            full,
            Record {
                version: "5".to_owned(),
                holder: Some("a".to_owned()),
                duration: Some(Duration::from_secs(15)),
                transitions: 2,
            }
        );
        let bare = read(json!({
            "metadata": {"resourceVersion": "6"},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 0},
        }));
        assert_eq!(
            (bare.holder, bare.duration, bare.transitions),
            (None, None, 0)
        );
        let endless = read(json!({ "spec": { "leaseDurationSeconds": i32::MAX } }));
        assert_eq!(endless.duration, Some(LONGEST_TIME));
    }
}
