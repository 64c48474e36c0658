//! What is kept of chaperons and of their pods: another cluster's source writes the ones, and any user of this cluster
//! may write pods that look like the others.
//!
//! A spec is read once, when its pod is made, and again when it changes: a heavy one isn't kept, and is read then. Of
//! what is too heavy even so only what the protocol reads is left. A mark says what is missing. Who weighs is an
//! argument.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pilotage_api::{PodChaperon, PodChaperonStatus, bounds::cut, keys, left_out, limits::KEY};
use serde_json::{Map, Value, json};

use super::{observe::scheduled, raw_pod::RawPod};

/// A spec that weighs no more is kept with its chaperon; usual ones weigh a third of that.
const LIGHT: usize = 64 << 10;
/// Longest text of a heavy object: of an annotation, a label, an owner. A longer one means nothing.
const LONGEST: usize = 1024;
/// Longest words about a candidate's place: those of an API server, or of a scheduler.
pub(super) const WORDS: usize = 8 << 10;
/// How many finalizers are known of one.
const FINALIZERS: usize = 16;
/// Most gates of a heavy pod that are known.
const GATES: usize = 16;
/// Of the spec, what decides whether there is to be a pod.
const READ: [&str; 2] = ["schedulerName", "restartPolicy"];

/// A field of an object: keys, one within the other.
type Field = &'static [&'static str];

/// Where finalizers stand.
const KEEPERS: Field = &["metadata", "finalizers"];

/// What is read of an object of either kind that is too heavy to be read whole.
pub const OUTLINE: [Field; 31] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "generation"],
    &["metadata", "creationTimestamp"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
    &["metadata", "ownerReferences"],
    KEEPERS,
    &["metadata", "labels", keys::PARENT_UID],
    &["metadata", "annotations", keys::ATTEMPT],
    &["metadata", "annotations", keys::ALLOWED_ATTEMPT],
    &["metadata", "annotations", keys::IS_RESERVED],
    &["metadata", "annotations", keys::IS_ALLOWED],
    &["metadata", "annotations", keys::RESERVED_POD_UID],
    &["metadata", "annotations", keys::PREEMPTS],
    &["metadata", "annotations", keys::REFUSAL],
    &["metadata", "annotations", keys::GIVE_UP],
    &["metadata", "annotations", keys::POD_MISSING_SINCE],
    &["metadata", "annotations", keys::WAS_BOUND],
    &["metadata", "annotations", keys::APPLIED_GENERATION],
    &["metadata", "annotations", keys::AMOUNTS_GENERATION],
    &["spec", "nodeName"],
    &["spec", "restartPolicy"],
    &["spec", "schedulerName"],
    &["spec", "schedulingGates"],
    &["status", "conditions"],
    &["status", "phase"],
];

/// What isn't known of a chaperon, or of a pod: with each of these goes all before it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Nothing.
    Nothing,
    /// Its spec, which can be read.
    Spec,
    /// Annotations and most of its status.
    Words,
    /// It is too heavy to be read whole at all.
    All,
    /// And who else keeps it by a finalizer.
    Finalizers,
}

impl LeftOut {
    /// What isn't known of a chaperon, or of a pod, with these metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        match left_out::word(meta) {
            None => Self::Nothing,
            Some("spec") => Self::Spec,
            Some("words") => Self::Words,
            Some("all") => Self::All,
            Some(_) => Self::Finalizers,
        }
    }

    fn mark(self, meta: &mut ObjectMeta) {
        let word = match self {
            Self::Nothing => return,
            Self::Spec => "spec",
            Self::Words => "words",
            Self::All => "all",
            Self::Finalizers => "finalizers",
        };
        left_out::mark(meta, word);
    }
}

// ---- chaperons --------------------------------------------------------------------------------------------------

/// Takes a heavy spec off a chaperon.
pub fn lean(chaperon: &mut PodChaperon, weigh: impl Fn(&Value) -> usize) {
    let whole = Value::Object(std::mem::take(&mut chaperon.spec.0));
    let heavy = weigh(&whole) > LIGHT;
    if let Value::Object(spec) = whole {
        chaperon.spec.0 = spec;
    }
    if heavy {
        drop_spec(chaperon);
        LeftOut::Spec.mark(&mut chaperon.metadata);
    }
}

fn drop_spec(chaperon: &mut PodChaperon) {
    let spec = &mut chaperon.spec.0;
    spec.retain(|key, value| {
        let is_short = value.as_str().is_some_and(|text| text.len() <= LONGEST);
        READ.contains(&key.as_str()) && is_short
    });
}

/// Takes off a chaperon all that the protocol doesn't read.
pub fn slim(chaperon: &mut PodChaperon) {
    let mut left_out = LeftOut::of(&chaperon.metadata).max(LeftOut::Words);
    drop_spec(chaperon);
    let status = chaperon.status.take();
    chaperon.status = status.map(|status| PodChaperonStatus(essence(&status.0)));
    let mut meta = std::mem::take(&mut chaperon.metadata);
    chaperon.metadata = ObjectMeta {
        labels: meta.labels.take().map(ours),
        annotations: meta.annotations.take().map(ours),
        generation: meta.generation,
        ..identity(meta, &mut left_out)
    };
    left_out.mark(&mut chaperon.metadata);
}

/// Finishes a chaperon of which the [`OUTLINE`] alone was read, and of that not what was `left_out`.
pub fn outlined(chaperon: &mut PodChaperon, left_out: &[Field]) {
    slim(chaperon);
    let missing = if left_out.contains(&KEEPERS) {
        LeftOut::Finalizers
    } else {
        LeftOut::All
    };
    let known = LeftOut::of(&chaperon.metadata);
    missing.max(known).mark(&mut chaperon.metadata);
}

// ---- pods -------------------------------------------------------------------------------------------------------

/// Takes off a pod all but who it is, whose it is and whether it has a place.
pub fn slim_pod(pod: &mut RawPod) {
    let mut left_out = LeftOut::of(&pod.metadata).max(LeftOut::Words);
    let is_light = |value: &Value| match value {
        Value::String(text) => text.len() <= LONGEST,
        Value::Array(gates) => gates.len() <= GATES && gates.iter().all(is_gate),
        _ => false,
    };
    let read = ["nodeName", "schedulingGates"];
    pod.spec
        .retain(|key, value| read.contains(&key.as_str()) && is_light(value));
    pod.status = essence(&pod.status);
    let meta = std::mem::take(&mut pod.metadata);
    pod.metadata = identity(meta, &mut left_out);
    left_out.mark(&mut pod.metadata);
}

/// Whether it is a name and nothing else.
fn is_gate(gate: &Value) -> bool {
    let name = gate["name"].as_str();
    let fields = gate.as_object().map_or(0, Map::len);
    fields == 1 && name.is_some_and(|name| name.len() <= KEY)
}

// ---- both -------------------------------------------------------------------------------------------------------

/// Who an object is, who owns it, and who keeps it.
fn identity(meta: ObjectMeta, left_out: &mut LeftOut) -> ObjectMeta {
    let finalizers = meta.finalizers.map(|mut all| {
        if all.len() > FINALIZERS || all.iter().any(|it| it.len() > KEY) {
            *left_out = LeftOut::Finalizers;
            all.retain(|it| it == keys::DELEGATE_GONE);
            all.truncate(1);
        }
        all
    });
    ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        owner_references: meta.owner_references.map(controller),
        finalizers,
        ..ObjectMeta::default()
    }
}

/// Of owners the one that controls the object, if it can be one of ours.
pub fn controller(mut owners: Vec<OwnerReference>) -> Vec<OwnerReference> {
    owners.retain(|owner| {
        let mut texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid].into_iter();
        owner.controller == Some(true) && texts.all(|text| text.len() <= LONGEST)
    });
    owners.truncate(1);
    owners
}

/// Labels or annotations of ours, as long as anybody reads them. There are some dozen.
fn ours(all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let read = OUTLINE.iter().filter_map(|field| match field {
        ["metadata", "labels" | "annotations", key] => Some(*key),
        _ => None,
    });
    let mut all = all;
    let kept = read.filter_map(|key| all.remove_entry(key));
    let short = |text: String| match text.len() {
        0..=LONGEST => text,
        _ => format!("{}…", cut(&text, LONGEST)),
    };
    kept.map(|(key, text)| (key, short(text))).collect()
}

/// Of a status its phase, and what it says of a place.
pub(super) fn essence(status: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str)?;
        Some(cut(text, WORDS).to_owned())
    };
    if let Some(phase) = text(status.get("phase")) {
        kept.insert("phase".to_owned(), phase.into());
    }
    if let Some(known) = scheduled(status) {
        let mut condition = json!({ "type": "PodScheduled" });
        for field in ["status", "reason", "message", "lastTransitionTime"] {
            if let Some(text) = text(known.get(field)) {
                condition[field] = text.into();
            }
        }
        kept.insert("conditions".to_owned(), json!([condition]));
    }
    kept
}

#[cfg(test)]
mod tests;
