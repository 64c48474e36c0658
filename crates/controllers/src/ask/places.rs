//! The virtual nodes as the ask edge ranks pods over them: whom each suits, its published room, and who is asked there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, Taint};
use pilotage_api::keys;
use pilotage_proxy::{ChaperonView, class::Class, rank::Room};
use pilotage_sched::{Coming, PodInfo};

/// What of a node decides whom it suits.
#[derive(PartialEq)]
struct Terms {
    labels: Option<BTreeMap<String, String>>,
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

/// A pod that was asked for at a node and may still take room that isn't published as taken: what counts as coming,
/// unless the scheduler has assumed it there.
type Guest = Option<Arc<PodInfo>>;

/// What is kept of one virtual node.
#[derive(Default)]
struct Place {
    /// What decides whom the node suits. Its room changes all the time, and only says whom to ask first.
    terms: Option<Terms>,
    /// Its published room, and who is on the way there.
    room: Room,
    guests: BTreeMap<String, Guest>,
    /// Those of them that it hasn't answered.
    unanswered: BTreeSet<String>,
}

/// All virtual nodes.
#[derive(Default)]
pub(super) struct Places {
    by_node: BTreeMap<String, Place>,
    coming: Arc<Coming>,
}

impl Places {
    /// A node is there in this version; whether it suits others now than before.
    pub(super) fn apply(&mut self, node: &Node) -> bool {
        let Some(name) = node.metadata.name.clone() else {
            return false;
        };
        let annotations = node.metadata.annotations.as_ref();
        let shapes = annotations
            .and_then(|annotations| annotations.get(keys::FREE_SHAPES))
            .and_then(|text| serde_json::from_str(text).ok())
            .map(|shapes: Vec<_>| Room::shapes_of(&shapes));
        let place = self.by_node.entry(name).or_default();
        place.room.shapes = shapes.unwrap_or_default();
        let spec = node.spec.as_ref();
        let terms = Some(Terms {
            labels: node.metadata.labels.clone(),
            taints: spec.and_then(|spec| spec.taints.clone()),
            unschedulable: spec.and_then(|spec| spec.unschedulable),
        });
        let changed = place.terms != terms;
        place.terms = terms;
        changed
    }

    /// A node is gone; whether it was known.
    pub(super) fn remove(&mut self, node: &str) -> bool {
        Arc::make_mut(&mut self.coming).drop_node(node);
        self.by_node.remove(node).is_some()
    }

    /// A pod is gone.
    pub(super) fn forget(&mut self, pod: &str) {
        let coming = Arc::make_mut(&mut self.coming);
        for (node, place) in &mut self.by_node {
            place.put(node, pod, None, coming);
            place.unanswered.remove(pod);
        }
    }

    /// A pod is being asked for at a node.
    pub(super) fn asked(&mut self, pod: &str, info: Option<&Arc<PodInfo>>, node: &str) {
        if let Some(place) = self.by_node.get_mut(node) {
            let guest = Some(info.cloned());
            place.put(node, pod, guest, Arc::make_mut(&mut self.coming));
            place.unanswered.insert(pod.to_owned());
        }
    }

    /// These are the chaperons of an unplaced pod, and it `asks` for others; a placed one has none that counts. `info`:
    /// what it asks for, unless the scheduler has assumed it on a node already.
    pub(super) fn see(
        &mut self,
        pod: &str,
        info: Option<&Arc<PodInfo>>,
        chaperons: &[ChaperonView],
        asks: impl Fn(&str) -> bool,
    ) {
        let coming = Arc::make_mut(&mut self.coming);
        for (node, place) in &mut self.by_node {
            let here = || chaperons.iter().filter(|c| c.node == *node);
            let asked = asks(node);
            let guest = asked || here().any(ChaperonView::is_outstanding);
            let guest = guest.then(|| info.cloned());
            place.put(node, pod, guest, coming);
            if !asked && !here().any(|c| c.class == Class::Asked) {
                place.unanswered.remove(pod);
            } else if !place.unanswered.contains(pod) {
                place.unanswered.insert(pod.to_owned());
            }
        }
    }

    /// Other pods than this one that are asked at a node and may still take room there.
    pub(super) fn others_at(&self, node: &str, pod: &str) -> u64 {
        let Some(place) = self.by_node.get(node) else {
            return 0;
        };
        let own = u64::from(place.guests.contains_key(pod));
        (place.guests.len() as u64).saturating_sub(own)
    }

    /// Questions that wait for an answer, over all nodes but those that are silent anyway.
    pub(super) fn open_questions(&self, is_silent: impl Fn(&str) -> bool) -> usize {
        let places = self.by_node.iter().filter(|(node, _)| !is_silent(node));
        places.map(|(_, place)| place.unanswered.len()).sum()
    }

    /// What ranking reads of a node.
    pub(super) fn room(&self, node: &str) -> Option<&Room> {
        Some(&self.by_node.get(node)?.room)
    }

    /// What others than this pod will take where they are asked.
    pub(super) fn coming_beside(&self, pod: &str) -> Arc<Coming> {
        let mut coming = Arc::clone(&self.coming);
        for (node, place) in &self.by_node {
            if let Some(Some(own)) = place.guests.get(pod) {
                Arc::make_mut(&mut coming).remove(node, &own.needs.requests);
            }
        }
        coming
    }
}

impl Place {
    /// A pod is, or isn't any more, on its way to this node.
    fn put(&mut self, node: &str, pod: &str, guest: Option<Guest>, coming: &mut Coming) {
        let which = |guest: &Guest| guest.as_ref().map(Arc::as_ptr);
        if self.guests.get(pod).map(which) == guest.as_ref().map(which) {
            return;
        }
        if let Some(Some(old)) = self.guests.remove(pod) {
            coming.remove(node, &old.needs.requests);
        }
        if let Some(guest) = guest {
            if let Some(info) = &guest {
                coming.add(node, &info.needs.requests);
            }
            self.guests.insert(pod.to_owned(), guest);
        }
        self.room.outstanding = i64::try_from(self.guests.len()).unwrap_or(i64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn who_is_on_the_way_counts_once_and_goes_again() {
        let mut places = Places::default();
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
        places.apply(&node);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "p" },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] },
        }))
        .unwrap();
        let info = Arc::new(PodInfo::parse(Arc::new(pod)).unwrap());
        let outstanding = |places: &Places| places.room("a").unwrap().outstanding;
        let text = |coming: &Coming| format!("{coming:?}");
        let (mut both, mut nobody) = (Coming::default(), Coming::default());
        both.add("a", &info.needs.requests);
        nobody.add("a", &info.needs.requests);
        nobody.remove("a", &info.needs.requests);

        places.asked("p", Some(&info), "a");
        places.asked("p", Some(&info), "a");
        assert_eq!(outstanding(&places), 1);
        assert_eq!(text(&places.coming_beside("other")), text(&both));
        assert_eq!(text(&places.coming_beside("p")), text(&nobody));
        assert_eq!(
            (places.others_at("a", "p"), places.others_at("a", "q")),
            (0, 1)
        );

        // Asked twice under one name: what the newer version asks for counts.
        places.asked("p", None, "a");
        assert_eq!(outstanding(&places), 1);
        assert_eq!(text(&places.coming_beside("other")), text(&nobody));
        // The question may be on the wire still.
        places.see("p", Some(&info), &[], |_| true);
        assert_eq!(
            (outstanding(&places), places.open_questions(|_| false)),
            (1, 1)
        );
        places.see("p", Some(&info), &[], |_| false);
        assert_eq!(
            (outstanding(&places), places.open_questions(|_| false)),
            (0, 0)
        );
        assert_eq!(text(&places.coming_beside("other")), text(&nobody));
    }
}
