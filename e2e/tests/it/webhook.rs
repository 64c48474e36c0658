//! `pilotage webhook` as a process: API servers that don't know yet that it ends get their answers.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use pilotage_api::keys;
use pilotage_testkit::pilotage::ADMIN_PORT;
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{ControlPlane, LIMIT, PilotageProcess, Signal, build, wait_admission};
use tokio::net::TcpStream;

/// The longest that there is, for a slow machine.
const DELAY: &str = "--shutdown-delay=9s";

fn is_proxy(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref().unwrap();
    spec.scheduler_name.as_deref() == Some(keys::PROXY_SCHEDULER)
}

/// Host and port at which the API server calls it.
async fn address(plane: &ControlPlane) -> String {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(plane.admin());
    let all = configurations.list(&ListParams::default()).await.unwrap();
    let webhooks = all.items.into_iter().filter_map(|it| it.webhooks).flatten();
    let mut urls = webhooks.filter_map(|it| it.client_config.url);
    let url = urls.next().unwrap();
    let rest = url.strip_prefix("https://").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_told_to_end_answers_for_some_time() {
    let plane = ControlPlane::builder("webhook-ends").start().await.unwrap();
    let webhook = PilotageProcess::builder("webhook-ends")
        .args(["webhook", "--webhook-addr=127.0.0.1:0", DELAY])
        .args(["--webhook-url=https://127.0.0.1:0"])
        .args([format!("--admin-addr=127.0.0.1:{ADMIN_PORT}")])
        .args([
            "--kubeconfig".to_owned(),
            plane.admin_kubeconfig().display().to_string(),
        ])
        .start()
        .await
        .unwrap();
    let shop = plane.elected_namespace("shop").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin(), shop.name());
    let web = build::pod("web").elect().build();
    let in_force = |answer: &kube::Result<Pod>| answer.as_ref().is_ok_and(is_proxy);
    wait_admission(&pods, &web, in_force, LIMIT).await.unwrap();
    let address = address(&plane).await;

    webhook.signal(Signal::Terminate).await.unwrap();
    let unready = async {
        loop {
            let (status, body) = webhook.admin_get("/readyz").await.unwrap();
            if status == 503 {
                return body;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let body = tokio::time::timeout(LIMIT, unready).await.unwrap();
    assert!(body.contains("shutting down"), "{body}");
    let new = TcpStream::connect(&address).await;
    assert!(new.is_ok(), "{new:?}: {}", webhook.tail());
    drop(new);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = pods.create(&dry_run, &web).await.unwrap();
    assert!(is_proxy(&answer), "{answer:?}");

    let exit = tokio::time::timeout(LIMIT, webhook.process().wait());
    let exit = exit.await.unwrap();
    assert!(exit.is_some_and(Exit::success), "{}", webhook.tail());
}
