//! Writes `events.k8s.io/v1` Events without holding anybody up: what repeats is counted, what comes too
//! fast is dropped and counted. What is only offered is dropped first, and takes nobody's place.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams, Request};
use kube::{Client, Resource};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_runtime::caught::caught_async;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::occurrence::{Occurrence, Regarding};
use super::series::{Series, Write};
use super::shares::{Place, Shares};

/// Writes under way at once. Events of one kind about one object keep their order.
const LANES: usize = 16;
/// Events that wait in one lane.
const LANE_LENGTH: usize = 1024;
/// Of these, one namespace may have so many.
const NAMESPACE_SHARE: usize = LANES * LANE_LENGTH / 4;
/// Offered events that wait, beside the lanes.
const SPARE_LENGTH: usize = 64;
/// How often series are looked through.
const SWEEP: Duration = Duration::from_mins(2);
/// The API server takes no longer note; kube-scheduler cuts there too.
const NOTE_LIMIT: usize = 1024;

/// Takes events; clones share it. Dropped events are counted.
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    series: Mutex<Series<Occurrence>>,
    lanes: Vec<mpsc::Sender<Job>>,
    /// Takes what is only offered.
    spare: mpsc::Sender<Offer>,
    shares: Arc<Shares>,
    dropped: AtomicU64,
}

struct Job {
    occurrence: Occurrence,
    related: Option<Regarding>,
    name: String,
    at: Timestamp,
    write: Write,
    /// Until it is written.
    place: Option<Place>,
}

/// An event that is written if nothing else has to be.
struct Offer {
    job: Job,
    /// Counts it if it isn't written.
    dropped: Counter,
}

/// Writes what the [`Recorder`] takes.
pub struct EventWriter {
    client: Client,
    instance: String,
    inner: Arc<Inner>,
    lanes: Vec<mpsc::Receiver<Job>>,
    spare: mpsc::Receiver<Offer>,
}

impl Recorder {
    /// A recorder and the writer behind it. `instance` is this process (`reportingInstance`).
    pub fn new(client: Client, instance: String) -> (Self, EventWriter) {
        let (senders, receivers) = (0..LANES).map(|_| mpsc::channel(LANE_LENGTH)).unzip();
        let (spare, offered) = mpsc::channel(SPARE_LENGTH);
        let inner = Arc::new(Inner {
            series: Mutex::default(),
            lanes: senders,
            spare,
            shares: Shares::new(NAMESPACE_SHARE),
            dropped: AtomicU64::new(0),
        });
        let writer = EventWriter {
            client,
            instance,
            inner: inner.clone(),
            lanes: receivers,
            spare: offered,
        };
        (Self { inner }, writer)
    }

    /// It happened now. Never blocks.
    pub fn record(&self, occurrence: Occurrence) {
        self.take(occurrence, None);
    }

    /// It happened now, because of another object. Never blocks.
    pub(crate) fn record_related(&self, occurrence: Occurrence, related: Regarding) {
        self.take(occurrence, Some(related));
    }

    /// It happened now, and may stay untold: it is dropped, and counted by `dropped`, as soon as other events queue. It
    /// takes none of their places, waits for none of them, and isn't counted together with equal ones. Never blocks.
    pub fn offer(&self, mut occurrence: Occurrence, dropped: &Counter) {
        cut(&mut occurrence.note);
        let at = Timestamp::now();
        let offer = Offer {
            job: Job {
                name: name_of(&occurrence, at),
                occurrence,
                related: None,
                at,
                write: Write::Create,
                place: None,
            },
            dropped: dropped.clone(),
        };
        if self.inner.is_busy() || self.inner.spare.try_send(offer).is_err() {
            dropped.inc();
        }
    }

    fn take(&self, mut occurrence: Occurrence, related: Option<Regarding>) {
        cut(&mut occurrence.note);
        let at = Timestamp::now();
        let name = name_of(&occurrence, at);
        let mut series = self
            .inner
            .series
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let write = series.occurred(occurrence.clone(), name.clone(), at);
        drop(series);
        self.inner.send(Job {
            occurrence,
            related,
            name,
            at,
            write,
            place: None,
        });
    }

    /// Events dropped so far because they came faster than they could be written.
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }
}

/// `metadata.name` of the event of an occurrence: they are in the order of time.
fn name_of(occurrence: &Occurrence, at: Timestamp) -> String {
    format!("{}.{:x}", occurrence.regarding.name, at.as_nanosecond())
}

impl Inner {
    /// Whether events queue: more of them wait than are written at once.
    fn is_busy(&self) -> bool {
        let waiting =
            |lane: &mpsc::Sender<Job>| lane.max_capacity().saturating_sub(lane.capacity());
        let all = self.lanes.iter().map(waiting);
        all.fold(0, usize::saturating_add) > LANES
    }

    fn send(&self, mut job: Job) {
        if job.write == Write::Nothing {
            return;
        }
        job.place = self.shares.enter(&job.occurrence.regarding.namespace);
        if job.place.is_none() {
            self.lose(&job);
            return;
        }
        let mut hasher = DefaultHasher::new();
        job.occurrence.hash(&mut hasher);
        let lane = (hasher.finish() as usize).checked_rem(self.lanes.len());
        let lane = &self.lanes[lane.unwrap_or_default()];
        if let Err(error) = lane.try_send(job) {
            let (mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job)) =
                error;
            self.lose(&job);
        }
    }

    fn lose(&self, job: &Job) {
        self.forget(&job.occurrence);
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("events come faster than they can be written; some are dropped");
        }
    }

    fn forget(&self, occurrence: &Occurrence) {
        self.series
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget(occurrence);
    }

    fn sweep(&self, now: Timestamp) {
        let due = self
            .series
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .due(now);
        for (occurrence, write) in due {
            self.send(Job {
                occurrence,
                // It stands in the event already.
                related: None,
                name: String::new(),
                at: now,
                write,
                place: None,
            });
        }
    }
}

impl EventWriter {
    /// Writes until `token` is cancelled and what waits then is written.
    pub fn run(self, token: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
            let tracker = TaskTracker::new();
            for mut lane in self.lanes {
                let (client, instance, inner) = (
                    self.client.clone(),
                    self.instance.clone(),
                    self.inner.clone(),
                );
                let token = token.clone();
                tracker.spawn(async move {
                    loop {
                        let job = tokio::select! {
                            biased;
                            job = lane.recv() => job,
                            () = token.cancelled() => {
                                lane.close();
                                lane.recv().await
                            }
                        };
                        let Some(job) = job else { return };
                        write_caught(&client, &instance, &inner, job).await;
                    }
                });
            }
            let mut spare = self.spare;
            let (client, instance, inner) = (self.client, self.instance, self.inner.clone());
            let ending = token.clone();
            tracker.spawn(async move {
                loop {
                    let offer = tokio::select! {
                        biased;
                        // The end waits for nothing that may stay untold.
                        () = ending.cancelled() => return,
                        offer = spare.recv() => offer,
                    };
                    let Some(Offer { job, dropped }) = offer else {
                        return;
                    };
                    if inner.is_busy() {
                        dropped.inc();
                    } else {
                        write_caught(&client, &instance, &inner, job).await;
                    }
                }
            });
            tracker.close();
            let mut sweeps = tokio::time::interval(SWEEP);
            loop {
                tokio::select! {
                    () = token.cancelled() => break,
                    _ = sweeps.tick() => self.inner.sweep(Timestamp::now()),
                }
            }
            tracker.wait().await;
        }
        .boxed()
    }
}

#[cfg(test)]
impl EventWriter {
    /// What was recorded and isn't written yet.
    pub(crate) fn taken(&mut self) -> Vec<Occurrence> {
        let lanes = self.lanes.iter_mut();
        let jobs = lanes.flat_map(|lane| std::iter::from_fn(move || lane.try_recv().ok()));
        jobs.map(|job| job.occurrence).collect()
    }

    /// The same of what was offered.
    pub(crate) fn offered(&mut self) -> Vec<Occurrence> {
        let offers = std::iter::from_fn(|| self.spare.try_recv().ok());
        offers.map(|offer| offer.job.occurrence).collect()
    }
}

async fn write_caught(client: &Client, instance: &str, inner: &Inner, job: Job) {
    let about = job.occurrence.regarding.clone();
    let written = caught_async(write(client, instance, inner, job)).await;
    if let Err(panic) = written {
        tracing::error!(?about, panic, "writing an event panicked");
    }
}

async fn write(client: &Client, instance: &str, inner: &Inner, job: Job) {
    let written = match &job.write {
        Write::Nothing => return,
        Write::Create => create(client, instance, &job, &job.name, None).await,
        Write::Series { name, count, last } => {
            let series = json!({"count": count, "lastObservedTime": micro_time(*last)});
            match patch(client, &job, name, &series).await {
                // Events live for an hour only.
                Err(error) if error.kind() == Failure::NotFound => {
                    create(client, instance, &job, name, Some(series)).await
                }
                written => written,
            }
        }
    };
    if let Err(error) = written {
        inner.forget(&job.occurrence);
        let Occurrence {
            regarding, reason, ..
        } = &job.occurrence;
        // A namespace that is going away takes no events; so is its pod.
        tracing::debug!(%error, namespace = regarding.namespace, name = regarding.name, reason,
            "failed to write an event");
    }
}

async fn create(
    client: &Client,
    instance: &str,
    job: &Job,
    name: &str,
    series: Option<Value>,
) -> Result<(), CallError> {
    let mut event = event_object(&job.occurrence, name, job.at, instance, series);
    if let Some(related) = &job.related {
        event["related"] = reference(related);
    }
    let body = event.to_string().into_bytes();
    let events = events(&job.occurrence.regarding);
    let request = events.create(&PostParams::default(), body);
    let request = request.map_err(kube::Error::BuildRequest)?;
    // Nobody reads the answer, so it isn't parsed.
    let answer = within(CALL_LIMIT, client.request_text(request)).await;
    answer.map(|_| ())
}

async fn patch(client: &Client, job: &Job, name: &str, series: &Value) -> Result<(), CallError> {
    let patch = Patch::Strategic(json!({"series": series}));
    let events = events(&job.occurrence.regarding);
    let request = events.patch(name, &PatchParams::default(), &patch);
    let request = request.map_err(kube::Error::BuildRequest)?;
    let answer = within(CALL_LIMIT, client.request_text(request)).await;
    answer.map(|_| ())
}

fn events(regarding: &Regarding) -> Request {
    Request::new(Event::url_path(&(), Some(namespace(regarding))))
}

/// Events about cluster-scoped objects live in the namespace "default".
fn namespace(regarding: &Regarding) -> &str {
    match regarding.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

fn event_object(
    occurrence: &Occurrence,
    name: &str,
    at: Timestamp,
    instance: &str,
    series: Option<Value>,
) -> Value {
    let regarding = &occurrence.regarding;
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": namespace(regarding),
        },
        "eventTime": micro_time(at),
        "reportingController": &*occurrence.controller,
        "reportingInstance": instance,
        "action": occurrence.action,
        "reason": occurrence.reason,
        "regarding": reference(regarding),
        "note": occurrence.note,
        "type": occurrence.type_.as_str(),
    });
    if let Some(series) = series {
        event["series"] = series;
    }
    event
}

fn reference(object: &Regarding) -> Value {
    json!({
        "apiVersion": object.api_version,
        "kind": object.kind,
        "namespace": object.namespace,
        "name": object.name,
        "uid": object.uid,
    })
}

fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// Cuts at 1024 bytes, with " ..." to show it.
fn cut(note: &mut String) {
    const MARK: &str = " ...";
    const KEPT: usize = NOTE_LIMIT - MARK.len();
    if note.len() > NOTE_LIMIT {
        note.truncate(note.floor_char_boundary(KEPT));
        note.push_str(MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::EventType;

    fn occurrence(note: &str) -> Occurrence {
        Occurrence {
            regarding: Regarding {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: "ns".to_owned(),
                name: "a".to_owned(),
                uid: "u".to_owned(),
            },
            type_: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: note.to_owned(),
            controller: "default-scheduler".into(),
        }
    }

    #[test]
    fn notes_are_cut_at_a_character() {
        for (length, want) in [(1024, 1024), (1025, 1024), (3000, 1024)] {
            let mut note = "x".repeat(length);
            cut(&mut note);
            assert_eq!(note.len(), want);
            assert_eq!(note.ends_with(" ..."), length > 1024);
        }
        let mut note = "é".repeat(600);
        cut(&mut note);
        assert!(note.len() <= 1024 && note.ends_with("é ..."));
    }

    #[test]
    fn the_object_is_a_valid_event() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let object = event_object(&occurrence("full"), "a.1", at, "host", None);
        let event: Event = serde_json::from_value(object).unwrap();
        assert_eq!(event.note.as_deref(), Some("full"));
        assert_eq!(
            event.reporting_controller.as_deref(),
            Some("default-scheduler")
        );
        assert_eq!(event.regarding.unwrap().uid.as_deref(), Some("u"));
        assert_eq!(event.series, None);
    }
}
