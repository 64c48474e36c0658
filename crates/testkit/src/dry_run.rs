//! Waiting for what admission would say by now: an API server knows labels of namespaces, quotas and webhooks by
//! watches of its own, so that an object which was written a moment ago may not count yet.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wait::WaitError;

/// Between two questions; nothing can be watched that tells what an API server knows.
const PERIOD: Duration = Duration::from_millis(20);

/// Asks again and again what would become of this new object, until the answer passes; nothing is created.
pub async fn wait_admission<K>(
    api: &Api<K>,
    object: &K,
    pass: impl Fn(&kube::Result<K>) -> bool,
    limit: Duration,
) -> Result<(), WaitError>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut last = "nothing".to_owned();
    let asking = async {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            let answer = api.create(&params, object).await;
            if pass(&answer) {
                return;
            }
            last = match answer {
                Ok(_) => "it is admitted".to_owned(),
                Err(error) => error.to_string(),
            };
        }
    };
    let in_time = tokio::time::timeout(limit, asking).await;
    in_time.map_err(|_| WaitError {
        what: "what admission says of a new object".to_owned(),
        after: limit,
        last,
        watch_error: None,
    })
}
