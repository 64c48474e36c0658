//! Virtual nodes and pods in the words of seed selection, and the order that it gives: which target suits a pod best.
//!
//! The pipeline is Gardener's (`pilotage_placement`). It runs over the nodes that the scheduler's own filters have left, and puts
//! them into classes; within a class they are ordered as without it (`crate::rank`). Candidates are kept ready: they change
//! with a node, a Target or a placement, and nothing is copied for a pod. `docs/placement.md` says what is read where.

mod home;
mod order;
mod place;
mod tables;
#[cfg(test)]
mod tests;
mod want;

pub use home::{Home, OwnNodes};
pub use order::{Order, Standing, Why};
pub use place::Words;
pub use tables::{Reading, Tables};
pub use want::Want;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Node;
use pilotage_placement::{
    Candidate, Failure, InputError, Ranking, Reason, Settings, ZoneHints, select,
};
use pilotage_sched::taints::Taint;

use order::{Verdict, verdict};
use want::Surroundings;

/// What an order depends on beside the targets.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What the pod asks for.
    pub want: &'a Want,
    /// What decides.
    pub ranking: &'a Ranking,
    /// Where the source is.
    pub home: &'a Home,
    /// Distances between regions.
    pub tables: &'a Tables,
}

/// All virtual nodes as candidates.
#[derive(Debug, Default)]
pub struct Placing {
    /// None of them visible but during a selection.
    candidates: Vec<Candidate>,
    index: HashMap<String, usize>,
    nodes: HashMap<String, Arc<Node>>,
    words: HashMap<String, Words>,
    /// Each taint that any of them has.
    taints: Vec<(String, Taint)>,
    /// Where pods are placed, by their UIDs, and how many that makes.
    guests: HashMap<String, String>,
    counts: HashMap<String, u64>,
}

impl Placing {
    // ---- what happens -------------------------------------------------------------------------------------------

    /// A virtual node is there in this version.
    pub fn apply_node(&mut self, node: &Arc<Node>) {
        if let Some(name) = node.metadata.name.clone() {
            self.nodes.insert(name.clone(), node.clone());
            self.prepare(&name);
        }
    }

    /// A virtual node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        if let Some(index) = self.index.remove(name) {
            self.candidates.swap_remove(index);
            if let Some(moved) = self.candidates.get(index) {
                self.index.insert((*moved.name).to_owned(), index);
            }
            self.taints = place::all_taints(self.nodes.values().map(AsRef::as_ref));
        }
    }

    /// The Target behind a virtual node says this; whether that is news.
    pub fn set_words(&mut self, node: &str, words: Words) -> bool {
        if self.words.get(node) == Some(&words) {
            return false;
        }
        self.words.insert(node.to_owned(), words);
        self.prepare(node);
        true
    }

    fn prepare(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let candidate = place::candidate(node, self.words.get(name).unwrap_or(&place::NO_WORDS));
        let index = self.index.get(name).copied();
        let old = index.and_then(|index| self.candidates.get_mut(index));
        let old_taints = old.as_ref().map(|old| &*old.taints).unwrap_or_default();
        let same_taints = old_taints == candidate.taints;
        if let Some(old) = old {
            *old = candidate;
        } else {
            self.index.insert(name.to_owned(), self.candidates.len());
            self.candidates.push(candidate);
        }
        if !same_taints {
            self.taints = place::all_taints(self.nodes.values().map(AsRef::as_ref));
        }
    }

    /// A pod is placed at a virtual node, or at none.
    pub fn set_guest(&mut self, uid: &str, node: Option<&str>) {
        let old = self.guests.get(uid).map(|node| &**node);
        if old == node {
            return;
        }
        if let Some(old) = old
            && let Some(count) = self.counts.get_mut(old)
        {
            *count -= 1;
            if *count == 0 {
                let old = old.to_owned();
                self.counts.remove(&old);
            }
        }
        match node {
            Some(node) => {
                *self.counts.entry(node.to_owned()).or_default() += 1;
                self.guests.insert(uid.to_owned(), node.to_owned());
            }
            None => {
                self.guests.remove(uid);
            }
        }
    }

    // ---- what follows -------------------------------------------------------------------------------------------

    /// The order of those virtual nodes that the scheduler's own filters have left; each comes with how many other pods are
    /// on their way there.
    pub fn order<'a>(
        &mut self,
        asked: &Asked<'_>,
        feasible: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Order {
        let mut shown = Vec::new();
        for (node, coming) in feasible {
            if let Some(&index) = self.index.get(node) {
                let placed = self.counts.get(node).copied().unwrap_or_default();
                self.candidates[index].used = placed.saturating_add(coming);
                shown.push(index);
            }
        }
        self.show(&shown, true);
        let order = self.order_shown(asked, &shown);
        self.show(&shown, false);
        order
    }

    fn show(&mut self, which: &[usize], visible: bool) {
        for &index in which {
            self.candidates[index].visible = visible;
        }
    }

    fn order_shown(&mut self, asked: &Asked<'_>, shown: &[usize]) -> Order {
        let Asked {
            want,
            ranking,
            home,
            tables,
        } = *asked;
        let settings = Settings {
            ranking: ranking.clone(),
            gardener_compatible: false,
        };
        let mut request = want.request(&Surroundings {
            region: home.region.as_ref(),
            provider: home.provider.as_ref(),
            table: tables.of(want.provider(home.provider.as_ref())),
            taints: &self.taints,
        });
        let mut order = Order::default();
        let mut class = 0;
        // Why some weren't with the first ones.
        let mut first: HashMap<usize, Reason> = HashMap::new();
        let mut last: Vec<(usize, Reason)> = Vec::new();
        // Each round wishes for less than the one before: zones go first, then region and provider.
        let mut wishes = 2;
        loop {
            let selection = select(&request, &self.candidates, &settings);
            if let Some(Failure::Input(error)) = &selection.failure {
                // What can't be read orders nothing.
                match error {
                    InputError::Selector { .. } if request.own_selector.is_some() => {
                        request.own_selector = None;
                    }
                    InputError::Row { .. } if request.distances.is_some() => {
                        request.distances = None;
                    }
                    _ => break,
                }
                continue;
            }
            order.append(&mut class, selection.ranking, |index| {
                first.get(&index).cloned()
            });
            let mut later = HashSet::new();
            for rejection in selection.rejected {
                let (index, reason) = (rejection.index, rejection.reason);
                if !self.candidates[index].visible {
                    continue;
                }
                match verdict(&reason, want.demands_region()) {
                    Verdict::Never => order.pass(rejection.name, reason),
                    Verdict::Last => last.push((index, reason)),
                    Verdict::Later => {
                        later.insert(index);
                        first.entry(index).or_insert(reason);
                    }
                }
            }
            if later.is_empty() {
                break;
            }
            let zoned = matches!(&request.zones, ZoneHints::Near(zones) if !zones.is_empty());
            match wishes {
                2 if zoned => request.zones = ZoneHints::default(),
                1 | 2 => {
                    wishes = 1;
                    want.forgo_place(&mut request);
                }
                _ => break,
            }
            wishes -= 1;
            for &index in shown {
                self.candidates[index].visible = later.contains(&index);
            }
        }
        for (index, reason) in last {
            let candidate = &self.candidates[index];
            let standing = Standing {
                class,
                used: candidate.used,
                why: Some(Why::Step(reason)),
            };
            order.stand(candidate.name.clone(), standing);
        }
        order
    }
}
