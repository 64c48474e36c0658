//! All chaperons that a process knows, by parent: the store that decisions are made on.
//!
//! It is fed by watches and by replies to our own writes, in any order: versions decide which is newer. A UID counts as
//! *gone* only if the API server said so; what merely isn't listed any more is absent, which proves nothing.
//!
//! A view stands here as long as the watch's store keeps its object, which knows objects by namespace and name: what
//! goes there goes here, whatever its labels say by then. So the bounds of the store hold for the views, too.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::{PodChaperon, keys};

use crate::{
    door::TurnedAway,
    reaction::Reaction,
    view::{ChaperonView, ProxyView, Said, version},
};

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

impl Change {
    /// Nothing but that it isn't as before.
    fn of(parent: String) -> Self {
        Self {
            parent,
            gone: None,
            answered: false,
        }
    }
}

/// What came of a target's word.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// UIDs of the parents for which something has changed.
    pub parents: Vec<String>,
    /// Why it counts for nothing, if so. What was known of that chaperon before isn't known any more.
    pub turned_away: Option<TurnedAway>,
    /// What was answered to the last of these parents, if this process knew that it was asked for there.
    pub answer: Option<Reaction>,
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

/// So many chaperons of one parent are known in one target: one, and some that a plain source has left.
const MOST: usize = 8;

/// Namespace and name.
type Place = (String, String);

/// Chaperons by the UID of their parent.
#[derive(Debug, Default)]
pub struct World {
    by_parent: HashMap<String, Vec<ChaperonView>>,
    /// By virtual node and place: UID of the parent under which the view stands.
    standing: HashMap<String, HashMap<Place, String>>,
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

    /// UIDs of the parents that have a chaperon behind `node`, some of them more than once.
    pub(crate) fn parents_at(&self, node: &str) -> impl Iterator<Item = &str> {
        let places = self.standing.get(node).into_iter();
        places.flat_map(HashMap::values).map(String::as_str)
    }

    /// Takes in what a watch tells of a chaperon behind `node`: what changes, of the parents that it had and has.
    pub fn take_in(&mut self, node: &str, news: ChaperonNews) -> Vec<Change> {
        match news {
            ChaperonNews::Applied(chaperon) => self.apply(node, chaperon),
            ChaperonNews::Deleted(chaperon) => {
                let uid = chaperon.metadata.uid.clone();
                let Some(parent) = self.leave(node, &chaperon.metadata, uid.as_deref()) else {
                    let parent = parent_uid(&chaperon);
                    let news = parent.map(|parent| Change {
                        gone: uid,
                        ..Change::of(parent)
                    });
                    return news.into_iter().collect();
                };
                vec![Change {
                    gone: uid,
                    ..Change::of(parent)
                }]
            }
            ChaperonNews::Vanished(chaperon) => {
                let meta = &chaperon.metadata;
                let parent = self.leave(node, meta, meta.uid.as_deref());
                let parent = parent.or_else(|| parent_uid(&chaperon));
                parent.into_iter().map(Change::of).collect()
            }
        }
    }

    /// Whether there is room for one more chaperon of its parent, if it is one. A target may show any number of them;
    /// the one that is named as the parent's own, if that is known, always finds room.
    pub(crate) fn has_room(
        &self,
        node: &str,
        proxy: Option<&ProxyView>,
        news: &ChaperonNews,
    ) -> bool {
        let ChaperonNews::Applied(chaperon) = news else {
            return true;
        };
        let name = chaperon.metadata.name.as_ref();
        let is_own = proxy.is_some_and(|proxy| name == Some(&proxy.chaperon_name()));
        let parent = parent_uid(chaperon).unwrap_or_default();
        let known = place(&chaperon.metadata).and_then(|it| self.standing.get(node)?.get(&it));
        is_own
            || known == Some(&parent)
            || self.of(&parent).iter().filter(|c| c.node == node).count() < MOST
    }

    /// What a watch tells counts for nothing, and its store has it instead of what was known, which goes. That proves
    /// nothing.
    pub(crate) fn turn_away(&mut self, node: &str, news: &ChaperonNews) -> Option<Change> {
        let meta = &news.chaperon().metadata;
        let uid = match news {
            ChaperonNews::Applied(_) => None,
            ChaperonNews::Deleted(_) | ChaperonNews::Vanished(_) => {
                Some(meta.uid.as_deref().unwrap_or_default())
            }
        };
        self.leave(node, meta, uid).map(Change::of)
    }

    /// Takes in what came back of a write. What stands under another parent stays there until the watch says so.
    pub fn fold(&mut self, node: &str, chaperon: Arc<PodChaperon>) -> Option<Change> {
        let stands = place(&chaperon.metadata).and_then(|it| self.standing.get(node)?.get(&it));
        if stands.is_some() && stands != parent_uid(&chaperon).as_ref() {
            return None;
        }
        self.apply(node, chaperon).pop()
    }

    /// A version of a chaperon behind `node`; nothing if it is no news, or has no parent.
    fn apply(&mut self, node: &str, chaperon: Arc<PodChaperon>) -> Vec<Change> {
        let (Some(parent), Some(place)) = (parent_uid(&chaperon), place(&chaperon.metadata)) else {
            return Vec::new();
        };
        let Some(view) = ChaperonView::of(node, chaperon) else {
            return Vec::new();
        };
        let Some((stood, known)) = self.known(node, &place) else {
            return vec![self.enter(parent, place, view)];
        };
        if version(&known.resource_version) >= version(&view.resource_version) {
            return Vec::new();
        }
        // A newer object of the same name with another UID: the older one no longer exists.
        let gone = (known.uid != view.uid).then(|| known.uid.clone());
        if *stood != parent {
            let left = Change {
                gone,
                ..Change::of(stood.clone())
            };
            self.leave(node, &view.object.metadata.clone(), None);
            return vec![left, self.enter(parent, place, view)];
        }
        let before = if gone.is_some() {
            Said::default()
        } else {
            known.answer()
        };
        let change = Change {
            answered: view.answer() != before,
            gone,
            parent,
        };
        if let Some(siblings) = self.by_parent.get_mut(&change.parent)
            && let Some(known) = siblings.iter_mut().find(|c| c.is_at(node, &place))
        {
            *known = view;
        }
        vec![change]
    }

    fn known(&self, node: &str, place: &Place) -> Option<(&String, &ChaperonView)> {
        let parent = self.standing.get(node)?.get(place)?;
        let siblings = self.by_parent.get(parent)?;
        let known = siblings.iter().find(|c| c.is_at(node, place))?;
        Some((parent, known))
    }

    fn enter(&mut self, parent: String, place: Place, view: ChaperonView) -> Change {
        let answered = view.answer() != Said::default();
        let places = self.standing.entry(view.node.clone()).or_default();
        places.insert(place, parent.clone());
        self.by_parent.entry(parent.clone()).or_default().push(view);
        Change {
            answered,
            ..Change::of(parent)
        }
    }

    /// Whatever stands where this object does goes, or only what has this UID; under which parent it stood.
    fn leave(&mut self, node: &str, meta: &ObjectMeta, uid: Option<&str>) -> Option<String> {
        let place = place(meta)?;
        let (parent, known) = self.known(node, &place)?;
        if uid.is_some_and(|uid| uid != known.uid) {
            return None;
        }
        let parent = parent.clone();
        self.retain(&parent, |c| !c.is_at(node, &place));
        Some(parent)
    }

    /// Of this parent's chaperons only those stay for which `is_own` holds.
    pub fn retain(&mut self, parent: &str, is_own: impl Fn(&ChaperonView) -> bool) {
        let Some(siblings) = self.by_parent.get_mut(parent) else {
            return;
        };
        for view in siblings.extract_if(.., |c| !is_own(c)) {
            if let (Some(place), Entry::Occupied(mut places)) = (
                place(&view.object.metadata),
                self.standing.entry(view.node.clone()),
            ) {
                places.get_mut().remove(&place);
                if places.get().is_empty() {
                    places.remove();
                }
            }
        }
        if siblings.is_empty() {
            self.by_parent.remove(parent);
        }
    }

    /// A live read or a refused write said that this chaperon is gone.
    pub fn remove(&mut self, parent: &str, node: &str, uid: &str) {
        self.retain(parent, |c| c.node != node || c.uid != uid);
    }

    /// The target isn't one of ours any more; returns the parents that had chaperons there, and these.
    pub fn drop_target(&mut self, node: &str) -> (Vec<String>, Dropped) {
        let places = self.standing.remove(node).unwrap_or_default();
        let mut parents: Vec<String> = places.into_values().collect();
        parents.sort();
        parents.dedup();
        let mut dropped = Vec::new();
        for parent in &parents {
            if let Some(siblings) = self.by_parent.get_mut(parent) {
                dropped.extend(siblings.extract_if(.., |c| c.node == node));
                if siblings.is_empty() {
                    self.by_parent.remove(parent);
                }
            }
        }
        (parents, Dropped(dropped))
    }
}

/// Chaperons of a target that went. To free thousands of them takes longer than a step may.
#[derive(Debug, Default)]
pub struct Dropped(Vec<ChaperonView>);

impl Dropped {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
impl World {
    /// Where all views stand: virtual node, namespace and name; the index says the same.
    pub(crate) fn places(&self) -> std::collections::BTreeSet<(String, String, String)> {
        let views = self.by_parent.iter().flat_map(|(parent, siblings)| {
            assert!(!siblings.is_empty(), "{parent} is kept for nothing");
            siblings.iter().map(move |view| (parent, view))
        });
        let mut all = std::collections::BTreeSet::new();
        for (parent, view) in views {
            let (namespace, name) = place(&view.object.metadata).unwrap();
            let stands = &self.standing[&view.node][&(namespace.clone(), name.clone())];
            assert_eq!(stands, parent);
            assert!(all.insert((view.node.clone(), namespace, name)));
        }
        assert_eq!(
            self.standing.values().map(HashMap::len).sum::<usize>(),
            all.len()
        );
        assert!(self.standing.values().all(|places| !places.is_empty()));
        all
    }
}

fn parent_uid(chaperon: &PodChaperon) -> Option<String> {
    let labels = chaperon.metadata.labels.as_ref()?;
    labels.get(keys::PARENT_UID).cloned()
}

fn place(meta: &ObjectMeta) -> Option<Place> {
    meta.namespace.clone().zip(meta.name.clone())
}

#[cfg(test)]
mod tests;
