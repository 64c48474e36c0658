//! The candidate scheduler: nodes are held, bound under a grant, and given back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Volume};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    runtime::watcher,
};
use pilotage_api::{PodChaperon, keys};
use pilotage_candidate::Settings;
use pilotage_testkit::{
    ControlPlane, Recorded, Recorder, bindings, list_until, wait_for, wait_gone,
};
use serde_json::json;

use crate::target::{
    Bench, LIMIT, annotation, is_reserved, node_of, number, scheduled, start_candidate,
    start_chaperons,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_nowhere_is_refused_with_its_reason_until_there_is_room() {
    let bench = Bench::new("full").await;
    bench.nodes(&[("small", "1")]).await;
    let name = bench
        .ask(&bench.pod("web").request("cpu", "2").build())
        .await;
    let refused = bench.refused(&name, "Unschedulable: 0/").await;
    let why = annotation(&refused, keys::REFUSAL).unwrap();
    assert!(why.contains("Insufficient cpu"), "{why}");
    bench.nodes(&[("large", "4")]).await;
    let chaperon = bench.until(&name, is_reserved).await;
    assert_eq!(annotation(&chaperon, keys::REFUSAL), None);
    bench.grant(&chaperon, number(&chaperon)).await.unwrap();
    assert_eq!(bench.bound(&name).await, bench.node("large"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_the_clusters_admission_gates_is_refused_by_its_gates_until_they_go() {
    let bench = Bench::new("gated").await;
    bench.nodes(&[("a", "4")]).await;
    // In place of a webhook of the target, such as that of a queue.
    let gate = |body: &mut serde_json::Value| {
        body["spec"]["schedulingGates"] = json!([{ "name": "example.com/queue" }]);
    };
    let name = bench.ask_with(&bench.pod("web").build(), gate).await;
    let refused = bench.refused(&name, "Gated: ").await;
    let why = annotation(&refused, keys::REFUSAL).unwrap();
    assert!(why.contains("example.com/queue"), "{why}");
    let patch = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    let params = PatchParams::default();
    bench.pods.patch(&name, &params, &patch).await.unwrap();
    let chaperon = bench.until(&name, is_reserved).await;
    assert_eq!(annotation(&chaperon, keys::REFUSAL), None);
    bench.grant(&chaperon, number(&chaperon)).await.unwrap();
    assert_eq!(bench.bound(&name).await, bench.node("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_needs_what_the_scheduler_does_not_know_is_refused_by_its_name() {
    let bench = Bench::new("unknown").await;
    bench.nodes(&[("a", "4")]).await;
    let web = |name: &str| bench.pod(name).label("app", "web");
    let told = |needs: &str| {
        format!("refused: needs {needs}, which this candidate scheduler doesn't know yet")
    };
    let mut claiming = web("claiming").build();
    let claim = Volume {
        name: "data".into(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: "data".into(),
            read_only: None,
        }),
        ..Volume::default()
    };
    claiming.spec.get_or_insert_default().volumes = Some(vec![claim]);
    let name = bench.ask(&claiming).await;
    let refused = bench.refused(&name, "refused: ").await;
    let claims = told("persistent volumes");
    assert_eq!(annotation(&refused, keys::REFUSAL), Some(&*claims));
    // One that wants to be alone is there already, and goes.
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": { "matchExpressions": [
            { "key": "multicluster.admiralty.io/app", "operator": "Exists" },
        ] },
    });
    let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let affinity = json!({ "podAntiAffinity": terms });
    let alone = bench
        .pod("alone")
        .affinity(serde_json::from_value(affinity).unwrap())
        .node_name(&bench.node("a"))
        .build();
    let params = PostParams::default();
    bench.pods.create(&params, &alone).await.unwrap();
    // Its answer to this pod shows that the candidate scheduler has seen the other one.
    let large = bench
        .ask(&bench.pod("large").request("cpu", "9").build())
        .await;
    bench.refused(&large, "Unschedulable: ").await;
    let name = bench.ask(&web("beside").build()).await;
    let refused = bench.refused(&name, "Unschedulable: ").await;
    let why = annotation(&refused, keys::REFUSAL).unwrap();
    let others = "1 node(s) didn't satisfy existing pods anti-affinity rules";
    assert!(why.contains(others), "{why}");
    let params = DeleteParams::background().grace_period(0);
    bench.pods.delete("alone", &params).await.unwrap();
    let chaperon = bench.until(&name, is_reserved).await;
    assert_eq!(annotation(&chaperon, keys::REFUSAL), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn room_that_the_stock_scheduler_took_between_answer_and_grant_is_looked_at_again() {
    let bench = Bench::new("stolen").await;
    bench.nodes(&[("a", "2")]).await;
    let name = bench
        .ask(&bench.pod("web").request("cpu", "2").build())
        .await;
    let chaperon = bench.reserved(&name, 1).await;
    // The stock scheduler sees no holds.
    let thief = bench.pod("thief").request("cpu", "2").build();
    bench
        .pods
        .create(&PostParams::default(), &thief)
        .await
        .unwrap();
    assert_eq!(bench.bound("thief").await, bench.node("a"));
    // Its answer to a later pod shows that the candidate scheduler has seen the thief.
    let later = bench
        .ask(&bench.pod("later").request("cpu", "9").build())
        .await;
    bench.refused(&later, "Unschedulable: ").await;
    let record = Recorder::start(bench.chaperons.clone(), WatchParams::default())
        .await
        .unwrap();
    bench.grant(&chaperon, 1).await.unwrap();
    let taken_back = |c: &PodChaperon| annotation(c, keys::REFUSAL) == Some("NoLongerFits");
    let events = record
        .wait_until(
            |all| all.iter().any(|event| taken_back(&event.object)),
            LIMIT,
        )
        .await
        .unwrap();
    let taken_back = events
        .iter()
        .map(|event| &event.object)
        .find(|c| taken_back(c))
        .unwrap();
    assert_eq!((number(taken_back), is_reserved(taken_back)), (2, false));
    bench.refused(&name, "Unschedulable: ").await;
    // Another node: reserved anew, and the old grant doesn't bind it.
    bench.nodes(&[("b", "2")]).await;
    let chaperon = bench.until(&name, is_reserved).await;
    let attempt = number(&chaperon);
    assert!(attempt > 2);
    assert_eq!(node_of(&bench.pods.get(&name).await.unwrap()), None);
    assert!(
        bench.grant(&chaperon, 1).await.is_err(),
        "the API server refuses a grant of the past"
    );
    bench.grant(&chaperon, attempt).await.unwrap();
    assert_eq!(bench.bound(&name).await, bench.node("b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_numbers_no_attempts_is_served_too() {
    let bench = Bench::new("plain").await;
    bench.nodes(&[("a", "2")]).await;
    let plain = |body: &mut serde_json::Value| {
        let annotations = body["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(keys::ATTEMPT);
        annotations.remove(keys::ALLOWED_ATTEMPT);
    };
    let name = bench.ask_with(&bench.pod("web").build(), plain).await;
    bench.until(&name, is_reserved).await;
    let patch = json!({ "metadata": { "annotations": { keys::IS_ALLOWED: "true" } } });
    bench
        .chaperons
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(bench.bound(&name).await, bench.node("a"));
    bench
        .until(&name, |c| {
            scheduled(c).is_some_and(|s| s["status"] == "True")
        })
        .await;
    bench.delete(&name).await;
    wait_gone(&bench.pods, &name, LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_loser_gives_its_room_to_the_next() {
    let bench = Bench::new("release").await;
    bench.nodes(&[("a", "2")]).await;
    let first = bench
        .ask(&bench.pod("first").request("cpu", "2").build())
        .await;
    bench.reserved(&first, 1).await;
    let second = bench
        .ask(&bench.pod("second").request("cpu", "2").build())
        .await;
    bench.refused(&second, "Unschedulable: ").await;
    bench.delete(&first).await;
    let chaperon = bench.until(&second, is_reserved).await;
    bench.grant(&chaperon, number(&chaperon)).await.unwrap();
    assert_eq!(bench.bound(&second).await, bench.node("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_chaperon_is_told_why_it_waits() {
    let bench = Bench::new("orphan").await;
    bench.nodes(&[("a", "2")]).await;
    let pod = bench
        .pod("web")
        .scheduler(keys::CANDIDATE_SCHEDULER)
        .build();
    bench
        .pods
        .create(&PostParams::default(), &pod)
        .await
        .unwrap();
    let events: Api<Event> = bench.namespace.api();
    let told = |event: &Event| {
        event
            .note
            .as_deref()
            .is_some_and(|note| note.contains("no PodChaperon"))
    };
    list_until(
        &events,
        watcher::Config::default(),
        |all| all.values().any(told),
        LIMIT,
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_are_held_at_once_and_each_is_bound_once() {
    const PODS: usize = 200;
    let bench = Bench::new("many").await;
    bench.nodes(&[("a", "100"), ("b", "100")]).await;
    let began = Instant::now();
    let pods: Vec<_> = (0..PODS)
        .map(|n| bench.pod(&format!("p{n}")).build())
        .collect();
    let names = join_all(pods.iter().map(|pod| bench.ask(pod))).await;
    let all = |pass: fn(&PodChaperon) -> bool| {
        let chaperons = bench.chaperons.clone();
        async move {
            list_until(
                &chaperons,
                watcher::Config::default(),
                |seen| seen.len() == PODS && seen.values().all(pass),
                LIMIT,
            )
            .await
            .unwrap()
        }
    };
    let reserved = all(is_reserved).await;
    println!("{PODS} reserved after {:?}", began.elapsed());
    join_all(reserved.iter().map(|chaperon| async {
        bench.grant(chaperon, number(chaperon)).await.unwrap();
    }))
    .await;
    join_all(names.iter().map(|name| bench.bound(name))).await;
    println!("{PODS} bound after {:?}", began.elapsed());
    let log = bench.plane.audit().unwrap();
    let entries = log.entries_in(bench.namespace.name()).await.unwrap();
    assert_eq!(bindings(&entries).values().sum::<usize>(), PODS);
}

/// A plane whose candidate scheduler a test may stop, and which is impatient.
async fn own_plane(name: &str) -> Arc<ControlPlane> {
    let plane = ControlPlane::builder(name)
        .kwok(Vec::new())
        .start()
        .await
        .unwrap();
    Arc::new(plane)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_nobody_takes_expires_and_the_next_one_waits() {
    let plane = own_plane("expiry").await;
    let settings = Settings {
        hold: Duration::from_millis(1500),
        ..Settings::default()
    };
    let running = (
        start_chaperons(&plane).await,
        start_candidate(&plane, settings).await,
    );
    let bench = Bench::at(plane, "expiry").await;
    bench.nodes(&[("a", "2")]).await;
    let record = Recorder::start(bench.chaperons.clone(), WatchParams::default())
        .await
        .unwrap();
    let name = bench
        .ask(&bench.pod("web").request("cpu", "2").build())
        .await;
    let said = |attempt: u64, what: fn(&PodChaperon) -> bool| {
        let name = &name;
        move |all: &[Recorded<PodChaperon>]| {
            all.iter()
                .map(|event| &event.object)
                .any(|c| c.metadata.name.as_ref() == Some(name) && number(c) == attempt && what(c))
        }
    };
    record
        .wait_until(said(1, is_reserved), LIMIT)
        .await
        .unwrap();
    let expired = |c: &PodChaperon| annotation(c, keys::REFUSAL) == Some("Expired");
    record.wait_until(said(2, expired), LIMIT).await.unwrap();
    let chaperon = bench.chaperons.get(&name).await.unwrap();
    assert!(bench.grant(&chaperon, 1).await.is_err(), "too late");
    // While it pauses the room is another's.
    let other = bench
        .ask(&bench.pod("other").request("cpu", "2").build())
        .await;
    bench.take(&other).await;
    bench.refused(&name, "Unschedulable: ").await;
    bench.nodes(&[("b", "2")]).await;
    assert_eq!(bench.take(&name).await, bench.node("b"));
    let attempts: Vec<u64> = record
        .events()
        .unwrap()
        .iter()
        .filter(|event| event.object.metadata.name.as_deref() == Some(&name))
        .map(|event| number(&event.object))
        .collect();
    assert!(
        attempts.is_sorted() && attempts.windows(2).all(|w| w[1] <= w[0] + 1),
        "{attempts:?}"
    );
    running.1.stop().await;
    running.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_scheduler_renews_its_answers_and_honours_grants() {
    let plane = own_plane("restart").await;
    let chaperons = start_chaperons(&plane).await;
    let settings = Settings {
        hold: LIMIT,
        ..Settings::default()
    };
    let candidate = start_candidate(&plane, settings).await;
    let bench = Bench::at(plane.clone(), "restart").await;
    bench.nodes(&[("a", "8")]).await;
    let waiting = bench.ask(&bench.pod("waiting").build()).await;
    let granted = bench.ask(&bench.pod("granted").build()).await;
    let released = bench.ask(&bench.pod("released").build()).await;
    for name in [&waiting, &granted, &released] {
        bench.reserved(name, 1).await;
    }
    candidate.stop().await;
    // While nobody is there: one is granted, one loses its pod.
    let chaperon = bench.chaperons.get(&granted).await.unwrap();
    bench.grant(&chaperon, 1).await.unwrap();
    bench
        .pods
        .delete(&released, &DeleteParams::default())
        .await
        .unwrap();
    bench
        .until(&released, |c| {
            annotation(c, keys::POD_MISSING_SINCE).is_some()
        })
        .await;

    let candidate = start_candidate(&plane, settings).await;
    let renewed = bench.reserved(&waiting, 2).await;
    assert_eq!(bench.bound(&granted).await, bench.node("a"));
    assert_eq!(
        number(&bench.chaperons.get(&granted).await.unwrap()),
        1,
        "bound under the old number"
    );
    assert_eq!(number(&bench.refused(&released, "PodGone").await), 2);
    bench.grant(&renewed, 2).await.unwrap();
    assert_eq!(bench.bound(&waiting).await, bench.node("a"));
    wait_for(&bench.pods, &waiting, |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();
    let pods = bench.pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(pods.len(), 2);
    candidate.stop().await;
    chaperons.stop().await;
}
