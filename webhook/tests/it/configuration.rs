//! The admission configuration: installed, repaired, and nothing more than the role allows.

use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_api::keys;
use pilotage_testkit::{ControlPlane, apply, wait_for};
use pilotage_webhook::AdmissionArgs;
use pilotage_webhook::args::DEFAULT_SECRET;
use pilotage_webhook::install::guards;
use pilotage_webhook::objects::{CONFIGURATION, POLICY, TARGETS_POLICY};
use serde_json::json;

use crate::support::{HOME, LIMIT, Pods, Webhook, pod, with_annotation};

/// As `pilotage admission` takes its flags.
#[derive(Parser)]
struct Printed {
    #[command(flatten)]
    admission: AdmissionArgs,
}

#[tokio::test]
async fn whoever_changes_or_deletes_the_configuration_it_is_repaired() {
    let plane = ControlPlane::builder("repair").start().await.unwrap();
    let webhook = Webhook::start(&plane, &[]).await;
    webhook.in_force(&plane).await;
    let admin = plane.admin();
    let hooks: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(admin.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(admin.clone());
    let installed = hooks.get(CONFIGURATION).await.unwrap();
    let policy = policies.get(POLICY).await.unwrap();
    let same_hooks = |now: &MutatingWebhookConfiguration| now.webhooks == installed.webhooks;

    for (what, patch) in [
        (
            "bundle removed",
            json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]),
        ),
        (
            "fails open",
            json!([{ "op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore" }]),
        ),
        (
            "for no namespace",
            json!([{ "op": "replace", "path": "/webhooks/0/namespaceSelector",
                "value": { "matchLabels": { "a": "b" } } }]),
        ),
        (
            "another URL",
            json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://127.0.0.1:1/x" }]),
        ),
    ] {
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        let changed = hooks
            .patch(
                CONFIGURATION,
                &PatchParams::default(),
                &Patch::Json::<()>(patch),
            )
            .await
            .unwrap();
        assert_ne!(changed.webhooks, installed.webhooks, "{what}");
        wait_for(&hooks, CONFIGURATION, same_hooks, LIMIT)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    hooks
        .delete(CONFIGURATION, &DeleteParams::default())
        .await
        .unwrap();
    let old = installed.metadata.uid.clone();
    wait_for(
        &hooks,
        CONFIGURATION,
        |now| now.metadata.uid != old && same_hooks(now),
        LIMIT,
    )
    .await
    .unwrap();
    policies
        .delete(POLICY, &DeleteParams::default())
        .await
        .unwrap();
    let old = policy.metadata.uid.clone();
    let same_policy =
        |now: &ValidatingAdmissionPolicy| now.metadata.uid != old && now.spec == policy.spec;
    wait_for(&policies, POLICY, same_policy, LIMIT)
        .await
        .unwrap();
    bindings
        .delete(POLICY, &DeleteParams::default())
        .await
        .unwrap();
    wait_for(&bindings, POLICY, |_| true, LIMIT).await.unwrap();

    webhook.in_force(&plane).await;
    webhook.stop().await;
    plane.stop().await;
}

#[tokio::test]
async fn what_is_printed_guards_when_others_install_it_and_the_webhook_adds_its_bundle() {
    let plane = ControlPlane::builder("printed").start().await.unwrap();
    let webhook = Webhook::start(&plane, &["--manage-configuration=false"]).await;
    let there = || async {
        let found = guards(&webhook.client).await.into_iter();
        found
            .map(|guard| guard.there.unwrap())
            .collect::<Vec<bool>>()
    };
    assert_eq!(there().await, [false; 4]);

    let printed = Printed::parse_from(["printed", "--webhook-url=https://127.0.0.1:1"]);
    let objects = printed.admission.objects(HOME).unwrap();
    apply::apply_values(&plane.admin(), objects, HOME)
        .await
        .unwrap();
    assert_eq!(there().await, [true; 4]);
    let hooks: Api<MutatingWebhookConfiguration> = Api::all(plane.admin());
    let has_bundle = |now: &MutatingWebhookConfiguration| {
        let mut hooks = now.webhooks.iter().flatten();
        hooks.any(|hook| hook.client_config.ca_bundle.is_some())
    };
    let now = wait_for(&hooks, CONFIGURATION, has_bundle, LIMIT)
        .await
        .unwrap();
    let hooks = now.webhooks.unwrap();
    let url = hooks[0].client_config.url.as_deref();
    assert_eq!(url, Some("https://127.0.0.1:1/mutate--v1-pod"));

    // An API server tells nobody what its admission has taken in.
    let pods = Pods::plain(&plane).await;
    let manifest = with_annotation(pod("a"), keys::SOURCE_POD_MANIFEST, "{}");
    let guarded = async {
        while pods.dry_run(&manifest).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, guarded).await.unwrap();
    webhook.stop().await;
    plane.stop().await;
}

#[tokio::test]
async fn the_policys_expressions_pass_the_api_servers_type_check() {
    let plane = ControlPlane::builder("types")
        .controller_manager()
        .start()
        .await
        .unwrap();
    let webhook = Webhook::start(&plane, &[]).await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(plane.admin());
    let checked = |policy: &ValidatingAdmissionPolicy| {
        let observed = policy
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed.is_some() && observed == policy.metadata.generation
    };
    for name in [POLICY, TARGETS_POLICY] {
        let policy = wait_for(&policies, name, checked, LIMIT).await.unwrap();
        let warnings = policy
            .status
            .and_then(|status| status.type_checking)
            .and_then(|checking| checking.expression_warnings)
            .unwrap_or_default();
        assert!(warnings.is_empty(), "{name}: {warnings:#?}");
    }
    webhook.stop().await;
    plane.stop().await;
}

#[tokio::test]
async fn the_role_allows_nothing_else() {
    let plane = ControlPlane::builder("role").start().await.unwrap();
    let webhook = Webhook::start(&plane, &[]).await;
    let reviews: Api<SelfSubjectAccessReview> = Api::all(webhook.client.clone());
    for (verb, group, resource, namespace, name, want) in [
        ("patch", "", "secrets", HOME, DEFAULT_SECRET, true),
        ("get", "", "secrets", HOME, "other", false),
        ("list", "", "secrets", HOME, "", false),
        ("get", "", "secrets", "kube-system", DEFAULT_SECRET, false),
        ("create", "", "secrets", "kube-system", "", false),
        ("list", "", "pods", "default", "", false),
        ("get", "", "pods", "default", "web", false),
        (
            "patch",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "",
            CONFIGURATION,
            true,
        ),
        (
            "patch",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "",
            "other",
            false,
        ),
        (
            "delete",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "",
            CONFIGURATION,
            false,
        ),
        (
            "create",
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "",
            "",
            false,
        ),
    ] {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: text(verb),
                    group: text(group),
                    resource: text(resource),
                    namespace: text(namespace),
                    name: text(name),
                    ..Default::default()
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .unwrap();
        let allowed = answer.status.is_some_and(|status| status.allowed);
        assert_eq!(allowed, want, "{verb} {resource} {namespace}/{name}");
    }
    webhook.stop().await;
    plane.stop().await;
}
