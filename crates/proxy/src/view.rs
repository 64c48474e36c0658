//! What the state machines look at: a proxy pod, its chaperons and the targets, each reduced to what a rule reads.
//!
//! Views are read from objects by one function each, so that a simulator can make them by hand.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use pilotage_api::{
    PodChaperon, keys,
    lost::LostPolicy,
    parent::ParentLink,
    record::{Record, RecordError},
};

use serde_json::Value;

use crate::class::{Class, Marks, classify, is_bound, unschedulable};
use crate::door::is_parent;
use crate::kept::LeftOut;
use crate::window::Ticket;

/// The field of a pod's status that names the node where it expects room.
pub(crate) const NOMINATED: &str = "nominatedNodeName";

/// Time on the process's own monotonic clock, since some fixed start.
pub type Monotonic = Duration;

/// A resource version as a number: those of one cluster are comparable since Kubernetes 1.35.
pub fn version(text: &str) -> u128 {
    text.parse().unwrap_or_default()
}

/// The record on a proxy pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// No choice was made yet.
    Absent,
    /// The newest choice.
    Is(Record),
    /// Someone damaged it: the pod counts as recorded at an unknown target.
    Damaged(RecordError),
}

impl RecordState {
    /// The record, if there is a readable one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            RecordState::Is(record) => Some(record),
            RecordState::Absent | RecordState::Damaged(_) => None,
        }
    }
}

/// A proxy pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one fact that a rule reads"
)]
pub struct ProxyView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Version of the object that the view was read from.
    pub resource_version: String,
    /// Whether the webhook's manifest is there.
    pub has_manifest: bool,
    /// The virtual node it is bound to.
    pub node_name: Option<String>,
    /// Deletion has begun.
    pub ending: bool,
    /// Seconds that its deletion still grants it; nobody but us would end the wait.
    pub deletion_grace_seconds: i64,
    /// Scheduling gates hold it in the source.
    pub gated: bool,
    /// Its finalizers; ours comes with the record.
    pub finalizers: Vec<String>,
    /// Our webhook made it: nobody was granted it without a record.
    pub recorded: bool,
    /// Succeeded or Failed.
    pub terminal: bool,
    /// When others wait as well: whose turn is first.
    pub ticket: Ticket,
    /// One candidate, made only after the choice.
    pub no_reservation: bool,
    /// It is a question only: all are asked, and nobody is given it.
    pub what_if: bool,
    /// What its author wants if its target is lost; an unreadable word counts as none.
    pub lost_policy: Option<LostPolicy>,
    /// The record.
    pub record: RecordState,
    /// What isn't known of it, since it is too heavy.
    pub left_out: LeftOut,
}

impl ProxyView {
    /// Reads a pod; `None` if it lacks what every stored pod has.
    pub fn of(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref()?;
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let record = match annotation(keys::GRANTED_TO).map(|text| text.parse()) {
            None => RecordState::Absent,
            Some(Ok(record)) => RecordState::Is(record),
            Some(Err(error)) => RecordState::Damaged(error),
        };
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        Some(Self {
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
            has_manifest: annotation(keys::SOURCE_POD_MANIFEST).is_some(),
            node_name: spec.node_name.clone().filter(|name| !name.is_empty()),
            ending: meta.deletion_timestamp.is_some(),
            deletion_grace_seconds: meta.deletion_grace_period_seconds.unwrap_or_default(),
            gated: spec
                .scheduling_gates
                .as_ref()
                .is_some_and(|gates| !gates.is_empty()),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            recorded: annotation(keys::RECORDED).is_some_and(|value| value == keys::TRUE),
            terminal: matches!(phase, Some("Succeeded" | "Failed")),
            ticket: Ticket::new(
                spec.priority.unwrap_or(0),
                meta.creation_timestamp
                    .as_ref()
                    .map_or(0, |at| at.0.as_second()),
                meta.uid.clone()?,
            ),
            no_reservation: annotation(keys::NO_RESERVATION).is_some(),
            what_if: annotation(keys::WHAT_IF).is_some(),
            lost_policy: annotation(keys::REPLACE_AFTER).and_then(|text| text.parse().ok()),
            record,
            left_out: LeftOut::of(pod),
        })
    }

    /// Whether our finalizer is on it.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == keys::DELEGATE_GONE)
    }

    /// Whether every grant of it is recorded before it lands; pods of Admiralty's webhook may have been granted
    /// without. Those of earlier webhooks of ours came with our finalizer, which Admiralty's gives nobody.
    pub fn is_recorded_first(&self) -> bool {
        self.recorded || self.has_finalizer()
    }

    /// All its finalizers and ours; `None`: that is on it, or nobody knows what else is.
    pub fn with_finalizer(&self) -> Option<Vec<String>> {
        if self.has_finalizer() || self.left_out >= LeftOut::Finalizers {
            return None;
        }
        let mut finalizers = self.finalizers.clone();
        finalizers.push(keys::DELEGATE_GONE.to_owned());
        Some(finalizers)
    }

    /// Whether Admiralty put a finalizer on it, which it does for each target.
    pub fn has_plain_finalizer(&self) -> bool {
        let mut all = self.finalizers.iter();
        all.any(|finalizer| keys::is_admiraltys_finalizer(finalizer))
    }

    /// Virtual nodes that it names: the recorded one, and where it is bound.
    pub(crate) fn named_nodes(&self) -> impl Iterator<Item = &str> {
        let recorded = self.record.record().map(|record| record.node.as_str());
        recorded.into_iter().chain(self.node_name.as_deref())
    }

    /// Name of this pod's chaperon in every target.
    pub fn chaperon_name(&self) -> String {
        pilotage_api::names::chaperon(&self.namespace, &self.name, &self.uid)
    }
}

/// A chaperon of the pod in one target.
#[derive(Clone, Debug)]
pub struct ChaperonView {
    /// The virtual node of the target where it lives.
    pub node: String,
    /// Name (its namespace is the pod's).
    pub name: String,
    /// UID.
    pub uid: String,
    /// Version of the object that the view was read from.
    pub resource_version: String,
    /// Finalizers that others put there.
    pub foreign_finalizers: bool,
    /// Its numbers.
    pub marks: Marks,
    /// What they and the status say.
    pub class: Class,
    /// A scheduler found no node for the candidate, as the status says, for this reason.
    pub unschedulable: Option<String>,
    /// The status says that others are being evicted so that the candidate gets a node.
    pub is_nominated: bool,
    /// The status says that a delegate is bound, whatever the class.
    pub says_bound: bool,
    /// The object itself, for status and annotations.
    pub object: Arc<PodChaperon>,
}

/// What a target has answered about one pod; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said<'a> {
    attempt: u64,
    reserved: bool,
    refusal: Option<&'a str>,
    missing: bool,
    bound: bool,
}

impl ChaperonView {
    /// Reads a chaperon that lives behind `node`; `None` if it lacks what every stored object has.
    pub fn of(node: &str, chaperon: Arc<PodChaperon>) -> Option<Self> {
        let meta = &chaperon.metadata;
        let marks = Marks::of(&chaperon);
        // What else its status says, and whether that can be read, changes nothing in what it is.
        let status = PodStatus {
            conditions: Some(chaperon.conditions()),
            ..PodStatus::default()
        };
        Some(Self {
            node: node.to_owned(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
            foreign_finalizers: meta
                .finalizers
                .as_ref()
                .is_some_and(|all| all.iter().any(|f| f != keys::DELEGATE_GONE)),
            unschedulable: unschedulable(Some(&status)),
            is_nominated: is_nominated(&chaperon),
            says_bound: is_bound(Some(&status)),
            class: classify(&marks, meta.deletion_timestamp.is_some(), Some(&status)),
            marks,
            object: chaperon,
        })
    }

    /// All that the target's Pilotage has answered by it. What the source writes itself, and how a bound delegate
    /// fares, is no answer.
    pub(crate) fn answer(&self) -> Said<'_> {
        Said {
            attempt: self.marks.attempt,
            reserved: self.marks.reserved,
            refusal: match &self.class {
                Class::Refused(reason) | Class::VoidRefused(reason) => Some(reason),
                _ => None,
            },
            missing: self.marks.missing,
            bound: self.says_bound,
        }
    }

    /// The candidate takes, or may still take, room that its target hasn't published as taken.
    pub fn is_outstanding(&self) -> bool {
        matches!(
            self.class,
            Class::Asked
                | Class::Reserved(_)
                | Class::Granted(_)
                | Class::VoidReserved(_)
                | Class::PlainReserved
                | Class::PlainGranted
                | Class::Bound
        )
    }

    /// The target's Pilotage has said which pod is the chaperon's: before that, none can be bound.
    pub fn names_its_pod(&self) -> bool {
        let annotations = self.object.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(keys::RESERVED_POD_UID))
    }

    /// Granted or bound in the form that carries no finalizer of ours: its end proves nothing of its pod.
    pub fn is_plainly_granted(&self) -> bool {
        self.marks.allowed == 0 && (self.marks.is_allowed || self.says_bound)
    }

    /// Whether a source made it that doesn't say who it is, as Admiralty: the API server made up its name, which nobody
    /// knows who doesn't see it.
    pub fn is_of_plain_source(&self) -> bool {
        self.parent().is_some_and(|link| link.cluster_uid.is_none())
    }

    /// Whether it is behind this virtual node, in this namespace and of this name.
    pub(crate) fn is_at(&self, node: &str, (namespace, name): &(String, String)) -> bool {
        let own = self.object.metadata.namespace.as_ref();
        self.name == *name && self.node == node && own == Some(namespace)
    }

    /// Whether it is this pod's.
    pub(crate) fn is_of(&self, proxy: &ProxyView) -> bool {
        let meta = &self.object.metadata;
        meta.namespace.as_ref() == Some(&proxy.namespace)
            && self.parent().is_some_and(|link| is_parent(proxy, &link))
    }

    /// The chaperon's parent.
    pub fn parent(&self) -> Option<ParentLink> {
        ParentLink::of(&self.object.metadata)
    }
}

fn is_nominated(chaperon: &PodChaperon) -> bool {
    let status = chaperon.status.as_ref();
    let node = status.and_then(|status| status.0.get(NOMINATED));
    node.and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty())
}

/// A target, as far as one pod is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It answers, and our store of its chaperons has been filled since it last came back.
    Reachable,
    /// Nothing has been heard of it yet, not even that it doesn't answer: nobody gives it up.
    Unknown,
    /// It answers, but our chaperons there can't be seen. That is no silence: only *forget* gives it up.
    Unseen,
    /// It doesn't answer.
    Lost,
    /// It is proved that no Target or `ClusterTarget` of that name exists.
    NoSuchTarget,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_bound_is_seen_whatever_else_its_status_says() {
        let chaperon = json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": { "name": "web-x", "uid": "ua", "resourceVersion": "1" },
            "spec": {},
            "status": {
                "phase": 7,
                "conditions": ["x", { "type": 1 }, { "type": "PodScheduled", "status": "True" }],
                "containerStatuses": [{ "restartCount": 1e300 }],
            },
        });
        let chaperon = Arc::new(serde_json::from_value(chaperon).unwrap());
        let view = ChaperonView::of("a", chaperon).unwrap();
        assert_eq!(view.class, Class::Bound);
    }
}
