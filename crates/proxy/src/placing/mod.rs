//! Virtual nodes and pods in the words of seed selection, and the order that it gives: which target suits a pod best.
//!
//! The pipeline is Gardener's (`pilotage_placement`). It runs over the nodes that the scheduler's own filters have
//! left, and puts them into classes; within a class they are ordered as without it (`crate::rank`). Candidates are kept
//! ready: they change with a node, a Target or a placement, and none is copied for a pod. `docs/placement.md` says what
//! is read where.

mod expected;
mod home;
mod order;
mod place;
mod tables;
#[cfg(test)]
mod tests;
mod want;
mod words;

pub use expected::expected_at;
pub use home::{Home, OwnNodes};
pub use order::{Order, Standing, Why};
pub use tables::{Reading, Tables};
pub use want::{Want, Wishes};
pub use words::{Readable, Words};

use std::{borrow::Borrow, collections::HashMap, hash::Hash, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use pilotage_placement::{
    Candidate, Failure, InputError, Names, Peers, Ranking, Reason, Settings, ZoneHints, select,
};
use pilotage_sched::taints::Taint;

use order::{Verdict, verdict};
use want::Surroundings;
use words::NO_WORDS;

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

/// A pod that has its place.
#[derive(Debug)]
struct Guest {
    node: Arc<str>,
    application: Option<Arc<str>>,
    /// It is bound there; else it is merely expected.
    placed: bool,
}

/// One more.
fn more(count: &mut u64) {
    *count = count.saturating_add(1);
}

/// One less, and none is not counted.
fn less<K: Hash + Eq + Borrow<str>>(counts: &mut HashMap<K, u64>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// All virtual nodes as candidates.
#[derive(Debug, Default)]
pub struct Placing {
    candidates: Vec<Candidate>,
    names: Names,
    index: HashMap<String, usize>,
    nodes: HashMap<String, Arc<Node>>,
    words: HashMap<String, Words>,
    /// Each taint that any of them has.
    taints: Vec<(String, Taint)>,
    /// Who is placed where, by UID.
    guests: HashMap<String, Guest>,
    /// How many that makes, by node.
    counts: HashMap<String, u64>,
    /// And how many of each application, by node.
    peers: HashMap<Arc<str>, Peers>,
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

    /// The Target behind a virtual node says this, or nothing any more; whether that makes another candidate of it.
    pub fn set_words(&mut self, node: &str, words: Words) -> bool {
        if words == NO_WORDS {
            self.words.remove(node);
        } else if let Some(known) = self.words.get_mut(node) {
            *known = words;
        } else {
            self.words.insert(node.to_owned(), words);
        }
        self.prepare(node)
    }

    /// Makes the candidate anew; whether it is another one than before.
    fn prepare(&mut self, name: &str) -> bool {
        let Some(node) = self.nodes.get(name) else {
            return false;
        };
        let mut candidate = place::candidate(node, self.words.get(name).unwrap_or(&NO_WORDS));
        self.names.share(&mut candidate);
        let index = self.index.get(name).copied();
        let old = index.and_then(|index| self.candidates.get_mut(index));
        if let Some(old) = &old {
            // That belongs to an order, not to the node.
            candidate.used = old.used;
            if **old == candidate {
                return false;
            }
        }
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
        true
    }

    /// A pod is placed at a virtual node, or at none. Its application is whoever it says that owns it.
    pub fn set_guest(&mut self, uid: &str, node: Option<&str>, application: Option<&Arc<str>>) {
        self.put_guest(uid, node, application, true);
    }

    /// A pod that isn't placed will probably be at a virtual node, or nobody knows where. It counts as a peer of its
    /// application there, so that those that come together are spread; as used room it counts by whoever asks.
    pub fn expect_guest(&mut self, uid: &str, node: Option<&str>, application: Option<&Arc<str>>) {
        self.put_guest(uid, node, application, false);
    }

    fn put_guest(
        &mut self,
        uid: &str,
        node: Option<&str>,
        application: Option<&Arc<str>>,
        placed: bool,
    ) {
        let known = self.guests.get(uid);
        if known.map(|guest| (&*guest.node, guest.application.as_ref(), guest.placed))
            == node.map(|node| (node, application, placed))
        {
            return;
        }
        if let Some(guest) = self.guests.remove(uid) {
            let Guest {
                node,
                application,
                placed,
            } = guest;
            if placed {
                less(&mut self.counts, &node);
            }
            if let Some(application) = application
                && let Some(peers) = self.peers.get_mut(&application)
            {
                less(peers, &node);
                if peers.is_empty() {
                    self.peers.remove(&application);
                }
            }
        }
        if let Some(node) = node {
            let node: Arc<str> = node.into();
            if placed {
                more(self.counts.entry((*node).to_owned()).or_default());
            }
            if let Some(application) = application {
                let peers = self.peers.entry(application.clone()).or_default();
                more(peers.entry(node.clone()).or_default());
            }
            let guest = Guest {
                node,
                application: application.cloned(),
                placed,
            };
            self.guests.insert(uid.to_owned(), guest);
        }
    }

    /// How many pods are placed at a virtual node.
    pub fn placed_at(&self, node: &str) -> u64 {
        self.counts.get(node).copied().unwrap_or_default()
    }

    // ---- what follows -------------------------------------------------------------------------------------------

    /// The order of those virtual nodes that the scheduler's own filters have left; each comes with how many other pods
    /// are on their way there.
    pub fn order<'a>(
        &mut self,
        asked: &Asked<'_>,
        feasible: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Order {
        let mut shown = Vec::new();
        for (node, coming) in feasible {
            if let Some(&index) = self.index.get(node) {
                let placed = self.placed_at(node);
                self.candidates[index].used = placed.saturating_add(coming);
                shown.push(index);
            }
        }
        self.order_shown(asked, &shown)
    }

    /// How many pods of one application are placed, or expected, where.
    fn peers_of(&self, application: &str) -> Arc<Peers> {
        Arc::new(self.peers.get(application).cloned().unwrap_or_default())
    }

    fn order_shown(&self, asked: &Asked<'_>, shown: &[usize]) -> Order {
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
            peers: want
                .application()
                .filter(|_| ranking.counts_peers())
                .map(|own| self.peers_of(own)),
        });
        let mut order = Order::default();
        let mut class = 0;
        // Why some weren't with the first ones.
        let mut first: HashMap<Arc<str>, Reason> = HashMap::new();
        let mut last: Vec<(&Candidate, Reason)> = Vec::new();
        let mut round: Vec<&Candidate> =
            shown.iter().map(|&index| &self.candidates[index]).collect();
        // Each round wishes for less than the one before: zones go first, then region and provider.
        let mut wishes = 2;
        loop {
            let selection = select(&request, &round, &settings);
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
            order.append(&mut class, selection.ranking, |name| {
                first.get(name).cloned()
            });
            let mut later = Vec::new();
            for rejection in selection.rejected {
                let (candidate, reason) = (round[rejection.index], rejection.reason);
                match verdict(&reason, want.demands_region()) {
                    Verdict::Never => order.pass(rejection.name, reason),
                    Verdict::Last => last.push((candidate, reason)),
                    Verdict::Later => {
                        first.entry(rejection.name).or_insert(reason);
                        later.push(candidate);
                    }
                }
            }
            if later.is_empty() {
                break;
            }
            let zoned = matches!(&request.zones, ZoneHints::Near(zones) if !zones.is_empty());
            wishes = match wishes {
                2 if zoned => {
                    request.zones = ZoneHints::default();
                    1
                }
                1 | 2 => {
                    want.forgo_place(&mut request);
                    0
                }
                _ => break,
            };
            round = later;
        }
        for (candidate, reason) in last {
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
