//! Owns which nodes are there for a pod at all, where its profile says so. To what counts other pods by place, the
//! others don't exist: neither their places nor the pods on them. Knows nothing of why.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use crate::context::Context;
use crate::labels::Labels;
use crate::plugin::Filter;
use crate::plugins::BySet;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::table::NodeId;

/// Says which nodes are there for a pod. A profile without one has all nodes there for everybody.
///
/// It takes no node away from Filter: it is itself the filter that refuses the other nodes. Reports leave these out,
/// unless there are no others.
pub trait NodeScope: Filter + fmt::Debug {
    /// Whether a node with these labels is. It mustn't ask for its hostname: nodes that differ in nothing else are
    /// asked about once.
    fn includes(&self, pod: &PodInfo, labels: &Labels) -> bool;
}

/// The nodes that are there for one pod. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct InScope {
    // By row; `None` for all.
    rows: Option<Arc<[bool]>>,
}

impl InScope {
    /// By the profile; worked out once a cycle.
    pub(crate) fn of(cx: &Context<'_>, state: &mut CycleState, pod: &PodInfo) -> Self {
        let Some(scope) = cx.profile().node_scope() else {
            return Self::default();
        };
        if let Some(known) = state.get::<Self>() {
            return known.clone();
        }
        let table = cx.nodes();
        let mut answers = BySet::new(table.label_sets());
        let includes = |row| {
            let id = NodeId::new(row);
            let node = table.get(id);
            let ask = || node.is_some_and(|node| scope.includes(pod, node.labels()));
            let Ok(answer) = answers.get(table.label_set(id), || Ok::<_, Infallible>(ask()));
            answer
        };
        let in_scope = Self {
            rows: Some((0..table.rows()).map(includes).collect()),
        };
        state.insert(in_scope.clone());
        in_scope
    }

    /// Whether all nodes are.
    pub(crate) const fn is_everywhere(&self) -> bool {
        self.rows.is_none()
    }

    /// Whether this node is.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        let rows = self.rows.as_ref();
        rows.is_none_or(|rows| rows.get(node.index()) == Some(&true))
    }
}
