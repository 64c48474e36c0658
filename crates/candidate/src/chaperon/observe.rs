//! What the chaperon controller reads of a chaperon and of the pod of its name.

use jiff::Timestamp;
use pilotage_api::{
    PodChaperon,
    bounds::{LONGEST_UID, cut},
    keys,
};
use serde_json::{Map, Value};

use super::{kept::LeftOut, memory::Memory, raw_pod::RawPod};

/// Time since the start of the process.
pub type Monotonic = std::time::Duration;

/// What is seen of one name at one moment.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The chaperon.
    pub chaperon: Option<&'a PodChaperon>,
    /// The pod of its name.
    pub pod: Option<&'a RawPod>,
    /// What is remembered of the name.
    pub memory: &'a Memory,
    /// Now.
    pub now: Monotonic,
    /// For marks that others read.
    pub wall: Timestamp,
}

/// Who a pod belongs to, seen from the chaperon of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// A chaperon of this name, with this UID.
    Chaperon(&'a str),
    /// Somebody else, or nobody.
    Other,
}

/// Who a pod belongs to.
pub fn owner(pod: &RawPod) -> Owner<'_> {
    match crate::view::controlling_chaperon(&pod.metadata) {
        Some((name, uid)) if Some(name) == pod.metadata.name.as_deref() => Owner::Chaperon(uid),
        _ => Owner::Other,
    }
}

pub(super) fn uid(pod: &RawPod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// A chaperon, for reading.
#[derive(Clone, Copy)]
pub(super) struct Chaperon<'a>(pub(super) &'a PodChaperon);

impl<'a> Chaperon<'a> {
    pub(super) fn uid(self) -> &'a str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn resource_version(self) -> &'a str {
        self.0
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    /// What isn't known of it, since it is too heavy.
    pub(super) fn left_out(self) -> LeftOut {
        LeftOut::of(&self.0.metadata)
    }

    /// Number of its spec's newest version; the first one is what its pod is made of.
    pub(super) fn generation(self) -> u64 {
        let generation = self.0.metadata.generation.unwrap_or_default();
        u64::try_from(generation).unwrap_or_default()
    }

    /// The newest generation whose changes were carried out, or refused.
    pub(super) fn applied(self) -> u64 {
        self.generation_in(keys::APPLIED_GENERATION)
    }

    /// The generation in which its source changed amounts last.
    pub(super) fn resized(self) -> u64 {
        self.generation_in(keys::AMOUNTS_GENERATION)
    }

    fn generation_in(self, key: &str) -> u64 {
        let generation = self.annotation(key);
        generation.and_then(|text| text.parse().ok()).unwrap_or(1)
    }

    pub(super) fn is_ending(self) -> bool {
        self.0.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn annotation(self, key: &str) -> Option<&'a str> {
        self.0
            .metadata
            .annotations
            .as_ref()?
            .get(key)
            .map(String::as_str)
    }

    /// UID of the pod that it names, cut where no UID is as long: it is remembered.
    pub(super) fn reserved_pod(self) -> Option<&'a str> {
        let uid = self.annotation(keys::RESERVED_POD_UID)?;
        Some(cut(uid, LONGEST_UID + 1))
    }

    /// Its pods are watched by this label.
    pub(super) fn has_parent(self) -> bool {
        self.0
            .metadata
            .labels
            .iter()
            .flatten()
            .any(|(key, _)| key == keys::PARENT_UID)
    }

    pub(super) fn is_reserved(self) -> bool {
        self.annotation(keys::IS_RESERVED) == Some(keys::TRUE)
    }

    /// The source wants its grant back.
    pub(super) fn is_given_up(self) -> bool {
        self.annotation(keys::GIVE_UP) == Some(keys::TRUE)
    }

    /// The source numbers attempts.
    pub(super) fn is_numbered(self) -> bool {
        self.annotation(keys::ALLOWED_ATTEMPT).is_some()
    }

    /// A pod that is made only after the choice, and the choice hasn't come.
    pub(super) fn waits_for_choice(self) -> bool {
        let own_scheduler = self.0.spec.0.get("schedulerName").and_then(Value::as_str)
            != Some(keys::CANDIDATE_SCHEDULER);
        let allowed = self.annotation(keys::ALLOWED_ATTEMPT);
        own_scheduler && allowed.is_some_and(|n| n.parse::<u64>().unwrap_or_default() == 0)
    }

    /// Since when its pod is missing; an unreadable mark counts as none and is written anew.
    pub(super) fn missing_since(self) -> Option<Timestamp> {
        self.annotation(keys::POD_MISSING_SINCE)?.parse().ok()
    }

    /// It had a pod once: its status was copied, or a candidate scheduler tried it.
    pub(super) fn had_pod(self) -> bool {
        let status = self.status();
        let tried = self
            .annotation(keys::ATTEMPT)
            .and_then(|n| n.parse::<u64>().ok());
        status.is_some_and(|status| status.contains_key("phase")) || tried.is_some_and(|n| n > 0)
    }

    pub(super) fn restarts(self) -> bool {
        self.0
            .spec
            .0
            .get("restartPolicy")
            .and_then(Value::as_str)
            .unwrap_or("Always")
            == "Always"
    }

    pub(super) fn status(self) -> Option<&'a Map<String, Value>> {
        self.0.status.as_ref().map(|status| &status.0)
    }

    pub(super) fn has_our_finalizer(self) -> bool {
        self.0
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|f| f == keys::DELEGATE_GONE)
    }
}

/// The `PodScheduled` condition of a status.
pub(super) fn scheduled(status: &Map<String, Value>) -> Option<&Value> {
    status
        .get("conditions")?
        .as_array()?
        .iter()
        .find(|c| c["type"] == "PodScheduled")
}

/// Whether a status says that the pod is bound.
pub(super) fn is_bound(status: Option<&Map<String, Value>>) -> bool {
    status
        .and_then(scheduled)
        .is_some_and(|condition| condition["status"] == "True")
}
