//! What users write into a cluster's own API server, and its processes there are told of: heavy pods take no memory of
//! the source, nor of a target, and heavy chaperons none of the target.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::runtime::watcher;
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::{Cluster, Fleet, SOURCE_ACCOUNT, Spec};
use pilotage_e2e::memory::Process;
use pilotage_testkit::{TestNamespace, build, list_until, unique, wait_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::MutexGuard;

use super::turn;
use crate::stage::{LIMIT, elected, is_running};

/// MiB that a process may grow while it is told of all that, some of it at the same time. Whole, it would be several
/// times as much.
const MORE: f64 = 160.0;

/// Pods that only name a scheduler of Pilotage's, and volumes of each: as types 300 MiB.
const STRAYS: usize = 10;
const VOLUMES_OF_STRAYS: usize = 10_000;
/// Elected pods, and volumes of each, which the webhook lets pass: as types 400 MiB.
const ELECTED: usize = 40;
const VOLUMES: usize = 3_200;

/// Chaperons that nobody could read, and maps in each, of 8 bytes: in memory 300 MiB.
const UNREADABLE: usize = 8;
const MAPS_UNREADABLE: usize = 60_000;
/// Chaperons of which pods can be made, and maps in each: in memory 160 MiB.
const READABLE: usize = 40;
const MAPS: usize = 6_500;

/// A fleet of one source and one target, since its processes are measured.
struct Own {
    fleet: Fleet,
    honest: String,
    heavy: String,
    _namespaces: Vec<TestNamespace>,
    _turn: MutexGuard<'static, ()>,
}

impl Own {
    /// Nothing of Pilotage runs yet.
    async fn plan(prefix: &str) -> Self {
        let turn = turn().await;
        let nodes = build::nodes(prefix, 2, |node| node.cpu("8").memory("16Gi").pods(110));
        let fleet = Spec::new().target("east", nodes).start().await.unwrap();
        let names = ["honest", "heavy"].map(|it| format!("{prefix}-{it}-{}", unique()));
        let mut namespaces = Vec::new();
        for name in &names {
            for cluster in fleet.all() {
                let made = cluster.plane.named_namespace(name, BTreeMap::new());
                namespaces.push(made.await.unwrap());
            }
        }
        let [honest, heavy] = names;
        Self {
            fleet,
            honest,
            heavy,
            _namespaces: namespaces,
            _turn: turn,
        }
    }

    async fn begin(&mut self) {
        self.fleet.install().await.unwrap();
        self.fleet.connect(&self.honest).await.unwrap();
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.fleet.source.plane.admin(), namespace)
    }

    /// Creates an honest pod and waits until it runs: what was told before it has been heard by then.
    async fn runs(&self, name: &str) {
        let pods = self.pods(&self.honest);
        let pod = elected(name, "10m");
        pilotage_testkit::create(&pods, &pod).await.unwrap();
        if let Err(error) = wait_for(&pods, name, is_running, LIMIT).await {
            panic!("{error}\nlogs: {:#?}", self.fleet.logs());
        }
    }
}

/// Creates a heavy object. A client asks again if the answer takes too long, and may find the object there.
async fn create<K>(api: &Api<K>, object: &K)
where
    K: Clone + fmt::Debug + DeserializeOwned + Serialize,
{
    match pilotage_testkit::create(api, object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created.unwrap()),
    }
}

/// MiB that two processes of a cluster had before something was done, and have grown meanwhile.
async fn growth(
    cluster: &Cluster,
    parts: [&'static str; 2],
    work: impl Future<Output = ()>,
) -> [(&'static str, f64, f64); 2] {
    let process = async |part: &str| {
        let pids = cluster.processes[part].process().pids().await.unwrap();
        Process { pid: pids.child }
    };
    let [one, other] = parts;
    let (first, second) = (process(one).await, process(other).await);
    let (first, second) = first.during(second.during(work)).await.unwrap();
    let (second, ()) = second.unwrap();
    [
        (one, first.before, first.growth()),
        (other, second.before, second.growth()),
    ]
}

fn volumes(count: usize) -> Vec<Volume> {
    let volume = |number: usize| Volume {
        name: format!("v{number}"),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    (0..count).map(volume).collect()
}

/// A pod that asks for a scheduler of Pilotage's, and that Pilotage didn't make.
fn stray(number: usize, scheduler: &str) -> Pod {
    let pod = build::pod(&format!("stray-{number}"));
    let mut pod = pod.scheduler(scheduler).build();
    pod.spec.get_or_insert_default().volumes = Some(volumes(VOLUMES_OF_STRAYS));
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_pods_of_one_author_take_no_memory_of_the_source() {
    let mut own = Own::plan("pods").await;
    let pods = own.pods(&own.heavy);
    // Nobody guards the scheduler's name yet.
    for number in 0..STRAYS {
        let pod = stray(number, keys::PROXY_SCHEDULER);
        create(&pods, &pod).await;
    }
    own.begin().await;
    own.fleet.elect(&own.heavy).await.unwrap();
    // What they are is told all the same.
    let events: Api<Event> = Api::namespaced(own.fleet.source.plane.admin(), &own.heavy);
    let tells = |event: &&Event| {
        let note = event.note.as_deref().unwrap_or_default();
        note.contains("was not admitted by the Pilotage webhook")
    };
    let all_are = |seen: &BTreeMap<_, Event>| {
        let told = seen.values().filter(tells);
        let told = told.filter_map(|event| event.regarding.as_ref()?.name.as_deref());
        told.collect::<BTreeSet<_>>().len() == STRAYS
    };
    let told = list_until(&events, watcher::Config::default(), all_are, LIMIT);
    if let Err(error) = told.await {
        panic!("{error}\nlogs: {:#?}", own.fleet.logs());
    }
    own.runs("before").await;

    let work = Box::pin(async {
        for number in 0..ELECTED {
            let mut pod = build::pod(&format!("web-{number}")).elect().build();
            pod.spec.get_or_insert_default().volumes = Some(volumes(VOLUMES));
            create(&pods, &pod).await;
        }
        // No Target serves their namespace, and each is told so.
        for number in 0..ELECTED {
            let name = format!("web-{number}");
            if let Err(error) = wait_for(&pods, &name, is_told, LIMIT).await {
                panic!("{error}\nlogs: {:#?}", own.fleet.logs());
            }
        }
        own.runs("after").await;
    });
    let parts = ["controllers", "proxy-scheduler"];
    for (part, before, more) in growth(&own.fleet.source, parts, work).await {
        assert!(before < MORE, "{part} had {before} MiB");
        assert!(more < MORE, "{part} took {more} MiB more than {before}");
    }
    own.fleet.stop().await;
}

/// Whether a pod is told why it has no place.
fn is_told(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|it| it.type_ == "PodScheduled");
    scheduled.any(|it| it.message.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_pods_of_a_targets_own_users_take_no_memory_of_it() {
    let mut own = Own::plan("users").await;
    own.begin().await;
    let target = &own.fleet.targets[0];
    let pods: Api<Pod> = Api::namespaced(target.plane.admin(), &own.heavy);
    own.runs("before").await;
    let work = Box::pin(async {
        for number in 0..STRAYS {
            let pod = stray(number, keys::CANDIDATE_SCHEDULER);
            create(&pods, &pod).await;
        }
        own.runs("after").await;
    });
    let parts = ["controllers", "candidate-scheduler"];
    for (part, before, more) in growth(target, parts, work).await {
        assert!(before < MORE, "{part} had {before} MiB");
        assert!(more < MORE, "{part} took {more} MiB more than {before}");
    }
    own.fleet.stop().await;
}

/// A chaperon as no honest source writes any.
fn chaperon(name: &str, maps: usize) -> PodChaperon {
    let chaperon = json!({
        "apiVersion": format!("{}/{}", pilotage_api::GROUP, pilotage_api::VERSION),
        "kind": "PodChaperon",
        "metadata": { "name": name, "labels": { keys::PARENT_UID: "nobody" } },
        "spec": {
            "schedulerName": "nobody",
            "containers": [{ "name": "app", "image": "app" }],
            "x": vec![json!({ "a": 0 }); maps],
        },
    });
    serde_json::from_value(chaperon).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_chaperons_of_one_source_take_no_memory_of_its_target() {
    let mut own = Own::plan("chaperons").await;
    own.begin().await;
    let target = &own.fleet.targets[0];
    target.let_in(SOURCE_ACCOUNT, &own.heavy).await.unwrap();
    let source = target
        .plane
        .service_account_client(&own.heavy, SOURCE_ACCOUNT);
    let chaperons: Api<PodChaperon> = Api::namespaced(source.await.unwrap(), &own.heavy);
    let pods: Api<Pod> = Api::namespaced(target.plane.admin(), &own.heavy);
    own.runs("before").await;

    let work = Box::pin(async {
        for number in 0..UNREADABLE {
            let chaperon = chaperon(&format!("unreadable-{number}"), MAPS_UNREADABLE);
            create(&chaperons, &chaperon).await;
        }
        for number in 0..READABLE {
            let chaperon = chaperon(&format!("readable-{number}"), MAPS);
            create(&chaperons, &chaperon).await;
        }
        // Each is answered: by a refusal, or by a pod.
        for number in 0..UNREADABLE {
            let name = format!("unreadable-{number}");
            if let Err(error) = wait_for(&chaperons, &name, is_refused, LIMIT).await {
                panic!("{error}\nlogs: {:#?}", own.fleet.logs());
            }
        }
        let all = |seen: &BTreeMap<_, Pod>| seen.len() == READABLE;
        let made = list_until(&pods, watcher::Config::default(), all, LIMIT);
        if let Err(error) = made.await {
            panic!("{error}\nlogs: {:#?}", own.fleet.logs());
        }
        own.runs("after").await;
    });
    let parts = ["controllers", "candidate-scheduler"];
    for (part, before, more) in growth(target, parts, work).await {
        assert!(before < MORE, "{part} had {before} MiB");
        assert!(more < MORE, "{part} took {more} MiB more than {before}");
    }
    own.fleet.stop().await;
}

/// Whether a chaperon says that it is too heavy for a pod to be made of it.
fn is_refused(chaperon: &PodChaperon) -> bool {
    chaperon.conditions().iter().any(|condition| {
        let message = condition.message.as_deref().unwrap_or_default();
        condition.reason.as_deref() == Some(keys::CANDIDATE_REFUSED)
            && message.contains("over 8 MiB")
    })
}
