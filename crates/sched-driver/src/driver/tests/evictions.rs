//! Evictions that nobody may make any more, as it turns out while they are under way.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Config;
use pilotage_runtime::client::from_config;
use pilotage_sched::PodUid;
use pilotage_sched::plugins::stock_profile;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Bad;
use crate::core::Turn;
use crate::driver::{Driver, DriverOptions};
use crate::evictions::carry_out;
use crate::feed::Sink as _;
use crate::sinks::{NodeSink, PodSink};
use crate::test_server::{leads_for_a_while, server_while};

/// What happens while the victim's condition is written.
#[derive(Clone, Copy)]
enum Meanwhile {
    Nothing,
    LeaseEnds,
    RoomGivenUp,
}

/// A pod that fills a node.
fn pod(name: &str, priority: i32, node: Option<&str>) -> Arc<Pod> {
    let pod = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name },
        "spec": {
            "schedulerName": "test",
            "priority": priority,
            "nodeName": node,
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "4" } } }],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// What the API server is asked when a pod has to go for another one.
async fn asked(meanwhile: Meanwhile) -> Vec<String> {
    let (bound, _) = mpsc::unbounded_channel();
    let binder = Arc::new(Bad {
        at: "nowhere",
        bound,
    });
    let profile = stock_profile("test", binder).build().unwrap();
    // Nothing is ever sent there.
    let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
    let nowhere = from_config(nowhere, "test").unwrap();
    let mut options = DriverOptions::new(nowhere, vec![profile], "test".to_owned());
    options.leadership = leads_for_a_while().await;
    let (driver, _) = Driver::new(options, &mut Registry::default()).unwrap();
    let Driver { inner, orders, .. } = driver;

    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "a", "uid": "a" },
        "status": { "allocatable": { "cpu": "4", "memory": "1Gi", "pods": "10" } },
    }))
    .unwrap();
    let mut nodes = NodeSink {
        inner: inner.clone(),
    };
    nodes.applied(&Arc::new(node));
    let mut pods = PodSink {
        inner: inner.clone(),
    };
    pods.applied(&pod("victim", 0, Some("a")));
    pods.applied(&pod("heir", 10, None));
    let turn = inner.core.turn();
    assert!(matches!(turn, Turn::Publish(_)), "there is no room yet");

    let victim = serde_json::to_value(&*pod("victim", 0, Some("a"))).unwrap();
    let answers = [(200, victim.clone()), (200, victim)];
    let token = CancellationToken::new();
    let (ending, core) = (token.clone(), inner.clone());
    let (client, asked) = server_while(&answers, move || {
        let (ending, inner) = (ending.clone(), core.clone());
        async move {
            // What is under way is finished.
            ending.cancel();
            match meanwhile {
                Meanwhile::Nothing => {}
                Meanwhile::LeaseEnds => tokio::time::sleep(Duration::from_secs(12)).await,
                Meanwhile::RoomGivenUp => {
                    let heir = PodUid::from("heir");
                    let core = &inner.core;
                    core.with(|scheduler, now| scheduler.give_up_room(&heir, now));
                }
            }
        }
    });
    carry_out(inner, client, orders, token).await;
    let asked = asked.lock().unwrap();
    asked.iter().map(|(what, _)| what.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_deleted_only_while_its_eviction_is_wanted_by_who_leads() {
    let patch = "PATCH /api/v1/namespaces/ns/pods/victim/status";
    let delete = "DELETE /api/v1/namespaces/ns/pods/victim";
    assert_eq!(asked(Meanwhile::Nothing).await, [patch, delete]);
    assert_eq!(asked(Meanwhile::LeaseEnds).await, [patch]);
    assert_eq!(asked(Meanwhile::RoomGivenUp).await, [patch]);
}
