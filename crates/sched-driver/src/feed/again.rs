//! Reads pods again of which there was too much, once there is room for them: no watch tells of a pod that hasn't
//! changed. Must not know how much room there is.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use pilotage_runtime::backoff::dice;
use pilotage_runtime::caught::caught_async;
use pilotage_runtime::guarded::Guarded;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::intake::{Lean, LeanPods};
use super::share::{Key, Shares};
use super::{PAGE_LIMIT, RETRY, Sink, hand};

/// The sink of a watch of pods: it hands on no more of them than their share.
pub(super) struct Shared<S> {
    sink: Mutex<(S, Shares)>,
    /// Somebody may be wanted.
    room: Notify,
}

impl<S: Sink<Pod>> Shared<S> {
    pub(super) fn new(sink: S) -> Arc<Self> {
        Arc::new(Self {
            sink: Mutex::new((sink, Shares::default())),
            room: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, (S, Shares)> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, shares: &Shares) {
        if shares.is_wanted() {
            self.room.notify_one();
        }
    }

    /// Unless it has changed since: then the watch tells of it.
    fn read_again(&self, pod: &Arc<Pod>) {
        let mut guard = self.lock();
        let (sink, shares) = &mut *guard;
        if shares.is_outlined(pod) {
            let pod = shares.fit(pod);
            hand(sink, &pod);
        }
    }
}

impl<S: Sink<Pod>> Sink<Pod> for Arc<Shared<S>> {
    fn applied(&mut self, pod: &Arc<Pod>) {
        let mut guard = self.lock();
        let (sink, shares) = &mut *guard;
        let pod = shares.fit(pod);
        self.tell(shares);
        hand(sink, &pod);
    }

    fn deleted(&mut self, namespace: &str, name: &str, uid: &str) {
        let mut guard = self.lock();
        let (sink, shares) = &mut *guard;
        shares.gone(namespace, name);
        shares.call();
        self.tell(shares);
        sink.deleted(namespace, name, uid);
    }

    fn panicked(&mut self, pod: &Arc<Pod>, panic: &str) {
        self.lock().0.panicked(pod, panic);
    }
}

/// Reads what is wanted, one after the other, for as long as it is polled.
pub(super) async fn read<S: Sink<Pod>>(client: Client, shared: Arc<Shared<S>>) -> Infallible {
    let mut failures = 0_u32;
    loop {
        // Not held while it is waited.
        let wanted = shared.lock().1.next_wanted();
        let Some(key) = wanted else {
            shared.room.notified().await;
            continue;
        };
        let reading = async {
            let found = timeout(PAGE_LIMIT, get(&client, &key)).await;
            let found = found.map_err(|_| format!("no answer in {PAGE_LIMIT:?}"))?;
            // What isn't there any more, or can't be read, the watch tells of.
            if let Some(Guarded(Ok(pod))) = found.map_err(|error| error.to_string())? {
                shared.read_again(&Arc::new(pod));
            }
            Ok(())
        };
        let read = caught_async(reading).await;
        let Err(why) = read.and_then(|read: Result<(), String>| read) else {
            failures = 0;
            continue;
        };
        failures = failures.saturating_add(1);
        let delay = RETRY.delay(failures, dice());
        let (namespace, name) = &key;
        tracing::warn!(
            namespace,
            name,
            error = why,
            ?delay,
            "a heavy pod can't be read, trying again"
        );
        shared.lock().1.missed(&key);
        sleep(delay).await;
    }
}

/// The pod, if it is still there.
async fn get(client: &Client, (namespace, name): &Key) -> kube::Result<Option<Guarded<Pod>>> {
    let pods: Api<Lean<Pod, LeanPods>> = Api::namespaced(client.clone(), namespace);
    Ok(pods.get_opt(name).await?.map(Lean::into_inner))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use pilotage_sched::OUTLINE;
    use serde_json::{Value, json};

    use super::*;
    use crate::test_server::{error, server};

    /// What was told, and of which pods too little was kept.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Told {
        fn tell(&self, line: String) {
            self.0.lock().unwrap().push(line);
        }
    }

    impl Sink<Pod> for Told {
        fn applied(&mut self, pod: &Arc<Pod>) {
            let annotations = pod.metadata.annotations.as_ref().unwrap();
            let how = if annotations.contains_key(OUTLINE) {
                "outline of"
            } else {
                "whole"
            };
            self.tell(format!("{how} {}", pod.metadata.name.as_deref().unwrap()));
        }

        fn deleted(&mut self, _: &str, name: &str, _: &str) {
            self.tell(format!("end of {name}"));
        }

        fn panicked(&mut self, _: &Arc<Pod>, panic: &str) {
            panic!("{panic}");
        }
    }

    fn pod(name: &str, version: usize) -> Value {
        json!({
            "metadata": {
                "namespace": "crowd", "name": name, "uid": name, "resourceVersion": version.to_string(),
                "annotations": { "a": "x".repeat(1000 << 10) },
            },
            "spec": { "containers": [], "schedulingGates": [{ "name": "g" }] },
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_there_was_no_room_for_is_read_once_there_is_and_taken_if_it_has_not_changed()
     {
        let told = Told::default();
        let mut shared = Shared::new(told.clone());
        let last = ["first", "second", "third"];
        let applied = |shared: &mut Arc<Shared<Told>>, name: &str, version| {
            let pod: Pod = serde_json::from_value(pod(name, version)).unwrap();
            shared.applied(&Arc::new(pod));
        };
        for number in 0..32 {
            applied(&mut shared, &number.to_string(), 1);
        }
        for name in last {
            applied(&mut shared, name, 1);
        }
        told.0
            .lock()
            .unwrap()
            .retain(|line| line.starts_with("outline"));
        let outlined = last.map(|name| format!("outline of {name}"));
        assert_eq!(*told.0.lock().unwrap(), outlined);

        let answers = [
            error(500, "InternalError"),
            (200, pod("second", 1)),
            (200, pod("third", 2)),
            error(404, "NotFound"),
        ];
        let (client, asked) = server(&answers);
        let reading = tokio::spawn(read(client, shared.clone()));
        let wait = || tokio::time::sleep(Duration::from_mins(1));
        wait().await;
        assert!(asked.lock().unwrap().is_empty(), "there is no room");
        for (gone, names) in [
            ("0", &["first", "second"][..]),
            ("1", &["third"]),
            ("2", &["first"]),
        ] {
            shared.deleted("crowd", gone, gone);
            wait().await;
            let asked = std::mem::take(&mut *asked.lock().unwrap());
            let paths = asked.iter().map(|(path, _)| path.as_str());
            let wanted = names
                .iter()
                .map(|name| format!("GET /api/v1/namespaces/crowd/pods/{name}"));
            assert!(paths.eq(wanted), "{asked:?}");
        }
        assert!(!reading.is_finished());
        reading.abort();
        let later = told.0.lock().unwrap().split_off(3);
        assert_eq!(later, ["end of 0", "whole second", "end of 1", "end of 2"]);
    }
}
