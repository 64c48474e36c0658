//! Pods of somebody honest: they are bound in time, run once each, and go. What the attack is doesn't matter here.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use pilotage_e2e::fleet::Fleet;
use pilotage_testkit::{build, create, unique, wait_count};
use tokio::time::Instant;

use crate::stage::{LIMIT, has_one_delegate, is_running, node_of};

/// So many are created at once while an attack goes on.
const PODS: usize = 3;
/// All pods of a group have this label, with the group's name.
const GROUP: &str = "group";
/// No group fails for being bound within this time. Healthy pods take far less than a second, and several on a slow
/// machine: only a standstill fails. It is less than what a target may take for a list (20 s) or an event (30 s), and
/// than a computation that goes on for a minute.
const STANDSTILL: Duration = Duration::from_secs(15);
/// So many groups in a row may be too late before that is a standstill. What else keeps a busy machine comes and goes;
/// an attack goes on. What one costs the pods of its first moments is measured by `make bench-hostile`.
const ROUNDS: usize = 5;

/// Groups of pods pass, one after the other, until one is in time; an error says how long they took if none was.
pub(crate) fn in_time<'a>(
    fleet: &'static Fleet,
    namespace: &'a str,
    name: &'a str,
) -> BoxFuture<'a, Result<(), String>> {
    let trying = async move {
        let mut late = Vec::new();
        while late.len() < ROUNDS {
            let took = pass(fleet, namespace, name).await;
            if took <= STANDSTILL {
                return Ok(());
            }
            println!("pods of others were bound after {took:?}");
            late.push(took);
        }
        Err(format!(
            "pods of others were bound after {late:?}; {STANDSTILL:?} are a standstill"
        ))
    };
    trying.boxed()
}

/// Creates a group of pods, and waits until they are bound, have run, each once, and are gone; how long it took from
/// their creation until all were bound.
async fn pass(fleet: &'static Fleet, namespace: &str, name: &str) -> Duration {
    let name = format!("{name}-{}", unique());
    let pods: Api<Pod> = Api::namespaced(fleet.source.plane.admin(), namespace);
    let group = Group { fleet, pods, name };
    let began = Instant::now();
    group.create().await;
    group.are(PODS, |pod| node_of(pod).is_some()).await;
    let took = began.elapsed();
    for proxy in group.are(PODS, is_running).await {
        has_one_delegate(fleet, &proxy).await;
    }
    group.delete().await;
    took
}

/// Pods of one name and different numbers.
struct Group {
    fleet: &'static Fleet,
    pods: Api<Pod>,
    name: String,
}

impl Group {
    async fn create(&self) {
        let created = (0..PODS).map(|number| async move {
            let pod = build::pod(&format!("{}-{number}", self.name))
                .label(GROUP, self.name.as_str())
                .elect()
                .request("cpu", "10m")
                .build();
            create(&self.pods, &pod).await
        });
        try_join_all(created).await.unwrap();
    }

    /// Waits until this holds for so many, and for no more.
    async fn are(&self, count: usize, pass: fn(&Pod) -> bool) -> Vec<Pod> {
        let group = watcher::Config::default().labels(&self.selector());
        match wait_count(&self.pods, group, count, pass, LIMIT).await {
            Ok(pods) => pods,
            Err(error) => panic!("{error}\nlogs: {:#?}", self.fleet.logs()),
        }
    }

    async fn delete(&self) {
        let group = ListParams::default().labels(&self.selector());
        let params = DeleteParams::default();
        self.pods.delete_collection(&params, &group).await.unwrap();
        self.are(0, |_| true).await;
    }

    fn selector(&self) -> String {
        format!("{GROUP}={}", self.name)
    }
}
