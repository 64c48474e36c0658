//! Tells authors of objects whose deletion waits for a finalizer of Admiralty, which nobody takes off by himself any
//! more: who deletes one sees only that it stays.
//!
//! It must not know targets, nor take a finalizer off.

use std::collections::HashSet;

use pilotage_clusters::{Event, Watch};
use pilotage_runtime::caught::caught;
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};

use super::kinds::{Followed, HELD};
use super::place::{CONTROLLER, Parts};

/// Tells of objects of one kind, for as long as it is polled.
pub(super) async fn tell_held<K: Followed>(parts: &Parts, objects: &Watch<K>) {
    // Who doesn't write need not look: a feed begins with all that is there.
    parts.leadership.acquired().await;
    let mut changes = objects.subscribe();
    let mut told = Told::default();
    while let Some(event) = changes.recv().await {
        match caught(|| told.hear(&event)) {
            Ok(Some(regarding)) if parts.leadership.is_leader() => {
                parts.events.record(Occurrence {
                    regarding,
                    type_: EventType::Warning,
                    reason: "HeldByAdmiralty",
                    action: "Follow",
                    note: note(K::KIND.name()),
                    controller: CONTROLLER.into(),
                });
            }
            Ok(_) => {}
            Err(panic) => tracing::error!(panic, "to see what Admiralty holds panicked"),
        }
    }
}

fn note(kind: &str) -> String {
    format!(
        "the {kind} is being deleted, and waits for a finalizer of Admiralty, which is left from when that ran here: \
         \"kubectl pilotage cleanup --admiralty --kubeconfig FILE\" takes all of these off"
    )
}

/// UIDs of objects whose authors were told, as long as they are there.
#[derive(Debug, Default)]
struct Told(HashSet<String>);

impl Told {
    /// Whom to tell.
    fn hear<K: Followed>(&mut self, event: &Event<K>) -> Option<Regarding> {
        match event {
            Event::Applied(object) => {
                let meta = object.meta();
                let annotations = meta.annotations.as_ref()?;
                let is_new = annotations.contains_key(HELD) && self.0.insert(meta.uid.clone()?);
                is_new.then(|| Regarding::object(&**object))
            }
            Event::Deleted(object) | Event::Gone(object) => {
                if let Some(uid) = &object.meta().uid {
                    self.0.remove(uid);
                }
                None
            }
            Event::Synced => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use pilotage_api::keys;
    use serde_json::json;

    use super::super::kinds::trim;
    use super::*;

    fn map(deleted: bool, finalizer: &str) -> Arc<ConfigMap> {
        let mut map: ConfigMap = serde_json::from_value(json!({
            "metadata": {
                "name": "settings", "namespace": "shop", "uid": "u", "finalizers": [finalizer],
                "deletionTimestamp": deleted.then_some("2026-01-01T00:00:00Z"),
                // Nobody's own words count.
                "annotations": { HELD: "" },
            },
        }))
        .unwrap();
        trim(&mut map);
        Arc::new(map)
    }

    #[test]
    fn an_author_is_told_once_of_what_admiralty_keeps_from_its_end() {
        let admiraltys = "multicluster.admiralty.io/shop-east";
        let mut told = Told::default();
        let mut hears = |event: Event<ConfigMap>| told.hear(&event).map(|regarding| regarding.name);
        for silent in [
            map(false, admiraltys),
            map(true, "example.com/mine"),
            map(true, keys::TARGET_GONE),
        ] {
            assert_eq!(hears(Event::Applied(silent)), None);
        }
        let held = || map(true, admiraltys);
        assert_eq!(hears(Event::Applied(held())).as_deref(), Some("settings"));
        assert_eq!(hears(Event::Applied(held())), None);
        assert_eq!(hears(Event::Synced), None);
        assert_eq!(hears(Event::Deleted(held())), None);
        assert!(told.0.is_empty());
    }

    #[test]
    fn the_text_says_what_helps() {
        let note = note("Secret");
        assert!(note.contains("cleanup --admiralty"), "{note}");
    }
}
