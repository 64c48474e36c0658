//! `pilotage uninstall` on a real control plane: what `install` made goes, pods stay, and nothing goes while pods need
//! it.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use pilotage_e2e::fleet::{Side, lone};
use pilotage_testkit::{ControlPlane, build};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::user::User;

/// How many there are whose name has this in it.
async fn count<K>(api: &Api<K>, name: &str) -> usize
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let all = api.list(&ListParams::default()).await.unwrap();
    let named = all.iter().filter(|it| it.name_any().contains(name));
    named.count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_installed_goes_unless_pods_need_it() {
    let bare = ControlPlane::builder("leaving")
        .no_crds()
        .controller_manager();
    let cluster = lone(bare, Side::Source).await.unwrap();
    let plane = &cluster.plane;
    let user = User::new(plane, plane);
    let client = plane.admin();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "ships");
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let uninstall = async |more: &[&str]| {
        let words = [&["uninstall", "--namespace", "ships"][..], more].concat();
        user.run(&words).await
    };
    let nothing = "nothing is here that \"kubectl pilotage install\" made in namespace ships";

    let (code, out, err) = uninstall(&[]).await;
    assert!(code == 0 && out.starts_with(nothing), "{out}{err}");
    let install = [
        "install",
        "--image",
        "registry.example/pilotage:1",
        "--namespace",
        "ships",
        "--timeout",
        "0s",
    ];
    let (code, _, err) = user.run(&install).await;
    assert_eq!(code, 0, "{err}");
    // As the webhook does.
    let configuration = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, \
                         metadata: {name: zz-pilotage}}";
    plane.apply_yaml(configuration).await.unwrap();

    // Who may not do it all does nothing.
    let stranger = plane.user_access("stranger", None).unwrap();
    let file = plane.directory().join("stranger.kubeconfig");
    stranger.write(&file).unwrap();
    let limited = User {
        source: file.clone(),
        target: file,
        plugin: user.plugin.clone(),
    };
    let words = ["uninstall", "--namespace", "ships"];
    limited.fails(&words, 4, &["you may not get "]).await;
    let said = ["belongs to Pilotage in namespace ships"];
    user.fails(&["uninstall"], 4, &said).await;
    let both = ["uninstall", "--leave-pods", "--with-definitions"];
    user.fails(&both, 2, &["try '--help'"]).await;

    let (code, out, err) = uninstall(&["--dry-run"]).await;
    assert_eq!(code, 0, "{err}");
    let line = |what: &str| {
        let at = out.find(&format!("{what}: would be deleted\n"));
        at.unwrap_or_else(|| panic!("{what} in {out}"))
    };
    let webhook = line("Deployment ships/pilotage-webhook");
    assert!(line("ClusterRoleBinding pilotage-webhook") < webhook);
    assert!(webhook < line("ServiceAccount ships/pilotage-webhook"));
    assert!(!out.contains("CustomResourceDefinition"), "{out}");

    // A proxy pod whose delegate runs.
    let node = json!({
        "metadata": { "name": "admiralty-gone", "labels": { "virtual-kubelet.io/provider": "admiralty" } }
    });
    let node: Node = serde_json::from_value(node).unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let mut proxy = build::pod("web")
        .scheduler("admiralty-proxy")
        .node_name("admiralty-gone")
        .build();
    let ours = "multicluster.admiralty.io/delegate_gone";
    proxy.metadata.finalizers = Some(vec![ours.to_owned()]);
    let proxy = pods.create(&PostParams::default(), &proxy).await.unwrap();
    for more in [&[][..], &["--with-definitions"]] {
        let words = [&["uninstall", "--namespace", "ships"][..], more].concat();
        let said = ["1 pod runs elsewhere for this cluster", "--leave-pods"];
        user.fails(&words, 4, &said).await;
    }
    let (code, out, err) = uninstall(&["--dry-run"]).await;
    assert!(code == 4 && out.contains("would be deleted"), "{out}{err}");
    assert_eq!(count(&deployments, "pilotage").await, 4);
    assert_eq!(count(&configurations, "zz-pilotage").await, 1);

    // Somebody else's from now on.
    let theirs =
        json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "somebody" } } });
    let params = PatchParams::default();
    classes
        .patch("pilotage", &params, &Patch::Merge(theirs))
        .await
        .unwrap();
    let (code, out, err) = uninstall(&["--leave-pods"]).await;
    assert_eq!(code, 0, "{out}{err}");
    for line in [
        "mutatingwebhookconfigurations/zz-pilotage: deleted\n",
        "uninstalled: Pilotage is gone; namespace ships stays, and so do the definitions",
        "1 virtual node(s) are left",
        " delete nodes --selector virtual-kubelet.io/provider=admiralty\n",
    ] {
        assert!(out.contains(line), "{line} in {out}");
    }
    let stays = "PriorityClass pilotage stays: \"install\" didn't make it";
    assert!(err.contains(stays), "{err}");
    assert_eq!(count(&deployments, "").await, 0);
    assert_eq!(count(&bindings, "pilotage").await, 0);
    assert_eq!(count(&configurations, "").await, 0);
    assert_eq!(count(&classes, "pilotage").await, 1);
    assert_eq!(count(&definitions, "admiralty").await, 6);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(count(&namespaces, "ships").await, 1);
    let left = pods.get("web").await.unwrap();
    assert_eq!(left.uid(), proxy.uid());
    assert_eq!(
        (left.metadata.deletion_timestamp, left.metadata.finalizers),
        (None, None)
    );

    // Nothing is left to do; and then the kinds, of which one has an object that only Pilotage would let go.
    let (code, out, err) = uninstall(&["--leave-pods"]).await;
    assert!(code == 0 && out.starts_with(nothing), "{out}{err}");
    let now = DeleteParams::default().grace_period(0);
    pods.delete("web", &now).await.unwrap();
    let target = "{apiVersion: multicluster.admiralty.io/v1alpha1, kind: Target, metadata: {name: paris, namespace: \
        default, finalizers: [multicluster.admiralty.io/virtual_node_gone]}, spec: {self: true}}";
    plane.apply_yaml(target).await.unwrap();
    for want in [
        "uninstalled: Pilotage is gone; namespace ships stays\n",
        nothing,
    ] {
        let (code, out, err) = uninstall(&["--with-definitions"]).await;
        assert!(code == 0 && out.contains(want), "{out}{err}");
    }
    assert_eq!(count(&definitions, "admiralty").await, 0);
}
