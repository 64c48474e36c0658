//! The chart in a cluster: its parts run with its command lines under its accounts, place a pod, and an upgrade and the
//! end of the release leave that pod alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use pilotage_api::{ClusterTarget, GROUP, VERSION, crds, keys, names};
pub(super) use pilotage_testkit::LIMIT;
use pilotage_testkit::pilotage::ADMIN_PORT;
use pilotage_testkit::{
    ControlPlane, PilotageProcess, apply, build, list_until, pilotage, wait_admission, wait_count,
    wait_for,
};
use serde_json::{Value, json};

use super::{RELEASE, chart, metrics, of_kind};
use crate::scenario::node_of;

pub(super) const HOME: &str = "pilotage";
const TARGETS: &str = "targets.multicluster.admiralty.io";

/// The kubelet is there for its metrics.
pub(super) const VALUES: &str =
    "controllerManager.kubelet.enabled=true,controllerManager.kubelet.selfSigned=true";

async fn helm(plane: &ControlPlane, command: &str, more: &[&str]) -> String {
    let chart = chart();
    let mut args = vec![command, RELEASE];
    if command != "uninstall" {
        args.extend([&chart, "--set", VALUES]);
    }
    args.extend(["--namespace", HOME]);
    args.extend(more);
    plane.helm(&args).await.unwrap()
}

/// A release like one of Admiralty's chart: a definition is among its templates, and would be deleted with it.
async fn predecessor(plane: &ControlPlane) -> CustomResourceDefinition {
    let chart = plane.directory().join("predecessor");
    fs::create_dir_all(chart.join("templates")).unwrap();
    let about = "apiVersion: v2\nname: multicluster-scheduler\nversion: 0.17.0\n";
    fs::write(chart.join("Chart.yaml"), about).unwrap();
    let all = crds::all().unwrap();
    let targets = all.iter().find(|crd| crd.name_any() == TARGETS).unwrap();
    let text = serde_json::to_string(targets).unwrap();
    fs::write(chart.join("templates/targets.yaml"), text).unwrap();
    let chart = chart.display().to_string();
    let flags = ["--namespace", HOME, "--create-namespace"];
    let install = [&["install", RELEASE, chart.as_str()], &flags[..]].concat();
    plane.helm(&install).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin());
    definitions.get(TARGETS).await.unwrap()
}

/// Runs the container of the hook that ends a release, under its account, and returns what it says, and what its roles
/// let it delete.
pub(super) async fn clean_up(plane: &ControlPlane) -> (String, BTreeSet<String>) {
    let hooks = plane.helm(&["get", "hooks", RELEASE, "--namespace", HOME]);
    let hooks = apply::documents(&hooks.await.unwrap()).unwrap();
    let job = of_kind(&hooks, "Job").next().unwrap();
    for object in hooks.iter().filter(|object| object["kind"] != "Job") {
        plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let spec = &job["spec"]["template"]["spec"];
    let account = spec["serviceAccountName"].as_str().unwrap();
    let access = plane.service_account_access(HOME, account).await.unwrap();
    let kubeconfig = plane.directory().join("clean-up.kubeconfig");
    access.write(&kubeconfig).unwrap();
    let args = spec["containers"][0]["args"].as_array().unwrap();
    let args = args.iter().map(|arg| arg.as_str().unwrap().to_owned());
    let mut command = Command::new(pilotage::binary().unwrap());
    command.args(args).arg("--kubeconfig").arg(kubeconfig);
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = run.await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    let roles = hooks.iter().filter(|object| object["rules"].is_array());
    (said, roles.flat_map(deletable).collect())
}

/// `plural/name` of all that a role lets one delete; it gives no other right.
fn deletable(role: &Value) -> Vec<String> {
    let words = |list: &Value| serde_json::from_value::<Vec<String>>(list.clone()).unwrap();
    let mut named = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(words(&rule["verbs"]), ["delete"]);
        for plural in words(&rule["resources"]) {
            let names = words(&rule["resourceNames"]);
            named.extend(names.iter().map(|name| format!("{plural}/{name}")));
        }
    }
    named
}

/// Runs the container of each Deployment beside the cluster, as there are no kubelets: with its arguments, but for the
/// addresses.
pub(super) async fn start_parts(plane: &ControlPlane) -> BTreeMap<String, PilotageProcess> {
    let deployments: Api<Deployment> = Api::namespaced(plane.admin(), HOME);
    let mut parts = BTreeMap::new();
    for deployment in deployments.list(&ListParams::default()).await.unwrap() {
        let name = deployment.name_any();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let account = pod.service_account_name.unwrap();
        let access = plane.service_account_access(HOME, &account).await.unwrap();
        let kubeconfig = plane.directory().join(format!("{name}.kubeconfig"));
        access.write(&kubeconfig).unwrap();
        let args = pod.containers[0].args.clone().unwrap();
        let part = args[0].clone();
        let args = args
            .into_iter()
            .filter(|arg| !arg.starts_with("--webhook-service="))
            .map(|arg| arg.replace("$(POD_IP)", "127.0.0.1"));
        let addresses: &[&str] = match part.as_str() {
            "webhook" => &[
                "--webhook-addr=127.0.0.1:0",
                "--webhook-url=https://127.0.0.1:0",
            ],
            "controllers" => &["--kubelet-listen=127.0.0.1:0"],
            _ => &[],
        };
        let process = PilotageProcess::builder(&format!("chart-{part}"))
            .args(args)
            .args(addresses)
            .args(["--admin-addr".to_owned(), format!("127.0.0.1:{ADMIN_PORT}")])
            .args(["--kubeconfig".to_owned(), kubeconfig.display().to_string()])
            .start()
            .await
            .unwrap();
        parts.insert(part, process);
    }
    parts
}

/// What the parts serve once they tell the whole way of a pod that was placed on this node.
async fn metrics_of_a_pod(parts: &BTreeMap<String, PilotageProcess>, node: &str) -> Vec<String> {
    let node = ("target", node);
    let stages = "pilotage_pod_stage_duration_seconds_count";
    let answers = "pilotage_target_answers_total";
    let holds = "pilotage_candidate_hold_duration_seconds_count";
    let leader = ("name", "pilotage-proxy-scheduler");
    let told: [(&str, &[(&str, &str)]); 12] = [
        (stages, &[("stage", "asked")]),
        (stages, &[("stage", "reserved")]),
        (stages, &[("stage", "granted")]),
        (stages, &[("stage", "bound")]),
        ("pilotage_target_asks_total", &[node]),
        (answers, &[node, ("answer", "reserved")]),
        (answers, &[node, ("answer", "bound")]),
        ("pilotage_target_grants_total", &[node]),
        ("pilotage_target_state", &[node, ("state", "connected")]),
        (
            "pilotage_candidate_answers_total",
            &[("answer", "reserved")],
        ),
        (holds, &[("end", "bound")]),
        ("leader_election_master_status", &[leader]),
    ];
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut texts = Vec::new();
        for process in parts.values() {
            let (status, text) = process.admin_get("/metrics").await.unwrap();
            assert_eq!(status, 200);
            texts.push(text);
        }
        let untold: Vec<_> = told
            .iter()
            .filter(|(name, labels)| metrics::sum(&texts, name, labels) < 1.0)
            .collect();
        if untold.is_empty() {
            return texts;
        }
        assert!(Instant::now() < deadline, "{untold:?} in {texts:#?}");
        // Of a reply others may know a moment before it is counted.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    phase == Some("Running")
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_and_uninstallation_leave_running_pods_alone() {
    let nodes = build::nodes("real", 1, |node| node.cpu("4").memory("8Gi").pods(20));
    let plane = ControlPlane::builder("chart-install")
        .no_crds()
        .controller_manager()
        .scheduler()
        .kwok(nodes)
        .start()
        .await
        .unwrap();
    let before = predecessor(&plane).await;
    let said = helm(&plane, "upgrade", &[]).await;
    assert!(said.contains("get deployments"), "{said}");
    for crd in crds::all().unwrap() {
        let name = crd.name_any();
        apply::established(&plane.admin(), &name).await.unwrap();
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin());
    let now = definitions.get(TARGETS).await.unwrap();
    assert_eq!(
        now.uid(),
        before.uid(),
        "no Target went with the other chart"
    );
    let parts = start_parts(&plane).await;
    let names_of_parts: Vec<_> = parts.keys().map(String::as_str).collect();
    let all = [
        "candidate-scheduler",
        "controllers",
        "proxy-scheduler",
        "webhook",
    ];
    assert_eq!(names_of_parts, all);

    let here = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterTarget",
        "metadata": { "name": "here" },
        "spec": { "self": true },
    });
    plane.apply_yaml(&here.to_string()).await.unwrap();
    let shop = plane.elected_namespace("shop").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin(), shop.name());
    let web = build::pod("web").elect().request("cpu", "100m").build();
    let is_proxy = |answer: &kube::Result<Pod>| {
        answer.as_ref().is_ok_and(|pod| {
            let spec = pod.spec.as_ref().unwrap();
            spec.scheduler_name.as_deref() == Some("admiralty-proxy")
        })
    };
    wait_admission(&pods, &web, is_proxy, LIMIT).await.unwrap();
    pilotage_testkit::create(&pods, &web).await.unwrap();
    let ran = wait_for(&pods, "web", is_running, LIMIT).await;
    let proxy = ran.unwrap_or_else(|error| {
        let tails = parts.values().map(PilotageProcess::tail);
        panic!("{error}\n{}", tails.collect::<Vec<_>>().join("\n"))
    });
    let virtual_node = names::virtual_node(None, "here");
    assert_eq!(node_of(&proxy), Some(virtual_node.as_str()));
    let delegate = names::chaperon(shop.name(), "web", proxy.uid().as_deref().unwrap());
    let before = pods.get(&delegate).await.unwrap();
    assert!(node_of(&before).is_some_and(|node| node.starts_with("real-")));

    // Others in the namespace of the release write no record, whatever they may do with pods.
    let record = format!("{}=elsewhere/u/1", keys::GRANTED_TO);
    let at = format!("--namespace={}", shop.name());
    let stranger =
        "clusterrolebinding stranger --clusterrole=edit --serviceaccount=pilotage:default";
    let stranger = [&["create"][..], &stranger.split(' ').collect::<Vec<_>>()].concat();
    plane.kubectl(&stranger).await.unwrap();
    let written = [
        "annotate",
        "--overwrite",
        "pod",
        "web",
        &at,
        &record,
        "--as=system:serviceaccount:pilotage:default",
    ];
    // The API server may not heed the policy yet.
    let forged = build::pod("forged").annotation(keys::SOURCE_POD_MANIFEST, "{}");
    let forged = forged.build();
    let is_refused = |answer: &kube::Result<Pod>| {
        let error = answer.as_ref().err().map(ToString::to_string);
        error.is_some_and(|error| error.contains("Pilotage alone, to pods with"))
    };
    let heeded = wait_admission(&pods, &forged, is_refused, LIMIT);
    heeded.await.unwrap();
    let refused = plane.kubectl(&written).await.unwrap_err().to_string();
    assert!(refused.contains("written by Pilotage alone"), "{refused}");

    metrics::served(&metrics_of_a_pod(&parts, &virtual_node).await);
    let events: Api<Event> = Api::namespaced(plane.admin(), shop.name());
    let start = format!(
        "Successfully assigned {}/web to {virtual_node}: ",
        shop.name()
    );
    let is_story = |event: &Event| {
        let story = event
            .note
            .as_deref()
            .and_then(|note| note.strip_prefix(&start));
        let stages = ["asked", "reserved", "granted", "bound"];
        story.is_some_and(|story| {
            stages
                .iter()
                .all(|it| story.contains(&format!("{it} after ")))
        })
    };
    let any = |seen: &BTreeMap<_, Event>| seen.values().any(is_story);
    list_until(
        &events,
        kube_runtime::watcher::Config::default(),
        any,
        LIMIT,
    )
    .await
    .unwrap();

    let undisturbed = async || {
        for (name, uid) in [("web", proxy.uid()), (delegate.as_str(), before.uid())] {
            let pod = pods.get(name).await.unwrap();
            assert!(is_running(&pod), "{pod:#?}");
            assert_eq!(pod.uid(), uid);
            assert_eq!(pod.metadata.deletion_timestamp, None);
        }
    };
    helm(
        &plane,
        "upgrade",
        &["--set", "log.level=debug,rights={logs}"],
    )
    .await;
    undisturbed().await;
    // Of the option's role the upgrade made one.
    let given = plane.kubectl(&["get", "clusterrole", "pilotage-source-logs"]);
    assert!(given.await.is_ok());

    // Its processes end with it: their rights go at the same time.
    for process in parts.values() {
        process.stop(Duration::from_secs(10)).await;
    }
    let (said, may_delete) = clean_up(&plane).await;
    let deleted: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_suffix(": deleted"))
        .collect();
    assert_eq!(
        deleted,
        [
            "mutatingwebhookconfigurations/zz-pilotage",
            "validatingadmissionpolicybindings/pilotage-proxy-pods",
            "validatingadmissionpolicybindings/pilotage-targets",
            "validatingadmissionpolicies/pilotage-proxy-pods",
            "validatingadmissionpolicies/pilotage-targets",
            "secrets/pilotage-webhook-tls",
        ],
        "{said}"
    );
    // Its roles aren't among those that `make roles` looks at.
    let used: BTreeSet<_> = deleted.iter().map(ToString::to_string).collect();
    assert_eq!(used, may_delete);
    // Here nobody really runs the Job: its end is what Helm waits for.
    helm(&plane, "uninstall", &[]).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.admin(), HOME);
    let left = accounts.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, ["default"]);
    let deployments: Api<Deployment> = Api::namespaced(plane.admin(), HOME);
    let none = kube_runtime::watcher::Config::default();
    wait_count(&deployments, none, 0, |_| true, LIMIT)
        .await
        .unwrap();
    undisturbed().await;
    let kept: Api<CustomResourceDefinition> = Api::all(plane.admin());
    let kept = kept.list(&ListParams::default()).await.unwrap();
    assert_eq!(kept.items.len(), crds::all().unwrap().len());
    let targets: Api<ClusterTarget> = Api::all(plane.admin());
    assert!(targets.get("here").await.is_ok());
    drop(shop);
    plane.stop().await;
}
