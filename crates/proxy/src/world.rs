//! All chaperons that a process knows, by parent: the store that decisions are made on.
//!
//! It is fed by watches and by replies to our own writes, in any order: versions decide which is newer. A UID counts as
//! *gone* only if the API server said so; what merely isn't listed any more is absent, which proves nothing.

use std::{collections::HashMap, sync::Arc};

use pilotage_api::{PodChaperon, keys};

use crate::view::{ChaperonView, Said, version};

/// What a change of the store means for one proxy pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// UID of the parent.
    pub parent: String,
    /// UID of the chaperon that is proved to be gone, if any.
    pub gone: Option<String>,
    /// The target has answered something that it hadn't before.
    pub answered: bool,
}

/// What a watch tells of a chaperon.
#[derive(Clone, Debug)]
pub enum ChaperonNews {
    /// It is there, in this version.
    Applied(Arc<PodChaperon>),
    /// The API server said that it is gone; this was its last version.
    Deleted(Arc<PodChaperon>),
    /// It isn't listed any more; nobody saw it go.
    Vanished(Arc<PodChaperon>),
}

impl ChaperonNews {
    /// The chaperon that it tells of.
    pub fn chaperon(&self) -> &Arc<PodChaperon> {
        match self {
            Self::Applied(chaperon) | Self::Deleted(chaperon) | Self::Vanished(chaperon) => {
                chaperon
            }
        }
    }
}

/// Chaperons by the UID of their parent.
#[derive(Debug, Default)]
pub struct World {
    by_parent: HashMap<String, Vec<ChaperonView>>,
}

impl World {
    /// The chaperons of one parent.
    pub fn of(&self, parent: &str) -> &[ChaperonView] {
        self.by_parent.get(parent).map_or(&[], Vec::as_slice)
    }

    /// UIDs of all parents that have a chaperon.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        self.by_parent.keys().map(String::as_str)
    }

    /// Takes in what a watch tells of a chaperon behind `node`; `None` if it is no news, or has no parent.
    pub fn take_in(&mut self, node: &str, news: ChaperonNews) -> Option<Change> {
        match news {
            ChaperonNews::Applied(chaperon) => self.apply(node, chaperon),
            ChaperonNews::Deleted(chaperon) => self.deleted(node, &chaperon),
            ChaperonNews::Vanished(chaperon) => self.vanished(node, &chaperon),
        }
    }

    /// Takes in a version of a chaperon behind `node`; `None` if it is no news, or has no parent.
    pub fn apply(&mut self, node: &str, chaperon: Arc<PodChaperon>) -> Option<Change> {
        let parent = parent_uid(&chaperon)?;
        let view = ChaperonView::of(node, chaperon)?;
        let siblings = self.by_parent.entry(parent.clone()).or_default();
        let Some(known) = siblings
            .iter_mut()
            .find(|c| c.node == node && c.name == view.name)
        else {
            let answered = view.answer() != Said::default();
            siblings.push(view);
            return Some(Change {
                parent,
                gone: None,
                answered,
            });
        };
        if version(&known.resource_version) >= version(&view.resource_version) {
            return None;
        }
        // A newer object of the same name with another UID: the older one no longer exists.
        let gone = (known.uid != view.uid).then(|| known.uid.clone());
        let before = if gone.is_some() {
            Said::default()
        } else {
            known.answer()
        };
        let answered = view.answer() != before;
        *known = view;
        Some(Change {
            parent,
            gone,
            answered,
        })
    }

    /// The API server said that this object is gone.
    pub fn deleted(&mut self, node: &str, chaperon: &PodChaperon) -> Option<Change> {
        let parent = parent_uid(chaperon)?;
        let uid = chaperon.metadata.uid.clone()?;
        self.remove(&parent, node, &uid);
        Some(Change {
            parent,
            gone: Some(uid),
            answered: false,
        })
    }

    /// The object isn't listed any more; nobody saw it go.
    pub fn vanished(&mut self, node: &str, chaperon: &PodChaperon) -> Option<Change> {
        let parent = parent_uid(chaperon)?;
        self.remove(&parent, node, chaperon.metadata.uid.as_deref()?);
        Some(Change {
            parent,
            gone: None,
            answered: false,
        })
    }

    /// Of this parent's chaperons only those stay for which `is_own` holds.
    pub fn retain(&mut self, parent: &str, is_own: impl Fn(&ChaperonView) -> bool) {
        if let Some(siblings) = self.by_parent.get_mut(parent) {
            siblings.retain(is_own);
            if siblings.is_empty() {
                self.by_parent.remove(parent);
            }
        }
    }

    /// A live read or a refused write said that this chaperon is gone.
    pub fn remove(&mut self, parent: &str, node: &str, uid: &str) {
        self.retain(parent, |c| c.node != node || c.uid != uid);
    }

    /// The target isn't one of ours any more; returns the parents that had chaperons there.
    pub fn drop_target(&mut self, node: &str) -> Vec<String> {
        let mut parents = Vec::new();
        self.by_parent.retain(|parent, siblings| {
            let before = siblings.len();
            siblings.retain(|c| c.node != node);
            if siblings.len() < before {
                parents.push(parent.clone());
            }
            !siblings.is_empty()
        });
        parents
    }
}

fn parent_uid(chaperon: &PodChaperon) -> Option<String> {
    chaperon
        .metadata
        .labels
        .as_ref()?
        .get(keys::PARENT_UID)
        .cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chaperon(uid: &str, version: &str) -> Arc<PodChaperon> {
        Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "multicluster.admiralty.io/v1alpha1",
                "kind": "PodChaperon",
                "metadata": {
                    "namespace": "shop", "name": "web-1", "uid": uid, "resourceVersion": version,
                    "labels": { keys::PARENT_UID: "p" },
                },
                "spec": {},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn an_older_version_is_no_news() {
        let mut world = World::default();
        assert!(world.apply("a", chaperon("u", "9")).is_some());
        assert_eq!(world.apply("a", chaperon("u", "9")), None);
        assert_eq!(world.apply("a", chaperon("u", "8")), None);
        assert!(world.apply("a", chaperon("u", "10")).is_some());
        assert_eq!(world.of("p").len(), 1);
    }

    #[test]
    fn a_successor_of_the_same_name_proves_that_its_predecessor_is_gone() {
        let mut world = World::default();
        world.apply("a", chaperon("u1", "1"));
        let change = world.apply("a", chaperon("u2", "5")).unwrap();
        assert_eq!(change.gone.as_deref(), Some("u1"));
        assert_eq!(world.of("p")[0].uid, "u2");
    }

    #[test]
    fn only_what_the_target_says_is_an_answer() {
        let mut world = World::default();
        let mut version = 0;
        let mut answered = |annotations: &Value, status: Value, ending: bool| {
            let mut object = serde_json::to_value(&*chaperon("u", "0")).unwrap();
            version += 1;
            let meta = &mut object["metadata"];
            meta["resourceVersion"] = json!(version.to_string());
            meta["annotations"] = annotations.clone();
            if ending {
                meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            object["status"] = status;
            let object = Arc::new(serde_json::from_value(object).unwrap());
            world.apply("a", object).unwrap().answered
        };
        let bound = json!({ "conditions": [{ "type": "PodScheduled", "status": "True" }] });
        let mut runs = bound.clone();
        runs["phase"] = json!("Running");
        let holds = json!({ keys::ATTEMPT: "1", keys::IS_RESERVED: "true" });
        let mut granted = holds.clone();
        granted[keys::ALLOWED_ATTEMPT] = json!("1");
        granted[keys::IS_ALLOWED] = json!("true");
        assert!(!answered(&json!({}), json!({}), false), "it was asked");
        assert!(answered(&holds, json!({}), false), "it holds a node");
        assert!(!answered(&granted, json!({}), false), "a grant is ours");
        assert!(answered(&granted, bound, false), "it is bound");
        assert!(!answered(&granted, runs.clone(), false), "and fares");
        assert!(!answered(&granted, runs, true), "a deletion is ours");
    }

    #[test]
    fn absence_is_no_proof_but_a_deleted_event_is() {
        let mut world = World::default();
        world.apply("a", chaperon("u", "1"));
        assert_eq!(world.vanished("a", &chaperon("u", "1")).unwrap().gone, None);
        assert!(world.of("p").is_empty());
        world.apply("a", chaperon("u", "1"));
        assert_eq!(
            world
                .deleted("a", &chaperon("u", "2"))
                .unwrap()
                .gone
                .as_deref(),
            Some("u")
        );
    }

    #[test]
    fn a_dropped_target_names_the_pods_it_concerns() {
        let mut world = World::default();
        world.apply("a", chaperon("u", "1"));
        world.apply("b", chaperon("u", "1"));
        assert_eq!(world.drop_target("a"), ["p"]);
        assert_eq!(world.of("p").len(), 1);
        assert!(world.drop_target("a").is_empty());
    }
}
