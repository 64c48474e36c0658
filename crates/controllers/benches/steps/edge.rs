//! The edge of the proxy scheduler as a whole, each of its polls: nothing else of its thread goes on meanwhile. Its
//! targets are made up, and no request ends.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use pilotage_absurd::specs::{Most, specs};
use pilotage_absurd::steps::Times;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::{PodChaperon, keys, names};
use pilotage_clusters::{Options, Registry};
use pilotage_controllers::ask::{self, Ask, AskMetrics, Feed, Teller};
use pilotage_controllers::fleet::FleetMetrics;
use pilotage_dashboard::Dashboard;
use pilotage_proxy::board::Board;
use pilotage_proxy::placing::Words;
use pilotage_proxy::profile::profiles;
use pilotage_proxy::{ChaperonNews, Configuration, Gate, Note, Reach, Serves, Settings};
use pilotage_runtime::lease::{Elector, LeaseConfig};
use pilotage_runtime::otlp::{Service, Tracer};
use pilotage_runtime::ready::Health;
use pilotage_sched::plugins::{FREE_TOLERATIONS, MOST_RULES, VALUES_A_RULE};
use pilotage_sched_driver::{Driver, DriverOptions, Observer as _, Pods};
use prometheus_client::registry;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::PROXIES;
use crate::source::Source;

/// How many virtual nodes there are.
pub(crate) const TARGETS: usize = 1_000;
/// How many proxies are looked for a place for; the others have gates, and are looked at all the same.
pub(crate) const FREE: usize = 40;
/// How many of them others keep away.
const SHY: usize = 20;
/// What has an end comes to it within this.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// A scene that has no end of its own lasts so long.
pub(crate) const SCENE: Duration = Duration::from_secs(3);

/// How much an author may write that the scheduler takes.
const MOST: Most = Most {
    rules: MOST_RULES,
    values: MOST_RULES * VALUES_A_RULE,
    tolerations: FREE_TOLERATIONS + MOST_RULES,
};

/// What an edge has around it.
struct Stage {
    source: Source,
    feed: Arc<Feed>,
    teller: Teller,
    board: Arc<Board>,
    edge: BoxFuture<'static, ()>,
    elector: Option<Elector>,
    version: usize,
    end: CancellationToken,
}

pub(crate) fn play(times: &mut Times) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut stage = Stage::new();
        stage.begin(times).await;
        stage.authors(times).await;
        stage.changes(times).await;
        stage.targets(times).await;
        stage.end(times).await;
    });
}

impl Stage {
    fn new() -> Self {
        let pods = (0..PROXIES).map(proxy).collect();
        let nodes = (0..TARGETS).map(|number| node(number, "value")).collect();
        let source = Source::new([("pods", pods), ("nodes", nodes)]);
        let (client, end) = (source.client(), CancellationToken::new());
        let mut metrics = registry::Registry::default();
        let board = Arc::<Board>::default();
        let (port, feed, inbox) = ask::connect();
        let feed = Arc::new(feed);
        let profiles = profiles(&board, Arc::new(port)).expect("two profiles");
        let proxies = ask::watch_proxies(&client, &end);
        let options = DriverOptions {
            pods: Pods::Told(ask::news(&proxies)),
            prepare_node: ask::tell_labels,
            observer: feed.clone(),
            announce_nominations: false,
            ..DriverOptions::new(client.clone(), profiles.to_vec(), "bench".to_owned())
        };
        let (driver, scheduling) = Driver::new(options, &mut metrics).expect("a driver");
        tokio::spawn(driver.run(end.clone()));
        let registry = Registry::start(&client, Options::new("bench"), &end);
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let lease = LeaseConfig::new("pilotage", "bench", hours(3), hours(2), hours(1));
        let lease = lease.expect("a Lease");
        let (elector, leadership) = Elector::new(client.clone(), lease, "bench".to_owned());
        let service = Service {
            name: "bench".to_owned(),
            instance: "bench".to_owned(),
        };
        let collector = "http://localhost:4318".parse().expect("a URL");
        let all = "1".parse().expect("a ratio");
        let (tracer, exporter) = Tracer::new(collector, all, service, &mut metrics);
        // Nobody exports: there is no more room soon.
        std::mem::forget(exporter);
        let ask = Ask {
            cluster: ClusterUid("source".to_owned()),
            cluster_name: None,
            proxies,
            metrics: FleetMetrics::register(&mut metrics, registry.clone()),
            counts: AskMetrics::register(&mut metrics),
            registry,
            board: board.clone(),
            scheduling,
            configuration: Configuration::without_file(Settings::default()),
            namespace: "pilotage".to_owned(),
            leadership,
            tracer: Some(tracer),
            stage_events: 5,
            dashboard: Some(Dashboard::new(end.clone())),
            client,
        };
        let ready = Health::new().gate("proxy pods listed");
        let (teller, edge) = ask::run_told(ask, inbox, end.clone(), ready);
        Self {
            source,
            feed,
            teller,
            board,
            edge,
            elector: Some(elector),
            version: PROXIES * 10,
            end,
        }
    }

    /// Polls the edge until something is so.
    async fn until(&mut self, times: &mut Times, name: &str, so: impl Fn(&Self) -> bool) {
        let was = self.polled(times, name, PATIENCE, so).await;
        assert!(was, "{name}");
    }

    /// Polls the edge until it has had that much time.
    async fn scene(&mut self, times: &mut Times, name: &str) {
        self.polled(times, name, SCENE, |_| false).await;
    }

    /// Polls the edge until something is so, or time is over; whether it was.
    async fn polled(
        &mut self,
        times: &mut Times,
        name: &str,
        most: Duration,
        so: impl Fn(&Self) -> bool,
    ) -> bool {
        let mut over = pin!(sleep(most));
        let name = format!("edge: {name}");
        poll_fn(|context| {
            let polled = times.step(&name, || self.edge.as_mut().poll(context));
            assert!(polled.is_pending(), "it ended");
            if so(self) {
                return std::task::Poll::Ready(true);
            }
            over.as_mut().poll(context).map(|()| false)
        })
        .await
    }

    fn is_posted(&self, uid: &str) -> bool {
        self.board.get(uid).gate != Gate::Closed(Note::Unseen)
    }

    fn tell(&mut self, plural: &str, type_: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.source.tell(plural, type_, &object);
    }

    async fn begin(&mut self, times: &mut Times) {
        let watched = |stage: &Self| ["pods", "nodes"].map(|it| stage.source.is_watched(it));
        let name = "10,000 proxies and 1,000 virtual nodes come";
        self.until(times, name, |stage| watched(stage) == [true; 2])
            .await;
        for number in 0..TARGETS {
            let name = node_name(number);
            self.teller.serves(&name, Serves::Everybody);
            self.teller.reach(&name, Reach::Reachable);
            let long = "r".repeat(20_000);
            let words = [keys::REGION, keys::ZONES, keys::CLOUD_PROVIDER];
            let words = Words {
                annotations: words.map(|key| (key.to_owned(), long.clone())).into(),
                ..Words::default()
            };
            self.teller.words(&name, words);
        }
        self.scene(
            times,
            "1,000 targets can be reached, and say where they are",
        )
        .await;
        // From now on it decides.
        let elector = self.elector.take().expect("it doesn't lead yet");
        tokio::spawn(elector.run(self.end.clone()));
        let name = "it begins to lead, and looks at all proxies";
        self.until(times, name, |stage| {
            (0..PROXIES).all(|it| stage.is_posted(&uid(it)))
        })
        .await;
        self.scene(times, "some wait").await;
    }

    /// Pods of hostile authors come, one after the other.
    async fn authors(&mut self, times: &mut Times) {
        let mut all = specs(MOST);
        all.push(("1,000 answers", json!({})));
        for (number, (name, spec)) in all.into_iter().enumerate() {
            let uid = uid(PROXIES + number);
            let labels = json!({ "app": "web-0" });
            let mut hostile = pod(&uid, &labels, &spec);
            hostile["metadata"]["annotations"][keys::REGION] = "w".repeat(90_000).into();
            hostile["metadata"]["annotations"][keys::ZONES] = "z,".repeat(20_000).into();
            self.tell("pods", "ADDED", hostile.clone());
            let posted = |stage: &Self| stage.is_posted(&uid);
            self.until(times, name, posted).await;
            if name == "1,000 answers" {
                for number in 0..TARGETS {
                    let chaperon = Arc::new(chaperon(&uid, number));
                    let news = ChaperonNews::Applied(chaperon);
                    self.teller.chaperon(&node_name(number), news);
                }
                self.scene(times, name).await;
            }
            self.tell("pods", "DELETED", hostile);
        }
    }

    /// What has everybody ranked again.
    async fn changes(&mut self, times: &mut Times) {
        for value in ["other", "another"] {
            for number in 0..TARGETS {
                let node = serde_json::from_value(node(number, value)).expect("a node");
                self.feed.node_applied(&Arc::new(node));
            }
            self.scene(times, "1,000 virtual nodes change").await;
        }
        for number in 0..2 * TARGETS {
            let value = format!("value-{}", number / TARGETS);
            let node = serde_json::from_value(node(number % TARGETS, &value)).expect("a node");
            self.feed.node_applied(&Arc::new(node));
        }
        self.scene(times, "1,000 virtual nodes change twice within a second")
            .await;
        let home: Node = serde_json::from_value(json!({
            "metadata": { "name": "home", "labels": { "topology.kubernetes.io/region": "eu-west-1" } },
        }))
        .expect("a node");
        self.feed.node_applied(&Arc::new(home));
        self.scene(times, "the source's own nodes say where it is")
            .await;
        let rows = (0..50).map(|row| {
            let regions = (0..1_000).fold(String::new(), |mut row, n| {
                writeln!(row, "region-{n:05}: {n}").expect("a text");
                row
            });
            (format!("r{row}"), json!(regions))
        });
        let table = json!({
            "metadata": {
                "name": "t", "namespace": "pilotage", "uid": "t",
                "labels": { keys::REGION_TABLE_LABEL: keys::REGION_TABLE_LABEL_VALUE },
            },
            "data": rows.collect::<serde_json::Map<_, _>>(),
        });
        self.tell("configmaps", "ADDED", table);
        self.scene(times, "a table of regions comes").await;
        for number in 0..SHY {
            let mut pod = proxy(number);
            pod["metadata"]["labels"]["more"] = "other".into();
            self.tell("pods", "MODIFIED", pod);
        }
        self.scene(times, "others move").await;
    }

    async fn targets(&mut self, times: &mut Times) {
        for (reach, name) in [
            (Reach::Lost, "1,000 targets are lost"),
            (Reach::Reachable, "they are back"),
            (Reach::NoSuchTarget, "they go"),
        ] {
            for number in 0..TARGETS {
                self.teller.reach(&node_name(number), reach);
            }
            self.scene(times, name).await;
        }
        for number in 0..TARGETS {
            self.feed.node_deleted(&node_name(number));
        }
        self.scene(times, "1,000 virtual nodes go").await;
    }

    async fn end(&mut self, times: &mut Times) {
        for number in 0..PROXIES {
            self.tell("pods", "DELETED", proxy(number));
        }
        let gone = |stage: &Self| (0..PROXIES).all(|it| !stage.is_posted(&uid(it)));
        self.until(times, "10,000 proxies go", gone).await;
        self.end.cancel();
    }
}

pub(crate) fn node_name(number: usize) -> String {
    format!("admiralty-{}{number:05}", "target-".repeat(33))
}

/// Everybody's virtual node, with as many labels and taints as somebody may give it.
fn node(number: usize, value: &str) -> Value {
    let name = node_name(number);
    let taint = |n: usize| {
        let (key, value) = (format!("soft-{n}"), format!("v{n}"));
        json!({ "key": key, "value": value, "effect": "PreferNoSchedule" })
    };
    let own =
        json!({ "key": keys::PROVIDER, "value": keys::PROVIDER_VALUE, "effect": "NoSchedule" });
    let mut labels = json!({
        keys::PROVIDER: keys::PROVIDER_VALUE, keys::CLUSTER_TARGET_NAME: name, "number": number.to_string(),
        "kubernetes.io/hostname": format!("n{number}"),
        "topology.kubernetes.io/region": format!("{}{number:05}", "eu-west-".repeat(7)),
    });
    for n in 0..64 {
        labels[format!("example.com/label-{n}")] = json!(value);
    }
    let shape =
        json!({ "nodes": 3, "free": { "cpu": "4", "memory": "8Gi", "example.com/gpu": "1" } });
    let shapes = json!(vec![shape; 256]).to_string();
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": {
            "name": name, "uid": name, "resourceVersion": "1", "labels": labels,
            "annotations": { keys::FREE_SHAPES: shapes },
        },
        "spec": { "taints": (0..100).map(taint).chain([own]).collect::<Vec<_>>() },
        "status": {
            "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "500" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

pub(crate) fn uid(number: usize) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// One of many; some of them keep away from each other, and most have a gate.
fn proxy(number: usize) -> Value {
    let labels = json!({ "app": format!("web-{}", number % 10) });
    let mut spec = json!({});
    if number < SHY {
        spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{
            "labelSelector": { "matchLabels": labels }, "topologyKey": "kubernetes.io/hostname",
        }]);
    }
    if number >= FREE {
        spec["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
    }
    pod(&uid(number), &labels, &spec)
}

/// As the webhook makes one.
pub(crate) fn pod(uid: &str, labels: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": uid, "namespace": "shop", "uid": uid, "labels": labels,
            "resourceVersion": "10000", "finalizers": [keys::DELEGATE_GONE],
            "annotations": {
                keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "metadata: {}\nspec: {containers: []}",
                keys::REGION: "eu-west-1",
            },
        },
        "spec": {
            "schedulerName": keys::PROXY_SCHEDULER, "containers": [{ "name": "c", "image": "i" }],
            "nodeSelector": {}, "tolerations": [],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod["spec"]["nodeSelector"][keys::PROVIDER] = keys::PROVIDER_VALUE.into();
    let own = json!({ "key": keys::PROVIDER, "operator": "Exists" });
    if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
        tolerations.push(own);
    }
    pod
}

/// What a target shows of a pod: it refuses it at length.
fn chaperon(uid: &str, number: usize) -> PodChaperon {
    let link = ParentLink {
        cluster_uid: Some(ClusterUid("source".to_owned())),
        cluster_name: None,
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
        name: uid.to_owned(),
    };
    let mut annotations = json!(link.annotations());
    annotations[keys::ATTEMPT] = "1".into();
    annotations[keys::REFUSAL] = "full ".repeat(4_000).into();
    let chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
        "metadata": {
            "name": names::chaperon(&link.namespace, &link.name, &link.uid), "namespace": link.namespace,
            "uid": format!("c-{number}"), "resourceVersion": "1", "labels": link.labels(), "annotations": annotations,
        },
        "spec": { "containers": [] },
    });
    serde_json::from_value(chaperon).expect("a chaperon")
}
