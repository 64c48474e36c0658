//! `pilotage scheduler` as a process, under the role that is printed for it: what the authors of pods see.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm,
    PersistentVolumeClaimVolumeSource, Pod, PreferredSchedulingTerm, Volume,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_e2e::scheduler;
use pilotage_testkit::build::{self, PodBuilder};
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{
    ControlPlane, LIMIT, audit, bindings, list_until, wait_count, wait_for, wait_gone,
};

use crate::scenario::{node_of, scheduled};

/// Of the scheduler, unless it is told another name.
const NAME: &str = "pilotage-scheduler";
/// A scheduler that isn't there at first.
const OTHER: &str = "someone-else";
const HOME: &str = "pilotage";
const USER: &str = "system:serviceaccount:pilotage:scheduler";

/// Name, how many, and what they ask for.
type Kind = (&'static str, usize, fn(PodBuilder) -> PodBuilder);

/// Each kind of pods has nodes of its own, or their order would count.
const KINDS: [Kind; 4] = [
    ("even", 20, |pod| {
        pod.request("cpu", "300m").node_selector("pool", "even")
    }),
    ("fond", 6, |pod| {
        pod.request("cpu", "100m")
            .node_selector("pool", "zoned")
            .affinity(prefers("zone", "b"))
    }),
    ("selective", 4, |pod| pod.node_selector("disk", "ssd")),
    ("tolerant", 4, |pod| {
        pod.node_selector("pool", "taken").tolerate(
            Some("dedicated"),
            Some("gpu"),
            Some("NoSchedule"),
        )
    }),
];

fn nodes() -> Vec<Node> {
    let mut nodes = build::nodes("even", 2, |node| node.label("pool", "even"));
    let cordoned = build::node("cordoned")
        .label("pool", "even")
        .unschedulable();
    let taken = build::node("taken")
        .label("pool", "taken")
        .taint("dedicated", "gpu", "NoSchedule");
    let zoned = |zone: &str| {
        let node = build::node(&format!("zone-{zone}"));
        node.label("pool", "zoned").label("zone", zone)
    };
    let others = [
        build::node("fast").label("disk", "ssd"),
        cordoned,
        taken,
        zoned("a"),
        zoned("b"),
    ];
    nodes.extend(others.map(build::NodeBuilder::build));
    nodes
}

fn prefers(key: &str, value: &str) -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![value.to_owned()]),
    };
    let preference = NodeSelectorTerm {
        match_expressions: Some(vec![requirement]),
        match_fields: None,
    };
    let preferred = PreferredSchedulingTerm {
        weight: 100,
        preference,
    };
    Affinity {
        node_affinity: Some(NodeAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// Needs what no plugin knows yet.
fn with_a_claim(pod: &mut Pod) {
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name: "data".to_owned(),
        ..PersistentVolumeClaimVolumeSource::default()
    };
    let volume = Volume {
        name: "data".to_owned(),
        persistent_volume_claim: Some(claim),
        ..Volume::default()
    };
    pod.spec.get_or_insert_default().volumes = Some(vec![volume]);
}

fn is_about(event: &Event, pod: &str) -> bool {
    let about = event.regarding.as_ref();
    about.and_then(|object| object.name.as_deref()) == Some(pod)
}

async fn create(pods: &Api<Pod>, pod: PodBuilder) {
    pods.create(&PostParams::default(), &pod.build())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_name_it_get_nodes_or_are_told_why_not_and_others_are_left_alone() {
    // Texts count nodes, so nobody else may add any.
    let plane = ControlPlane::builder("alone")
        .no_crds()
        .audit(audit::Policy::All)
        .kwok(nodes())
        .start()
        .await
        .unwrap();
    scheduler::install(&plane).await.unwrap();
    let process = scheduler::start(&plane, &[]).await.unwrap();
    let namespace = plane.namespace("alone").await.unwrap();
    let (pods, events) = (namespace.api::<Pod>(), namespace.api::<Event>());
    // They come first: when it has placed the others, it has seen them.
    create(&pods, build::pod("foreign").scheduler(OTHER)).await;
    create(&pods, build::pod("plain")).await;

    let mixed = KINDS.iter().flat_map(|(kind, count, shape)| {
        (0..*count).map(move |number| shape(build::pod(&format!("{kind}-{number}"))))
    });
    let mixed: Vec<_> = mixed.map(|pod| pod.scheduler(NAME)).collect();
    let count = mixed.len();
    stream::iter(mixed)
        .for_each_concurrent(10, |pod| create(&pods, pod))
        .await;
    let is_bound = |pod: &Pod| node_of(pod).is_some();
    let bound = wait_count(&pods, watcher::Config::default(), count, is_bound, LIMIT)
        .await
        .unwrap();
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for pod in &bound {
        let name = pod.name_any();
        let (kind, _) = name.rsplit_once('-').unwrap();
        let node = node_of(pod).unwrap();
        *found.entry((kind.to_owned(), node.to_owned())).or_default() += 1;
    }
    let want = [
        ("even", "even-0", 10),
        ("even", "even-1", 10),
        ("fond", "zone-b", 6),
        ("selective", "fast", 4),
        ("tolerant", "taken", 4),
    ];
    let want = want.map(|(kind, node, count)| ((kind.to_owned(), node.to_owned()), count));
    assert_eq!(found, BTreeMap::from(want));

    create(
        &pods,
        build::pod("big").scheduler(NAME).request("cpu", "64"),
    )
    .await;
    create(
        &pods,
        build::pod("claims").scheduler(NAME).tweak(with_a_claim),
    )
    .await;
    for (name, why) in [
        (
            "big",
            "0/7 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
             5 Insufficient cpu. no new claims to deallocate, preemption: 0/7 nodes are available: \
             7 Preemption is not helpful for scheduling.",
        ),
        (
            "claims",
            "0/7 nodes are available: needs persistent volumes, which this scheduler doesn't know yet. \
             no new claims to deallocate, preemption: 0/7 nodes are available: \
             7 Preemption is not helpful for scheduling.",
        ),
    ] {
        let pod = wait_for(&pods, name, |pod| scheduled(pod).is_some(), LIMIT)
            .await
            .unwrap();
        assert_eq!(scheduled(&pod), Some(("False", "Unschedulable", why)));
        assert_eq!(node_of(&pod), None);
        let is_it = |event: &Event| {
            is_about(event, name) && event.reason.as_deref() == Some("FailedScheduling")
        };
        let all = watcher::Config::default();
        let told = list_until(&events, all, |all| all.values().any(is_it), LIMIT)
            .await
            .unwrap();
        let told: Vec<_> = told.into_iter().filter(is_it).collect();
        let [event] = &told[..] else {
            panic!("one event is wanted: {told:#?}")
        };
        assert_eq!(event.note.as_deref(), Some(why));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.action.as_deref(), Some("Scheduling"));
        assert_eq!(event.reporting_controller.as_deref(), Some(NAME));
    }

    let left_alone = async |name: &str| {
        let pod = pods.get(name).await.unwrap();
        assert_eq!((node_of(&pod), scheduled(&pod)), (None, None), "{name}");
        let told = events.list(&ListParams::default()).await.unwrap();
        assert!(!told.iter().any(|event| is_about(event, name)), "{name}");
    };
    left_alone("foreign").await;
    left_alone("plain").await;

    // Under another name it works beside the first one, by a Lease of its own.
    let second = scheduler::start(&plane, &["--scheduler-name", OTHER])
        .await
        .unwrap();
    wait_for(&pods, "foreign", is_bound, LIMIT).await.unwrap();
    left_alone("plain").await;
    let leases: Api<Lease> = Api::namespaced(plane.admin(), HOME);
    let holder = async |name: &str| {
        let lease = leases.get(name).await.unwrap();
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        holder.filter(|holder| !holder.is_empty())
    };
    assert!(holder(NAME).await.is_some());
    let other_lease = format!("{NAME}-{OTHER}");
    assert!(holder(&other_lease).await.is_some());

    let (status, metrics) = process.admin_get("/metrics").await.unwrap();
    let line = metrics.lines().find(|line| {
        line.starts_with("scheduler_schedule_attempts_total{")
            && line.contains("result=\"scheduled\"")
    });
    let all = format!("}} {count}");
    assert!(
        status == 200 && line.is_some_and(|line| line.ends_with(&all)),
        "{metrics}"
    );
    let entries = plane.audit().unwrap().entries().await.unwrap();
    let refused: Vec<_> = entries
        .iter()
        .filter(|entry| entry.user == USER && entry.code == 403)
        .collect();
    assert!(refused.is_empty(), "the role lacks something: {refused:#?}");
    let ours = entries.iter().filter(|entry| entry.user == USER);
    let bound: usize = bindings(ours).values().sum();
    assert_eq!(bound, count + 1, "one binding a pod");

    for (process, lease) in [(process, NAME), (second, other_lease.as_str())] {
        let exit = process.stop(Duration::from_secs(30)).await;
        assert!(exit.is_some_and(Exit::success), "{}", process.tail());
        assert_eq!(holder(lease).await, None, "given back");
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dear_pod_that_fits_nowhere_has_cheaper_ones_evicted() {
    let plane = ControlPlane::builder("alone-dear")
        .no_crds()
        .kwok([build::node("only").cpu("4").memory("8Gi").build()])
        .start()
        .await
        .unwrap();
    let classes: Api<PriorityClass> = Api::all(plane.admin());
    let class = PriorityClass {
        metadata: ObjectMeta {
            name: Some("dear".to_owned()),
            ..ObjectMeta::default()
        },
        value: Some(1000),
        ..PriorityClass::default()
    };
    classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    scheduler::install(&plane).await.unwrap();
    let process = scheduler::start(&plane, &[]).await.unwrap();
    let namespace = plane.namespace("alone-dear").await.unwrap();
    let pods = namespace.api::<Pod>();
    let is_bound = |pod: &Pod| node_of(pod).is_some();
    for name in ["first", "second"] {
        let cheap = build::pod(name).scheduler(NAME).request("cpu", "2");
        create(&pods, cheap).await;
        wait_for(&pods, name, is_bound, LIMIT).await.unwrap();
    }
    let dear = build::pod("dear").scheduler(NAME).priority_class("dear");
    create(&pods, dear.request("cpu", "4")).await;
    for name in ["first", "second"] {
        wait_gone(&pods, name, LIMIT).await.unwrap();
    }
    let dear = wait_for(&pods, "dear", is_bound, LIMIT).await.unwrap();
    assert_eq!(node_of(&dear), Some("only"));
    let exit = process.stop(Duration::from_secs(30)).await;
    assert!(exit.is_some_and(Exit::success), "{}", process.tail());
    plane.stop().await;
}
