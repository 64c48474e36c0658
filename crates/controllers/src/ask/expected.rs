//! Where each pod without a place is expected: one node at most, whoever else is asked for it. Others are spread by it
//! before it is chosen; from then on the scheduler counts it itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pilotage_sched::PodInfo;

/// Whether a pod says anything of other pods.
pub(super) fn minds_others(pod: &PodInfo) -> bool {
    pod.needs.spread.is_some() || !pod.needs.pod_affinity.is_empty()
}

/// All pods that are expected somewhere.
#[derive(Debug, Default)]
pub(super) struct Expected {
    by_uid: BTreeMap<String, (String, Arc<PodInfo>)>,
    /// Who of them has terms that may keep others away or draw them: in a burst of plain pods nobody.
    speaking: BTreeSet<String>,
}

impl Expected {
    /// A pod is expected on this node, or nowhere.
    pub(super) fn set(&mut self, uid: &str, at: Option<(&str, &Arc<PodInfo>)>) {
        let Some((node, info)) = at else {
            self.speaking.remove(uid);
            self.by_uid.remove(uid);
            return;
        };
        let known = self.by_uid.get(uid);
        if known.is_some_and(|(known, version)| known == node && Arc::ptr_eq(version, info)) {
            return;
        }
        if info.needs.pod_affinity.is_empty() {
            self.speaking.remove(uid);
        } else {
            self.speaking.insert(uid.to_owned());
        }
        let at = (node.to_owned(), Arc::clone(info));
        self.by_uid.insert(uid.to_owned(), at);
    }

    /// Those that may matter to this pod, each with its node: all if it says anything of other pods, else those that
    /// do.
    pub(super) fn beside(&self, pod: &PodInfo) -> impl Iterator<Item = (&str, &Arc<PodInfo>)> {
        let (all, speaking) = if minds_others(pod) {
            (Some(&self.by_uid), None)
        } else {
            (None, Some(&self.speaking))
        };
        let speaking = speaking.into_iter().flatten();
        let speaking = speaking.filter_map(|uid| self.by_uid.get(uid));
        let all = all.into_iter().flat_map(BTreeMap::values);
        all.chain(speaking)
            .map(|(node, info)| (node.as_str(), info))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, spec: &Value) -> Arc<PodInfo> {
        let pod =
            json!({ "metadata": { "name": uid, "namespace": "shop", "uid": uid }, "spec": spec });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        Arc::new(PodInfo::parse(Arc::new(pod)).unwrap())
    }

    #[test]
    fn plain_pods_look_only_at_those_that_speak_of_others() {
        let term = json!({ "topologyKey": "zone", "labelSelector": {} });
        let shy = json!({ "containers": [], "affinity": { "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term] } } });
        let (plain, shy) = (pod("plain", &json!({ "containers": [] })), pod("shy", &shy));
        let mut expected = Expected::default();
        let beside = |expected: &Expected, pod: &PodInfo| -> Vec<String> {
            let others = expected.beside(pod);
            others.map(|(_, other)| other.uid.to_string()).collect()
        };
        expected.set("plain", Some(("a", &plain)));
        assert!(beside(&expected, &plain).is_empty());
        assert_eq!(beside(&expected, &shy), ["plain"]);
        expected.set("shy", Some(("a", &shy)));
        assert_eq!(beside(&expected, &plain), ["shy"]);
        assert_eq!(beside(&expected, &shy), ["plain", "shy"]);
        expected.set("shy", None);
        assert!(beside(&expected, &plain).is_empty());
    }
}
