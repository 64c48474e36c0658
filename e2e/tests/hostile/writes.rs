//! Lies in the answers to what the source writes to a target: its questions, its grants and its deletions.

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::{conditions::types, keys, names};
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Answer, Lie, Questions, Script};
use pilotage_testkit::{HostileServer, build, create, wait_count, wait_gone};
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage, elected, node_of, record};

const CHAPERONS: &str = "podchaperons";
/// All that the source asks about one chaperon.
const VERBS: [Verb; 4] = [Verb::Create, Verb::Patch, Verb::Delete, Verb::Get];
/// Requests of one verb that an attack may draw: the pauses between them double, so that no test is long enough for
/// more.
const MOST: u64 = 30;
/// An address that only lies have.
const LIE: &str = "10.6.6.6";
/// Later than anything that a watch has told, so that nothing is left out because it is old.
const LATER: &str = "999999999";

/// A tenant with one pod, which only a hostile server may take, and somebody honest.
struct Scene {
    stage: Stage,
    server: HostileServer,
    /// UID of the source.
    source: String,
    /// The tenant's.
    web: Pod,
    /// Of somebody honest; it has its place in the healthy target.
    settled: Pod,
    /// Of somebody honest; it fits nowhere, so that it waits for any word.
    waiting: Pod,
}

impl Scene {
    /// Before there is a Target that leads to the server.
    fn new(prefix: &str) -> BoxFuture<'_, Self> {
        Self::made(prefix).boxed()
    }

    async fn made(prefix: &str) -> Self {
        let stage = Stage::new(prefix).await;
        let (honest, own) = (stage.pods(&stage.honest), stage.pods(&stage.own));
        let settled = elected("settled", "100m");
        create(&honest, &settled).await.unwrap();
        let waiting = create(&honest, &elected("waiting", "64")).await;
        let web = create(&own, &elected("web", "100m")).await;
        Self {
            web: web.unwrap(),
            settled: stage.runs(&stage.honest, "settled").await,
            waiting: waiting.unwrap(),
            server: HostileServer::start(prefix).await.unwrap(),
            source: stage.source_uid().await,
            stage,
        }
    }

    /// The tenant's Target leads to the server, which lies like this.
    async fn begin(&self, script: Script) {
        self.server.play(script);
        self.stage.lead_to(&self.server, "evil").await;
        let source = &self.stage.fleet.source;
        source.connected("evil", &self.stage.own).await.unwrap();
    }

    /// The chaperon of a pod, bound and running, as a lie tells it.
    fn lie_about(&self, pod: &Pod) -> Value {
        let lie = build::chaperon_of(pod, Some(&self.source)).uid("forged");
        let mut lie = lie.granted(1).running(LIE).value();
        lie["metadata"]["resourceVersion"] = LATER.into();
        lie
    }

    /// Name of the chaperon of the tenant's pod.
    fn web_chaperon(&self) -> String {
        names::chaperon(&self.stage.own, "web", &self.web.uid().unwrap())
    }

    /// Waits until the server was asked this so often.
    async fn asked(&self, verb: Verb, least: u64) {
        let asked = self.server.counted(verb, CHAPERONS, least, LIMIT).await;
        if let Err(error) = asked {
            panic!("{error}\nlogs: {:#?}", self.stage.fleet.logs());
        }
    }

    async fn web(&self) -> Pod {
        self.stage.pods(&self.stage.own).get("web").await.unwrap()
    }

    /// The pod of the tenant has the place that its chaperon says, or none.
    async fn web_is_where_its_chaperon_says(&self) {
        let web = self.web().await;
        // What a pod shows was said before.
        let runs = |chaperon: &Value| chaperon["status"]["phase"] == "Running";
        let said = self.server.objects(CHAPERONS).unwrap().iter().any(runs);
        let told = serde_json::to_string(&web).unwrap();
        assert!(said || (phase(&web) != "Running" && node_of(&web).is_none()));
        assert!(!told.contains(LIE), "{told}");
    }

    /// A pod of another namespace is placed meanwhile, no process has ended, nobody else was touched, and the server
    /// wasn't asked again and again.
    async fn nobody_else_notices(&self) {
        self.stage.is_well("beside").await;
        let honest = self.stage.pods(&self.stage.honest);
        let waiting = honest.get("waiting").await.unwrap();
        assert_eq!((record(&waiting), node_of(&waiting)), (None, None));
        let settled = honest.get("settled").await.unwrap();
        assert_eq!(kept(&settled), kept(&self.settled));
        let events: Api<Event> = Api::namespaced(self.stage.admin(), &self.stage.honest);
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let events = events.iter().map(|event| json!(event).to_string());
        let pods = [&waiting, &settled].map(|pod| json!(pod).to_string());
        for told in events.chain(pods) {
            let noticed = told.contains(LIE) || told.contains(&self.stage.own);
            assert!(!noticed, "{told}");
        }
        for verb in VERBS {
            let count = self.server.count(verb, CHAPERONS);
            assert!(count <= MOST, "{verb:?}: {count} times");
        }
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

/// What of a pod in its place may not change.
fn kept(pod: &Pod) -> Value {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    json!([
        pod.uid(),
        pod.labels(),
        record(pod),
        node_of(pod),
        phase(pod),
        address,
        pod.metadata.deletion_timestamp,
    ])
}

/// All requests of a kind about chaperons.
fn calls(verb: Verb) -> Calls {
    Calls::of(verb, CHAPERONS)
}

fn answer(status: u16, object: &Value) -> Lie {
    Lie::Answer(Answer::json(object).status(status))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_answered_with_another_pods_chaperon() {
    let scene = Scene::new("whose-answer").await;
    let own = &scene.stage.own;
    let pods = scene.stage.pods(own);
    // The tenant's as well; it isn't to be placed at all.
    let sibling = build::pod("sibling")
        .elect()
        .gate("example.com/wait")
        .build();
    let sibling = create(&pods, &sibling).await;
    let sibling = sibling.unwrap();
    let changed = |pod: &Pod, change: Value| {
        let mut lie = scene.lie_about(pod);
        let metadata = lie["metadata"].as_object_mut().unwrap();
        metadata.extend(change.as_object().unwrap().clone());
        lie
    };
    let recorded = record(&scene.settled).unwrap().split('/').nth(1).unwrap();
    let mut others = scene.lie_about(&scene.web);
    others["metadata"]["labels"][keys::PARENT_UID] = json!(scene.waiting.uid());
    let lies = [
        scene.lie_about(&scene.waiting),
        changed(&scene.settled, json!({ "uid": recorded })),
        changed(&scene.waiting, json!({ "namespace": own })),
        scene.lie_about(&sibling),
        changed(&scene.web, json!({ "name": "web" })),
        changed(&scene.web, json!({ "labels": {} })),
        others,
    ];
    let count = lies.len() as u64;
    let tell = |script: Script, lie: &Value| script.next(1, calls(Verb::Create), answer(201, lie));
    scene.begin(lies.iter().fold(Script::new(), tell)).await;

    scene.asked(Verb::Create, count).await;
    // Only the proxy scheduler has heard it.
    let events: Api<Event> = Api::namespaced(scene.stage.admin(), own);
    let all = watcher::Config::default();
    let told = |event: &Event| event.reason.as_deref() == Some("TargetTurnedAway");
    wait_count(&events, all, 1, told, LIMIT).await.unwrap();
    scene.nobody_else_notices().await;
    scene.web_is_where_its_chaperon_says().await;
    for name in ["web", "sibling"] {
        let pod = pods.get(name).await.unwrap();
        assert_eq!((record(&pod), node_of(&pod)), (None, None), "{name}");
    }
    // Nothing of all that was ever there.
    for verb in [Verb::Patch, Verb::Delete] {
        assert_eq!(scene.server.count(verb, CHAPERONS), 0, "{verb:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_answered_with_no_chaperon() {
    let scene = Scene::new("no-answer").await;
    let chaperon = scene.lie_about(&scene.web);
    let mut secret = chaperon.clone();
    secret["apiVersion"] = "v1".into();
    secret["kind"] = "Secret".into();
    let success = json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" });
    let list = Answer::list(&chaperon, Some(1)).status(201);
    let empty = Answer::bytes("application/json", "").status(201);
    let lies = [
        answer(201, &secret),
        Lie::Answer(list),
        answer(201, &success),
        Lie::Answer(empty),
        // This one lands.
        Lie::ContentType("text/html".to_owned()),
    ];
    let count = lies.len() as u64;
    let tell = |script: Script, lie| script.next(1, calls(Verb::Create), lie);
    scene
        .begin(lies.into_iter().fold(Script::new(), tell))
        .await;

    scene.asked(Verb::Create, count).await;
    scene.nobody_else_notices().await;
    scene.web_is_where_its_chaperon_says().await;
    // It is as good as any other when it behaves.
    scene.server.answer_questions(Questions::Run(json!({})));
    scene.stage.runs(&scene.stage.own, "web").await;
    scene.nobody_else_notices().await;
    scene.web_is_where_its_chaperon_says().await;
}

/// The hostile server reserves a node, and the grant is answered like this; seen this often.
async fn is_granted_in_vain(scene: &Scene, script: Script, seen: u64) {
    scene.server.answer_questions(Questions::Run(json!({})));
    scene.begin(script).await;
    scene.asked(Verb::Patch, seen).await;
    scene.nobody_else_notices().await;
    scene.web_is_where_its_chaperon_says().await;
    // The choice stands as long as nobody knows what became of the grant.
    let web = scene.web().await;
    assert!(record(&web).is_some() && node_of(&web).is_none());
    let all = scene.server.objects(CHAPERONS).unwrap();
    let granted = |chaperon: &Value| !chaperon["metadata"]["finalizers"].is_null();
    assert!(all.len() == 1 && !all.iter().any(granted), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_answered_with_the_chaperon_as_it_was() {
    let scene = Scene::new("as-it-was").await;
    let script = Script::new().always(calls(Verb::Patch), Lie::Shown);
    is_granted_in_vain(&scene, script, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_answered_with_another_chaperon() {
    let scene = Scene::new("another").await;
    let another_uid = scene.lie_about(&scene.web);
    let lies = [&scene.waiting, &scene.settled].map(|pod| scene.lie_about(pod));
    let script = Script::new()
        .next(1, calls(Verb::Patch), answer(200, &another_uid))
        .next(1, calls(Verb::Patch), answer(200, &lies[0]))
        .always(calls(Verb::Patch), answer(200, &lies[1]));
    is_granted_in_vain(&scene, script, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_only_said_to_be_done() {
    let scene = Scene::new("only-said").await;
    let script = Script::new().always(calls(Verb::Patch), Lie::Undone);
    is_granted_in_vain(&scene, script, 1).await;
}

/// The pod of the tenant runs behind the hostile server.
async fn runs_there(scene: &Scene) {
    scene.server.answer_questions(Questions::Run(json!({})));
    scene.begin(Script::new()).await;
    scene.stage.runs(&scene.stage.own, "web").await;
}

/// It is deleted, and so is its chaperon, which is answered like this.
async fn is_deleted(scene: &Scene, answer: Lie) {
    let script = Script::new().always(calls(Verb::Delete), answer);
    is_deleted_as(scene, script).await;
}

async fn is_deleted_as(scene: &Scene, script: Script) {
    scene.server.play(script);
    let pods = scene.stage.pods(&scene.stage.own);
    pods.delete("web", &DeleteParams::default()).await.unwrap();
}

/// Nobody takes its end for proved.
async fn is_there_still(scene: &Scene) {
    scene.nobody_else_notices().await;
    let web = scene.web().await;
    assert_eq!(web.uid(), scene.web.uid());
    let finalizers = web.finalizers();
    let held = finalizers.iter().any(|it| it == keys::DELEGATE_GONE);
    assert!(held, "{finalizers:?}");
    assert_eq!(scene.server.objects(CHAPERONS).unwrap().len(), 1);
}

/// It goes with its chaperon.
async fn is_gone(scene: &Scene) {
    let pods = scene.stage.pods(&scene.stage.own);
    if let Err(error) = wait_gone(&pods, "web", LIMIT).await {
        panic!("{error}\nlogs: {:#?}", scene.stage.fleet.logs());
    }
}

/// The API server's word that an object is gone, with what it says of it.
fn success(details: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "status": "Success", "details": details })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_answered_with_the_chaperon_as_it_was() {
    let scene = Scene::new("not-ending").await;
    runs_there(&scene).await;
    is_deleted(&scene, Lie::Shown).await;
    scene.asked(Verb::Delete, 3).await;
    is_there_still(&scene).await;
    scene.server.tell_truth();
    is_gone(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_answered_with_the_end_of_something_else() {
    let scene = Scene::new("another-end").await;
    let other = json!({ "name": scene.web_chaperon(), "kind": CHAPERONS, "uid": "another" });
    let mut ending = scene.lie_about(&scene.settled);
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let script = Script::new()
        .next(1, calls(Verb::Delete), answer(200, &success(&json!({}))))
        .next(1, calls(Verb::Delete), answer(200, &success(&other)))
        .always(calls(Verb::Delete), answer(200, &ending));
    runs_there(&scene).await;
    is_deleted_as(&scene, script).await;
    scene.asked(Verb::Delete, 3).await;
    is_there_still(&scene).await;
    let told = scene.stage.condition("evil", types::TRUSTWORTHY, "False");
    assert!(told.await.starts_with("TurnedAway: "));
    scene.server.tell_truth();
    is_gone(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_only_said_to_begin() {
    let scene = Scene::new("only-begun").await;
    runs_there(&scene).await;
    is_deleted(&scene, Lie::Undone).await;
    scene.asked(Verb::Delete, 1).await;
    is_there_still(&scene).await;
    let (own, name) = (&scene.stage.own, scene.web_chaperon());
    assert!(scene.server.remove(CHAPERONS, own, &name).unwrap());
    is_gone(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_the_end_of_what_stays() {
    let scene = Scene::new("stays").await;
    runs_there(&scene).await;
    let mut chaperon = scene.server.objects(CHAPERONS).unwrap().remove(0);
    let uid = &chaperon["metadata"]["uid"];
    let proof = json!({ "name": scene.web_chaperon(), "kind": CHAPERONS, "uid": uid });
    is_deleted(&scene, answer(200, &success(&proof))).await;
    // The tenant's target may say so of the tenant's own pod.
    is_gone(&scene).await;
    // As often as it is told, what has no parent is deleted.
    let before = scene.server.count(Verb::Delete, CHAPERONS);
    for told in 1..=3 {
        chaperon["metadata"]["annotations"]["example.com/told"] = json!(told.to_string());
        scene.server.put(chaperon.clone()).unwrap();
        scene.nobody_else_notices().await;
    }
    scene.asked(Verb::Delete, before + 1).await;
    let after = scene.server.count(Verb::Delete, CHAPERONS);
    assert!(after <= before + 3, "{before}, and then {after}");
    assert_eq!(scene.server.objects(CHAPERONS).unwrap().len(), 1);
}

/// What API servers refuse writes with: they are old, invalid, or not allowed.
const REFUSALS: [u16; 3] = [409, 422, 403];

/// Each of these verbs is refused in every way, one after the other, before the truth is told.
fn refused_in_turn(verbs: &[Verb]) -> Script {
    let each = |verb: &Verb| REFUSALS.map(|code| (*verb, code));
    let refuse = |script: Script, (verb, code)| script.next(1, calls(verb), Lie::Failure(code));
    verbs.iter().flat_map(each).fold(Script::new(), refuse)
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_refused_in_turn() {
    let writes = [Verb::Create, Verb::Patch, Verb::Delete];
    let scene = Scene::new("in-turn").await;
    scene.server.answer_questions(Questions::Run(json!({})));
    scene.begin(refused_in_turn(&writes)).await;
    let own = &scene.stage.own;
    // After that it runs: nothing was refused for good.
    scene.stage.runs(own, "web").await;
    scene.web_is_where_its_chaperon_says().await;
    let pods = scene.stage.pods(own);
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    is_gone(&scene).await;
    scene.nobody_else_notices().await;
    for verb in writes {
        let count = scene.server.count(verb, CHAPERONS);
        assert!(count > REFUSALS.len() as u64, "{verb:?}: {count} times");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_refused_for_ever() {
    let scene = Scene::new("for-ever").await;
    scene.server.answer_questions(Questions::Run(json!({})));
    let refuse = |verb, code| Script::new().always(calls(verb), Lie::Failure(code));
    scene.begin(refuse(Verb::Create, REFUSALS[0])).await;
    // Once questions are taken, a node is reserved, which the pod can't be granted.
    for verb in [Verb::Create, Verb::Patch] {
        for code in REFUSALS {
            scene.server.play(refuse(verb, code));
            let before = scene.server.count(verb, CHAPERONS);
            scene.asked(verb, before + 2).await;
        }
        scene.nobody_else_notices().await;
        scene.web_is_where_its_chaperon_says().await;
        assert_eq!(node_of(&scene.web().await), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_read_that_denies_what_the_list_shows() {
    let scene = Scene::new("denied").await;
    // Somebody else's finalizer makes the source read it before it is granted.
    let chaperon = build::chaperon_of(&scene.web, Some(&scene.source));
    let chaperon = chaperon.reserved(1).finalizer("example.com/theirs");
    let mut chaperon = scene.server.put(chaperon.value()).unwrap();
    let denied = Script::new().always(calls(Verb::Get), Lie::Failure(404));
    scene.begin(denied).await;
    // First it is to be granted, and then it is to be made, which finds one there.
    scene.asked(Verb::Get, 3).await;
    scene.nobody_else_notices().await;
    scene.web_is_where_its_chaperon_says().await;
    for told in 1..=3 {
        chaperon["metadata"]["annotations"]["example.com/told"] = json!(told.to_string());
        scene.server.put(chaperon.clone()).unwrap();
        scene.nobody_else_notices().await;
        scene.web_is_where_its_chaperon_says().await;
    }
    assert_eq!(node_of(&scene.web().await), None);
    assert_eq!(scene.server.objects(CHAPERONS).unwrap().len(), 1);
}
