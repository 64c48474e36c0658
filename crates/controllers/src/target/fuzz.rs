//! Whatever a Target and its target say, the Target's status is one that the API server takes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilotage_absurd::{objects, text};
use pilotage_api::parent::ClusterUid;
use pilotage_api::{Target, keys};
use pilotage_clusters::kubeconfig::KubeconfigFault;
use pilotage_clusters::spec::SecretRef;
use pilotage_clusters::{Authorization, Connection, LostReason, Since, TargetObject};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decide::{Told, decide};
use super::renew::Renewal;

fn target_object() -> BoxedStrategy<Value> {
    let condition = |type_: &str| {
        json!({ "type": type_, "status": "True", "reason": "R", "message": "m", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let conditions = ["Valid", "Connected", "Trustworthy", "Audited"].map(condition);
    objects::foreign(
        json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "Target",
            "metadata": { "name": "c2", "namespace": "default", "uid": "u", "generation": 3, "labels": {},
            "annotations": {} },
            "spec": { "kubeconfigSecret": { "name": "c2", "key": "k", "context": "x" },
            "excludedLabelsRegexp": "^secret/" },
            "status": { "node": "n", "clusterUid": "u", "kubeconfigVersion": "1", "conditions": conditions },
        }),
        &[],
        &[
            keys::REPLACE_AFTER,
            keys::FORGET,
            keys::REGION,
            keys::ZONES,
            keys::CLOUD_PROVIDER,
            keys::ACCESS_RESTRICTIONS,
            keys::NO_PREFIX_LABEL_REGEXP,
        ],
    )
}

fn connection() -> BoxedStrategy<Connection> {
    let secret = || SecretRef {
        namespace: "default".into(),
        name: "c2".into(),
        key: "config".into(),
        context: None,
    };
    let reason = (text::text(), text::text(), 0..10_u8).prop_map(move |(one, two, which)| {
        let secret = secret();
        match which {
            0 => LostReason::Unreachable(one),
            1 => LostReason::TooMuch(one),
            2 => LostReason::Misbehaving(one),
            3 => LostReason::Unauthorized(one),
            4 => LostReason::OtherCluster {
                known: ClusterUid(one),
                found: ClusterUid(two),
            },
            5 => LostReason::SecretUnreadable {
                secret,
                message: one,
            },
            6 => LostReason::NamespaceNotAllowed(secret),
            7 => LostReason::TooManyTargets {
                namespace: one,
                most: 100,
            },
            8 => LostReason::Internal,
            _ => LostReason::KubeconfigUnreadable {
                secret,
                fault: Box::new(KubeconfigFault::Client(one)),
            },
        }
    });
    prop_oneof![
        1 => Just(Connection::Connecting),
        1 => Just(Connection::Connected { since: Since::now() }),
        4 => reason.prop_map(|reason| Connection::Lost { since: Since::now(), reason }),
    ]
    .boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn a_targets_status_is_one_that_the_api_server_takes(
        object in target_object(), connection in connection(), turned_away in prop::option::of(text::text()),
            now in text::time(),
        unanswered in prop::option::of(text::text()), renewal in prop::option::of(text::text()),
    ) {
        let Ok(target) = serde_json::from_value::<Target>(object) else { return Ok(()) };
        let Some(object) = TargetObject::from_target(&target) else { return Ok(()) };
        let authorization = unanswered.map_or(Authorization::Complete, Authorization::Unanswered);
        let now = Time(now.parse().unwrap_or_default());
        let identity = ClusterUid("i".into());
        let renewal = renewal.map(|why| Renewal::Fails("TokenRefused", why));
        let told = Told { turned_away: turned_away.as_deref(), renewal: renewal.as_ref() };
        let own = object.status.conditions.clone();
        let plan = decide(&object, &connection, &authorization, Some(&identity), told, &now, None);
        let Some(plan) = plan else { return Ok(()) };
        prop_assert!(plan.node.len() <= 253);
        prop_assert!(plan.conditions.len() <= own.len() + 5);
        for condition in plan.conditions.iter().filter(|condition| !own.contains(condition)) {
            prop_assert!(condition.message.len() <= 32_768 && condition.reason.len() <= 1024);
        }
        prop_assert!(plan.news.len() <= 5);
    }
}
