//! How much is cleaned up in one target at a time. A target may show any number of chaperons that have to go, and let
//! each request last as long as it may: what finds no room isn't begun, and its pod waits for its turn. It knows no
//! requests.

use std::collections::{BTreeMap, HashSet, VecDeque};

/// So many requests that clean up may be under way to one target: no more than one that keeps up needs. Questions and
/// grants go past them.
const PLACES: usize = 64;

/// One target.
#[derive(Debug, Default)]
struct Lane {
    under_way: usize,
    /// Pods that wait, each once, and the same in order.
    waiting: HashSet<String>,
    queue: VecDeque<String>,
    /// Pods whose turn it is, which each keeps a place for.
    called: HashSet<String>,
}

impl Lane {
    fn has_room(&self) -> bool {
        self.under_way.saturating_add(self.called.len()) < PLACES
    }

    fn enter(&mut self, uid: &str) -> bool {
        if self.called.remove(uid) || (self.has_room() && self.queue.is_empty()) {
            self.under_way = self.under_way.saturating_add(1);
            return true;
        }
        if self.waiting.insert(uid.to_owned()) {
            self.queue.push_back(uid.to_owned());
        }
        false
    }

    fn call(&mut self, into: &mut Vec<String>) {
        // They have decided meanwhile.
        self.called.clear();
        while self.has_room()
            && let Some(uid) = self.queue.pop_front()
        {
            self.waiting.remove(&uid);
            self.called.insert(uid.clone());
            into.push(uid);
        }
    }
}

/// All targets by their virtual nodes.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    by_node: BTreeMap<String, Lane>,
}

impl Lanes {
    /// Whether a request about the pod with this UID may begin, which will [end](Self::leave); if not, it is
    /// [called](Self::call).
    pub(crate) fn enter(&mut self, node: &str, uid: &str) -> bool {
        self.by_node.entry(node.to_owned()).or_default().enter(uid)
    }

    /// A request that had [entered](Self::enter) has ended.
    pub(crate) fn leave(&mut self, node: &str) {
        if let Some(lane) = self.by_node.get_mut(node) {
            lane.under_way = lane.under_way.saturating_sub(1);
        }
    }

    /// Pods that waited and are to decide now; those that were called before have decided.
    pub(crate) fn call(&mut self) -> Vec<String> {
        let mut called = Vec::new();
        self.by_node.retain(|_, lane| {
            lane.call(&mut called);
            lane.under_way > 0 || !lane.called.is_empty()
        });
        called
    }

    /// Nobody decides for a while, and all are looked at after that.
    pub(crate) fn forget_waiting(&mut self) {
        for lane in self.by_node.values_mut() {
            lane.waiting.clear();
            lane.queue.clear();
            lane.called.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods with so many requests each; the edge around the lanes.
    #[derive(Default)]
    struct Edge {
        lanes: Lanes,
        left: BTreeMap<String, usize>,
        under_way: usize,
        order: Vec<String>,
    }

    impl Edge {
        fn step(&mut self, uid: &str) {
            for _ in 0..self.left[uid] {
                if self.lanes.enter("evil", uid) {
                    self.under_way += 1;
                    self.order.push(uid.to_owned());
                    *self.left.get_mut(uid).unwrap() -= 1;
                }
            }
        }

        fn turn(&mut self, mut dirty: Vec<String>) {
            loop {
                dirty.extend(self.lanes.call());
                if dirty.is_empty() {
                    break;
                }
                for uid in std::mem::take(&mut dirty) {
                    self.step(&uid);
                }
                assert!(self.under_way <= PLACES);
            }
        }

        fn end_one(&mut self) {
            self.lanes.leave("evil");
            self.under_way -= 1;
        }
    }

    #[test]
    fn few_requests_are_under_way_to_one_target_and_none_is_forgotten() {
        let mut edge = Edge::default();
        let uids: Vec<String> = (0..200).map(|number| format!("p{number:03}")).collect();
        edge.left = uids.iter().map(|uid| (uid.clone(), 8)).collect();
        edge.turn(uids);
        assert_eq!(edge.under_way, PLACES);
        assert!(
            edge.lanes.enter("good", "p000"),
            "others have lanes of their own"
        );
        edge.lanes.leave("good");
        // Some of those that wait don't need it any more.
        for uid in ["p050", "p060", "p199"] {
            edge.left.insert(uid.to_owned(), 0);
        }
        let mut rounds = 0;
        while edge.under_way > 0 {
            edge.end_one();
            edge.turn(Vec::new());
            rounds += 1;
        }
        assert_eq!(rounds, 197 * 8);
        assert!(edge.left.values().all(|left| *left == 0));
        assert!(edge.lanes.by_node.is_empty());
    }

    #[test]
    fn who_waits_goes_before_who_comes() {
        let left = [("first", PLACES), ("second", 1), ("third", 1)];
        let mut edge = Edge {
            left: left
                .map(|(uid, requests)| (uid.to_owned(), requests))
                .into(),
            ..Edge::default()
        };
        edge.turn(vec!["first".to_owned(), "second".to_owned()]);
        edge.end_one();
        edge.turn(vec!["third".to_owned()]);
        assert_eq!(edge.order.last().unwrap(), "second");
        edge.end_one();
        edge.turn(Vec::new());
        assert_eq!(edge.order.last().unwrap(), "third");
    }

    #[test]
    fn who_does_not_lead_remembers_nobody_who_waits() {
        let mut lanes = Lanes::default();
        for number in 0..=PLACES {
            assert_eq!(lanes.enter("a", &format!("p{number}")), number < PLACES);
        }
        lanes.forget_waiting();
        for _ in 0..PLACES {
            lanes.leave("a");
        }
        assert!(lanes.call().is_empty() && lanes.by_node.is_empty());
    }
}
