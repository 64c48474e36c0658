//! Targets of a tenant that are deleted and can't go: what is read for them is everybody's, and is read seldom.

use futures::future::join_all;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilotage_api::conditions::types;
use pilotage_api::{Target, keys};
use pilotage_e2e::hostile::written::forged;
use pilotage_testkit::{HostileServer, build, create, wait_gone};
use serde_json::json;

use crate::stage::{LIMIT, Stage};

const CHAPERONS: &str = "podchaperons";
const TARGETS: usize = 10;
/// How often each of them is changed while it can't go.
const CHANGES: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn targets_that_cannot_go_have_everybodys_proxies_read_seldom() {
    let stage = Stage::beside("crowd").await;
    let server = HostileServer::start("crowd").await.unwrap();
    let names: Vec<String> = (0..TARGETS)
        .map(|number| format!("evil-{number}"))
        .collect();
    for name in &names {
        stage.lead_to(&server, name).await;
    }
    for name in &names {
        stage.condition(name, types::CONNECTED, "True").await;
    }
    // A chaperon of this source, so that it has to be known whether a record names it.
    let pods = stage.pods(&stage.own);
    let asked = build::pod("asked").build();
    let asked = create(&pods, &asked).await.unwrap();
    let [chaperon, ..] = forged(&asked, &stage.source_uid().await, &stage.own);
    server.put(chaperon).unwrap();

    let log = stage.fleet.source.plane.audit().unwrap();
    let looks = async || {
        let proxies = format!("spec.schedulerName%3D{}", keys::PROXY_SCHEDULER);
        let looks = log.count(|entry| entry.verb == "list" && entry.uri.contains(&proxies));
        looks.await.unwrap()
    };
    let before = looks().await;
    let targets: Api<Target> = Api::namespaced(stage.tenant().await, &stage.own);
    for name in &names {
        targets
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    for change in 0..CHANGES {
        let word = json!({ "metadata": { "annotations": { "change": change.to_string() } } });
        let (params, word) = (PatchParams::default(), Patch::Merge(word));
        let changed = join_all(names.iter().map(|name| targets.patch(name, &params, &word)));
        for changed in changed.await {
            assert!(changed.unwrap().metadata.deletion_timestamp.is_some());
        }
    }
    // Each keeper looks again after a while: what counts is how often they did for so many changes.
    let soon = looks().await - before;
    assert!(
        soon <= TARGETS * CHANGES / 4,
        "{soon} lists of all proxies for {TARGETS} Targets"
    );
    stage.is_well("beside").await;
    assert!(looks().await > before, "nobody looked");

    for chaperon in server.objects(CHAPERONS).unwrap() {
        let name = chaperon["metadata"]["name"].as_str().unwrap();
        server.remove(CHAPERONS, &stage.own, name).unwrap();
    }
    for name in &names {
        wait_gone(&targets, name, LIMIT).await.unwrap();
    }
}
