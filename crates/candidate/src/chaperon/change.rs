//! What a chaperon's spec has changed since its pod was made, and which request brings it to the bound pod: one for
//! each ephemeral container, one for all amounts.
//!
//! Only a newer generation of the spec is looked at, and its amounts only if the source says that it changed them.
//! Whatever else differs is the target's own affair: its admission, or somebody who resizes or debugs the pod there.

use std::collections::{BTreeMap, BTreeSet};

use pilotage_api::{bounds::cut, keys};
use pilotage_model::changes::{AMOUNTS, RESIZED};
use serde_json::{Map, Value, json};

use super::{
    decide::{Action, Note, Plan, act, told},
    kept::LeftOut,
    memory::Outcome,
    observe::{Chaperon, Observed, uid},
    raw_pod::RawPod,
};

/// As many bytes of one refusal, and of all, are kept.
const LONGEST: (usize, usize) = (384, 960);

/// The step that changes all amounts.
const RESIZE: &str = "resize";

/// As many new ephemeral containers are looked at: each is a request of its own, and a source writes the list.
const EPHEMERAL_CONTAINERS: usize = 64;

/// One request for a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Generation of the chaperon's spec.
    pub generation: u64,
    /// What is changed, in words that name it in the pod.
    pub what: String,
    /// The subresource of the pod.
    pub subresource: &'static str,
    /// A strategic merge patch of it.
    pub patch: Value,
}

/// The steps of the newest generation that have ended, with the reason of those that were refused.
#[derive(Debug, Default)]
pub(super) struct Carried {
    generation: u64,
    steps: BTreeMap<String, Option<String>>,
}

impl Carried {
    /// Takes in how a step ended; one that failed is due again.
    pub(super) fn finish(&mut self, step: &Step, outcome: &Outcome) {
        if self.generation != step.generation {
            self.generation = step.generation;
            self.steps.clear();
        }
        let refused = match outcome {
            Outcome::Done => None,
            Outcome::Refused(why) => Some(cut(why, LONGEST.0).to_owned()),
            Outcome::NoPod | Outcome::Pod(_) | Outcome::Failed(_) => return,
        };
        self.steps.insert(step.what.clone(), refused);
    }

    fn of(&self, generation: u64) -> Option<&BTreeMap<String, Option<String>>> {
        (self.generation == generation).then_some(&self.steps)
    }

    fn has_ended(&self, generation: u64, what: &str) -> bool {
        let steps = self.of(generation);
        steps.is_some_and(|steps| steps.contains_key(what))
    }

    /// All refusals of a generation in one text.
    fn refusals(&self, generation: u64) -> Option<String> {
        let steps = self.of(generation).into_iter().flatten();
        let texts = steps.filter_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)));
        let text = texts.collect::<Vec<_>>().join("; ");
        (!text.is_empty()).then(|| cut(&text, LONGEST.1).to_owned())
    }
}

/// The plan with the next step of a change, if one is due; the pod's status waits for nothing.
pub(super) fn with_copy(
    seen: &Observed<'_>,
    chaperon: Chaperon<'_>,
    pod: &RawPod,
    copy: Plan,
) -> Plan {
    let Some(change) = next(seen, chaperon, pod) else {
        return copy;
    };
    Plan {
        dirty: copy.dirty,
        missing: copy.missing,
        reads: change.reads,
        wake_at: copy.wake_at.into_iter().chain(change.wake_at).min(),
        action: change.action.or(copy.action),
    }
}

fn next(seen: &Observed<'_>, chaperon: Chaperon<'_>, pod: &RawPod) -> Option<Plan> {
    let generation = chaperon.generation();
    let ends = pod.metadata.deletion_timestamp.is_some();
    if generation <= chaperon.applied() || pod.node().is_none() || ends {
        return None;
    }
    match chaperon.left_out() {
        LeftOut::Nothing => {}
        LeftOut::Spec | LeftOut::Words => {
            return Some(Plan {
                reads: true,
                ..Plan::default()
            });
        }
        LeftOut::All | LeftOut::Finalizers => return Some(told(seen, Note::TooHeavy)),
    }
    // What it has can't be compared.
    if LeftOut::of(&pod.metadata) != LeftOut::Nothing {
        return Some(told(seen, Note::Heavy));
    }
    let carried = seen.memory.carried();
    let missing = missing(chaperon, pod);
    // The newest are the last ones: so those that are refused for good keep none away that comes later.
    let passed_over = missing.len().saturating_sub(EPHEMERAL_CONTAINERS);
    let mut looked_at = missing.iter().skip(passed_over);
    let step = looked_at.find_map(|(name, container)| {
        let what = format!("ephemeral container {}", cut(name, 63));
        let is_due = !carried.has_ended(generation, &what);
        is_due.then(|| ephemeral(chaperon, pod, what, container))
    });
    let due = step.or_else(|| {
        let is_due = chaperon.resized() > chaperon.applied();
        (is_due && !carried.has_ended(generation, RESIZE)).then(|| resize(chaperon, pod))?
    });
    if let Some(step) = due {
        return Some(act(seen, Action::Change(step)));
    }
    let passed_over = (passed_over > 0).then(|| {
        format!(
            "of {} new ephemeral containers only the last {EPHEMERAL_CONTAINERS} are looked at",
            missing.len()
        )
    });
    let refused: Vec<_> = passed_over
        .into_iter()
        .chain(carried.refusals(generation))
        .collect();
    let refused = (!refused.is_empty()).then(|| cut(&refused.join("; "), LONGEST.1).to_owned());
    let known = chaperon.annotation(keys::CHANGE_REFUSED).is_some();
    let mut annotations = json!({ keys::APPLIED_GENERATION: generation.to_string() });
    if refused.is_some() || known {
        annotations[keys::CHANGE_REFUSED] = refused.into();
    }
    Some(act(
        seen,
        Action::Mark(json!({ "metadata": {
            "uid": chaperon.uid(),
            "resourceVersion": chaperon.resource_version(),
            "annotations": annotations,
        } })),
    ))
}

/// The ephemeral containers that the pod lacks, by name.
fn missing<'a>(chaperon: Chaperon<'a>, pod: &RawPod) -> Vec<(&'a str, &'a Value)> {
    let known = list(pod.spec.get("ephemeralContainers"));
    let known: BTreeSet<&str> = known.iter().filter_map(|it| it["name"].as_str()).collect();
    let wanted = list(chaperon.0.spec.0.get("ephemeralContainers")).iter();
    let named = wanted.filter_map(|container| Some((container["name"].as_str()?, container)));
    named.filter(|(name, _)| !known.contains(name)).collect()
}

/// A step for each: one that is refused keeps no other away.
fn ephemeral(chaperon: Chaperon<'_>, pod: &RawPod, what: String, container: &Value) -> Step {
    Step {
        generation: chaperon.generation(),
        what,
        subresource: "ephemeralcontainers",
        patch: json!({
            "metadata": { "uid": uid(pod) },
            "spec": { "ephemeralContainers": [container] },
        }),
    }
}

/// All amounts that differ.
fn resize(chaperon: Chaperon<'_>, pod: &RawPod) -> Option<Step> {
    let spec = &chaperon.0.spec.0;
    let mut changed = Map::new();
    for field in ["containers", "initContainers"] {
        // As many as an object holds: none is looked for by looking at all.
        let known: BTreeMap<&str, &Value> = list(pod.spec.get(field))
            .iter()
            .filter_map(|known| Some((known["name"].as_str()?, known)))
            .collect();
        let containers: Vec<Value> = list(spec.get(field))
            .iter()
            .filter_map(|wanted| {
                let name = wanted["name"].as_str()?;
                let known = known.get(name)?;
                let resources = difference(wanted.get("resources"), known.get("resources"))?;
                let mut change = json!({ "name": name });
                change["resources"] = resources;
                Some(change)
            })
            .collect();
        if !containers.is_empty() {
            changed.insert(field.to_owned(), containers.into());
        }
    }
    if let Some(resources) = difference(spec.get("resources"), pod.spec.get("resources")) {
        changed.insert("resources".to_owned(), resources);
    }
    if changed.is_empty() {
        return None;
    }
    let mut patch = json!({ "metadata": { "uid": uid(pod) } });
    patch["spec"] = changed.into();
    Some(Step {
        generation: chaperon.generation(),
        what: RESIZE.to_owned(),
        subresource: "resize",
        patch,
    })
}

/// The amounts of CPU and memory that `known` hasn't like this.
fn difference<'a>(wanted: Option<&'a Value>, known: Option<&'a Value>) -> Option<Value> {
    let mut changed = Map::new();
    for kind in AMOUNTS {
        let in_kind = |of: Option<&'a Value>| of.and_then(|of| of.get(kind));
        let amount = |of: Option<&'a Value>, name: &str| of?.get(name);
        let (wanted, known) = (in_kind(wanted), in_kind(known));
        let amounts: Map<String, Value> = RESIZED
            .into_iter()
            .filter_map(|name| {
                let wanted = amount(wanted, name)?;
                (amount(known, name) != Some(wanted)).then(|| (name.to_owned(), wanted.clone()))
            })
            .collect();
        if !amounts.is_empty() {
            changed.insert(kind.to_owned(), amounts.into());
        }
    }
    (!changed.is_empty()).then_some(Value::Object(changed))
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
