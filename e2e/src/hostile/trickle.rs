//! Somebody else's pods: one after the other, at a steady pace, and how long each takes until it is bound.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use pilotage_testkit::{build, wait_for, wait_gone};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Error;

/// Between two pods.
const PERIOD: Duration = Duration::from_millis(500);
/// How long one may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Creates pods until the end, and waits until each has been bound, has run, and is gone; the times until they were
/// bound.
pub(super) async fn run(
    pods: &Api<Pod>,
    prefix: &str,
    end: &CancellationToken,
) -> Result<Vec<Duration>, Error> {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut under_way, mut times) = (JoinSet::new(), Vec::new());
    let mut number = 0;
    loop {
        let goes_on = !end.is_cancelled();
        if !goes_on && under_way.is_empty() {
            break;
        }
        tokio::select! {
            _ = ticks.tick(), if goes_on => {
                under_way.spawn(one(pods.clone(), format!("{prefix}-{number}")));
                number += 1;
            }
            Some(done) = under_way.join_next() => times.push(done.map_err(|_| Error::Gone)??),
        }
    }
    Ok(times)
}

async fn one(pods: Api<Pod>, name: String) -> Result<Duration, Error> {
    let at = Instant::now();
    let pod = build::pod(&name).elect().request("cpu", "100m").build();
    let created = pods.create(&PostParams::default(), &pod).await;
    created.map_err(Error::request("create a pod"))?;
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
    wait_for(&pods, &name, is_bound, LIMIT)
        .await
        .map_err(Error::wait(format!("{name} isn't bound")))?;
    let took = at.elapsed();
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        phase == Some("Running")
    };
    wait_for(&pods, &name, runs, LIMIT)
        .await
        .map_err(Error::wait(format!("{name} doesn't run")))?;
    let deleted = pods.delete(&name, &DeleteParams::default()).await;
    deleted.map_err(Error::request("delete a pod"))?;
    wait_gone(&pods, &name, LIMIT)
        .await
        .map_err(Error::wait(format!("{name} doesn't go")))?;
    Ok(took)
}
