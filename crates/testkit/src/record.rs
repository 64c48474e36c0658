//! A recording watch: every event of a kind from one moment on, so that a test can say "exactly one" about what
//! happened instead of looking at what is left. It knows nothing of what the events mean.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::wait::short;

/// Between two attempts to watch, after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time of one watch request (the server ends it then, and the next goes on from there), in seconds.
const WATCH_SECONDS: u32 = 290;

/// A recording can't be trusted, or did not show what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not begin.
    #[error("can't list to begin recording")]
    Start(#[source] Box<kube::Error>),
    /// Events were lost: the server had forgotten where we were.
    #[error("the recording has a gap: {0}")]
    Gap(String),
    /// What was waited for did not come.
    #[error("{events} events did not show it within {} s; the last: {last}", .after.as_secs_f32())]
    Timeout {
        /// How many events there were.
        events: usize,
        /// How long.
        after: Duration,
        /// The last event's object, in short.
        last: String,
    },
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It came.
    Added,
    /// It was written.
    Modified,
    /// It went; the object is as it was last.
    Deleted,
}

/// One event.
#[derive(Debug, Clone)]
pub struct Recorded<K> {
    /// What happened.
    pub change: Change,
    /// The object then.
    pub object: K,
}

#[derive(Debug)]
struct Tape<K> {
    events: Vec<Recorded<K>>,
    gap: Option<String>,
}

/// Collects events until it is dropped.
#[derive(Debug)]
pub struct Recorder<K> {
    tape: Arc<Mutex<Tape<K>>>,
    length: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl<K> Recorder<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    /// Records everything that happens from now on. Objects that exist already don't appear until they change.
    pub async fn start(api: Api<K>, params: WatchParams) -> Result<Self, Error> {
        let list = ListParams {
            limit: Some(1),
            ..ListParams::default()
        };
        let list = api
            .list_metadata(&list)
            .await
            .map_err(|e| Error::Start(Box::new(e)))?;
        Ok(Self::start_from(
            api,
            params,
            list.metadata.resource_version.unwrap_or_default(),
        ))
    }

    /// Records everything after a resource version.
    pub fn start_from(api: Api<K>, params: WatchParams, resource_version: String) -> Self {
        let tape = Arc::new(Mutex::new(Tape {
            events: Vec::new(),
            gap: None,
        }));
        let (sender, length) = watch::channel(0);
        let task = tokio::spawn(record(
            api,
            params.timeout(WATCH_SECONDS),
            resource_version,
            Arc::clone(&tape),
            sender,
        ));
        Self { tape, length, task }
    }

    /// Every event so far, in order.
    pub fn events(&self) -> Result<Vec<Recorded<K>>, Error> {
        let tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        match &tape.gap {
            Some(gap) => Err(Error::Gap(gap.clone())),
            None => Ok(tape.events.clone()),
        }
    }

    /// Waits until the events so far pass, and returns them.
    pub async fn wait_until(
        &self,
        condition: impl Fn(&[Recorded<K>]) -> bool,
        limit: Duration,
    ) -> Result<Vec<Recorded<K>>, Error> {
        let mut length = self.length.clone();
        let waiting = async {
            loop {
                length.mark_unchanged();
                let events = self.events()?;
                if condition(&events) {
                    return Ok(events);
                }
                if length.changed().await.is_err() {
                    // The recording has ended, which only a gap does.
                    return self
                        .events()
                        .and_then(|_| Err(Error::Gap("it ended".to_owned())));
                }
            }
        };
        if let Ok(result) = tokio::time::timeout(limit, waiting).await {
            return result;
        }
        let events = self.events()?;
        Err(Error::Timeout {
            events: events.len(),
            after: limit,
            last: short(events.last().map(|event| &event.object).into_iter()),
        })
    }
}

impl<K> Drop for Recorder<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn record<K>(
    api: Api<K>,
    params: WatchParams,
    mut version: String,
    tape: Arc<Mutex<Tape<K>>>,
    length: watch::Sender<usize>,
) where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let fail = |reason: String| {
        tape.lock().unwrap_or_else(PoisonError::into_inner).gap = Some(reason);
        length.send_modify(|_| ());
    };
    let push = |change, object: K| {
        let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
        tape.events.push(Recorded { change, object });
        length.send_replace(tape.events.len());
    };
    loop {
        let mut stream = match api.watch(&params, &version).await {
            Ok(stream) => stream.boxed(),
            Err(kube::Error::Api(status)) if status.code == 410 => return fail(status.to_string()),
            Err(error) => {
                tracing::debug!(%error, "recording watch failed, trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while let Some(event) = stream.next().await {
            let (change, object) = match event {
                Ok(WatchEvent::Added(object)) => (Change::Added, object),
                Ok(WatchEvent::Modified(object)) => (Change::Modified, object),
                Ok(WatchEvent::Deleted(object)) => (Change::Deleted, object),
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                Ok(WatchEvent::Error(status)) if status.code == 410 => {
                    return fail(status.to_string());
                }
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            };
            if let Some(seen) = object.resource_version() {
                version = seen;
            }
            push(change, object);
        }
    }
}
