//! Clusters that hang: nobody else notices, and they come back by themselves.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use pilotage_clusters::Event;
use pilotage_testkit::Access;
use tokio::time::Instant;

use crate::bench::{Bench, connects, event, is_lost, shows, watch};
use crate::proxy::Proxy;

fn backend(access: &Access) -> SocketAddr {
    access
        .server()
        .trim_start_matches("https://")
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_delays_no_other_target() {
    let bench = Bench::start("hole").await;
    let identity = bench.identity("reader").await;
    // Accepts connections and never says a word.
    let hole = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dark = bench.target("dark").await;
    let url = format!("https://{}", hole.local_addr().unwrap());
    bench
        .secret("dark", "config", &identity.via(&url).kubeconfig_yaml())
        .await;
    let text = is_lost(&dark, "Unreachable").await;
    assert!(text.contains("can't be reached"), "{text}");
    let dark_maps = watch(&dark);

    // With the dark one there and being watched, another comes and works at once.
    let began = Instant::now();
    let light = bench.target("light").await;
    bench
        .secret("light", "config", &identity.kubeconfig_yaml())
        .await;
    connects(&light).await;
    let maps = watch(&light);
    let mut feed = maps.subscribe();
    bench.config_map("a", "1").await;
    event(&mut feed, "value", shows("a", "1")).await;
    let took = began.elapsed();
    assert!(took.as_secs() < 10, "took {took:?}");
    assert!(!dark_maps.is_synced() && dark.connection().lost().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_partition_the_watch_goes_on_where_it_was() {
    let bench = Bench::start("partition").await;
    let identity = bench.identity("reader").await;
    let proxy = Proxy::start(backend(&identity)).await;
    let url = format!("https://{}", proxy.address);
    let target = bench.target("far").await;
    bench
        .secret("far", "config", &identity.via(&url).kubeconfig_yaml())
        .await;
    connects(&target).await;
    let maps = watch(&target);
    let mut feed = maps.subscribe();
    for name in ["kept", "deleted"] {
        bench.config_map(name, "1").await;
    }
    event(&mut feed, "first value", shows("deleted", "1")).await;

    proxy.swallow();
    is_lost(&target, "Unreachable").await;
    let api: Api<ConfigMap> = bench.admin();
    api.delete("deleted", &DeleteParams::default())
        .await
        .unwrap();
    bench.config_map("kept", "2").await;
    assert!(
        maps.get(Some(bench.name()), "deleted").is_some(),
        "the store is as it was"
    );

    proxy.heal();
    connects(&target).await;
    let real_deletion = |event: &Event<ConfigMap>| {
        let Event::Deleted(map) = event else {
            return false;
        };
        map.metadata.name.as_deref() == Some("deleted")
    };
    event(&mut feed, "evidence of the deletion", real_deletion).await;
    event(&mut feed, "second value", shows("kept", "2")).await;
    assert!(maps.get(Some(bench.name()), "deleted").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_watches_are_one_and_end_with_their_last_holder() {
    let bench = Bench::start("share").await;
    let target = bench.target("c2").await;
    bench
        .secret(
            "c2",
            "config",
            &bench.identity("reader").await.kubeconfig_yaml(),
        )
        .await;
    connects(&target).await;
    let (one, two) = (watch(&target), watch(&target));
    bench.config_map("a", "1").await;
    event(&mut one.subscribe(), "value", shows("a", "1")).await;
    assert!(std::ptr::eq(one.store(), two.store()));
    drop((one, two));
    let three = watch(&target);
    assert!(!three.is_synced(), "a new one begins anew");
    event(&mut three.subscribe(), "value", shows("a", "1")).await;
}
