//! A source with a kubelet server, and a target whose streams are played by a server in front of it; a pod of the
//! source runs there.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncReadExt};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use pilotage_api::{Right, Target};
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::streams::{Piece, StreamServer};
use pilotage_testkit::{ControlPlane, LIMIT, build, wait_for};
use tokio::time::{interval, timeout};

use super::Error;
use crate::fleet::{Fleet, SOURCE_ACCOUNT, Spec, secret, target_object};
use crate::memory::{self, Process};

/// The target.
pub const TARGET: &str = "east";
/// The pod whose streams these are.
pub const POD: &str = "web";
/// Its namespace.
const NAMESPACE: &str = "streams";
/// Between two tries of what nothing can be watched for.
const PERIOD: Duration = Duration::from_millis(200);

/// Everything that runs.
#[derive(Debug)]
pub struct Stage {
    /// The clusters.
    pub fleet: Fleet,
    /// What stands before the target's API server, and before its fault proxy if it has one.
    pub server: StreamServer,
    pod: Pod,
}

impl Stage {
    /// Starts it all, and waits until logs come. The fleet is what `spec` says, with a kubelet and one target.
    pub async fn start(spec: Spec) -> Result<Self, Error> {
        // Nobody forwards ports here.
        let forward = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let lines = ["one", "two", "three"].map(str::to_owned).to_vec();
        let nodes = build::nodes(TARGET, 1, |node| node.cpu("4").memory("16Gi").pods(110));
        let plane = ControlPlane::builder(TARGET)
            .controller_manager()
            .kwok(nodes);
        let plane = plane.kubelet(Kubelet { lines, forward });
        let rights = [Right::Logs, Right::Exec, Right::Attach, Right::PortForward];
        let spec = spec.kubelet().rights(&rights).target_plane(plane);
        let mut fleet = spec.start().await?;
        fleet.install().await?;
        match Self::set(&fleet).await {
            Ok((server, pod)) => Ok(Self { fleet, server, pod }),
            Err(error) => {
                eprintln!("logs: {:#?}", fleet.logs());
                Err(error)
            }
        }
    }

    async fn set(fleet: &Fleet) -> Result<(StreamServer, Pod), Error> {
        for cluster in fleet.all() {
            let made = cluster.plane.named_namespace(NAMESPACE, BTreeMap::new());
            made.await?.keep();
        }
        fleet.elect(NAMESPACE).await?;
        let target = fleet.targets.first().ok_or(memory::Error::Gone)?;
        let url = match &target.door {
            Some(door) => door.url(),
            None => target.plane.url().to_owned(),
        };
        let upstream = url.trim_start_matches("https://").parse();
        let server = StreamServer::start(&target.plane, upstream.map_err(std::io::Error::other)?);
        let server = server.await?;
        let kubeconfig = target.let_in(SOURCE_ACCOUNT, NAMESPACE).await?;
        let kubeconfig = kubeconfig.replace(&url, &server.url());
        for object in [
            secret(TARGET, NAMESPACE, &kubeconfig),
            target_object(TARGET, NAMESPACE),
        ] {
            fleet.source.plane.apply_yaml(&object.to_string()).await?;
        }
        fleet.source.connected(TARGET, NAMESPACE).await?;
        let pods: Api<Pod> = Api::namespaced(fleet.source.plane.admin(), NAMESPACE);
        let pod = build::pod(POD).elect().request("cpu", "100m").build();
        let created = pilotage_testkit::create(&pods, &pod).await;
        created.map_err(Error::request("create a pod"))?;
        let runs = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
            phase == Some("Running")
        };
        let pod = wait_for(&pods, POD, runs, LIMIT).await;
        let pod = pod.map_err(|error| Error::Wait(Box::new(error)))?;
        Ok((server, pod))
    }

    /// A client of the source, by connections of its own.
    pub fn client(&self) -> Client {
        self.fleet.source.plane.admin()
    }

    /// The pod, as it was when it ran.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// The pods of the namespace in the source.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), NAMESPACE)
    }

    /// The Targets of the namespace.
    pub fn targets(&self) -> Api<Target> {
        Api::namespaced(self.client(), NAMESPACE)
    }

    /// The process that holds the streams.
    pub async fn process(&self) -> Result<Process, Error> {
        let process = self.fleet.source.processes.get("controllers");
        let process = process.ok_or(memory::Error::Gone)?.process();
        let pid = process.pids().await.ok_or(memory::Error::Gone)?.child;
        Ok(Process { pid })
    }

    /// Path of one of the pod's streams in the source's API server.
    pub fn path(&self, stream: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/pods/{POD}/{stream}")
    }

    /// Asks the source for logs. What comes is the caller's to read.
    pub async fn logs(
        &self,
        query: &str,
    ) -> Result<impl AsyncBufRead + Unpin + use<>, kube::Error> {
        let request = Request::get(self.path(&format!("log?{query}"))).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        let stream = self.client().request_stream(request).await?;
        Ok(Box::pin(stream))
    }

    /// Waits until logs come to their end, since the API server takes a kubelet's certificate only when there is one.
    /// What they were.
    pub async fn works(&self) -> Result<String, Error> {
        let trying = async {
            let mut ticks = interval(PERIOD);
            loop {
                ticks.tick().await;
                let Ok(mut logs) = self.logs("").await else {
                    continue;
                };
                let mut text = String::new();
                if logs.read_to_string(&mut text).await.is_ok() {
                    return text;
                }
            }
        };
        let said = timeout(LIMIT, trying).await;
        said.map_err(|_| Error::Slow("no logs come"))
    }

    /// Waits until so many streams are being played.
    pub async fn playing(&self, count: usize) -> Result<(), Error> {
        let reached = async {
            let mut ticks = interval(PERIOD);
            while self.server.playing() != count {
                ticks.tick().await;
            }
        };
        let reached = timeout(LIMIT, reached).await;
        reached.map_err(|_| Error::Slow("other streams are open"))
    }

    /// From now on each stream is this one.
    pub fn play(&self, pieces: Vec<Piece>) {
        self.server.play(move |_| Some(pieces.clone()));
    }

    /// Stops everything.
    pub async fn stop(self) {
        self.fleet.stop().await;
    }
}
