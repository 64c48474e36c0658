//! Where each pod without a place is expected: one node at most, whoever else is asked for it. Others are spread by it before it
//! is chosen; from then on the scheduler counts it itself.

use std::{collections::BTreeMap, sync::Arc};

use pilotage_sched::PodInfo;

/// All pods that are expected somewhere.
#[derive(Debug, Default)]
pub(super) struct Expected {
    by_uid: BTreeMap<String, (String, Arc<PodInfo>)>,
}

impl Expected {
    /// A pod is expected on this node, or nowhere.
    pub(super) fn set(&mut self, uid: &str, at: Option<(&str, &Arc<PodInfo>)>) {
        match at {
            Some((node, info)) => {
                let known = self.by_uid.get(uid);
                if known.is_none_or(|(known, version)| known != node || !Arc::ptr_eq(version, info))
                {
                    let at = (node.to_owned(), Arc::clone(info));
                    self.by_uid.insert(uid.to_owned(), at);
                }
            }
            None => {
                self.by_uid.remove(uid);
            }
        }
    }

    /// Each of them, with its node.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<PodInfo>)> {
        self.by_uid
            .values()
            .map(|(node, info)| (node.as_str(), info))
    }
}
