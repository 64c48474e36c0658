//! A pod's conditions: the delegate's, then those that only the proxy has.

use k8s_openapi::api::core::v1::{PodCondition, PodSpec};
use pilotage_api::annotations::is_qualified_name;
use serde_json::{Map, Value};

use super::reader::{MESSAGE, Reader, WORD};

/// Most conditions that a delegate has.
const MOST_SAID: usize = 32;
/// Most conditions of a proxy: those that a delegate had once can't be told from those of others here.
const MOST: usize = 64;

const FIELD: &str = "conditions";
/// What only the kubelet that runs a pod says: when the delegate's is silent again, the proxy's is old.
const OF_KUBELETS: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];
const STATES: [&str; 3] = ["True", "False", "Unknown"];

/// The delegate's conditions, each type once.
pub(super) fn said(reader: &mut Reader, status: &Map<String, Value>) -> Vec<PodCondition> {
    let mut all: Vec<PodCondition> = Vec::new();
    for condition in reader.objects(status, FIELD) {
        let type_ = condition.get("type").and_then(Value::as_str);
        let type_ = type_.filter(|type_| {
            is_qualified_name(type_)
                && all.len() < MOST_SAID
                && all.iter().all(|known| known.type_ != *type_)
        });
        let (Some(type_), Some(state)) = (type_, reader.one_of(condition, "status", &STATES))
        else {
            reader.withhold(FIELD);
            continue;
        };
        all.push(PodCondition {
            type_: type_.to_owned(),
            status: state,
            reason: reader.text(condition, "reason", WORD),
            message: reader.text(condition, "message", MESSAGE),
            last_probe_time: reader.time(condition, "lastProbeTime"),
            last_transition_time: reader.time(condition, "lastTransitionTime"),
            // Of the other pod object.
            observed_generation: None,
        });
    }
    all
}

/// Puts those behind that only the proxy has, its readiness gates first.
pub(super) fn merge(
    mut conditions: Vec<PodCondition>,
    own: &[PodCondition],
    spec: Option<&PodSpec>,
) -> Vec<PodCondition> {
    let gates = spec.and_then(|spec| spec.readiness_gates.as_ref());
    let is_gate = |own: &&PodCondition| {
        gates.is_some_and(|gates| gates.iter().any(|gate| gate.condition_type == own.type_))
    };
    let said = conditions.len();
    let (gates, others): (Vec<_>, Vec<_>) = own
        .iter()
        .filter(|own| {
            let said = conditions.iter().any(|said| said.type_ == own.type_);
            !said && !OF_KUBELETS.contains(&&*own.type_)
        })
        .partition(is_gate);
    let room = MOST.saturating_sub(said);
    conditions.extend(gates.into_iter().chain(others).take(room).cloned());
    conditions
}
