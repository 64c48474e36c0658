//! What is kept of chaperons. Of each one's spec, which the source wrote, hardly anything is read again.
//!
//! Of one that is too heavy even so, only who it is and what the protocol reads is left. It is seen, granted, given up
//! and deleted as any other. What else it said isn't there any more, and that means nothing: of such a one neither the
//! status nor annotations are copied.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::PodCondition, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use pilotage_api::{
    PodChaperon, PodChaperonStatus, bounds, keys,
    limits::{KEY, LABEL},
};
use pilotage_model::changes::Digest;
use serde_json::{Value, json};

use crate::view::NOMINATED;

/// What the source reads of a chaperon's annotations.
const ANNOTATIONS: [&str; 14] = [
    keys::PARENT_NAME,
    keys::PARENT_NAMESPACE,
    keys::ATTEMPT,
    keys::ALLOWED_ATTEMPT,
    keys::IS_RESERVED,
    keys::IS_ALLOWED,
    keys::REFUSAL,
    keys::PREEMPTS,
    keys::GIVE_UP,
    keys::RESERVED_POD_UID,
    keys::POD_MISSING_SINCE,
    keys::WAS_BOUND,
    keys::APPLIED_GENERATION,
    keys::CHANGE_REFUSED,
];
/// Its labels.
const LABELS: [&str; 3] = [
    keys::PARENT_UID,
    keys::PARENT_CLUSTER_UID,
    keys::PARENT_CLUSTER_NAME,
];
/// Longest text of these: a refusal, of which half is told.
const LONGEST: usize = 1024;
/// How many finalizers are known of one.
const FINALIZERS: usize = 8;
/// Of its spec, which the source wrote.
pub(crate) const GRACE: &str = "terminationGracePeriodSeconds";
/// Stands in its spec for what may change of it ([`Digest`]).
const CHANGEABLE: &str = "pilotageDigestOfTheRest";
/// Says in its spec what happened. A target can't: nothing of the spec that it tells is kept but the grace period.
const MARK: &str = "pilotageLeftTheRestOff";

/// Takes off a chaperon's spec what isn't read again. To be done once: what is left has another digest.
pub fn lean(chaperon: &mut PodChaperon) {
    let digest = Digest::of_spec(&chaperon.spec.0);
    chaperon.spec.0.retain(|key, _| key == GRACE);
    let digest = (CHANGEABLE.to_owned(), digest.into());
    chaperon.spec.0.extend([digest]);
}

/// Of the spec that a chaperon had when it was made [`lean`].
pub fn digest(chaperon: &PodChaperon) -> Option<Digest> {
    chaperon.spec.0.get(CHANGEABLE).and_then(Digest::kept)
}

/// Takes off a chaperon all that the protocol doesn't read.
pub fn slim(chaperon: &mut PodChaperon) {
    chaperon.status = chaperon.status.as_ref().map(|status| {
        let mut kept = serde_json::Map::new();
        let phase = status.0.get("phase").and_then(Value::as_str);
        if let Some(phase) = phase.filter(|phase| phase.len() <= LABEL) {
            kept.insert("phase".to_owned(), phase.into());
        }
        let nominated = status.0.get(NOMINATED).and_then(Value::as_str);
        if let Some(node) = nominated {
            kept.insert(NOMINATED.to_owned(), bounds::cut(node, KEY).into());
        }
        let mut conditions = chaperon.conditions().into_iter();
        if let Some(scheduled) = conditions.find(|it| it.type_ == "PodScheduled") {
            kept.insert("conditions".to_owned(), json!([condition(scheduled)]));
        }
        PodChaperonStatus(kept)
    });
    let spec = std::mem::take(&mut chaperon.spec.0);
    let is_kept = |key: &str| [GRACE, CHANGEABLE].contains(&key);
    let kept_fields = spec
        .into_iter()
        .filter(|(key, value)| is_kept(key) && value.is_number());
    let mark = (MARK.to_owned(), true.into());
    chaperon.spec.0 = kept_fields.chain([mark]).collect();
    let meta = std::mem::take(&mut chaperon.metadata);
    chaperon.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        deletion_timestamp: meta.deletion_timestamp,
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        finalizers: meta.finalizers.map(finalizers),
        labels: meta.labels.map(|all| kept(all, &LABELS)),
        annotations: meta.annotations.map(|all| kept(all, &ANNOTATIONS)),
        ..ObjectMeta::default()
    };
}

/// Whether something was taken off it.
pub fn is_slim(chaperon: &PodChaperon) -> bool {
    chaperon.spec.0.contains_key(MARK)
}

fn kept(mut all: BTreeMap<String, String>, keys: &[&str]) -> BTreeMap<String, String> {
    let texts = keys.iter().filter_map(|key| all.remove_entry(*key));
    texts.map(|(key, text)| (key, short(text))).collect()
}

/// A text that is as long as anybody reads; one that is longer stays none that means something else.
fn short(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    format!("{}…", bounds::cut(&text, LONGEST))
}

/// Ours, and some of the others: that there are others is what matters.
fn finalizers(all: Vec<String>) -> Vec<String> {
    let (ours, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|it| *it == keys::DELEGATE_GONE);
    let others = others.into_iter().take(FINALIZERS);
    let others = others.map(|it| bounds::cut(&it, KEY).to_owned());
    ours.into_iter().take(1).chain(others).collect()
}

fn condition(scheduled: PodCondition) -> Value {
    let PodCondition {
        type_,
        status,
        reason,
        message,
        ..
    } = scheduled;
    json!({
        "type": type_,
        "status": short(status),
        "reason": reason.map(short),
        "message": message.map(short),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{proxy, stored_chaperon},
        view::ChaperonView,
    };

    #[test]
    fn what_is_left_is_the_same_chaperon_without_its_words() {
        let mut whole = stored_chaperon(&proxy(), "u", "7");
        whole["metadata"]["finalizers"] = json!([keys::DELEGATE_GONE, "example.com/keep"]);
        whole["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        for key in ["attempt", "allowed-attempt"] {
            whole["metadata"]["annotations"][format!("{}{key}", keys::PREFIX)] = json!("3");
        }
        for number in 0..10_000 {
            whole["metadata"]["annotations"][format!("a{number}")] = json!("");
        }
        whole["spec"][GRACE] = json!(600);
        whole["status"] = json!({
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" }],
            "containerStatuses": vec![json!({ "name": "a" }); 1000],
        });
        let mut whole: PodChaperon = serde_json::from_value(whole).unwrap();
        lean(&mut whole);
        let mut left = whole.clone();
        slim(&mut left);
        assert!(digest(&left).is_some());
        assert_eq!(digest(&left), digest(&whole));
        assert!(is_slim(&left) && !is_slim(&whole));
        let text = serde_json::to_string(&left).unwrap();
        assert!(text.len() < 2048, "{text}");
        let view = |chaperon: &PodChaperon| {
            let view = ChaperonView::of("a", chaperon.clone().into()).unwrap();
            (
                view.class.clone(),
                view.marks.clone(),
                view.parent(),
                view.foreign_finalizers,
            )
        };
        assert_eq!(view(&left), view(&whole));
        assert_eq!(left.spec.0[GRACE], 600);
        let again = left.clone();
        slim(&mut left);
        assert_eq!(left, again);
    }

    #[test]
    fn a_number_that_is_too_long_is_none_still() {
        let mut chaperon = stored_chaperon(&proxy(), "u", "7");
        let zeros = format!("{}7", "0".repeat(5000));
        chaperon["metadata"]["annotations"][keys::ATTEMPT] = json!(zeros);
        let mut chaperon: PodChaperon = serde_json::from_value(chaperon).unwrap();
        slim(&mut chaperon);
        let view = ChaperonView::of("a", chaperon.into()).unwrap();
        assert_eq!(view.marks.damaged, [keys::ATTEMPT]);
    }
}
