//! Installing and repairing the admission configuration: server-side apply of [`crate::objects`] whenever the
//! certificates change or somebody touches the objects. What they say is decided there. Where somebody else installs
//! them, it is looked once whether the policies are there.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CALL_LIMIT, CallError, within};
use pilotage_runtime::ready::Gate;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::objects::{self, POLICY, Reach, TARGETS_POLICY, Writers};

/// Field manager of the admission configuration.
const FIELD_MANAGER: &str = "pilotage-webhook";
/// Shortest time between two looks, so that a fight with another writer stays polite.
const PAUSE: Duration = Duration::from_millis(100);
const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_secs(30)).spread(0.5);

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All {
        /// How the API server reaches the webhook.
        reach: Reach,
        /// Who may write records.
        writers: Writers,
    },
    /// Only the CA bundle, into a configuration that somebody else installs.
    BundleOnly,
}

/// Why the configuration isn't installed.
#[derive(Debug, Error)]
pub enum InstallError {
    /// The API server refused.
    #[error("failed to install {kind} {name}: {source}")]
    Apply {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: CallError,
    },
}

/// A policy or a binding of one, which guards pods or Targets.
#[derive(Debug)]
pub struct Guard {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether it is there.
    pub there: Result<bool, CallError>,
}

/// What guards pods and Targets, and whether it is there; what it says isn't looked at.
pub async fn guards(client: &Client) -> Vec<Guard> {
    let mut guards = Vec::new();
    for name in [POLICY, TARGETS_POLICY] {
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ] {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
            let found = within(CALL_LIMIT, api.get_opt(name)).await;
            guards.push(Guard {
                kind,
                name,
                there: found.map(|found| found.is_some()),
            });
        }
    }
    guards
}

/// Says of each guard that somebody else has to install whether it is there.
async fn tell_of_guards(client: &Client) {
    for Guard { kind, name, there } in guards(client).await {
        match there {
            Ok(true) => tracing::info!(kind, name, "installed by somebody else, as expected"),
            Ok(false) => tracing::warn!(
                kind,
                name,
                "expected from somebody else and not there: until it is, anybody may write what it guards; \
                 \"pilotage admission\" prints it"
            ),
            Err(error) => tracing::warn!(
                kind,
                name,
                %error,
                "expected from somebody else, and nobody knows whether it is there"
            ),
        }
    }
}

/// Keeps the configuration installed.
pub struct Installer {
    client: Client,
    scope: Scope,
    metrics: Arc<Metrics>,
}

impl Installer {
    /// Installs with `client`.
    pub fn new(client: Client, scope: Scope, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            scope,
            metrics,
        }
    }

    /// Keeps the configuration as it should be with the newest of `bundles` until `token` is cancelled. `None` for no
    /// bundle at all (somebody else puts it there). `installed` is released after the first success.
    pub async fn run(
        self,
        mut bundles: watch::Receiver<Option<String>>,
        installed: Gate,
        token: CancellationToken,
    ) {
        if self.scope == Scope::BundleOnly {
            tokio::select! {
                () = token.cancelled() => return,
                () = tell_of_guards(&self.client) => {}
            }
        }
        let mut touched = self.touched();
        let mut installed = Some(installed);
        let mut failures = 0_u32;
        loop {
            let bundle = bundles.borrow_and_update().clone();
            let wait = match self.install(bundle.as_deref()).await {
                Ok(()) => {
                    failures = 0;
                    if let Some(gate) = installed.take() {
                        gate.release();
                    }
                    None
                }
                Err(error) => {
                    tracing::error!(%error, "failed to install the admission configuration");
                    failures = failures.saturating_add(1);
                    Some(BACKOFF.delay(failures, dice()))
                }
            };
            tokio::select! {
                () = token.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            tokio::select! {
                () = token.cancelled() => return,
                changed = bundles.changed() => {
                    if changed.is_err() {
                        // Whoever knew the bundle has ended, so the process is about to.
                        return token.cancelled().await;
                    }
                }
                () = touched.next_change() => {}
                () = sleep(wait) => {}
            }
        }
    }

    fn wanted(&self, bundle: Option<&str>) -> Vec<Value> {
        match (&self.scope, bundle) {
            (Scope::All { reach, writers }, bundle) => objects::all(reach, writers, bundle),
            (Scope::BundleOnly, Some(bundle)) => vec![objects::bundle_only(bundle)],
            (Scope::BundleOnly, None) => Vec::new(),
        }
    }

    /// Writes what isn't as wanted. One refused object doesn't stop the others; the first error is returned.
    async fn install(&self, bundle: Option<&str>) -> Result<(), InstallError> {
        let mut outcome = Ok(());
        for object in self.wanted(bundle) {
            if let Err(error) = self.apply(&object).await {
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    async fn apply(&self, wanted: &Value) -> Result<(), InstallError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&wanted["kind"]), text(&wanted["metadata"]["name"]));
        let api = self.api(&kind);
        let wrap = |source| InstallError::Apply {
            kind: kind.clone(),
            name: name.clone(),
            source,
        };
        let live = within(CALL_LIMIT, api.get_opt(&name)).await.map_err(wrap)?;
        let live = live.and_then(|live| serde_json::to_value(live).ok());
        if live
            .as_ref()
            .is_some_and(|live| objects::covers(live, wanted))
        {
            return Ok(());
        }
        // Force: nobody else may own what guards the pods.
        let params = PatchParams::apply(FIELD_MANAGER).force();
        within(CALL_LIMIT, api.patch(&name, &params, &Patch::Apply(wanted)))
            .await
            .map_err(wrap)?;
        self.metrics.configuration_written();
        tracing::info!(
            kind,
            name,
            repaired = live.is_some(),
            "admission configuration written"
        );
        Ok(())
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(kind))
    }

    /// Tells when somebody touched one of the objects.
    fn touched(&self) -> Touched {
        let mut watches = SelectAll::new();
        for object in self.wanted(Some("")) {
            let kind = object["kind"].as_str().unwrap_or_default();
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let selection = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::all_with(self.client.clone(), &resource(kind));
            watches.push(watcher(api, selection).boxed());
        }
        Touched {
            watches,
            failures: 0,
        }
    }
}

type MetadataEvent = Result<Event<PartialObjectMeta<DynamicObject>>, watcher::Error>;

struct Touched {
    watches: SelectAll<BoxStream<'static, MetadataEvent>>,
    failures: u32,
}

impl Touched {
    /// Completes when something may have changed. It may be dropped and called again.
    async fn next_change(&mut self) {
        loop {
            match self.watches.next().await {
                Some(Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone)) => {
                    self.failures = 0;
                    return;
                }
                Some(Ok(Event::Init | Event::InitApply(_))) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "watch of the admission configuration failed");
                    self.failures = self.failures.saturating_add(1);
                    // Asking the stream again begins the watch anew.
                    tokio::time::sleep(BACKOFF.delay(self.failures, dice())).await;
                }
                None => std::future::pending().await,
            }
        }
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

fn resource(kind: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    ApiResource::from_gvk_with_plural(&gvk, plural(kind))
}

/// Plural of the three kinds that are installed.
fn plural(kind: &str) -> &'static str {
    match kind {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
        _ => "mutatingwebhookconfigurations",
    }
}
