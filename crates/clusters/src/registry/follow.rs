//! Follows the `Target`s and `ClusterTarget`s of a cluster, one object at a time: a panic about one is told on it, and
//! it is tried again after a pause. It must not know what a registry does with them.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use pilotage_api as api;
use pilotage_runtime::backoff::Backoff;
use pilotage_runtime::caught::{PAUSES, caught};
use pilotage_runtime::retries::Retries;
use tokio::time::{Instant, sleep_until};

use super::{Registry, Set};
use crate::args::Options;
use crate::key::{TargetKey, TargetObject};
use crate::watch::{Event, Watch, Watchable};

/// How objects are read, and how long they wait after panics.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub(super) target: fn(&api::Target) -> Option<TargetObject>,
    pub(super) cluster_target: fn(&api::ClusterTarget) -> Option<TargetObject>,
    pub(super) pauses: Backoff,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            target: TargetObject::from_target,
            cluster_target: TargetObject::from_cluster_target,
            pauses: PAUSES,
        }
    }
}

pub(super) struct Follower {
    registry: Registry,
    client: Client,
    options: Options,
    targets: Watch<api::Target>,
    cluster_targets: Watch<api::ClusterTarget>,
    manner: Manner,
    retries: Retries<TargetKey>,
}

impl Follower {
    pub(super) fn new(
        registry: Registry,
        client: Client,
        options: Options,
        watches: (Watch<api::Target>, Watch<api::ClusterTarget>),
        manner: Manner,
    ) -> Self {
        let (targets, cluster_targets) = watches;
        Self {
            registry,
            client,
            options,
            targets,
            cluster_targets,
            manner,
            retries: Retries::new(manner.pauses),
        }
    }

    pub(super) async fn run(mut self) {
        let (mut one, mut two) = (self.targets.subscribe(), self.cluster_targets.subscribe());
        loop {
            let next = self.retries.next();
            tokio::select! {
                Some(event) = one.recv() => {
                    if let Event::Synced = event {
                        self.seat_all();
                    }
                    self.take(event, self.manner.target);
                }
                Some(event) = two.recv() => self.take(event, self.manner.cluster_target),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => self.again(),
                else => return,
            }
            // Only when what the lists held has been taken in.
            if one.is_empty()
                && two.is_empty()
                && self.targets.is_synced()
                && self.cluster_targets.is_synced()
            {
                let synced = &self.registry.inner.synced;
                synced.send_if_modified(|synced| !std::mem::replace(synced, true));
            }
        }
    }

    fn seat_all(&self) {
        if let Err(panic) = caught(|| self.registry.write(Set::seat_all)) {
            tracing::error!(panic, "to give targets their seats panicked");
        }
    }

    fn take<K: Watchable>(&mut self, event: Event<K>, read: fn(&K) -> Option<TargetObject>) {
        match event {
            Event::Applied(object) => self.apply(&object, read),
            // Our own API server's list is the truth about what it is to do.
            Event::Deleted(object) | Event::Gone(object) => {
                let meta = object.meta();
                let uid = meta.uid.clone().unwrap_or_default();
                let gone = key(meta);
                self.step(key(meta), &uid, |registry, _, _| {
                    registry.drop_target(&gone, Some(&uid));
                });
            }
            Event::Synced => {}
        }
    }

    fn apply<K: Watchable>(&mut self, object: &Arc<K>, read: fn(&K) -> Option<TargetObject>) {
        let meta = object.meta();
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.step(key(meta), uid, |registry, client, options| {
            registry.apply(read(object), client, options);
        });
    }

    /// Tries those again whose time has come, as they are now.
    fn again(&mut self) {
        for key in self.retries.due(Instant::now()) {
            let (namespace, name) = (key.namespace.as_deref(), &*key.name);
            if namespace.is_some() {
                let object = self.targets.get(namespace, name);
                self.redo(key, object, self.manner.target);
            } else {
                let object = self.cluster_targets.get(namespace, name);
                self.redo(key, object, self.manner.cluster_target);
            }
        }
    }

    fn redo<K: Watchable>(
        &mut self,
        key: TargetKey,
        object: Option<Arc<K>>,
        read: fn(&K) -> Option<TargetObject>,
    ) {
        let Some(object) = object else {
            let gone = key.clone();
            return self.step(key, "", |registry, _, _| registry.drop_target(&gone, None));
        };
        self.apply(&object, read);
    }

    fn step(&mut self, key: TargetKey, uid: &str, work: impl FnOnce(&Registry, &Client, &Options)) {
        match caught(|| work(&self.registry, &self.client, &self.options)) {
            Ok(()) => self.retries.succeeded(&key),
            Err(panic) => {
                let mistakes = &self.registry.inner.mistakes;
                mistakes.tell("registry", key.reference(uid), &panic);
                self.retries.failed(key, Instant::now());
            }
        }
    }
}

fn key(meta: &ObjectMeta) -> TargetKey {
    TargetKey {
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}
