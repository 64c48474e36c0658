//! Objects of both clusters as Admiralty 0.17 leaves them.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pilotage_api::{GROUP, PodChaperon, VERSION, keys, names};
use pilotage_e2e::fleet::{Fleet, SOURCE_ACCOUNT, secret, target_object};
use pilotage_testkit::{ControlPlane, wait_for};
use serde_json::{Value, json};

use super::super::{LIMIT, is_running};

/// A name as an API server makes it up from `web-`.
pub(super) const CHAPERON: &str = "web-x7k2p";
pub(super) const NODE: &str = "near-0";

pub(super) async fn apply(plane: &ControlPlane, object: &Value) {
    plane.apply_yaml(&object.to_string()).await.unwrap();
}

pub(super) async fn bind(pods: &Api<Pod>, name: &str, node: &str) {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let params = PostParams::default();
    pods.create_subresource::<_, Value>("binding", name, &params, &binding)
        .await
        .unwrap();
}

/// The virtual node of the Target `near`, with the labels that Admiralty gives it.
pub(super) fn virtual_node(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": names::virtual_node(Some(namespace), "near"),
            "labels": {
                "type": "virtual-kubelet",
                "kubernetes.io/role": "cluster",
                "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
                "node.kubernetes.io/exclude-from-external-load-balancers": "true",
                "virtual-kubelet.io/provider": "admiralty",
                format!("{}target-namespace", keys::PREFIX): namespace,
                format!("{}target-name", keys::PREFIX): "near",
            },
        },
        "spec": {
            "taints": [{ "key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule" }],
        },
    })
}

/// Of a pod that uses the ConfigMap `settings` and the Secret `key`, or no object.
pub(super) fn containers(settings: bool) -> Value {
    let mut container = json!({ "name": "main", "image": "example.invalid/web" });
    if settings {
        container["envFrom"] =
            json!([{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "key" } }]);
    }
    json!([container])
}

/// A proxy pod as Admiralty's webhook makes it.
pub(super) fn proxy(namespace: &str, name: &str, finalizers: &[String], settings: bool) -> Pod {
    let containers = containers(settings);
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { "app": "web" },
            "annotations": { keys::ELECT: "" },
        },
        "spec": { "containers": containers },
    });
    let pod = json!({
        "metadata": {
            "name": name,
            "labels": { "app": "web", keys::HAS_FINALIZER: "true" },
            "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: manifest.to_string() },
            "finalizers": finalizers,
        },
        "spec": {
            "containers": containers,
            "nodeSelector": { "virtual-kubelet.io/provider": "admiralty" },
            "tolerations": [{ "key": "virtual-kubelet.io/provider", "value": "admiralty" }],
            "schedulerName": keys::PROXY_SCHEDULER,
            "terminationGracePeriodSeconds": 0,
        },
    });
    serde_json::from_value(pod).unwrap()
}

/// Labels and annotations by which an object of the target names its parent.
pub(super) fn link(name: &str, namespace: &str, uid: &str) -> Value {
    json!({
        "labels": { keys::PARENT_UID: uid, keys::PARENT_CLUSTER_NAME: "" },
        "annotations": { keys::PARENT_NAME: name, keys::PARENT_NAMESPACE: namespace },
    })
}

/// What Admiralty leaves in a namespace of both clusters.
pub(super) struct Left<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) namespace: &'a str,
}

impl Left<'_> {
    pub(super) fn source(&self) -> &ControlPlane {
        &self.fleet.source.plane
    }

    /// The cluster of the target; the source, if that is its own one.
    pub(super) fn near(&self) -> &ControlPlane {
        let near = self.fleet.target("near");
        near.map_or(self.source(), |near| &near.plane)
    }

    pub(super) fn proxies(&self) -> Api<Pod> {
        Api::namespaced(self.source().admin(), self.namespace)
    }

    pub(super) fn finalizer(&self) -> String {
        names::target_finalizer(Some(self.namespace), "near")
    }

    /// The Target `near` with its virtual node, and its Source; returns the Secret that it names.
    pub(super) async fn target(&self) -> Value {
        let (target, namespace) = (self.near(), self.namespace);
        target
            .service_account(namespace, SOURCE_ACCOUNT)
            .await
            .unwrap();
        let access = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Source",
            "metadata": { "name": SOURCE_ACCOUNT, "namespace": namespace },
            "spec": { "serviceAccountName": SOURCE_ACCOUNT },
        });
        apply(target, &access).await;
        let kubeconfig = target
            .kubeconfig_for_service_account(namespace, SOURCE_ACCOUNT)
            .await
            .unwrap();
        apply(self.source(), &target_object("near", namespace)).await;
        apply(self.source(), &virtual_node(namespace)).await;
        secret("near", namespace, &kubeconfig)
    }

    /// An object that follows pods, and its copy, which has these annotations besides and is returned.
    pub(super) async fn follows(&self, mut object: Value, marks: &Value) -> DynamicObject {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["namespace"] = json!(self.namespace);
        object["metadata"]["labels"] = json!({ keys::HAS_FINALIZER: "true" });
        object["metadata"]["finalizers"] = json!([self.finalizer()]);
        let made = self.source().apply_yaml(&object.to_string()).await.unwrap();
        let uid = made[0].uid().unwrap();
        let mut meta = link(name.as_str().unwrap(), self.namespace, &uid);
        meta["name"] = name;
        meta["namespace"] = json!(self.namespace);
        for (key, value) in marks.as_object().unwrap() {
            meta["annotations"][key] = value.clone();
        }
        object["metadata"] = meta;
        let made = self.near().apply_yaml(&object.to_string()).await.unwrap();
        made.into_iter().next().unwrap()
    }

    /// What the pod `web` uses, and what leads to it: a ConfigMap, a Secret, a Service and an Ingress, as copied.
    pub(super) async fn all_that_follows(&self) -> [DynamicObject; 4] {
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
            "data": { "greeting": "hello" },
        });
        let settings = self.follows(settings, &json!({})).await;
        let key = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
            "stringData": { "k": "swordfish" },
        });
        let key = self.follows(key, &json!({})).await;
        let marks = json!({ keys::GLOBAL: "true", keys::IS_DELEGATE: "" });
        let app = format!("{}app", keys::PREFIX);
        let web = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "annotations": {
                keys::GLOBAL: "true", keys::ORIGINAL_SELECTOR: "app=web", "io.cilium/global-service": "true",
            } },
            "spec": { "selector": { app: "web" }, "ports": [{ "port": 80 }] },
        });
        let web = self.follows(web, &marks).await;
        let front = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": "front", "annotations": { keys::GLOBAL: "true" } },
            "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } },
        });
        let front = self.follows(front, &marks).await;
        [settings, key, web, front]
    }

    /// A ConfigMap that no pod uses any more, and what Admiralty copied to its name: it, or that of another source.
    pub(super) async fn unused(&self, name: &str, is_its_copy: bool) {
        let namespace = self.namespace;
        let mut map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace },
            "data": { "greeting": "hello" },
        });
        apply(self.source(), &map).await;
        let maps: Api<ConfigMap> = Api::namespaced(self.source().admin(), namespace);
        let uid = maps.get(name).await.unwrap().uid().unwrap();
        let uid = if is_its_copy { &*uid } else { "somebody-elses" };
        map["metadata"] = link(name, namespace, uid);
        map["metadata"]["name"] = json!(name);
        map["metadata"]["namespace"] = json!(namespace);
        apply(self.near(), &map).await;
    }

    /// A proxy pod, on the virtual node of `near` if it is placed.
    pub(super) async fn proxy(
        &self,
        name: &str,
        finalizers: &[String],
        target: Option<&str>,
    ) -> Pod {
        let proxies = self.proxies();
        let pod = proxy(self.namespace, name, finalizers, name == "web");
        let made = proxies.create(&PostParams::default(), &pod).await.unwrap();
        if let Some(target) = target {
            let node = names::virtual_node(Some(self.namespace), target);
            bind(&proxies, name, &node).await;
        }
        made
    }

    /// The chaperon of a proxy that was granted, and its delegate, which runs; both have this name.
    pub(super) async fn delegate(&self, proxy: &Pod, name: &str) -> Pod {
        let (target, namespace) = (self.near(), self.namespace);
        let parent = proxy.name_any();
        let mut chaperon = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "PodChaperon",
            "metadata": link(&parent, namespace, &proxy.uid().unwrap()),
            "spec": {
                "containers": containers(parent == "web"),
                "schedulerName": keys::CANDIDATE_SCHEDULER,
            },
        });
        chaperon["metadata"]["name"] = json!(name);
        chaperon["metadata"]["namespace"] = json!(namespace);
        chaperon["metadata"]["labels"][format!("{}app", keys::PREFIX)] = json!("web");
        chaperon["metadata"]["annotations"][keys::IS_RESERVED] = json!("true");
        chaperon["metadata"]["annotations"][keys::IS_ALLOWED] = json!("true");
        apply(target, &chaperon).await;
        let chaperons: Api<PodChaperon> = Api::namespaced(target.admin(), namespace);
        let uid = chaperons.get(name).await.unwrap().uid().unwrap();
        let delegate = json!({
            "metadata": {
                "name": name,
                "labels": chaperon["metadata"]["labels"],
                "annotations": {},
                "ownerReferences": [{
                    "apiVersion": format!("{GROUP}/{VERSION}"),
                    "kind": "PodChaperon",
                    "name": name,
                    "uid": uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": chaperon["spec"],
        });
        let delegate: Pod = serde_json::from_value(delegate).unwrap();
        let delegates: Api<Pod> = Api::namespaced(target.admin(), namespace);
        delegates
            .create(&PostParams::default(), &delegate)
            .await
            .unwrap();
        bind(&delegates, name, NODE).await;
        let delegate = wait_for(&delegates, name, is_running, LIMIT).await.unwrap();
        let status = Patch::Merge(json!({ "status": delegate.status }));
        let params = PatchParams::default();
        chaperons
            .patch_status(name, &params, &status)
            .await
            .unwrap();
        delegate
    }

    /// A proxy on the virtual node of `near` with a delegate that runs, whose status it has.
    pub(super) async fn running(
        &self,
        name: &str,
        finalizers: &[String],
        delegate: &str,
    ) -> (Pod, Pod) {
        let proxy = self.proxy(name, finalizers, Some("near")).await;
        let delegate = self.delegate(&proxy, delegate).await;
        let status = Patch::Merge(json!({ "status": delegate.status }));
        let (proxies, params) = (self.proxies(), PatchParams::default());
        let patched = proxies.patch_status(name, &params, &status).await;
        (patched.unwrap(), delegate)
    }
}
