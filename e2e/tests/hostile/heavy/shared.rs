//! A ClusterTarget that two namespaces share: what one author's pods weigh doesn't take it from the other.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use pilotage_api::ClusterTarget;
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::{TestNamespace, build, create, list_until, unique, wait_count, wait_for};
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use super::turn;
use crate::stage::{LIMIT, elected};

/// Whose chaperons weigh twice as much together as what may be kept for them.
const PODS: usize = 40;
/// What a pod's status says beside the usual: each condition weighs over a KiB.
const CONDITIONS: usize = 2000;

struct Shared {
    fleet: Fleet,
    heavy: String,
    honest: String,
    _namespaces: Vec<TestNamespace>,
    _turn: MutexGuard<'static, ()>,
}

impl Shared {
    async fn start() -> Self {
        let turn = turn().await;
        let nodes = build::nodes("shared", 2, |node| node.cpu("8").memory("16Gi").pods(110));
        let mut fleet = Spec::new().target("shared", nodes).start().await.unwrap();
        fleet.install().await.unwrap();
        fleet.connect_everywhere().await.unwrap();
        let [heavy, honest] = ["heavy", "honest"].map(|name| format!("{name}-{}", unique()));
        let mut namespaces = Vec::new();
        for name in [&heavy, &honest] {
            for cluster in fleet.all() {
                let made = cluster.plane.named_namespace(name, BTreeMap::new());
                namespaces.push(made.await.unwrap());
            }
            fleet.elect(name).await.unwrap();
        }
        Self {
            fleet,
            heavy,
            honest,
            _namespaces: namespaces,
            _turn: turn,
        }
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.fleet.source.plane.admin(), namespace)
    }

    /// Creates a pod and waits until it runs.
    async fn runs(&self, namespace: &str, name: &str) {
        let pods = self.pods(namespace);
        let pod = elected(name, "10m");
        create(&pods, &pod).await.unwrap();
        let runs = |pod: &Pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        if let Err(error) = wait_for(&pods, name, runs, LIMIT).await {
            panic!("{error}\nlogs: {:#?}", self.fleet.logs());
        }
    }

    /// The delegates of the one author have statuses that are longer than anybody's.
    async fn grow(&self) {
        let delegates: Api<Pod> = Api::namespaced(self.fleet.targets[0].plane.admin(), &self.heavy);
        let more = (0..CONDITIONS)
            .map(|number| json!({ "type": format!("example.com/c{number}"), "status": "True" }))
            .collect::<Vec<_>>();
        let all = delegates.list(&ListParams::default()).await.unwrap();
        assert_eq!(all.items.len(), PODS);
        for delegate in all {
            let name = delegate.metadata.name.unwrap();
            let status = delegate.status.unwrap_or_default();
            let before = status.conditions.into_iter().flatten();
            let conditions = before.map(|it| json!(it)).chain(more.clone());
            let conditions: Vec<Value> = conditions.collect();
            // The API server would look for each of them among all, if it had to merge two lists of them.
            let whole = Patch::Merge(json!({ "status": { "conditions": conditions } }));
            let params = PatchParams::default();
            let patched = delegates.patch_status(&name, &params, &whole);
            patched.await.unwrap();
        }
    }

    /// Whether it isn't lost for what it sends. On a busy machine probes of it may fail for a moment.
    async fn is_borne(&self) -> bool {
        let targets: Api<ClusterTarget> = Api::all(self.fleet.source.plane.admin());
        let target = targets.get("shared").await.unwrap();
        let conditions = target
            .status
            .into_iter()
            .flat_map(|status| status.conditions);
        conditions
            .filter(|condition| condition.type_ == "Connected")
            .all(|condition| condition.status == "True" || condition.reason == "Unreachable")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_pods_of_one_author_do_not_take_a_shared_target_from_others() {
    let shared = Shared::start().await;
    let pods = shared.pods(&shared.heavy);

    // What would be too heavy from its birth isn't even taken.
    let crowd = build::pod("crowd").elect().tweak(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        let one = spec.containers[0].clone();
        spec.containers = (0..600)
            .map(|number| {
                let mut container = one.clone();
                container.name = format!("c{number}");
                container
            })
            .collect();
    });
    let refused = create(&pods, &crowd.build()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("too large to be elected") && refused.contains("of 600 containers"),
        "{refused:.2000}"
    );

    // What grows costs its own pods their status.
    let run = (0..PODS).map(|number| {
        let name = format!("web-{number}");
        let shared = &shared;
        async move { shared.runs(&shared.heavy, &name).await }
    });
    join_all(run).await;
    shared.grow().await;
    let events: Api<Event> = Api::namespaced(shared.fleet.source.plane.admin(), &shared.heavy);
    let told = |seen: &BTreeMap<_, Event>| {
        let notes = seen.values().filter_map(|event| event.note.as_deref());
        let heavy = notes.filter(|note| note.contains("KiB of memory"));
        heavy.count() >= PODS / 2
    };
    if let Err(error) = list_until(&events, watcher::Config::default(), told, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shared.fleet.logs());
    }
    assert!(shared.is_borne().await);
    for number in 0..3 {
        shared.runs(&shared.honest, &format!("web-{number}")).await;
    }
    assert!(shared.is_borne().await);

    // Nor do they stay when they are to go.
    let all = ListParams::default();
    pods.delete_collection(&DeleteParams::default(), &all)
        .await
        .unwrap();
    if let Err(error) = wait_count(&pods, watcher::Config::default(), 0, |_| true, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shared.fleet.logs());
    }
    shared.fleet.stop().await;
}
