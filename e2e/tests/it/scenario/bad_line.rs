//! A line to a target that loses replies, is slow, is cut while delegates end behind it, and forgets its watches.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, EvictParams, ListParams};
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::fault::{Calls, Mode, Times, Verb};
use pilotage_testkit::{wait_for, wait_gone};

use super::{LIMIT, Shop, elected, small_nodes, started};

const DELAY: Duration = Duration::from_millis(200);

async fn delegate(shop: &Shop, name: &str) -> Pod {
    let proxy = shop.running(name).await;
    shop.delegate(&proxy).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_makes_no_second_delegate_and_what_ended_behind_it_is_noticed() {
    let spec = Spec::new()
        .one_process()
        .flag("--target-probe-period=1s")
        .target("near", small_nodes("near"))
        .faults();
    let shop = Shop::unconnected(started(spec).await, "line").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let near = shop.target("near");
    shop.fleet.add_target(near, &shop.name).await.unwrap();
    shop.fleet
        .source
        .connected("near", &shop.name)
        .await
        .unwrap();
    let door = near.door.as_ref().unwrap();

    // Whether the question was asked is unknown; asked again, it is one and the same.
    let asks = Calls::of(Verb::Create, "podchaperons").namespace(&shop.name);
    let lost = door.lose_reply(asks);
    shop.create(&elected("web", "100m")).await;
    assert_eq!(lost.caught().await, Some(201));
    let web = delegate(&shop, "web").await;

    let (up, down) = (DELAY, DELAY);
    door.set(Mode::Delay { up, down }).await.unwrap();
    shop.create(&elected("slow", "100m")).await;
    delegate(&shop, "slow").await;
    let bytes_per_second = 20_000;
    door.set(Mode::Throttle { bytes_per_second }).await.unwrap();
    shop.create(&elected("narrow", "100m")).await;
    let narrow = delegate(&shop, "narrow").await;
    let chaperons = shop.chaperons_in("near");
    let all = ListParams::default();
    assert_eq!(chaperons.list(&all).await.unwrap().items.len(), 3);

    door.set(Mode::BlackHole).await.unwrap();
    let pods = shop.pods_in("near");
    let (web, narrow) = (web.name_any(), narrow.name_any());
    pods.evict(&web, &EvictParams::default()).await.unwrap();
    let is_missing =
        |chaperon: &PodChaperon| chaperon.annotations().contains_key(keys::POD_MISSING_SINCE);
    wait_for(&chaperons, &web, is_missing, LIMIT).await.unwrap();
    chaperons
        .delete(&narrow, &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&chaperons, &narrow, LIMIT).await.unwrap();
    wait_gone(&pods, &narrow, LIMIT).await.unwrap();
    for proxy in ["web", "narrow"] {
        shop.running(proxy).await;
    }

    // Nobody tells what happened meanwhile: it has to be found out.
    let watches = Calls::any().resource("podchaperons");
    door.refuse_watches(watches, Times::Always);
    door.set(Mode::Pass).await.unwrap();
    for proxy in ["web", "narrow"] {
        wait_gone(&shop.pods(), proxy, LIMIT).await.unwrap();
    }
    wait_gone(&chaperons, &web, LIMIT).await.unwrap();
    door.accept_watches();
    shop.delete("slow").await;
    let left = chaperons.list(&all).await.unwrap();
    assert!(left.items.is_empty(), "{:?}", left.items);
}
