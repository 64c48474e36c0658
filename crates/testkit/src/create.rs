//! Creating what a webhook admits. It knows nothing of what the webhook says.

use std::fmt::Debug;

use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// On a busy machine so many in a row may go without the webhook's answer.
const MOST_TRIES: usize = 5;

/// Creates an object as its author does. On a busy machine not all are answered by the webhook in its time, and then
/// nothing is created: who creates pods tries again.
///
/// # Errors
/// What the API server says to the last try.
pub async fn create<K>(api: &Api<K>, object: &K) -> kube::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let mut tries = 1;
    loop {
        match api.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status))
                if tries < MOST_TRIES && status.message.contains("failed calling webhook") =>
            {
                tries += 1;
            }
            created => return created,
        }
    }
}
