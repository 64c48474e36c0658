//! Tells a pod that was sent to a target of what it can't do without and nobody copies: once, when it is sent, and if
//! there is time for it.
//!
//! It is there whatever follows, and must not know what a target has or gives. These objects may come there from
//! elsewhere, so that nothing is wrong yet.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Event, Registry, Watch};
use pilotage_model::followed::{required, unfollowed};
use pilotage_runtime::caught::caught;
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::slice::Slice;
use pilotage_sched_driver::publish::{EventType, Occurrence, Recorder, Regarding};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry as MetricsRegistry;
use tokio_util::sync::CancellationToken;

use super::FollowedKind;
use super::needs::node_of;
use super::place::{CONTROLLER, is_home};

/// So many objects of kinds that don't follow here are named; who has more has read enough.
const MOST: usize = 16;

/// What is told by.
pub struct Unfollowed {
    /// The source's identity.
    pub cluster: ClusterUid,
    /// Its targets.
    pub registry: Registry,
    /// Its proxy pods ([`crate::feedback::watch_proxies`]).
    pub proxies: Watch<Pod>,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Takes events about pods.
    pub events: Recorder,
    /// What follows.
    pub kinds: BTreeSet<FollowedKind>,
    /// Counts what wasn't told ([`count_untold`]).
    pub untold: Counter,
}

/// Registers a counter of what isn't told, since other events come first.
pub fn count_untold(registry: &mut MetricsRegistry) -> Counter {
    let untold = Counter::default();
    registry.sub_registry_with_prefix("pilotage").register(
        "unfollowed_events_dropped",
        "Events of pods about what they name and nobody copies that were not written, since there were too many",
        untold.clone(),
    );
    untold
}

/// Tells of the source's proxy pods, until `shutdown`.
pub fn tell_unfollowed(with: Unfollowed, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
    async move {
        shutdown.run_until_cancelled(tell(&with)).await;
    }
    .boxed()
}

async fn tell(with: &Unfollowed) {
    let mut changes = with.proxies.subscribe();
    let mut book = Book::of(with.kinds.clone());
    let stays = |node: &str| {
        let target = with.registry.by_node(node);
        target.is_some_and(|target| is_home(&target, &with.cluster))
    };
    let mut slice = Slice::begin();
    while let Some(event) = changes.recv().await {
        match caught(|| book.hear(&event, stays)) {
            Ok(Some((regarding, note))) if with.leadership.is_leader() => {
                let occurrence = Occurrence {
                    regarding,
                    type_: EventType::Normal,
                    reason: "NotFollowed",
                    action: "Follow",
                    note,
                    controller: CONTROLLER.into(),
                };
                with.events.offer(occurrence, &with.untold);
            }
            Ok(_) => {}
            Err(panic) => tracing::error!(panic, "to see what doesn't follow a pod panicked"),
        }
        slice.pause().await;
    }
}

/// What tells whether a spec may name something else: of a pod that was sent, ephemeral containers alone may come. An
/// API server that is older than 1.33 counts no generations.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    generation: Option<i64>,
    ephemeral: usize,
}

impl Version {
    fn of(pod: &Pod, spec: &PodSpec) -> Self {
        Self {
            generation: pod.metadata.generation,
            ephemeral: spec.ephemeral_containers.as_ref().map_or(0, Vec::len),
        }
    }
}

/// Who was told.
struct Book {
    /// What follows.
    kinds: BTreeSet<FollowedKind>,
    /// UIDs of pods that are there, were sent somewhere and need such objects.
    told: HashSet<String>,
    /// Those that need no such object, as they were when that was seen: a spec is long, and its status changes often.
    looked_at: HashMap<String, Version>,
    /// All that were there at the start are known.
    synced: bool,
}

impl Book {
    fn of(kinds: BTreeSet<FollowedKind>) -> Self {
        Self {
            kinds,
            told: HashSet::new(),
            looked_at: HashMap::new(),
            synced: false,
        }
    }

    /// Whom to tell what. Where a pod that was sent to a node stays at home (`stays`), all is there.
    fn hear(
        &mut self,
        event: &Event<Pod>,
        stays: impl Fn(&str) -> bool,
    ) -> Option<(Regarding, String)> {
        let pod = match event {
            Event::Applied(pod) => pod,
            Event::Deleted(pod) | Event::Gone(pod) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.told.remove(uid);
                    self.looked_at.remove(uid);
                }
                return None;
            }
            Event::Synced => {
                self.synced = true;
                return None;
            }
        };
        let (uid, spec) = (pod.metadata.uid.as_ref()?, pod.spec.as_ref()?);
        let node = node_of(pod)?;
        if self.told.contains(uid) || stays(&node) {
            return None;
        }
        let version = Version::of(pod, spec);
        if self.looked_at.get(uid) == Some(&version) {
            return None;
        }
        let Some(note) = self.note(spec) else {
            self.looked_at.insert(uid.clone(), version);
            return None;
        };
        self.looked_at.remove(uid);
        self.told.insert(uid.clone());
        // One that is bound at the start was told by the process before.
        let is_bound = spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
        let is_over = pod.metadata.deletion_timestamp.is_some() || (is_bound && !self.synced);
        (!is_over).then(|| (Regarding::pod(pod), note))
    }

    /// What doesn't follow a pod with this spec, and why.
    fn note(&self, spec: &PodSpec) -> Option<String> {
        let mut parts = Vec::new();
        let (mut off, mut named) = (BTreeSet::new(), Vec::new());
        for need in required(spec) {
            let kind = FollowedKind::of(need.kind);
            if !self.kinds.contains(&kind) && named.len() < MOST {
                off.insert(kind.flag());
                named.push(format!("{} {}", need.kind, need.name));
            }
        }
        if !named.is_empty() {
            let off: Vec<_> = off.into_iter().collect();
            parts.push(format!(
                "{}: not copied, since --follow of the controllers has no {}",
                named.join(", "),
                off.join(" and no ")
            ));
        }
        let never = unfollowed(spec);
        if !never.is_empty() {
            parts.push(format!(
                "{}: no such object follows a pod",
                never.join(", ")
            ));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "{}. In its target the pod uses what has these names there, and waits until it is there",
                parts.join(". ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilotage_api::keys;
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, sent: bool, node: Option<&str>, spec: &Value) -> Arc<Pod> {
        let record = sent.then_some("admiralty-shop-paris/u/1");
        let mut pod = json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": uid,
                "annotations": record.map(|record| json!({ keys::GRANTED_TO: record })),
            },
            "spec": spec,
        });
        pod["spec"]["schedulerName"] = keys::PROXY_SCHEDULER.into();
        pod["spec"]["nodeName"] = node.into();
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// What names a claim, a `ConfigMap` and a Secret, and a Secret that it can do without.
    fn names_all() -> Value {
        let from =
            json!([{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "key" } }]);
        json!({
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [{ "name": "c", "envFrom": from }],
            "volumes": [{ "name": "a", "persistentVolumeClaim": { "claimName": "data" } }],
        })
    }

    fn names_nothing() -> Value {
        json!({ "containers": [] })
    }

    const NODE: Option<&str> = Some("admiralty-shop-paris");

    #[test]
    fn a_pod_is_told_once_when_it_is_sent() {
        let mut book = Book::of(FollowedKind::ALL.into());
        let mut told = |event| book.hear(&event, |_| false).map(|(_, note)| note);
        let old = || pod("old", true, NODE, &names_all());
        // A process before this one has told it.
        assert_eq!(told(Event::Applied(old())), None);
        assert_eq!(told(Event::Synced), None);
        assert_eq!(told(Event::Applied(old())), None);
        let unsent = pod("u", false, None, &names_all());
        assert_eq!(told(Event::Applied(unsent)), None);
        let plain = pod("plain", true, None, &names_nothing());
        assert_eq!(told(Event::Applied(plain)), None);
        let note = told(Event::Applied(pod("u", true, None, &names_all()))).unwrap();
        assert!(note.starts_with("PersistentVolumeClaim data: "), "{note}");
        let bound = || pod("u", true, NODE, &names_all());
        assert_eq!(told(Event::Applied(bound())), None);
        // Nothing is kept of who is gone.
        assert_eq!(told(Event::Deleted(bound())), None);
        assert_eq!(told(Event::Gone(old())), None);
        assert!(book.told.is_empty());
    }

    #[test]
    fn what_names_nothing_is_looked_at_again_only_when_its_spec_may_have_changed() {
        let mut book = Book::of(BTreeSet::new());
        let mut told = |event| book.hear(&event, |_| false).is_some();
        assert!(!told(Event::Applied(pod(
            "u",
            true,
            NODE,
            &names_nothing()
        ))));
        // No API server lets a spec change like that: this one isn't read.
        assert!(!told(Event::Applied(pod("u", true, None, &names_all()))));
        let mut debugged = names_nothing();
        let from = json!([{ "configMapRef": { "name": "settings" } }]);
        debugged["ephemeralContainers"] = json!([{ "name": "debug", "envFrom": from }]);
        assert!(told(Event::Applied(pod("u", true, None, &debugged))));
        assert!(!told(Event::Applied(pod("u", true, None, &debugged))));

        let mut next = (*pod("v", true, None, &names_nothing())).clone();
        assert!(!told(Event::Applied(Arc::new(next.clone()))));
        next.metadata.generation = Some(2);
        next.spec = pod("v", true, None, &names_all()).spec.clone();
        assert!(told(Event::Applied(Arc::new(next))));

        let plain = || pod("w", true, None, &names_nothing());
        assert!(!told(Event::Applied(plain())));
        for gone in [
            plain(),
            pod("u", true, None, &debugged),
            pod("v", true, None, &debugged),
        ] {
            told(Event::Gone(gone));
        }
        assert!(book.looked_at.is_empty() && book.told.is_empty());
    }

    #[test]
    fn what_the_flag_leaves_out_is_named_with_the_flag() {
        let told = |kinds: &[FollowedKind]| {
            let mut book = Book::of(kinds.iter().copied().collect());
            let sent = Event::Applied(pod("u", true, None, &names_all()));
            book.hear(&sent, |_| false).unwrap().1
        };
        let note = told(&[]);
        let both = "ConfigMap settings, Secret key: not copied, since --follow of the controllers has no configmaps \
                    and no secrets. PersistentVolumeClaim data: no such object follows a pod. ";
        assert!(note.starts_with(both), "{note}");
        let note = told(&[FollowedKind::Secrets]);
        assert!(note.contains("settings"), "{note}");
        assert!(!note.contains("key"), "{note}");
    }

    #[test]
    fn a_pod_is_not_told_of_what_it_can_do_without() {
        let mut book = Book::of(BTreeSet::new());
        let from = json!([{ "configMapRef": { "name": "settings", "optional": true } }]);
        let spec = json!({
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [{ "name": "c", "envFrom": from }],
            "volumes": [{ "name": "a", "secret": { "secretName": "key", "optional": true } }],
        });
        let told = book.hear(&Event::Applied(pod("u", true, None, &spec)), |_| false);
        assert!(told.is_none(), "{:?}", told.map(|(_, note)| note));
    }

    #[test]
    fn what_is_not_told_is_counted() {
        let mut registry = MetricsRegistry::default();
        count_untold(&mut registry).inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let counted = text.contains("pilotage_unfollowed_events_dropped_total 1\n");
        assert!(counted, "{text}");
    }

    #[test]
    fn a_pod_that_stays_at_home_has_all_that_it_names() {
        let mut book = Book::of(BTreeSet::new());
        let sent = Event::Applied(pod("u", true, None, &names_all()));
        let told = book.hear(&sent, |node| Some(node) == NODE);
        assert!(told.is_none(), "{:?}", told.map(|(_, note)| note));
    }
}
