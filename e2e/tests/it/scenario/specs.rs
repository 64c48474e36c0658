//! What a pod's spec may say, on its way to the delegate: gates, classes, accounts, kinds of containers, and whom its
//! constraints and its labels speak to.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::target_object;
use pilotage_testkit::{build, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Shop, TARGETS, elected, node_of, scheduled, shared_fleet};

/// Start of the name of the volume that a service account's token comes in.
const TOKEN: &str = "kube-api-access-";

/// Names of the volumes with tokens.
fn tokens(pod: &Pod) -> Vec<&str> {
    let volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
    let names = volumes.map(|volume| &*volume.name);
    names.filter(|name| name.starts_with(TOKEN)).collect()
}

fn pod(object: Value) -> Pod {
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_pod_with_all_kinds_of_containers_runs_as_its_author_meant_it() {
    let shop = Shop::open("specs").await;
    let class = |value: i32| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": shop.name }, "value": value,
        })
    };
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "robot", "namespace": shop.name },
    });
    for cluster in shop.fleet.all() {
        // The class is called the same, and means something else.
        let value = if cluster.name() == "source" { 7 } else { 9 };
        for object in [&class(value), &account] {
            cluster.plane.apply_yaml(&object.to_string()).await.unwrap();
        }
    }
    let gated = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web",
            "labels": { "app": "web", "team": "blue", "app.kubernetes.io/part-of": "shop" },
            "annotations": { keys::ELECT: "", keys::NO_PREFIX_LABEL_REGEXP: "^team=", "example.com/note": "x" },
        },
        "spec": {
            "schedulingGates": [{ "name": "example.com/wait" }],
            "priorityClassName": shop.name,
            "serviceAccountName": "robot",
            "resources": { "requests": { "cpu": "300m", "memory": "64Mi" } },
            "initContainers": [
                { "name": "first", "image": "i" },
                { "name": "sidecar", "image": "i", "restartPolicy": "Always" },
            ],
            "containers": [{ "name": "main", "image": "i", "resources": { "requests": { "cpu": "100m" } } }],
        },
    });
    shop.create(&pod(gated)).await;
    // A later pod runs: this one was seen, and nobody was asked for it.
    shop.create(&elected("later", "50m")).await;
    shop.running("later").await;
    let web = shop.pods().get("web").await.unwrap();
    assert_eq!(scheduled(&web).unwrap().1, "SchedulingGated");
    let of_web =
        ListParams::default().labels(&format!("{}={}", keys::PARENT_UID, web.uid().unwrap()));
    for target in TARGETS {
        let asked = shop.chaperons_in(target).list(&of_web).await.unwrap();
        assert_eq!(asked.items.len(), 0, "{target}");
    }

    let open = Patch::Merge(json!({ "spec": { "schedulingGates": [] } }));
    let pods = shop.pods();
    pods.patch("web", &PatchParams::default(), &open)
        .await
        .unwrap();
    let proxy = shop.running("web").await;
    let (_, delegate) = shop.delegate(&proxy).await;
    let spec = delegate.spec.as_ref().unwrap();
    assert!(spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty));
    assert_eq!(spec.priority_class_name.as_ref(), Some(&shop.name));
    let priority = |pod: &Pod| pod.spec.as_ref().unwrap().priority;
    assert_eq!((priority(&proxy), priority(&delegate)), (Some(7), Some(9)));
    let amounts = spec.resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!(amounts["cpu"].0, "300m");
    // Each cluster gives a token of its own.
    assert_eq!(spec.service_account_name.as_deref(), Some("robot"));
    let (here, there) = (tokens(&proxy), tokens(&delegate));
    assert_eq!((here.len(), there.len()), (1, 1));
    assert_ne!(here, there);
    let init = spec.init_containers.iter().flatten();
    for container in init.clone().chain(&spec.containers) {
        let mounts = container.volume_mounts.iter().flatten();
        let mounts: Vec<_> = mounts.map(|mount| &*mount.name).collect();
        assert_eq!(mounts, there, "{}", container.name);
    }
    let kinds = init.map(|it| (&*it.name, it.restart_policy.as_deref()));
    let wanted = [("first", None), ("sidecar", Some("Always"))];
    assert_eq!(kinds.collect::<Vec<_>>(), wanted);
    let statuses = proxy.status.as_ref().unwrap();
    let statuses = statuses.init_container_statuses.iter().flatten();
    let states = statuses.map(|it| {
        let state = it.state.as_ref().unwrap();
        (
            &*it.name,
            state.running.is_some(),
            state.terminated.is_some(),
        )
    });
    let wanted = [("first", false, true), ("sidecar", true, false)];
    assert_eq!(states.collect::<Vec<_>>(), wanted);

    let label = |key: &str| delegate.labels().get(key).map(String::as_str);
    let ours = |key: &str| label(&format!("{}{key}", keys::PREFIX));
    assert_eq!((label("team"), ours("team")), (Some("blue"), None));
    assert_eq!((label("app"), ours("app")), (None, Some("web")));
    assert_eq!(ours("part-of"), Some("shop"));
    assert_eq!(delegate.annotations()["example.com/note"], "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn constraints_speak_of_targets_of_nodes_or_of_both() {
    let shop = Shop::unconnected(shared_fleet().await, "constraints").await;
    // Pods in the west have their labels as they are, too.
    let targets: Api<Target> = shop.of("source");
    let mut west = target_object("west", &shop.name);
    west["metadata"]["annotations"] = json!({ keys::KEEP_LABELS: "true" });
    let west = serde_json::from_value(west).unwrap();
    targets.create(&PostParams::default(), &west).await.unwrap();
    shop.fleet.connect(&shop.name).await.unwrap();
    let in_west = format!("nodeSelector: {{{}: west}}", keys::TARGET_NAME);
    let host = "kubernetes.io/hostname";
    let there = build::pod("both").elect().request("cpu", "50m");
    let there = there.annotation(keys::PROXY_CONSTRAINTS, in_west.clone());
    let there = there.node_selector(host, "west-2");
    let own = build::pod("own").elect().request("cpu", "50m");
    let own = own.annotation(keys::USE_OWN_CONSTRAINTS, "");
    let own = own.node_selector(keys::TARGET_NAME, "north");
    // The annotation with constraints goes first, and the spec speaks of nodes then.
    let mixed = build::pod("mixed").elect().request("cpu", "50m");
    let mixed = mixed.annotation(keys::USE_OWN_CONSTRAINTS, "");
    let mixed = mixed.annotation(keys::PROXY_CONSTRAINTS, in_west);
    let mixed = mixed.node_selector(host, "west-3");
    for pod in [there, own, mixed].map(|pod| pod.label("app", "web")) {
        shop.create(&pod.build()).await;
    }
    for (name, target, node) in [
        ("both", "west", Some("west-2")),
        ("own", "north", None),
        ("mixed", "west", Some("west-3")),
    ] {
        let proxy = shop.running(name).await;
        let (chosen, delegate) = shop.delegate(&proxy).await;
        assert_eq!(chosen, target, "{name}");
        let selector = delegate.spec.as_ref().unwrap().node_selector.as_ref();
        assert_eq!(
            selector.and_then(|it| it.get(host).cloned()).as_deref(),
            node
        );
        let labels = delegate.labels();
        let kept = labels.get("app").is_some_and(|it| it == "web");
        assert_eq!(kept, target == "west", "{name}");
        assert_eq!(labels[&format!("{}app", keys::PREFIX)], "web", "{name}");
        if node.is_some() {
            assert_eq!(node_of(&delegate), node, "{name}");
        }
    }

    // Whom no target suits is told so.
    let nobody = build::pod("nobody").elect().request("cpu", "50m");
    let nobody = nobody.annotation(keys::USE_OWN_CONSTRAINTS, "");
    shop.create(&nobody.node_selector(keys::TARGET_NAME, "south").build())
        .await;
    let told = |pod: &Pod| {
        scheduled(pod).is_some_and(|(status, reason, message)| {
            (status, reason) == ("False", "Unschedulable")
                && message.contains("didn't match Pod's node affinity/selector")
        })
    };
    shop.seen(wait_for(&shop.pods(), "nobody", told, LIMIT).await);
}
