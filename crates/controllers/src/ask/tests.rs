use pilotage_api::keys;
use pilotage_clusters::Options;
use pilotage_proxy::{Gate, Note, Reach, Settings, profile::profiles};
use pilotage_runtime::ready::Health;
use pilotage_sched_driver::{Driver, DriverOptions, Pods};
use prometheus_client::registry::Registry as Metrics;
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{LISTED, panics_alone, proxy, server, until};

/// What an edge works with that reaches this server, its inbox, and the driver that runs beside it.
async fn parts(client: &Client, stop: &CancellationToken) -> (Ask, Inbox, JoinHandle<()>) {
    let mut metrics = Metrics::default();
    let proxies = watch_proxies(client, stop);
    proxies.synced().await;
    let (port, nodes, inbox) = connect();
    let board = Arc::<Board>::default();
    let profiles = profiles(&board, Arc::new(port)).unwrap().to_vec();
    let options = DriverOptions {
        pods: Pods::Told(news(&proxies)),
        observer: Arc::new(nodes),
        ..DriverOptions::new(client.clone(), profiles, "test".to_owned())
    };
    let (driver, scheduling) = Driver::new(options, &mut metrics).unwrap();
    let driving = driver.run(stop.clone());
    let driving = tokio::spawn(async move { driving.await.unwrap() });
    let ask = Ask {
        cluster: ClusterUid("source".to_owned()),
        cluster_name: None,
        proxies,
        registry: Registry::start(client, Options::new("test"), stop),
        board,
        scheduling,
        configuration: Configuration::without_file(Settings::default()),
        namespace: "pilotage".to_owned(),
        leadership: Leadership::always(),
        metrics: FleetMetrics::default(),
        counts: AskMetrics::register(&mut metrics),
        tracer: None,
        stage_events: 5,
        dashboard: None,
        client: client.clone(),
    };
    (ask, inbox, driving)
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_step_panics_is_told_and_held_and_stops_no_other() {
    let (client, told) = server();
    let stop = CancellationToken::new();
    let (ask, inbox, driving) = parts(&client, &stop).await;
    let (proxies, board) = (ask.proxies.clone(), Arc::clone(&ask.board));
    let running = tokio::spawn(run(ask, inbox, stop.clone(), Health::new().gate("edge")));
    let put = |pod| proxies.fold(pod);
    let goes_on = async || {
        proxies.fold(proxy("waiting", LISTED + 1));
        let is_seen = || board.get("waiting").gate != Gate::Closed(Note::Unseen);
        until("the other one has its turn", is_seen).await;
    };
    panics_alone("ask", &told, put, goes_on).await;
    stop.cancel();
    running.await.unwrap();
    driving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn that_its_target_is_lost_is_told_once_on_each_pod_there() {
    let (client, told) = server();
    let stop = CancellationToken::new();
    let (ask, inbox, driving) = parts(&client, &stop).await;
    let (proxies, board) = (ask.proxies.clone(), Arc::clone(&ask.board));
    let (teller, edge) = run_told(ask, inbox, stop.clone(), Health::new().gate("edge"));
    let running = tokio::spawn(edge);
    let place = |uid: &str, version| {
        let mut pod = proxy(uid, version);
        pod.spec.as_mut().unwrap().node_name = Some("paris".to_owned());
        // Nothing is missing on it that would have to be written.
        pod.metadata.finalizers = Some(vec![keys::DELEGATE_GONE.to_owned()]);
        proxies.fold(pod);
    };
    place("placed", LISTED + 1);
    proxies.fold(proxy("waiting", LISTED + 2));
    let is_seen = || board.get("waiting").gate != Gate::Closed(Note::Unseen);
    until("both are there", is_seen).await;
    teller.reach("paris", Reach::Lost);
    until("it is told", || told.about("placed") == ["Lost"]).await;
    // It comes and goes.
    for reach in [Reach::Reachable, Reach::Lost] {
        teller.reach("paris", reach);
    }
    place("later", LISTED + 3);
    until("the other one is told", || told.about("later") == ["Lost"]).await;
    assert_eq!(told.about("placed"), ["Lost"]);
    assert!(told.about("waiting").iter().all(|reason| reason != "Lost"));
    stop.cancel();
    running.await.unwrap();
    driving.await.unwrap();
}
