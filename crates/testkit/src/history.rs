//! Everything that ever happens to some objects, read from the data store itself. It knows nothing of what the objects
//! mean.
//!
//! A watch through an API server has a gap whenever that server is killed or forgets: a test that breaks API servers
//! needs a witness that they can't blind. etcd brings each version of each key once and in order, whatever happens to
//! those who wrote it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::record::Change;
use crate::store::{
    ANSWER, Answer, Conversation, KeyValue, REGISTRY, REGISTRY_END, ask, decoded, encoded, send,
};

/// Written to know that everything before it has been seen. It is in the range, and no API server reads it.
const MARKER: &str = "/registry/testkit-marker";
/// A history can't be had, or did not show what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control plane stores objects in a form that isn't read here.
    #[error("this control plane keeps no readable history: build it with `.history()`")]
    Off,
    /// etcd doesn't answer, or not in a way that is understood.
    #[error("can't read the history from etcd at {address}: {reason}")]
    Store {
        /// Where.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// It ended, so something may be missing.
    #[error("the history has a gap: {0}")]
    Gap(String),
    /// What was waited for did not come.
    #[error("{versions} versions did not show it within {} s", .after.as_secs_f32())]
    Timeout {
        /// How many versions there were.
        versions: usize,
        /// How long.
        after: Duration,
    },
}

/// One version of one object.
#[derive(Debug, Clone)]
pub struct Version {
    /// When it was seen here.
    pub at: SystemTime,
    /// The data store's revision: the object's `resourceVersion`.
    pub revision: u64,
    /// What happened.
    pub change: Change,
    /// Where it is kept, without `/registry/`: `pods/<namespace>/<name>`.
    pub key: String,
    /// The object as it was stored, or as it was last when it was deleted.
    pub object: Value,
}

impl Version {
    /// The object as a type to read from; `None` if it isn't of that kind.
    pub fn read<K: DeserializeOwned>(&self) -> Option<K> {
        K::deserialize(&self.object).ok()
    }
}

#[derive(Debug, Default)]
struct Tape {
    versions: Vec<Version>,
    marker: u64,
    gap: Option<String>,
}

/// Collects versions until it is dropped.
#[derive(Debug)]
pub struct History {
    address: SocketAddr,
    tape: Arc<Mutex<Tape>>,
    news: watch::Receiver<()>,
    task: JoinHandle<()>,
}

impl History {
    /// Records every version of the objects below `prefixes` (such as `pods/`) from now on.
    pub(crate) async fn start(address: SocketAddr, prefixes: &[String]) -> Result<Self, Error> {
        let fail = |reason: String| Error::Store { address, reason };
        let range = json!({ "key": encoded(MARKER) });
        let now: Answer = ask(address, "/v3/kv/range", &range).await.map_err(fail)?;
        let create = json!({ "create_request": {
            "key": encoded(REGISTRY),
            "range_end": encoded(REGISTRY_END),
            "start_revision": (now.header.revision.0 + 1).to_string(),
            "prev_kv": true,
        } });
        let answer = tokio::time::timeout(ANSWER, send(address, "/v3/watch", &create)).await;
        let body = answer
            .map_err(|_| fail("no answer".to_owned()))?
            .map_err(fail)?;
        let tape = Arc::<Mutex<Tape>>::default();
        let (sender, news) = watch::channel(());
        let prefixes = prefixes.to_vec();
        let recording = Arc::clone(&tape);
        let task = tokio::spawn(async move {
            let gap = follow(body, &prefixes, &recording, &sender).await;
            recording.lock().unwrap_or_else(PoisonError::into_inner).gap = Some(gap);
            sender.send_replace(());
        });
        Ok(Self {
            address,
            tape,
            news,
            task,
        })
    }

    /// Every version so far, in order.
    pub fn versions(&self) -> Result<Vec<Version>, Error> {
        self.with(|tape| tape.versions.clone())
    }

    /// [`Self::versions`] from index `from` on.
    pub fn since(&self, from: usize) -> Result<Vec<Version>, Error> {
        self.with(|tape| tape.versions.get(from..).unwrap_or_default().to_vec())
    }

    /// Told after each batch of new versions.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.clone()
    }

    /// Waits until everything that was written before this call is here.
    pub async fn settle(&self) -> Result<(), Error> {
        let put = json!({ "key": encoded(MARKER), "value": encoded("x") });
        let address = self.address;
        let put: Answer = ask(address, "/v3/kv/put", &put)
            .await
            .map_err(|reason| Error::Store { address, reason })?;
        let mut news = self.news.clone();
        let waiting = async {
            loop {
                news.mark_unchanged();
                if self.with(|tape| tape.marker)? >= put.header.revision.0 {
                    return Ok(());
                }
                if news.changed().await.is_err() {
                    return Err(Error::Gap("it ended".to_owned()));
                }
            }
        };
        let late = |_| Error::Timeout {
            versions: self.versions().map_or(0, |versions| versions.len()),
            after: ANSWER,
        };
        tokio::time::timeout(ANSWER, waiting).await.map_err(late)?
    }

    fn with<T>(&self, read: impl FnOnce(&Tape) -> T) -> Result<T, Error> {
        let tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        match &tape.gap {
            Some(gap) => Err(Error::Gap(gap.clone())),
            None => Ok(read(&tape)),
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the answer to a watch, one JSON object a line, until it ends; returns why it did.
async fn follow(
    mut body: Conversation,
    prefixes: &[String],
    tape: &Mutex<Tape>,
    news: &watch::Sender<()>,
) -> String {
    let mut buffer = Vec::new();
    loop {
        let data = match body.response.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return error.to_string(),
            None => return "etcd ended the watch".to_owned(),
        };
        buffer.extend_from_slice(&data);
        let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else {
            continue;
        };
        let rest = buffer.split_off(end + 1);
        let lines = std::mem::replace(&mut buffer, rest);
        for line in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            if let Err(reason) = take(line, prefixes, tape) {
                return reason;
            }
        }
        news.send_replace(());
    }
}

fn take(line: &[u8], prefixes: &[String], tape: &Mutex<Tape>) -> Result<(), String> {
    let message: Message = serde_json::from_slice(line).map_err(|error| {
        let line = String::from_utf8_lossy(line);
        format!("{error} in {line}")
    })?;
    let Some(result) = message.result else {
        return Err(message.error.to_string());
    };
    if result.canceled {
        return Err(format!(
            "etcd cancelled the watch: {}",
            result.cancel_reason
        ));
    }
    let at = SystemTime::now();
    for event in result.events {
        let key = String::from_utf8_lossy(&decoded(&event.kv.key)?).into_owned();
        let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
        if key == MARKER {
            tape.marker = event.kv.mod_revision.0;
            continue;
        }
        let Some(key) = key.strip_prefix(REGISTRY) else {
            continue;
        };
        if !prefixes.iter().any(|prefix| key.starts_with(prefix)) {
            continue;
        }
        let (change, value) = if event.kind == "DELETE" {
            (Change::Deleted, event.prev_kv.map(|kv| kv.value))
        } else if event.kv.create_revision == event.kv.mod_revision {
            (Change::Added, Some(event.kv.value))
        } else {
            (Change::Modified, Some(event.kv.value))
        };
        let value = decoded(&value.unwrap_or_default())?;
        let object =
            serde_json::from_slice(&value).map_err(|error| format!("{key} is no JSON: {error}"))?;
        tape.versions.push(Version {
            at,
            revision: event.kv.mod_revision.0,
            change,
            key: key.to_owned(),
            object,
        });
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Message {
    result: Option<Batch>,
    #[serde(default)]
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Batch {
    events: Vec<Event>,
    canceled: bool,
    cancel_reason: String,
}

#[derive(Debug, Deserialize)]
struct Event {
    /// Absent for PUT, which is its default.
    #[serde(rename = "type", default)]
    kind: String,
    kv: KeyValue,
    prev_kv: Option<KeyValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, key: &str, created: u64, modified: u64, value: &str) -> Vec<u8> {
        let kv = |value: &str| {
            json!({
                "key": encoded(key), "create_revision": created.to_string(),
                "mod_revision": modified.to_string(), "value": encoded(value),
            })
        };
        let mut event = json!({ "kv": kv(value), "prev_kv": kv(r#"{"old":1}"#) });
        if !kind.is_empty() {
            event["type"] = json!(kind);
        }
        json!({ "result": { "events": [event] } })
            .to_string()
            .into_bytes()
    }

    #[test]
    fn events_become_versions_and_others_keys_are_passed_over() {
        let tape = Mutex::<Tape>::default();
        let prefixes = ["pods/n/".to_owned()];
        for message in [
            line("", "/registry/pods/n/a", 5, 5, r#"{"new":1}"#),
            line("", "/registry/pods/m/b", 6, 6, "k8s: not even JSON"),
            line("", "/registry/pods/n/a", 5, 7, r#"{"new":2}"#),
            line("DELETE", "/registry/pods/n/a", 0, 8, ""),
            line("", MARKER, 9, 9, "x"),
        ] {
            take(&message, &prefixes, &tape).unwrap();
        }
        let tape = tape.into_inner().unwrap();
        let seen: Vec<_> = tape
            .versions
            .iter()
            .map(|v| (v.revision, v.change, v.key.as_str(), v.object.clone()))
            .collect();
        let want = [
            (5, Change::Added, "pods/n/a", json!({ "new": 1 })),
            (7, Change::Modified, "pods/n/a", json!({ "new": 2 })),
            (8, Change::Deleted, "pods/n/a", json!({ "old": 1 })),
        ];
        assert_eq!(seen, want);
        assert_eq!(tape.marker, 9);
    }

    #[test]
    fn what_can_not_be_read_is_a_gap() {
        let tape = Mutex::<Tape>::default();
        let all = [String::new()];
        let protobuf = line("", "/registry/pods/n/a", 5, 5, "k8s\0");
        assert!(take(&protobuf, &all, &tape).is_err());
        let cancelled = json!({ "result": { "canceled": true, "cancel_reason": "compacted" } });
        let error = take(cancelled.to_string().as_bytes(), &all, &tape).unwrap_err();
        assert!(error.contains("compacted"), "{error}");
    }
}
