//! Owns what is known of an extender, a service beside the scheduler that has a say about nodes: whom it concerns, what
//! it is asked, and what it may answer. Knows nothing of how it is reached, nor of the cycle that waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;

use crate::names::NodeName;
use crate::plugin::MAX_NODE_SCORE;
use crate::pod_info::PodInfo;
use crate::status::{PluginName, Rejection, RejectionKind};

/// In whose name nodes are rejected that an extender turned down. It registers for no event, so any may bring the pod
/// back.
pub(crate) const EXTENDER: PluginName = "Extender";

/// The best priority that an extender may give (`MaxExtenderPriority` of kube-scheduler).
pub const MAX_EXTENDER_PRIORITY: i64 = 10;

/// The longest reason that is kept of an extender's answer, in bytes.
const MAX_REASON: usize = 256;

/// A service that has a say about nodes, as the configuration file describes it: `filterVerb` and `prioritizeVerb`. Who
/// is evicted it isn't asked (`preemptVerb`), and it doesn't bind (`bindVerb`): whoever reads a file has to refuse
/// these by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// What it is called in logs and messages: its address, in kube-scheduler.
    pub name: Arc<str>,
    /// Whether it turns nodes down.
    pub filters: bool,
    /// What its priorities are multiplied by; `None` if it gives none.
    pub weight: Option<u32>,
    /// Whether pods are scheduled without it when it fails to filter.
    pub ignorable: bool,
    /// It is asked only about pods that name one of these resources; about all if there is none.
    pub managed_resources: BTreeSet<String>,
}

impl Extender {
    /// Whether it is asked about this pod.
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        if self.managed_resources.is_empty() {
            return true;
        }
        let spec = pod.pod().and_then(|pod| pod.spec.as_ref());
        spec.is_some_and(|spec| {
            let init = spec.init_containers.iter().flatten();
            let mut containers = spec.containers.iter().chain(init);
            containers.any(|container| self.manages(container))
        })
    }

    fn manages(&self, container: &Container) -> bool {
        let resources = container.resources.as_ref();
        resources.is_some_and(|resources| {
            let requests = resources.requests.iter().flatten();
            let mut named = requests.chain(resources.limits.iter().flatten());
            named.any(|(name, _)| self.managed_resources.contains(name))
        })
    }
}

/// An extender's answer about nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The nodes that will do.
    pub nodes: BTreeSet<NodeName>,
    /// Nodes that won't, with the reason; preemption may help.
    pub failed: BTreeMap<NodeName, String>,
    /// The same where preemption can't help. It counts for nodes that are in both.
    pub failed_and_unresolvable: BTreeMap<NodeName, String>,
}

impl Filtered {
    /// Why the extender turned this node down. One that it left out without a word has a reason, too.
    pub(crate) fn rejection(&self, node: &NodeName, extender: &Extender) -> Rejection {
        let unresolvable = self.failed_and_unresolvable.get(node);
        let kind = if unresolvable.is_some() {
            RejectionKind::UnschedulableAndUnresolvable
        } else {
            RejectionKind::Unschedulable
        };
        let reason = match unresolvable.or_else(|| self.failed.get(node)) {
            Some(reason) => reason[..reason.floor_char_boundary(MAX_REASON)].to_owned(),
            None => format!("node(s) were left out by extender {}", extender.name),
        };
        Rejection::new(kind, reason).by(EXTENDER)
    }
}

/// What a priority adds to a node's total; `None` if it isn't within bounds.
pub(crate) fn weighted(priority: i64, weight: u32) -> Option<i64> {
    let fair = (0..=MAX_EXTENDER_PRIORITY).contains(&priority);
    let scale = MAX_NODE_SCORE.saturating_div(MAX_EXTENDER_PRIORITY);
    let all = priority.saturating_mul(i64::from(weight));
    fair.then(|| all.saturating_mul(scale))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{EXTENDER, Extender, Filtered, MAX_REASON, weighted};
    use crate::names::NodeName;
    use crate::status::RejectionKind;
    use crate::test_objects::pod;

    fn extender() -> Extender {
        Extender {
            name: Arc::from("gpu"),
            filters: true,
            weight: None,
            ignorable: false,
            managed_resources: ["example.com/gpu".to_owned()].into(),
        }
    }

    #[test]
    fn it_is_asked_about_pods_that_name_what_it_manages() {
        let gpu = pod("a").request("example.com/gpu", "1").info();
        let plain = pod("b").request("cpu", "1").info();
        assert!(extender().is_interested(&gpu));
        assert!(!extender().is_interested(&plain));
        let of_all = Extender {
            managed_resources: [].into(),
            ..extender()
        };
        assert!(of_all.is_interested(&plain));
    }

    #[test]
    fn each_node_that_is_turned_down_has_a_reason_of_bounded_length() {
        let long = "é".repeat(MAX_REASON);
        let name = NodeName::from;
        let said = Filtered {
            failed: [(name("a"), "full".into()), (name("b"), "full".into())].into(),
            failed_and_unresolvable: [(name("b"), "broken".into()), (name("c"), long)].into(),
            ..Filtered::default()
        };
        let of = |node| {
            let rejection = said.rejection(&name(node), &extender());
            assert_eq!(rejection.plugin(), Some(EXTENDER));
            (rejection.kind(), rejection.to_string())
        };
        let (can, cannot) = (
            RejectionKind::Unschedulable,
            RejectionKind::UnschedulableAndUnresolvable,
        );
        assert_eq!(of("a"), (can, "full".into()));
        assert_eq!(of("b"), (cannot, "broken".into()));
        assert_eq!(of("c").1.len(), MAX_REASON);
        let silent = "node(s) were left out by extender gpu".to_owned();
        assert_eq!(of("d"), (can, silent));
    }

    #[test]
    fn priorities_are_scaled_and_bounded() {
        assert_eq!(weighted(10, 2), Some(200));
        assert_eq!(weighted(0, 7), Some(0));
        for outside in [-1, 11, i64::MAX] {
            assert_eq!(weighted(outside, 1), None);
        }
        assert_eq!(weighted(10, u32::MAX), Some(100 * i64::from(u32::MAX)));
    }
}
