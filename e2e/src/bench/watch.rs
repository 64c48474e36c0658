//! Watches of the pods of all clusters, each event stamped when it arrives. A gap in them is an error: figures and "no
//! pod ran twice" rest on every event. They know nothing of what events mean.

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use pilotage_testkit::ControlPlane;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::error::Error;
use super::timeline::{LeanPod, Seen, Timeline};

/// Longest time of one watch request; the next goes on from there.
const WATCH_SECONDS: u32 = 290;
/// Between two attempts to watch, after a failure.
const PAUSE: Duration = Duration::from_millis(200);

/// What arrives; the watches end when this is dropped.
pub(super) struct Watches {
    seen: mpsc::UnboundedReceiver<Result<Seen, Error>>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Watches a namespace in these clusters, or all, from now on.
    pub(super) async fn start(
        planes: impl Iterator<Item = &ControlPlane>,
        namespace: Option<&str>,
    ) -> Result<Self, Error> {
        let (sender, seen) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (cluster, plane) in planes.enumerate() {
            let client = plane.admin();
            let api: Api<Pod> = match namespace {
                Some(namespace) => Api::namespaced(client.clone(), namespace),
                None => Api::all(client.clone()),
            };
            let list = api
                .list_metadata(&ListParams::default().limit(1))
                .await
                .map_err(Error::request("can't list pods to begin watching"))?;
            let watch = Watch {
                client,
                path: Pod::url_path(&(), namespace),
                cluster,
                name: plane.name().to_owned(),
                version: list.metadata.resource_version.unwrap_or_default(),
                sender: sender.clone(),
            };
            tasks.spawn(watch.run());
        }
        Ok(Self {
            seen,
            _tasks: tasks,
        })
    }

    /// Takes events in until `condition` holds.
    pub(super) async fn until(
        &mut self,
        timeline: &mut Timeline,
        what: &'static str,
        limit: Duration,
        condition: impl Fn(&Timeline) -> bool,
    ) -> Result<(), Error> {
        let holds = async {
            while !condition(timeline) {
                match self.seen.recv().await {
                    Some(seen) => timeline.see(seen?),
                    // The watches end only with this value, after telling why.
                    None => std::future::pending().await,
                }
            }
            Ok(())
        };
        match tokio::time::timeout(limit, holds).await {
            Ok(result) => result,
            Err(_) => Err(Error::Late {
                what,
                after: limit,
                state: timeline.state(),
            }),
        }
    }
}

struct Watch {
    client: Client,
    path: String,
    cluster: usize,
    name: String,
    version: String,
    sender: mpsc::UnboundedSender<Result<Seen, Error>>,
}

/// Why one watch request ended.
enum End {
    /// Go on from the last version.
    Again,
    /// Nobody listens, or there is a gap.
    Never,
}

impl Watch {
    async fn run(mut self) {
        loop {
            match self.once().await {
                Ok(End::Again) => {}
                Ok(End::Never) => return,
                Err(kube::Error::Api(status)) if status.code == 410 => {
                    return self.gap(&status.message);
                }
                Err(error) => {
                    tracing::debug!(%error, "watch failed, trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn once(&mut self) -> Result<End, kube::Error> {
        let params = WatchParams::default().timeout(WATCH_SECONDS);
        let request = Request::new(&self.path)
            .watch(&params, &self.version)
            .map_err(kube::Error::BuildRequest)?;
        let mut events = self
            .client
            .request_events::<LeanPod>(request)
            .await?
            .boxed();
        while let Some(event) = events.next().await {
            let at = Instant::now();
            let (gone, pod) = match event? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (false, pod),
                WatchEvent::Deleted(pod) => (true, pod),
                WatchEvent::Bookmark(bookmark) => {
                    self.version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            self.version.clone_from(&pod.metadata.resource_version);
            let cluster = self.cluster;
            let seen = Seen {
                at,
                cluster,
                gone,
                pod,
            };
            if self.sender.send(Ok(seen)).is_err() {
                return Ok(End::Never);
            }
        }
        Ok(End::Again)
    }

    fn gap(&self, why: &str) {
        let _ = self.sender.send(Err(Error::Gap {
            cluster: self.name.clone(),
            why: why.to_owned(),
        }));
    }
}
