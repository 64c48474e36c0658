//! Tells a pod that was sent to a target of what it names and nobody copies: once, when it is sent.
//!
//! It is there whatever follows, and must not know targets.

use std::collections::HashSet;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use pilotage_clusters::{Event, Watch};
use pilotage_model::followed::unfollowed;
use pilotage_runtime::caught::caught;
use pilotage_runtime::lease::Leadership;
use pilotage_sched_driver::publish::{EventType, Occurrence, Recorder, Regarding};
use tokio_util::sync::CancellationToken;

use super::needs::node_of;
use super::place::CONTROLLER;

/// Tells of the source's proxy pods, until `shutdown`.
pub fn tell_unfollowed(
    proxies: Watch<Pod>,
    leadership: Leadership,
    events: Recorder,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    async move {
        let telling = tell(&proxies, &leadership, &events);
        shutdown.run_until_cancelled(telling).await;
    }
    .boxed()
}

async fn tell(proxies: &Watch<Pod>, leadership: &Leadership, events: &Recorder) {
    let mut changes = proxies.subscribe();
    let mut book = Book::default();
    while let Some(event) = changes.recv().await {
        match caught(|| book.hear(&event)) {
            Ok(Some((regarding, note))) if leadership.is_leader() => events.record(Occurrence {
                regarding,
                type_: EventType::Warning,
                reason: "NotFollowed",
                action: "Follow",
                note,
                controller: CONTROLLER.into(),
            }),
            Ok(_) => {}
            Err(panic) => tracing::error!(panic, "to see what doesn't follow a pod panicked"),
        }
    }
}

/// Who was told.
#[derive(Default)]
struct Book {
    /// UIDs of pods that are there, were sent somewhere and name such objects.
    told: HashSet<String>,
    /// All that were there at the start are known.
    synced: bool,
}

impl Book {
    /// Whom to tell what.
    fn hear(&mut self, event: &Event<Pod>) -> Option<(Regarding, String)> {
        let pod = match event {
            Event::Applied(pod) => pod,
            Event::Deleted(pod) | Event::Gone(pod) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.told.remove(uid);
                }
                return None;
            }
            Event::Synced => {
                self.synced = true;
                return None;
            }
        };
        let (uid, spec) = (pod.metadata.uid.as_ref()?, pod.spec.as_ref()?);
        node_of(pod)?;
        if self.told.contains(uid) {
            return None;
        }
        let named = unfollowed(spec);
        if named.is_empty() || !self.told.insert(uid.clone()) {
            return None;
        }
        // One that is bound at the start was told by the process before.
        let is_bound = spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
        let is_over = pod.metadata.deletion_timestamp.is_some() || (is_bound && !self.synced);
        (!is_over).then(|| (Regarding::pod(pod), note(&named)))
    }
}

fn note(named: &[String]) -> String {
    format!(
        "{}: no such object follows a pod. In its target the pod uses what has these names there, and waits while it \
         isn't there",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilotage_api::keys;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, sent: bool, node: Option<&str>, claim: Option<&str>) -> Arc<Pod> {
        let record = sent.then_some("admiralty-shop-paris/u/1");
        let volumes = claim
            .map(|name| json!([{ "name": "a", "persistentVolumeClaim": { "claimName": name } }]));
        let pod = json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": uid,
                "annotations": record.map(|record| json!({ keys::GRANTED_TO: record })),
            },
            "spec": {
                "schedulerName": keys::PROXY_SCHEDULER,
                "nodeName": node,
                "containers": [],
                "volumes": volumes,
            },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_pod_is_told_once_when_it_is_sent() {
        let mut book = Book::default();
        let mut told = |event| book.hear(&event).map(|(_, note)| note);
        let node = Some("admiralty-shop-paris");
        let claim = Some("data");
        // A process before this one has told it.
        assert_eq!(told(Event::Applied(pod("old", true, node, claim))), None);
        assert_eq!(told(Event::Synced), None);
        assert_eq!(told(Event::Applied(pod("old", true, node, claim))), None);
        assert_eq!(told(Event::Applied(pod("u", false, None, claim))), None);
        assert_eq!(told(Event::Applied(pod("plain", true, None, None))), None);
        let note = told(Event::Applied(pod("u", true, None, claim))).unwrap();
        assert!(note.starts_with("PersistentVolumeClaim data: "), "{note}");
        assert_eq!(told(Event::Applied(pod("u", true, node, claim))), None);
        // Nothing is kept of who is gone.
        assert_eq!(told(Event::Deleted(pod("u", true, node, claim))), None);
        assert_eq!(told(Event::Gone(pod("old", true, node, claim))), None);
        assert!(book.told.is_empty());
    }
}
