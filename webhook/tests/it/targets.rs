//! What may be written on Targets of both kinds.

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use pilotage_api::{ClusterTarget, Target, keys};
use pilotage_testkit::ControlPlane;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::Webhook;

/// A Target of either kind with these annotations.
fn target<K: DeserializeOwned>(kind: &str, name: &str, annotations: &Value) -> K {
    let object = json!({
        "apiVersion": format!("{}/{}", pilotage_api::GROUP, pilotage_api::VERSION),
        "kind": kind,
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "self": true },
    });
    serde_json::from_value(object).unwrap()
}

/// The policy's refusal of an answer.
fn refusal<K>(case: &str, answer: kube::Result<K>) -> String {
    match answer {
        Ok(_) => panic!("{case} is taken"),
        Err(error) => error.to_string(),
    }
}

fn annotated(key: &str, value: &str) -> Patch<Value> {
    Patch::Merge(json!({ "metadata": { "annotations": { key: value } } }))
}

#[tokio::test]
async fn names_of_places_on_a_target_have_their_limits_and_old_ones_keep_nobody_from_changing_it() {
    let plane = ControlPlane::builder("targets").start().await.unwrap();
    let admin = plane.admin();
    let targets: Api<Target> = Api::namespaced(admin.clone(), "default");
    let clusters: Api<ClusterTarget> = Api::all(admin);
    let (post, params) = (PostParams::default(), PatchParams::default());
    let long = "r".repeat(90_000);
    let before = json!({ keys::REGION: long });
    targets
        .create(&post, &target("Target", "old", &before))
        .await
        .unwrap();

    let webhook = Webhook::start(&plane, &[]).await;
    webhook.in_force(&plane).await;

    let words = [
        "ValidatingAdmissionPolicy 'pilotage-targets'",
        "may have 63 characters",
    ];
    for (key, limit) in [
        (keys::REGION, 63),
        (keys::CLOUD_PROVIDER, 63),
        (keys::ZONES, 8192),
        (keys::ACCESS_RESTRICTIONS, 8192),
    ] {
        let annotations = |length: usize| json!({ key: "n".repeat(length) });
        let (fits, longer) = (annotations(limit), annotations(limit + 1));
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let one: Target = target("Target", "one", &fits);
        targets.create(&dry, &one).await.unwrap();
        let every: ClusterTarget = target("ClusterTarget", "every", &fits);
        clusters.create(&dry, &every).await.unwrap();

        let one: Target = target("Target", "one", &longer);
        let told = [
            refusal(key, targets.create(&dry, &one).await),
            refusal(
                key,
                targets
                    .patch("old", &params, &annotated(key, &"n".repeat(limit + 1)))
                    .await,
            ),
            refusal(key, {
                let every: ClusterTarget = target("ClusterTarget", "every", &longer);
                clusters.create(&dry, &every).await
            }),
        ];
        for told in told {
            for word in words {
                assert!(told.contains(word), "{key}: {word} in {told:.2000}");
            }
        }
    }

    // What was there before may stay, so that finalizers can be taken off.
    let annotation = annotated("example.com/note", "changed");
    let changed = targets.patch("old", &params, &annotation).await.unwrap();
    assert_eq!(changed.meta().annotations.as_ref().unwrap().len(), 2);
    targets
        .patch("old", &params, &annotated(keys::REGION, "fr"))
        .await
        .unwrap();
    webhook.stop().await;
    plane.stop().await;
}
