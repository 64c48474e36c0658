//! What a target may write on the pods that it was granted: a tenant's server that plays along and lies in its
//! delegate's annotations and status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::DeleteParams;
use pilotage_api::{keys, names};
use pilotage_e2e::hostile::written::{self, LAST_APPLIED};
use pilotage_testkit::{HostileServer, build, create, hostile::Questions, wait_for, wait_gone};
use serde_json::Value;

use crate::stage::{LIMIT, Stage, node_of, record};

/// Of those that nobody here has, so many are copied.
const COPIED: usize = 64;
const COPIED_BYTES: usize = 64 << 10;

/// A pod of the tenant's at a server that runs it and writes this over what a target would write.
struct Told {
    stage: Stage,
    _server: HostileServer,
    pods: Api<Pod>,
    created: Pod,
}

impl Told {
    async fn new(prefix: &str, words: Value) -> Self {
        let stage = Stage::new(prefix).await;
        let server = HostileServer::start(prefix).await.unwrap();
        server.answer_questions(Questions::Run(words));
        stage.lead_to(&server, "evil").await;
        let source = &stage.fleet.source;
        source.connected("evil", &stage.own).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(stage.tenant().await, &stage.own);
        let pod = build::pod("web").elect().annotation("team", "own");
        let pod = pod.annotation(LAST_APPLIED, "{}").request("cpu", "1m");
        let created = create(&pods, &pod.build()).await;
        Self {
            created: created.unwrap(),
            stage,
            _server: server,
            pods,
        }
    }

    async fn until(&self, condition: impl Fn(&Pod) -> bool) -> Pod {
        match wait_for(&self.pods, "web", condition, LIMIT).await {
            Ok(pod) => pod,
            Err(error) => panic!("{error}\nlogs: {:#?}", self.stage.fleet.logs()),
        }
    }

    /// The tenant can be rid of it, and nobody else has noticed.
    async fn end(self) {
        self.stage.is_well("beside").await;
        let params = DeleteParams::default();
        self.pods.delete("web", &params).await.unwrap();
        wait_gone(&self.pods, "web", LIMIT).await.unwrap();
    }
}

fn annotations(pod: &Pod) -> &BTreeMap<String, String> {
    pod.metadata.annotations.as_ref().unwrap()
}

fn containers(pod: &Pod) -> &[ContainerStatus] {
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    statuses.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_others_are_never_overwritten_and_few_are_copied() {
    let words = written::planted_annotations();
    let told = Told::new("annotations", words).await;
    let evil = |pod: &Pod| {
        let all = annotations(pod).iter();
        let copied: Vec<_> = all
            .filter(|(key, _)| key.starts_with("evil.example/"))
            .map(|(key, value)| (key.clone(), value.len()))
            .collect();
        copied
    };
    let pod = told
        .until(|pod| !evil(pod).is_empty() && !containers(pod).is_empty())
        .await;

    let copied = evil(&pod);
    assert_eq!(copied.len(), COPIED);
    let bytes: usize = copied.iter().map(|(key, length)| key.len() + length).sum();
    assert!(bytes <= COPIED_BYTES, "{bytes}");
    let is = |key: &str, value: &str| annotations(&pod).get(key).is_some_and(|is| is == value);
    assert!(is("team", "own") && is(LAST_APPLIED, "{}"));
    let node = names::virtual_node(Some(&told.stage.own), "evil");
    assert!(record(&pod).unwrap().starts_with(&format!("{node}/")));
    // Of everything else there is what was there, and what we write.
    for (key, value) in annotations(&pod) {
        let known = annotations(&told.created).get(key);
        let ours = keys::is_ours(key) && !value.contains("forged");
        let copy = key.starts_with("evil.example/");
        assert!(known == Some(value) || ours || copy, "{key}: {value:.100}");
    }
    told.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_cut_to_what_the_pod_has_and_the_api_server_takes() {
    let words = written::planted_status();
    let told = Told::new("status", words).await;
    let pod = told.until(|pod| !containers(pod).is_empty()).await;

    let names: Vec<_> = containers(&pod).iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["main"]);
    let main = &containers(&pod)[0];
    assert_eq!(main.restart_count, i32::MAX);
    assert!(main.image.len() <= 1_024, "{}", main.image.len());
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("10.66.1.7"));
    assert_eq!(status.pod_ips.as_ref().map(Vec::len), Some(1));
    assert_eq!(status.host_ip, None);
    assert_eq!(status.init_container_statuses, None);
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    assert!((1..=4_096).contains(&length(&status.message)));
    let waiting = main.state.as_ref().and_then(|it| it.waiting.as_ref());
    let waiting = waiting.unwrap();
    assert!((1..=1_024).contains(&length(&waiting.reason)));
    assert!((1..=4_096).contains(&length(&waiting.message)));
    told.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_of_nonsense_leaves_its_pod_bound_and_deletable() {
    let words = written::nonsense_status();
    let told = Told::new("nonsense", words).await;
    let pod = told.until(|pod| node_of(pod).is_some()).await;
    let node = names::virtual_node(Some(&told.stage.own), "evil");
    assert_eq!(node_of(&pod), Some(&*node));
    // That it was read shows in what could be read of it.
    let is_ready = |pod: &Pod| {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut all = conditions.into_iter().flatten();
        all.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let pod = told.until(is_ready).await;
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!((&status.pod_ip, &status.container_statuses), (&None, &None));
    told.end().await;
}
