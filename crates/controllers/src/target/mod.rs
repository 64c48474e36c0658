//! The target controller: says in each Target's status whether it is valid, connected and authorized, and tells
//! mistakes of ours about it; and renews the token that it is reached by (`renew`).
//!
//! Observes the registry and nothing else; decides in `decide`; writes only what changed.

mod decide;
#[cfg(test)]
mod fuzz;
pub(crate) mod mistakes;
pub mod rbac;
mod renew;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use pilotage_clusters::{Registry, Target, TargetObject};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{self, CALL_LIMIT};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::moment::from_now;
use pilotage_runtime::ready::Gate;
use serde_json::json;
use tokio::sync::watch as cell;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::status::{self, Written};
use decide::{News, Plan, Told};
use renew::{Renewal, Renewer};

/// Pause after a failed write.
const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(500), Duration::from_secs(30)).spread(0.3);

/// So long nobody is told of a new Target's troubles, which most have: its Secret comes later, its rights in the target
/// aren't known to all API servers there. What lasts longer is told then, and is the first that its author hears.
const SETTLES: Duration = Duration::from_secs(5);

/// Keeps the status of all targets of `registry`, until `shutdown`; `ready` is released when they are known.
///
/// The registry must ask for [`rbac::NEEDS`].
pub fn run(
    client: Client,
    registry: Registry,
    events: pilotage_sched_driver::publish::Recorder,
    leadership: Leadership,
    ready: Gate,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    async move {
        let telling = mistakes::tell(registry.mistakes(), events, leadership.clone());
        let reporter = Reporter {
            controller: "pilotage".into(),
            instance: None,
        };
        let recorder = Recorder::new(client.clone(), reporter);
        let known = async {
            registry.synced().await;
            ready.release();
        };
        let each = registry.for_each("target status", &shutdown, move |target, stop| {
            let (told, renewal) = cell::channel(None);
            let leads = leadership.clone();
            let renewer = Renewer::new(client.clone(), leads, target.clone(), told);
            let keeper = Keeper {
                client: client.clone(),
                recorder: recorder.clone(),
                leadership: leadership.clone(),
                target,
                renewal,
            };
            async move {
                let both = async { tokio::join!(keeper.run(), renewer.run()) };
                stop.run_until_cancelled(Box::pin(both)).await;
            }
        });
        tokio::join!(
            each,
            shutdown.run_until_cancelled(known),
            shutdown.run_until_cancelled(telling)
        );
    }
    .boxed()
}

struct Keeper {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    target: Arc<Target>,
    renewal: cell::Receiver<Option<Renewal>>,
}

impl Keeper {
    async fn run(self) {
        let (mut objects, mut states) = (self.target.objects(), self.target.state());
        let mut rights = self.target.authorization();
        let mut identities = self.target.identity();
        let mut turned_away = self.target.turned_away();
        let mut tried = self.target.tried();
        let mut renewal = self.renewal.clone();
        let mut failures = 0_u32;
        // The version that was written over: until the watch brings the next, the status isn't known.
        let mut outdated = None;
        let is_new = objects.borrow().status.conditions.is_empty();
        let mut settles = is_new.then(|| from_now(SETTLES));
        loop {
            // Nothing waits between this question and the write.
            self.leadership.acquired().await;
            let object = objects.borrow_and_update().clone();
            // Before the state, which it is set after: that state is of this version or a newer one.
            let version = tried.borrow_and_update().clone();
            let connection = states.borrow_and_update().clone();
            let authorization = rights.borrow_and_update().clone();
            let identity = identities.borrow_and_update().clone();
            let why = turned_away.borrow_and_update().clone();
            let renewed = renewal.borrow_and_update().clone();
            let mut pause = None;
            if outdated.as_ref() != Some(&object.resource_version)
                && let Some(plan) = decide::decide(
                    &object,
                    &connection,
                    &authorization,
                    identity.as_ref(),
                    Told {
                        turned_away: why.as_deref(),
                        renewal: renewed.as_ref(),
                    },
                    &Time(Timestamp::now()),
                    version.as_deref(),
                )
            {
                match self.act(&object, plan, settles.is_some()).await {
                    Ok(()) => {
                        failures = 0;
                        outdated = Some(object.resource_version.clone());
                    }
                    Err(error) => {
                        tracing::warn!(target_key = %object.key, %error, "failed to write the status of a target");
                        failures = failures.saturating_add(1);
                        pause = Some(BACKOFF.delay(failures, dice()));
                    }
                }
            }
            if let Some(pause) = pause {
                sleep(pause).await;
                continue;
            }
            // The senders live in the target.
            tokio::select! {
                _ = objects.changed() => {}
                _ = states.changed() => {}
                _ = rights.changed() => {}
                _ = identities.changed() => {}
                _ = turned_away.changed() => {}
                _ = tried.changed() => {}
                // Whose sender goes with this task.
                Ok(()) = renewal.changed() => {}
                () = sleep_until(settles.unwrap_or_else(Instant::now)), if settles.is_some() => {
                    settles = None;
                    // Nothing waits between this question and the events.
                    self.leadership.acquired().await;
                    let object = objects.borrow().clone();
                    for item in decide::troubles(&object.status.conditions) {
                        self.tell(&object, item).await;
                    }
                }
            }
        }
    }

    /// Troubles aren't told while the Target `settles`.
    async fn act(
        &self,
        object: &TargetObject,
        plan: Plan,
        settles: bool,
    ) -> Result<(), call::CallError> {
        let Plan {
            conditions,
            node,
            cluster_uid,
            kubeconfig_version,
            news,
        } = plan;
        let status = json!({
            "node": node, "clusterUid": cluster_uid, "kubeconfigVersion": kubeconfig_version, "conditions": conditions,
        });
        let url = object.url();
        let written = status::write(&self.client, &url, &object.resource_version, &status).await?;
        if written == Written::Yes {
            for item in news.into_iter().filter(|item| !(item.warning && settles)) {
                self.tell(object, item).await;
            }
        }
        Ok(())
    }

    /// Events are a courtesy: a lost one costs nothing.
    async fn tell(&self, object: &TargetObject, news: News) {
        let News {
            warning,
            reason,
            message,
        } = news;
        let event = Event {
            type_: if warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.to_owned(),
            note: Some(message.chars().take(1000).collect()),
            action: "Connect".to_owned(),
            secondary: None,
        };
        let reference = object.reference();
        let publish = self.recorder.publish(&event, &reference);
        if let Err(error) = call::within(CALL_LIMIT, publish).await {
            tracing::debug!(target_key = %object.key, %error, "failed to publish an event");
        }
    }
}
