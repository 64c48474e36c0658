//! Whose chaperon: what a tenant's target says of another namespace's pod counts for nothing.

use std::pin::pin;

use k8s_openapi::api::events::v1::Event;
use kube::{Api, runtime::watcher};
use pilotage_api::{conditions::types, keys};
use pilotage_e2e::hostile::written::forged;
use pilotage_testkit::{HostileServer, build, create, fault::Verb, wait_count, wait_for};

use crate::stage::{LIMIT, Stage, elected, record};

/// How many words of targets a part of the source has turned away, by its metrics.
async fn turned_away(stage: &Stage, part: &str) -> u64 {
    let process = &stage.fleet.source.processes[part];
    let (_, text) = process.admin_get("/metrics").await.unwrap();
    let lines = text.lines();
    let lines = lines.filter(|line| line.starts_with("pilotage_chaperons_turned_away_total{"));
    let counts = lines.map(|line| line.rsplit_once(' ').unwrap().1);
    let counts: Vec<u64> = counts.map(|count| count.parse().unwrap()).collect();
    assert!(!counts.is_empty(), "{text}");
    counts.iter().sum()
}

/// A stage with a Target `evil` that leads to a server of the tenant's, which has said nothing yet.
async fn led(test: &str) -> (Stage, HostileServer) {
    let stage = Stage::new(test).await;
    let server = HostileServer::start(test).await.unwrap();
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    (stage, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_target_binds_nobody_elses_pod() {
    let (stage, server) = led("forged").await;
    let by_controllers = turned_away(&stage, "controllers").await;
    let by_scheduler = turned_away(&stage, "proxy-scheduler").await;

    // It fits nowhere, so that it waits as long as the attack lasts.
    let pods = stage.pods(&stage.honest);
    let victim = elected("victim", "64");
    let victim = create(&pods, &victim).await.unwrap();
    let source = stage.source_uid().await;
    // As it is, as if it were the tenant's own, and as plain Admiralty would have made it.
    for chaperon in forged(&victim, &source, &stage.own) {
        server.put_everywhere(chaperon).unwrap();
    }
    let why = stage.condition("evil", types::TRUSTWORTHY, "False").await;
    assert!(why.starts_with("TurnedAway: "), "{why}");
    // Whoever turns it away counts it.
    assert!(turned_away(&stage, "controllers").await > by_controllers);
    let events: Api<Event> = Api::namespaced(stage.admin(), &stage.own);
    let is_told = |event: &Event| {
        let by = event.reporting_controller.as_deref();
        event.reason.as_deref() == Some("TargetTurnedAway") && by == Some(keys::PROXY_SCHEDULER)
    };
    let all = watcher::Config::default();
    wait_count(&events, all, 1, is_told, LIMIT).await.unwrap();
    assert!(turned_away(&stage, "proxy-scheduler").await > by_scheduler);

    stage.is_well("beside").await;
    let now = pods.get("victim").await.unwrap();
    assert_eq!(record(&now), None);
    let (spec, status) = (now.spec.unwrap(), now.status.unwrap());
    assert_eq!((spec.node_name, status.pod_ip), (None, None));
    for verb in [Verb::Patch, Verb::Delete] {
        assert_eq!(server.count(verb, "podchaperons"), 0, "{verb:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_whose_name_leads_elsewhere_is_asked_for_nowhere() {
    let (stage, server) = led("elsewhere").await;

    let source = stage.source_uid().await;
    for (name, uid) in [("?watch=true", "u1"), ("../pods", "u2"), ("web/log", "u3")] {
        let mut parent = build::pod(name).ns(&stage.own).build();
        parent.metadata.uid = Some(uid.to_owned());
        let chaperon = build::chaperon_of(&parent, Some(&source)).uid(uid);
        server.put_everywhere(chaperon.value()).unwrap();
    }
    // What may be asked of the source's own server isn't a target's to say.
    let why = stage.condition("evil", types::TRUSTWORTHY, "False").await;
    assert!(why.contains("parent that can be read"), "{why}");
    stage.is_well("beside").await;
    assert_eq!(server.count(Verb::Delete, "podchaperons"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_end_of_a_chaperon_leaves_its_pod_where_it_is() {
    let (stage, server) = led("ended").await;

    let pods = stage.pods(&stage.honest);
    let pod = elected("web", "100m");
    create(&pods, &pod).await.unwrap();
    let placed = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    let before = wait_for(&pods, "web", placed, LIMIT).await.unwrap();
    let uid = record(&before)
        .unwrap()
        .split('/')
        .nth(1)
        .unwrap()
        .to_owned();
    let source = stage.source_uid().await;
    let forged = build::chaperon_of(&before, Some(&source))
        .uid(&uid)
        .granted(1);
    let forged = forged.running("10.6.6.6").value();
    // Several processes watch, each in its own time: each watch that comes is told anew.
    let mut told = pin!(stage.condition("evil", types::TRUSTWORTHY, "False"));
    let mut watches = 0;
    loop {
        let more = server.counted(Verb::Watch, "podchaperons", watches + 1, 2 * LIMIT);
        tokio::select! {
            _ = &mut told => break,
            count = more => watches = count.unwrap(),
        }
        for event in ["ADDED", "DELETED"] {
            let forged = forged.clone();
            server.forge("podchaperons", event, forged).unwrap();
        }
    }

    stage.is_well("beside").await;
    let after = pods.get("web").await.unwrap();
    assert_eq!(
        after.metadata.uid, before.metadata.uid,
        "nobody replaced it"
    );
    assert_eq!(record(&after), record(&before));
    assert_eq!(after.metadata.deletion_timestamp, None);
}
