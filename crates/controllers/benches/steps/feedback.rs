//! The edge of feedback as a whole, each of its polls: most proxies are at one target, and what targets show is long.
//! The targets are made up, and no write is answered.

use std::sync::Arc;

use pilotage_absurd::steps::Times;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::{PodChaperon, keys, names};
use pilotage_clusters::{Options, Registry};
use pilotage_controllers::feedback::{self, Feedback, Teller};
use pilotage_controllers::fleet::FleetMetrics;
use pilotage_proxy::{ChaperonNews, Reach, Serves, Settings, Terms};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::ready::Health;
use pilotage_sched_driver::publish::Recorder;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::PROXIES;
use crate::edge::{TARGETS, node_name, pod, uid};
use crate::polls::Edge;
use crate::source::Source;

/// Of so many pods the targets say as much as an object holds.
const TALKATIVE: usize = 20;

/// What the edge has around it.
struct Stage {
    source: Source,
    teller: Teller,
    edge: Edge<()>,
    health: Health,
    version: usize,
    end: CancellationToken,
}

pub(crate) fn play(times: &mut Times) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut stage = Stage::new();
        stage.begin(times).await;
        stage.delegates(times).await;
        stage.targets(times).await;
        stage.end(times).await;
    });
}

impl Stage {
    fn new() -> Self {
        let proxies = (0..PROXIES).map(proxy).collect();
        let source = Source::new([("pods", proxies)]);
        let (client, end) = (source.client(), CancellationToken::new());
        let (events, writer) = Recorder::new(client.clone(), "bench".to_owned());
        tokio::spawn(writer.run(end.clone()));
        let with = Feedback {
            cluster: ClusterUid("source".to_owned()),
            registry: Registry::start(&client, Options::new("bench"), &end),
            proxies: feedback::watch_proxies(&client, &end),
            settings: Settings::default(),
            leadership: Leadership::always(),
            metrics: FleetMetrics::default(),
            events,
            client,
        };
        let health = Health::new();
        let ready = health.gate("proxy pods listed");
        let (teller, future) = feedback::run_told(with, end.clone(), ready);
        let edge = Edge {
            name: "feedback",
            future,
        };
        Self {
            source,
            teller,
            edge,
            health,
            version: PROXIES * 10,
            end,
        }
    }

    async fn begin(&mut self, times: &mut Times) {
        let health = &self.health;
        let name = "10,000 proxies come, and all are looked at";
        let listed = || health.missing().is_empty();
        self.edge.until(times, name, listed).await;
        for number in 0..TARGETS {
            let node = node_name(number);
            self.teller.serves(&node, Serves::Everybody);
            self.teller.terms(&node, Terms::default());
            self.teller.reach(&node, Reach::Reachable);
        }
        let name = "1,000 targets can be reached";
        self.edge.scene(times, name).await;
    }

    async fn delegates(&mut self, times: &mut Times) {
        for (word, name) in [
            ("one", "10,000 delegates run"),
            ("other", "10,000 delegates say something else"),
        ] {
            for number in 0..PROXIES {
                self.tell_of(number, word, 3);
            }
            self.edge.scene(times, name).await;
        }
        for number in 0..TALKATIVE {
            self.tell_of(number, "much", 1_000);
        }
        let name = "20 delegates have 1,000 containers, and say much of each";
        self.edge.scene(times, name).await;
    }

    async fn targets(&mut self, times: &mut Times) {
        let leaving = Terms {
            leaving: true,
            ..Terms::default()
        };
        for number in 0..TARGETS {
            self.teller.terms(&node_name(number), leaving);
        }
        self.edge.scene(times, "1,000 targets are to go").await;
        for (reach, name) in [
            (Reach::Lost, "1,000 targets are lost"),
            (Reach::Reachable, "they are back"),
            (Reach::NoSuchTarget, "they go"),
        ] {
            for number in 0..TARGETS {
                self.teller.reach(&node_name(number), reach);
            }
            self.edge.scene(times, name).await;
        }
    }

    async fn end(&mut self, times: &mut Times) {
        for number in 0..PROXIES {
            self.version += 1;
            let mut gone = proxy(number);
            gone["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.source.tell("pods", "DELETED", &gone);
        }
        self.edge.scene(times, "10,000 proxies go").await;
        assert!(self.source.unanswered() > 0, "it wrote nothing");
        self.end.cancel();
    }

    fn tell_of(&mut self, number: usize, word: &str, containers: usize) {
        self.version += 1;
        let chaperon = delegate(number, word, containers, self.version);
        let news = ChaperonNews::Applied(Arc::new(chaperon));
        self.teller.chaperon(&place(number), news);
    }
}

/// Nine of ten are at one target.
fn place(number: usize) -> String {
    node_name(if number.is_multiple_of(10) {
        number / 10
    } else {
        0
    })
}

/// One that was sent to its target.
fn proxy(number: usize) -> Value {
    let node = place(number);
    let mut proxy = pod(&uid(number), &json!({ "app": "web" }), &json!({}));
    let record = format!("{node}/c-{number}/1");
    proxy["metadata"]["annotations"][keys::GRANTED_TO] = record.into();
    proxy["spec"]["nodeName"] = node.into();
    proxy
}

/// What a target shows of a pod that it runs.
fn delegate(number: usize, word: &str, containers: usize, version: usize) -> PodChaperon {
    let uid = uid(number);
    let link = ParentLink {
        cluster_uid: Some(ClusterUid("source".to_owned())),
        cluster_name: None,
        uid: uid.clone(),
        namespace: "shop".to_owned(),
        name: uid,
    };
    let mut annotations = json!(link.annotations());
    for key in [keys::ATTEMPT, keys::ALLOWED_ATTEMPT] {
        annotations[key] = "1".into();
    }
    annotations[keys::IS_RESERVED] = keys::TRUE.into();
    let long = format!("{word} ").repeat(100);
    for number in 0..containers.min(200) {
        annotations[format!("example.com/note-{number}")] = long.as_str().into();
    }
    let status = |number: usize| {
        let name = if number == 0 {
            "c".to_owned()
        } else {
            format!("c-{number}")
        };
        json!({
            "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 1,
            "state": { "waiting": { "reason": "CrashLoopBackOff", "message": long } },
        })
    };
    let chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
        "metadata": {
            "name": names::chaperon(&link.namespace, &link.name, &link.uid), "namespace": link.namespace,
            "uid": format!("c-{number}"), "resourceVersion": version.to_string(),
            "labels": link.labels(), "annotations": annotations,
        },
        "spec": { "containers": [] },
        "status": {
            "phase": "Running", "message": long, "podIP": "10.0.0.1", "hostIP": "10.1.0.1",
            "containerStatuses": (0..containers).map(status).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(chaperon).expect("a chaperon")
}
