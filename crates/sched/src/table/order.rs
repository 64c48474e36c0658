//! Owns the order in which nodes are searched: zones in turn, so that the first few nodes of a search lie in
//! different failure domains. By name within a zone, so that the order doesn't depend on history.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::NodeName;
use crate::node_object::Zone;

/// Nodes by zone.
#[derive(Debug, Default)]
pub(super) struct NodeOrder {
    zones: BTreeMap<Zone, BTreeSet<NodeName>>,
    len: usize,
}

impl NodeOrder {
    pub(super) fn insert(&mut self, zone: Zone, node: NodeName) {
        if self.zones.entry(zone).or_default().insert(node) {
            self.len = self.len.saturating_add(1);
        }
    }

    pub(super) fn remove(&mut self, zone: &Zone, node: &NodeName) {
        let Some(nodes) = self.zones.get_mut(zone) else {
            return;
        };
        if nodes.remove(node) {
            self.len = self.len.saturating_sub(1);
        }
        if nodes.is_empty() {
            self.zones.remove(zone);
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The first node of each zone, then the second of each, and so on.
    pub(super) fn interleaved(&self) -> impl Iterator<Item = &NodeName> {
        let mut zones = self.zones.values().map(BTreeSet::iter).collect::<Vec<_>>();
        let mut order = Vec::with_capacity(self.len);
        while !zones.is_empty() {
            zones.retain_mut(|zone| match zone.next() {
                Some(node) => {
                    order.push(node);
                    true
                }
                None => false,
            });
        }
        order.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::NodeOrder;
    use crate::names::NodeName;
    use crate::node_object::Zone;

    #[test]
    fn zones_take_turns() {
        let mut order = NodeOrder::default();
        let zone = |zone: &str| Zone {
            region: "r".into(),
            zone: zone.into(),
        };
        for (node, place) in [
            ("a3", "a"),
            ("a1", "a"),
            ("c1", "c"),
            ("a2", "a"),
            ("b2", "b"),
            ("b1", "b"),
        ] {
            order.insert(zone(place), NodeName::from(node));
        }
        let names = |order: &NodeOrder| {
            order
                .interleaved()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(names(&order), "a1 b1 c1 a2 b2 a3");
        order.remove(&zone("c"), &NodeName::from("c1"));
        order.remove(&zone("c"), &NodeName::from("c1"));
        assert_eq!((names(&order).as_str(), order.len()), ("a1 b1 a2 b2 a3", 5));
    }
}
