//! What the ask edge keeps of one proxy pod, besides what the book knows. It decides nothing.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::keys;
use pilotage_model::manifest::{ManifestError, SourcePod};
use pilotage_proxy::{
    Ranked,
    config::PolicyId,
    kept::LeftOut,
    milestones::Told,
    placing::{Order, Want, Wishes},
    plugins::GrantFailure,
};
use pilotage_runtime::weight;
use pilotage_sched::PodInfo;
use tokio::sync::oneshot;

use super::{loss::Fate, traced::Traced};
use crate::ask::{act::Source, progress::Progress};

/// A manifest that weighs no more is kept as it was read: a usual one weighs a third of that.
const LIGHT: usize = 64 << 10;

/// One proxy pod.
pub(super) struct Proxy {
    pub(super) pod: Arc<Pod>,
    /// Nothing, if it can't be read: that is told by the scheduler's own report.
    pub(super) info: Option<Arc<PodInfo>>,
    pub(super) want: Want,
    /// Those of its saved manifest, once they are read.
    wishes: Option<Wishes>,
    /// The manifest, as long as somebody may be asked, if it is light: else it is read again when somebody is.
    pub(super) source: Option<Source>,
    pub(super) policy: PolicyId,
    /// What a cycle chose, and where it waits for the end.
    pub(super) choice: Option<(String, oneshot::Sender<Result<(), GrantFailure>>)>,
    /// Why not the other targets, when the choice was made.
    pub(super) passed_over: Option<String>,
    /// What the others had said by then, if that says nothing of them.
    pub(super) others: Option<String>,
    pub(super) ranking: Vec<Ranked>,
    pub(super) order: Option<Order>,
    pub(super) ranked_at: Option<Duration>,
    /// Other pods kept it away from some node then.
    pub(super) kept_away: bool,
    /// Where it waits for its turn.
    pub(super) queued: Vec<String>,
    pub(super) progress: Progress,
    pub(super) traced: Traced,
    /// By events of its stages.
    pub(super) told: Told,
    /// For the dashboard.
    pub(super) fate: Fate,
}

impl Proxy {
    /// Nothing is known of it yet but this version.
    pub(super) fn new(pod: Arc<Pod>, policy: PolicyId) -> Self {
        let mut proxy = Self {
            pod: Arc::default(),
            info: None,
            want: Want::default(),
            wishes: None,
            source: None,
            policy,
            choice: None,
            passed_over: None,
            others: None,
            ranking: Vec::new(),
            order: None,
            ranked_at: None,
            kept_away: false,
            queued: Vec::new(),
            progress: Progress::default(),
            traced: Traced::default(),
            told: Told::default(),
            fate: Fate::default(),
        };
        proxy.set_pod(pod, policy);
        proxy
    }

    /// It is there in this version.
    pub(super) fn set_pod(&mut self, pod: Arc<Pod>, policy: PolicyId) {
        self.info = PodInfo::parse(Arc::clone(&pod)).ok().map(Arc::new);
        let is_whole = LeftOut::of(&pod) == LeftOut::Nothing;
        // The edge is told of a pod many times, and its manifest hardly ever changes.
        if is_whole && manifest_of(&pod) != manifest_of(&self.pod) {
            self.wishes = None;
        }
        let wishes = self.wishes.get_or_insert_with(|| {
            if !is_whole {
                return Wishes::default();
            }
            let text = manifest_of(&pod).ok_or(ManifestError::Missing);
            let source = text.and_then(SourcePod::parse);
            // One that can't be read wishes nothing; it is told when a target is asked.
            let wishes = source.as_ref().map(Wishes::of_source).unwrap_or_default();
            self.source = match source {
                Ok(source) if weight::of(source.value()) > LIGHT => None,
                source => Some(source.map(Arc::new).map_err(|error| error.to_string())),
            };
            wishes
        });
        let want = self.info.as_ref().map(|info| Want::of(info, wishes));
        let want = want.unwrap_or_default();
        if (&want, policy) != (&self.want, self.policy) {
            // It asks for something else.
            self.ranked_at = None;
        }
        self.want = want;
        if pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
        {
            self.source = None;
        }
        (self.pod, self.policy) = (pod, policy);
    }
}

fn manifest_of(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations
        .get(keys::SOURCE_POD_MANIFEST)
        .map(|text| &**text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unreadable_manifest_wishes_nothing_and_is_told_when_a_target_is_asked() {
        let pod = |version: &str, manifest: &str| -> Arc<Pod> {
            let pod = json!({
                "metadata": {
                    "namespace": "shop", "name": "p", "uid": "u", "resourceVersion": version,
                    "annotations": { keys::SOURCE_POD_MANIFEST: manifest },
                },
                "spec": { "containers": [{ "name": "c" }] },
            });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let mut proxy = Proxy::new(pod("1", "a: ["), PolicyId::default());
        assert_eq!(proxy.wishes, Some(Wishes::default()));
        let why = proxy.source.clone().unwrap().unwrap_err();
        assert!(!why.is_empty());
        let good = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n";
        proxy.set_pod(pod("2", good), PolicyId::default());
        assert!(proxy.source.clone().unwrap().is_ok());
    }

    #[test]
    fn a_heavy_manifest_is_read_for_its_wishes_and_not_kept() {
        let pod = |version: &str, volumes: usize| -> Pod {
            let manifest = json!({
                "metadata": { "name": "p" },
                "spec": {
                    "containers": [],
                    "nodeSelector": { keys::REGION_LABELS[0]: "fra" },
                    "volumes": vec![json!({ "name": "v", "emptyDir": {} }); volumes],
                },
            });
            let pod = json!({
                "metadata": {
                    "namespace": "shop", "name": "p", "uid": "u", "resourceVersion": version,
                    "annotations": { keys::SOURCE_POD_MANIFEST: manifest.to_string() },
                },
                "spec": { "containers": [{ "name": "c" }] },
            });
            serde_json::from_value(pod).unwrap()
        };
        let mut proxy = Proxy::new(Arc::new(pod("1", 1)), PolicyId::default());
        let wishes = proxy.wishes.clone();
        assert!(proxy.source.is_some() && wishes != Some(Wishes::default()));
        proxy.set_pod(Arc::new(pod("2", 1_000)), PolicyId::default());
        assert!(proxy.source.is_none());
        assert_eq!(proxy.wishes, wishes);
        // What isn't known any more is as it was.
        let mut left = pod("3", 1_000);
        pilotage_proxy::kept::slim(&mut left, weight::of);
        proxy.set_pod(Arc::new(left), PolicyId::default());
        assert_eq!(proxy.wishes, wishes);
    }
}
