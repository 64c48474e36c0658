//! What happened to each elected pod, put together from what the clusters' watches show. Pure: moments are arguments.
//!
//! A moment is the time since the demo's start at which the watch showed something, by this process's own clock:
//! clocks of different clusters are never compared.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use pilotage_api::{PodChaperon, keys};

/// One elected pod.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// Its name in the source.
    pub name: String,
    /// When it was first seen there.
    pub created: Duration,
    /// By cluster: when it was asked for.
    pub asked: BTreeMap<String, Duration>,
    /// By cluster: when a node was first reserved for it.
    pub reserved: BTreeMap<String, Duration>,
    /// By cluster: why it was last refused.
    pub refused: BTreeMap<String, String>,
    /// Virtual node that it is bound to, and since when.
    pub placed: Option<(String, Duration)>,
    /// By cluster: the real node that its delegate is bound to, and since when.
    pub delegates: BTreeMap<String, (String, Duration)>,
    /// When its status in the source first said that it runs or has run.
    pub ran: Option<Duration>,
    /// Its phase in the source.
    pub phase: String,
}

/// Something that a watch showed.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A pod of the source is as given.
    Proxy(Box<Pod>),
    /// A chaperon of the cluster is as given.
    Chaperon(String, Box<PodChaperon>),
    /// A pod of the cluster is as given.
    Delegate(String, Box<Pod>),
}

/// All stories so far.
#[derive(Debug, Default)]
pub struct Timeline {
    // By UID. Chaperons and delegates are sometimes seen before the pod that they are for.
    stories: BTreeMap<String, Story>,
}

impl Timeline {
    /// Takes in what was seen, and tells what is worth telling.
    pub fn see(&mut self, now: Duration, seen: Seen) -> Option<String> {
        match seen {
            Seen::Proxy(pod) => self.proxy(now, &pod),
            Seen::Chaperon(cluster, chaperon) => self.chaperon(now, &cluster, &chaperon),
            Seen::Delegate(cluster, pod) => self.delegate(now, &cluster, &pod),
        }
    }

    /// The stories of pods that have been seen in the source, by name.
    pub fn stories(&self) -> Vec<&Story> {
        let mut stories: Vec<_> = self
            .stories
            .values()
            .filter(|story| !story.name.is_empty())
            .collect();
        stories.sort_by(|a, b| a.name.cmp(&b.name));
        stories
    }

    fn proxy(&mut self, now: Duration, pod: &Pod) -> Option<String> {
        let uid = pod.uid()?;
        let story = self.stories.entry(uid).or_default();
        if story.name.is_empty() {
            story.name = pod.name_any();
            story.created = now;
        }
        let status = pod.status.as_ref();
        let phase = status
            .and_then(|status| status.phase.as_deref())
            .unwrap_or("Pending");
        phase.clone_into(&mut story.phase);
        if story.ran.is_none() && matches!(phase, "Running" | "Succeeded") {
            story.ran = Some(now);
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone())?;
        if story.placed.is_some() {
            return None;
        }
        story.placed = Some((node.clone(), now));
        let after = seconds(now.saturating_sub(story.created));
        Some(format!(
            "pod {} is bound to {node}, {after} after it was created",
            story.name
        ))
    }

    fn chaperon(&mut self, now: Duration, cluster: &str, chaperon: &PodChaperon) -> Option<String> {
        let parent = chaperon.labels().get(keys::PARENT_UID)?.clone();
        let annotations = chaperon.annotations();
        let name = annotations
            .get(keys::PARENT_NAME)
            .cloned()
            .unwrap_or_default();
        let story = self.stories.entry(parent).or_default();
        story.asked.entry(cluster.to_owned()).or_insert(now);
        if annotations
            .get(keys::IS_RESERVED)
            .is_some_and(|value| value == keys::TRUE)
        {
            story.reserved.entry(cluster.to_owned()).or_insert(now);
        }
        let refusal = annotations.get(keys::REFUSAL)?;
        if story.refused.get(cluster) == Some(refusal) {
            return None;
        }
        story.refused.insert(cluster.to_owned(), refusal.clone());
        Some(format!("pod {name} is refused by {cluster}: {refusal}"))
    }

    fn delegate(&mut self, now: Duration, cluster: &str, pod: &Pod) -> Option<String> {
        let parent = pod.labels().get(keys::PARENT_UID)?.clone();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone())?;
        let story = self.stories.entry(parent).or_default();
        story
            .delegates
            .entry(cluster.to_owned())
            .or_insert((node, now));
        None
    }
}

/// A duration as people read it.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: serde_json::Value) -> Box<Pod> {
        Box::new(serde_json::from_value(value).unwrap())
    }

    fn chaperon(annotations: &serde_json::Value) -> Box<PodChaperon> {
        let object = json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": {
                "name": "web-1",
                "labels": { keys::PARENT_UID: "u1" },
                "annotations": annotations,
            },
            "spec": {},
        });
        Box::new(serde_json::from_value(object).unwrap())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_pod_is_followed_through_both_clusters() {
        let mut timeline = Timeline::default();
        let proxy = |spec, phase| {
            pod(
                json!({"metadata": {"name": "web", "uid": "u1"}, "spec": spec, "status": {"phase": phase}}),
            )
        };
        // The other cluster's watch may be faster than ours.
        timeline.see(at(90), Seen::Chaperon("large".into(), chaperon(&json!({}))));
        assert!(timeline.stories().is_empty());
        timeline.see(
            at(100),
            Seen::Proxy(proxy(json!({"containers": []}), "Pending")),
        );
        let reserved = chaperon(&json!({ keys::IS_RESERVED: "true" }));
        timeline.see(at(200), Seen::Chaperon("large".into(), reserved.clone()));
        timeline.see(at(250), Seen::Chaperon("large".into(), reserved));
        let refused =
            || chaperon(&json!({ keys::REFUSAL: "Unschedulable: cpu", keys::PARENT_NAME: "web" }));
        let line = timeline.see(at(260), Seen::Chaperon("small".into(), refused()));
        assert_eq!(
            line.as_deref(),
            Some("pod web is refused by small: Unschedulable: cpu")
        );
        assert_eq!(
            timeline.see(at(270), Seen::Chaperon("small".into(), refused())),
            None
        );
        let delegate = json!({
            "metadata": {"name": "web-1", "labels": { keys::PARENT_UID: "u1" }},
            "spec": {"containers": [], "nodeName": "large-1"},
        });
        timeline.see(
            at(300),
            Seen::Delegate("large".into(), pod(delegate.clone())),
        );
        let spec = json!({"containers": [], "nodeName": "admiralty-default-large"});
        let line = timeline.see(at(340), Seen::Proxy(proxy(spec.clone(), "Pending")));
        let want = "pod web is bound to admiralty-default-large, 0.24 s after it was created";
        assert_eq!(line.as_deref(), Some(want));
        assert_eq!(
            timeline.see(at(400), Seen::Proxy(proxy(spec.clone(), "Running"))),
            None
        );

        let stories = timeline.stories();
        let story = stories[0];
        assert_eq!(story.reserved["large"], at(200));
        assert_eq!(story.delegates["large"], ("large-1".to_owned(), at(300)));
        assert_eq!(story.ran, Some(at(400)));
    }
}
