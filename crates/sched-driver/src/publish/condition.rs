//! What to write into a pod's status after a failed attempt. No clock, no client.
//!
//! Cluster autoscalers key on the `PodScheduled` condition, people read it in `kubectl describe`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use pilotage_sched::{Nomination, StatusPatch};
use serde_json::{Map, Value, json};

/// The condition's type.
pub(crate) const POD_SCHEDULED: &str = "PodScheduled";

/// What a pod's status should say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// `PodScheduled=False` with this reason and message (in full, never cut); `None` leaves the
    /// condition alone.
    pub(crate) unscheduled: Option<(&'static str, String)>,
    /// The nomination.
    pub(crate) nomination: Nomination,
}

impl Desired {
    /// The same where `older` wasn't written yet: a nomination that had to go still has to, unless there is a new one.
    pub(crate) fn after(self, older: &Self) -> Self {
        let goes = self.nomination == Nomination::Keep && older.nomination == Nomination::Clear;
        Self {
            nomination: if goes {
                Nomination::Clear
            } else {
                self.nomination
            },
            ..self
        }
    }
}

impl From<StatusPatch> for Desired {
    fn from(patch: StatusPatch) -> Self {
        Self {
            unscheduled: patch
                .condition
                .map(|condition| (condition.reason, condition.message)),
            nomination: patch.nomination,
        }
    }
}

/// The strategic merge patch of `pods/status`, over this version of the pod only, that makes its `PodScheduled`
/// condition say False with this reason and message; `None` if it does already.
pub fn unscheduled(
    pod: &Pod,
    reason: &'static str,
    message: &str,
    now: Timestamp,
) -> Option<Value> {
    let desired = Desired {
        unscheduled: Some((reason, message.to_owned())),
        nomination: Nomination::Keep,
    };
    status_patch(pod, &desired, now)
}

/// The strategic merge patch of `pods/status` that makes `pod` say what is desired, or `None` if it
/// does already. It carries the UID and resource version of `pod`, so that a late failure can't
/// overwrite what another one wrote.
pub(crate) fn status_patch(pod: &Pod, desired: &Desired, now: Timestamp) -> Option<Value> {
    let mut status = Map::new();
    if let Some((reason, message)) = &desired.unscheduled
        && let Some(condition) = condition_patch(pod, reason, message, now)
    {
        // Merged with the others by its type.
        status.insert("conditions".to_owned(), json!([condition]));
    }
    let nominated = pod
        .status
        .as_ref()
        .and_then(|status| status.nominated_node_name.as_deref());
    match (
        &desired.nomination,
        nominated.filter(|name| !name.is_empty()),
    ) {
        (Nomination::Set(wanted), found) if found != Some(wanted.as_str()) => {
            status.insert("nominatedNodeName".to_owned(), json!(wanted.as_str()));
        }
        (Nomination::Clear, Some(_)) => {
            status.insert("nominatedNodeName".to_owned(), Value::Null);
        }
        _ => {}
    }
    if status.is_empty() {
        return None;
    }
    let metadata = json!({
        "uid": pod.metadata.uid,
        "resourceVersion": pod.metadata.resource_version,
    });
    Some(json!({"metadata": metadata, "status": status}))
}

fn condition_patch(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
    let found = find(pod);
    let same_status = found.is_some_and(|condition| condition.status == "False");
    if let Some(found) = found
        && same_status
        && found.reason.as_deref() == Some(reason)
        && found.message.as_deref() == Some(message)
        && found.observed_generation == pod.metadata.generation
    {
        return None;
    }
    let transition = found
        .filter(|_| same_status)
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map_or_else(|| json!(seconds(now)), |time| json!(time));
    let mut condition = json!({
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": transition,
    });
    if let Some(generation) = pod.metadata.generation {
        condition["observedGeneration"] = json!(generation);
    }
    Some(condition)
}

fn find(pod: &Pod) -> Option<&PodCondition> {
    pod.status
        .as_ref()?
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == POD_SCHEDULED)
}

/// RFC 3339 without fractions, as `metav1.Time`.
pub(crate) fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::new(1_700_000_000, 999_000_000).unwrap()
    }

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 2},
            "status": status,
        }))
        .unwrap()
    }

    fn condition(status: &str, message: &str, generation: i64) -> Value {
        json!({
            "type": "PodScheduled",
            "status": status,
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": "2020-01-01T00:00:00Z",
            "observedGeneration": generation,
        })
    }

    fn unschedulable(message: &str) -> Desired {
        Desired {
            unscheduled: Some(("Unschedulable", message.to_owned())),
            nomination: Nomination::Keep,
        }
    }

    #[test]
    fn a_new_condition_carries_preconditions_and_times() {
        let patch = status_patch(&pod(&json!({})), &unschedulable("full"), now()).unwrap();
        assert_eq!(
            patch,
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7"},
                "status": {"conditions": [{
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "full",
                    "lastProbeTime": null,
                    "lastTransitionTime": "2023-11-14T22:13:20Z",
                    "observedGeneration": 2,
                }]},
            })
        );
    }

    #[test]
    fn nothing_is_written_if_nothing_changes() {
        for (found, writes, transition) in [
            (condition("False", "full", 2), false, None),
            (
                condition("False", "fuller", 2),
                true,
                Some("2020-01-01T00:00:00Z"),
            ),
            (
                condition("False", "full", 1),
                true,
                Some("2020-01-01T00:00:00Z"),
            ),
            (
                condition("True", "full", 2),
                true,
                Some("2023-11-14T22:13:20Z"),
            ),
        ] {
            let pod = pod(&json!({"conditions": [{"type": "Ready", "status": "False"}, found]}));
            let patch = status_patch(&pod, &unschedulable("full"), now());
            assert_eq!(patch.is_some(), writes, "{found}");
            let written = patch.map(|patch| {
                patch["status"]["conditions"][0]["lastTransitionTime"]
                    .as_str()
                    .map(str::to_owned)
            });
            assert_eq!(written.flatten().as_deref(), transition, "{found}");
        }
    }

    #[test]
    fn the_nomination_is_set_changed_and_cleared() {
        let set = |name: &str| Nomination::Set(name.into());
        for (found, nomination, want) in [
            (json!({}), set("n1"), Some(json!("n1"))),
            (json!({"nominatedNodeName": "n1"}), set("n1"), None),
            (
                json!({"nominatedNodeName": "n1"}),
                set("n2"),
                Some(json!("n2")),
            ),
            (
                json!({"nominatedNodeName": "n1"}),
                Nomination::Clear,
                Some(Value::Null),
            ),
            (json!({}), Nomination::Clear, None),
            (json!({"nominatedNodeName": "n1"}), Nomination::Keep, None),
        ] {
            let desired = Desired {
                unscheduled: None,
                nomination: nomination.clone(),
            };
            let patch = status_patch(&pod(&found), &desired, now());
            let written = patch.map(|patch| patch["status"]["nominatedNodeName"].clone());
            assert_eq!(written, want, "{found} {nomination:?}");
        }
    }
}
