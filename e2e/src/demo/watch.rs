//! The watches that the demo's timeline is made from, one task each.

use std::fmt::Debug;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use pilotage_api::PodChaperon;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::timeline::Seen;
use crate::fleet::Fleet;

/// What the clusters show, in the order in which it arrives; the watches end when this is dropped.
pub(super) struct Watches {
    seen: mpsc::UnboundedReceiver<Seen>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Watches the pods of `namespace` in the source, and chaperons and pods in the targets.
    pub(super) fn start(fleet: &Fleet, namespace: &str) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let pods: Api<Pod> = Api::namespaced(fleet.source.plane.admin(), namespace);
        tasks.spawn(watch(pods, sender.clone(), |pod| {
            Seen::Proxy(Box::new(pod))
        }));
        for target in &fleet.targets {
            let name = target.name().to_owned();
            let chaperons: Api<PodChaperon> = Api::namespaced(target.plane.admin(), namespace);
            let cluster = name.clone();
            tasks.spawn(watch(chaperons, sender.clone(), move |chaperon| {
                Seen::Chaperon(cluster.clone(), Box::new(chaperon))
            }));
            let pods: Api<Pod> = Api::namespaced(target.plane.admin(), namespace);
            tasks.spawn(watch(pods, sender.clone(), move |pod| {
                Seen::Delegate(name.clone(), Box::new(pod))
            }));
        }
        Self {
            seen,
            _tasks: tasks,
        }
    }

    /// The next thing that was seen. The watches never end by themselves, so neither does this.
    pub(super) async fn next(&mut self) -> Seen {
        match self.seen.recv().await {
            Some(seen) => seen,
            None => std::future::pending().await,
        }
    }
}

async fn watch<K>(api: Api<K>, sender: mpsc::UnboundedSender<Seen>, wrap: impl Fn(K) -> Seen)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = watcher::watcher(api, watcher::Config::default())
        .default_backoff()
        .boxed();
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(object) | Event::InitApply(object)) = event
            && sender.send(wrap(object)).is_err()
        {
            return;
        }
    }
}
