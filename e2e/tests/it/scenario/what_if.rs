//! Questions about a pod that isn't there: the targets' own answers, and nothing left behind.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use pilotage_api::{GROUP, VERSION, keys};
use pilotage_e2e::fleet::{Side, lone};
use pilotage_testkit::{ControlPlane, build, wait_count};
use serde_json::json;

use super::kubelet::until;
use super::user::User;
use super::{LIMIT, Shop, elected, is_running};

/// What it prints once everybody has answered: on a busy machine a target may be silent for too long.
async fn answers(user: &User, words: &[&str]) -> String {
    until("answers of all targets", async || {
        let (code, out, err) = user.run(words).await;
        if code != 0 {
            return Err(err);
        }
        if out.contains("has not answered yet") {
            return Err(out);
        }
        Ok(out)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_answer_about_a_pod_that_never_runs() {
    let shop = Shop::open("whatif").await;
    let (source, at) = (&shop.fleet.source.plane, shop.name.as_str());
    let user = User::new(source, &shop.target("east").plane);
    let file = |name: &str, object: serde_json::Value| {
        let path = source.directory().join(format!("{at}-{name}.json"));
        std::fs::write(&path, object.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };

    // Its selector matches the question that its own file makes.
    let deployments: Api<Deployment> = Api::namespaced(source.admin(), at);
    let web = build::deployment("web").pod(|pod| pod.elect().request("cpu", "100m"));
    let web = web.build();
    deployments
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    let of_web = || Config::default().labels("app=web");
    let running = wait_count(&shop.pods(), of_web(), 1, is_running, LIMIT).await;
    let first = running.unwrap().remove(0);

    let mut web = serde_json::to_value(&web).unwrap();
    (web["apiVersion"], web["kind"]) = (json!("apps/v1"), json!("Deployment"));
    let web = file("web", web);
    let out = answers(&user, &["what-if", "-f", &web, "-n", at]).await;
    assert!(
        out.starts_with("3 of 3 target(s) could take the pod\n"),
        "{out}"
    );
    for target in ["east", "north", "west"] {
        let says = |line: &str| line.starts_with(target) && line.ends_with("could take the pod");
        assert!(out.lines().any(says), "{target}: {out}");
    }

    // Others' tests may have brought larger nodes.
    let huge = serde_json::to_value(elected("huge", "100k")).unwrap();
    let huge = file(
        "huge",
        json!({ "kind": "Pod", "apiVersion": "v1", "metadata": huge["metadata"], "spec": huge["spec"] }),
    );
    let out = answers(&user, &["what-if", "-f", &huge, "-n", at, "-o", "json"]).await;
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["could"], 0, "{out}");
    let refused = |target: &serde_json::Value| {
        let answer = target["answer"].as_str().unwrap_or_default();
        answer.starts_with("refused [") && answer.ends_with(" Insufficient cpu]")
    };
    assert!(
        told["targets"].as_array().unwrap().iter().all(refused),
        "{out}"
    );

    // The pods that are there go on, and of the questions nothing stands.
    let running = wait_count(&shop.pods(), of_web(), 1, is_running, LIMIT).await;
    assert_eq!(running.unwrap().remove(0).uid(), first.uid());
    let (target, delegate) = shop.delegate(&first).await;
    let all = Config::default;
    let pods = wait_count(&shop.pods(), all(), 1, |_| true, LIMIT).await;
    pods.unwrap();
    // Chaperons of a pod that was given to nobody go after it.
    for cluster in ["east", "north", "west"] {
        let stay = usize::from(cluster == target);
        let chaperons = wait_count(&shop.chaperons_in(cluster), all(), stay, |_| true, LIMIT).await;
        chaperons.unwrap();
        let pods = wait_count(&shop.pods_in(cluster), all(), stay, |_| true, LIMIT).await;
        let stays = pods
            .unwrap()
            .into_iter()
            .all(|it| it.uid() == delegate.uid());
        assert!(stays, "another pod than the delegate stands in {cluster}");
    }

    // A pod that the webhook doesn't see would run here.
    let local = format!("{at}-local");
    let local = source
        .named_namespace(&local, BTreeMap::new())
        .await
        .unwrap();
    let words = ["what-if", "-f", &huge, "-n", local.name()];
    user.fails(&words, 4, &["there is no Target for pods of namespace"])
        .await;
    let pods: Api<Pod> = local.api();
    assert!(
        pods.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_interrupts_a_question_leaves_nothing_behind() {
    // Nobody runs here, so nobody answers; the annotation says that a webhook has seen the pod.
    let lone = lone(ControlPlane::builder("source"), Side::Source).await;
    let plane = lone.unwrap().plane;
    let user = User::new(&plane, &plane);
    let shop = plane.named_namespace("shop", BTreeMap::new()).await;
    let shop = shop.unwrap();
    let target = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Target",
        "metadata": { "name": "here", "namespace": shop.name() },
        "spec": { "self": true },
    });
    plane.apply_yaml(&target.to_string()).await.unwrap();
    let web = build::pod("web").annotation(keys::SOURCE_POD_MANIFEST, "{}");
    let mut web = serde_json::to_value(web.build()).unwrap();
    (web["apiVersion"], web["kind"]) = (json!("v1"), json!("Pod"));
    let file = plane.directory().join("web.json");
    std::fs::write(&file, web.to_string()).unwrap();

    let pods: Api<Pod> = shop.api();
    for signal in ["INT", "TERM", "HUP"] {
        let mut command = user.command(&["what-if", "-f", file.to_str().unwrap()]);
        command.args(["-n", shop.name()]).stderr(Stdio::piped());
        let asking = command.spawn().unwrap();
        let asked = wait_count(&pods, Config::default(), 1, |_| true, LIMIT).await;
        assert!(asked.unwrap()[0].name_any().starts_with("what-if-"));
        let kill = format!("kill -{signal} {}", asking.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        let ended = tokio::task::spawn_blocking(move || asking.wait_with_output().unwrap());
        let ended = ended.await.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{signal}: {said}");
        let last = said.lines().last().unwrap();
        assert!(
            last.ends_with("the question is taken back"),
            "{signal}: {said}"
        );
        let left = pods.list(&ListParams::default()).await.unwrap().items;
        assert!(left.is_empty(), "{signal}: {left:#?}");
    }
    drop(shop);
    plane.stop().await;
}
