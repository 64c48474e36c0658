//! Creating what a webhook admits. It knows nothing of what the webhook says.

use std::fmt::Debug;

use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// On a busy machine so many in a row may go without the webhook's answer.
const MOST_TRIES: usize = 5;

/// Creates an object as its author does. On a busy machine not all are answered by the webhook in its time, and then
/// nothing is created: who creates pods tries again. An object that is there already by then was created by a try whose
/// answer was lost, and is what is returned.
///
/// # Errors
/// What the API server says to the last try.
pub async fn create<K>(api: &Api<K>, object: &K) -> kube::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize + kube::Resource,
{
    let mut tries = 1;
    loop {
        match api.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status))
                if tries < MOST_TRIES && status.message.contains("failed calling webhook") =>
            {
                tries += 1;
            }
            Err(kube::Error::Api(status)) if tries > 1 && status.is_already_exists() => {
                let name = object.meta().name.as_deref();
                return api.get(name.unwrap_or_default()).await;
            }
            created => return created,
        }
    }
}
