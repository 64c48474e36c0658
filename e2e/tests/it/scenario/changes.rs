//! What a running proxy pod changes reaches its delegate, what becomes of it comes back, and what the target refuses is
//! told.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::{PodChaperon, keys};
use pilotage_testkit::{build, list_until, wait_admission, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Shop};

fn ephemeral(pod: &Pod) -> Vec<&str> {
    let spec = pod.spec.as_ref().unwrap();
    let all = spec.ephemeral_containers.iter().flatten();
    all.map(|container| &*container.name).collect()
}

fn cpu(pod: &Pod) -> Option<&str> {
    let resources = pod.spec.as_ref()?.containers.first()?.resources.as_ref()?;
    Some(&resources.requests.as_ref()?.get("cpu")?.0)
}

fn has_condition(pod: &Pod, type_: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|it| it.type_ == type_))
}

async fn patch(pods: &Api<Pod>, subresource: &str, name: &str, body: &Value) {
    let (params, body) = (PatchParams::default(), Patch::Strategic(body));
    pods.patch_subresource(subresource, name, &params, &body)
        .await
        .unwrap();
}

/// Says of the pod what a kubelet says that can resize: which amounts its container has.
async fn say_amounts(pods: &Api<Pod>, name: &str, cpu: &str) {
    let pod = pods.get(name).await.unwrap();
    let status = pod.status.unwrap().container_statuses.unwrap();
    let mut status = serde_json::to_value(status).unwrap();
    status[0]["resources"] = json!({ "requests": { "cpu": cpu } });
    let status = json!({ "status": { "containerStatuses": status } });
    patch(pods, "status", name, &status).await;
}

/// The amount that a kubelet says.
fn said_cpu(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let requests = status.resources.as_ref()?.requests.as_ref()?;
    Some(&requests.get("cpu")?.0)
}

async fn chaperon(shop: &Shop, target: &str, proxy: &Pod) -> Option<PodChaperon> {
    let of_pod = format!(
        "{}={}",
        keys::PARENT_UID,
        proxy.metadata.uid.as_ref().unwrap()
    );
    let all = ListParams::default().labels(&of_pod);
    let all = shop.chaperons_in(target).list(&all).await.unwrap();
    all.items.into_iter().next()
}

async fn generation(shop: &Shop, target: &str, proxy: &Pod) -> Option<i64> {
    chaperon(shop, target, proxy).await?.metadata.generation
}

/// Waits until the target has done what this generation of the chaperon asks for.
async fn applied(shop: &Shop, target: &str, proxy: &Pod, generation: i64) {
    let name = chaperon(shop, target, proxy).await.unwrap().name_any();
    let is_applied = |chaperon: &PodChaperon| {
        let applied = chaperon.annotations().get(keys::APPLIED_GENERATION);
        applied == Some(&generation.to_string())
    };
    let waited = wait_for(&shop.chaperons_in(target), &name, is_applied, LIMIT).await;
    if let Err(error) = waited {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
}

/// Waits for an event `ChangeRefused` that says this.
async fn refused(shop: &Shop, why: &str) {
    let events: Api<Event> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let told = |event: &Event| {
        let note = event.note.as_deref().unwrap_or_default();
        event.reason.as_deref() == Some("ChangeRefused") && note.contains(why)
    };
    let all = watcher::Config::default();
    let seen = list_until(&events, all, |events| events.values().any(told), LIMIT).await;
    if let Err(error) = seen {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
}

async fn until(shop: &Shop, pods: &Api<Pod>, name: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    match wait_for(pods, name, holds, LIMIT).await {
        Ok(pod) => pod,
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_containers_and_amounts_reach_the_delegate_and_refusals_are_told() {
    let shop = Shop::open("changes").await;
    let pod = build::pod("web").elect().request("cpu", "100m").build();
    shop.create(&pod).await;
    let proxy = shop.running("web").await;
    let (target, delegate) = shop.delegate(&proxy).await;
    let (there, name) = (shop.pods_in(target), delegate.metadata.name.unwrap());
    let container = &proxy.spec.as_ref().unwrap().containers[0].name;
    // Proxy and chaperon are alike before anybody changes something.
    assert_eq!(generation(&shop, target, &proxy).await, Some(1));

    // As users do it; nothing is attached to, since nobody runs it here.
    let source = &shop.fleet.source.plane;
    let (namespace, aims_at) = (
        format!("--namespace={}", shop.name),
        format!("--target={container}"),
    );
    let debug = [
        "debug",
        "web",
        &namespace,
        "--image=busybox",
        &aims_at,
        "--container=shell",
        "--attach=false",
    ];
    source.kubectl(&debug).await.unwrap();
    until(&shop, &there, &name, |pod| ephemeral(pod) == ["shell"]).await;
    // The test is its kubelet.
    let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    let status = json!({ "status": { "ephemeralContainerStatuses": [{
        "name": "shell", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    }] } });
    patch(&there, "status", &name, &status).await;
    let runs = |pod: &Pod| {
        let status = pod
            .status
            .as_ref()
            .and_then(|it| it.ephemeral_container_statuses.as_ref());
        let state = status.and_then(|all| all.first()?.state.as_ref());
        state.is_some_and(|state| state.running.is_some())
    };
    until(&shop, &shop.pods(), "web", runs).await;

    // In both clusters the API server takes a resize only where the kubelet says what the container has.
    say_amounts(&there, &name, "100m").await;
    let can_resize = |pod: &Pod| said_cpu(pod) == Some("100m");
    until(&shop, &shop.pods(), "web", can_resize).await;
    let amounts = |cpu: &str| {
        let resources = json!({ "requests": { "cpu": cpu } });
        json!({ "spec": { "containers": [{ "name": container, "resources": resources }] } })
    };
    patch(&shop.pods(), "resize", "web", &amounts("200m")).await;
    until(&shop, &there, &name, |pod| cpu(pod) == Some("200m")).await;
    let waits = json!({ "type": "PodResizePending", "status": "True", "reason": "Deferred" });
    patch(
        &there,
        "status",
        &name,
        &json!({ "status": { "conditions": [waits] } }),
    )
    .await;
    let pending = |pod: &Pod| has_condition(pod, "PodResizePending");
    until(&shop, &shop.pods(), "web", pending).await;
    let done =
        json!({ "status": { "conditions": [{ "type": "PodResizePending", "$patch": "delete" }] } });
    patch(&there, "status", &name, &done).await;
    until(&shop, &shop.pods(), "web", |pod| !pending(pod)).await;

    // A quota of the target that leaves no room for more.
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "cpu", "namespace": shop.name },
        "spec": { "hard": { "requests.cpu": "250m" } },
    });
    let plane = &shop.target(target).plane;
    plane.apply_yaml(&quota.to_string()).await.unwrap();
    let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> =
        Api::namespaced(plane.admin(), &shop.name);
    let counted = |it: &k8s_openapi::api::core::v1::ResourceQuota| {
        let status = it.status.as_ref().and_then(|status| status.used.as_ref());
        status.is_some_and(|used| used.contains_key("requests.cpu"))
    };
    wait_for(&quotas, "cpu", counted, LIMIT).await.unwrap();
    // Admission knows quotas by a watch of its own.
    let probe = build::pod("probe").request("cpu", "100m").build();
    wait_admission(&there, &probe, Result::is_err, LIMIT)
        .await
        .unwrap();
    patch(&shop.pods(), "resize", "web", &amounts("300m")).await;
    refused(&shop, "exceeded quota").await;
    assert_eq!(cpu(&there.get(&name).await.unwrap()), Some("200m"));
    // Once each: the container and the amounts that were taken, and those that weren't.
    assert_eq!(generation(&shop, target, &proxy).await, Some(4));

    // With room the next one is taken.
    quotas
        .delete("cpu", &DeleteParams::default())
        .await
        .unwrap();
    wait_admission(&there, &probe, Result::is_ok, LIMIT)
        .await
        .unwrap();
    patch(&shop.pods(), "resize", "web", &amounts("400m")).await;
    until(&shop, &there, &name, |pod| cpu(pod) == Some("400m")).await;
    applied(&shop, target, &proxy, 5).await;

    // What somebody in the target resizes stays so when only a debug container is new.
    patch(&there, "resize", &name, &amounts("350m")).await;
    let another = |name: &str, variables: usize| {
        let variable = |n: usize| json!({ "name": format!("V{n}"), "value": "x" });
        let variables: Vec<_> = (0..variables).map(variable).collect();
        let container = json!({ "name": name, "image": "busybox", "env": variables });
        json!({ "spec": { "ephemeralContainers": [container] } })
    };
    let debug = another("again", 0);
    patch(&shop.pods(), "ephemeralcontainers", "web", &debug).await;
    applied(&shop, target, &proxy, 6).await;
    let pod = there.get(&name).await.unwrap();
    // An API server puts what a patch adds to this list first.
    assert_eq!(ephemeral(&pod), ["again", "shell"]);
    assert_eq!(cpu(&pod), Some("350m"));

    // One that would make the chaperon too heavy to be watched stays at home, and the pod still ends.
    let heavy = another("heavy", 9000);
    patch(&shop.pods(), "ephemeralcontainers", "web", &heavy).await;
    refused(&shop, "its PodChaperon would take").await;
    assert_eq!(generation(&shop, target, &proxy).await, Some(6));
    shop.delete("web").await;
    assert!(there.get_opt(&name).await.unwrap().is_none());
}
