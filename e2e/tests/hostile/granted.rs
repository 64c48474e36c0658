//! Grants that nobody gave: a tenant's server shows one of a pod that it may not have, and gets no pod by that.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{keys, names};
use pilotage_testkit::build::PodBuilder;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Lie, Script};
use pilotage_testkit::{HostileServer, build, create};

use crate::stage::{LIMIT, Stage, node_of, record};

const CHAPERONS: &str = "podchaperons";
/// An address that only lies have.
const LIE: &str = "10.6.6.6";

/// A pod of the tenant's, and a server that shows its chaperon as granted, bound and running, whatever is said to it.
struct Scene {
    stage: Stage,
    _server: HostileServer,
}

impl Scene {
    /// The source has heard of it, asked for the end of the chaperon, and hears that it is there.
    fn new(prefix: &str, pod: PodBuilder) -> BoxFuture<'_, Self> {
        Self::made(prefix, pod).boxed()
    }

    async fn made(prefix: &str, pod: PodBuilder) -> Self {
        let stage = Stage::new(prefix).await;
        let server = HostileServer::start(prefix).await.unwrap();
        let deletions = Calls::of(Verb::Delete, CHAPERONS);
        server.play(Script::new().always(deletions, Lie::Shown));
        stage.lead_to(&server, "evil").await;
        let source = &stage.fleet.source;
        source.connected("evil", &stage.own).await.unwrap();

        let pod = pod.elect().request("cpu", "100m").build();
        let pods = stage.pods(&stage.own);
        let pod = create(&pods, &pod).await.unwrap();
        let shown = build::chaperon_of(&pod, Some(&stage.source_uid().await));
        let shown = shown.granted(1).running(LIE);
        server.put(shown.value()).unwrap();
        // The second time shows that the first one changed nothing.
        let asked = server.counted(Verb::Delete, CHAPERONS, 2, LIMIT).await;
        if let Err(error) = asked {
            panic!("{error}\nlogs: {:#?}", stage.fleet.logs());
        }
        let scene = Self {
            stage,
            _server: server,
        };
        scene.is_given_to_nobody().await;
        scene
    }

    async fn pod(&self) -> Pod {
        let pods = self.stage.pods(&self.stage.own);
        pods.get("web").await.unwrap()
    }

    async fn is_given_to_nobody(&self) {
        self.stage.is_well("beside").await;
        let pod = self.pod().await;
        assert_eq!((record(&pod), node_of(&pod)), (None, None));
        let told = serde_json::to_string(&pod).unwrap();
        assert!(!told.contains(LIE), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_nobody_gave_brings_no_pod_and_keeps_it_from_nobody() {
    // It may run in the healthy target alone, which doesn't serve it yet.
    let web = build::pod("web").annotation(keys::USE_OWN_CONSTRAINTS, "");
    let scene = Scene::new("granted", web.node_selector(keys::TARGET_NAME, "east")).await;
    let (stage, own) = (&scene.stage, scene.stage.own.as_str());
    let east = &stage.fleet.targets[0].plane;
    let _there = east.named_namespace(own, BTreeMap::new()).await.unwrap();
    stage.fleet.connect(own).await.unwrap();
    let web = stage.runs(own, "web").await;
    let node = names::virtual_node(Some(own), "east");
    assert_eq!(node_of(&web), Some(&*node));
    stage.has_one_delegate(&web).await;
    stage.is_well("later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_given_to_nobody_who_shows_a_grant() {
    let web = build::pod("web").annotation(keys::WHAT_IF, "");
    Scene::new("asked", web).await;
}
