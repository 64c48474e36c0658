//! Waiting on watches for what the API server shows. It knows nothing of who makes it so.
//!
//! Each function ends as soon as its condition holds, or with an error that shows what was seen last.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long anything that has to happen may take on a busy machine, before a test says that it didn't.
pub const LIMIT: Duration = Duration::from_mins(5);

/// Characters of an object that an error shows.
const SHOWN: usize = 2_000;

/// What we waited for did not come.
#[derive(Debug, thiserror::Error)]
#[error("{what} did not come true within {} s; last seen: {last}{}", .after.as_secs_f32(),
    .watch_error.as_ref().map(|error| format!("; the watch failed: {error}")).unwrap_or_default())]
pub struct WaitError {
    /// What was waited for.
    pub what: String,
    /// How long.
    pub after: Duration,
    /// The objects as last seen, shortened.
    pub last: String,
    /// Why the watch failed last, if it did.
    pub watch_error: Option<String>,
}

/// Objects by namespace and name.
pub type Seen<K> = BTreeMap<(String, String), K>;

/// Kinds that can be waited for.
pub trait Watched:
    Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static
{
}
impl<K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static> Watched for K {}

/// Waits until the object `name` exists and `condition` holds for it; returns it.
pub async fn wait_for<K: Watched>(
    api: &Api<K>,
    name: &str,
    condition: impl Fn(&K) -> bool,
    limit: Duration,
) -> Result<K, WaitError> {
    let pick = |seen: &Seen<K>| seen.values().find(|object| condition(object)).cloned();
    until(
        api,
        named(name),
        &format!("the condition of {name}"),
        pick,
        limit,
    )
    .await
}

/// Waits until there is no object `name`.
pub async fn wait_gone<K: Watched>(
    api: &Api<K>,
    name: &str,
    limit: Duration,
) -> Result<(), WaitError> {
    let pick = |seen: &Seen<K>| seen.is_empty().then_some(());
    until(api, named(name), &format!("the end of {name}"), pick, limit).await
}

/// Waits until exactly `count` objects of the selection pass; returns them.
pub async fn wait_count<K: Watched>(
    api: &Api<K>,
    selection: watcher::Config,
    count: usize,
    pass: impl Fn(&K) -> bool,
    limit: Duration,
) -> Result<Vec<K>, WaitError> {
    let pick = |seen: &Seen<K>| {
        let passing: Vec<K> = seen
            .values()
            .filter(|object| pass(object))
            .cloned()
            .collect();
        (passing.len() == count).then_some(passing)
    };
    until(api, selection, &format!("a count of {count}"), pick, limit).await
}

/// Waits until `condition` holds for all objects of the selection together; returns them.
pub async fn list_until<K: Watched>(
    api: &Api<K>,
    selection: watcher::Config,
    condition: impl Fn(&Seen<K>) -> bool,
    limit: Duration,
) -> Result<Vec<K>, WaitError> {
    let pick = |seen: &Seen<K>| condition(seen).then(|| seen.values().cloned().collect());
    until(api, selection, "the condition of the list", pick, limit).await
}

fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

async fn until<K: Watched, T>(
    api: &Api<K>,
    selection: watcher::Config,
    what: &str,
    pick: impl Fn(&Seen<K>) -> Option<T>,
    limit: Duration,
) -> Result<T, WaitError> {
    let mut seen: Seen<K> = BTreeMap::new();
    let mut watch_error = None;
    let found = tokio::time::timeout(limit, async {
        let mut events = watcher::watcher(api.clone(), selection)
            .default_backoff()
            .boxed();
        let mut listing = Some(BTreeMap::new());
        loop {
            match events.next().await {
                Some(Ok(Event::Init)) => listing = Some(BTreeMap::new()),
                Some(Ok(Event::InitApply(object))) => {
                    listing.get_or_insert_default().insert(key(&object), object);
                }
                Some(Ok(Event::InitDone)) => seen = listing.take().unwrap_or_default(),
                Some(Ok(Event::Apply(object))) => {
                    seen.insert(key(&object), object);
                }
                Some(Ok(Event::Delete(object))) => {
                    seen.remove(&key(&object));
                }
                Some(Err(error)) => watch_error = Some(error.to_string()),
                // A watcher never ends; if it did, only the time limit is left.
                None => std::future::pending().await,
            }
            // A list that isn't whole says nothing.
            if listing.is_none()
                && let Some(found) = pick(&seen)
            {
                return found;
            }
        }
    })
    .await;
    found.map_err(|_| WaitError {
        what: what.to_owned(),
        after: limit,
        last: short(seen.values()),
        watch_error,
    })
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Objects in short: name, state, labels and annotations without the parts that nobody reads.
pub(crate) fn short<'a, K: Serialize + 'a>(objects: impl Iterator<Item = &'a K>) -> String {
    let objects: Vec<String> = objects
        .map(|object| {
            let mut value = serde_json::to_value(object).unwrap_or(Value::Null);
            if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            value.to_string()
        })
        .collect();
    if objects.is_empty() {
        return "no object".to_owned();
    }
    let text = format!("{} of them: {}", objects.len(), objects.join(", "));
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_show_objects_in_short() {
        let object =
            json!({"metadata": {"name": "a", "managedFields": [1]}, "x": "y".repeat(5_000)});
        let text = short([object].iter());
        assert!(
            text.starts_with("1 of them: {\"metadata\":{\"name\":\"a\"}"),
            "{text}"
        );
        assert!(text.chars().count() <= SHOWN + 1);
        assert_eq!(short(std::iter::empty::<&Value>()), "no object");
    }
}
