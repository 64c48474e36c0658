//! Services of the source that select proxies are made to select their delegates: who wakes a Service's turn, and the
//! turn.
//!
//! It must not know targets. What a Service has to be like is [`pilotage_model::followed::reroute`]. One stays as it is
//! when its last proxy goes; if pods at home miss it then, its author is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_clusters::{Event, Watch};
use pilotage_model::followed::{self, Kind, Selector};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_runtime::caught::caught_turn;
use pilotage_runtime::moment::from_now;
use pilotage_runtime::turns::{Next, Turns, Waker};
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::SOON;
use super::act::FIELD_MANAGER;
use super::kinds::{Followed, trim};
use super::left_behind::{LeftBehind, Look};
use super::needs::{Change, Key};
use super::pace::Pace;
use super::place::{CONTROLLER, Parts};

/// Services that are written at once.
const AT_ONCE: usize = 4;

/// Reroutes Services until `stop`.
pub(super) async fn reroute(parts: Arc<Parts>, services: Watch<Service>, stop: CancellationToken) {
    let rerouting = Arc::new(Rerouting {
        parts,
        services,
        memories: Mutex::default(),
        left_behind: Mutex::default(),
    });
    let (turns, waker) = Turns::new(AT_ONCE);
    let turn = {
        let rerouting = rerouting.clone();
        move |key: Key| {
            let rerouting = rerouting.clone();
            async move { caught_turn(rerouting.turn(&key), |panic| panicked(&key, panic)).await }
                .boxed()
        }
    };
    let waking = rerouting.wake(waker);
    tokio::join!(
        turns.run(turn, stop.clone()),
        stop.run_until_cancelled(Box::pin(waking))
    );
}

fn panicked(key: &Key, panic: &str) {
    let (namespace, name) = (&key.namespace, &key.name);
    tracing::error!(namespace, name, panic, "to reroute a Service panicked");
}

struct Rerouting {
    parts: Arc<Parts>,
    services: Watch<Service>,
    /// Of Services that were written lately.
    memories: Mutex<HashMap<Key, Memory>>,
    /// Services that no proxy needs any more.
    left_behind: Mutex<LeftBehind>,
}

/// What is remembered of a Service.
#[derive(Debug, Default)]
struct Memory {
    pace: Pace,
    /// What was written last: if the same has to be written again, somebody has undone it.
    wrote: Option<Value>,
}

impl Memory {
    fn wrote(&mut self, mut patch: Value, now: Instant) {
        // That of another version may be the same.
        patch["metadata"]["resourceVersion"].take();
        let undone = self.wrote.as_ref() == Some(&patch);
        self.pace.wrote(now, undone);
        self.wrote = Some(patch);
    }
}

impl Rerouting {
    /// Wakes turns, for as long as it is polled.
    async fn wake(&self, waker: Waker<Key>) {
        let mut changes = self.parts.needs.subscribe(Kind::Service);
        let mut services = self.services.subscribe();
        let leadership = self.parts.leadership.clone();
        let mut leads = false;
        loop {
            let key = tokio::select! {
                Some(change) = changes.recv() => match change {
                    Change::At(_, keys) => {
                        keys.iter().for_each(|key| waker.wake(Key::clone(key)));
                        continue;
                    }
                    Change::LeftOut(..) => continue,
                    Change::All => None,
                },
                Some(event) = services.recv() => match event {
                    Event::Applied(service) if self.concerns(&service) => Key::of(&*service),
                    Event::Deleted(service) | Event::Gone(service) => {
                        if let Some(key) = Key::of(&*service) {
                            self.memories().remove(&key);
                            self.left_behind().forget(&key);
                        }
                        continue;
                    }
                    Event::Applied(_) => continue,
                    Event::Synced => None,
                },
                () = leadership.acquired(), if !leads => {
                    leads = true;
                    None
                }
                else => return,
            };
            match key {
                Some(key) => waker.wake(key),
                None => self.all().into_iter().for_each(|key| waker.wake(key)),
            }
        }
    }

    /// Most Services select no proxy, and never did.
    fn concerns(&self, service: &Service) -> bool {
        let needed = Key::of(service).is_some_and(|key| self.parts.needs.is_anywhere(&key));
        needed || !service.is_readable() || original(service).is_some()
    }

    fn all(&self) -> Vec<Key> {
        let services = self.services.list();
        let concerned = services.iter().filter(|service| self.concerns(service));
        concerned
            .filter_map(|service| Key::of(&**service))
            .collect()
    }

    /// Writes once, if anything is to be written.
    async fn turn(&self, key: &Key) -> Next {
        let parts = &self.parts;
        let known = parts.needs.are_known(Kind::Service) && self.services.is_synced();
        if !parts.leadership.is_leader() || !known {
            return Next::Rest;
        }
        let Some(service) = self.services.get(Some(&key.namespace), &key.name) else {
            return Next::Rest;
        };
        if service.metadata.deletion_timestamp.is_some() {
            return Next::Rest;
        }
        let patch = match followed::reroute(&service) {
            Ok(Some(patch)) if parts.needs.is_anywhere(key) => patch,
            Ok(_) => return self.rest(key, &service).await,
            Err(error) => {
                self.tell(&service, &error.to_string());
                return Next::Rest;
            }
        };
        if !parts.needs.has_counted(&service) {
            // Who needs it may be true of an older version, and nothing tells when it is true of this one.
            return Next::At(from_now(SOON));
        }
        let waits = self
            .memories()
            .get(key)
            .and_then(|memory| memory.pace.waits(Instant::now()));
        if let Some(at) = waits {
            return Next::At(at);
        }
        match self.write(key, &patch).await {
            Ok(()) => {
                self.remember(key, |memory| memory.wrote(patch, Instant::now()));
                Next::Rest
            }
            Err(error) => match error.kind() {
                Failure::NotFound => Next::Rest,
                // The watch brings the newer one.
                Failure::Conflict => Next::At(self.failed(key)),
                _ => {
                    self.tell(&service, &error.to_string());
                    Next::At(self.failed(key))
                }
            },
        }
    }

    /// There is nothing to write. If no proxy needs the Service any more, pods here may.
    async fn rest(&self, key: &Key, service: &Service) -> Next {
        let needs = &self.parts.needs;
        let Some(original) = original(service).filter(|_| !needs.is_anywhere(key)) else {
            self.left_behind().forget(key);
            return Next::Rest;
        };
        if !needs.has_counted(service) {
            return Next::At(from_now(SOON));
        }
        let look = self.left_behind().look(key, Instant::now());
        if look == Look::Now {
            match self.runs_here(key, &original).await {
                Ok(true) => {
                    self.left_behind().told(key);
                    self.tell_left_behind(service, &original);
                }
                Ok(false) => {}
                Err(error) => {
                    let (namespace, name) = (&key.namespace, &key.name);
                    tracing::debug!(namespace, name, %error, "can't look for pods of a Service");
                }
            }
        }
        match look {
            Look::At(at) => Next::At(at),
            // Then it says when the next one is.
            Look::Now => Next::At(from_now(SOON)),
            Look::Never => Next::Rest,
        }
    }

    /// Whether pods run at home that the Service's author wants to be selected.
    async fn runs_here(&self, key: &Key, original: &Selector) -> Result<bool, CallError> {
        let pods: Api<Pod> = Api::namespaced(self.parts.client.clone(), &key.namespace);
        let labels = original.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.chain([format!("!{}", keys::HAS_FINALIZER)]);
        let some = ListParams::default()
            .labels(&labels.collect::<Vec<_>>().join(","))
            .fields("status.phase=Running")
            .limit(1);
        let found = within(CALL_LIMIT, pods.list_metadata(&some)).await?;
        Ok(!found.items.is_empty())
    }

    async fn write(&self, key: &Key, patch: &Value) -> Result<(), CallError> {
        let services: Api<Service> = Api::namespaced(self.parts.client.clone(), &key.namespace);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        let mut patched = within(CALL_LIMIT, services.patch(&key.name, &params, &patch)).await?;
        trim(&mut patched);
        self.services.fold(patched);
        Ok(())
    }

    /// When it is tried again.
    fn failed(&self, key: &Key) -> Instant {
        self.remember(key, |memory| memory.pace.failed(Instant::now()))
    }

    fn remember<T>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memories = self.memories();
        let now = Instant::now();
        memories.retain(|_, memory| !memory.pace.is_calm(now));
        change(memories.entry(key.clone()).or_default())
    }

    /// Tells the Service's author.
    fn tell(&self, service: &Service, fault: &str) {
        let note =
            format!("the Service isn't rerouted to what its pods run as in their targets: {fault}");
        let regarding = Regarding::object(service);
        tracing::warn!(
            namespace = regarding.namespace,
            name = regarding.name,
            note,
            "a Service isn't rerouted"
        );
        self.parts.events.record(Occurrence {
            regarding,
            type_: EventType::Warning,
            reason: "NotFollowed",
            action: "Follow",
            note,
            controller: CONTROLLER.into(),
        });
    }

    /// Tells the author of a Service that pods at home get nothing of it.
    fn tell_left_behind(&self, service: &Service, original: &Selector) {
        let labels = original.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        let note = format!(
            "pods with the labels {labels} run here, and the Service still selects what such pods are in targets, \
             where none is any more: give it the annotation {} and that selector, or have its pods elected",
            keys::IS_DELEGATE
        );
        self.parts.events.record(Occurrence {
            regarding: Regarding::object(service),
            type_: EventType::Warning,
            reason: "StillRerouted",
            action: "Follow",
            note,
            controller: CONTROLLER.into(),
        });
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left_behind(&self) -> MutexGuard<'_, LeftBehind> {
        self.left_behind
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The selector of its author, of a Service that is rerouted.
fn original(service: &Service) -> Option<Selector> {
    let annotations = service.annotations();
    annotations.get(keys::ORIGINAL_SELECTOR)?;
    followed::selected(service).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_somebody_undoes_is_written_less_and_less_often() {
        let patch = |version: usize, app: usize| {
            json!({
                "metadata": { "resourceVersion": version.to_string() },
                "spec": { "selector": { "app": app.to_string() } },
            })
        };
        let pause = |patches: &[Value]| {
            let (mut memory, now) = (Memory::default(), Instant::now());
            for patch in patches {
                memory.wrote(patch.clone(), now);
            }
            memory.pace.waits(now).map(|at| at - now)
        };
        let changed: Vec<_> = (0..9).map(|number| patch(number, number)).collect();
        assert!(pause(&changed).unwrap() < Duration::from_secs(2));
        let undone: Vec<_> = (0..9).map(|number| patch(number, 0)).collect();
        assert!(pause(&undone).unwrap() > Duration::from_mins(1));
    }
}
