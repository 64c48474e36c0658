//! Targets that answer and never let go: with its operator's word *forget* nothing of a Target stays in the source,
//! although the target never tells the truth.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::{Target, keys, names};
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Answer, Lie, Questions, Script};
use pilotage_testkit::{HostileServer, build, create, list_until, wait_for, wait_gone};
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage, node_of};

const CHAPERONS: &str = "podchaperons";
/// What a pod is given to end, in seconds.
const GRACE: i64 = 1;
/// So long a target that answers may be busy.
const BUSY: Duration = Duration::from_secs(30);
/// For a namespace to go whose contents wait for one another: its controller looks for them ever more seldom.
const EMPTIED: Duration = Duration::from_mins(5);

/// A tenant's pod that runs behind a hostile server.
struct Scene {
    stage: Stage,
    server: HostileServer,
}

impl Scene {
    async fn new(prefix: &str) -> Self {
        let scene = Self {
            stage: Stage::new(prefix).await,
            server: HostileServer::start(prefix).await.unwrap(),
        };
        let Self { stage, server } = &scene;
        let web = build::pod("web").elect().request("cpu", "100m");
        let web = web.grace(GRACE).build();
        let pods = stage.pods(&stage.own);
        create(&pods, &web).await.unwrap();
        server.answer_questions(Questions::Run(json!({})));
        stage.lead_to(server, "evil").await;
        let web = stage.runs(&stage.own, "web").await;
        assert_eq!(node_of(&web), Some(&*scene.node()));
        let ours = |secret: &Secret| is_held(secret, keys::TARGET_GONE);
        let secrets: Api<Secret> = Api::namespaced(stage.admin(), &stage.own);
        wait_for(&secrets, "evil", ours, LIMIT).await.unwrap();
        scene
    }

    fn node(&self) -> String {
        names::virtual_node(Some(&self.stage.own), "evil")
    }

    fn targets(&self) -> Api<Target> {
        Api::namespaced(self.stage.admin(), &self.stage.own)
    }

    /// Its administrator deletes the tenant's namespace.
    async fn namespace_is_deleted(&self) {
        let namespaces: Api<Namespace> = Api::all(self.stage.admin());
        let params = DeleteParams::default();
        namespaces.delete(&self.stage.own, &params).await.unwrap();
    }

    /// All is there still, and waits for the target.
    async fn nothing_has_gone(&self) {
        let (admin, own) = (self.stage.admin(), self.stage.own.as_str());
        let web = self.stage.pods(own).get("web").await.unwrap();
        assert!(is_held(&web, keys::DELEGATE_GONE), "{web:?}");
        self.target_waits().await;
        let secrets: Api<Secret> = Api::namespaced(admin, own);
        let secret = secrets.get("evil").await.unwrap();
        assert!(is_held(&secret, keys::TARGET_GONE), "{secret:?}");
    }

    async fn target_waits(&self) {
        let target = self.targets().get("evil").await.unwrap();
        assert!(is_held(&target, keys::VIRTUAL_NODE_GONE), "{target:?}");
        let nodes: Api<Node> = Api::all(self.stage.admin());
        assert!(nodes.get_opt(&self.node()).await.unwrap().is_some());
    }

    async fn is_forgotten(&self) {
        let word = json!({ "metadata": { "annotations": { keys::FORGET: keys::TRUE } } });
        let (params, word) = (PatchParams::default(), Patch::Merge(word));
        self.targets().patch("evil", &params, &word).await.unwrap();
    }

    /// Pod, Target, Secret, virtual node and namespace.
    async fn everything_goes(&self) {
        let (admin, own) = (self.stage.admin(), self.stage.own.as_str());
        let namespaces: Api<Namespace> = Api::all(admin.clone());
        if let Err(error) = wait_gone(&namespaces, own, EMPTIED).await {
            panic!("{error}\nlogs: {:#?}", self.stage.fleet.logs());
        }
        let nodes: Api<Node> = Api::all(admin);
        assert!(nodes.get_opt(&self.node()).await.unwrap().is_none());
        self.stage.is_well("beside").await;
    }
}

fn is_held(object: &impl ResourceExt, finalizer: &str) -> bool {
    object.finalizers().iter().any(|it| it == finalizer)
}

fn calls(verb: Verb) -> Calls {
    Calls::of(verb, CHAPERONS)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_target_that_always_shows_its_chaperons_unchanged_keeps_nothing() {
    let scene = Scene::new("unchanged").await;
    let server = &scene.server;
    server.play(Script::new().always(calls(Verb::Delete), Lie::Shown));
    let deleted = Instant::now();
    scene.namespace_is_deleted().await;
    server
        .counted(Verb::Delete, CHAPERONS, 3, LIMIT)
        .await
        .unwrap();
    scene.nothing_has_gone().await;

    scene.is_forgotten().await;
    scene.everything_goes().await;
    assert!(deleted.elapsed() >= BUSY, "it might merely have been busy");
    let left = server.objects(CHAPERONS).unwrap();
    let unchanged = |it: &Value| it["metadata"]["deletionTimestamp"].is_null();
    assert!(left.len() == 1 && left.iter().all(unchanged), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_target_that_lists_pages_without_end_keeps_nothing() {
    let scene = Scene::new("endless").await;
    let (stage, server) = (&scene.stage, &scene.server);
    // Only who looks for what is left lists anew.
    let metadata = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata" });
    let pages = Lie::Answer(Answer::pages(&metadata, 0));
    server.play(Script::new().always(calls(Verb::List), pages));
    let params = DeleteParams::default();
    scene.targets().delete("evil", &params).await.unwrap();
    let events: Api<Event> = Api::namespaced(stage.admin(), &stage.own);
    let told = |event: &Event| {
        let note = event.note.as_deref().unwrap_or_default();
        note.contains("lists PodChaperons without end")
    };
    let all = watcher::Config::default();
    let told = list_until(&events, all, |seen| seen.values().any(told), LIMIT).await;
    if let Err(error) = told {
        panic!("{error}\nlogs: {:#?}", stage.fleet.logs());
    }
    scene.namespace_is_deleted().await;
    scene.target_waits().await;

    scene.is_forgotten().await;
    scene.everything_goes().await;
}
