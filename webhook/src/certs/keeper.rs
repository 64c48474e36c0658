//! The Secret that holds the certificates: read, decided on, written by compare-and-swap, watched, and handed over.
//!
//! Any number of replicas do this on the same Secret; who loses a write takes what the winner wrote. The Secret's key
//! `state.json` is the whole truth; `ca.crt`, `tls.crt` and `tls.key` repeat parts of it for people and other tools. A
//! deleted Secret means "rotate the CA now": a running replica writes back what it has and publishes a new CA, so that
//! nothing breaks.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_runtime::moment;
use serde_json::json;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Material;
use super::check::{self, CheckError};
use super::issue::{self, IssueError};
use super::plan::{self, Step, Timings};

const STATE: &str = "state.json";
/// Longest time between two looks at the wall clock: timers stand still while a machine sleeps.
const LOOK: Duration = Duration::from_mins(5);
const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_secs(30)).spread(0.5);

/// Why the certificates can't be kept.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The Secret can't be read.
    #[error("failed to read secret {name}: {source}")]
    Read {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: CallError,
    },
    /// The Secret can't be written.
    #[error("failed to write secret {name}: {source}")]
    Write {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: CallError,
    },
    /// A certificate can't be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// What was made isn't what an API server would accept.
    #[error("the certificates just made can't be used: {0}")]
    Unusable(#[source] CheckError),
    /// The material can't be written down.
    #[error("failed to write the certificates as JSON: {0}")]
    Encode(#[source] serde_json::Error),
}

/// Keeps one Secret.
#[derive(Debug)]
pub struct Keeper {
    secrets: Api<Secret>,
    name: String,
    names: Vec<String>,
    timings: Timings,
    current: watch::Sender<Option<Material>>,
}

impl Keeper {
    /// Keeps the secret `namespace`/`name` with certificates for `names`.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        names: Vec<String>,
        timings: Timings,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            name: name.to_owned(),
            names,
            timings,
            current: watch::Sender::new(None),
        }
    }

    /// What the Secret holds; `None` until it was read or made.
    pub fn material(&self) -> watch::Receiver<Option<Material>> {
        self.current.subscribe()
    }

    /// Keeps the Secret until `token` is cancelled. Failures are logged and tried again: what is served stays good for
    /// long.
    pub async fn run(self, token: CancellationToken) {
        let selection = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        // The watch only tells that it is time to look; a broken one is begun anew by the watcher itself.
        let changes =
            watcher(self.secrets.clone(), selection).filter_map(async |event| match event {
                Ok(Event::Init | Event::InitApply(_)) => None,
                Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => Some(true),
                Err(error) => {
                    tracing::warn!(%error, "watch of the certificate secret failed");
                    Some(false)
                }
            });
        let mut changes = pin!(changes);
        let mut failures = 0_u32;
        loop {
            let wait = match self.look().await {
                Ok(until) => {
                    failures = 0;
                    Duration::try_from(until.duration_since(Timestamp::now()))
                        .unwrap_or_default()
                        .min(LOOK)
                }
                Err(error) => {
                    tracing::error!(%error, "failed to keep the webhook's certificates");
                    failures = failures.saturating_add(1);
                    BACKOFF.delay(failures, dice())
                }
            };
            let mut watch_failures = 0_u32;
            let deadline = moment::from_now(wait);
            loop {
                tokio::select! {
                    () = token.cancelled() => return,
                    () = tokio::time::sleep_until(deadline) => break,
                    change = changes.next() => {
                        if change == Some(true) {
                            break;
                        }
                        watch_failures = watch_failures.saturating_add(1);
                        // Polling the stream again is what begins the watch anew.
                        tokio::select! {
                            () = token.cancelled() => return,
                            () = tokio::time::sleep(BACKOFF.delay(watch_failures, dice())) => {}
                        }
                    }
                }
            }
        }
    }

    /// Takes all steps that are due; returns when the next one is.
    async fn look(&self) -> Result<Timestamp, KeepError> {
        loop {
            let read = within(CALL_LIMIT, self.secrets.get_opt(&self.name)).await;
            let secret = read.map_err(|source| KeepError::Read {
                name: self.name.clone(),
                source,
            })?;
            let now = Timestamp::now();
            let (held, step) = self.judge(secret.as_ref(), now);
            let Some(new) = issue::perform(&step, held.as_ref(), &self.names, now, &self.timings)?
            else {
                let Step::Keep { until } = step else { continue };
                self.hand_over(held);
                return Ok(until);
            };
            if !matches!(step, Step::Publish { .. } | Step::Retire) {
                // Without this, names or a clock that nobody accepts would make us write for ever.
                check::usable(&new, &self.names, now).map_err(KeepError::Unusable)?;
            }
            tracing::info!(secret = self.name, ?step, "writing certificates");
            match self.write(secret, &new).await {
                Ok(()) => self.hand_over(Some(new)),
                Err(KeepError::Write { source, .. })
                    if matches!(
                        source.kind(),
                        Failure::Conflict | Failure::AlreadyExists | Failure::NotFound
                    ) =>
                {
                    tracing::info!(secret = self.name, "another replica was first");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What to build on, and what to do with it.
    fn judge(&self, secret: Option<&Secret>, now: Timestamp) -> (Option<Material>, Step) {
        let decide = |held: Option<&Material>| plan::decide(held, &self.names, now, &self.timings);
        let held = secret.and_then(|secret| {
            let material = decode(secret);
            if material.is_none() {
                tracing::warn!(
                    secret = self.name,
                    "the certificate secret can't be read, making it anew"
                );
            }
            material
        });
        if let Some(held) = held {
            let step = decide(Some(&held));
            if !matches!(step, Step::Keep { .. }) {
                return (Some(held), step);
            }
            match check::usable(&held, &self.names, now) {
                Ok(()) => return (Some(held), step),
                Err(error) => {
                    tracing::warn!(%error, "the certificate secret can't be used, making it anew");
                }
            }
        }
        // The Secret is gone or damaged. What this replica serves is still trusted, so build on that.
        let remembered = self.current.borrow().clone();
        match remembered.filter(|held| check::usable(held, &self.names, now).is_ok()) {
            Some(held) => (
                Some(held),
                Step::Publish {
                    from: plan::after(now, self.timings.overlap),
                },
            ),
            None => (None, Step::Create),
        }
    }

    async fn write(&self, secret: Option<Secret>, material: &Material) -> Result<(), KeepError> {
        let data = encode(material).map_err(KeepError::Encode)?;
        let written = if let Some(secret) = secret {
            let version = secret.metadata.resource_version.unwrap_or_default();
            // With the version it is a compare-and-swap; other keys and labels are left alone.
            let patch = json!({ "metadata": { "resourceVersion": version }, "data": data });
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            within(CALL_LIMIT, self.secrets.patch(&self.name, &params, &patch)).await
        } else {
            let labels = [("app.kubernetes.io/name".to_owned(), "pilotage".to_owned())];
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    labels: Some(BTreeMap::from(labels)),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data: Some(data),
                ..Secret::default()
            };
            let params = PostParams::default();
            within(CALL_LIMIT, self.secrets.create(&params, &secret)).await
        };
        written.map(drop).map_err(|source| KeepError::Write {
            name: self.name.clone(),
            source,
        })
    }

    fn hand_over(&self, material: Option<Material>) {
        self.current.send_if_modified(|current| {
            let changed = *current != material;
            *current = material;
            changed
        });
    }
}

/// The Secret's data.
fn encode(material: &Material) -> Result<BTreeMap<String, ByteString>, serde_json::Error> {
    let state = serde_json::to_string_pretty(&json!(material))?;
    let entries = [
        (STATE, state),
        ("ca.crt", material.bundle()),
        ("tls.crt", material.serving.certificate.clone()),
        ("tls.key", material.serving.key.clone()),
    ];
    Ok(entries
        .into_iter()
        .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
        .collect())
}

fn decode(secret: &Secret) -> Option<Material> {
    let ByteString(state) = secret.data.as_ref()?.get(STATE)?;
    serde_json::from_slice(state).ok()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn the_material_survives_the_secret() {
        let hours = SignedDuration::from_hours;
        let timings = Timings {
            ca: hours(3000),
            serving: hours(300),
            overlap: hours(1),
        };
        let names = ["a.svc".to_owned()];
        let now = Timestamp::now();
        let perform = |step, held: Option<&Material>| {
            issue::perform(&step, held, &names, now, &timings).unwrap()
        };
        let created = perform(Step::Create, None).unwrap();
        let published = perform(Step::Publish { from: now }, Some(&created)).unwrap();
        let switched = perform(Step::Switch { until: now }, Some(&published)).unwrap();
        for material in [created, published, switched] {
            let data = encode(&material).unwrap();
            assert_eq!(data["ca.crt"].0, material.bundle().as_bytes());
            let secret = Secret {
                data: Some(data),
                ..Default::default()
            };
            assert_eq!(decode(&secret), Some(material.clone()));
            assert!(
                !format!("{material:?}").contains("PRIVATE"),
                "keys stay out of logs"
            );
        }
        assert_eq!(decode(&Secret::default()), None);
    }
}
