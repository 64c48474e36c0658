//! How long a pod's author waits for a lost target, as its tolerations say it. Pure.
//!
//! A proxy gets endless tolerations of its own, so that no node lifecycle evicts it; what the author wrote would be
//! lost with them, and is kept as the annotation that says the same.

use pilotage_api::bounds;
use pilotage_api::keys;
use pilotage_api::lost::LostPolicy;
use serde_json::Value;

/// What admission writes into every pod that says nothing itself, in seconds.
const DEFAULT_SECONDS: i64 = 300;

/// What the tolerations of `pod` say; `None` if its author wrote nothing.
pub(crate) fn of_tolerations(pod: &Value) -> Option<LostPolicy> {
    let tolerations = pod["spec"]["tolerations"].as_array()?;
    let own = tolerations.iter().find(|toleration| {
        let effect = toleration["effect"].as_str().unwrap_or_default();
        toleration["key"] == keys::UNREACHABLE_TAINT && matches!(effect, "" | "NoExecute")
    })?;
    match &own["tolerationSeconds"] {
        Value::Null => Some(LostPolicy::Hold),
        seconds => match seconds.as_i64()? {
            DEFAULT_SECONDS => None,
            // Kubernetes takes less than nothing for nothing.
            seconds => Some(LostPolicy::ReplaceAfter(bounds::seconds(seconds))),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_author_wrote_counts() {
        let after = |seconds| Some(LostPolicy::ReplaceAfter(Duration::from_secs(seconds)));
        let unreachable = |more: Value| {
            let mut toleration = json!({ "key": keys::UNREACHABLE_TAINT, "operator": "Exists" });
            if let (Some(all), Some(more)) = (toleration.as_object_mut(), more.as_object()) {
                all.extend(more.clone());
            }
            toleration
        };
        for (toleration, want) in [
            (
                unreachable(json!({ "effect": "NoExecute", "tolerationSeconds": 300 })),
                None,
            ),
            (
                unreachable(json!({ "effect": "NoExecute", "tolerationSeconds": 45 })),
                after(45),
            ),
            (unreachable(json!({ "tolerationSeconds": -1 })), after(0)),
            (
                unreachable(json!({ "effect": "NoExecute" })),
                Some(LostPolicy::Hold),
            ),
            (unreachable(json!({ "effect": "NoSchedule" })), None),
            (json!({ "operator": "Exists" }), None),
        ] {
            let pod = json!({ "spec": { "tolerations": [toleration] } });
            assert_eq!(of_tolerations(&pod), want, "{pod}");
        }
    }
}
