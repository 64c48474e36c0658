//! `ConfigMap`s and Secrets that pods name follow them into their targets.

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use pilotage_api::{GROUP, Right, Target, VERSION, keys};
use pilotage_e2e::fleet::{Fleet, SOURCE_ACCOUNT, Spec, secret, target_object};
use pilotage_testkit::{list_until, wait_for, wait_gone};
use serde_json::{Value, json};

use super::kubelet::until;
use super::{LIMIT, Lasting, Shop, small_nodes};

/// Two targets that give the rights to follow.
pub(super) async fn fleet() -> Arc<Fleet> {
    static FLEET: Lasting = Lasting::new();
    let spec = || {
        Spec::new()
            .target("east", small_nodes("east"))
            .target("west", small_nodes("west"))
            .rights(&[Right::FollowConfigMaps, Right::FollowSecrets])
            .follow(&["configmaps", "secrets"])
    };
    FLEET.fleet(spec).await
}

impl Shop {
    /// Waits for a warning about an object that says all this.
    pub(super) async fn warned(&self, uid: &str, parts: &[&str]) {
        let events: Api<Event> = self.of("source");
        let like = |event: &Event| {
            let about = event.regarding.as_ref().and_then(|it| it.uid.as_deref());
            let note = event.note.as_deref().unwrap_or_default();
            about == Some(uid)
                && event.reason.as_deref() == Some("NotFollowed")
                && parts.iter().all(|part| note.contains(part))
        };
        let config = watcher::Config::default();
        let seen = list_until(&events, config, |all| all.values().any(like), LIMIT).await;
        self.seen(seen);
    }
}

pub(super) fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "team": "a" } },
        "data": { "key": value },
    })
}

pub(super) fn key(value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
        "stringData": { "k": value },
    })
}

/// An elected pod whose environment comes from this `ConfigMap`.
pub(super) fn reader(name: &str, config_map: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": { keys::ELECT: "" } },
        "spec": { "containers": [{
            "name": "c", "image": "i",
            "envFrom": [{ "configMapRef": { "name": config_map } }],
        }] },
    }))
    .unwrap()
}

pub(super) fn says(value: &str) -> impl Fn(&ConfigMap) -> bool {
    move |it| {
        it.data
            .as_ref()
            .is_some_and(|data| data.get("key").is_some_and(|it| it == value))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_names_comes_with_it_changes_with_it_and_goes_with_it() {
    let shop = Shop::connected(fleet().await, "follow").await;
    shop.apply("source", config_map("settings", "1")).await;
    shop.apply("source", config_map("nobodys", "1")).await;
    let password = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
        "metadata": { "name": "password" },
        "stringData": { "password": "swordfish" },
    });
    shop.apply("source", password).await;
    let pull = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "pull" },
        "stringData": { ".dockerconfigjson": "{\"auths\":{}}" },
    });
    shop.apply("source", pull).await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web", "annotations": { keys::ELECT: "" } },
        "spec": {
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [{
                "name": "c", "image": "i",
                "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "key" } } }],
                "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
            }],
            "volumes": [{ "name": "v", "projected": { "sources": [{ "secret": { "name": "password" } }] } }],
        },
    }))
    .unwrap();
    shop.create(&pod).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let other = if target == "east" { "west" } else { "east" };
    let (maps, secrets): (Api<ConfigMap>, Api<Secret>) = (shop.of(target), shop.of(target));

    let copy = shop.seen(wait_for(&maps, "settings", says("1"), LIMIT).await);
    let labels = copy.metadata.labels.unwrap();
    assert_eq!(labels["team"], "a");
    let parent: ConfigMap = shop.of("source").get("settings").await.unwrap();
    assert_eq!(
        Some(&labels[keys::PARENT_UID]),
        parent.metadata.uid.as_ref()
    );
    assert_eq!(
        parent.metadata.finalizers, None,
        "a lost target keeps nobody's object"
    );
    let secret = shop.seen(wait_for(&secrets, "password", |_| true, LIMIT).await);
    let swordfish = ByteString(b"swordfish".to_vec());
    assert_eq!(secret.data.unwrap()["password"], swordfish);
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/basic-auth"));
    shop.seen(wait_for(&secrets, "pull", |_| true, LIMIT).await);
    assert!(maps.get_opt("nobodys").await.unwrap().is_none());

    // It changes, and what somebody makes of the copy is undone.
    shop.apply("source", config_map("settings", "2")).await;
    shop.seen(wait_for(&maps, "settings", says("2"), LIMIT).await);
    let meddle = Patch::Merge(json!({ "data": { "key": "3" } }));
    let meddled = maps
        .patch("settings", &PatchParams::default(), &meddle)
        .await
        .unwrap();
    let undone = |it: &ConfigMap| {
        says("2")(it) && it.metadata.resource_version != meddled.metadata.resource_version
    };
    shop.seen(wait_for(&maps, "settings", undone, LIMIT).await);

    let password = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
        "metadata": { "name": "password" },
        "stringData": { "password": "cod" },
    });
    shop.apply("source", password).await;
    let cod = |it: &Secret| {
        let data = it.data.as_ref();
        data.is_some_and(|data| data["password"] == ByteString(b"cod".to_vec()))
    };
    shop.seen(wait_for(&secrets, "password", cod, LIMIT).await);

    // It goes with its object, and the rest with the last pod that names it.
    let at_home: Api<ConfigMap> = shop.of("source");
    at_home
        .delete("settings", &DeleteParams::default())
        .await
        .unwrap();
    shop.seen(wait_gone(&maps, "settings", LIMIT).await);
    shop.delete("web").await;
    shop.seen(wait_gone(&secrets, "password", LIMIT).await);
    shop.seen(wait_gone(&secrets, "pull", LIMIT).await);
    let none: Api<Secret> = shop.of(other);
    assert!(none.get_opt("password").await.unwrap().is_none());
    let kept: Option<Secret> = shop.of("source").get_opt("password").await.unwrap();
    assert!(kept.is_some(), "the source's own stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_told_of_what_nothing_copies_while_following_is_off() {
    let shop = Shop::open("unfollowed").await;
    let mut pod = reader("web", "settings");
    // The images may be there without it.
    let pull = json!([{ "name": "pull" }]);
    pod.spec.as_mut().unwrap().image_pull_secrets = serde_json::from_value(pull).unwrap();
    shop.create(&pod).await;
    let proxy = shop.running("web").await;
    let said = [
        "ConfigMap settings: not copied",
        "--follow of the controllers has no configmaps.",
    ];
    let uid = proxy.metadata.uid.as_deref().unwrap();
    shop.warned(uid, &said).await;
    let events: Api<Event> = shop.of("source");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.items.iter().filter(|event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.as_deref());
        about == Some(uid) && event.reason.as_deref() == Some("NotFollowed")
    });
    let types: Vec<_> = told.map(|event| event.type_.as_deref()).collect();
    assert_eq!(types, [Some("Normal")]);
    shop.delete("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_immutable_object_that_is_made_anew_has_a_new_copy() {
    let shop = Shop::connected(fleet().await, "immutable").await;
    let fixed = |value: &str| {
        let mut map = config_map("settings", value);
        map["immutable"] = json!(true);
        map
    };
    shop.apply("source", fixed("1")).await;
    shop.create(&reader("web", "settings")).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let maps: Api<ConfigMap> = shop.of(target);
    shop.seen(wait_for(&maps, "settings", says("1"), LIMIT).await);
    let at_home: Api<ConfigMap> = shop.of("source");
    at_home
        .delete("settings", &DeleteParams::default())
        .await
        .unwrap();
    shop.apply("source", fixed("2")).await;
    shop.seen(wait_for(&maps, "settings", says("2"), LIMIT).await);
    shop.delete("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_copy_of_ours_is_left_alone_and_both_authors_are_told() {
    let shop = Shop::connected(fleet().await, "foreign").await;
    for target in ["east", "west"] {
        shop.apply(target, config_map("settings", "its own")).await;
        shop.apply(target, key("its own")).await;
    }
    shop.apply("source", key("1")).await;
    shop.apply("source", config_map("settings", "1")).await;
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": { "name": "token" },
    });
    shop.apply("source", token).await;
    let mut pod = reader("web", "settings");
    let spec = pod.spec.as_mut().unwrap();
    let from = json!([{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "token" } },
        { "secretRef": { "name": "key" } }]);
    spec.containers[0].env_from = serde_json::from_value(from).unwrap();
    shop.create(&pod).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let node = shop.virtual_node(target);

    let map: ConfigMap = shop.of("source").get("settings").await.unwrap();
    let left = [
        "ConfigMap settings isn't followed to",
        node.as_str(),
        "left as it is",
    ];
    shop.warned(map.metadata.uid.as_deref().unwrap(), &left)
        .await;
    shop.warned(proxy.metadata.uid.as_deref().unwrap(), &left)
        .await;
    let left = [
        "Secret key isn't followed to",
        node.as_str(),
        "left as it is",
    ];
    shop.warned(proxy.metadata.uid.as_deref().unwrap(), &left)
        .await;
    let leaves = ["Secret token", "never leaves it"];
    shop.warned(proxy.metadata.uid.as_deref().unwrap(), &leaves)
        .await;
    for target in ["east", "west"] {
        let maps: Api<ConfigMap> = shop.of(target);
        assert!(says("its own")(&maps.get("settings").await.unwrap()));
        let secrets: Api<Secret> = shop.of(target);
        assert!(secrets.get_opt("token").await.unwrap().is_none());
    }
    shop.delete("web").await;
    for target in ["east", "west"] {
        let maps: Api<ConfigMap> = shop.of(target);
        assert!(says("its own")(&maps.get("settings").await.unwrap()));
    }
}

/// A target takes no more `ConfigMap`s in the namespace.
async fn forbid_config_maps(shop: &Shop, target: &str) {
    let quotas: Api<ResourceQuota> = shop.of(target);
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "few-maps" },
        "spec": { "hard": { "count/configmaps": "0" } },
    });
    shop.apply(target, quota).await;
    let counted = |quota: &ResourceQuota| {
        let status = quota.status.as_ref();
        status.is_some_and(|status| status.used.is_some())
    };
    shop.seen(wait_for(&quotas, "few-maps", counted, LIMIT).await);
    // Admission knows quotas by a watch of its own.
    let maps: Api<ConfigMap> = shop.of(target);
    let probe: ConfigMap = serde_json::from_value(config_map("probe", "1")).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("a quota", async || {
        match maps.create(&params, &probe).await {
            Ok(_) => Err("it takes one more"),
            Err(_) => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_target_cant_take_is_told_to_object_and_pod_and_comes_when_it_can() {
    let shop = Shop::connected(fleet().await, "few").await;
    for target in ["east", "west"] {
        forbid_config_maps(&shop, target).await;
    }
    let at_home: Api<ConfigMap> = shop.of("source");
    shop.apply("source", config_map("settings", "1")).await;
    // Each of these takes six bytes where the store has one.
    let large = config_map("large", &"\u{1}".repeat(400 << 10));
    let large = serde_json::from_value(large).unwrap();
    at_home
        .create(&PostParams::default(), &large)
        .await
        .unwrap();
    let mut pod = reader("web", "settings");
    let sources = pod.spec.as_mut().unwrap().containers[0].env_from.as_mut();
    let other = json!({ "configMapRef": { "name": "large" } });
    sources
        .unwrap()
        .push(serde_json::from_value(other).unwrap());
    shop.create(&pod).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let node = shop.virtual_node(target);
    for (name, why) in [
        ("settings", "exceeded quota: few-maps"),
        ("large", "takes more than 2 MiB"),
    ] {
        let map = at_home.get(name).await.unwrap();
        let what = format!("ConfigMap {name} isn't followed to {node}: ");
        for whose in [&map.metadata, &proxy.metadata] {
            let uid = whose.uid.as_deref().unwrap();
            shop.warned(uid, &[&what, why]).await;
        }
    }

    // Room for it comes.
    let quotas: Api<ResourceQuota> = shop.of(target);
    quotas
        .delete("few-maps", &DeleteParams::default())
        .await
        .unwrap();
    let there: Api<ConfigMap> = shop.of(target);
    shop.seen(wait_for(&there, "settings", says("1"), 2 * LIMIT).await);
    assert!(there.get_opt("large").await.unwrap().is_none());
    shop.delete("web").await;
}

/// Whether a Target says whether the rights are given, in these words.
fn says_of_rights(target: &Target, status: &str, part: &str) -> bool {
    let mut conditions = target.status.iter().flat_map(|status| &status.conditions);
    conditions
        .any(|it| it.type_ == "RightsGiven" && it.status == status && it.message.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_does_not_give_the_right_says_so_and_runs_pods_all_the_same() {
    let shop = Shop::unconnected(fleet().await, "rightless").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let rights = async |rights: &[Right]| {
        for target in ["east", "west"] {
            let source = json!({
                "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Source",
                "metadata": { "name": SOURCE_ACCOUNT },
                "spec": { "serviceAccountName": SOURCE_ACCOUNT, "rights": rights },
            });
            shop.apply(target, source).await;
        }
    };
    let told = async |given: bool, part: &str| {
        for target in ["east", "west"] {
            let targets: Api<Target> = shop.of("source");
            let status = if given { "True" } else { "False" };
            let says = |it: &Target| says_of_rights(it, status, part);
            shop.seen(wait_for(&targets, target, says, 2 * LIMIT).await);
        }
    };
    rights(&[Right::FollowConfigMaps]).await;
    for target in ["east", "west"] {
        let cluster = shop.target(target);
        let kubeconfig = cluster
            .source_kubeconfig(SOURCE_ACCOUNT, &shop.name)
            .await
            .unwrap();
        shop.apply("source", secret(target, &shop.name, &kubeconfig))
            .await;
        shop.apply("source", target_object(target, &shop.name))
            .await;
        shop.fleet
            .source
            .connected(target, &shop.name)
            .await
            .unwrap();
    }
    told(false, "add FollowSecrets to spec.rights").await;

    shop.apply("source", key("v")).await;
    shop.apply("source", config_map("settings", "1")).await;
    let mut pod = reader("web", "settings");
    let from =
        json!([{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "key" } }]);
    pod.spec.as_mut().unwrap().containers[0].env_from = serde_json::from_value(from).unwrap();
    shop.create(&pod).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let (maps, secrets): (Api<ConfigMap>, Api<Secret>) = (shop.of(target), shop.of(target));
    shop.seen(wait_for(&maps, "settings", says("1"), LIMIT).await);
    assert!(secrets.get_opt("key").await.unwrap().is_none());
    let node = shop.virtual_node(target);
    let lacks = [
        "Secret key isn't followed to",
        &node,
        "doesn't give the right FollowSecrets; add it to spec.rights",
    ];
    shop.warned(proxy.metadata.uid.as_deref().unwrap(), &lacks)
        .await;
    let secret: Secret = shop.of("source").get("key").await.unwrap();
    shop.warned(secret.metadata.uid.as_deref().unwrap(), &lacks)
        .await;

    // Whoever comes later is told, too, and nobody twice, whatever happens to the object.
    shop.apply("source", key("w")).await;
    let mut late = pod.clone();
    late.metadata.name = Some("late".into());
    let constraints = format!("nodeSelector: {{{}: {target}}}", keys::TARGET_NAME);
    let annotations = late.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::PROXY_CONSTRAINTS.to_owned(), constraints);
    let late = shop.create(&late).await;
    shop.warned(late.metadata.uid.as_deref().unwrap(), &lacks)
        .await;
    let events: Api<Event> = shop.of("source");
    let events = events.list(&ListParams::default()).await.unwrap();
    let of_rights = events.items.iter().filter(|event| {
        let note = event.note.as_deref().unwrap_or_default();
        lacks.iter().all(|part| note.contains(part))
    });
    let repeated: Vec<_> = of_rights.map(|event| event.series.is_some()).collect();
    assert_eq!(repeated, [false; 3]);

    let all = [Right::FollowConfigMaps, Right::FollowSecrets];
    rights(&all).await;
    told(true, "is given").await;
    shop.seen(wait_for(&secrets, "key", |_| true, LIMIT).await);

    // Who writes without the right is refused, which is looked into: there is no need to wait for the next review.
    rights(&[Right::FollowSecrets]).await;
    let targets: Api<Target> = shop.of("source");
    let taken_away = |it: &Target| says_of_rights(it, "False", "add FollowConfigMaps");
    let mut changes = 2_u32..9;
    loop {
        // The role may be in force for another moment.
        let value = changes.next().expect("told in the end").to_string();
        shop.apply("source", config_map("settings", &value)).await;
        let told = wait_for(&targets, target, taken_away, LIMIT / 4).await;
        if told.is_ok() {
            break;
        }
    }
    // The review that tells may have been a regular one, right after that value was written.
    shop.apply("source", config_map("settings", "newest")).await;
    let settings: ConfigMap = shop.of("source").get("settings").await.unwrap();
    let lacks = [
        "ConfigMap settings isn't followed to",
        &node,
        "doesn't give the right FollowConfigMaps",
    ];
    shop.warned(settings.metadata.uid.as_deref().unwrap(), &lacks)
        .await;
    let copy = maps.get("settings").await.unwrap();
    assert!(!says("newest")(&copy), "it stays as it is: {copy:?}");
    rights(&all).await;
    shop.seen(wait_for(&maps, "settings", says("newest"), 2 * LIMIT).await);
    shop.delete("web").await;
    shop.delete("late").await;
}
