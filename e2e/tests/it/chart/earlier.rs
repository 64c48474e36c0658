//! An earlier chart, as it was: a pod that runs by its release runs on when that is upgraded to the chart of today, and
//! when it ends.

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use pilotage_api::{GROUP, VERSION, crds, names};
use pilotage_testkit::{ControlPlane, apply, build, wait_admission, wait_for};
use serde_json::json;

use super::install::{HOME, LIMIT, VALUES, clean_up, is_running, start_parts};
use super::{RELEASE, chart};
use crate::workspace::root;

/// The chart before it knew of traces, without what no template needs.
const ARCHIVE: &str = "e2e/tests/it/chart/older/before-otlp.tgz";

fn is_proxy(answer: &kube::Result<Pod>) -> bool {
    answer.as_ref().is_ok_and(|pod| {
        let spec = pod.spec.as_ref().unwrap();
        spec.scheduler_name.as_deref() == Some("admiralty-proxy")
    })
}

/// The right to install the policies that came later.
fn since_then() -> String {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "since-then" },
        "rules": [{
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            "resourceNames": ["pilotage-targets"],
            "verbs": ["get", "list", "watch", "create", "patch"],
        }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "since-then" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "since-then",
        },
        "subjects": [{ "kind": "ServiceAccount", "name": "pilotage-webhook", "namespace": HOME }],
    });
    format!("{role}\n---\n{binding}\n")
}

/// A proxy pod that runs.
async fn placed(pods: &Api<Pod>, name: &str) -> Pod {
    let pod = build::pod(name).elect().request("cpu", "100m").build();
    wait_admission(pods, &pod, is_proxy, LIMIT).await.unwrap();
    pilotage_testkit::create(pods, &pod).await.unwrap();
    wait_for(pods, name, is_running, LIMIT).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_an_earlier_release_runs_on_when_that_is_upgraded_and_ends() {
    let nodes = build::nodes("real", 1, |node| node.cpu("4").memory("8Gi").pods(20));
    let plane = ControlPlane::builder("chart-earlier")
        .no_crds()
        .controller_manager()
        .scheduler()
        .kwok(nodes)
        .start()
        .await
        .unwrap();
    let unpacked = Command::new("tar")
        .args(["--extract", "--gzip", "--file"])
        .arg(root().join(ARCHIVE))
        .arg("--directory")
        .arg(plane.directory())
        .status()
        .unwrap();
    assert!(unpacked.success());
    let earlier = plane.directory().join("charts/pilotage");
    let earlier = earlier.display().to_string();
    let helm = async |words: &[&str]| {
        let words = [words, &["--namespace", HOME]].concat();
        plane.helm(&words).await.unwrap()
    };
    let new = ["--create-namespace", "--set", VALUES];
    helm(&[&["install", RELEASE, earlier.as_str()][..], &new].concat()).await;
    for crd in crds::all().unwrap() {
        let name = crd.name_any();
        apply::established(&plane.admin(), &name).await.unwrap();
    }
    // Its processes are of today, and that is what the chart of their own time couldn't give them.
    plane.apply_yaml(&since_then()).await.unwrap();
    let parts = start_parts(&plane).await;
    assert_eq!(parts.len(), 4);
    let here = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterTarget",
        "metadata": { "name": "here" },
        "spec": { "self": true },
    });
    plane.apply_yaml(&here.to_string()).await.unwrap();
    let shop = plane.elected_namespace("shop").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin(), shop.name());
    let proxy = placed(&pods, "web").await;
    let delegate = names::chaperon(shop.name(), "web", proxy.uid().as_deref().unwrap());
    let before = pods.get(&delegate).await.unwrap();
    let undisturbed = async || {
        for (name, uid) in [("web", proxy.uid()), (delegate.as_str(), before.uid())] {
            let pod = pods.get(name).await.unwrap();
            assert!(is_running(&pod), "{pod:#?}");
            assert_eq!(pod.uid(), uid);
            assert_eq!(pod.metadata.deletion_timestamp, None);
        }
    };

    helm(&["upgrade", RELEASE, chart().as_str(), "--reuse-values"]).await;
    undisturbed().await;
    // As its Deployments would be: by processes of the command lines of today.
    for process in parts.values() {
        process.stop(Duration::from_secs(10)).await;
    }
    let parts = start_parts(&plane).await;
    placed(&pods, "later").await;
    undisturbed().await;

    for process in parts.values() {
        process.stop(Duration::from_secs(10)).await;
    }
    let (said, _) = clean_up(&plane).await;
    let webhook = "mutatingwebhookconfigurations/zz-pilotage: deleted";
    assert!(said.contains(webhook), "{said}");
    helm(&["uninstall", RELEASE]).await;
    undisturbed().await;
    drop(shop);
    plane.stop().await;
}
