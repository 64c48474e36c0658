//! What tells pods of objects that don't follow them, each of its polls: all are there at its start, and some name as
//! much as they may.

use std::collections::BTreeSet;

use pilotage_absurd::steps::Times;
use pilotage_api::keys;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Options, Registry};
use pilotage_controllers::feedback::watch_proxies;
use pilotage_controllers::follow::{Unfollowed, tell_unfollowed};
use pilotage_runtime::lease::Leadership;
use pilotage_sched_driver::publish::Recorder;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::polls::Edge;
use crate::source::Source;
use crate::{PROXIES, naming, node, pod};

/// So many pods name as much as they can.
const HOSTILE: usize = 20;
/// As much as that is: the webhook elects none that names more.
const NAMED: usize = 3_200;

pub(crate) fn play(times: &mut Times) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let few = naming(4, |number| format!("n{number}"));
        let proxies = (0..PROXIES).map(|it| proxy(it, &few, 10_000)).collect();
        let source = Source::new([("pods", proxies)]);
        let (client, end) = (source.client(), CancellationToken::new());
        let (events, writer) = Recorder::new(client.clone(), "bench".to_owned());
        tokio::spawn(writer.run(end.clone()));
        let proxies = watch_proxies(&client, &end);
        let with = Unfollowed {
            cluster: ClusterUid("source".to_owned()),
            registry: Registry::start(&client, Options::new("bench"), &end),
            proxies: proxies.clone(),
            leadership: Leadership::always(),
            events,
            kinds: BTreeSet::new(),
            untold: Counter::default(),
        };
        let mut edge = Edge {
            name: "unfollowed",
            future: tell_unfollowed(with, end.clone()),
        };
        let name = "10,000 proxies come";
        edge.until(times, name, || proxies.is_synced()).await;
        edge.scene(times, name).await;
        let many = naming(NAMED, |number| format!("n{number}"));
        // Again and again, as when their status changes.
        for round in 0..3 {
            for number in PROXIES..PROXIES + HOSTILE {
                let version = 100_000 + round * HOSTILE + number;
                source.tell("pods", "MODIFIED", &proxy(number, &many, version));
            }
            edge.scene(times, "20 proxies have 3,200 names").await;
        }
        assert!(source.unanswered() > 0, "nobody was told");
        end.cancel();
    });
}

/// One that was sent to its target.
fn proxy(number: usize, spec: &Value, version: usize) -> Value {
    let mut proxy = json!(pod(number, &node(number), &json!({}), spec));
    proxy["metadata"]["resourceVersion"] = version.to_string().into();
    proxy["spec"]["schedulerName"] = keys::PROXY_SCHEDULER.into();
    proxy
}
