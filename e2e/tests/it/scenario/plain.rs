//! A target that runs plain Admiralty, played here: it writes what that writes, and nothing of what we added.
//!
//! Its controller makes the pod of each chaperon and copies the pod's status; its scheduler clears `is-reserved` at the
//! beginning of a cycle, sets it when a node is found, waits for `is-allowed`, and binds.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use pilotage_api::{GROUP, PodChaperon, keys, names};
use pilotage_e2e::fleet::{SOURCE_ACCOUNT, secret, target_object};
use pilotage_testkit::{ControlPlane, build, wait_for, wait_gone};
use serde_json::{Value, json};

use super::{LIMIT, Shop, elected, is_running, shared_fleet};

const NODE: &str = "plain-node";

/// What Admiralty gives a source in a target.
fn role(namespace: &str) -> [Value; 2] {
    let name = format!("source-of-{namespace}");
    let subject =
        json!({ "kind": "ServiceAccount", "name": SOURCE_ACCOUNT, "namespace": namespace });
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name },
            "rules": [
                { "apiGroups": [GROUP], "resources": ["podchaperons"], "verbs": ["*"] },
                { "apiGroups": [GROUP], "resources": ["clustersummaries"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] },
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [subject],
        }),
    ]
}

/// The controller's and the scheduler's work for one change of a chaperon.
async fn serve(client: &Client, chaperon: &PodChaperon) -> Result<(), kube::Error> {
    let namespace = chaperon.namespace().unwrap_or_default();
    let name = chaperon.name_any();
    let chaperons: Api<PodChaperon> = Api::namespaced(client.clone(), &namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    if chaperon.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let Some(pod) = pods.get_opt(&name).await? else {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": chaperon.metadata.labels,
                "ownerReferences": [chaperon.controller_owner_ref(&())],
            },
            "spec": chaperon.spec,
        });
        let pod: Pod = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
        pods.create(&PostParams::default(), &pod).await?;
        // PreFilter, then Reserve.
        for reserved in [Value::Null, keys::TRUE.into()] {
            let patch = json!({ "metadata": { "annotations": { keys::IS_RESERVED: reserved } } });
            let patch = Patch::Merge(patch);
            chaperons
                .patch(&name, &PatchParams::default(), &patch)
                .await?;
        }
        return Ok(());
    };
    let allowed = chaperon.annotations().get(keys::IS_ALLOWED);
    let bound = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    if allowed.is_some_and(|value| value == keys::TRUE) && !bound {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
        });
        let params = PostParams::default();
        pods.create_subresource::<_, Value>("binding", &name, &params, &binding)
            .await?;
    }
    Ok(())
}

/// Copies statuses of pods to the chaperons of their names.
async fn copy_back(client: Client, namespace: String) {
    let chaperons: Api<PodChaperon> = Api::namespaced(client.clone(), &namespace);
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let mut seen = watcher(pods, watcher::Config::default())
        .applied_objects()
        .boxed();
    while let Ok(Some(pod)) = seen.try_next().await {
        let patch = Patch::Merge(json!({ "status": pod.status }));
        let _ = chaperons
            .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
            .await;
    }
}

/// Plays the target until the test ends.
fn play(plane: &ControlPlane, namespace: &str) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    let (client, namespace) = (plane.admin(), namespace.to_owned());
    tasks.spawn(copy_back(client.clone(), namespace.clone()));
    tasks.spawn(async move {
        let chaperons: Api<PodChaperon> = Api::namespaced(client.clone(), &namespace);
        let mut seen = watcher(chaperons, watcher::Config::default())
            .applied_objects()
            .boxed();
        while let Ok(Some(chaperon)) = seen.try_next().await {
            if let Err(error) = serve(&client, &chaperon).await {
                println!("plain target: {error}");
            }
        }
    });
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_runs_plain_admiralty_takes_pods_and_gives_them_back() {
    let shop = Shop::unconnected(shared_fleet().await, "plain").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let plane = ControlPlane::builder("plain")
        .controller_manager()
        .kwok([build::node(NODE).cpu("4").memory("16Gi").pods(110).build()])
        .start()
        .await
        .unwrap();
    let _namespace = plane
        .named_namespace(&shop.name, std::collections::BTreeMap::new())
        .await
        .unwrap();
    plane
        .service_account(&shop.name, SOURCE_ACCOUNT)
        .await
        .unwrap();
    for object in role(&shop.name) {
        plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let kubeconfig = plane
        .kubeconfig_for_service_account(&shop.name, SOURCE_ACCOUNT)
        .await
        .unwrap();
    for object in [
        secret("plain", &shop.name, &kubeconfig),
        target_object("plain", &shop.name),
    ] {
        let source = &shop.fleet.source.plane;
        source.apply_yaml(&object.to_string()).await.unwrap();
    }
    shop.fleet
        .source
        .connected("plain", &shop.name)
        .await
        .unwrap();
    let _played = play(&plane, &shop.name);

    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let uid = proxy.metadata.uid.clone().unwrap();
    let chaperons: Api<PodChaperon> = Api::namespaced(plane.admin(), &shop.name);
    let delegates: Api<Pod> = Api::namespaced(plane.admin(), &shop.name);
    let chaperon = chaperons
        .get(&names::chaperon(&shop.name, "web", &uid))
        .await
        .unwrap();
    let record = format!(
        "{}/{}/-",
        shop.virtual_node("plain"),
        chaperon.metadata.uid.as_ref().unwrap()
    );
    assert_eq!(proxy.annotations()[keys::GRANTED_TO], record);
    assert!(
        chaperon.finalizers().is_empty(),
        "nobody there would take it off"
    );

    // The proxy's end waits for its delegate's, which only a list of pods proves there.
    shop.delete("web").await;
    let left = delegates.list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "the delegate went first");
    wait_gone(&chaperons, &chaperon.name_any(), LIMIT)
        .await
        .unwrap();

    // A delegate that goes by itself takes its proxy along.
    shop.create(&elected("job", "100m")).await;
    let proxy = shop.running("job").await;
    let name = names::chaperon(&shop.name, "job", proxy.metadata.uid.as_deref().unwrap());
    wait_for(&delegates, &name, is_running, LIMIT)
        .await
        .unwrap();
    chaperons
        .delete(&name, &kube::api::DeleteParams::foreground())
        .await
        .unwrap();
    wait_gone(&shop.pods(), "job", LIMIT).await.unwrap();
    plane.stop().await;
}
