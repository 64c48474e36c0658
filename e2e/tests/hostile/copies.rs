//! Copies of what follows pods: what a tenant's target shows of them changes nothing at home, nor in other targets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PostParams;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_e2e::hostile::copies::copy_of;
use pilotage_testkit::fault::Verb;
use pilotage_testkit::{HostileServer, create, wait_for};
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage, elected};

/// More than are looked at in one go.
const INVENTED: usize = 100;

crate::siege::attacks! {
    copies_without_end,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_changes_all_the_time() {
    crate::siege::borne(
        "a_copy_that_changes_all_the_time",
        Verb::Watch,
        "configmaps",
        1,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_a_target_invents_change_nothing_elsewhere() {
    let stage = Stage::new("invented").await;
    let east = &stage.fleet.targets[0].plane;
    let at_home: Api<ConfigMap> = Api::namespaced(stage.admin(), &stage.honest);
    let there: Api<ConfigMap> = Api::namespaced(east.admin(), &stage.honest);
    let settings: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "settings" }, "data": { "data": "honest" },
    }))
    .unwrap();
    let settings = at_home.create(&PostParams::default(), &settings).await;
    let settings = settings.unwrap();
    let pods = stage.pods(&stage.honest);
    create(&pods, &reader("web")).await.unwrap();
    let copied = wait_for(&there, "settings", |_| true, LIMIT).await.unwrap();
    stage.runs(&stage.honest, "web").await;

    let server = HostileServer::start("inventor").await.unwrap();
    let source = ClusterUid(stage.source_uid().await);
    let put = |namespace: &str, name: &str, uid: &str| {
        let link = ParentLink {
            cluster_uid: Some(source.clone()),
            cluster_name: None,
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let copy = copy_of(&link, name, "evil");
        server.put_everywhere(copy).unwrap();
    };
    let uid = settings.metadata.uid.as_deref().unwrap();
    put(&stage.honest, "settings", uid);
    for number in 0..INVENTED {
        put(&stage.own, &format!("settings-{number}"), "none");
    }
    stage.lead_to(&server, "evil").await;
    // No pod is there that needs one.
    let is_invented = |it: &Value| it["metadata"]["namespace"] == stage.own.as_str();
    let deleted = server.lacks("configmaps", is_invented, LIMIT).await;
    deleted.unwrap();

    stage.is_well("beside").await;
    for (api, before) in [(&at_home, &settings), (&there, &copied)] {
        let now = api.get("settings").await.unwrap();
        assert_eq!(
            now.metadata.resource_version,
            before.metadata.resource_version
        );
        assert_eq!(
            now.data,
            Some(BTreeMap::from([("data".to_owned(), "honest".to_owned())]))
        );
    }
    for verb in [Verb::Create, Verb::Update, Verb::Patch] {
        assert_eq!(server.count(verb, "configmaps"), 0, "{verb:?}");
    }
    // In a namespace that isn't the Target's nobody even tidies up.
    let left = server.objects("configmaps").unwrap();
    let left: Vec<_> = left.iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(left, ["settings"]);
}

/// An elected pod whose environment comes from the `ConfigMap` `settings`.
fn reader(name: &str) -> Pod {
    let mut pod = elected(name, "100m");
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    let from = json!([{ "configMapRef": { "name": "settings" } }]);
    containers[0].env_from = Some(serde_json::from_value(from).unwrap());
    pod
}
