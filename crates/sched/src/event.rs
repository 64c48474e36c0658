//! Owns cluster events as the queue sees them: what changed, how, and the objects before and after.
//! Knows nothing of watches and of who is interested (see [`crate::queue`]).

use std::any::Any;
use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use crate::names::PodUid;
use crate::node_object::NodeObject;
use crate::objects::Kind;
use crate::pod_info::PodInfo;

/// What kind of thing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventResource {
    /// Any pod; registering for it covers the three kinds below.
    Pod,
    /// A pod that has a node (assumed pods too).
    AssignedPod,
    /// Another pod that looks for a node.
    UnscheduledPod,
    /// The very pod that was rejected.
    TargetPod,
    /// A node.
    Node,
    /// An object of this kind.
    Object(Kind),
    /// A `PodGroup`.
    PodGroup,
    /// Something that only the named party knows of (an answer on a board, say).
    Custom(&'static str),
    /// Everything: brings back every pod.
    Wildcard,
}

impl EventResource {
    fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Wildcard, _)
            | (_, Self::Wildcard)
            | (Self::Pod, Self::AssignedPod | Self::UnscheduledPod | Self::TargetPod) => true,
            (one, other) => one == other,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::AssignedPod => "AssignedPod",
            Self::UnscheduledPod => "UnscheduledPod",
            Self::TargetPod => "TargetPod",
            Self::Node => "Node",
            Self::Object(kind) => kind.name(),
            Self::PodGroup => "PodGroup",
            Self::Custom(name) => name,
            Self::Wildcard => "WildCardEvent",
        }
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Actions(u32);

impl Actions {
    /// It came.
    pub const ADD: Self = Self(1);
    /// It went.
    pub const DELETE: Self = Self(1 << 1);
    /// A node's `status.allocatable` changed.
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    /// A node's labels changed.
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    /// A node's taints changed, or `spec.unschedulable`.
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    /// A node's conditions changed (times aside).
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    /// A node's annotations changed.
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    /// A node's declared features changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    /// A pod's labels changed.
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    /// A pod asks for less.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    /// A pod asks for more.
    pub const UPDATE_POD_SCALE_UP: Self = Self(1 << 10);
    /// A pod got another toleration.
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 11);
    /// A pod lost its last scheduling gate.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(1 << 12);
    /// The claims generated for a pod changed.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(1 << 13);
    /// Something else changed.
    pub const UPDATE_OTHER: Self = Self(1 << 14);
    /// Any of them.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether there is an action in both.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn label(self) -> &'static str {
        match self {
            Self::ADD => "Add",
            Self::DELETE => "Delete",
            Self::UPDATE_NODE_ALLOCATABLE => "AllocatableChange",
            Self::UPDATE_NODE_LABEL => "LabelChange",
            Self::UPDATE_NODE_TAINT => "TaintChange",
            Self::UPDATE_NODE_CONDITION => "ConditionChange",
            Self::UPDATE_NODE_ANNOTATION => "AnnotationChange",
            Self::UPDATE_NODE_DECLARED_FEATURE => "DeclaredFeatureChange",
            Self::UPDATE_POD_LABEL => "LabelUpdate",
            Self::UPDATE_POD_SCALE_DOWN => "ScaleDown",
            Self::UPDATE_POD_SCALE_UP => "ScaleUp",
            Self::UPDATE_POD_TOLERATION => "TolerationAdd",
            Self::UPDATE_POD_SCHEDULING_GATES_ELIMINATED => "SchedulingGatesEliminated",
            Self::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "GeneratedResourceClaimUpdate",
            _ => "Update",
        }
    }
}

impl BitOr for Actions {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A kind of event: which resource, which actions. Plugins register for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKind {
    /// Which resource.
    pub resource: EventResource,
    /// Any of these actions.
    pub actions: Actions,
}

impl EventKind {
    /// Every event there is; for plugins that can't tell.
    pub const ANY: Self = Self {
        resource: EventResource::Wildcard,
        actions: Actions::ALL,
    };

    /// These actions on this resource.
    pub const fn new(resource: EventResource, actions: Actions) -> Self {
        Self { resource, actions }
    }

    /// Whether an event of kind `other` is one of these.
    pub fn covers(&self, other: Self) -> bool {
        self.resource.covers(other.resource) && self.actions.intersects(other.actions)
    }
}

/// An object of a kind that the framework itself doesn't know.
pub type AnyObject = Arc<dyn Any + Send + Sync>;

/// The objects of an event. `old` is absent for what came, `new` for what went.
#[derive(Clone, Debug, Default)]
pub enum EventObject {
    /// None.
    #[default]
    None,
    /// A pod.
    Pod {
        /// Before.
        old: Option<Arc<PodInfo>>,
        /// After.
        new: Option<Arc<PodInfo>>,
    },
    /// A node.
    Node {
        /// Before.
        old: Option<Arc<NodeObject>>,
        /// After.
        new: Option<Arc<NodeObject>>,
    },
    /// Anything else; interested plugins downcast it. Of an object of a kind it is what stays of it (see
    /// [`Kind::fields`]).
    Other {
        /// Before.
        old: Option<AnyObject>,
        /// After.
        new: Option<AnyObject>,
    },
}

/// Something that happened in the cluster.
#[derive(Clone, Debug)]
pub struct Event {
    /// What kind of thing, and what happened to it (one action).
    pub kind: EventKind,
    /// The objects.
    pub object: EventObject,
    // Up to which priority it may help other pods; all pods if absent.
    up_to: Option<i32>,
}

impl Event {
    /// A pod came, changed or went.
    pub const fn pod(
        resource: EventResource,
        action: Actions,
        old: Option<Arc<PodInfo>>,
        new: Option<Arc<PodInfo>>,
    ) -> Self {
        Self {
            kind: EventKind::new(resource, action),
            object: EventObject::Pod { old, new },
            up_to: None,
        }
    }

    /// A pod isn't expected on a node any more. It was in the way of those that aren't more important.
    pub(crate) fn expected_no_more(pod: Arc<PodInfo>) -> Self {
        let up_to = Some(pod.priority);
        let gone = Self::pod(EventResource::AssignedPod, Actions::DELETE, Some(pod), None);
        Self { up_to, ..gone }
    }

    /// A node came, changed or went.
    pub const fn node(
        action: Actions,
        old: Option<Arc<NodeObject>>,
        new: Option<Arc<NodeObject>>,
    ) -> Self {
        Self {
            kind: EventKind::new(EventResource::Node, action),
            object: EventObject::Node { old, new },
            up_to: None,
        }
    }

    /// An object of another kind came, changed or went.
    pub(crate) const fn object(kind: Kind, old: Option<AnyObject>, new: Option<AnyObject>) -> Self {
        let action = match (&old, &new) {
            (None, _) => Actions::ADD,
            (Some(_), None) => Actions::DELETE,
            (Some(_), Some(_)) => Actions::UPDATE_OTHER,
        };
        Self {
            kind: EventKind::new(EventResource::Object(kind), action),
            object: EventObject::Other { old, new },
            up_to: None,
        }
    }

    /// Something happened that only plugins which registered for `EventResource::Custom(name)` know.
    pub const fn custom(name: &'static str, object: Option<AnyObject>) -> Self {
        Self {
            kind: EventKind::new(EventResource::Custom(name), Actions::ALL),
            object: EventObject::Other {
                old: None,
                new: object,
            },
            up_to: None,
        }
    }

    /// Brings back every pod.
    pub const fn wildcard() -> Self {
        Self {
            kind: EventKind::ANY,
            object: EventObject::None,
            up_to: None,
        }
    }

    /// Whether it brings back every pod, whoever rejected it.
    pub const fn is_wildcard(&self) -> bool {
        matches!(self.kind.resource, EventResource::Wildcard)
    }

    /// The pod that came or changed, or that went.
    pub fn subject(&self) -> Option<&Arc<PodInfo>> {
        match &self.object {
            EventObject::Pod { old, new } => new.as_ref().or(old.as_ref()),
            _ => None,
        }
    }

    /// Whether a pod of it has a node or is expected on one. The object of an assumed pod names none.
    pub(crate) fn is_placed(&self, other: &PodInfo) -> bool {
        self.kind.resource == EventResource::AssignedPod
            || other.node_name.is_some()
            || other.nominated_node.is_some()
    }

    /// Whether it may help every pod: nobody is left out by [`Event::may_help`].
    pub(crate) const fn may_help_all(&self) -> bool {
        self.up_to.is_none()
    }

    /// Whether it may help this pod at all, whoever rejected it.
    pub(crate) fn may_help(&self, pod: &PodInfo) -> bool {
        let concerns = |up_to: i32| pod.priority <= up_to && !self.is_about(&pod.uid);
        self.up_to.is_none_or(concerns)
    }

    /// Whether it is about this very pod.
    pub fn is_about(&self, uid: &PodUid) -> bool {
        self.subject().is_some_and(|pod| pod.uid == *uid)
    }
}

/// The event's name in metrics, such as `AssignedPodDelete` or `NodeTaintChange`.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.resource.as_str())?;
        match self.kind.resource {
            EventResource::Custom(_) | EventResource::Wildcard => Ok(()),
            _ => f.write_str(self.kind.actions.label()),
        }
    }
}

/// Whether an event may make a rejected pod schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It may: try the pod again.
    Queue,
    /// It doesn't: leave the pod where it is.
    Skip,
}

impl Hint {
    /// `Queue` if so.
    pub const fn queue_if(condition: bool) -> Self {
        if condition { Self::Queue } else { Self::Skip }
    }
}

#[cfg(test)]
mod tests {
    use super::{Actions, Event, EventKind, EventResource};

    #[test]
    fn what_a_registration_covers() {
        let node = EventResource::Node;
        let add_or_taint = EventKind::new(node, Actions::ADD | Actions::UPDATE_NODE_TAINT);
        for (registered, happened, covered) in [
            (add_or_taint, EventKind::new(node, Actions::ADD), true),
            (
                add_or_taint,
                EventKind::new(node, Actions::UPDATE_NODE_LABEL),
                false,
            ),
            (
                add_or_taint,
                EventKind::new(EventResource::AssignedPod, Actions::ADD),
                false,
            ),
            (add_or_taint, EventKind::ANY, true),
            (EventKind::ANY, EventKind::new(node, Actions::DELETE), true),
            (
                EventKind::new(EventResource::Pod, Actions::DELETE),
                EventKind::new(EventResource::AssignedPod, Actions::DELETE),
                true,
            ),
            (
                EventKind::new(EventResource::TargetPod, Actions::ALL),
                EventKind::new(EventResource::AssignedPod, Actions::DELETE),
                false,
            ),
            (
                EventKind::new(EventResource::Custom("a"), Actions::ALL),
                Event::custom("b", None).kind,
                false,
            ),
        ] {
            assert_eq!(
                registered.covers(happened),
                covered,
                "{registered:?} {happened:?}"
            );
        }
    }

    #[test]
    fn names_for_metrics() {
        assert_eq!(
            Event::node(Actions::UPDATE_NODE_TAINT, None, None).to_string(),
            "NodeTaintChange"
        );
        let gone = Event::pod(EventResource::AssignedPod, Actions::DELETE, None, None);
        assert_eq!(gone.to_string(), "AssignedPodDelete");
        assert_eq!(
            Event::custom("BoardAnswer", None).to_string(),
            "BoardAnswer"
        );
    }
}
