//! What a pod names that follows no pod, and that no API server looks for: where it isn't, the pod waits without a
//! word. A service account isn't here, since the target's API server refuses a pod whose account it doesn't have.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;

/// So many are named; who has more has read enough.
const MOST: usize = 16;

/// The objects, each as kind and name; the first ones, if there are many.
pub fn unfollowed(spec: &PodSpec) -> Vec<String> {
    let volumes = spec.volumes.iter().flatten();
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let claims = claims.map(|claim| ("PersistentVolumeClaim", &claim.claim_name));
    let devices = spec.resource_claims.iter().flatten().flat_map(|claim| {
        let own = claim.resource_claim_name.iter();
        let made = claim.resource_claim_template_name.iter();
        let own = own.map(|name| ("ResourceClaim", name));
        own.chain(made.map(|name| ("ResourceClaimTemplate", name)))
    });
    let named: BTreeSet<_> = claims.chain(devices).collect();
    let named = named.into_iter().take(MOST);
    named.map(|(kind, name)| format!("{kind} {name}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named(spec: Value) -> Vec<String> {
        unfollowed(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn claims_are_named_once_and_nothing_else_is() {
        let claim = |volume: &str, name: &str| {
            let source = json!({ "claimName": name });
            json!({ "name": volume, "persistentVolumeClaim": source })
        };
        let got = named(json!({
            "containers": [],
            "serviceAccountName": "robot",
            "volumes": [
                claim("a", "data"),
                claim("b", "data"),
                { "name": "c", "configMap": { "name": "settings" } },
                { "name": "d", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
            ],
            "resourceClaims": [
                { "name": "own", "resourceClaimName": "gpu" },
                { "name": "made", "resourceClaimTemplateName": "gpus" },
            ],
        }));
        let want = [
            "PersistentVolumeClaim data",
            "ResourceClaim gpu",
            "ResourceClaimTemplate gpus",
        ];
        assert_eq!(got, want);
        assert_eq!(named(json!({ "containers": [] })), [""; 0]);
    }

    #[test]
    fn of_many_the_first_are_named() {
        let volumes: Vec<_> = (0..100)
            .map(|n| json!({ "name": n.to_string(), "persistentVolumeClaim": { "claimName": n.to_string() } }))
            .collect();
        let got = named(json!({ "containers": [], "volumes": volumes }));
        assert_eq!(got.len(), MOST);
    }
}
