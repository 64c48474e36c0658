//! `dashboard`: opens the live page of the proxy scheduler that leads, by a port-forward, so that the API server says
//! who may.
//!
//! Each connection of the browser looks anew for who leads: a page that loses its leader comes back by itself.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, find, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::cluster::Cluster;
use crate::error::{Error, with_causes};
use crate::plan::Need;
use crate::program::program;
use crate::table::one_line;
use crate::{Side, preflight, progress};

/// The Lease of the part that knows.
const LEASE: &str = "pilotage-proxy-scheduler";
/// The port of its container that has the page, and its number where none has that name.
const PORT: (&str, u16) = ("health", 8080);
const PATH: &str = "/dashboard";
/// Connections at a time: a browser has some, for each of its pages.
const CONNECTIONS: usize = 64;
/// How long the server may take to say why a connection has ended.
const COMPLAINT_LIMIT: Duration = Duration::from_secs(1);
/// How long the page may take to answer, once there is a connection.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Flags of `dashboard`.
#[derive(Clone, Debug, Args)]
pub struct DashboardArgs {
    /// Context of the source. Without it, the current one.
    #[arg(long, visible_alias = "context", value_name = "CONTEXT")]
    source: Option<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Namespace where Pilotage runs.
    #[arg(long, value_name = "NAMESPACE", default_value = "pilotage")]
    home: String,

    /// Port of this machine where the page is, for all its users as long as the command runs. 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Open the page in the browser, too.
    #[arg(long)]
    open: bool,
}

/// The cluster, and where Pilotage is in it.
struct Source {
    cluster: Cluster,
    /// One whose connections may be silent.
    streams: Client,
    home: String,
}

/// What a server says of a connection that can't be used any more.
type Complaint = BoxFuture<'static, Option<String>>;

/// Who leads: a pod, and the port of its page.
#[derive(Debug, PartialEq, Eq)]
struct Leader {
    pod: String,
    port: u16,
}

/// Serves the page until it is interrupted.
pub(crate) async fn dashboard(args: DashboardArgs) -> Result<String, Error> {
    let file = args.kubeconfig.as_deref();
    let (cluster, streams) =
        Cluster::open_with_streams(Side::Source, file, args.source.as_deref()).await?;
    preflight::identity(&cluster).await?;
    let need = |group, resource, verb| Need {
        group,
        resource,
        verb,
        namespace: Some(args.home.clone()),
    };
    // A stream over a web socket begins with a GET; newer API servers ask for "create" besides.
    let needs = [
        need("coordination.k8s.io", "leases", "get"),
        need("", "pods", "get"),
        need("", "pods/portforward", "get"),
        need("", "pods/portforward", "create"),
    ];
    preflight::rights(&cluster, &needs).await?;
    let source = Arc::new(Source {
        cluster,
        streams,
        home: args.home,
    });
    let leader = source.leader().await?;
    source.is_served(&leader).await?;
    let address = (Ipv4Addr::LOCALHOST, args.port);
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Error::NotNow {
        what: format!("port {} of this machine can't be had: {error}", args.port),
        instead: "give another one by --port, or none".to_owned(),
    })?;
    let port = listener.local_addr().map_or(args.port, |it| it.port());
    let url = format!("http://{}:{port}{PATH}", Ipv4Addr::LOCALHOST);
    progress(&format!(
        "{url} shows what {} knows, until you press Ctrl-C",
        leader.pod
    ));
    if args.open && !opened(&url) {
        progress("no browser can be started here; open the address yourself");
    }
    tokio::select! {
        () = serve(&listener, &source) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(String::new())
}

async fn serve(listener: &TcpListener, source: &Arc<Source>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        let Ok((connection, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: trying again at once would spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let source = Arc::clone(source);
        tokio::spawn(async move {
            pass(&source, connection).await;
            drop(slot);
        });
    }
}

/// Passes one connection on to whoever leads; if nobody can be reached, the browser hears why.
async fn pass(source: &Source, mut connection: TcpStream) {
    let forwarded = async {
        let leader = source.leader().await?;
        source.forward(&leader).await
    };
    match forwarded.await {
        Ok((stream, _)) => {
            let (mut from_page, mut to_page) = tokio::io::split(stream);
            let (mut from_browser, mut to_browser) = connection.split();
            // Who hangs up first ends both, or a page would wait for ever: the browser comes back if it wants to.
            tokio::select! {
                _ = copy(&mut from_page, &mut to_browser) => {}
                _ = copy(&mut from_browser, &mut to_page) => {}
            }
            let _ = to_browser.shutdown().await;
        }
        Err(error) => {
            let why = one_line(&with_causes(&error));
            progress(&format!("warning: {why}; the page tries again"));
            let head = "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{why}", why.len());
            let _ = connection.write_all(answer.as_bytes()).await;
            let _ = connection.shutdown().await;
        }
    }
}

impl Source {
    async fn leader(&self) -> Result<Leader, Error> {
        let (home, reach) = (&self.home, self.cluster.flags("--context"));
        let leases: Api<Lease> = self.cluster.api(home);
        let lease = find(CALL_LIMIT, leases.get(LEASE), "leases", LEASE).await;
        let lease = lease.map_err(self.cluster.unread(format!("read Lease {LEASE}")))?;
        let nobody = |what: String| Error::NotNow {
            what,
            instead: format!(
                "give the namespace of Pilotage by --home, or see \"kubectl {reach} get pods --namespace {home}\""
            ),
        };
        let Some(lease) = lease else {
            return Err(nobody(format!(
                "no proxy scheduler has ever led in namespace {home}"
            )));
        };
        let Some(name) = holder(&lease) else {
            return Err(nobody(format!(
                "no proxy scheduler leads in namespace {home} now"
            )));
        };
        let pods: Api<Pod> = self.cluster.api(home);
        let pod = find(CALL_LIMIT, pods.get(&name), "pods", &name).await;
        let pod = pod.map_err(self.cluster.unread(format!("read pod {name}")))?;
        let pod = pod.ok_or_else(|| {
            nobody(format!(
                "the proxy scheduler {name} leads, and there is no such pod in namespace {home}"
            ))
        })?;
        let port = port_of(&pod);
        Ok(Leader { pod: name, port })
    }

    /// A connection to the page, and why it ends, if the server says so.
    async fn forward(&self, leader: &Leader) -> Result<(DuplexStream, Complaint), Error> {
        let pods: Api<Pod> = Api::namespaced(self.streams.clone(), &self.home);
        let ports = [leader.port];
        let forwarder = within(CALL_LIMIT, pods.portforward(&leader.pod, &ports)).await;
        let mut forwarder = forwarder.map_err(|source| self.refused(leader, source))?;
        // It works on as long as its stream is there.
        let stream = forwarder.take_stream(leader.port);
        let complaint = forwarder.take_error(leader.port);
        let both = stream.zip(complaint.map(FutureExt::boxed));
        both.ok_or_else(|| self.unserved(leader, "the API server gave no stream"))
    }

    fn refused(&self, leader: &Leader, source: CallError) -> Error {
        if source.kind() == Failure::Forbidden {
            let home = &self.home;
            return Error::Rights {
                side: self.cluster.side,
                missing: vec![format!("create pods/portforward in namespace {home}")],
            };
        }
        self.cluster
            .unread(format!("open a port-forward to pod {}", leader.pod))(source)
    }

    fn unserved(&self, leader: &Leader, what: &str) -> Error {
        let (pod, port, home) = (&leader.pod, leader.port, &self.home);
        let reach = self.cluster.flags("--context");
        Error::NotNow {
            what: format!("port {port} of pod {pod} can't be reached by a port-forward: {what}"),
            instead: format!(
                "see \"kubectl {reach} port-forward --namespace {home} {pod} {port}\""
            ),
        }
    }

    /// Whether the page is there at all.
    async fn is_served(&self, leader: &Leader) -> Result<(), Error> {
        let (mut stream, complaint) = self.forward(leader).await?;
        let asked = tokio::time::timeout(ANSWER_LIMIT, status(&mut stream)).await;
        match asked {
            Ok(Ok(200)) => Ok(()),
            Ok(Ok(404)) => Err(Error::NotNow {
                what: format!("the dashboard of {} is off", leader.pod),
                instead: format!(
                    "turn it on by \"{} install {} --image IMAGE --dashboard\" with its other flags, or, with Helm, by \
                     proxyScheduler.dashboard=true",
                    program(),
                    self.cluster.flags("--context")
                ),
            }),
            Ok(Ok(code)) => Err(self.unserved(leader, &format!("it answers {code} to GET {PATH}"))),
            Ok(Err(error)) => {
                let told = tokio::time::timeout(COMPLAINT_LIMIT, complaint).await;
                let told = told.ok().flatten().unwrap_or_else(|| error.to_string());
                Err(self.unserved(leader, &one_line(&told)))
            }
            Err(_) => {
                let limit = ANSWER_LIMIT.as_secs();
                Err(self.unserved(leader, &format!("no answer within {limit} s")))
            }
        }
    }
}

/// Asks for the page; the status of the answer.
async fn status(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<u16> {
    let ask = format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    let mut head = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut head).await?;
    let status = std::str::from_utf8(&head).ok();
    let status = status.and_then(|head| head.strip_prefix("HTTP/1.1 ")?.parse().ok());
    status.ok_or_else(|| std::io::Error::new(ErrorKind::InvalidData, "it speaks no HTTP"))
}

/// The pod that holds a Lease: `<pod>_<random>`.
fn holder(lease: &Lease) -> Option<String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    let name = holder.rsplit_once('_').map_or(holder, |(name, _)| name);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The port of its page.
fn port_of(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let named = ports.find(|port| port.name.as_deref() == Some(PORT.0));
    let number = named.and_then(|port| u16::try_from(port.container_port).ok());
    number.unwrap_or(PORT.1)
}

/// Whether a browser was started.
fn opened(url: &str) -> bool {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null());
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::duplex;

    use super::*;

    #[test]
    fn a_lease_names_the_pod_that_leads() {
        let of = |holder: Option<&str>| {
            let lease = json!({ "metadata": {}, "spec": { "holderIdentity": holder } });
            super::holder(&serde_json::from_value(lease).unwrap())
        };
        let pod = of(Some("pilotage-proxy-scheduler-5f6-x_00ff"));
        assert_eq!(pod.as_deref(), Some("pilotage-proxy-scheduler-5f6-x"));
        for nobody in [None, Some(""), Some("_00ff")] {
            assert_eq!(of(nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn a_pod_says_where_its_page_is() {
        let of = |ports: serde_json::Value| {
            let pod = json!({ "spec": { "containers": [{ "name": "app", "ports": ports }] } });
            port_of(&serde_json::from_value(pod).unwrap())
        };
        let ports = json!([{ "name": "x", "containerPort": 1 }, { "name": "health", "containerPort": 8099 }]);
        assert_eq!(of(ports), 8099);
        assert_eq!(of(json!([])), 8080);
        assert_eq!(of(json!([{ "name": "health", "containerPort": -1 }])), 8080);
    }

    #[tokio::test]
    async fn the_page_is_asked_for_and_its_status_read() {
        for (answer, want) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n", Some(404)),
            ("HTTP/1.1 200 OK\r\n\r\nmore", Some(200)),
            ("SSH-2.0-OpenSSH_9", None),
            ("HTTP/1.1", None),
        ] {
            let (mut here, mut there) = duplex(1024);
            there.write_all(answer.as_bytes()).await.unwrap();
            there.shutdown().await.unwrap();
            let asked = status(&mut here).await;
            assert_eq!(asked.ok(), want, "{answer}");
            drop(here);
            let mut ask = String::new();
            there.read_to_string(&mut ask).await.unwrap();
            assert!(ask.starts_with("GET /dashboard HTTP/1.1\r\nHost: localhost\r\n"));
        }
    }
}
