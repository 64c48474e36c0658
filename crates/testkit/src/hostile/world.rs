//! The objects of a hostile server and their history: written as an API server writes, with versions, preconditions and
//! finalizers, so that only what a script says is a lie. It knows nothing of HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::feed::Event;
use super::kinds::{Kind, Selection};
use super::questions::Questions;

/// Steps that follow from one write, at most.
const STEPS: usize = 4;
/// The version before the first write.
const FIRST_VERSION: u64 = 1_000;

/// Where an object is: plural of its kind, namespace (empty for none), name.
type Key = (&'static str, String, String);

/// Why a write isn't done, in the words of an API server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
        }
    }

    fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }
}

/// All objects of one server.
#[derive(Debug)]
pub(super) struct World {
    inner: Mutex<Inner>,
    /// The newest version.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
struct Inner {
    version: u64,
    /// How many UIDs were given.
    made: u64,
    salt: String,
    objects: BTreeMap<Key, Stored>,
    events: Vec<Arc<Event>>,
    questions: Questions,
}

#[derive(Debug, Clone)]
struct Stored {
    object: Value,
    /// In each list and watch of its kind, whatever was asked for.
    everywhere: bool,
}

/// What became of an object that was to go.
#[derive(Debug, PartialEq)]
pub(super) enum Ended {
    /// Finalizers keep it; it is this now.
    Kept(Value),
    /// It is gone; this was its UID.
    Gone(Value),
}

/// What a selection holds at one moment.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) objects: Vec<Value>,
    pub(super) version: u64,
    /// Index of the first event after it.
    pub(super) next: usize,
}

impl World {
    pub(super) fn new() -> Self {
        let inner = Inner {
            version: FIRST_VERSION,
            made: 0,
            salt: crate::unique(),
            objects: BTreeMap::new(),
            events: Vec::new(),
            questions: Questions::default(),
        };
        Self {
            inner: Mutex::new(inner),
            changed: watch::Sender::new(FIRST_VERSION),
        }
    }

    /// One of the same objects, of whose changes nobody hears.
    pub(super) fn copy(&self) -> Self {
        let inner = self.lock().clone();
        let changed = watch::Sender::new(inner.version);
        Self {
            inner: Mutex::new(inner),
            changed,
        }
    }

    /// A new UID.
    pub(super) fn uid(&self) -> String {
        self.lock().uid()
    }

    pub(super) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Told after each change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn event(&self, index: usize) -> Option<Arc<Event>> {
        self.lock().events.get(index).cloned()
    }

    /// Index of the first event after a version.
    pub(super) fn index_after(&self, version: u64) -> usize {
        let inner = self.lock();
        inner
            .events
            .partition_point(|event| event.version <= version)
    }

    /// What a selection holds now.
    pub(super) fn present(&self, selection: &Selection) -> Present {
        let inner = self.lock();
        let stored = inner.of(selection.kind);
        let present = stored
            .filter(|stored| stored.everywhere || selection.includes(&stored.object))
            .map(|stored| stored.object.clone());
        Present {
            objects: present.collect(),
            version: inner.version,
            next: inner.events.len(),
        }
    }

    /// All objects of a kind.
    pub(super) fn all(&self, kind: &Kind) -> Vec<Value> {
        let inner = self.lock();
        inner.of(kind).map(|stored| stored.object.clone()).collect()
    }

    pub(super) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let inner = self.lock();
        let stored = inner.objects.get(&key(kind, namespace, name))?;
        Some(stored.object.clone())
    }

    /// How questions are answered from now on; those that are open are answered at once.
    pub(super) fn set_questions(&self, questions: Questions) {
        self.write(|inner| {
            inner.questions = questions;
            let keys: Vec<Key> = inner.objects.keys().cloned().collect();
            for key in keys {
                inner.respond(&key);
            }
        });
    }

    /// A client's POST.
    pub(super) fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        body: &[u8],
    ) -> Result<Value, Refusal> {
        let mut object: Value = parsed(body)?;
        let (_, name) = place(kind, &object)?;
        object["metadata"]["namespace"] = json!(namespace);
        let key = key(kind, namespace, &name);
        self.write(|inner| {
            if inner.objects.contains_key(&key) {
                let message = format!("{} {name:?} already exists", kind.plural);
                return Err(Refusal::new(409, "AlreadyExists", message));
            }
            object["metadata"]["uid"] = Value::Null;
            Ok(inner.store(kind, &key, object, false))
        })
    }

    /// A client's PATCH.
    pub(super) fn patch(
        &self,
        kind: &'static Kind,
        (namespace, name): (&str, &str),
        content_type: &str,
        body: &[u8],
    ) -> Result<Value, Refusal> {
        let key = key(kind, namespace, name);
        self.write(|inner| {
            let stored = inner.existing(&key)?;
            let mut object = stored.object.clone();
            match content_type {
                "application/merge-patch+json" => {
                    let patch: Value = parsed(body)?;
                    expect(&stored.object, &patch["metadata"])?;
                    json_patch::merge(&mut object, &patch);
                }
                "application/json-patch+json" => {
                    let patch: json_patch::Patch = parsed(body)?;
                    json_patch::patch(&mut object, &patch.0)
                        .map_err(|error| Refusal::new(422, "Invalid", error.to_string()))?;
                }
                other => return Err(Refusal::new(415, "UnsupportedMediaType", other)),
            }
            if place(kind, &object)? != (namespace.to_owned(), name.to_owned()) {
                return Err(Refusal::new(422, "Invalid", "names don't change"));
            }
            Ok(inner.store(kind, &key, object, stored.everywhere))
        })
    }

    /// A client's DELETE.
    pub(super) fn delete(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        options: &[u8],
    ) -> Result<Ended, Refusal> {
        let options: Value = match options {
            [] => Value::Null,
            text => parsed(text)?,
        };
        let key = key(kind, namespace, name);
        self.write(|inner| {
            let Stored {
                mut object,
                everywhere,
            } = inner.existing(&key)?;
            expect(&object, &options["preconditions"])?;
            if !is_kept(&object) {
                inner.remove(kind, &key);
                return Ok(Ended::Gone(object["metadata"]["uid"].clone()));
            }
            if object["metadata"]["deletionTimestamp"].is_null() {
                object["metadata"]["deletionTimestamp"] = json!(now());
                object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                object = inner.store(kind, &key, object, everywhere);
            }
            Ok(Ended::Kept(object))
        })
    }

    /// Writes an object as it is, over the one of its name.
    pub(super) fn put(&self, object: Value, everywhere: bool) -> Result<Value, Refusal> {
        let kind = Kind::of_object(&object);
        let kind = kind.ok_or_else(|| Refusal::bad("no kind that is served here"))?;
        let (namespace, name) = place(kind, &object)?;
        let key = key(kind, &namespace, &name);
        Ok(self.write(|inner| inner.store(kind, &key, object, everywhere)))
    }

    /// Removes an object, finalizers or not; whether there was one.
    pub(super) fn remove(&self, kind: &'static Kind, namespace: &str, name: &str) -> bool {
        let key = key(kind, namespace, name);
        self.write(|inner| inner.remove(kind, &key))
    }

    /// Tells all watches of a kind something that didn't happen.
    pub(super) fn forge(&self, kind: &'static Kind, what: &str, mut object: Value) {
        self.write(|inner| {
            inner.version += 1;
            let version = json!(inner.version.to_string());
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.entry("resourceVersion").or_insert(version);
            }
            inner.tell(kind, what, object, None, true);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let done = change(&mut inner);
        let version = inner.version;
        drop(inner);
        self.changed
            .send_if_modified(|known| std::mem::replace(known, version) != version);
        done
    }
}

impl Inner {
    fn uid(&mut self) -> String {
        self.made += 1;
        let (start, end) = self.salt.split_at(8);
        format!("{start}-{end}00-4000-8000-{:012x}", self.made)
    }

    fn of(&self, kind: &Kind) -> impl Iterator<Item = &Stored> {
        let plural = kind.plural;
        let all = self.objects.iter();
        all.filter(move |(key, _)| key.0 == plural)
            .map(|(_, stored)| stored)
    }

    fn existing(&self, key: &Key) -> Result<Stored, Refusal> {
        let stored = self.objects.get(key).cloned();
        let message = || format!("{} {:?} not found", key.0, key.2);
        stored.ok_or_else(|| Refusal::new(404, "NotFound", message()))
    }

    /// Writes it as it is from now on, and lets follow what follows; the object as it was written.
    fn store(&mut self, kind: &'static Kind, key: &Key, object: Value, everywhere: bool) -> Value {
        let object = self.store_once(kind, key, object, everywhere);
        self.respond(key);
        object
    }

    fn store_once(
        &mut self,
        kind: &'static Kind,
        key: &Key,
        mut object: Value,
        everywhere: bool,
    ) -> Value {
        self.version += 1;
        let known = self.objects.get(key);
        let known = known.map(|stored| stored.object["metadata"].clone());
        let first = json!({ "uid": self.uid(), "creationTimestamp": now() });
        let known = known.unwrap_or(first);
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        for field in ["uid", "creationTimestamp"] {
            if metadata[field].is_null() {
                metadata[field] = known[field].clone();
            }
        }
        let ends = !metadata["deletionTimestamp"].is_null() && !is_kept(&object);
        let old = if ends {
            self.objects.remove(key)
        } else {
            let stored = Stored {
                object: object.clone(),
                everywhere,
            };
            self.objects.insert(key.clone(), stored)
        };
        let old = old.map(|stored| stored.object);
        let what = match (ends, &old) {
            (true, _) => "DELETED",
            (false, Some(_)) => "MODIFIED",
            (false, None) => "ADDED",
        };
        self.tell(kind, what, object.clone(), old, everywhere);
        object
    }

    fn remove(&mut self, kind: &'static Kind, key: &Key) -> bool {
        let Some(Stored {
            mut object,
            everywhere,
        }) = self.objects.remove(key)
        else {
            return false;
        };
        self.version += 1;
        let old = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(kind, "DELETED", object, Some(old), everywhere);
        true
    }

    fn tell(
        &mut self,
        kind: &'static Kind,
        what: &str,
        object: Value,
        old: Option<Value>,
        everywhere: bool,
    ) {
        self.events.push(Arc::new(Event {
            kind,
            version: self.version,
            what: what.to_owned(),
            object,
            old,
            everywhere,
        }));
    }

    /// What the target's Pilotage does about it.
    fn respond(&mut self, key: &Key) {
        let Some(kind) = Kind::of_plural(key.0).filter(|kind| kind.name == "PodChaperon") else {
            return;
        };
        for _ in 0..STEPS {
            let Some(Stored {
                mut object,
                everywhere,
            }) = self.objects.get(key).cloned()
            else {
                return;
            };
            if !self.questions.answer(&mut object) {
                return;
            }
            self.store_once(kind, key, object, everywhere);
        }
    }
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(text).map_err(|error| Refusal::bad(error.to_string()))
}

fn key(kind: &Kind, namespace: &str, name: &str) -> Key {
    (kind.plural, namespace.to_owned(), name.to_owned())
}

/// Namespace and name of an object, which is of this kind.
fn place(kind: &Kind, object: &Value) -> Result<(String, String), Refusal> {
    if Kind::of_object(object) != Some(kind) {
        return Err(Refusal::bad(format!("that is no {}", kind.name)));
    }
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (namespace, name) = (text("namespace"), text("name"));
    if name.is_empty() {
        return Err(Refusal::new(
            422,
            "Invalid",
            "metadata.name: Required value",
        ));
    }
    Ok((namespace, name))
}

/// Whether the object has the UID and version that are given, if they are.
fn expect(object: &Value, given: &Value) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        let (is, wanted) = (&object["metadata"][field], &given[field]);
        if !wanted.is_null() && is != wanted {
            let message = format!("Precondition failed: {field} is {is}, and {wanted} was given");
            return Err(Refusal::conflict(message));
        }
    }
    Ok(())
}

fn is_kept(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| !all.is_empty())
}

fn now() -> Time {
    Time(Timestamp::now())
}
