//! What the state machine reads of a pod and of its chaperon, and nothing more.
//!
//! A value that doesn't parse counts as absent and is a [`Fault`]. Views are read from objects by one function each, so
//! that a simulator can make them by hand.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::{
    api::core::v1::{Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilotage_api::{
    GROUP, PodChaperon,
    bounds::{MOST_ATTEMPTS, cut},
    keys,
    preempts::Preempts,
};

/// A pod of the candidate scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// UID.
    pub uid: String,
    /// The node it is bound to.
    pub node: Option<String>,
    /// Deletion has begun.
    pub ending: bool,
    /// Succeeded or Failed.
    pub finished: bool,
    /// UID of the chaperon that controls it.
    pub owner: Option<String>,
    /// Names of its scheduling gates. A source takes its own away, so that these are the cluster's own.
    pub gates: Option<String>,
}

impl PodView {
    /// Reads a pod; `None` if it lacks what every stored pod has.
    pub fn of(pod: &Pod) -> Option<Self> {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        Some(Self {
            uid: pod.metadata.uid.clone()?,
            node: pod
                .spec
                .as_ref()?
                .node_name
                .clone()
                .filter(|node| !node.is_empty()),
            ending: pod.metadata.deletion_timestamp.is_some(),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            owner: controlling_chaperon(&pod.metadata).map(|(_, uid)| uid.to_owned()),
            gates: gates(pod.spec.as_ref()?),
        })
    }
}

fn gates(spec: &PodSpec) -> Option<String> {
    let gates = spec.scheduling_gates.iter().flatten();
    let names: Vec<&str> = gates.map(|gate| gate.name.as_str()).collect();
    (!names.is_empty()).then(|| kept(&names.join(", ")))
}

/// Name and UID of the chaperon that controls an object.
pub fn controlling_chaperon(meta: &ObjectMeta) -> Option<(&str, &str)> {
    let owner = meta.owner_references.iter().flatten().find(|owner| {
        owner.controller == Some(true)
            && owner.kind == "PodChaperon"
            && owner.api_version.split('/').next() == Some(GROUP)
    })?;
    Some((&owner.name, &owner.uid))
}

/// What the source has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// This attempt; 0 is none. The source numbers attempts.
    Attempt(u64),
    /// Every attempt, or none: a source that numbers no attempts.
    Plain(bool),
}

/// A chaperon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one mark on the wire"
)]
pub struct ChaperonView {
    /// UID.
    pub uid: String,
    /// Version of the object that the view was read from.
    pub resource_version: String,
    /// Deletion has begun.
    pub ending: bool,
    /// Number of the newest attempt; 0 before the first.
    pub attempt: u64,
    /// The newest attempt is said to hold a node.
    pub reserved: bool,
    /// The pod that the newest reservation was made for.
    pub reserved_pod_uid: Option<String>,
    /// Whom the newest reservation evicts.
    pub preempts: Option<Preempts>,
    /// Why the newest attempt holds nothing.
    pub refusal: Option<String>,
    /// What the source allows.
    pub grant: Grant,
    /// A pod of this chaperon had been bound and is gone: its successor needs no new grant.
    pub was_bound: bool,
    /// The status says that a pod is bound.
    pub bound: bool,
    /// Changes whenever the source changes something.
    pub source_side: u64,
    /// Values that don't parse.
    pub faults: Vec<Fault>,
}

/// As many bytes of a value that means nothing are told.
const TOLD: usize = 100;
/// As many bytes of a UID, a refusal or names of gates are kept: more than one of ours has, so that what is longer is
/// equal to none.
const LONGEST: usize = 2048;

/// An annotation whose value means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The annotation.
    pub key: &'static str,
    /// Its value, or how that begins.
    pub value: String,
}

impl Fault {
    fn new(key: &'static str, value: &str) -> Self {
        Self {
            key,
            value: cut(value, TOLD).to_owned(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "annotation {} has the meaningless value {:?}; it counts as absent",
            self.key, self.value
        )
    }
}

/// Annotations under our prefix that the target's side writes.
const TARGETS_KEYS: [&str; 7] = [
    keys::ATTEMPT,
    keys::IS_RESERVED,
    keys::RESERVED_POD_UID,
    keys::REFUSAL,
    keys::PREEMPTS,
    keys::POD_MISSING_SINCE,
    keys::WAS_BOUND,
];

impl ChaperonView {
    /// Reads a chaperon; `None` if it lacks what every stored object has.
    pub fn of(chaperon: &PodChaperon) -> Option<Self> {
        let meta = &chaperon.metadata;
        let mut read = Reader {
            meta,
            faults: Vec::new(),
        };
        let attempt = read.number(keys::ATTEMPT).unwrap_or_default();
        let grant = if read.text(keys::ALLOWED_ATTEMPT).is_some() {
            // A damaged number grants nothing, but the source still is one that numbers attempts.
            Grant::Attempt(read.number(keys::ALLOWED_ATTEMPT).unwrap_or_default())
        } else {
            Grant::Plain(read.flag(keys::IS_ALLOWED))
        };
        Some(Self {
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
            ending: meta.deletion_timestamp.is_some(),
            attempt,
            reserved: read.flag(keys::IS_RESERVED),
            reserved_pod_uid: read.text(keys::RESERVED_POD_UID).map(kept),
            preempts: read.preempts(),
            refusal: read.text(keys::REFUSAL).map(kept),
            grant,
            was_bound: read.flag(keys::WAS_BOUND),
            bound: is_bound(chaperon),
            source_side: source_side(meta),
            faults: read.faults,
        })
    }

    /// Whether the newest attempt is reserved and granted.
    pub fn is_granted(&self) -> bool {
        self.reserved
            && match self.grant {
                Grant::Attempt(allowed) => allowed > 0 && allowed == self.attempt,
                Grant::Plain(allowed) => allowed,
            }
    }

    /// Whether the source numbers attempts.
    pub fn is_numbered(&self) -> bool {
        matches!(self.grant, Grant::Attempt(_))
    }
}

fn kept(text: &str) -> String {
    cut(text, LONGEST).to_owned()
}

struct Reader<'a> {
    meta: &'a ObjectMeta,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.meta.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn number(&mut self, key: &'static str) -> Option<u64> {
        let text = self.text(key)?;
        // One is left for the attempt that follows.
        let number = text.parse().ok().filter(|number| *number < MOST_ATTEMPTS);
        if number.is_none() {
            self.faults.push(Fault::new(key, text));
        }
        number
    }

    fn preempts(&mut self) -> Option<Preempts> {
        let text = self.text(keys::PREEMPTS)?;
        let preempts = text.parse().ok();
        if preempts.is_none() {
            self.faults.push(Fault::new(keys::PREEMPTS, text));
        }
        preempts
    }

    fn flag(&mut self, key: &'static str) -> bool {
        match self.text(key) {
            None => false,
            Some(keys::TRUE) => true,
            Some(other) => {
                self.faults.push(Fault::new(key, other));
                false
            }
        }
    }
}

fn is_bound(chaperon: &PodChaperon) -> bool {
    let conditions = chaperon
        .status
        .as_ref()
        .and_then(|status| status.0.get("conditions"));
    conditions
        .and_then(|conditions| conditions.as_array())
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "PodScheduled" && condition["status"] == "True")
}

fn source_side(meta: &ObjectMeta) -> u64 {
    // The default hasher has fixed keys: equal objects give equal numbers within a process, which is all we need.
    let mut hasher = DefaultHasher::new();
    meta.generation.hash(&mut hasher);
    meta.labels.hash(&mut hasher);
    for (key, value) in meta.annotations.iter().flatten() {
        if keys::is_ours(key) && !TARGETS_KEYS.contains(&key.as_str()) {
            (key, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chaperon(annotations: &Value) -> PodChaperon {
        serde_json::from_value(json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": { "uid": "u", "resourceVersion": "7", "annotations": annotations },
            "spec": {},
        }))
        .unwrap()
    }

    fn view(annotations: &Value) -> ChaperonView {
        ChaperonView::of(&chaperon(annotations)).unwrap()
    }

    #[test]
    fn grants_by_kind_of_source() {
        for (annotations, grant, granted) in [
            (
                json!({ keys::ALLOWED_ATTEMPT: "0", keys::IS_RESERVED: "true" }),
                Grant::Attempt(0),
                false,
            ),
            (
                json!({ keys::ALLOWED_ATTEMPT: "2", keys::ATTEMPT: "2", keys::IS_RESERVED: "true" }),
                Grant::Attempt(2),
                true,
            ),
            (
                json!({ keys::ALLOWED_ATTEMPT: "2", keys::ATTEMPT: "2" }),
                Grant::Attempt(2),
                false,
            ),
            (
                json!({ keys::ALLOWED_ATTEMPT: "1", keys::ATTEMPT: "2", keys::IS_RESERVED: "true" }),
                Grant::Attempt(1),
                false,
            ),
            (
                json!({ keys::ATTEMPT: "5", keys::IS_RESERVED: "true", keys::IS_ALLOWED: "true" }),
                Grant::Plain(true),
                true,
            ),
            (
                json!({ keys::IS_RESERVED: "true" }),
                Grant::Plain(false),
                false,
            ),
        ] {
            let view = view(&annotations);
            assert_eq!(
                (view.grant, view.is_granted()),
                (grant, granted),
                "{annotations}"
            );
            assert!(view.faults.is_empty());
        }
    }

    #[test]
    fn what_does_not_parse_counts_as_absent_and_is_reported() {
        let view = view(&json!({
            keys::ATTEMPT: "two",
            keys::ALLOWED_ATTEMPT: "-1",
            keys::IS_ALLOWED: "true",
            keys::IS_RESERVED: "yes",
        }));
        assert_eq!((view.attempt, view.reserved), (0, false));
        assert_eq!(
            view.grant,
            Grant::Attempt(0),
            "a damaged number isn't a permission for all"
        );
        let faults: Vec<&str> = view.faults.iter().map(|fault| fault.key).collect();
        assert_eq!(
            faults,
            [keys::ATTEMPT, keys::ALLOWED_ATTEMPT, keys::IS_RESERVED]
        );
    }

    #[test]
    fn what_is_read_is_bounded() {
        let long = "x".repeat(200_000);
        let view = view(&json!({
            keys::ATTEMPT: "18446744073709551615",
            keys::ALLOWED_ATTEMPT: long,
            keys::IS_RESERVED: long,
            keys::REFUSAL: long,
            keys::RESERVED_POD_UID: long,
        }));
        assert_eq!((view.attempt, view.grant), (0, Grant::Attempt(0)));
        assert_eq!(view.faults.len(), 3);
        assert!(
            view.faults
                .iter()
                .all(|fault| fault.to_string().len() < 256)
        );
        let kept = [view.refusal, view.reserved_pod_uid].map(Option::unwrap_or_default);
        assert!(kept.iter().all(|text| text.len() == LONGEST));
    }

    #[test]
    fn only_the_sources_changes_change_its_side() {
        let base = json!({ keys::ALLOWED_ATTEMPT: "0", keys::ATTEMPT: "0", "scrape": "true" });
        let side = |key: &str, value: &str| {
            let mut changed = base.clone();
            changed[key] = value.into();
            view(&changed).source_side
        };
        let before = view(&base).source_side;
        for key in TARGETS_KEYS.into_iter().chain(["scrape"]) {
            assert_eq!(side(key, "9"), before, "{key}");
        }
        for key in [keys::ALLOWED_ATTEMPT, keys::IS_ALLOWED, keys::PARENT_NAME] {
            assert_ne!(side(key, "9"), before, "{key}");
        }
    }

    #[test]
    fn a_pod_is_gated_by_any_gate() {
        let gates = |gates: Value| {
            let pod = json!({
                "metadata": { "uid": "p" },
                "spec": { "containers": [], "schedulingGates": gates },
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            PodView::of(&pod).unwrap().gates
        };
        assert_eq!(gates(Value::Null), None);
        assert_eq!(gates(json!([])), None);
        let two = json!([{ "name": "a/b" }, { "name": "c/d" }]);
        assert_eq!(gates(two).as_deref(), Some("a/b, c/d"));
    }

    #[test]
    fn a_pod_belongs_to_the_chaperon_that_controls_it() {
        let pod = |api: &str, kind: &str, controller: bool| -> Option<String> {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "uid": "p", "ownerReferences": [
                    { "apiVersion": api, "kind": kind, "name": "c", "uid": "u", "controller": controller }] },
                "spec": { "containers": [] },
            }))
            .unwrap();
            PodView::of(&pod).unwrap().owner
        };
        let ours = "multicluster.admiralty.io/v1alpha1";
        assert_eq!(pod(ours, "PodChaperon", true).as_deref(), Some("u"));
        assert_eq!(pod(ours, "PodChaperon", false), None);
        assert_eq!(pod("apps/v1", "PodChaperon", true), None);
        assert_eq!(pod(ours, "ReplicaSet", true), None);
    }
}
