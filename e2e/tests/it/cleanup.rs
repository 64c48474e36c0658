//! `pilotage cleanup` on a real API server: whose finalizers go, and when it refuses.

use std::{
    fmt::Debug,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_testkit::{ControlPlane, LIMIT, build, pilotage, wait_gone};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Of Admiralty 0.17, for a Target c2 of namespace default.
const ADMIRALTYS: &str = "multicluster.admiralty.io/default-c2";
const OURS: &str = "multicluster.admiralty.io/delegate_gone";
const SOMEBODYS: &str = "example.com/mine";

async fn cleanup(plane: &ControlPlane, flags: &[&str]) -> Output {
    run(
        &[&["cleanup"][..], flags].concat(),
        &plane.admin_kubeconfig(),
    )
    .await
}

async fn run(words: &[&str], kubeconfig: &Path) -> Output {
    let mut command = Command::new(pilotage::binary().unwrap());
    command.args(words).arg("--kubeconfig").arg(kubeconfig);
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.concat()
}

/// An object with finalizers, of which somebody has asked to be deleted.
async fn ending<K>(api: &Api<K>, object: Value, finalizers: &[&str])
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let mut object = object;
    object["metadata"]["finalizers"] = json!(finalizers);
    let object: K = serde_json::from_value(object).unwrap();
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    let name = made.meta().name.clone().unwrap();
    api.delete(&name, &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_both_go_and_others_stay_and_nothing_goes_while_pilotage_runs() {
    let plane = ControlPlane::builder("cleanup").start().await.unwrap();
    let namespace = plane.namespace("left").await.unwrap();
    let at = namespace.name();
    let client = plane.admin();
    let pods: Api<Pod> = Api::namespaced(client.clone(), at);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), at);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), at);
    let services: Api<Service> = Api::namespaced(client.clone(), at);
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let pod = serde_json::to_value(build::pod("web").build()).unwrap();
    ending(&pods, pod, &[OURS, ADMIRALTYS]).await;
    ending(&maps, named("settings"), &[ADMIRALTYS]).await;
    ending(&secrets, named("keys"), &[ADMIRALTYS, SOMEBODYS]).await;
    let mut service = named("web");
    service["spec"] = json!({ "ports": [{ "port": 80 }] });
    ending(&services, service, &[ADMIRALTYS]).await;
    let ingresses: Api<Ingress> = Api::namespaced(client.clone(), at);
    let mut ingress = named("front");
    ingress["spec"] =
        json!({ "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } });
    ending(&ingresses, ingress, &[ADMIRALTYS]).await;
    plane
        .apply_yaml(&format!(
            "{{apiVersion: multicluster.admiralty.io/v1alpha1, kind: Target, metadata: {{name: c2, namespace: {at}, \
             finalizers: [multicluster.admiralty.io/virtual_node_gone]}}, spec: {{self: true}}}}"
        ))
        .await
        .unwrap();

    // Somebody holds a Lease, and renews it.
    let leases: Api<Lease> = Api::namespaced(client.clone(), at);
    let lease = json!({
        "metadata": { "name": "pilotage-controllers" },
        "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 3600 },
    });
    leases
        .create(
            &PostParams::default(),
            &serde_json::from_value(lease).unwrap(),
        )
        .await
        .unwrap();
    let dry = cleanup(&plane, &["--dry-run"]).await;
    let text = said(&dry);
    assert!(dry.status.success(), "{text}");
    for line in [
        format!("pods/{at}/web: {OURS} {ADMIRALTYS}"),
        format!("configmaps/{at}/settings: {ADMIRALTYS}"),
        format!("secrets/{at}/keys: {ADMIRALTYS}"),
        format!("services/{at}/web: {ADMIRALTYS}"),
        format!("ingresses/{at}/front: {ADMIRALTYS}"),
        format!("targets/{at}/c2: multicluster.admiralty.io/virtual_node_gone"),
        "6 object(s) would be released".to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
    pods.get("web").await.unwrap();

    let short = json!({ "spec": { "leaseDurationSeconds": 1 } });
    let patch = |body: Value| {
        let leases = leases.clone();
        async move {
            let (params, patch) = (PatchParams::default(), Patch::Merge(body));
            leases
                .patch("pilotage-controllers", &params, &patch)
                .await
                .unwrap();
        }
    };
    patch(short).await;
    let renewing = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        for turn in 0_u32.. {
            ticks.tick().await;
            patch(json!({ "spec": { "leaseTransitions": turn } })).await;
        }
    };
    let refused = tokio::select! {
        output = cleanup(&plane, &[]) => output,
        () = renewing => unreachable!("it never ends"),
    };
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    let holds = format!("the Lease {at}/pilotage-controllers is held by somebody");
    assert!(text.contains(&holds), "{text}");
    pods.get("web").await.unwrap();

    // It has died: nobody renews the Lease any more.
    let done = cleanup(&plane, &[]).await;
    let text = said(&done);
    assert!(done.status.success(), "{text}");
    assert!(text.contains("6 object(s) released"), "{text}");
    wait_gone(&pods, "web", LIMIT).await.unwrap();
    wait_gone(&maps, "settings", LIMIT).await.unwrap();
    wait_gone(&services, "web", LIMIT).await.unwrap();
    wait_gone(&ingresses, "front", LIMIT).await.unwrap();
    let keys = secrets.get("keys").await.unwrap();
    assert_eq!(keys.metadata.finalizers, Some(vec![SOMEBODYS.to_owned()]));
    let again = said(&cleanup(&plane, &[]).await);
    assert!(again.contains("0 object(s) released"), "{again}");

    // What the webhook installs, and Helm doesn't know.
    plane
        .apply_yaml(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, \
             metadata: {{name: zz-pilotage}}}}\n---\n\
             {{apiVersion: v1, kind: Secret, metadata: {{name: pilotage-webhook-tls, namespace: {at}}}}}"
        ))
        .await
        .unwrap();
    let flags = ["--admission-only", "--namespace", at];
    let dry = said(&cleanup(&plane, &[&flags[..], &["--dry-run"]].concat()).await);
    let lines = [
        "mutatingwebhookconfigurations/zz-pilotage",
        "secrets/pilotage-webhook-tls",
    ];
    for line in lines {
        assert!(
            dry.contains(&format!("{line}: would be deleted\n")),
            "{dry}"
        );
    }
    let done = said(&cleanup(&plane, &flags).await);
    for line in lines {
        assert!(done.contains(&format!("{line}: deleted\n")), "{done}");
    }
    assert!(!done.contains("released"), "{done}");
    assert_eq!(said(&cleanup(&plane, &flags).await), "");
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_told_and_nothing_is_said_only_by_a_cluster() {
    let plane = ControlPlane::builder("check").start().await.unwrap();
    let namespace = plane.namespace("left").await.unwrap();
    let at = namespace.name();
    let words = ["uninstall", "--check"];
    let empty = run(&words, &plane.admin_kubeconfig()).await;
    assert_eq!(empty.status.code(), Some(0), "{}", said(&empty));

    // Something answers 404 to everything.
    let nowhere = plane.directory().join("nowhere.kubeconfig");
    let server = format!("{}/nowhere", plane.url());
    plane.admin_access().via(&server).write(&nowhere).unwrap();
    let unknown = run(&words, &nowhere).await;
    let text = said(&unknown);
    assert_eq!(unknown.status.code(), Some(4), "{text}");
    assert!(text.contains("doesn't answer at"), "{text}");

    let source = json!({ "multicluster.admiralty.io/parent-uid": "1-2-3" });
    let pods: Api<Pod> = Api::namespaced(plane.admin(), at);
    let proxy = build::pod("web")
        .scheduler("admiralty-proxy")
        .node_name("admiralty-gone");
    let delegate = build::pod("theirs")
        .label("multicluster.admiralty.io/parent-uid", "1-2-3")
        .node_name("n");
    for pod in [proxy.build(), delegate.build()] {
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": { "name": "theirs", "namespace": at, "labels": source },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    plane.apply_yaml(&chaperon.to_string()).await.unwrap();
    // Its selector is no longer its author's.
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "front", "namespace": at, "annotations": {
            "multicluster.admiralty.io/original-selector": "app=web",
        } },
        "spec": { "selector": { "multicluster.admiralty.io/app": "web" }, "ports": [{ "port": 80 }] },
    });
    plane.apply_yaml(&service.to_string()).await.unwrap();
    let left = run(&words, &plane.admin_kubeconfig()).await;
    let text = said(&left);
    assert_eq!(left.status.code(), Some(3), "{text}");
    for line in [
        &*format!("node admiralty-gone, which no Target has: 1 pod ({at}/web)"),
        "1 pod runs here, PodChaperons 1",
        "1 pod runs elsewhere for this cluster",
        &*format!("Services that select delegates: {at}/front"),
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_keeps_nothing_else_and_what_comes_back_is_told() {
    let plane = ControlPlane::builder("parts").start().await.unwrap();
    let namespace = plane.namespace("left").await.unwrap();
    let at = namespace.name();
    let pods: Api<Pod> = Api::namespaced(plane.admin(), at);
    let maps: Api<ConfigMap> = Api::namespaced(plane.admin(), at);
    let pod = serde_json::to_value(build::pod("web").build()).unwrap();
    ending(&pods, pod, &[OURS]).await;
    let named = json!({ "metadata": { "name": "settings" } });
    ending(&maps, named, &[OURS]).await;

    let stranger = plane.user_access("stranger", None).unwrap();
    let file = plane.directory().join("stranger.kubeconfig");
    stranger.write(&file).unwrap();
    let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: some}, rules: \
        [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list]}, {apiGroups: ['', \
        networking.k8s.io], resources: [pods, services, ingresses], verbs: [get, list, patch]}, {apiGroups: \
        [multicluster.admiralty.io], resources: ['*'], verbs: [get, list, patch]}]}\n---\n{apiVersion: \
        rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: some}, roleRef: {apiGroup: \
        rbac.authorization.k8s.io, kind: ClusterRole, name: some}, subjects: [{apiGroup: rbac.authorization.k8s.io, \
        kind: User, name: stranger}]}";
    plane.apply_yaml(role).await.unwrap();
    let theirs: Api<Pod> = Api::namespaced(stranger.client().unwrap(), at);
    let may = async { while theirs.get("web").await.is_err() {} };
    tokio::time::timeout(LIMIT, may).await.unwrap();
    let some = run(&["cleanup"], &file).await;
    let text = said(&some);
    assert_eq!(some.status.code(), Some(1), "{text}");
    for line in [
        "mutatingwebhookconfigurations/zz-pilotage stays: ",
        "configmaps: failed to list configmaps: ",
        "secrets: failed to list secrets: ",
        "1 object(s) released\n",
        "nobody knows what is left of configmaps, secrets; ",
        "5 object(s) of the webhook couldn't be deleted",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(text.contains(&format!("pods/{at}/web: {OURS}\n")), "{text}");
    wait_gone(&pods, "web", LIMIT).await.unwrap();
    maps.get("settings").await.unwrap();

    // A webhook still runs.
    let name = "zz-pilotage";
    let configuration = format!(
        "{{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {{name: \
         {name}}}}}"
    );
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(plane.admin());
    plane.apply_yaml(&configuration).await.unwrap();
    let webhook = async {
        wait_gone(&configurations, name, LIMIT).await.unwrap();
        plane.apply_yaml(&configuration).await.unwrap();
    };
    let (back, ()) = tokio::join!(cleanup(&plane, &["--admission-only"]), webhook);
    let text = said(&back);
    assert_eq!(back.status.code(), Some(1), "{text}");
    assert!(
        text.contains(
            "mutatingwebhookconfigurations/zz-pilotage is there again: a webhook of Pilotage runs"
        ),
        "{text}"
    );
    let gone = cleanup(&plane, &["--admission-only"]).await;
    assert_eq!(gone.status.code(), Some(0), "{}", said(&gone));
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_taken_while_it_looks_is_seen() {
    let plane = ControlPlane::builder("taken").start().await.unwrap();
    let namespace = plane.namespace("left").await.unwrap();
    let at = namespace.name();
    let pods: Api<Pod> = Api::namespaced(plane.admin(), at);
    let pod = serde_json::to_value(build::pod("web").build()).unwrap();
    ending(&pods, pod, &[OURS]).await;
    let leases: Api<Lease> = Api::namespaced(plane.admin(), at);
    let hold = async |part: &str| {
        let lease = json!({
            "metadata": { "name": format!("pilotage-{part}") },
            "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 4 },
        });
        let lease = serde_json::from_value(lease).unwrap();
        leases.create(&PostParams::default(), &lease).await.unwrap();
    };
    // One that died, for whose Lease it waits.
    hold("controllers").await;
    let mut command = Command::new(pilotage::binary().unwrap());
    let kubeconfig = plane.admin_kubeconfig();
    command.args(["cleanup", "--kubeconfig"]).arg(kubeconfig);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let looks = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        while !line.contains("looking whether those who hold Leases") {
            line.clear();
            assert!(told.read_line(&mut line).unwrap() > 0, "it ended");
        }
        told
    });
    let mut told = looks.await.unwrap();
    hold("candidate-scheduler").await;
    let ended = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        told.read_to_string(&mut text).unwrap();
        (child.wait().unwrap(), text)
    });
    let (ended, text) = ended.await.unwrap();
    assert_eq!(ended.code(), Some(1), "{text}");
    let holds = format!("the Lease {at}/pilotage-candidate-scheduler is held by somebody");
    assert!(text.contains(&holds), "{text}");
    let kept = pods.get("web").await.unwrap().metadata.finalizers;
    assert_eq!(kept, Some(vec![OURS.to_owned()]));
    plane.stop().await;
}
