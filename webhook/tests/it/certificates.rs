//! The own CA: made, shared, rotated, healed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilotage_testkit::{ControlPlane, wait_for};
use pilotage_webhook::args::DEFAULT_SECRET;
use pilotage_webhook::certs::Material;
use pilotage_webhook::objects::CONFIGURATION;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{HOME, LIMIT, Pods, Webhook, elect, is_proxy, pod};

fn material(secret: &Secret) -> Option<Material> {
    let ByteString(state) = secret.data.as_ref()?.get("state.json")?;
    serde_json::from_slice(state).ok()
}

fn bundle(configuration: &MutatingWebhookConfiguration) -> String {
    let webhook = &configuration.webhooks.as_ref().unwrap()[0];
    let bundle = webhook
        .client_config
        .ca_bundle
        .as_ref()
        .map(|bundle| bundle.0.clone())
        .unwrap_or_default();
    String::from_utf8(bundle).unwrap()
}

fn cas(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

struct Apis {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
}

impl Apis {
    fn new(plane: &ControlPlane) -> Self {
        let client = plane.admin();
        Self {
            secrets: Api::namespaced(client.clone(), HOME),
            configurations: Api::all(client),
        }
    }

    async fn secret_when(&self, condition: impl Fn(&Material) -> bool) -> Material {
        let condition =
            |secret: &Secret| material(secret).is_some_and(|material| condition(&material));
        material(
            &wait_for(&self.secrets, DEFAULT_SECRET, condition, LIMIT)
                .await
                .unwrap(),
        )
        .unwrap()
    }

    /// Writes `material` back as if it had been made at another time.
    async fn rewrite(&self, material: &Material, change: impl FnOnce(&mut Material)) {
        let mut material = material.clone();
        change(&mut material);
        let state = STANDARD.encode(json!(material).to_string());
        let patch = Patch::Merge(json!({ "data": { "state.json": state } }));
        self.secrets
            .patch(DEFAULT_SECRET, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn bundle_when(&self, condition: impl Fn(&str) -> bool) -> String {
        let condition = |live: &MutatingWebhookConfiguration| condition(&bundle(live));
        bundle(
            &wait_for(&self.configurations, CONFIGURATION, condition, LIMIT)
                .await
                .unwrap(),
        )
    }
}

/// Creates elected pods without a pause until told to end: not one may fail. Returns how many there were.
async fn pods_without_a_pause(pods: Pods, until: CancellationToken) -> usize {
    let mut count = 0;
    while !until.is_cancelled() {
        let proxy = pods
            .dry_run(&elect(pod("web")))
            .await
            .unwrap_or_else(|error| panic!("pod {count}: {error}"));
        assert!(is_proxy(&proxy));
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_rotated_live_and_no_pod_is_refused_meanwhile() {
    let plane = ControlPlane::builder("rotation").start().await.unwrap();
    let apis = Apis::new(&plane);
    let webhook = Webhook::start(&plane, &["--ca-overlap=5s"]).await;
    webhook.in_force(&plane).await;
    let until = CancellationToken::new();
    let asking = tokio::spawn(pods_without_a_pause(
        Pods::elected(&plane).await,
        until.clone(),
    ));

    // The state says that the serving certificate has a week left: less than a third.
    let first = apis.secret_when(|_| true).await;
    let now = Timestamp::now();
    let aged = |material: &mut Material| {
        material.serving.made = now - SignedDuration::from_hours(23 * 24);
        material.serving.not_after = now + SignedDuration::from_hours(7 * 24);
    };
    apis.rewrite(&first, aged).await;
    let renewed = apis
        .secret_when(|now| now.serving.certificate != first.serving.certificate)
        .await;
    assert_eq!(
        renewed.ca, first.ca,
        "the CA outlives many serving certificates"
    );

    // And now that the CA has less than a third left.
    let aged = |material: &mut Material| {
        material.ca.not_after = now + SignedDuration::from_hours(8000);
    };
    apis.rewrite(&renewed, aged).await;
    let published = apis.secret_when(|now| now.next.is_some()).await;
    assert_eq!(published.ca.certificate, first.ca.certificate);
    assert_eq!(
        published.serving, renewed.serving,
        "it signs nothing before it is trusted"
    );
    apis.bundle_when(|bundle| *bundle == published.bundle())
        .await;
    assert_eq!(cas(&published.bundle()), 2);
    let next = published.next.unwrap().ca;
    let switched = apis.secret_when(|now| now.ca == next).await;
    assert!(
        switched.bundle().contains(&first.ca.certificate),
        "the old one is trusted after it last signed"
    );
    let retired = apis
        .secret_when(|now| now.ca == next && now.retired.is_none())
        .await;
    apis.bundle_when(|bundle| *bundle == retired.bundle()).await;
    assert_eq!(retired.bundle(), next.certificate);

    until.cancel();
    assert!(asking.await.unwrap() > 10);
    webhook.stop().await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_secret_rotates_the_ca_and_a_damaged_one_is_made_anew() {
    let plane = ControlPlane::builder("secret").start().await.unwrap();
    let apis = Apis::new(&plane);
    let webhook = Webhook::start(&plane, &["--ca-overlap=5s"]).await;
    webhook.in_force(&plane).await;
    let until = CancellationToken::new();
    let asking = tokio::spawn(pods_without_a_pause(
        Pods::elected(&plane).await,
        until.clone(),
    ));

    let first = apis.secret_when(|_| true).await;
    apis.secrets
        .delete(DEFAULT_SECRET, &DeleteParams::default())
        .await
        .unwrap();
    let published = apis.secret_when(|now| now.next.is_some()).await;
    assert_eq!(
        published.serving, first.serving,
        "what is served stays until the new CA is trusted"
    );
    let second = apis
        .secret_when(|now| now.ca != first.ca && now.retired.is_none())
        .await;

    let garbage =
        json!({ "data": { "state.json": STANDARD.encode("{}"), "tls.crt": "", "tls.key": "" } });
    apis.secrets
        .patch(
            DEFAULT_SECRET,
            &PatchParams::default(),
            &Patch::Merge(garbage),
        )
        .await
        .unwrap();
    let third = apis
        .secret_when(|now| now.ca != second.ca && now.retired.is_none())
        .await;
    apis.bundle_when(|bundle| *bundle == third.bundle()).await;

    until.cancel();
    assert!(asking.await.unwrap() > 10);
    webhook.stop().await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_one_secret_and_a_restarted_one_goes_on_with_it() {
    let plane = ControlPlane::builder("replicas").start().await.unwrap();
    let apis = Apis::new(&plane);
    // All start at once and race for the Secret. Each has a port of its own, so only one may say which is called.
    let (first, second, third) = tokio::join!(
        Webhook::start(&plane, &[]),
        Webhook::start(&plane, &["--manage-configuration=false"]),
        Webhook::start(&plane, &["--manage-configuration=false"]),
    );
    first.in_force(&plane).await;
    for replica in [&second, &third] {
        tokio::time::timeout(LIMIT, replica.health.ready())
            .await
            .unwrap();
    }
    let shared = apis.secret_when(|_| true).await;
    apis.bundle_when(|bundle| *bundle == shared.bundle()).await;
    for replica in [first, second, third] {
        replica.stop().await;
    }

    let restarted = Webhook::start(&plane, &[]).await;
    restarted.in_force(&plane).await;
    assert_eq!(apis.secret_when(|_| true).await, shared);
    restarted.stop().await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_certificate_files_are_served_and_no_secret_is_made() {
    let plane = ControlPlane::builder("files").start().await.unwrap();
    let apis = Apis::new(&plane);
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = plane.directory().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate = file("hook.crt", pair.cert.pem());
    let key = file("hook.key", pair.signing_key.serialize_pem());
    let args = [
        &format!("--tls-cert-file={certificate}"),
        &format!("--tls-key-file={key}"),
        &format!("--ca-file={certificate}"),
    ];
    let webhook = Webhook::start(&plane, &args.map(String::as_str)).await;
    webhook.in_force(&plane).await;
    assert_eq!(apis.bundle_when(|_| true).await, pair.cert.pem());
    assert_eq!(apis.secrets.get_opt(DEFAULT_SECRET).await.unwrap(), None);
    webhook.stop().await;

    // Without --ca-file the bundle is somebody else's: what they put there stays.
    let theirs = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "webhooks": [{
            "name": pilotage_webhook::objects::WEBHOOK,
            "clientConfig": { "caBundle": STANDARD.encode(pair.cert.pem()) },
        }],
    });
    let params = PatchParams::apply("injector").force();
    apis.configurations
        .patch(CONFIGURATION, &params, &Patch::Apply(theirs))
        .await
        .unwrap();
    let webhook = Webhook::start(&plane, &[args[0], args[1]]).await;
    webhook.in_force(&plane).await;
    assert_eq!(apis.bundle_when(|_| true).await, pair.cert.pem());
    webhook.stop().await;
    plane.stop().await;
}
