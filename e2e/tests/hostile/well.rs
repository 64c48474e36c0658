//! Pods of somebody honest: they are bound about as soon as before the attack, run once each, and go. What the attack
//! is doesn't matter here.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use pilotage_e2e::fleet::Fleet;
use pilotage_testkit::{build, unique, wait_count};
use tokio::time::Instant;

use crate::stage::{LIMIT, has_one_delegate, is_running, node_of};

/// So many are created at once while an attack goes on.
const PODS: usize = 3;
/// All pods of a group have this label, with the group's name.
const GROUP: &str = "group";
/// No group fails for being bound within this time, nor within so many times what a pod took before the attack. Healthy
/// pods take far less than a second, and several on a slow machine: only a standstill fails. It is less than what a
/// target may take for a list (20 s) or an event (30 s), and than a computation that goes on for a minute.
const STANDSTILL: Duration = Duration::from_secs(15);
const TIMES: u32 = 5;

/// So many groups in a row may be too late before that is a standstill. What else keeps a busy machine comes and goes;
/// an attack goes on. What one costs the pods of its first moments is measured by `make bench-hostile`.
const ROUNDS: usize = 5;

/// So long pods may take, if one took so long before the attack.
fn limit(before: Duration) -> Duration {
    STANDSTILL.max(before * TIMES)
}

/// Groups of pods pass, one after the other, until one is in time; an error says how long they took if none was. One
/// pod took `before` when there was no attack.
pub(crate) async fn in_time(
    fleet: &'static Fleet,
    namespace: &str,
    name: &str,
    before: Duration,
) -> Result<(), String> {
    let limit = limit(before);
    let mut late = Vec::new();
    while late.len() < ROUNDS {
        let took = pass(fleet, namespace, name, PODS).await;
        if took <= limit {
            return Ok(());
        }
        println!("pods of others were bound after {took:?}, and one took {before:?} before");
        late.push(took);
    }
    Err(format!(
        "pods of others were bound after {late:?}; {limit:?} are a standstill, and one took {before:?} before"
    ))
}

/// Creates a group of so many pods, and waits until they are bound, have run, each once, and are gone; how long it took
/// from their creation until all were bound.
pub(crate) fn pass<'a>(
    fleet: &'static Fleet,
    namespace: &'a str,
    name: &str,
    count: usize,
) -> BoxFuture<'a, Duration> {
    let name = format!("{name}-{}", unique());
    let passing = async move {
        let pods: Api<Pod> = Api::namespaced(fleet.source.plane.admin(), namespace);
        let group = Group { fleet, pods, name };
        let began = Instant::now();
        group.create(count).await;
        group.are(count, |pod| node_of(pod).is_some()).await;
        let took = began.elapsed();
        for proxy in group.are(count, is_running).await {
            has_one_delegate(fleet, &proxy).await;
        }
        group.delete().await;
        took
    };
    passing.boxed()
}

/// Pods of one name and different numbers.
struct Group {
    fleet: &'static Fleet,
    pods: Api<Pod>,
    name: String,
}

impl Group {
    async fn create(&self, count: usize) {
        let created = (0..count).map(|number| async move {
            let pod = build::pod(&format!("{}-{number}", self.name))
                .label(GROUP, self.name.as_str())
                .elect()
                .request("cpu", "10m")
                .build();
            self.pods.create(&PostParams::default(), &pod).await
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

#[test]
fn only_a_standstill_is_too_long() {
    let limit = |seconds| limit(Duration::from_secs(seconds)).as_secs();
    assert_eq!([0, 1, 3, 4, 20].map(limit), [15, 15, 15, 20, 100]);
}
