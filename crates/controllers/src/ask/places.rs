//! The virtual nodes as the ask edge ranks pods over them: whom each suits, its published room, and who is asked there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};
use pilotage_api::keys;
use pilotage_proxy::{ChaperonView, class::Class, rank::Room};
use pilotage_sched::resources::Resources;

/// What of a node decides whom it suits.
#[derive(PartialEq)]
struct Terms {
    labels: Option<BTreeMap<String, String>>,
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

/// What is kept of one virtual node.
#[derive(Default)]
struct Place {
    /// What decides whom the node suits. Its room changes all the time, and only says whom to ask first.
    terms: Option<Terms>,
    shapes: Vec<(i64, Resources)>,
    /// It let a question pass without an answer, and hasn't answered any since.
    silent: bool,
    /// Pods that were asked there and may still take room that isn't published as taken.
    outstanding: BTreeSet<String>,
    /// Those of them that it hasn't answered.
    unanswered: BTreeSet<String>,
}

/// All virtual nodes.
#[derive(Default)]
pub(super) struct Places {
    by_node: BTreeMap<String, Place>,
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
        place.shapes = shapes.unwrap_or_default();
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
        self.by_node.remove(node).is_some()
    }

    /// A pod is gone.
    pub(super) fn forget(&mut self, pod: &str) {
        for place in self.by_node.values_mut() {
            place.outstanding.remove(pod);
            place.unanswered.remove(pod);
        }
    }

    /// A pod is being asked for at a node.
    pub(super) fn asked(&mut self, pod: &str, node: &str) {
        if let Some(place) = self.by_node.get_mut(node) {
            place.outstanding.insert(pod.to_owned());
            place.unanswered.insert(pod.to_owned());
        }
    }

    /// A node let a question pass, or answered one.
    pub(super) fn set_silent(&mut self, node: &str, silent: bool) {
        if let Some(place) = self.by_node.get_mut(node) {
            place.silent = silent;
        }
    }

    /// These are the chaperons of an unplaced pod; a placed one has none that counts.
    pub(super) fn see(&mut self, pod: &str, chaperons: &[ChaperonView]) {
        for (node, place) in &mut self.by_node {
            let here = || chaperons.iter().filter(|c| c.node == *node);
            put(
                &mut place.outstanding,
                pod,
                here().any(ChaperonView::is_outstanding),
            );
            let unanswered = here().any(|c| c.class == Class::Asked);
            put(&mut place.unanswered, pod, unanswered);
        }
    }

    /// Other pods than this one that are asked at a node and may still take room there.
    pub(super) fn others_at(&self, node: &str, pod: &str) -> u64 {
        let Some(place) = self.by_node.get(node) else {
            return 0;
        };
        let own = u64::from(place.outstanding.contains(pod));
        place.outstanding.len() as u64 - own
    }

    /// Questions that wait for an answer, over all nodes but those that are silent anyway.
    pub(super) fn open_questions(&self) -> usize {
        let places = self.by_node.values().filter(|place| !place.silent);
        places.map(|place| place.unanswered.len()).sum()
    }

    /// What ranking reads.
    pub(super) fn rooms(&self) -> BTreeMap<String, Room> {
        let rooms = self.by_node.iter().map(|(node, place)| {
            let room = Room {
                shapes: place.shapes.clone(),
                outstanding: i64::try_from(place.outstanding.len()).unwrap_or(i64::MAX),
                silent: place.silent,
            };
            (node.clone(), room)
        });
        rooms.collect()
    }
}

fn put(set: &mut BTreeSet<String>, pod: &str, is_in: bool) {
    if !is_in {
        set.remove(pod);
    } else if !set.contains(pod) {
        set.insert(pod.to_owned());
    }
}
