//! A target whose probe is well and which drops questions: the first pod asks it, and the next ones don't ask it first.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use pilotage_api::{keys, names};
use pilotage_testkit::HostileServer;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Lie, Script};
use pilotage_testkit::{create, wait_for};
use tokio::time::Instant;

use crate::stage::{LIMIT, SILENCE, Stage, elected, name_target};
use crate::watches::WATCHES;

/// One of so many pods asks the target with the most room first.
const FIRST: usize = 4;
/// So many come after that one, one after the other, and don't.
const LATER: usize = 4;
/// The target may be asked first again a minute after it let a question pass: what comes later says nothing.
const KNOWN_FOR: Duration = Duration::from_secs(45);
/// So often a machine may be too slow for that.
const ROUNDS: usize = 5;

/// A pod that runs.
struct Placed {
    /// How long it took.
    took: Duration,
    /// How often the target that doesn't answer was asked meanwhile.
    questions: u64,
}

/// Pods may go to the healthy target, or to this one, which has more room and plays this script.
async fn is_asked_by_the_first_pod_alone(prefix: &str, script: Script) {
    for _ in 0..ROUNDS {
        if is_shown(prefix, script.clone()).await {
            return;
        }
    }
    panic!("{ROUNDS} times {LATER} pods after the first didn't run within {KNOWN_FOR:?}");
}

/// One round with a new target, of which nothing is known. `false` if the pods came too late to show anything.
async fn is_shown(prefix: &str, script: Script) -> bool {
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
    // The scheduler has lists of its own.
    let watched = server
        .counted(Verb::Watch, "podchaperons", WATCHES, LIMIT)
        .await;
    watched.unwrap();

    // Nobody may have known of its room yet.
    let mut silent_after = None;
    for number in 0..FIRST {
        let began = Instant::now();
        let pod = place(&stage, &server, &format!("first-{number}")).await;
        if pod.questions > 0 {
            silent_after = Some(began);
            break;
        }
    }
    let Some(silent_after) = silent_after else {
        panic!("it has the most room");
    };
    // One question of the first pod may have been on its way.
    let (mut later, mut questions, mut most) = (0, 0, 1);
    for number in 0_usize.. {
        let pod = place(&stage, &server, &format!("later-{number}")).await;
        if silent_after.elapsed() > KNOWN_FOR {
            return false;
        }
        // A pod for which the healthy target was too slow asks the other one in the end, and not first.
        if pod.took < SILENCE {
            questions += pod.questions;
        } else if pod.questions > 0 {
            most += 1;
        }
        assert!(
            questions <= most,
            "{questions} questions, the last by {number}"
        );
        later += usize::from(pod.questions == 0);
        if later == LATER {
            break;
        }
    }
    true
}

/// Creates a pod of somebody honest, and waits until it runs in the healthy target.
async fn place(stage: &Stage, server: &HostileServer, name: &str) -> Placed {
    let asked = || server.count(Verb::Create, "podchaperons");
    let (before, began) = (asked(), Instant::now());
    let pods = stage.pods(&stage.honest);
    let pod = elected(name, "400m");
    create(&pods, &pod).await.unwrap();
    let proxy = stage.runs(&stage.honest, name).await;
    let took = began.elapsed();
    stage.has_one_delegate(&proxy).await;
    let questions = asked() - before;
    Placed { took, questions }
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
