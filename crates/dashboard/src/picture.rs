//! The picture: all pods by stage, all targets with their room, and what was lost of late. It is told what is so, and
//! says what has changed since it was asked last. Pure: time is given, and nobody is asked.
//!
//! All is bounded but the numbers themselves: so many pods and targets are listed, with so long texts; the others are
//! counted.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::change::{Change, Head};
use crate::rows::{Counts, Loss, NodeSeen, Pod, PodSeen, Stage, State, Target};

/// Pods that are listed.
const MOST_PODS: usize = 40_000;
/// So many more, of those that wait, are on their way or are lost: others, however many, don't hide them.
const MOST_RESTLESS: usize = 10_000;
/// Targets that are listed.
const MOST_TARGETS: usize = 256;
/// Losses that are remembered.
const MOST_LOSSES: usize = 50;

/// What is kept of one pod.
#[derive(Debug)]
struct Known {
    stage: Stage,
    at: Arc<str>,
    since: i64,
    /// Nothing, if it is only counted.
    row: Option<Arc<Pod>>,
}

/// What is kept of one target.
#[derive(Debug, Default)]
struct Place {
    /// Whether it can be reached, and since when that is so.
    reach: Option<(State, i64)>,
    node: Option<NodeSeen>,
    counts: Counts,
    listed: bool,
}

impl Place {
    fn is_needed(&self) -> bool {
        self.reach.is_some() || self.node.is_some() || !self.counts.is_zero()
    }

    fn row(&self, node: &str) -> Target {
        let seen = self.node.clone().unwrap_or_default();
        let (state, since) = match self.reach {
            Some((state, since)) => (state, Some(since)),
            None if self.node.is_some() => (State::Connecting, None),
            None => (State::Gone, None),
        };
        // The virtual node tells what was before this process began; but of its own it may not have heard yet.
        let agrees = seen.why.is_empty() == (state == State::Connected);
        Target {
            node: Target::name(node),
            state,
            since: seen.since.filter(|_| agrees).or(since),
            why: if state == State::Connected {
                String::new()
            } else {
                seen.why
            },
            drained: seen.drained,
            cpu: seen.cpu,
            memory: seen.memory,
            pods: seen.pods,
            counts: self.counts,
        }
    }
}

/// What has changed since somebody asked, if anybody asks.
#[derive(Debug, Default)]
struct News {
    head: bool,
    losses: bool,
    targets: BTreeSet<Arc<str>>,
    targets_gone: BTreeSet<Arc<str>>,
    pods: BTreeSet<Arc<str>>,
    pods_gone: BTreeSet<Arc<str>>,
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Picture {
    leads: bool,
    counts: Counts,
    pods: HashMap<Arc<str>, Known>,
    listed: usize,
    targets: BTreeMap<Arc<str>, Place>,
    targets_listed: usize,
    losses: VecDeque<Loss>,
    /// Kept only while somebody looks.
    news: Option<News>,
}

impl Picture {
    // ---- what is told -------------------------------------------------------------------------------------------

    /// Whether this process decides from now on. Who doesn't knows of no pod.
    pub fn lead(&mut self, leads: bool) {
        if self.leads != leads {
            self.leads = leads;
            self.note(|news| news.head = true);
        }
        if !leads {
            for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
                self.forget_pod(&uid);
            }
        }
    }

    /// This is so of a pod.
    pub fn see_pod(&mut self, seen: &PodSeen<'_>, now: i64) {
        let known = self.pods.get(seen.uid);
        let stays = known.filter(|known| known.stage == seen.stage && *known.at == *seen.at);
        let since = stays.map_or_else(
            // Whoever is seen moving has come there now.
            || seen.since.filter(|_| known.is_none()).unwrap_or(now),
            |known| known.since,
        );
        let was_listed = known.is_some_and(|known| known.row.is_some());
        let most = if seen.stage.is_settled() {
            MOST_PODS
        } else {
            MOST_PODS.saturating_add(MOST_RESTLESS)
        };
        let listed = was_listed || self.listed < most;
        let row = listed.then(|| Pod::new(seen, since));
        if stays.is_some_and(|known| known.row.as_deref() == row.as_ref()) {
            return;
        }
        let counts_anew = stays.is_none();
        if counts_anew {
            self.uncount(seen.uid);
            self.count(seen.stage, seen.at);
        }
        let uid: Arc<str> = seen.uid.into();
        if listed {
            self.note(|news| {
                news.pods_gone.remove(&uid);
                news.pods.insert(uid.clone());
            });
        }
        if listed && !was_listed {
            self.listed = self.listed.saturating_add(1);
        }
        let known = Known {
            stage: seen.stage,
            at: seen.at.into(),
            since,
            row: row.map(Arc::new),
        };
        self.pods.insert(uid, known);
    }

    /// A pod is gone.
    pub fn forget_pod(&mut self, uid: &str) {
        self.uncount(uid);
        if let Some((uid, known)) = self.pods.remove_entry(uid)
            && known.row.is_some()
        {
            self.listed = self.listed.saturating_sub(1);
            self.note(|news| {
                news.pods.remove(&uid);
                news.pods_gone.insert(uid);
            });
        }
    }

    /// A target can, or can't, be reached.
    pub fn see_reach(&mut self, node: &str, state: State, now: i64) {
        self.change_target(node, |place| {
            let since = match place.reach {
                Some((known, since)) if known == state => since,
                _ => now,
            };
            place.reach = Some((state, since));
        });
    }

    /// There is no such Target any more. As long as its virtual node is there, that is shown.
    pub fn forget_reach(&mut self, node: &str, now: i64) {
        self.change_target(node, |place| {
            let stays = place.node.is_some();
            place.reach = stays.then_some((State::Gone, now));
        });
    }

    /// A virtual node shows this of its target.
    pub fn see_node(&mut self, node: &str, seen: NodeSeen) {
        let seen = seen.bounded();
        self.change_target(node, |place| place.node = Some(seen));
    }

    /// A virtual node is gone.
    pub fn forget_node(&mut self, node: &str) {
        self.change_target(node, |place| {
            place.node = None;
            place.reach = place.reach.filter(|(state, _)| *state != State::Gone);
        });
    }

    /// A target doesn't have this pod any more, for this reason. Who doesn't lead knows nothing of it.
    pub fn lose(&mut self, namespace: &str, name: &str, why: &str, now: i64) {
        if !self.leads {
            return;
        }
        self.losses.truncate(MOST_LOSSES.saturating_sub(1));
        self.losses.push_front(Loss::new(namespace, name, why, now));
        self.note(|news| news.losses = true);
    }

    fn count(&mut self, stage: Stage, at: &str) {
        self.counts.add(stage);
        self.note(|news| news.head = true);
        if !at.is_empty() {
            self.change_target(at, |place| place.counts.add(stage));
        }
    }

    fn uncount(&mut self, uid: &str) {
        let Some(known) = self.pods.get(uid) else {
            return;
        };
        let (stage, at) = (known.stage, Arc::clone(&known.at));
        self.counts.remove(stage);
        self.note(|news| news.head = true);
        if !at.is_empty() {
            self.change_target(&at, |place| place.counts.remove(stage));
        }
    }

    fn change_target(&mut self, node: &str, change: impl FnOnce(&mut Place)) {
        let node: Arc<str> = node.into();
        let place = self.targets.entry(node.clone()).or_default();
        let before = place.listed.then(|| place.row(&node));
        change(place);
        let needed = place.is_needed();
        let may_be = before.is_some() || self.targets_listed < MOST_TARGETS;
        place.listed = needed && may_be;
        let after = place.listed.then(|| place.row(&node));
        if !needed {
            self.targets.remove(&node);
        }
        if before == after {
            return;
        }
        match (&before, &after) {
            (None, Some(_)) => self.targets_listed = self.targets_listed.saturating_add(1),
            (Some(_), None) => self.targets_listed = self.targets_listed.saturating_sub(1),
            _ => {}
        }
        self.note(|news| {
            if after.is_some() {
                news.targets_gone.remove(&node);
                news.targets.insert(node);
            } else {
                news.targets.remove(&node);
                news.targets_gone.insert(node);
            }
        });
    }

    fn note(&mut self, note: impl FnOnce(&mut News)) {
        if let Some(news) = &mut self.news {
            note(news);
        }
    }

    // ---- what is asked ------------------------------------------------------------------------------------------

    /// Whether somebody will ask what has changed, from now on.
    pub(crate) fn watch(&mut self, watched: bool) {
        if !watched {
            self.news = None;
        } else if self.news.is_none() {
            self.news = Some(News::default());
        }
    }

    fn head(&self) -> Head {
        Head {
            leads: self.leads,
            counts: self.counts,
            hidden_pods: self.pods.len().saturating_sub(self.listed),
            hidden_targets: self.targets.len().saturating_sub(self.targets_listed),
        }
    }

    /// All of it.
    pub(crate) fn whole(&self, now: i64) -> Change {
        let listed = self.targets.iter().filter(|(_, place)| place.listed);
        let pods = self.pods.values();
        Change {
            reset: true,
            now,
            head: Some(self.head()),
            targets: listed.map(|(node, place)| place.row(node)).collect(),
            pods: pods.filter_map(|known| known.row.clone()).collect(),
            losses: Some(self.losses.iter().cloned().collect()),
            ..Change::default()
        }
    }

    /// What has changed since the last time, if anything has.
    pub(crate) fn news(&mut self, now: i64) -> Option<Change> {
        let News {
            head,
            losses,
            targets,
            targets_gone,
            pods,
            pods_gone,
        } = std::mem::take(self.news.as_mut()?);
        let target = |node: &Arc<str>| Some(self.targets.get(node)?.row(node));
        let pod = |uid: &Arc<str>| self.pods.get(uid)?.row.clone();
        let change = Change {
            now,
            targets: targets.iter().filter_map(target).collect(),
            targets_gone: targets_gone.into_iter().collect(),
            pods: pods.iter().filter_map(pod).collect(),
            pods_gone: pods_gone.into_iter().collect(),
            losses: losses.then(|| self.losses.iter().cloned().collect()),
            head: None,
            reset: false,
        };
        let nothing = Change {
            now,
            ..Change::default()
        };
        if !head && change == nothing {
            return None;
        }
        // Which are hidden may have changed with each of them.
        let head = Some(self.head());
        Some(Change { head, ..change })
    }
}

#[cfg(test)]
mod tests;
