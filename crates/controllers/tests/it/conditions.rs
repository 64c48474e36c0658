//! What a Target's author reads in its status.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use pilotage_api::{KubeconfigSecret, Target, TargetSpec};
use pilotage_clusters::{Options, Registry};
use pilotage_controllers::source::rbac::{SOURCE_RULES, SUMMARY_VIEWER_RULES};
use pilotage_controllers::target::{self, rbac as rules};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::rbac::{self, Account};
use pilotage_runtime::ready::Health;
use pilotage_sched_driver::publish::Recorder;
use pilotage_testkit::{ControlPlane, apply, list_until, wait_for};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::target::LIMIT;

const HOME: &str = "default";
/// What lasts as long is told of a new Target.
const NEW: Duration = Duration::from_secs(5);

fn words(target: &Target) -> Vec<String> {
    let conditions = target
        .status
        .as_ref()
        .map(|status| status.conditions.clone());
    let conditions = conditions.unwrap_or_default();
    conditions
        .iter()
        .map(|c| format!("{}={}/{}", c.type_, c.status, c.reason))
        .collect()
}

fn message(target: &Target, type_: &str) -> String {
    let conditions = target
        .status
        .as_ref()
        .map(|status| status.conditions.clone());
    let found = conditions
        .unwrap_or_default()
        .into_iter()
        .find(|c| c.type_ == type_);
    found.map(|condition| condition.message).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_says_what_it_lacks_until_it_lacks_nothing() {
    let plane = ControlPlane::builder("conditions").start().await.unwrap();
    plane.service_account(HOME, "targets").await.unwrap();
    let own = pilotage_clusters::rbac::RULES.iter().chain(rules::RULES);
    let own = rbac::render(
        "targets",
        Account {
            namespace: HOME,
            name: "targets",
        },
        own,
    );
    apply::apply_values(&plane.admin(), own, HOME)
        .await
        .unwrap();
    let client = plane.service_account_client(HOME, "targets").await.unwrap();
    let stop = CancellationToken::new();
    let options = Options {
        needs: rules::NEEDS.to_vec(),
        review_missing: Duration::from_millis(500),
        ..Options::new("test")
    };
    let registry = Registry::start(&client, options, &stop);
    let gate = Health::new().gate("targets");
    tokio::spawn(target::run(
        client.clone(),
        registry,
        Recorder::new(client, "test".to_owned()).0,
        Leadership::always(),
        gate,
        stop.clone(),
    ));

    let targets: Api<Target> = Api::namespaced(plane.admin(), HOME);
    let created = Instant::now();
    let spec = TargetSpec {
        kubeconfig_secret: Some(KubeconfigSecret {
            name: "c2".into(),
            ..Default::default()
        }),
        excluded_labels_regexp: Some("a(b".into()),
        ..TargetSpec::default()
    };
    targets
        .create(&PostParams::default(), &Target::new("c2", spec))
        .await
        .unwrap();
    let reaches = async |want: [&str; 3]| {
        wait_for(&targets, "c2", |target| words(target) == want, LIMIT)
            .await
            .unwrap()
    };
    let target = reaches([
        "Valid=False/SecretMissing",
        "Connected=False/SecretMissing",
        "Authorized=Unknown/NotConnected",
    ])
    .await;
    assert_eq!(
        message(&target, "Connected"),
        "secret default/c2 does not exist"
    );
    assert!(message(&target, "Valid").contains("no regular expression: unclosed group"));
    assert_eq!(
        target.status.unwrap().node.as_deref(),
        Some("admiralty-default-c2")
    );
    let shown = plane
        .kubectl(&["get", "targets", "-o", "wide"])
        .await
        .unwrap();
    assert!(
        shown.contains("secret default/c2 does not exist"),
        "{shown}"
    );

    plane.service_account(HOME, "source").await.unwrap();
    let kubeconfig = plane
        .kubeconfig_for_service_account(HOME, "source")
        .await
        .unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "c2" },
        "stringData": { "config": kubeconfig },
    });
    apply::apply_values(&plane.admin(), vec![secret], HOME)
        .await
        .unwrap();
    let target = reaches([
        "Valid=False/InvalidRegexp",
        "Connected=True/Answering",
        "Authorized=False/PermissionMissing",
    ])
    .await;
    let connected = created.elapsed();
    let missing = message(&target, "Authorized");
    assert!(
        missing.contains("create podchaperons.multicluster.admiralty.io"),
        "{missing}"
    );

    let events: Api<Event> = Api::namespaced(plane.admin(), HOME);
    let told = |reason: &'static str| {
        list_until(
            &events,
            watcher::Config::default(),
            move |seen| {
                seen.values()
                    .any(|event| event.reason.as_deref() == Some(reason))
            },
            LIMIT,
        )
    };
    // What lasts longer than a new Target's first seconds is told.
    let first = told("TargetUnauthorized").await.unwrap();
    let was_lost = first
        .iter()
        .any(|event| event.reason.as_deref() == Some("TargetLost"));
    assert!(!was_lost || connected > NEW, "its Secret came in time");

    let roles = SOURCE_RULES.iter().chain(SUMMARY_VIEWER_RULES);
    let roles = rbac::render(
        "source",
        Account {
            namespace: HOME,
            name: "source",
        },
        roles,
    );
    apply::apply_values(&plane.admin(), roles, HOME)
        .await
        .unwrap();
    let mended = Patch::Merge(json!({ "spec": { "excludedLabelsRegexp": null } }));
    targets
        .patch("c2", &PatchParams::default(), &mended)
        .await
        .unwrap();
    reaches([
        "Valid=True/Valid",
        "Connected=True/Answering",
        "Authorized=True/Permitted",
    ])
    .await;

    let secrets: Api<Secret> = Api::namespaced(plane.admin(), HOME);
    secrets
        .delete("c2", &DeleteParams::default())
        .await
        .unwrap();
    reaches([
        "Valid=False/SecretMissing",
        "Connected=False/SecretMissing",
        "Authorized=Unknown/NotConnected",
    ])
    .await;
    for reason in [
        "TargetLost",
        "TargetConnected",
        "TargetUnauthorized",
        "TargetAuthorized",
    ] {
        told(reason).await.unwrap();
    }
    stop.cancel();
    plane.stop().await;
}
