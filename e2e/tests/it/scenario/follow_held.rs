//! Objects that follow pods, and that a finalizer of Admiralty keeps from their end.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use pilotage_api::names;
use pilotage_testkit::{list_until, wait_gone};
use serde_json::json;

use super::follow::{config_map, fleet};
use super::{LIMIT, Shop};

#[tokio::test(flavor = "multi_thread")]
async fn who_deletes_what_admiralty_holds_is_told_what_helps() {
    let shop = Shop::connected(fleet().await, "held").await;
    let mut map = config_map("settings", "1");
    let finalizer = names::target_finalizer(Some(&shop.name), "east");
    map["metadata"]["finalizers"] = json!([finalizer]);
    shop.apply("source", map).await;
    let maps: Api<ConfigMap> = shop.of("source");
    let deleted = maps.get("settings").await.unwrap();
    maps.delete("settings", &DeleteParams::default())
        .await
        .unwrap();
    let events: Api<Event> = shop.of("source");
    let told = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.as_ref());
        let note = event.note.as_deref().unwrap_or_default();
        event.reason.as_deref() == Some("HeldByAdmiralty")
            && about == deleted.metadata.uid.as_ref()
            && note.contains("cleanup --admiralty")
    };
    let config = watcher::Config::default();
    let any = |all: &BTreeMap<_, Event>| all.values().any(told);
    shop.seen(list_until(&events, config, any, LIMIT).await);

    // As that command does.
    let released = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("settings", &PatchParams::default(), &released)
        .await
        .unwrap();
    shop.seen(wait_gone(&maps, "settings", LIMIT).await);
}
