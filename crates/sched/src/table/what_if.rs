//! Owns *what if* questions: pods come to nodes and leave them, plugins are asked, and the table is as it was.

use std::sync::Arc;

use super::{NodeId, NodeTable};
use crate::names::PodUid;
use crate::pod_info::PodInfo;

/// What has to be undone.
#[derive(Debug)]
enum Step {
    Added(NodeId, PodUid, Option<i32>),
    Removed(NodeId, Arc<PodInfo>, usize),
}

/// A table that is put back when this is dropped, also by a panic. Nobody who keeps answers is told of what was tried.
#[derive(Debug)]
pub(crate) struct WhatIfTable<'a> {
    table: &'a mut NodeTable,
    steps: Vec<Step>,
}

impl<'a> WhatIfTable<'a> {
    pub(crate) const fn new(table: &'a mut NodeTable) -> Self {
        Self {
            table,
            steps: Vec::new(),
        }
    }

    /// The table as it would be.
    pub(crate) const fn table(&self) -> &NodeTable {
        self.table
    }

    /// The same, for another *what if* within this one.
    pub(crate) const fn table_mut(&mut self) -> &mut NodeTable {
        self.table
    }

    /// A pod comes to a node.
    pub(crate) fn add_pod(&mut self, id: NodeId, pod: Arc<PodInfo>) {
        let uid = pod.uid.clone();
        let lowest = self.table.get(id).and_then(|node| node.lowest_priority());
        if self.table.place_pod(id, pod) {
            self.steps.push(Step::Added(id, uid, lowest));
        }
    }

    /// A pod leaves a node; `None` if it isn't there.
    pub(crate) fn remove_pod(&mut self, id: NodeId, uid: &PodUid) -> Option<Arc<PodInfo>> {
        let (pod, at) = self.table.take_pod(id, uid)?;
        self.steps.push(Step::Removed(id, pod.clone(), at));
        Some(pod)
    }
}

impl Drop for WhatIfTable<'_> {
    fn drop(&mut self) {
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Added(id, uid, lowest) => {
                    self.table.take_newest(id, &uid, lowest);
                }
                Step::Removed(id, pod, at) => {
                    self.table.put_back(id, pod, at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::WhatIfTable;
    use crate::table::{NodeId, NodeTable};
    use crate::test_objects::{node, pod, uid};

    fn contents(table: &NodeTable) -> String {
        let rows = table.iter().map(|row| {
            let pods: Vec<_> = row.pods().iter().map(|pod| pod.uid.clone()).collect();
            format!(
                "{pods:?} {:?} {:?} {:?}",
                row.requested(),
                row.used_ports(),
                row.lowest_priority()
            )
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    proptest! {
        #[test]
        fn everything_is_put_back(steps in proptest::collection::vec((0..2_usize, 0..6_usize, any::<bool>()), 0..20)) {
            let mut table = NodeTable::default();
            for name in ["n", "m"] {
                table.set_node(node(name).allocatable("cpu", "4").object());
            }
            for number in 0..3 {
                let pod = pod(&format!("p{number}")).request("cpu", "1").host_port("", "TCP", number);
                table.add_pod(NodeId::new(0), pod.info());
            }
            let (before, position) = (contents(&table), table.position());
            let mut what_if = WhatIfTable::new(&mut table);
            for (row, number, add) in steps {
                let (id, name) = (NodeId::new(row), format!("p{number}"));
                let there = |pod: &std::sync::Arc<crate::PodInfo>| pod.uid == uid(&name);
                let is_there = what_if.table().get(id).unwrap().pods().iter().any(there);
                if add && !is_there {
                    what_if.add_pod(id, pod(&name).request("cpu", "2").info());
                } else {
                    prop_assert_eq!(what_if.remove_pod(id, &uid(&name)).is_some(), is_there);
                }
            }
            drop(what_if);
            prop_assert_eq!(contents(&table), before);
            prop_assert_eq!(table.position(), position, "nobody is told");
        }
    }
}
