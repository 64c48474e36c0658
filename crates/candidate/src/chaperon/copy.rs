//! What flows back from a pod to its chaperon: the status, and annotations of others.

use std::{borrow::Cow, collections::BTreeMap};

use pilotage_api::{
    annotations::{LIMIT_WITH_COPIES, bytes, fitting},
    bounds::cut,
    keys, left_out,
};
use serde_json::{Map, Value, json};

use super::{
    kept::{WORDS, essence},
    observe::{Chaperon, is_bound, scheduled},
    raw_pod::RawPod,
};

/// How soon a change is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Urgency {
    /// With what else comes.
    #[default]
    Gathered,
    /// The source waits for it, but the kubelet is about to say more.
    Soon,
    /// The source waits for it.
    Now,
}

/// What the chaperon lacks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Merge patch of the status.
    pub(super) status: Option<Value>,
    /// Merge patch of the annotations.
    pub(super) annotations: Option<Value>,
    /// How soon.
    pub(super) urgency: Urgency,
}

/// What to write, so that the chaperon shows what its pod is.
pub(super) fn difference(chaperon: Chaperon<'_>, pod: &RawPod) -> Difference {
    let empty = Map::new();
    let known = chaperon.status().unwrap_or(&empty);
    let wanted = wanted_status(chaperon, pod);
    let annotations = annotations(chaperon, pod);
    between(chaperon, pod, known, &wanted, annotations)
}

/// The same where one of the two is too heavy to be known: whether the pod has a place, and its phase.
pub(super) fn essentials(chaperon: Chaperon<'_>, pod: &RawPod) -> Difference {
    let empty = Map::new();
    let known = essence(chaperon.status().unwrap_or(&empty));
    let wanted = essence(&wanted_status(chaperon, pod));
    between(chaperon, pod, &known, &wanted, None)
}

fn between(
    chaperon: Chaperon<'_>,
    pod: &RawPod,
    known: &Map<String, Value>,
    wanted: &Map<String, Value>,
    annotations: Option<Value>,
) -> Difference {
    let refused = is_refused(known);
    let was_bound = is_bound(Some(known));
    let becomes_bound = is_bound(Some(&pod.status)) && !was_bound;
    // A candidate that is still looking for a node, and isn't told that there is none, is what every source expects: a
    // write for it would cost each loser one request. Not if the pod before it was bound.
    let unremarkable =
        pod.node().is_none() && scheduled(wanted).is_none() && chaperon.is_numbered();
    let status = if unremarkable && !refused && !was_bound {
        None
    } else {
        merge(known, wanted)
    };
    let missing = annotations
        .as_ref()
        .is_some_and(|a| a.get(keys::POD_MISSING_SINCE).is_some());
    let unwanted = chaperon.is_ending() || chaperon.is_given_up();
    let spoke = kubelet_spoke(&pod.status);
    let urgency = if refused || missing || (becomes_bound && (spoke || unwanted)) {
        Urgency::Now
    } else if becomes_bound {
        Urgency::Soon
    } else {
        Urgency::Gathered
    };
    Difference {
        status,
        annotations,
        urgency,
    }
}

/// A kubelet's first word is when it took the pod up, and where.
fn kubelet_spoke(status: &Map<String, Value>) -> bool {
    status.contains_key("startTime") || status.contains_key("hostIP")
}

/// The pod's status; while the chaperon is reserved without "not scheduled", which plain sources take for a refusal.
fn wanted_status<'a>(chaperon: Chaperon<'_>, pod: &'a RawPod) -> Cow<'a, Map<String, Value>> {
    let is_unscheduled = |c: &Value| c["type"] == "PodScheduled" && c["status"] == "False";
    let says_so = scheduled(&pod.status).is_some_and(is_unscheduled);
    if !says_so || !chaperon.is_reserved() {
        return Cow::Borrowed(&pod.status);
    }
    let mut wanted = pod.status.clone();
    if let Some(Value::Array(conditions)) = wanted.get_mut("conditions") {
        conditions.retain(|c| !is_unscheduled(c));
        if conditions.is_empty() {
            wanted.remove("conditions");
        }
    }
    Cow::Owned(wanted)
}

fn annotations(chaperon: Chaperon<'_>, pod: &RawPod) -> Option<Value> {
    let none = BTreeMap::new();
    let theirs = |key: &String| {
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        !keys::is_ours(key) && ![last_applied, left_out::MARK].contains(&key.as_str())
    };
    let known = chaperon.0.metadata.annotations.as_ref().unwrap_or(&none);
    let wanted = pod.metadata.annotations.as_ref().unwrap_or(&none);
    let ours = known.iter().filter(|(key, _)| !theirs(key));
    let room = LIMIT_WITH_COPIES.saturating_sub(bytes(ours));
    let wanted = wanted.iter().filter(|(key, _)| theirs(key));
    let wanted = fitting(wanted, room, |_| 0);
    let mut patch = Map::new();
    for (key, value) in &wanted {
        if known.get(*key).map(String::as_str) != Some(*value) {
            patch.insert((*key).to_owned(), (*value).into());
        }
    }
    for key in known.keys() {
        let gone = theirs(key) && !wanted.contains_key(&**key);
        if gone || key == keys::POD_MISSING_SINCE {
            patch.insert(key.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The merge patch (RFC 7396) that makes `known` what is `wanted`; `None` if it is.
pub(super) fn merge(known: &Map<String, Value>, wanted: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in wanted {
        match (known.get(key), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.extend(merge(old, new).map(|change| (key.clone(), change)));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in known.keys().filter(|key| !wanted.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Merge patch of the status of a chaperon that was refused and isn't any more, and has no pod whose status it could
/// show.
pub(super) fn unrefused(chaperon: Chaperon<'_>) -> Option<Value> {
    let known = chaperon.status().filter(|known| is_refused(known))?;
    merge(known, &Map::new())
}

fn is_refused(status: &Map<String, Value>) -> bool {
    scheduled(status).is_some_and(|c| c["reason"] == keys::CANDIDATE_REFUSED)
}

/// Merge patch of the status that says: the API server refuses the pod.
pub(super) fn refusal(
    chaperon: Chaperon<'_>,
    message: &str,
    now: jiff::Timestamp,
) -> Option<Value> {
    let (empty, message) = (Map::new(), cut(message, WORDS));
    let known = chaperon.status().unwrap_or(&empty);
    if scheduled(known)
        .is_some_and(|c| c["reason"] == keys::CANDIDATE_REFUSED && c["message"] == message)
    {
        return None;
    }
    let mut conditions: Vec<Value> = known
        .get("conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|c| c["type"] != "PodScheduled")
        .cloned()
        .collect();
    conditions.push(json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": keys::CANDIDATE_REFUSED,
        "message": message,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }));
    Some(json!({ "conditions": conditions }))
}

#[cfg(test)]
mod tests {
    use pilotage_api::PodChaperon;

    use super::*;

    fn chaperon(annotations: &Value, status: &Value) -> PodChaperon {
        serde_json::from_value(json!({
            "metadata": { "name": "a", "annotations": annotations },
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    fn pod(annotations: &Value, node: Option<&str>, status: &Value) -> RawPod {
        serde_json::from_value(json!({
            "metadata": { "name": "a", "annotations": annotations },
            "spec": { "nodeName": node },
            "status": status,
        }))
        .unwrap()
    }

    const NUMBERED: &str = keys::ALLOWED_ATTEMPT;

    fn unscheduled() -> Value {
        json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" })
    }

    fn bound() -> Value {
        json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "True" }] })
    }

    #[test]
    fn a_bound_pod_is_told_with_the_kubelets_first_word_and_every_field_goes_along() {
        let mut status = bound();
        status["fieldOfTomorrow"] = json!({ "a": 1 });
        let chaperon = chaperon(&json!({ NUMBERED: "1" }), &json!({}));
        let urgencies = [
            ("fieldOfTomorrow", Urgency::Soon),
            ("startTime", Urgency::Now),
        ];
        for (field, urgency) in urgencies {
            status[field] = json!({ "a": 1 });
            let got = difference(Chaperon(&chaperon), &pod(&json!({}), Some("n"), &status));
            let want = Difference {
                status: Some(status.clone()),
                annotations: None,
                urgency,
            };
            assert_eq!(got, want);
        }
    }

    #[test]
    fn a_candidate_that_waits_costs_no_write() {
        let status = json!({ "phase": "Pending", "qosClass": "Burstable" });
        let waiting = pod(&json!({}), None, &status);
        let numbered = chaperon(&json!({ NUMBERED: "0" }), &json!({}));
        assert_eq!(
            difference(Chaperon(&numbered), &waiting),
            Difference::default()
        );
        let plain = chaperon(&json!({}), &json!({}));
        assert_eq!(
            difference(Chaperon(&plain), &waiting).status,
            Some(status.clone())
        );
        // The one before it was bound.
        let before = chaperon(&json!({ NUMBERED: "1" }), &bound());
        assert_eq!(
            difference(Chaperon(&before), &waiting).status,
            Some(json!({ "qosClass": "Burstable", "conditions": null }))
        );
    }

    #[test]
    fn while_it_is_reserved_nobody_reads_that_it_was_not_scheduled() {
        let status = json!({ "phase": "Pending", "conditions": [unscheduled()] });
        let waiting = pod(&json!({}), None, &status);
        let open = chaperon(&json!({ NUMBERED: "0" }), &json!({}));
        assert_eq!(
            difference(Chaperon(&open), &waiting).status,
            Some(status.clone())
        );
        let reserved = chaperon(&json!({ keys::IS_RESERVED: "true" }), &status);
        assert_eq!(
            difference(Chaperon(&reserved), &waiting).status,
            Some(json!({ "conditions": null }))
        );
    }

    #[test]
    fn a_refusal_by_the_api_server_goes_when_a_pod_exists() {
        let refused = chaperon(&json!({ NUMBERED: "0" }), &json!({}));
        let patch = refusal(
            Chaperon(&refused),
            "no such class",
            "2024-02-03T04:05:06.7Z".parse().unwrap(),
        );
        let status = patch.unwrap();
        assert_eq!(
            status["conditions"][0]["lastTransitionTime"],
            "2024-02-03T04:05:06Z"
        );
        let refused = chaperon(&json!({ NUMBERED: "0" }), &status);
        assert_eq!(
            refusal(
                Chaperon(&refused),
                "no such class",
                jiff::Timestamp::UNIX_EPOCH
            ),
            None
        );
        let got = difference(
            Chaperon(&refused),
            &pod(&json!({}), None, &json!({ "phase": "Pending" })),
        );
        assert_eq!(
            got.status,
            Some(json!({ "phase": "Pending", "conditions": null }))
        );
        assert_eq!(got.urgency, Urgency::Now);
    }

    #[test]
    fn annotations_of_others_follow_the_pod_and_ours_stay() {
        let chaperon = chaperon(
            &json!({ "old": "x", "same": "y", keys::ATTEMPT: "2", keys::POD_MISSING_SINCE: "t" }),
            &json!({}),
        );
        let pod = pod(
            &json!({ "same": "y", "new": "z", keys::PARENT_NAME: "w" }),
            None,
            &json!({}),
        );
        assert_eq!(
            difference(Chaperon(&chaperon), &pod).annotations,
            Some(json!({ "old": null, "new": "z", keys::POD_MISSING_SINCE: null }))
        );
    }

    #[test]
    fn annotations_that_a_chaperon_has_no_room_for_stay_on_the_pod() {
        let chaperon = chaperon(&json!({ "old": "x", keys::ATTEMPT: "2" }), &json!({}));
        let long = "x".repeat(LIMIT_WITH_COPIES);
        let pod = pod(&json!({ "a": "1", "b": long, "c": "3" }), None, &json!({}));
        assert_eq!(
            difference(Chaperon(&chaperon), &pod).annotations,
            Some(json!({ "a": "1", "c": "3", "old": null }))
        );
    }

    #[test]
    fn a_merge_patch_leads_from_the_old_to_the_new() {
        for (old, new, patch) in [
            (json!({}), json!({}), None),
            (json!({ "a": 1 }), json!({}), Some(json!({ "a": null }))),
            (
                json!({ "a": { "b": 1, "c": 2 } }),
                json!({ "a": { "b": 1 } }),
                Some(json!({ "a": { "c": null } })),
            ),
            (
                json!({ "a": [1] }),
                json!({ "a": [1, 2] }),
                Some(json!({ "a": [1, 2] })),
            ),
            (
                json!({ "a": 1 }),
                json!({ "a": { "b": 1 } }),
                Some(json!({ "a": { "b": 1 } })),
            ),
        ] {
            let got = merge(old.as_object().unwrap(), new.as_object().unwrap());
            assert_eq!(got, patch, "{old} -> {new}");
        }
    }
}
