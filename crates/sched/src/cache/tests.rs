use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Cache, CacheError, CacheSize, PodSeen};
use crate::names::NodeName;
use crate::pod_info::PodInfo;
use crate::table::{NodeInfo, Position, Reads};
use crate::test_objects::{node, pod, uid};

fn on(name: &str) -> NodeName {
    NodeName::from(name)
}

/// What a cache says of its nodes, without history (generations, order of pods).
fn contents(cache: &mut Cache) -> BTreeMap<String, String> {
    let nodes = cache.nodes().iter();
    nodes
        .map(|node| (node.name().to_string(), describe(node.row())))
        .collect()
}

fn version(pod: &PodInfo) -> Option<&str> {
    pod.pod()?.metadata.resource_version.as_deref()
}

fn describe(node: &NodeInfo) -> String {
    let sorted = |pods: &[Arc<PodInfo>]| {
        let mut pods = pods
            .iter()
            .map(|pod| format!("{}@{:?}", pod.uid, version(pod)))
            .collect::<Vec<_>>();
        pods.sort();
        pods
    };
    format!(
        "{:?} {:?} {:?} {:?} {:?}",
        sorted(node.pods()),
        node.requested(),
        node.used_ports(),
        node.non_zero_requested(),
        node.allocatable(),
    )
}

#[test]
fn images_are_those_of_the_nodes_that_are_there() {
    let mut cache = Cache::new();
    let tug = |cache: &mut Cache| {
        let spread = cache.nodes().images().of("tug:3");
        spread.map(|spread| (spread.size, spread.nodes))
    };
    cache.set_node(node("n").image("tug:3", 7).object());
    cache.set_node(node("m").image("tug:3", 9).object());
    assert_eq!(tug(&mut cache), Some((7, 2)));
    cache.rebuild();
    assert_eq!(tug(&mut cache).map(|(_, nodes)| nodes), Some(2));
    cache.set_node(node("n").image("tug:4", 7).object());
    assert_eq!(tug(&mut cache).map(|(_, nodes)| nodes), Some(1));
    cache.remove_node(&on("m"));
    assert_eq!(tug(&mut cache), None);
    assert!(cache.nodes().images().of("tug:4").is_some());
}

#[test]
fn a_change_that_broke_off_is_mended() {
    let mut cache = Cache::new();
    for (name, zone) in [("n", "z1"), ("m", "z2")] {
        let node = node(name).label("topology.kubernetes.io/zone", zone);
        cache.set_node(node.allocatable("cpu", "4").object());
    }
    cache.set_pod(pod("there").on("n").request("cpu", "1").info(), &on("n"));
    cache.set_pod(pod("ghost").on("gone").info(), &on("gone"));
    let held = pod("held").request("cpu", "1").info();
    cache.assume(held, &on("m")).unwrap();
    let (before, size) = (contents(&mut cache), cache.size());
    // A pod counts on its node, and nobody knows that it is there; another one doesn't count.
    let stray = pod("stray").request("cpu", "1").info();
    let id = |cache: &Cache, name| cache.nodes().id(&on(name)).unwrap();
    let n = id(&cache, "n");
    cache.nodes_mut().add_pod(n, stray);
    let m = id(&cache, "m");
    cache.nodes_mut().remove_pod(m, &uid("held"));
    assert_ne!(contents(&mut cache), before);
    assert!(cache.rebuild().is_empty());
    assert_eq!((contents(&mut cache), cache.size()), (before, size));
    assert!(cache.is_assumed(&uid("held")));
    let names: Vec<_> = cache.node_names().map(NodeName::as_str).collect();
    assert_eq!(names, ["n", "m"], "zones take turns");
    assert!(cache.remove_pod(&uid("ghost")).is_some());
}

#[test]
fn a_node_says_that_a_pod_on_it_could_not_be_taken_in_however_it_comes_and_goes() {
    let mut cache = Cache::new();
    let is_told = |cache: &mut Cache| {
        let node = cache.node(&on("n")).unwrap();
        node.unread_pod() == Some(&uid("bad"))
    };
    cache.set_unread(&on("n"), Some(uid("bad")));
    for _ in 0..2 {
        cache.set_node(node("n").object());
        assert!(is_told(&mut cache), "it came");
        cache.set_node(node("n").allocatable("cpu", "4").object());
        assert!(is_told(&mut cache), "it changed");
        assert!(cache.rebuild().is_empty());
        assert!(is_told(&mut cache), "it was made anew");
        cache.remove_node(&on("n"));
    }
    cache.set_node(node("n").object());
    cache.set_unread(&on("n"), None);
    assert!(!is_told(&mut cache));
    cache.set_unread(&on("n"), Some(uid("bad")));
    assert!(is_told(&mut cache));
}

#[test]
fn assume_then_forget_leaves_no_trace() {
    let mut cache = Cache::new();
    cache.set_node(node("n").allocatable("cpu", "4").object());
    cache.set_pod(pod("there").on("n").request("cpu", "1").info(), &on("n"));
    let before = contents(&mut cache);
    cache
        .assume(pod("new").request("cpu", "2").info(), &on("n"))
        .unwrap();
    assert!(cache.is_assumed(&uid("new")));
    assert_eq!(cache.node(&on("n")).unwrap().requested().milli_cpu, 3000);
    assert!(cache.forget(&uid("new")).is_some());
    assert_eq!(contents(&mut cache), before);
    assert!(
        cache.forget(&uid("there")).is_none(),
        "only assumed pods are forgotten"
    );
    assert_eq!(
        cache.size(),
        CacheSize {
            nodes: 1,
            pods: 1,
            assumed_pods: 0
        }
    );
}

#[test]
fn the_watch_confirms_or_corrects() {
    let mut cache = Cache::new();
    cache.set_node(node("a").object());
    cache.set_node(node("b").object());
    for name in ["right", "wrong"] {
        cache.assume(pod(name).info(), &on("a")).unwrap();
    }
    let again = cache.assume(pod("right").info(), &on("b")).unwrap_err();
    assert_eq!(
        again,
        CacheError::Known {
            uid: uid("right"),
            node: on("a")
        }
    );
    let seen = cache.set_pod(pod("right").on("a").info(), &on("a"));
    assert!(matches!(seen, PodSeen::Confirmed { .. }), "{seen:?}");
    let seen = cache.set_pod(pod("wrong").on("b").info(), &on("b"));
    assert!(
        matches!(&seen, PodSeen::Moved { from, .. } if *from == on("a")),
        "{seen:?}"
    );
    let seen = cache.set_pod(pod("wrong").on("b").info(), &on("b"));
    assert!(matches!(seen, PodSeen::Updated { .. }), "{seen:?}");
    let count = |name| cache.node(&on(name)).unwrap().pods().len();
    assert_eq!((count("a"), count("b")), (1, 1));
    assert_eq!(cache.size().assumed_pods, 0);
}

#[test]
fn pods_wait_for_their_node() {
    let mut cache = Cache::new();
    cache.set_pod(pod("early").on("n").request("cpu", "1").info(), &on("n"));
    assert!(cache.nodes().is_empty(), "a ghost isn't offered");
    cache.set_node(node("n").object());
    assert_eq!(
        cache.nodes().iter().next().unwrap().requested().milli_cpu,
        1000
    );
    cache.remove_node(&on("n"));
    assert!(cache.nodes().is_empty());
    assert!(cache.pod(&uid("early")).is_some());
    cache.set_node(node("n").object());
    assert_eq!(
        cache.nodes().iter().next().unwrap().pods().len(),
        1,
        "and comes back with its pods"
    );
}

#[test]
fn what_plugins_cannot_tell_apart_touches_no_node() {
    let mut cache = Cache::new();
    let object = || node("n").allocatable("cpu", "4").label("dock", "dry");
    cache.set_node(object().object());
    let needs = pod("p").request("cpu", "1").info().needs.clone();
    let pod_of = |version: &str, change: fn(PodInfo) -> PodInfo| {
        let pod = pod("p").on("n").request("cpu", "1");
        let pod = pod.edit(|pod| pod.metadata.resource_version = Some(version.into()));
        let mut pod = PodInfo::parse(pod.object()).unwrap();
        pod.needs = needs.clone();
        Arc::new(change(pod))
    };
    cache.assume(pod_of("1", |pod| pod), &on("n")).unwrap();
    let before = cache.nodes().position();
    cache.set_pod(pod_of("2", |pod| pod), &on("n"));
    cache.set_node(object().condition("Ready", "True").object());
    assert_eq!(cache.nodes().position(), before, "a kubelet wrote a status");
    let node = cache.node(&on("n")).unwrap();
    let known = version(&node.pods()[0]);
    assert_eq!(known, Some("2"), "the newest version is known all the same");
    let known = node.node().digests;
    assert_eq!(known, object().condition("Ready", "True").object().digests);

    let deleting = |mut pod: PodInfo| {
        pod.deleting = true;
        pod
    };
    cache.set_pod(pod_of("3", deleting), &on("n"));
    assert_eq!(told(&cache, before), [Reads::PODS, Reads::PODS]);
    let before = cache.nodes().position();
    cache.set_node(object().label("dock", "wet").object());
    assert_eq!(told(&cache, before), [Reads::OBJECT]);
}

fn told(cache: &Cache, since: Position) -> Vec<Reads> {
    let changes = cache.nodes().changes_since(since).unwrap();
    changes.map(|(_, what)| what).collect()
}

#[test]
fn a_node_that_changes_zone_is_searched_elsewhere() {
    let zoned = |name: &str, zone: &str| {
        node(name)
            .label("topology.kubernetes.io/zone", zone)
            .object()
    };
    let mut cache = Cache::new();
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y")] {
        cache.set_node(zoned(name, zone));
    }
    let names = |cache: &mut Cache| {
        cache
            .nodes()
            .iter()
            .map(|n| n.name().to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(&mut cache), "a c b");
    cache.set_node(zoned("a", "z"));
    assert_eq!(names(&mut cache), "b c a");
}

/// Something that happens to a cache.
#[derive(Clone, Debug)]
enum Op {
    SetNode { node: u8, cpu: u8 },
    RemoveNode { node: u8 },
    SetPod { pod: u8, node: u8, cpu: u8 },
    RemovePod { pod: u8 },
    Assume { pod: u8, node: u8, cpu: u8 },
    Forget { pod: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let (node, pod, cpu) = (0u8..4, 0u8..6, 0u8..4);
    prop_oneof![
        (node.clone(), cpu.clone()).prop_map(|(node, cpu)| Op::SetNode { node, cpu }),
        node.clone().prop_map(|node| Op::RemoveNode { node }),
        (pod.clone(), node.clone(), cpu.clone()).prop_map(|(pod, node, cpu)| Op::SetPod {
            pod,
            node,
            cpu
        }),
        pod.clone().prop_map(|pod| Op::RemovePod { pod }),
        (pod.clone(), node, cpu).prop_map(|(pod, node, cpu)| Op::Assume { pod, node, cpu }),
        pod.prop_map(|pod| Op::Forget { pod }),
    ]
}

fn name(prefix: &str, number: u8) -> String {
    format!("{prefix}{number}")
}

fn make_pod(number: u8, cpu: u8) -> Arc<PodInfo> {
    use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity};
    let amount = cpu.to_string();
    pod(&name("p", number))
        .request("cpu", &amount)
        .edit(|pod| {
            pod.metadata.resource_version = Some(amount.clone());
            let spec = pod.spec.get_or_insert_default();
            if cpu == 3 {
                let anti = PodAntiAffinity {
                    required_during_scheduling_ignored_during_execution: Some(vec![
                        PodAffinityTerm::default(),
                    ]),
                    ..PodAntiAffinity::default()
                };
                spec.affinity = Some(Affinity {
                    pod_anti_affinity: Some(anti),
                    ..Affinity::default()
                });
            }
            if cpu == 2 {
                spec.containers[0].ports = Some(vec![k8s_openapi::api::core::v1::ContainerPort {
                    host_port: Some(80),
                    ..Default::default()
                }]);
            }
        })
        .info()
}

proptest! {
    #[test]
    fn any_history_equals_the_final_objects(ops in proptest::collection::vec(op(), 0..60)) {
        let mut cache = Cache::new();
        let mut nodes: BTreeMap<u8, u8> = BTreeMap::new();
        // Pod → (node, cpu, assumed).
        let mut pods: BTreeMap<u8, (u8, u8, bool)> = BTreeMap::new();
        let make_node = |number, cpu: u8| {
            node(&name("n", number)).allocatable("cpu", &cpu.to_string()).object()
        };
        for op in ops {
            match op {
                Op::SetNode { node, cpu } => {
                    cache.set_node(make_node(node, cpu));
                    nodes.insert(node, cpu);
                }
                Op::RemoveNode { node } => {
                    cache.remove_node(&on(&name("n", node)));
                    nodes.remove(&node);
                }
                Op::SetPod { pod, node, cpu } => {
                    cache.set_pod(make_pod(pod, cpu), &on(&name("n", node)));
                    pods.insert(pod, (node, cpu, false));
                }
                Op::RemovePod { pod } => {
                    cache.remove_pod(&uid(&name("p", pod)));
                    pods.remove(&pod);
                }
                Op::Assume { pod, node, cpu } => {
                    let assumed = cache.assume(make_pod(pod, cpu), &on(&name("n", node))).is_ok();
                    prop_assert_eq!(assumed, !pods.contains_key(&pod));
                    pods.entry(pod).or_insert((node, cpu, true));
                }
                Op::Forget { pod } => {
                    let was_assumed = pods.get(&pod).is_some_and(|(_, _, assumed)| *assumed);
                    prop_assert_eq!(cache.forget(&uid(&name("p", pod))).is_some(), was_assumed);
                    if was_assumed {
                        pods.remove(&pod);
                    }
                }
            }
        }
        let mut rebuilt = Cache::new();
        for (node, cpu) in &nodes {
            rebuilt.set_node(make_node(*node, *cpu));
        }
        for (pod, (node, cpu, assumed)) in &pods {
            let (pod, node) = (make_pod(*pod, *cpu), on(&name("n", *node)));
            if *assumed {
                rebuilt.assume(pod, &node).unwrap();
            } else {
                rebuilt.set_pod(pod, &node);
            }
        }
        prop_assert_eq!(contents(&mut cache), contents(&mut rebuilt));
        prop_assert_eq!(cache.size(), rebuilt.size());
        let names = |cache: &mut Cache| {
            cache.nodes().iter().map(|n| n.name().clone()).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&mut cache), names(&mut rebuilt));
    }
}
