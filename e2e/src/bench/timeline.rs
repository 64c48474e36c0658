//! What became of each pod, and when, folded from what watches show. Pure: moments come with the events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use pilotage_api::keys;
use pilotage_api::record::Record;
use serde::Deserialize;

/// As much of a pod as is looked at: less to parse means less CPU taken from what is measured.
#[derive(Debug, Clone, Deserialize)]
pub struct LeanPod {
    /// Metadata.
    pub metadata: LeanMeta,
    /// Specification.
    #[serde(default)]
    pub spec: LeanSpec,
    /// Status.
    #[serde(default)]
    pub status: LeanStatus,
}

/// See [`LeanPod`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeanMeta {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Version, from which a watch goes on.
    pub resource_version: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// See [`LeanPod`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeanSpec {
    /// Where it is bound.
    pub node_name: String,
}

/// See [`LeanPod`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LeanStatus {
    /// Phase.
    pub phase: String,
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When it arrived.
    pub at: Instant,
    /// 0 is the cluster where pods are created, the others are targets.
    pub cluster: usize,
    /// It was deleted.
    pub gone: bool,
    /// The pod.
    pub pod: LeanPod,
}

/// A pod that was created, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moments {
    uid: Option<String>,
    /// The POST was sent.
    pub sent: Option<Instant>,
    /// The pod has a node in the cluster where it was created (a virtual one, if it is delegated).
    pub bound: Option<Instant>,
    /// That node.
    pub node: Option<String>,
    /// The virtual node that its record names.
    pub recorded: Option<String>,
    /// It waited for a frozen target that it was granted to, wherever it went later.
    pub held: bool,
    /// It says Running there.
    pub running: Option<Instant>,
    gone: bool,
}

/// A pod of a target: cluster and UID.
type Delegate = (usize, String);

/// All pods of one measurement.
#[derive(Debug, Default)]
pub struct Timeline {
    pods: BTreeMap<String, Moments>,
    /// By UID of the pod that they run for: when each was bound.
    bound: HashMap<String, BTreeMap<Delegate, Instant>>,
    /// Pods that exist in targets.
    alive: BTreeSet<Delegate>,
}

impl Timeline {
    /// These pods are going to be created.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let pods = names.into_iter().map(|name| (name, Moments::default()));
        Self {
            pods: pods.collect(),
            ..Self::default()
        }
    }

    /// The POST of a pod was sent at this moment.
    pub fn sent(&mut self, name: &str, at: Instant) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod.sent = Some(at);
        }
    }

    /// Takes an event in.
    pub fn see(&mut self, seen: Seen) {
        if seen.cluster == 0 {
            self.see_created(seen);
        } else {
            self.see_delegate(seen);
        }
    }

    fn see_created(&mut self, seen: Seen) {
        let Seen { at, gone, pod, .. } = seen;
        // Pods of an earlier measurement may still be on their way out.
        let Some(known) = self.pods.get_mut(&pod.metadata.name) else {
            return;
        };
        known.gone = gone;
        known.uid = Some(pod.metadata.uid);
        let record = pod.metadata.annotations.get(keys::GRANTED_TO);
        known.recorded = record
            .and_then(|text| text.parse::<Record>().ok())
            .map(|record| record.node);
        if known.bound.is_none() && !pod.spec.node_name.is_empty() {
            known.bound = Some(at);
            known.node = Some(pod.spec.node_name);
        }
        if known.running.is_none() && pod.status.phase == "Running" {
            known.running = Some(at);
        }
    }

    fn see_delegate(&mut self, seen: Seen) {
        let Seen {
            at,
            cluster,
            gone,
            mut pod,
        } = seen;
        let delegate = (cluster, pod.metadata.uid);
        if gone {
            self.alive.remove(&delegate);
        } else {
            self.alive.insert(delegate.clone());
        }
        if pod.spec.node_name.is_empty() {
            return;
        }
        if let Some(parent) = pod.metadata.labels.remove(keys::PARENT_UID) {
            let bound = self.bound.entry(parent).or_default();
            bound.entry(delegate).or_insert(at);
        }
    }

    /// The pods.
    pub fn pods(&self) -> impl Iterator<Item = &Moments> {
        self.pods.values()
    }

    fn every(&self, pass: impl Fn(&Moments) -> bool) -> bool {
        self.pods.values().all(pass)
    }

    /// Every pod runs.
    pub fn all_run(&self) -> bool {
        self.every(|pod| pod.running.is_some())
    }

    /// Every pod is bound, or recorded at this virtual node.
    pub fn all_placed_but_at(&self, node: &str) -> bool {
        self.every(|pod| pod.bound.is_some() || pod.recorded.as_deref() == Some(node))
    }

    /// Those that wait now for what this virtual node stands for count as held from now on; how many.
    pub fn hold(&mut self, node: &str) -> usize {
        let waits =
            |pod: &&mut Moments| pod.bound.is_none() && pod.recorded.as_deref() == Some(node);
        let held = self.pods.values_mut().filter(waits);
        held.map(|pod| pod.held = true).count()
    }

    /// Every pod runs, and targets have no other pods than their delegates.
    pub fn is_settled(&self, has_targets: bool) -> bool {
        self.all_run() && (!has_targets || self.alive.len() == self.pods.len())
    }

    /// Nothing is left of the pods.
    pub fn is_empty(&self) -> bool {
        self.alive.is_empty() && self.every(|pod| pod.gone)
    }

    /// What keeps [`Self::is_settled`] or [`Self::is_empty`] from holding.
    pub fn state(&self) -> String {
        let count = |pass: fn(&Moments) -> bool| self.pods.values().filter(|pod| pass(pod)).count();
        format!(
            "of {} pods {} were created, {} are bound, {} run, {} are gone; targets have {} pods",
            self.pods.len(),
            count(|pod| pod.uid.is_some()),
            count(|pod| pod.bound.is_some()),
            count(|pod| pod.running.is_some()),
            count(|pod| pod.gone),
            self.alive.len(),
        )
    }

    /// When a pod's first delegate was bound.
    pub fn delegate_bound(&self, pod: &Moments) -> Option<Instant> {
        let bound = self.bound.get(pod.uid.as_ref()?)?;
        bound.values().min().copied()
    }

    /// How many pods had more than one bound delegate.
    pub fn bound_twice(&self) -> usize {
        let twice = |pod: &&Moments| {
            let bound = pod.uid.as_ref().and_then(|uid| self.bound.get(uid));
            bound.is_some_and(|delegates| delegates.len() > 1)
        };
        self.pods.values().filter(twice).count()
    }
}

impl Moments {
    /// From the POST until a moment.
    pub fn since_sent(&self, moment: Option<Instant>) -> Option<Duration> {
        Some(moment?.saturating_duration_since(self.sent?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Story {
        zero: Instant,
        timeline: Timeline,
    }

    impl Story {
        fn see(&mut self, millis: u64, cluster: usize, gone: bool, pod: serde_json::Value) {
            self.timeline.see(Seen {
                at: self.zero + Duration::from_millis(millis),
                cluster,
                gone,
                pod: serde_json::from_value(pod).unwrap(),
            });
        }

        fn delegate(&mut self, millis: u64, cluster: usize, uid: &str, node: &str, gone: bool) {
            let labels = json!({ keys::PARENT_UID: "u" });
            let pod = json!({
                "metadata": { "name": "web-x", "uid": uid, "labels": labels },
                "spec": { "nodeName": node },
            });
            self.see(millis, cluster, gone, pod);
        }

        fn proxy(&mut self, millis: u64, node: &str, phase: &str) {
            let annotations = json!({ keys::GRANTED_TO: "admiralty-b/c/1" });
            let pod = json!({
                "metadata": { "name": "web", "uid": "u", "annotations": annotations },
                "spec": { "nodeName": node },
                "status": { "phase": phase },
            });
            self.see(millis, 0, false, pod);
        }
    }

    fn story() -> Story {
        let zero = Instant::now();
        let mut timeline = Timeline::new(["web".to_owned()]);
        timeline.sent("web", zero);
        Story { zero, timeline }
    }

    #[test]
    fn moments_are_those_of_the_first_event_that_shows_them() {
        let mut story = story();
        // Clusters are watched apart: a delegate may be seen before its proxy.
        story.delegate(10, 1, "d", "", false);
        story.delegate(20, 1, "d", "node", false);
        story.proxy(15, "", "Pending");
        assert!(story.timeline.all_placed_but_at("admiralty-b"));
        assert!(!story.timeline.all_placed_but_at("admiralty-a"));
        assert_eq!(story.timeline.hold("admiralty-a"), 0);
        assert!(!story.timeline.pods().any(|pod| pod.held));
        assert_eq!(story.timeline.hold("admiralty-b"), 1);
        assert!(story.timeline.pods().all(|pod| pod.held));
        story.proxy(30, "admiralty-b", "Pending");
        assert_eq!(story.timeline.hold("admiralty-b"), 0, "it is bound");
        story.proxy(40, "admiralty-b", "Running");
        story.proxy(50, "admiralty-b", "Running");
        let timeline = &story.timeline;
        let pod = timeline.pods().next().unwrap();
        let millis = |moment| pod.since_sent(moment).unwrap().as_millis();
        assert_eq!(millis(timeline.delegate_bound(pod)), 20);
        assert_eq!((millis(pod.bound), millis(pod.running)), (30, 40));
        assert!(timeline.is_settled(true));
        assert_eq!(timeline.bound_twice(), 0);
    }

    #[test]
    fn a_loser_unsettles_and_a_second_bound_delegate_is_never_forgotten() {
        let mut story = story();
        story.delegate(10, 1, "d", "node", false);
        story.delegate(10, 2, "e", "", false);
        story.proxy(30, "admiralty-b", "Running");
        assert!(!story.timeline.is_settled(true));
        story.delegate(40, 2, "e", "node", false);
        story.delegate(50, 2, "e", "node", true);
        assert!(story.timeline.is_settled(true));
        assert_eq!(story.timeline.bound_twice(), 1);
    }
}
