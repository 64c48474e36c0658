//! Clocks of source and target are ten minutes apart, and each is five minutes from its API server's: nothing that
//! Pilotage decides hangs on what another clock says.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::watcher;
use pilotage_api::{PodChaperon, Right};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::{ControlPlane, build, wait_count, wait_for, wait_gone};
use serde_json::json;

use super::follow::config_map;
use super::kubelet::until;
use super::{LIMIT, Shop, elected, small_nodes, started};

const FIVE_MINUTES: i64 = 300;

impl Shop {
    /// Who leads, by cluster and Lease, and how often that has changed; by clocks that are off by so many seconds.
    async fn leaders(
        &self,
        seconds: i64,
    ) -> BTreeMap<(String, String), (Option<String>, Option<i32>)> {
        let mut leaders = BTreeMap::new();
        for (number, cluster) in self.fleet.all().enumerate() {
            // The first is the source.
            let ahead = if number == 0 { seconds } else { -seconds };
            let leases: Api<Lease> = Api::namespaced(cluster.plane.admin(), "pilotage");
            for lease in leases.list(&ListParams::default()).await.unwrap() {
                let spec = lease.spec.unwrap();
                let name = lease.metadata.name.unwrap();
                // The one is the holder's word, the other one the API server's.
                let renewed = spec.renew_time.unwrap().0;
                let made = lease.metadata.creation_timestamp.unwrap().0;
                let apart = renewed.as_second() - made.as_second() - ahead;
                assert!((-60..240).contains(&apart), "{name}: {apart}");
                let led = (spec.holder_identity, spec.lease_transitions);
                leaders.insert((cluster.name().to_owned(), name), led);
            }
        }
        leaders
    }
}

/// The whole life of pods, with everything that looks at a time on its way: Leases with a second replica each,
/// certificates and tokens, what is gone since when.
async fn pods_live(seconds: i64) {
    let kubelet = Kubelet {
        lines: vec!["one".to_owned()],
        forward: SocketAddr::from(([127, 0, 0, 1], 1)),
    };
    let there = ControlPlane::builder("there").controller_manager();
    let there = there.kwok(small_nodes("there")).kubelet(kubelet);
    let spec = Spec::new().target_plane(there).clocks_off(seconds);
    let spec = ["controllers", "proxy-scheduler", "candidate-scheduler"]
        .into_iter()
        .fold(spec, Spec::standby);
    let rights = [Right::FollowConfigMaps, Right::Logs];
    let spec = spec.kubelet().rights(&rights).follow(&["configmaps"]);
    let shop = Shop::connected(started(spec).await, "clocks").await;
    let leaders = shop.leaders(seconds).await;
    assert_eq!(leaders.len(), 4, "{leaders:?}");

    shop.apply("source", config_map("settings", "1")).await;
    let settings = json!([{ "configMapRef": { "name": "settings" } }]);
    let mut web = build::pod("web").elect().request("cpu", "100m").build();
    let spec = web.spec.as_mut().unwrap();
    spec.containers[0].env_from = serde_json::from_value(settings).unwrap();
    shop.create(&web).await;
    let proxy = shop.running("web").await;
    shop.delegate(&proxy).await;
    let maps: Api<ConfigMap> = shop.of("there");
    shop.seen(wait_for(&maps, "settings", |_| true, LIMIT).await);
    let namespace = format!("--namespace={}", shop.name);
    let logs = async || {
        let source = &shop.fleet.source.plane;
        source.kubectl(&[&namespace, "logs", "web"]).await
    };
    assert_eq!(until("kubectl logs", logs).await, "one\n");

    // A delegate that is deleted there takes its proxy along, as soon as with right clocks.
    shop.create(&elected("evicted", "100m")).await;
    let evicted = shop.running("evicted").await;
    let (_, delegate) = shop.delegate(&evicted).await;
    let name = delegate.metadata.name.unwrap();
    let now = DeleteParams::default();
    shop.pods_in("there").delete(&name, &now).await.unwrap();
    shop.seen(wait_gone(&shop.pods(), "evicted", LIMIT).await);
    assert!(super::is_running(&shop.pods().get("web").await.unwrap()));

    shop.delete("web").await;
    let all = watcher::Config::default;
    let chaperons = shop.chaperons_in("there");
    let gone = wait_count(&chaperons, all(), 0, |_: &PodChaperon| true, LIMIT);
    shop.seen(gone.await);
    let delegates = shop.pods_in("there");
    let gone = wait_count(&delegates, all(), 0, |_: &Pod| true, LIMIT);
    shop.seen(gone.await);
    shop.seen(wait_gone(&maps, "settings", LIMIT).await);
    assert_eq!(
        shop.leaders(seconds).await,
        leaders,
        "a Lease was taken away"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_live_with_the_sources_clock_ahead() {
    Box::pin(pods_live(FIVE_MINUTES)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_live_with_the_sources_clock_behind() {
    Box::pin(pods_live(-FIVE_MINUTES)).await;
}
