//! The real binary and ours, each in a cluster of its own with a real API server: generated pods one after another, as
//! many as `DIFF_REAL_PODS` says.
//! Our framework says of each what must become of it, from what that API server shows just then: which nodes are best,
//! or what condition and event say. Their types and reasons are those of the real one.
//!
//! Equally good nodes are drawn by each side, so the clusters go different ways; each is judged by its own state.

mod preemption;

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, Pod, PodCondition, ReplicationController, Service,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use pilotage_sched::plugins::{DEFAULT_PREEMPTION, DYNAMIC_RESOURCES};
use pilotage_sched_diff::configuration::{Configuration, Enabled, PROFILE};
use pilotage_sched_diff::explained::is_extreme;
use pilotage_sched_diff::side::Side as _;
use pilotage_sched_diff::subject::Subject;
use pilotage_sched_diff::verdict::Verdict;
use pilotage_sched_diff::{Step, generate, label_keys, object};
use pilotage_testkit::build::PodBuilder;
use pilotage_testkit::pilotage::{ADMIN_PORT, DIRECTORY, PilotageProcess};
use pilotage_testkit::{ControlPlane, LIMIT, build, list_until, wait_for, wait_gone};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Pods that each side has to place or to refuse, unless `DIFF_REAL_PODS` says otherwise: `make diff-test` has more.
const PODS: usize = 100;
const NAMESPACES: [&str; 2] = ["default", "shop"];
/// What is named so shows how far a scheduler's watches have come.
const SENTINEL: &str = "sentinel";
/// Pods that make a node so full that a Service keeps others away, and how often it is tried whether it does by now.
const CROWD: usize = 4;
const TRIES: usize = 500;
/// The longest note of an event, as the API takes it.
const NOTE: usize = 1024;
const REAL: &str = "real";
/// An explained difference: the real one fails the cycle.
const NO_INTEGER: &str = "the value must be an integer";

/// The default profile; what it says of devices stands in each report.
fn with_devices() -> Configuration {
    let mut configuration = Configuration::default();
    let plugins = &mut configuration.plugins;
    let is_next = |plugin: &Enabled| plugin.name == DEFAULT_PREEMPTION;
    let at = plugins.iter().position(is_next).unwrap();
    let name = DYNAMIC_RESOURCES.to_owned();
    plugins.insert(at, Enabled { name, weight: None });
    configuration
}

/// A cluster with one of the two schedulers.
struct Yard {
    plane: ControlPlane,
    nodes: Api<Node>,
    judged: usize,
    bound: usize,
}

impl Yard {
    async fn new(plane: ControlPlane) -> Self {
        let shop = plane.named_namespace(NAMESPACES[1], BTreeMap::new()).await;
        shop.unwrap().keep();
        Self {
            nodes: Api::all(plane.admin()),
            plane,
            judged: 0,
            bound: 0,
        }
    }

    fn is_real(&self) -> bool {
        self.plane.name() == REAL
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.plane.admin(), namespace)
    }

    fn services(&self, namespace: &str) -> Api<Service> {
        Api::namespaced(self.plane.admin(), namespace)
    }

    async fn add_pod(&self, pod: PodBuilder) -> Pod {
        let pods = self.pods("default");
        let created = pods.create(&PostParams::default(), &pod.build()).await;
        created.unwrap()
    }

    /// Creates a Service. A headless one needs no ports.
    async fn add_service(&self, service: &Value) {
        let mut service: Service = serde_json::from_value(service.clone()).unwrap();
        service.spec.get_or_insert_default().cluster_ip = Some("None".to_owned());
        let services = self.services(&service.namespace().unwrap());
        let created = services.create(&PostParams::default(), &service).await;
        created.unwrap();
    }

    /// Creates what pods may be spread by beside Services. There is no controller that would make pods of it.
    async fn add_controller<K: Namespaced>(&self, controller: &Value) {
        let controller: K = serde_json::from_value(with_template(controller.clone())).unwrap();
        let namespace = controller.namespace().unwrap();
        let api: Api<K> = Api::namespaced(self.plane.admin(), &namespace);
        let created = api.create(&PostParams::default(), &controller).await;
        created.unwrap();
    }

    async fn clear_controllers<K: Namespaced>(&self, namespace: &str) {
        let api: Api<K> = Api::namespaced(self.plane.admin(), namespace);
        let now = DeleteParams::background().grace_period(0);
        let deleted = api.delete_collection(&now, &ListParams::default()).await;
        deleted.unwrap();
    }

    /// Creates a node as it is: admission's taint goes off again, and an update follows, since kube-scheduler counts
    /// images when nodes come or change.
    async fn add_node(&self, node: &Value) {
        let node: Node = serde_json::from_value(node.clone()).unwrap();
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
        let created = self.nodes.create(&PostParams::default(), &node).await;
        created.unwrap();
        let patch = json!({ "spec": { "taints": taints } });
        self.patch_node(&node.name_any(), patch).await;
    }

    async fn patch_node(&self, name: &str, patch: Value) {
        let (nodes, patch) = (&self.nodes, Patch::Merge(patch));
        let done = nodes.patch(name, &PatchParams::default(), &patch).await;
        done.unwrap();
    }

    /// Waits until the scheduler has seen everything that was written so far. It likes the large one of two new nodes
    /// better until it knows a new Service, whose pods are there.
    async fn see(&self, number: u64) {
        let name = format!("{SENTINEL}-{number}");
        let (large, small) = (format!("{name}-large"), format!("{name}-small"));
        let service = json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {SENTINEL: name}}});
        self.add_service(&service).await;
        for (node, cpu) in [(&large, "64"), (&small, "2")] {
            let node = build::node(node).cpu(cpu).memory("64Gi");
            let node = node.label(SENTINEL, &name);
            let node = node.taint(SENTINEL, "", "NoSchedule").value();
            self.add_node(&node).await;
        }
        let pods = self.pods("default");
        for at in 0..CROWD {
            let pod = build::pod(&format!("{name}-crowd-{at}")).node_name(&large);
            self.add_pod(pod.label(SENTINEL, &name)).await;
        }
        for at in 0..TRIES {
            let tried = format!("{name}-{at}");
            let pod = build::pod(&tried)
                .request("cpu", "1")
                .tolerate(Some(SENTINEL), None, Some("NoSchedule"))
                .node_selector(SENTINEL, &name);
            self.add_pod(pod.label(SENTINEL, &name)).await;
            let bound = wait_for(&pods, &tried, |pod| node_of(pod).is_some(), LIMIT).await;
            if node_of(&bound.unwrap()) == Some(&*small) {
                return;
            }
            self.delete("default", &tried).await;
        }
        panic!("{}: it never learns of a Service", self.plane.name());
    }

    /// Plays the pods of a seed's case.
    async fn play(&mut self, seed: u64) {
        let case = generate(seed);
        let steps = case.steps.iter().map(Step::object);
        if case.objects.iter().chain(steps).any(is_extreme) {
            // An explained difference: the real one's sums wrap.
            return;
        }
        let kind = |wanted: &'static str| {
            let all = case.objects.iter();
            all.filter(move |object| object::kind(object) == wanted)
        };
        // By name, as our framework is told of them: an image has the size that the first of its nodes tells.
        let mut nodes: Vec<_> = kind("Node").collect();
        nodes.sort_by_key(|node| object::key(node));
        for node in &nodes {
            self.add_node(node).await;
        }
        for node in nodes {
            let touched = json!({ "metadata": { "annotations": { "example.com/touched": "" } } });
            self.patch_node(object::name(node), touched).await;
        }
        for service in kind("Service") {
            self.add_service(service).await;
        }
        for controller in &case.objects {
            match object::kind(controller) {
                "ReplicationController" => {
                    self.add_controller::<ReplicationController>(controller)
                        .await;
                }
                "ReplicaSet" => self.add_controller::<ReplicaSet>(controller).await,
                "StatefulSet" => self.add_controller::<StatefulSet>(controller).await,
                _ => {}
            }
        }
        for pod in kind("Pod") {
            // Some are as no API server takes them any more.
            self.create(pod).await;
        }
        self.see(seed).await;
        for step in &case.steps {
            let (Step::Schedule(pod) | Step::Ask(pod)) = step else {
                continue;
            };
            let is_gated = !object::list(pod, "/spec/schedulingGates").is_empty();
            if object::node_of(pod).is_some() || is_gated {
                continue;
            }
            if let Some(pod) = self.create(pod).await {
                self.judge(seed, &pod).await;
            }
        }
        self.clear().await;
    }

    /// Creates a pod, if this API server takes it: priorities come from classes, and some gates are off.
    async fn create(&self, pod: &Value) -> Option<Pod> {
        let mut pod = pod.clone();
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("priority");
            spec.remove("preemptionPolicy");
        }
        label_keys::as_written(&mut pod);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pods = self.pods(&pod.namespace().unwrap());
        match pods.create(&PostParams::default(), &pod).await {
            Ok(created) => Some(created),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 409 | 422) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Compares what became of a pod with what our framework says.
    async fn judge(&mut self, seed: u64, pod: &Pod) {
        let name = pod.name_any();
        let namespace = pod.namespace().unwrap();
        let pods = self.pods(&namespace);
        let expected = self.expected(pod).await;
        let decided = |pod: &Pod| node_of(pod).is_some() || refusal(pod).is_some();
        let decided = wait_for(&pods, &name, decided, LIMIT).await.unwrap();
        let what = format!("{}, seed {seed}, pod {namespace}/{name}", self.plane.name());
        let said = condition(&decided).map(|condition| {
            let reason = condition.reason.as_deref().unwrap_or_default();
            (condition.status.as_str(), reason)
        });
        let note = if let Some(node) = node_of(&decided) {
            // The API server says so when it binds a pod.
            assert_eq!(said, Some(("True", "")), "{what}");
            let best = expected.best.iter().any(|best| best == node);
            assert!(best, "{what} is on {node}: {expected:#?}");
            self.bound += 1;
            format!("Successfully assigned {namespace}/{name} to {node}")
        } else {
            let told = refusal(&decided).unwrap();
            if self.is_real() && told.contains(NO_INTEGER) {
                assert_eq!(said, Some(("False", "SchedulerError")), "{what}");
                return self.delete(&namespace, &name).await;
            }
            assert_eq!(said, Some(("False", "Unschedulable")), "{what}");
            assert_eq!(Some(told), expected.message.as_deref(), "{what}");
            told.to_owned()
        };
        self.told(&namespace, &decided, &what, &note).await;
        if node_of(&decided).is_none() {
            // It would come back with every event.
            self.delete(&namespace, &name).await;
        }
        self.judged += 1;
    }

    /// Whether there is the event: of the type, reason and action of what became of the pod, with this note.
    async fn told(&self, namespace: &str, pod: &Pod, what: &str, note: &str) {
        let events: Api<Event> = Api::namespaced(self.plane.admin(), namespace);
        let is_it = |event: &Event| {
            let about = event.regarding.as_ref();
            about.and_then(|object| object.uid.as_ref()) == pod.metadata.uid.as_ref()
        };
        let all = watcher::Config::default();
        let seen = list_until(&events, all, |all| all.values().any(is_it), LIMIT).await;
        let seen = seen.unwrap_or_else(|error| panic!("{what}: {error}"));
        let wanted = if node_of(pod).is_some() {
            ["Normal", "Scheduled", "Binding"]
        } else {
            ["Warning", "FailedScheduling", "Scheduling"]
        };
        for event in seen.iter().filter(|event| is_it(event)) {
            let is = [&event.type_, &event.reason, &event.action];
            assert_eq!(is.map(Option::as_deref), wanted.map(Some), "{what}");
            let by = event.reporting_controller.as_deref();
            assert_eq!(by, Some(PROFILE), "{what}");
            assert!(event.reporting_instance.is_some(), "{what}");
            let told = event.note.as_deref().unwrap_or_default();
            let kept = told.strip_suffix(" ...").filter(|_| note.len() > NOTE);
            assert!(
                kept.map_or(told == note, |kept| note.starts_with(kept)),
                "{what}: the event says {told:?}, the condition {note:?}"
            );
        }
    }

    /// What our framework says of the pod, given what there is; of preemption, too, which helps nobody here: all have
    /// the same priority.
    async fn expected(&self, pod: &Pod) -> Verdict {
        self.framework(pod).await.evaluate(&value(pod)).unwrap()
    }

    /// Our framework with all that there is, but for the pod and others without a node.
    async fn framework(&self, pod: &Pod) -> Subject {
        let client = self.plane.admin();
        let nodes = self.nodes.list(&ListParams::default()).await.unwrap();
        let pods = listed::<Pod>(&client).await;
        let placed = pods.iter().filter(|other| node_of(other).is_some());
        let namespaces = listed::<Namespace>(&client).await;
        let services = listed::<Service>(&client).await;
        let budgets = listed::<PodDisruptionBudget>(&client).await;
        let older = listed::<ReplicationController>(&client).await;
        let sets = listed::<ReplicaSet>(&client).await;
        let stateful = listed::<StatefulSet>(&client).await;
        let around = nodes.iter().map(value).chain(namespaces.iter().map(value));
        let around = around.chain(services.iter().map(value));
        let around = around.chain(budgets.iter().map(value));
        let around = around.chain(older.iter().map(value));
        let around = around.chain(sets.iter().map(value));
        let around = around.chain(stateful.iter().map(value));
        let objects = around.chain(placed.filter_map(|other| {
            let other_pod = other.uid() != pod.uid();
            other_pod.then(|| value(other))
        }));
        let mut subject = Subject::default();
        let objects: Vec<Value> = objects.collect();
        subject.open(&with_devices(), &objects).unwrap();
        subject
    }

    async fn delete(&self, namespace: &str, name: &str) {
        let pods = self.pods(namespace);
        let now = DeleteParams::default().grace_period(0);
        pods.delete(name, &now).await.unwrap();
        wait_gone(&pods, name, LIMIT).await.unwrap();
    }

    /// Deletes all pods, nodes, Services and controllers.
    async fn clear(&self) {
        let now = DeleteParams::default().grace_period(0);
        for namespace in NAMESPACES {
            let pods = self.pods(namespace);
            let deleted = pods.delete_collection(&now, &ListParams::default()).await;
            deleted.unwrap();
            self.clear_controllers::<ReplicationController>(namespace)
                .await;
            self.clear_controllers::<ReplicaSet>(namespace).await;
            self.clear_controllers::<StatefulSet>(namespace).await;
            let services = self.services(namespace);
            for service in &services.list(&ListParams::default()).await.unwrap() {
                // That one is the API server's own.
                if service.name_any() != "kubernetes" {
                    services.delete(&service.name_any(), &now).await.unwrap();
                }
            }
        }
        let (at_leisure, all) = (DeleteParams::default(), ListParams::default());
        let deleted = self.nodes.delete_collection(&at_leisure, &all).await;
        deleted.unwrap();
        for namespace in NAMESPACES {
            let (pods, all) = (self.pods(namespace), watcher::Config::default());
            list_until(&pods, all, BTreeMap::is_empty, LIMIT)
                .await
                .unwrap();
        }
    }
}

/// A kind of objects of namespaces.
trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl Namespaced for ReplicationController {}
impl Namespaced for ReplicaSet {}
impl Namespaced for StatefulSet {}

/// A controller as an API server takes it, for no pods of its own.
fn with_template(mut controller: Value) -> Value {
    let spec = &controller["spec"];
    let labels = match object::kind(&controller) {
        "ReplicationController" => &spec["selector"],
        _ => &spec["selector"]["matchLabels"],
    };
    let labels = match labels {
        Value::Object(_) => labels.clone(),
        // It selects those that have it.
        _ => json!({"hash": "1"}),
    };
    let spec = &mut controller["spec"];
    spec["replicas"] = 0.into();
    spec["template"] = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    controller
}

/// All objects of a kind.
async fn listed<K>(client: &Client) -> ObjectList<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let all: Api<K> = Api::all(client.clone());
    all.list(&ListParams::default()).await.unwrap()
}

fn value<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Its condition of this matter; there is at most one.
fn condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mut found = conditions.iter().filter(|one| one.type_ == "PodScheduled");
    let condition = found.next();
    assert!(found.next().is_none(), "{conditions:?}");
    condition
}

/// What its condition says, if it was refused.
fn refusal(pod: &Pod) -> Option<&str> {
    let condition = condition(pod).filter(|condition| condition.status == "False");
    condition?.message.as_deref()
}

/// `pilotage scheduler` in place of the real one.
async fn pilotage_scheduler(plane: &ControlPlane) -> PilotageProcess {
    let home = plane.named_namespace("pilotage", BTreeMap::new()).await;
    home.unwrap().keep();
    PilotageProcess::builder(&format!("{}-scheduler", plane.name()))
        .file("kubeconfig", &plane.admin_access().kubeconfig_yaml())
        .args([
            "scheduler",
            "--log-format=text",
            "--scheduler-name=default-scheduler",
        ])
        .args([
            format!("--kubeconfig={DIRECTORY}/kubeconfig"),
            format!("--admin-addr=127.0.0.1:{ADMIN_PORT}"),
        ])
        .start()
        .await
        .unwrap()
}

/// A cluster with the real binary, and one with ours, of these names.
async fn yards([real, ours]: [&str; 2]) -> ([Yard; 2], PilotageProcess) {
    let real = ControlPlane::builder(real).no_crds().scheduler();
    let ours = ControlPlane::builder(ours).no_crds();
    let (real, ours) = tokio::try_join!(real.start(), ours.start()).unwrap();
    let process = pilotage_scheduler(&ours).await;
    ([Yard::new(real).await, Yard::new(ours).await], process)
}

fn pods() -> usize {
    std::env::var("DIFF_REAL_PODS").map_or(PODS, |pods| {
        pods.parse().expect("DIFF_REAL_PODS is a number")
    })
}

async fn play(mut yard: Yard) -> Yard {
    let (mut seed, pods) = (0, pods());
    while yard.judged < pods {
        yard.play(seed).await;
        seed += 1;
    }
    yard
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_binary_and_ours_do_what_our_framework_says() {
    let (both, process) = Box::pin(yards([REAL, "ours"])).await;
    let played: Vec<Yard> = stream::iter(both)
        .map(|yard| tokio::spawn(play(yard)))
        .buffer_unordered(2)
        .try_collect()
        .await
        .unwrap();
    for yard in played {
        let (judged, bound) = (yard.judged, yard.bound);
        assert!(
            bound > judged / 4 && judged - bound > judged / 10,
            "{bound} of {judged} were bound"
        );
        yard.plane.stop().await;
    }
    drop(process);
}
