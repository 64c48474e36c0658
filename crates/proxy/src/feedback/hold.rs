//! Pods that Admiralty's webhook made tolerate the taints of a lost target for minutes, as Kubernetes gives to
//! everybody: its node lifecycle, which can't tell a lost target from our own silence, would delete them. Pilotage's
//! webhook takes care of all others. Pure.

use k8s_openapi::api::core::v1::{Pod, Toleration};
use pilotage_api::keys;
use serde_json::{Value, json};

/// JSON patch of the pod after which it tolerates those taints without end; `None`: it does. Of a toleration that is
/// there an API server lets nothing change but its time.
pub(super) fn endless(uid: &str, pod: &Pod) -> Option<Value> {
    let tolerations = pod.spec.as_ref()?.tolerations.iter().flatten();
    let limited = tolerations.enumerate().filter_map(|(at, toleration)| {
        let seconds = toleration.toleration_seconds?;
        ends(toleration).then_some((at, toleration, seconds))
    });
    let test = |path: String, value: Value| json!({ "op": "test", "path": path, "value": value });
    let mut operations = Vec::new();
    for (at, Toleration { key, .. }, seconds) in limited {
        let path = |field: &str| format!("/spec/tolerations/{at}/{field}");
        if let Some(key) = key {
            operations.push(test(path("key"), json!(key)));
        }
        operations.push(test(path("tolerationSeconds"), json!(seconds)));
        operations.push(json!({ "op": "remove", "path": path("tolerationSeconds") }));
    }
    if operations.is_empty() {
        return None;
    }
    operations.insert(0, test("/metadata/uid".to_owned(), json!(uid)));
    Some(Value::Array(operations))
}

/// Whether the time of this toleration is one after which a lost target's pods are evicted.
fn ends(toleration: &Toleration) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    matches!(key, "" | keys::NOT_READY_TAINT | keys::UNREACHABLE_TAINT)
        && matches!(effect, "" | "NoExecute")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(tolerations: &Value) -> Option<Value> {
        let pod = json!({
            "metadata": { "name": "web" },
            "spec": { "containers": [], "tolerations": tolerations },
        });
        endless("p", &serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_time_that_kubernetes_adds_goes_and_all_else_stays() {
        let added = |key: &str| {
            json!({ "key": key, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300 })
        };
        let provider = json!({ "key": keys::PROVIDER, "value": keys::PROVIDER_VALUE });
        let mine =
            json!({ "key": "example.com/mine", "effect": "NoExecute", "tolerationSeconds": 5 });
        let test = |path: &str, value: Value| json!({ "op": "test", "path": path, "value": value });
        let limited = json!([
            provider,
            added(keys::NOT_READY_TAINT),
            mine,
            added(keys::UNREACHABLE_TAINT)
        ]);
        assert_eq!(
            patch(&limited),
            Some(json!([
                test("/metadata/uid", json!("p")),
                test("/spec/tolerations/1/key", json!(keys::NOT_READY_TAINT)),
                test("/spec/tolerations/1/tolerationSeconds", json!(300)),
                { "op": "remove", "path": "/spec/tolerations/1/tolerationSeconds" },
                test("/spec/tolerations/3/key", json!(keys::UNREACHABLE_TAINT)),
                test("/spec/tolerations/3/tolerationSeconds", json!(300)),
                { "op": "remove", "path": "/spec/tolerations/3/tolerationSeconds" },
            ]))
        );
        let everything =
            json!([{ "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }]);
        assert_eq!(
            patch(&everything),
            Some(json!([
                test("/metadata/uid", json!("p")),
                test("/spec/tolerations/0/tolerationSeconds", json!(300)),
                { "op": "remove", "path": "/spec/tolerations/0/tolerationSeconds" },
            ]))
        );
        let endless = json!([
            { "key": keys::NOT_READY_TAINT, "operator": "Exists", "effect": "NoExecute" },
            { "key": keys::UNREACHABLE_TAINT, "operator": "Exists", "effect": "NoExecute" },
            mine,
        ]);
        assert_eq!(patch(&endless), None);
        assert_eq!(patch(&Value::Null), None);
    }
}
