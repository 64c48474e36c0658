//! The target side under test: chaperon controller and candidate scheduler on a real control plane, each under its own
//! generated role, and hand-made chaperons in place of a source.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use pilotage_api::{
    PodChaperon, keys, names,
    parent::{ClusterUid, ParentLink},
};
use pilotage_candidate::Settings;
use pilotage_controllers::{chaperon, reserve};
use pilotage_model::chaperon::chaperon as make_chaperon;
use pilotage_runtime::{
    lease::Leadership,
    rbac::{self, Account, Rule},
    ready::Health,
};
use pilotage_sched_driver::publish::Recorder as EventRecorder;
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::{
    ControlPlane, TestNamespace, apply,
    build::{self, PodBuilder},
    shared, wait_for,
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::{sync::OnceCell, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Where the service accounts live.
const HOME: &str = "default";

/// A running part of the target side.
pub(crate) struct Running {
    token: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.token.cancel();
        tokio::time::timeout(LIMIT, self.task)
            .await
            .expect("ends in time")
            .unwrap();
    }
}

/// A client of a component of a part under its own generated role.
async fn client(
    plane: &ControlPlane,
    (part, name): (&str, &str),
    rules: &[&'static [Rule]],
) -> Client {
    plane.service_account(HOME, name).await.unwrap();
    let account = Account {
        namespace: HOME,
        name,
    };
    let role = format!("pilotage-{part}");
    let roles = rbac::render(&role, account, rules.iter().copied().flatten());
    apply::apply_values(&plane.admin(), roles, HOME)
        .await
        .unwrap();
    plane.part_client(HOME, name, part).await.unwrap()
}

/// Starts the chaperon controller and waits until it is ready.
pub(crate) async fn start_chaperons(plane: &ControlPlane) -> Running {
    let client = client(
        plane,
        ("controllers", "chaperon-controller"),
        &[chaperon::rbac::RULES],
    )
    .await;
    let (token, health) = (CancellationToken::new(), Health::new());
    let (events, writer) = EventRecorder::new(client.clone(), "test".to_owned());
    let gate = health.gate("chaperons");
    let (ending, writing) = (token.clone(), token.clone());
    let task = tokio::spawn(async move {
        let with = chaperon::Chaperons {
            client,
            leadership: Leadership::always(),
            events,
        };
        tokio::join!(chaperon::run(with, ending, gate), writer.run(writing));
    });
    tokio::time::timeout(LIMIT, health.ready())
        .await
        .expect("ready in time");
    Running { token, task }
}

/// Starts the candidate scheduler and waits until it is ready.
pub(crate) async fn start_candidate(plane: &ControlPlane, settings: Settings) -> Running {
    let rules = [
        reserve::rbac::RULES,
        pilotage_sched_driver::rbac::RULES,
        pilotage_sched_driver::rbac::STOCK_RULES,
        pilotage_sched_driver::rbac::PREEMPTION,
    ];
    let client = client(
        plane,
        ("candidate-scheduler", "candidate-scheduler"),
        &rules,
    )
    .await;
    let (token, health) = (CancellationToken::new(), Health::new());
    let with = reserve::Reserve {
        tracer: None,
        client,
        settings,
        scheduled_events: false,
        instance: "test".to_owned(),
        leadership: Leadership::always(),
        health: health.clone(),
    };
    let gate = health.gate("started");
    let ending = token.clone();
    let task = tokio::spawn(async move {
        let mut registry = Registry::default();
        let running = reserve::run(with, &mut registry, ending);
        gate.release();
        running.await.unwrap();
    });
    tokio::time::timeout(LIMIT, health.ready())
        .await
        .expect("ready in time");
    Running { token, task }
}

/// The plane of all tests that leave it whole, with a target side that nobody restarts.
pub(crate) async fn plane() -> Arc<ControlPlane> {
    static STARTED: OnceCell<()> = OnceCell::const_new();
    let plane = shared::plane("target", || {
        ControlPlane::builder("target")
            // Something that newer clusters know.
            .api_server_args(["--feature-gates=HostnameOverride=false"])
            .controller_manager()
            .scheduler()
            .audit(pilotage_testkit::audit::Policy::Writes)
            .kwok([build::node("anywhere")
                .cpu("64")
                .memory("256Gi")
                .pods(500)
                .build()])
    })
    .await
    .unwrap();
    let starting = {
        let plane = plane.clone();
        async move {
            start_chaperons(&plane).await;
            // Patient, for machines that are busy with other things.
            let hold = Duration::from_mins(1);
            start_candidate(
                &plane,
                Settings {
                    hold,
                    ..Settings::default()
                },
            )
            .await;
        }
    };
    STARTED
        .get_or_init(|| async {
            // It must outlive the test that asks first.
            shared::runtime().unwrap().spawn(starting).await.unwrap();
        })
        .await;
    plane
}

/// One test's place in a plane.
pub(crate) struct Bench {
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) namespace: TestNamespace,
    pub(crate) chaperons: Api<PodChaperon>,
    pub(crate) pods: Api<Pod>,
}

impl Bench {
    pub(crate) async fn new(name: &str) -> Self {
        Self::at(plane().await, name).await
    }

    pub(crate) async fn at(plane: Arc<ControlPlane>, name: &str) -> Self {
        let namespace = plane.namespace(name).await.unwrap();
        Self {
            chaperons: namespace.api(),
            pods: namespace.api(),
            plane,
            namespace,
        }
    }

    /// Nodes that only pods of this test go to, known to the candidate scheduler: its watches of nodes and of pods are
    /// two.
    pub(crate) async fn nodes(&self, shapes: &[(&str, &str)]) {
        let pool = self.namespace.name();
        let nodes: Vec<Node> = shapes
            .iter()
            .map(|(name, cpu)| {
                build::node(&format!("{pool}-{name}"))
                    .cpu(cpu)
                    .memory("64Gi")
                    .label("pool", pool)
                    .build()
            })
            .collect();
        self.plane.add_nodes(nodes).await.unwrap();
        let probe = Self::at(self.plane.clone(), "probe").await;
        for (name, _) in shapes {
            let pod = build::pod(name).node_selector("kubernetes.io/hostname", &self.node(name));
            let chaperon = probe.ask(&pod.build()).await;
            probe.until(&chaperon, is_reserved).await;
            probe.delete(&chaperon).await;
        }
    }

    pub(crate) fn node(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace.name())
    }

    /// A pod for this test's nodes.
    pub(crate) fn pod(&self, name: &str) -> PodBuilder {
        build::pod(name)
            .node_selector("pool", self.namespace.name())
            .request("cpu", "1")
    }

    /// Creates the chaperon of a source pod, as a source would; returns its name.
    pub(crate) async fn ask(&self, pod: &Pod) -> String {
        self.ask_with(pod, |_| ()).await
    }

    /// The same, with a change to the body.
    pub(crate) async fn ask_with(&self, pod: &Pod, change: impl FnOnce(&mut Value)) -> String {
        let name = pod.metadata.name.clone().unwrap();
        let link = ParentLink {
            cluster_uid: Some(ClusterUid("source".to_owned())),
            cluster_name: None,
            uid: format!("uid-of-{name}"),
            namespace: self.namespace.name().to_owned(),
            name,
        };
        let mut body = make_chaperon(&serde_json::to_value(pod).unwrap(), &link).unwrap();
        change(&mut body);
        let body: PodChaperon = serde_json::from_value(body).unwrap();
        self.chaperons
            .create(&PostParams::default(), &body)
            .await
            .unwrap();
        names::chaperon(&link.namespace, &link.name, &link.uid)
    }

    /// Waits until the chaperon passes.
    pub(crate) async fn until(
        &self,
        name: &str,
        pass: impl Fn(&PodChaperon) -> bool,
    ) -> PodChaperon {
        wait_for(&self.chaperons, name, pass, LIMIT).await.unwrap()
    }

    /// Waits until this attempt is reserved.
    pub(crate) async fn reserved(&self, name: &str, attempt: u64) -> PodChaperon {
        self.until(name, |c| is_reserved(c) && number(c) == attempt)
            .await
    }

    /// Waits until the chaperon is refused for a reason that starts so.
    pub(crate) async fn refused(&self, name: &str, why: &str) -> PodChaperon {
        let says = |c: &PodChaperon| {
            !is_reserved(c)
                && annotation(c, keys::REFUSAL).is_some_and(|text| text.starts_with(why))
        };
        self.until(name, says).await
    }

    /// Waits until the pod is bound; where.
    pub(crate) async fn bound(&self, name: &str) -> String {
        let bound = wait_for(&self.pods, name, |pod| node_of(pod).is_some(), LIMIT).await;
        node_of(&bound.unwrap()).unwrap().to_owned()
    }

    /// Grants the attempt, as a source would; `Err` if the API server refuses.
    pub(crate) async fn grant(
        &self,
        chaperon: &PodChaperon,
        attempt: u64,
    ) -> Result<PodChaperon, kube::Error> {
        let path = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": chaperon.metadata.uid },
            { "op": "test", "path": path(keys::ATTEMPT), "value": attempt.to_string() },
            { "op": "test", "path": path(keys::IS_RESERVED), "value": "true" },
            { "op": "add", "path": path(keys::ALLOWED_ATTEMPT), "value": attempt.to_string() },
            { "op": "add", "path": path(keys::IS_ALLOWED), "value": "true" },
            { "op": "add", "path": "/metadata/finalizers", "value": [keys::DELEGATE_GONE] },
        ]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
        let name = chaperon.metadata.name.as_deref().unwrap();
        self.chaperons
            .patch(name, &PatchParams::default(), &patch)
            .await
    }

    /// Grants whatever attempt is reserved, again if it expires meanwhile; waits until the pod is bound.
    pub(crate) async fn take(&self, name: &str) -> String {
        let mut last = 0;
        loop {
            let chaperon = self
                .until(name, |c| is_reserved(c) && number(c) > last)
                .await;
            last = number(&chaperon);
            match self.grant(&chaperon, last).await {
                Ok(_) => return self.bound(name).await,
                // A failed `test`: the candidate was faster.
                Err(kube::Error::Api(status)) if status.code == 422 => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.chaperons
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    /// Accepted writes in this namespace by user, verb and resource, those of the test itself left out.
    pub(crate) async fn writes(&self) -> BTreeMap<String, usize> {
        let mut table = BTreeMap::new();
        for entry in self.plane.audit().unwrap().entries().await.unwrap() {
            if let Some(user) = entry.user.strip_prefix("system:serviceaccount:default:")
                && entry.namespace == self.namespace.name()
            {
                let line = format!(
                    "{user} {} {} {}",
                    entry.verb,
                    entry.full_resource(),
                    entry.code
                );
                *table.entry(line).or_default() += 1;
            }
        }
        table
    }
}

pub(crate) fn annotation<'a>(chaperon: &'a PodChaperon, key: &str) -> Option<&'a str> {
    chaperon
        .metadata
        .annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

pub(crate) fn is_reserved(chaperon: &PodChaperon) -> bool {
    annotation(chaperon, keys::IS_RESERVED) == Some("true")
}

pub(crate) fn number(chaperon: &PodChaperon) -> u64 {
    annotation(chaperon, keys::ATTEMPT)
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The chaperon's `PodScheduled` condition.
pub(crate) fn scheduled(chaperon: &PodChaperon) -> Option<Value> {
    let conditions = chaperon
        .status
        .as_ref()?
        .0
        .get("conditions")?
        .as_array()?
        .clone();
    conditions
        .into_iter()
        .find(|condition| condition["type"] == "PodScheduled")
}
