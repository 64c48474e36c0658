mod holds;

use std::{error::Error, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use pilotage_api::keys;
use pilotage_sched::{
    Attempt, FirstOfEquals, Moment, NodeName, Place, PodInfo, PodUid, ProfileError, Scheduler,
    SchedulerConfig, Stored, plugins::Binder,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    board::Board,
    plan::{Gate, Leave},
    plugins::candidate_profile,
};

struct NoBinder;

impl Binder for NoBinder {
    fn bind<'a>(
        &'a self,
        _pod: &'a PodInfo,
        _node: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async { Err("not in this test".into()) })
    }
}

/// A candidate `ns/NAME` with the label `app=web`, and this in its spec.
fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "labels": { "app": "web" } },
        "spec": { "schedulerName": keys::CANDIDATE_SCHEDULER, "containers": [] },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

/// A candidate's scheduler with two nodes.
struct Bench {
    scheduler: Scheduler,
    board: Arc<Board>,
}

impl Bench {
    fn new() -> Self {
        let board = Arc::new(Board::new());
        let profile = candidate_profile(board.clone(), Arc::new(NoBinder)).build();
        let mut scheduler = Scheduler::new([profile.unwrap()], SchedulerConfig::default()).unwrap();
        for name in ["n1", "n2"] {
            let node = json!({
                "metadata": {
                    "name": name,
                    "uid": name,
                    "labels": { "kubernetes.io/hostname": name, "zone": "z" },
                },
                "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
            });
            let node = Arc::new(serde_json::from_value(node).unwrap());
            scheduler.node_applied(&node, Moment::ZERO).unwrap();
        }
        Self { scheduler, board }
    }

    fn apply(&mut self, pod: &Value) {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let uid = pod.metadata.uid.clone().unwrap();
        self.board.set(&uid, Gate::Open, Leave::Offer);
        self.scheduler
            .pod_applied(Arc::new(pod), Moment::ZERO)
            .unwrap();
    }

    fn delete(&mut self, name: &str) {
        self.scheduler
            .pod_deleted(&PodUid::from(name), Moment::ZERO);
    }

    fn place(&self, name: &str) -> Option<Place> {
        self.scheduler.place(&PodUid::from(name))
    }

    /// Tries the next pod: what its chaperon is told; `None` if it got a node.
    fn try_next(&mut self) -> Option<String> {
        let attempt = self
            .scheduler
            .schedule_next(Moment::ZERO, &mut FirstOfEquals);
        match attempt.expect("a pod waits for its turn") {
            Attempt::Failed(failure) => Some(Refusal::of(&failure.cause).to_string()),
            Attempt::Assumed(_) => None,
            other => panic!("{other:?}"),
        }
    }

    /// What the chaperon of a new pod with this spec is told.
    fn told(&mut self, spec: &Value) -> Option<String> {
        self.apply(&pod("p", spec));
        let told = self.try_next();
        self.delete("p");
        told
    }
}

/// Required (or preferred) terms of inter-pod affinity or anti-affinity over zones, of which there is one.
fn affinity(kind: &str, required: bool) -> Value {
    affinity_over("zone", kind, required)
}

fn affinity_over(key: &str, kind: &str, required: bool) -> Value {
    let term = json!({
        "topologyKey": key,
        "labelSelector": { "matchLabels": { "app": "web" } },
    });
    let terms = if required {
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] })
    } else {
        let weighted = json!([{ "weight": 1, "podAffinityTerm": term }]);
        json!({ "preferredDuringSchedulingIgnoredDuringExecution": weighted })
    };
    json!({ "affinity": { kind: terms } })
}

fn spreading(key: &str, when_unsatisfiable: &str) -> Value {
    json!({ "topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] })
}

fn volume(source: &str, what: &Value) -> Value {
    json!({ "volumes": [{ "name": "v", source: what }] })
}

fn port(number: u16) -> Value {
    let ports = json!([{ "containerPort": 80, "hostPort": number }]);
    json!({ "containers": [{ "name": "c", "ports": ports }] })
}

#[test]
fn a_long_reason_is_cut_at_a_character() {
    for refusal in [Refusal::Unschedulable, Refusal::Unknown] {
        let text = refusal("é".repeat(1000)).to_string();
        assert!(text.len() <= "Unschedulable: ".len() + LONGEST && text.ends_with('é'));
    }
}

#[test]
fn what_no_plugin_knows_is_refused_by_its_name() {
    let disk = |source| (volume(source, &json!({})), Some("in-tree disks"));
    let file = |source| (volume(source, &json!({})), None);
    for (spec, needs) in [
        (json!({}), None),
        (port(80), None),
        (affinity("podAffinity", true), None),
        (affinity("podAffinity", false), None),
        (affinity("podAntiAffinity", true), None),
        (affinity("podAntiAffinity", false), None),
        (spreading("zone", "DoNotSchedule"), None),
        (spreading("zone", "ScheduleAnyway"), None),
        (
            volume("persistentVolumeClaim", &json!({ "claimName": "c" })),
            Some("persistent volumes"),
        ),
        (
            volume(
                "ephemeral",
                &json!({ "volumeClaimTemplate": { "spec": {} } }),
            ),
            Some("generic ephemeral volumes"),
        ),
        disk("awsElasticBlockStore"),
        disk("azureDisk"),
        disk("azureFile"),
        disk("cinder"),
        disk("gcePersistentDisk"),
        disk("iscsi"),
        disk("portworxVolume"),
        disk("rbd"),
        disk("vsphereVolume"),
        file("configMap"),
        file("csi"),
        file("downwardAPI"),
        file("emptyDir"),
        file("hostPath"),
        file("image"),
        file("nfs"),
        file("projected"),
        file("secret"),
        (
            json!({ "resourceClaims": [{ "name": "gpu", "resourceClaimName": "g" }] }),
            Some("resource claims"),
        ),
        (json!({ "resourceClaims": [] }), None),
        (
            json!({ "schedulingGroup": { "podGroupName": "g" } }),
            Some("pod groups"),
        ),
    ] {
        let text = |needs| {
            format!("refused: needs {needs}, which this candidate scheduler doesn't know yet")
        };
        assert_eq!(Bench::new().told(&spec), needs.map(text), "{spec}");
    }
}

#[test]
fn all_that_is_unknown_is_told_at_once() {
    let mut spec = json!({ "schedulingGroup": { "podGroupName": "g" } });
    let claims = json!({ "resourceClaims": [{ "name": "gpu", "resourceClaimName": "g" }] });
    for other in [claims, volume("cinder", &json!({}))] {
        for (key, value) in other.as_object().unwrap() {
            spec[key] = value.clone();
        }
    }
    let told = Bench::new().told(&spec).unwrap();
    assert_eq!(
        told,
        "refused: needs in-tree disks, resource claims and pod groups, which this candidate scheduler doesn't know yet"
    );
}

#[test]
fn a_host_port_is_had_once_a_node() {
    let mut bench = Bench::new();
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        bench.apply(&pod(name, &port(80)));
        assert_eq!(bench.try_next(), None, "{name}");
        let mut bound = pod(name, &port(80));
        bound["spec"]["nodeName"] = node.into();
        bench.apply(&bound);
    }
    bench.apply(&pod("c", &port(80)));
    let told = bench.try_next().unwrap();
    let taken = "2 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(
        told,
        format!("Unschedulable: 0/2 nodes are available: {taken}")
    );
    assert_eq!(bench.place("c"), Some(Place::Unschedulable));
    bench.delete("a");
    assert_eq!(
        bench.place("c"),
        Some(Place::Backoff),
        "its node has the port again"
    );
}

#[test]
fn a_pod_that_is_spread_waits_where_no_place_keeps_its_constraint() {
    let mut bench = Bench::new();
    for name in ["there", "there-too"] {
        bench.apply(&pod(name, &json!({ "nodeName": "n1" })));
    }
    let spread = spreading("kubernetes.io/hostname", "DoNotSchedule");
    bench.apply(&pod("p", &spread));
    assert_eq!(bench.try_next(), None, "the other node has none");
    bench.delete("p");
    let mut spread_on = spread.clone();
    spread_on["nodeSelector"] = json!({ "zone": "z" });
    spread_on["topologySpreadConstraints"][0]["minDomains"] = 3.into();
    bench.apply(&pod("away", &json!({ "nodeName": "n2" })));
    bench.apply(&pod("q", &spread_on));
    let told = "Unschedulable: 0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.";
    assert_eq!(bench.try_next().as_deref(), Some(told));
    bench.delete("away");
    assert_eq!(bench.place("q"), Some(Place::Backoff));
}

#[test]
fn other_refusals_read_as_ever() {
    let spec = json!({ "nodeSelector": { "disk": "ssd" } });
    let told = Bench::new().told(&spec).unwrap();
    assert!(
        told.starts_with("Unschedulable: 0/2 nodes are available: "),
        "{told}"
    );
}

#[test]
fn a_pod_that_needs_the_unknown_waits_for_its_spec_alone() {
    let mut bench = Bench::new();
    let claims = volume("persistentVolumeClaim", &json!({ "claimName": "c" }));
    bench.apply(&pod("p", &claims));
    assert!(bench.try_next().is_some());
    assert_eq!(bench.place("p"), Some(Place::Unschedulable));
    // Room, other pods and words of others: nothing of it can help.
    let node = json!({ "metadata": { "name": "n3", "uid": "n3" } });
    let node = Arc::new(serde_json::from_value(node).unwrap());
    bench.scheduler.node_applied(&node, Moment::ZERO).unwrap();
    bench
        .scheduler
        .node_deleted(&NodeName::from("n1"), Moment::ZERO);
    let mut other = affinity("podAntiAffinity", true);
    other["nodeName"] = "n2".into();
    bench.apply(&pod("other", &other));
    bench.delete("other");
    let mut said = pod("p", &claims);
    said["metadata"]["annotations"] = json!({ "a": "b" });
    said["metadata"]["labels"] = json!({});
    bench.apply(&said);
    assert_eq!(bench.place("p"), Some(Place::Unschedulable));
    bench.apply(&pod("p", &json!({})));
    assert_ne!(bench.place("p"), Some(Place::Unschedulable));
}

#[test]
fn a_pod_that_another_one_keeps_away_waits_until_that_is_gone() {
    let told = "Unschedulable: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.";
    let mut alone = affinity("podAntiAffinity", true);
    alone["nodeName"] = "n1".into();
    let mut bench = Bench::new();
    bench.apply(&pod("alone", &alone));
    bench.apply(&pod("unrelated", &json!({ "nodeName": "n2" })));
    bench.apply(&pod("p", &json!({})));
    assert_eq!(bench.try_next().as_deref(), Some(told));
    // What isn't about it doesn't help.
    bench.delete("unrelated");
    let mut said = pod("p", &json!({}));
    said["metadata"]["annotations"] = json!({ "a": "b" });
    bench.apply(&said);
    assert_eq!(bench.place("p"), Some(Place::Unschedulable));
    // Other labels do.
    said["metadata"]["labels"] = json!({ "app": "db" });
    bench.apply(&said);
    assert_eq!(bench.try_next(), None);
    bench.delete("p");
    // So does the end of the other one, or of its node.
    let helps: [fn(&mut Bench); 2] = [
        |bench| {
            bench
                .scheduler
                .node_deleted(&NodeName::from("n1"), Moment::ZERO);
        },
        |bench| bench.delete("alone"),
    ];
    for help in helps {
        bench = Bench::new();
        bench.apply(&pod("alone", &alone));
        bench.apply(&pod("p", &json!({})));
        assert_eq!(bench.try_next().as_deref(), Some(told));
        assert_eq!(bench.place("p"), Some(Place::Unschedulable));
        help(&mut bench);
        assert_eq!(bench.try_next(), None);
    }
}

#[test]
fn a_pod_that_wants_company_waits_for_it() {
    let mut bench = Bench::new();
    let mut lonely = pod("p", &affinity("podAffinity", true));
    lonely["metadata"]["labels"]["app"] = "db".into();
    bench.apply(&lonely);
    let told = "Unschedulable: 0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
    assert_eq!(bench.try_next().as_deref(), Some(told));
    bench.apply(&pod("web", &json!({ "nodeName": "n1" })));
    assert_eq!(bench.try_next(), None);
}

#[test]
fn a_pod_that_wants_to_be_alone_waits_until_it_would_be() {
    let mut bench = Bench::new();
    bench.apply(&pod("web", &json!({ "nodeName": "n1" })));
    bench.apply(&pod("p", &affinity("podAntiAffinity", true)));
    let told =
        "Unschedulable: 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(bench.try_next().as_deref(), Some(told));
    bench.delete("web");
    assert_eq!(bench.try_next(), None);
}

#[test]
fn a_pod_is_kept_away_no_further_than_the_other_one_says() {
    for (key, node) in [
        ("kubernetes.io/hostname", Some("n2")),
        ("no-node-has-this", Some("either")),
        ("zone", None),
    ] {
        let mut alone = affinity_over(key, "podAntiAffinity", true);
        alone["nodeName"] = "n1".into();
        let mut bench = Bench::new();
        bench.apply(&pod("alone", &alone));
        bench.apply(&pod("p", &json!({})));
        let attempt = bench
            .scheduler
            .schedule_next(Moment::ZERO, &mut FirstOfEquals);
        let placed = match attempt {
            Some(Attempt::Assumed(assumed)) => Some(assumed.node().to_string()),
            _ => None,
        };
        if node == Some("either") {
            assert!(placed.is_some(), "{key}");
        } else {
            assert_eq!(placed.as_deref(), node, "{key}");
        }
    }
}

#[test]
fn only_pods_that_a_term_means_are_kept_away() {
    let term = |namespaces: Value, app: &str| {
        let term = json!({
            "topologyKey": "zone",
            "namespaces": namespaces["names"],
            "namespaceSelector": namespaces["selector"],
            "labelSelector": { "matchLabels": { "app": app } },
        });
        let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        json!({ "nodeName": "n1", "affinity": { "podAntiAffinity": terms } })
    };
    let team = |name: &str| {
        let selector = json!({ "matchLabels": { "team": name } });
        term(json!({ "selector": selector }), "web")
    };
    for (what, term, refused) in [
        ("another namespace", term(json!({}), "web"), false),
        ("by name", term(json!({ "names": ["ns"] }), "web"), true),
        (
            "other labels",
            term(json!({ "names": ["ns"] }), "db"),
            false,
        ),
        ("by the namespace's label", team("x"), true),
        ("by another label", team("y"), false),
    ] {
        let mut other = pod("other", &term);
        other["metadata"]["namespace"] = "elsewhere".into();
        let mut bench = Bench::new();
        let namespace = json!({ "metadata": { "name": "ns", "labels": { "team": "x" } } });
        let namespace: Arc<Namespace> = Arc::new(serde_json::from_value(namespace).unwrap());
        bench
            .scheduler
            .apply(namespace.object(), Moment::ZERO)
            .unwrap();
        bench.apply(&other);
        assert_eq!(bench.told(&json!({})).is_some(), refused, "{what}");
    }
    let mut preferred = affinity("podAntiAffinity", false);
    preferred["nodeName"] = "n1".into();
    let mut bench = Bench::new();
    bench.apply(&pod("other", &preferred));
    assert_eq!(bench.told(&json!({})), None);
}

#[test]
fn no_configuration_switches_it_off() {
    let profile = candidate_profile(Arc::new(Board::new()), Arc::new(NoBinder));
    let error = profile.disable(UNKNOWN_CONSTRAINTS).build().unwrap_err();
    assert!(matches!(error, ProfileError::Mandatory { .. }), "{error}");
}

mod fuzz {
    //! Whatever pods ask for, they get a node or a short reason.

    use pilotage_absurd::{json as values, objects};
    use proptest::prelude::*;

    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn any_pod_is_placed_or_refused_in_few_words(
            spec in values::extreme(Just(objects::pod_spec())),
            other in values::extreme(Just(objects::pod_spec())),
        ) {
            let mut bench = Bench::new();
            for (name, mut spec) in [("other", other), ("p", spec)] {
                spec["schedulerName"] = keys::CANDIDATE_SCHEDULER.into();
                spec["nodeName"] = if name == "other" { json!("n1") } else { Value::Null };
                spec["schedulingGates"] = Value::Null;
                let pod = pod(name, &spec);
                if serde_json::from_value::<Pod>(pod.clone()).is_ok() {
                    bench.apply(&pod);
                    if name == "p" {
                        let told = bench.try_next().unwrap_or_default();
                        prop_assert!(told.len() <= 2048, "{}", told);
                    }
                }
            }
        }
    }
}
