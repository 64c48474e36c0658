//! What a feedback controller may ask of API servers. It knows no rule.

use pilotage_api::parent::ParentLink;
use pilotage_model::changes::Digest;
use serde_json::Value;

/// One request to an API server. Each may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// DELETE a chaperon with a UID precondition, in the background; of a plain target in the foreground.
    DeleteChaperon {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// Granted by a target that numbers no attempts: no finalizer of ours waits for its pod.
        plain: bool,
        /// Version at which it was judged to be of no use any more: if it moved on, it isn't deleted.
        resource_version: Option<String>,
    },
    /// Live GET of the proxy pod and of a chaperon, and PATCH of what the one's spec has and the other's doesn't
    /// ([`crate::wire::change`]), by the version that was read.
    ChangeSpec {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// What the pod has.
        of: Digest,
    },
    /// Live GET of a chaperon: is this UID gone? For a plain target live LISTs of the pod's chaperons, whose names
    /// Admiralty lets the API server make up, and of its delegates.
    ConfirmGone {
        /// The virtual node.
        node: String,
        /// Name of the chaperon; of no use for a plain target.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// The target numbers no attempts.
        plain: bool,
    },
    /// DELETE the proxy pod with a UID precondition.
    DeleteProxy,
    /// DELETE the ending proxy pod without grace: no kubelet would ever end its grace period.
    EndGrace,
    /// PATCH our finalizer off the proxy pod, by the version that rule F was judged on.
    RemoveFinalizer {
        /// The finalizers that stay.
        remaining: Vec<String>,
        /// Version of the proxy pod.
        resource_version: String,
    },
    /// PATCH the proxy pod's tolerations: those of taints of a lost target end no more.
    Endure {
        /// A JSON patch, which tests what it changes.
        patch: Value,
    },
    /// PATCH the proxy pod's status.
    CopyStatus {
        /// A merge patch.
        patch: Value,
    },
    /// PATCH the proxy pod's annotations, by the version that they were judged on.
    CopyAnnotations {
        /// A merge patch.
        patch: Value,
    },
    /// Live GET of the parent; if it is gone, or another pod by now, DELETE the chaperon.
    DeleteIfOrphan {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// The parent that our store doesn't have.
        parent: ParentLink,
    },
}

/// What an action is about; no two with one key are under way at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The proxy pod's life and finalizers.
    Proxy,
    /// The proxy pod's tolerations.
    Tolerations,
    /// The proxy pod's status.
    Status,
    /// The proxy pod's annotations.
    Annotations,
    /// The chaperon with this UID behind this virtual node.
    Chaperon {
        /// The virtual node.
        node: String,
        /// UID of the chaperon.
        uid: String,
    },
    /// That chaperon's spec: its end doesn't wait for a change that failed.
    Spec {
        /// The virtual node.
        node: String,
        /// UID of the chaperon.
        uid: String,
    },
}

impl Key {
    /// Whether it is about the proxy pod, whose version tells what became of a request.
    pub(super) fn is_the_pods(&self) -> bool {
        !matches!(self, Key::Chaperon { .. } | Key::Spec { .. })
    }
}

impl Action {
    /// The virtual node of the target that it is sent to, if it is one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Action::DeleteChaperon { node, .. }
            | Action::ConfirmGone { node, .. }
            | Action::ChangeSpec { node, .. }
            | Action::DeleteIfOrphan { node, .. } => Some(node),
            Action::DeleteProxy
            | Action::EndGrace
            | Action::RemoveFinalizer { .. }
            | Action::Endure { .. }
            | Action::CopyStatus { .. }
            | Action::CopyAnnotations { .. } => None,
        }
    }

    /// The virtual node of the target that it cleans up in, or changes something in, if so: of such requests a target
    /// can cause any number.
    pub fn cleans_up_at(&self) -> Option<&str> {
        self.node()
    }

    /// What the action is about.
    pub fn key(&self) -> Key {
        match self {
            Action::DeleteProxy | Action::EndGrace | Action::RemoveFinalizer { .. } => Key::Proxy,
            Action::Endure { .. } => Key::Tolerations,
            Action::CopyStatus { .. } => Key::Status,
            Action::CopyAnnotations { .. } => Key::Annotations,
            Action::DeleteChaperon { node, uid, .. }
            | Action::ConfirmGone { node, uid, .. }
            | Action::DeleteIfOrphan { node, uid, .. } => Key::Chaperon {
                node: node.clone(),
                uid: uid.clone(),
            },
            Action::ChangeSpec { node, uid, .. } => Key::Spec {
                node: node.clone(),
                uid: uid.clone(),
            },
        }
    }
}
