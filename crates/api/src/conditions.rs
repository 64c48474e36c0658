//! Status conditions: what [`merge`] changes, so that an unchanged condition costs no write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{Schema, SchemaGenerator, json_schema};

/// Condition types of ours.
pub mod types {
    /// Target: its API server answers.
    pub const CONNECTED: &str = "Connected";
    /// Target: we may do there what we need to.
    pub const AUTHORIZED: &str = "Authorized";
    /// Target: it gives the rights that this source uses besides running pods. There only once one was missing.
    pub const RIGHTS_GIVEN: &str = "RightsGiven";
    /// Target: its kubeconfig (or `self`) can be used.
    pub const VALID: &str = "Valid";
    /// Target: it says nothing that isn't its to say. There only once it has.
    pub const TRUSTWORTHY: &str = "Trustworthy";
    /// Target: the token that we reach it by is renewed in time. There only once its Secret has asked for that.
    pub const TOKEN_RENEWED: &str = "TokenRenewed";
    /// Source: its service account and bindings stand.
    pub const READY: &str = "Ready";
}

/// One condition as a controller sees it now, without times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionState {
    /// One of [`types`].
    pub type_: &'static str,
    /// `Some(true)` = True, `None` = Unknown.
    pub status: Option<bool>,
    /// One word in camel case.
    pub reason: String,
    /// One sentence for a person.
    pub message: String,
}

impl ConditionState {
    fn status_text(&self) -> &'static str {
        match self.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        }
    }
}

/// The conditions that should stand after `current`, or `None` if nothing changes.
///
/// The transition time moves only with the status, as Kubernetes' API conventions ask; conditions of other types stay.
pub fn merge(
    current: &[Condition],
    wanted: &[ConditionState],
    generation: Option<i64>,
    now: &Time,
) -> Option<Vec<Condition>> {
    let mut merged = current.to_vec();
    for state in wanted {
        let next = |since: Time| Condition {
            type_: state.type_.to_owned(),
            status: state.status_text().to_owned(),
            reason: state.reason.clone(),
            message: state.message.clone(),
            observed_generation: generation,
            last_transition_time: since,
        };
        match merged.iter_mut().find(|c| c.type_ == state.type_) {
            Some(old) => {
                let since = if old.status == state.status_text() {
                    old.last_transition_time.clone()
                } else {
                    now.clone()
                };
                *old = next(since);
            }
            None => merged.push(next(now.clone())),
        }
    }
    (merged != current).then_some(merged)
}

/// Schema of a list of [`Condition`]s, merged by type (k8s-openapi's own would cost a schema of every type).
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What is known of the object, one condition a type.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "maxItems": 32,
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": { "type": "string", "maxLength": 316 },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": { "type": "string", "maxLength": 1024 },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64" },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
    }

    fn connected(status: bool, reason: &str) -> ConditionState {
        ConditionState {
            type_: types::CONNECTED,
            status: Some(status),
            reason: reason.into(),
            message: String::new(),
        }
    }

    #[test]
    fn an_unchanged_condition_is_no_write_and_a_new_reason_keeps_the_transition_time() {
        let first = merge(&[], &[connected(false, "Refused")], Some(1), &at(1)).unwrap();
        assert_eq!(
            merge(&first, &[connected(false, "Refused")], Some(1), &at(2)),
            None
        );
        let second = merge(&first, &[connected(false, "TimedOut")], Some(1), &at(3)).unwrap();
        assert_eq!(second[0].last_transition_time, at(1));
        let third = merge(&second, &[connected(true, "Answered")], Some(1), &at(4)).unwrap();
        assert_eq!(third[0].last_transition_time, at(4));
    }

    #[test]
    fn conditions_of_others_stay() {
        let foreign = Condition {
            type_: "Audited".into(),
            status: "True".into(),
            reason: "x".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: at(0),
        };
        let merged = merge(
            std::slice::from_ref(&foreign),
            &[connected(true, "y")],
            None,
            &at(1),
        )
        .unwrap();
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0], foreign);
    }
}
