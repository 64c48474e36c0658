use pilotage_clusters::Options;
use pilotage_proxy::{Gate, Note, Settings, profile::profiles};
use pilotage_runtime::ready::Health;
use pilotage_sched_driver::{Driver, DriverOptions, Pods};
use prometheus_client::registry::Registry as Metrics;

use super::*;
use crate::testing::{LISTED, panics_alone, proxy, server, until};

#[tokio::test(start_paused = true)]
async fn a_pod_whose_step_panics_is_told_and_held_and_stops_no_other() {
    let (client, told) = server();
    let (stop, mut metrics) = (CancellationToken::new(), Metrics::default());
    let proxies = watch_proxies(&client, &stop);
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
    let driving = tokio::spawn(driver.run(stop.clone()));
    let ask = Ask {
        cluster: ClusterUid("source".to_owned()),
        cluster_name: None,
        proxies: proxies.clone(),
        registry: Registry::start(&client, Options::new("test"), &stop),
        board: Arc::clone(&board),
        scheduling,
        configuration: Configuration::without_file(Settings::default()),
        namespace: "pilotage".to_owned(),
        leadership: Leadership::always(),
        metrics: FleetMetrics::default(),
        counts: AskMetrics::register(&mut metrics),
        tracer: None,
        stage_events: 5,
        dashboard: None,
        client,
    };
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
    driving.await.unwrap().unwrap();
}
