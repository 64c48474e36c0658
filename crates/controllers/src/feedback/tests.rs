use pilotage_api::keys;
use pilotage_clusters::Options;
use pilotage_runtime::ready::Health;

use super::*;
use crate::testing::{LISTED, panics_alone, proxy, server, until};

#[tokio::test(start_paused = true)]
async fn a_pod_whose_step_panics_is_told_and_held_and_stops_no_other() {
    let (client, told) = server();
    let stop = CancellationToken::new();
    let (events, writer) = Recorder::new(client.clone(), "test".to_owned());
    tokio::spawn(writer.run(stop.clone()));
    let proxies = watch_proxies(&client, &stop);
    proxies.synced().await;
    let feedback = Feedback {
        cluster: ClusterUid("source".to_owned()),
        registry: Registry::start(&client, Options::new("test"), &stop),
        proxies: proxies.clone(),
        settings: Settings::default(),
        leadership: Leadership::always(),
        metrics: FleetMetrics::default(),
        events,
        client,
    };
    let running = tokio::spawn(run(feedback, stop.clone(), Health::new().gate("edge")));
    let put = |pod| proxies.fold(pod);
    let goes_on = async || {
        // It is to be told why it can't go.
        let mut ending = proxy("ending", LISTED + 1);
        let meta = &mut ending.metadata;
        let damaged = [(keys::GRANTED_TO.to_owned(), "damaged".to_owned())];
        meta.annotations = Some(damaged.into());
        meta.finalizers = Some(vec![keys::DELEGATE_GONE.to_owned()]);
        meta.deletion_timestamp = meta.creation_timestamp.clone();
        proxies.fold(ending);
        let is_told = || told.about("ending") == ["DelegateUnknown"];
        until("the other one is told", is_told).await;
    };
    panics_alone("feedback", &told, put, goes_on).await;
    stop.cancel();
    running.await.unwrap();
}
