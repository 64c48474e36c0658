use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Pod, PodCondition, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{PodRequests, pod_requests};
use crate::resources::{DEFAULT_MEMORY, DEFAULT_MILLI_CPU};
use crate::test_objects::{container, pod};

const MI: i64 = 1 << 20;

fn list(entries: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    entries
        .iter()
        .map(|(k, v)| ((*k).into(), Quantity((*v).into())))
        .collect()
}

fn sidecar(name: &str, requests: &[(&str, &str)]) -> Container {
    Container {
        restart_policy: Some("Always".into()),
        ..container(name, requests)
    }
}

fn with(change: impl FnOnce(&mut Pod)) -> Pod {
    Pod::clone(&pod("a").edit(change).object())
}

fn containers(apps: Vec<Container>, inits: Vec<Container>) -> Pod {
    with(|pod| {
        let spec = pod.spec.get_or_insert_default();
        spec.containers = apps;
        spec.init_containers = Some(inits);
    })
}

fn sum(pod: &Pod) -> PodRequests {
    pod_requests(pod, &mut |path, error| panic!("{path} {error}"))
}

#[test]
fn containers_and_init_containers() {
    let cpu = |milli: &'static str| [("cpu", milli)];
    let two = || vec![container("a", &cpu("300m")), container("b", &cpu("100m"))];
    for (what, apps, inits, milli) in [
        ("apps add up", two(), vec![], 400),
        (
            "an init container runs alone",
            two(),
            vec![container("i", &cpu("500m"))],
            500,
        ),
        (
            "init containers run one after the other",
            two(),
            vec![container("i", &cpu("300m")), container("j", &cpu("350m"))],
            400,
        ),
        (
            "a sidecar runs beside later init containers",
            two(),
            vec![sidecar("s", &cpu("200m")), container("i", &cpu("500m"))],
            700,
        ),
        (
            "but not beside earlier ones",
            two(),
            vec![container("i", &cpu("500m")), sidecar("s", &cpu("200m"))],
            600,
        ),
        (
            "sidecars add up",
            two(),
            vec![
                sidecar("s", &cpu("200m")),
                sidecar("t", &cpu("250m")),
                container("i", &cpu("10m")),
            ],
            850,
        ),
    ] {
        assert_eq!(
            sum(&containers(apps, inits)).total.milli_cpu,
            milli,
            "{what}"
        );
    }
}

#[test]
fn overhead_comes_last() {
    let mut pod = containers(
        vec![
            container("a", &[("cpu", "300m")]),
            container("b", &[("cpu", "100m")]),
        ],
        vec![
            sidecar("s", &[("cpu", "200m")]),
            container("i", &[("cpu", "500m")]),
        ],
    );
    pod.spec.get_or_insert_default().overhead = Some(list(&[("cpu", "50m"), ("memory", "1Mi")]));
    let total = sum(&pod).total;
    assert_eq!((total.milli_cpu, total.memory), (750, MI));
}

#[test]
fn pod_level_requests_replace_those_that_they_may() {
    let mut pod = containers(
        vec![container("a", &[("cpu", "1"), ("x.y/dock", "2")])],
        vec![],
    );
    pod.spec.get_or_insert_default().resources = Some(ResourceRequirements {
        requests: Some(list(&[
            ("cpu", "250m"),
            ("memory", "8Mi"),
            ("x.y/dock", "9"),
            ("hugepages-2Mi", "4Mi"),
        ])),
        ..ResourceRequirements::default()
    });
    let requests = sum(&pod);
    let total = requests.total;
    assert_eq!(requests.asked, total);
    assert_eq!((total.milli_cpu, total.memory), (250, 8 * MI));
    assert_eq!(
        (total.scalar("x.y/dock"), total.scalar("hugepages-2Mi")),
        (2, 4 * MI)
    );
    assert_eq!(
        requests.non_zero.memory,
        8 * MI,
        "no default beside a pod-level request"
    );
}

#[test]
fn defaults_count_only_for_scoring_and_a_stated_zero_stays() {
    let pod = containers(
        vec![
            container("none", &[]),
            container("zero", &[("cpu", "0"), ("memory", "0")]),
        ],
        vec![],
    );
    let requests = sum(&pod);
    assert!(requests.total.is_zero());
    assert_eq!(requests.non_zero.milli_cpu, DEFAULT_MILLI_CPU);
    assert_eq!(requests.non_zero.memory, DEFAULT_MEMORY);
}

fn resized(node: Option<&str>, infeasible: bool) -> Pod {
    let status = |name: &str, actual: &str, allocated: &str| ContainerStatus {
        name: name.into(),
        resources: Some(ResourceRequirements {
            requests: Some(list(&[("cpu", actual)])),
            ..ResourceRequirements::default()
        }),
        allocated_resources: Some(list(&[("cpu", allocated)])),
        ..ContainerStatus::default()
    };
    let mut pod = containers(
        vec![container("a", &[("cpu", "900m")])],
        vec![sidecar("s", &[("cpu", "100m")])],
    );
    pod.spec.get_or_insert_default().node_name = node.map(Into::into);
    let known = pod.status.get_or_insert_default();
    known.container_statuses = Some(vec![status("a", "500m", "700m")]);
    known.init_container_statuses = Some(vec![status("s", "50m", "200m")]);
    if infeasible {
        known.conditions = Some(vec![PodCondition {
            type_: "PodResizePending".into(),
            status: "True".into(),
            reason: Some("Infeasible".into()),
            ..PodCondition::default()
        }]);
    }
    pod
}

#[test]
fn a_resize_under_way_counts_with_the_largest_value() {
    for node in [None, Some("n")] {
        let requests = sum(&resized(node, false));
        assert_eq!(requests.total.milli_cpu, 1100);
        assert_eq!(
            requests.asked.milli_cpu, 1000,
            "a node is looked for by the spec"
        );
        assert_eq!(requests.ranked.milli_cpu, 1000);
        let requests = sum(&resized(node, true));
        assert_eq!(requests.total.milli_cpu, 900, "the spec can't be had");
        assert_eq!(requests.asked.milli_cpu, 1000);
    }
}

#[test]
fn of_several_statuses_of_a_container_the_last_counts() {
    let mut pod = resized(Some("n"), false);
    let status = pod.status.get_or_insert_default();
    let mut later = status.container_statuses.clone().unwrap_or_default();
    later[0].resources = None;
    status
        .init_container_statuses
        .get_or_insert_default()
        .append(&mut later);
    assert_eq!(sum(&pod).total.milli_cpu, 1100, "of a: 900m of the spec");
    let later = &mut status_of(&mut pod)[1];
    later.resources = Some(ResourceRequirements::default());
    later.allocated_resources = Some(list(&[("cpu", "1")]));
    assert_eq!(sum(&pod).total.milli_cpu, 1200, "of a: 1 granted");
}

fn status_of(pod: &mut Pod) -> &mut Vec<ContainerStatus> {
    let status = pod.status.get_or_insert_default();
    status.init_container_statuses.get_or_insert_default()
}

#[test]
fn a_resize_of_the_pod_as_a_whole_counts_with_the_largest_value() {
    type Amounts = &'static [(&'static str, &'static str)];
    let resized = |node: &str, actual: Option<Amounts>, allocated: Amounts, pending: &[&str]| {
        let mut pod = containers(vec![container("a", &[("cpu", "100m")])], vec![]);
        let requirements = |amounts: Amounts| ResourceRequirements {
            requests: Some(list(amounts)),
            ..ResourceRequirements::default()
        };
        let spec = pod.spec.get_or_insert_default();
        spec.node_name = Some(node.into());
        spec.resources = Some(requirements(&[("cpu", "500m"), ("memory", "8Mi")]));
        let status = pod.status.get_or_insert_default();
        status.resources = actual.map(requirements);
        status.allocated_resources = Some(list(allocated));
        let condition = |reason: &&str| PodCondition {
            type_: "PodResizePending".into(),
            status: "False".into(),
            reason: Some((*reason).into()),
            ..PodCondition::default()
        };
        status.conditions = Some(pending.iter().map(condition).collect());
        sum(&pod)
    };
    let cpu = |amount| -> Option<Amounts> {
        match amount {
            400 => Some(&[("cpu", "400m")]),
            600 => Some(&[("cpu", "600m")]),
            _ => None,
        }
    };
    for (what, found, milli_cpu, memory) in [
        (
            "what is in force",
            resized("n", cpu(600), &[], &[]),
            600,
            8 * MI,
        ),
        (
            "what is granted",
            resized("n", cpu(400), &[("cpu", "700m"), ("memory", "9Mi")], &[]),
            700,
            9 * MI,
        ),
        (
            "what is asked for",
            resized(
                "n",
                cpu(400),
                &[("cpu", "450m")],
                &["Deferred", "Infeasible"],
            ),
            500,
            8 * MI,
        ),
        (
            "what is granted alone isn't told yet",
            resized("n", None, &[("cpu", "700m")], &[]),
            500,
            8 * MI,
        ),
        (
            "what can't be had isn't asked for",
            resized("n", cpu(400), &[("cpu", "450m")], &["Infeasible"]),
            450,
            0,
        ),
        (
            "nothing but what the spec names",
            resized("n", cpu(400), &[("hugepages-2Mi", "2Mi")], &[]),
            500,
            8 * MI,
        ),
    ] {
        let totals = (found.total.milli_cpu, found.total.memory);
        assert_eq!(totals, (milli_cpu, memory), "{what}");
        assert_eq!(found.total.scalars().len(), 0, "{what}");
        assert_eq!(found.non_zero, found.total, "{what}: no default is needed");
        let asked = (found.asked.milli_cpu, found.asked.memory);
        assert_eq!(asked, (500, 8 * MI), "{what}");
    }
}

/// A pod with pod-level requests, one container that states CPU and one that states nothing.
fn whole_and_parts(whole: &[(&str, &str)]) -> Pod {
    let mut pod = containers(
        vec![container("a", &[("cpu", "70m")]), container("b", &[])],
        vec![],
    );
    pod.spec.get_or_insert_default().resources = Some(ResourceRequirements {
        requests: Some(list(whole)),
        ..ResourceRequirements::default()
    });
    pod
}

#[test]
fn beside_pod_level_requests_only_what_nobody_states_gets_defaults() {
    const HUGE: (&str, &str) = ("hugepages-2Mi", "2Mi");
    for (what, whole, milli_cpu, memory) in [
        (
            "none at all",
            &[][..],
            70 + DEFAULT_MILLI_CPU,
            2 * DEFAULT_MEMORY,
        ),
        (
            "only of what a pod can't state as a whole",
            &[("x.y/dock", "1")],
            70 + DEFAULT_MILLI_CPU,
            2 * DEFAULT_MEMORY,
        ),
        (
            "CPU of one container is stated",
            &[HUGE],
            70,
            2 * DEFAULT_MEMORY,
        ),
        ("memory as a whole", &[("memory", "1Mi")], 70, MI),
        ("CPU as a whole", &[("cpu", "1")], 1000, 2 * DEFAULT_MEMORY),
        (
            "zero is a statement",
            &[("cpu", "1"), ("memory", "0")],
            1000,
            0,
        ),
    ] {
        let requests = sum(&whole_and_parts(whole));
        let found = (requests.non_zero.milli_cpu, requests.non_zero.memory);
        assert_eq!(found, (milli_cpu, memory), "{what}");
        let ranked = (requests.ranked.milli_cpu, requests.ranked.memory);
        let containers = (70 + DEFAULT_MILLI_CPU, 2 * DEFAULT_MEMORY);
        assert_eq!(ranked, containers, "{what}: ranked by its containers alone");
    }
    let mut overhead = whole_and_parts(&[HUGE]);
    overhead.spec.get_or_insert_default().overhead = Some(list(&[("memory", "3Mi")]));
    let requests = sum(&overhead);
    assert_eq!(
        requests.non_zero.memory,
        3 * MI,
        "overhead states memory, too"
    );
    assert_eq!(requests.ranked.memory, 2 * DEFAULT_MEMORY + 3 * MI);
}

#[test]
fn amounts_are_added_before_they_are_rounded() {
    let part = |name| container(name, &[("cpu", "100u"), ("memory", "400m")]);
    let total = sum(&containers(vec![part("a"), part("b")], vec![])).total;
    assert_eq!((total.milli_cpu, total.memory), (1, 1));
    let most = |name| container(name, &[("memory", "9223372036854775807")]);
    let total = sum(&containers(vec![most("a"), most("b")], vec![])).total;
    assert_eq!(total.memory, i64::MAX, "as much as 64 bits hold");
    let less = container("less", &[("memory", "-5")]);
    let total = sum(&containers(
        vec![container("a", &[("memory", "3")]), less],
        vec![],
    ))
    .total;
    assert_eq!(total.memory, 3, "nobody makes room");
}

#[test]
fn malformed_amounts_are_told_once_with_their_place() {
    let info = pod("a")
        .request("cpu", "lots")
        .request("memory", "1Mi")
        .info();
    let defects = info
        .defects()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert_eq!(
        defects,
        ["spec.containers[main].resources.requests[cpu] has no number"]
    );
    assert_eq!(info.needs.requests.total.memory, MI, "the rest counts");
}
