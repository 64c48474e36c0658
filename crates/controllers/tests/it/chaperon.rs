//! The chaperon controller: pods come, are told of, and go.

use k8s_openapi::api::{
    core::v1::{Pod, ServiceAccount},
    events::v1::Event,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    runtime::watcher,
};
use pilotage_api::{PodChaperon, keys};
use pilotage_testkit::{
    Change, Recorder, apply, build, list_until, wait_admission, wait_for, wait_gone,
};
use serde_json::{Value, json};

use crate::target::{Bench, LIMIT, annotation, node_of, scheduled};

fn phase(chaperon: &PodChaperon) -> Option<&str> {
    chaperon.status.as_ref()?.0.get("phase")?.as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_chaperon_to_running_pod_and_back_to_nothing() {
    let bench = Bench::new("life").await;
    bench.nodes(&[("a", "4")]).await;
    let record = Recorder::start(bench.pods.clone(), WatchParams::default())
        .await
        .unwrap();
    let name = bench.ask(&bench.pod("web").build()).await;
    let chaperon = bench.reserved(&name, 1).await;
    let pod = bench.pods.get(&name).await.unwrap();
    assert_eq!(
        annotation(&chaperon, keys::RESERVED_POD_UID),
        pod.metadata.uid.as_deref()
    );
    assert_eq!(node_of(&pod), None, "held, not bound");
    bench.grant(&chaperon, 1).await.unwrap();
    assert_eq!(bench.bound(&name).await, bench.node("a"));
    // Its status flows back.
    let running = bench.until(&name, |c| phase(c) == Some("Running")).await;
    assert_eq!(scheduled(&running).unwrap()["status"], "True");
    assert_eq!(
        annotation(&running, keys::ATTEMPT),
        Some("1"),
        "nothing is written after the grant"
    );
    // So do annotations that the target puts on the pod.
    let patch = json!({ "metadata": { "annotations": { "cni.example.com/ip": "10.1.2.3" } } });
    bench
        .pods
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    bench
        .until(&name, |c| {
            annotation(c, "cni.example.com/ip") == Some("10.1.2.3")
        })
        .await;

    bench.delete(&name).await;
    wait_gone(&bench.chaperons, &name, LIMIT).await.unwrap();
    let gone = record
        .wait_until(|all| all.iter().any(|e| e.change == Change::Deleted), LIMIT)
        .await;
    let gone = gone.unwrap();
    let uids: std::collections::BTreeSet<_> = gone
        .iter()
        .map(|event| event.object.metadata.uid.clone())
        .collect();
    assert_eq!(uids.len(), 1, "one pod, ever");
    assert!(
        bench
            .pods
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let bindings = bench.plane.audit().unwrap();
    let ours = |e: &pilotage_testkit::audit::Entry| {
        e.is_binding() && e.namespace == bench.namespace.name()
    };
    assert_eq!(bindings.count(ours).await.unwrap(), 1, "bound exactly once");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_chaperon_with_a_heavy_spec_the_pod_is_made_as_of_any_other() {
    let bench = Bench::new("heavy").await;
    bench.nodes(&[("a", "4")]).await;
    let volume = |number: usize| json!({ "name": format!("v{number}"), "emptyDir": {} });
    let volumes: Vec<Value> = (0..200).map(volume).collect();
    let heavy = |body: &mut Value| body["spec"]["volumes"] = volumes.into();
    let name = bench.ask_with(&bench.pod("web").build(), heavy).await;
    let chaperon = bench.reserved(&name, 1).await;
    bench.grant(&chaperon, 1).await.unwrap();
    assert_eq!(bench.bound(&name).await, bench.node("a"));
    bench.until(&name, |c| phase(c) == Some("Running")).await;
    let pod = bench.pods.get(&name).await.unwrap();
    let volumes = pod.spec.unwrap().volumes.unwrap_or_default();
    assert!(volumes.len() >= 200, "{}", volumes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_and_a_loser_cost_what_the_design_says() {
    let bench = Bench::new("cost").await;
    bench.nodes(&[("a", "8")]).await;
    let winner = bench.ask(&bench.pod("winner").build()).await;
    let chaperon = bench.reserved(&winner, 1).await;
    bench.grant(&chaperon, 1).await.unwrap();
    bench.until(&winner, |c| phase(c) == Some("Running")).await;
    let loser = bench.ask(&bench.pod("loser").build()).await;
    bench.reserved(&loser, 1).await;
    bench.delete(&loser).await;
    wait_gone(&bench.pods, &loser, LIMIT).await.unwrap();
    bench.delete(&winner).await;
    wait_gone(&bench.chaperons, &winner, LIMIT).await.unwrap();

    let mut writes = bench.writes().await;
    // The phases of a starting pod are gathered; how many gatherings there are is the kubelet's affair.
    let statuses = writes
        .remove("chaperon-controller patch podchaperons/status 200")
        .unwrap();
    assert!((1..=3).contains(&statuses), "{statuses}");
    // Of a pod whose chaperon is gone already, the garbage collector may be first to know.
    let deleted = writes
        .remove("chaperon-controller delete pods 200")
        .unwrap_or_default();
    writes.remove("chaperon-controller delete pods 404");
    // And the candidate scheduler may see a loser's pod go before its chaperon.
    let late = writes
        .remove("candidate-scheduler patch podchaperons 404")
        .unwrap_or_default();
    assert!(deleted <= 2 && late <= 1, "{deleted}, {late}");
    let want = [
        ("candidate-scheduler create pods/binding 201", 1),
        ("candidate-scheduler patch podchaperons 200", 2),
        ("chaperon-controller create pods 201", 2),
        ("chaperon-controller patch podchaperons 200", 1),
    ];
    let want = want.map(|(line, count)| (line.to_owned(), count)).into();
    assert_eq!(writes, want);
}

/// What the source reads when the target refuses a pod, and what makes it take the pod after all.
async fn is_refused_until(bench: &Bench, pod: &Pod, why: &str, mend: impl AsyncFnOnce()) {
    let name = bench.ask(pod).await;
    let refused =
        |c: &PodChaperon| scheduled(c).is_some_and(|s| s["reason"] == keys::CANDIDATE_REFUSED);
    let chaperon = bench.until(&name, refused).await;
    let condition = scheduled(&chaperon).unwrap();
    let message = condition["message"].as_str().unwrap().to_owned();
    assert!(message.contains(why), "{message}");
    assert_eq!(condition["status"], "False");
    let events: Api<Event> = bench.namespace.api();
    let told = move |event: &Event| {
        event.reason.as_deref() == Some(keys::CANDIDATE_REFUSED)
            && event.note.as_deref() == Some(&message)
    };
    let seen = list_until(
        &events,
        watcher::Config::default(),
        |all| all.values().any(&told),
        LIMIT,
    )
    .await;
    assert_eq!(
        seen.unwrap()
            .iter()
            .find(|e| told(e))
            .unwrap()
            .regarding
            .as_ref()
            .unwrap()
            .kind
            .as_deref(),
        Some("PodChaperon")
    );
    mend().await;
    bench.reserved(&name, 1).await;
    bench.until(&name, |c| !refused(c)).await;
    bench.delete(&name).await;
    wait_gone(&bench.pods, &name, LIMIT).await.unwrap();
}

async fn make(bench: &Bench, object: Value) {
    apply::apply_values(&bench.plane.admin(), vec![object], bench.namespace.name())
        .await
        .unwrap();
}

/// Waits until the API server would refuse a pod for this.
async fn refuses(bench: &Bench, why: &str) {
    let says = |answer: &kube::Result<Pod>| {
        let Err(kube::Error::Api(status)) = answer else {
            return false;
        };
        status.message.contains(why)
    };
    let pod = build::pod("probe").build();
    wait_admission(&bench.pods, &pod, says, LIMIT)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_admission_refuses_is_an_answer_and_no_silence() {
    let bench = Bench::new("admission").await;
    bench.nodes(&[("a", "4")]).await;
    let class = format!("{}-high", bench.namespace.name());
    is_refused_until(
        &bench,
        &bench.pod("class").priority_class(&class).build(),
        "no PriorityClass",
        async || {
            make(
                &bench,
                json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": class }, "value": 10 }),
            )
            .await;
        },
    )
    .await;

    is_refused_until(
        &bench,
        &bench.pod("account").service_account("robot").build(),
        "robot",
        async || {
            let accounts: Api<ServiceAccount> = bench.namespace.api();
            let account = build::service_account(bench.namespace.name(), "robot");
            accounts
                .create(&PostParams::default(), &account)
                .await
                .unwrap();
        },
    )
    .await;

    let quota = |pods: &str| {
        json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "q" }, "spec": { "hard": { "pods": pods } } })
    };
    make(&bench, quota("0")).await;
    refuses(&bench, "exceeded quota").await;
    is_refused_until(
        &bench,
        &bench.pod("quota").build(),
        "exceeded quota",
        async || {
            make(&bench, quota("5")).await;
        },
    )
    .await;

    let secure = |level: &str| {
        json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": bench.namespace.name(),
            "labels": { "pod-security.kubernetes.io/enforce": level } } })
    };
    make(&bench, secure("restricted")).await;
    refuses(&bench, "violates PodSecurity").await;
    is_refused_until(
        &bench,
        &bench.pod("secure").build(),
        "violates PodSecurity",
        async || {
            make(&bench, secure("privileged")).await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_server_would_leave_out_of_a_pod_is_refused_and_named() {
    let bench = Bench::new("recent").await;
    let mut pod = bench.pod("named").build();
    pod.spec.as_mut().unwrap().hostname_override = Some("db-0.example.com".to_owned());
    let name = bench.ask(&pod).await;
    let chaperon = bench.until(&name, |c| scheduled(c).is_some()).await;
    let condition = scheduled(&chaperon).unwrap();
    assert_eq!(condition["reason"], keys::CANDIDATE_REFUSED);
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("leaves out spec.hostnameOverride:"),
        "{message}"
    );
    assert!(bench.pods.get_opt(&name).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_somebody_else_is_left_alone() {
    let bench = Bench::new("taken").await;
    let stranger = |name: &str| build::pod(name).node_selector("pool", "nowhere").build();
    let source = bench.pod("web").build();
    // The name follows from the parent, so a stranger can have it first.
    let name = pilotage_api::names::chaperon(bench.namespace.name(), "web", "uid-of-web");
    let theirs = bench
        .pods
        .create(&PostParams::default(), &stranger(&name))
        .await
        .unwrap();
    assert_eq!(bench.ask(&source).await, name);
    let refused = bench.until(&name, |c| scheduled(c).is_some()).await;
    let condition = scheduled(&refused).unwrap();
    assert_eq!(condition["reason"], keys::CANDIDATE_REFUSED);
    assert!(
        condition["message"]
            .as_str()
            .unwrap()
            .contains("doesn't control"),
        "{condition}"
    );
    bench.delete(&name).await;
    wait_gone(&bench.chaperons, &name, LIMIT).await.unwrap();
    assert_eq!(
        bench.pods.get(&name).await.unwrap().metadata.uid,
        theirs.metadata.uid
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegate_that_is_deleted_is_marked_missing() {
    let bench = Bench::new("missing").await;
    bench.nodes(&[("a", "4")]).await;
    let name = bench.ask(&bench.pod("web").grace(0).build()).await;
    let chaperon = bench.reserved(&name, 1).await;
    bench.grant(&chaperon, 1).await.unwrap();
    bench.until(&name, |c| phase(c) == Some("Running")).await;
    bench
        .pods
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let missing = bench
        .until(&name, |c| annotation(c, keys::POD_MISSING_SINCE).is_some())
        .await;
    assert_eq!(annotation(&missing, keys::WAS_BOUND), Some("true"));
    bench.delete(&name).await;
    wait_gone(&bench.chaperons, &name, LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_loses_its_pod_unless_it_is_bound() {
    let bench = Bench::new("giveup").await;
    bench.nodes(&[("a", "4")]).await;
    let give_up = async |name: &str| {
        let patch = json!({ "metadata": { "annotations": { keys::GIVE_UP: "true" } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        bench.chaperons.patch(name, &params, &patch).await.unwrap();
    };
    let bound = bench.ask(&bench.pod("bound").build()).await;
    let chaperon = bench.reserved(&bound, 1).await;
    bench.grant(&chaperon, 1).await.unwrap();
    bench.until(&bound, |c| phase(c) == Some("Running")).await;
    give_up(&bound).await;
    let held = bench.ask(&bench.pod("held").build()).await;
    bench.reserved(&held, 1).await;
    give_up(&held).await;
    let missing = bench
        .until(&held, |c| annotation(c, keys::POD_MISSING_SINCE).is_some())
        .await;
    assert_eq!(annotation(&missing, keys::WAS_BOUND), None);
    assert!(bench.pods.get_opt(&held).await.unwrap().is_none());
    // That it took in the first one's change, too, the second's tells.
    let runs = bench.pods.get(&bound).await.unwrap();
    assert_eq!(runs.metadata.deletion_timestamp, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_reservation_the_pod_is_made_only_after_the_choice() {
    let bench = Bench::new("noreserve").await;
    bench.nodes(&[("a", "4")]).await;
    let mut source = bench.pod("web").build();
    source
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(keys::NO_RESERVATION.into(), String::new());
    source.spec.as_mut().unwrap().scheduler_name = Some("default-scheduler".into());
    let asked = bench.ask(&source).await;
    // A second one that is made at once shows that the controller has seen the first.
    let other = bench.ask(&bench.pod("other").build()).await;
    bench.reserved(&other, 1).await;
    assert!(bench.pods.get_opt(&asked).await.unwrap().is_none());
    let patch = json!({ "metadata": { "annotations": { keys::ALLOWED_ATTEMPT: "1", keys::IS_ALLOWED: "true" } } });
    bench
        .chaperons
        .patch(&asked, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(
        bench.bound(&asked).await,
        bench.node("a"),
        "by the stock scheduler"
    );
    let pod = bench.pods.get(&asked).await.unwrap();
    let chaperon = bench.chaperons.get(&asked).await.unwrap();
    assert_eq!(
        annotation(&chaperon, keys::RESERVED_POD_UID),
        pod.metadata.uid.as_deref(),
        "named before its gate went"
    );
    bench
        .until(&asked, |c| {
            scheduled(c).is_some_and(|s| s["status"] == "True")
        })
        .await;
    wait_for(&bench.pods, &asked, |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();
}
