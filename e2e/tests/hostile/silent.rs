//! A target whose probe is well and which drops questions: the first pod asks it, and the next ones don't ask it first.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::PostParams};
use pilotage_api::{keys, names};
use pilotage_testkit::HostileServer;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Lie, Script};
use pilotage_testkit::wait_for;

use crate::stage::{LIMIT, Stage, elected, name_target};

/// They come one after the other.
const PODS: usize = 8;
/// One of so many asks the target with the most room first.
const FIRST: usize = 3;

/// Pods may go to the healthy target, or to this one, which has more room and plays this script.
async fn is_asked_by_the_first_pod_alone(prefix: &str, script: Script) {
    let stage = Stage::new(prefix).await;
    let server = HostileServer::start(prefix).await.unwrap();
    server.play(script);
    let kubeconfig = server.kubeconfig();
    name_target(stage.admin(), &stage.honest, "mute", &kubeconfig).await;
    let nodes: Api<Node> = Api::all(stage.admin());
    for target in ["east", "mute"] {
        let source = &stage.fleet.source;
        source.connected(target, &stage.honest).await.unwrap();
        let has_room = |node: &Node| {
            let annotations = node.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(keys::FREE_SHAPES))
        };
        let node = names::virtual_node(Some(&stage.honest), target);
        wait_for(&nodes, &node, has_room, LIMIT).await.unwrap();
    }

    let pods = stage.pods(&stage.honest);
    let asked = || server.count(Verb::Create, "podchaperons");
    let mut by_the_first = 0;
    for index in 0..PODS {
        let name = format!("web-{index}");
        let pod = elected(&name, "500m");
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let proxy = stage.runs(&stage.honest, &name).await;
        stage.has_one_delegate(&proxy).await;
        // Nobody may have known of its room yet.
        if by_the_first == 0 {
            by_the_first = asked();
            assert!(by_the_first > 0 || index < FIRST, "it has the most room");
        }
    }
    // One question of that pod may have been on its way.
    let (now, most) = (asked(), by_the_first + 1);
    assert!(now <= most, "{now} questions, {by_the_first} by the first");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_questions_and_answers_none_is_asked_by_the_first_pod_alone() {
    is_asked_by_the_first_pod_alone("mute", Script::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_drops_questions_is_asked_by_the_first_pod_alone() {
    let questions = Calls::of(Verb::Create, "podchaperons");
    let dropped = Lie::Raw(Vec::new().into());
    is_asked_by_the_first_pod_alone("drops", Script::new().always(questions, dropped)).await;
}
