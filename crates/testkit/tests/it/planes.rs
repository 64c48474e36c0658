//! What a control plane does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy, WatchParams};
use kube::{Api, ResourceExt, runtime::watcher};
use pilotage_api::Target;
use pilotage_testkit::audit::Policy;
use pilotage_testkit::build::{deployment, job, node, pod};
use pilotage_testkit::plane::kwok;
use pilotage_testkit::{
    Change, ControlPlane, LIMIT, Part, Recorder, Signal, shared, wait_count, wait_for, wait_gone,
};

use crate::processes::{all_end, handle};

/// The plane with everything, shared by the tests that do not break it.
async fn full() -> Arc<ControlPlane> {
    let plane = shared::plane("full", || {
        ControlPlane::builder("full")
            .controller_manager()
            .scheduler()
            .kwok([
                node("small").cpu("2").build(),
                node("large")
                    .cpu("16")
                    .label("tier", "gold")
                    .taint("k", "v", "PreferNoSchedule")
                    .build(),
            ])
            .audit(Policy::All)
    });
    plane.await.unwrap()
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
}

#[tokio::test]
async fn deployments_run_jobs_succeed_and_deleted_pods_go() {
    let plane = full().await;
    println!("start: {}", plane.start_times());
    let namespace = plane.namespace("work").await.unwrap();
    let (deployments, jobs, pods) = (
        namespace.api::<Deployment>(),
        namespace.api::<Job>(),
        namespace.api::<Pod>(),
    );
    let recorder = Recorder::start(pods.clone(), WatchParams::default())
        .await
        .unwrap();

    let web = deployment("web")
        .replicas(2)
        .pod(|pod| pod.request("cpu", "3"))
        .build();
    deployments
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    let batch = job("batch")
        .completions(2)
        .pod(|pod| pod.annotation(kwok::RUN_FOR, "300ms"))
        .build();
    jobs.create(&PostParams::default(), &batch).await.unwrap();
    let failing = pod("failing")
        .restart_policy("Never")
        .annotation(kwok::EXIT_CODE, "7")
        .build();
    pods.create(&PostParams::default(), &failing).await.unwrap();

    let available = |deployment: &Deployment| {
        deployment
            .status
            .as_ref()
            .and_then(|status| status.available_replicas)
            == Some(2)
    };
    wait_for(&deployments, "web", available, LIMIT)
        .await
        .unwrap();
    let selection = watcher::Config::default().labels("app=web");
    let running = wait_count(
        &pods,
        selection.clone(),
        2,
        |pod| phase(pod) == Some("Running"),
        LIMIT,
    );
    for pod in running.await.unwrap() {
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("large"));
        assert!(pod.status.unwrap().pod_ip.is_some());
    }
    let done = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded) == Some(2);
    wait_for(&jobs, "batch", done, LIMIT).await.unwrap();
    let failed = wait_for(&pods, "failing", |pod| phase(pod) == Some("Failed"), LIMIT)
        .await
        .unwrap();
    let status = failed.status.unwrap().container_statuses.unwrap().remove(0);
    assert_eq!(status.state.unwrap().terminated.unwrap().exit_code, 7);

    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    deployments.delete("web", &foreground).await.unwrap();
    wait_gone(&deployments, "web", LIMIT).await.unwrap();
    wait_count(&pods, selection, 0, |_| true, LIMIT)
        .await
        .unwrap();

    // The recording has both ends of each pod of the Deployment.
    let of_web = |pod: &Pod| pod.labels().get("app").is_some_and(|app| app == "web");
    let count = |change, events: &[pilotage_testkit::Recorded<Pod>]| {
        events
            .iter()
            .filter(|e| e.change == change && of_web(&e.object))
            .count()
    };
    let events = recorder.wait_until(|events| count(Change::Deleted, events) == 2, LIMIT);
    assert_eq!(count(Change::Added, &events.await.unwrap()), 2);
}

#[tokio::test]
async fn nodes_have_their_shape_and_only_ours_are_kept() {
    let plane = full().await;
    let nodes: Api<Node> = Api::all(plane.admin());
    let large = nodes.get("large").await.unwrap();
    assert_eq!(large.labels()["tier"], "gold");
    let status = large.status.as_ref().unwrap();
    assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "16");
    assert_eq!(
        large.spec.as_ref().unwrap().taints.as_ref().unwrap()[0].key,
        "k"
    );
    // Closed to the pods of other tests.
    let late = node("late").taint("own", "", "NoSchedule");
    plane.add_nodes([late.build()]).await.unwrap();

    // A node without kwok's annotation is none of its business, and neither are the pods on it.
    nodes
        .create(&PostParams::default(), &node("stranger").build())
        .await
        .unwrap();
    let namespace = plane.namespace("stranger").await.unwrap();
    let pods = namespace.api::<Pod>();
    let tolerant = pod("tolerant")
        .node_name("stranger")
        .tolerate(None, None, None);
    pods.create(&PostParams::default(), &tolerant.build())
        .await
        .unwrap();
    pods.create(
        &PostParams::default(),
        &pod("other").node_name("late").build(),
    )
    .await
    .unwrap();
    wait_for(&pods, "other", |pod| phase(pod) == Some("Running"), LIMIT)
        .await
        .unwrap();
    assert_eq!(phase(&pods.get("tolerant").await.unwrap()), Some("Pending"));
    let ready = |node: &Node| {
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    };
    assert!(!ready(&nodes.get("stranger").await.unwrap()));
    nodes
        .delete("stranger", &DeleteParams::default())
        .await
        .unwrap();
    nodes
        .delete("late", &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn bindings_and_requests_are_counted() {
    let plane = full().await;
    let namespace = plane.namespace("audit").await.unwrap();
    let pods = namespace.api::<Pod>();
    for name in ["a", "b", "c"] {
        pods.create(&PostParams::default(), &pod(name).build())
            .await
            .unwrap();
    }
    wait_count(
        &pods,
        watcher::Config::default(),
        3,
        |pod| phase(pod) == Some("Running"),
        LIMIT,
    )
    .await
    .unwrap();
    let log = plane.audit().unwrap();
    let entries = log.entries().await.unwrap();
    let here: Vec<_> = entries
        .iter()
        .filter(|entry| entry.namespace == namespace.name())
        .collect();
    let mut bound: Vec<_> = here
        .iter()
        .filter(|e| e.is_binding())
        .map(|e| (e.name.as_str(), e.user.as_str()))
        .collect();
    bound.sort_unstable();
    let scheduler = "system:kube-scheduler";
    assert_eq!(
        bound,
        [("a", scheduler), ("b", scheduler), ("c", scheduler)]
    );
    let created = |e: &&&pilotage_testkit::audit::Entry| {
        e.verb == "create"
            && e.full_resource() == "pods"
            && e.user == "testkit-admin"
            && e.accepted()
    };
    assert_eq!(here.iter().filter(created).count(), 3);
    let table = log
        .table(|e| e.namespace == namespace.name() && e.user == "kwok")
        .await
        .unwrap();
    assert_eq!(
        table[&("patch".to_owned(), "pods/status".to_owned())],
        3,
        "{table:?}"
    );
}

#[tokio::test]
async fn service_accounts_users_and_strangers_may_what_rbac_says() {
    let plane = full().await;
    let namespace = plane.namespace("who").await.unwrap();
    let ns = namespace.name();
    plane.service_account(ns, "reader").await.unwrap();
    let roles = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: read, namespace: {ns}}}\n\
         rules:\n- {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list]}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: read, namespace: {ns}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: read}}\n\
         subjects:\n- {{kind: ServiceAccount, name: reader, namespace: {ns}}}\n\
         - {{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}}\n"
    );
    assert_eq!(plane.apply_yaml(&roles).await.unwrap().len(), 2);
    let jane = plane.user_access("jane", None).unwrap().client().unwrap();
    for client in [
        plane.service_account_client(ns, "reader").await.unwrap(),
        jane,
    ] {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), ns);
        wait_for(
            &namespace.api::<ConfigMap>(),
            "kube-root-ca.crt",
            |_| true,
            LIMIT,
        )
        .await
        .unwrap();
        assert_eq!(
            api.list(&ListParams::default()).await.unwrap().items.len(),
            1
        );
        let refused = api
            .delete("kube-root-ca.crt", &DeleteParams::default())
            .await
            .unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
        let elsewhere: Api<ConfigMap> = Api::namespaced(client, "default");
        assert!(elsewhere.list(&ListParams::default()).await.is_err());
    }
    let nobody: Api<ConfigMap> =
        Api::default_namespaced(plane.anonymous_access().client().unwrap());
    let refused = nobody.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));
    // A kubeconfig file is good for kubectl, too.
    let file = plane
        .kubeconfig_file_for_service_account(ns, "reader")
        .await
        .unwrap();
    let file = format!("--kubeconfig={}", file.display());
    let names = plane
        .kubectl(&[&file, "get", "configmaps", "-o", "name"])
        .await
        .unwrap();
    assert_eq!(names, "configmap/kube-root-ca.crt\n");
    let said = plane.kubectl(&[
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ]);
    assert_eq!(said.await.unwrap(), "testkit-admin");
    assert!(
        plane
            .kubectl(&["get", "nonsense"])
            .await
            .unwrap_err()
            .to_string()
            .contains("nonsense")
    );
}

#[tokio::test]
async fn a_tenant_has_one_namespace_with_its_targets_and_nothing_else() {
    let plane = full().await;
    let namespace = plane.namespace("tenant").await.unwrap();
    let ns = namespace.name();
    let tenant = plane.tenant(ns, "mallory").await.unwrap();
    let client = tenant.client().unwrap();
    let target = serde_json::json!({
        "metadata": { "name": "evil" },
        "spec": { "kubeconfigSecret": { "name": "evil" } },
    });
    let target: Target = serde_json::from_value(target).unwrap();
    let params = PostParams::default();
    let targets: Api<Target> = Api::namespaced(client.clone(), ns);
    targets.create(&params, &target).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), ns);
    pods.create(&params, &pod("own").build()).await.unwrap();
    let is_refused =
        |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    let elsewhere: Api<Target> = Api::namespaced(client.clone(), "default");
    assert!(is_refused(
        elsewhere.create(&params, &target).await.unwrap_err()
    ));
    let everywhere: Api<Pod> = Api::all(client);
    let all = everywhere.list(&ListParams::default()).await;
    assert!(is_refused(all.unwrap_err()));
}

#[tokio::test]
async fn planes_start_together_and_an_api_server_comes_back_where_it_was() {
    let begin = Instant::now();
    let crd = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "buoys.testkit.pilotage.invalid" },
        "spec": {
            "group": "testkit.pilotage.invalid",
            "scope": "Namespaced",
            "names": { "plural": "buoys", "singular": "buoy", "kind": "Buoy" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    let (a, b) = tokio::join!(
        ControlPlane::builder("a")
            .for_load()
            .no_crds()
            .crd(crd)
            .start(),
        ControlPlane::builder("b")
            .audit(Policy::Writes)
            .kwok([node("n").taint("own", "", "NoSchedule").build()])
            .start(),
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    println!(
        "two planes: {:.2} s; a: {}; b: {}",
        begin.elapsed().as_secs_f32(),
        a.start_times(),
        b.start_times()
    );
    assert_ne!(a.url(), b.url());
    assert_ne!(
        a.cluster_uid().await.unwrap(),
        b.cluster_uid().await.unwrap()
    );
    // Without a controller manager the nodes have their own taints only, and namespaces a service account.
    let nodes: Api<Node> = Api::all(b.admin());
    let taints = nodes.get("n").await.unwrap().spec.unwrap().taints.unwrap();
    assert_eq!(
        taints
            .iter()
            .map(|taint| taint.key.as_str())
            .collect::<Vec<_>>(),
        ["own"]
    );
    let namespace = b.namespace("plain").await.unwrap();
    let on_node = |name: &str| pod(name).node_name("n").build();
    let pods = namespace.api::<Pod>();
    pods.create(&PostParams::default(), &on_node("before"))
        .await
        .unwrap();
    wait_for(&pods, "before", |pod| phase(pod) == Some("Running"), LIMIT)
        .await
        .unwrap();
    // The certificate of one cluster is worth nothing in the other.
    assert!(
        a.admin_access()
            .via(b.url())
            .client()
            .unwrap()
            .apiserver_version()
            .await
            .is_err()
    );

    let applied = a
        .apply_yaml("apiVersion: testkit.pilotage.invalid/v1\nkind: Buoy\nmetadata: {name: red}\nspec: {x: 1}\n")
        .await
        .unwrap();
    assert_eq!(applied[0].namespace().as_deref(), Some("default"));
    let url = a.url().to_owned();
    a.kill(Part::ApiServer).await.unwrap();
    assert!(a.admin().apiserver_version().await.is_err());
    a.restart(Part::ApiServer).await.unwrap();
    assert_eq!(a.url(), url);
    let names = a.kubectl(&["get", "buoys", "-o", "name"]).await.unwrap();
    assert_eq!(names, "buoy.testkit.pilotage.invalid/red\n");

    // Everything that watches goes on where it was, also when the data store was away.
    for part in [Part::ApiServer, Part::Etcd] {
        b.kill(part).await.unwrap();
        b.restart(part).await.unwrap();
    }
    wait_for(&pods, "before", |pod| phase(pod) == Some("Running"), LIMIT)
        .await
        .unwrap();
    pods.create(&PostParams::default(), &on_node("after"))
        .await
        .unwrap();
    wait_for(&pods, "after", |pod| phase(pod) == Some("Running"), LIMIT)
        .await
        .unwrap();
    assert!(
        b.helm(&["list", "--all-namespaces"])
            .await
            .unwrap()
            .contains("NAMESPACE")
    );

    // A frozen server answers nobody until it goes on.
    a.signal(Part::ApiServer, Signal::Stop).await.unwrap();
    let admin = a.admin();
    let answer = tokio::time::timeout(Duration::from_millis(300), admin.apiserver_version()).await;
    assert!(answer.is_err());
    a.signal(Part::ApiServer, Signal::Continue).await.unwrap();
    assert_eq!(
        a.admin().apiserver_version().await.unwrap().git_version,
        "v1.36.3"
    );
    assert!(a.process(Part::Kwok).is_err());

    let writes = b.audit().unwrap().entries().await.unwrap();
    let mine = |verb: &str| {
        let here = writes.iter().filter(|e| e.namespace == namespace.name());
        here.filter(|e| e.verb == verb && e.full_resource() == "pods")
            .count()
    };
    assert_eq!((mine("create"), mine("watch"), mine("get")), (2, 0, 0));

    let begin = Instant::now();
    let directory = a.directory().to_owned();
    a.stop().await;
    println!("stopped in {:.2} s", begin.elapsed().as_secs_f32());
    assert!(directory.join("kube-apiserver.log").is_file());
    assert!(!directory.join("data").exists());
    let mut handles = Vec::new();
    for part in [Part::Etcd, Part::ApiServer, Part::Kwok] {
        let pids = b.process(part).unwrap().pids().await.unwrap();
        handles.extend([handle(pids.supervisor), handle(pids.child)]);
    }
    drop(b);
    all_end(handles, "plane dropped").await;
}

#[tokio::test]
async fn a_dropped_namespace_goes() {
    let plane = full().await;
    let namespace = plane.elected_namespace("short").await.unwrap();
    let name = namespace.name().to_owned();
    let namespaces: Api<Namespace> = Api::all(plane.admin());
    let labels = namespaces
        .get(&name)
        .await
        .unwrap()
        .metadata
        .labels
        .unwrap();
    assert_eq!(labels["multicluster-scheduler"], "enabled");
    drop(namespace);
    wait_gone(&namespaces, &name, LIMIT).await.unwrap();
}
