//! A server that plays the API server of a target cluster and can lie in every way: about whose chaperons there are, in
//! the form of its answers, and by their size and pace.
//!
//! By itself it is the API server of a healthy, empty cluster: ready, with a
//! [`ClusterSummary`](pilotage_api::ClusterSummary) that says who it is and has room, and taking chaperons as a real
//! one would, with versions, preconditions, selectors and finalizers. A Target that names a Secret with its
//! [`HostileServer::kubeconfig`] becomes reachable. What the Pilotage behind it does with chaperons is a matter of
//! [`Questions`]; it drops them at first.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pilotage_testkit::fault::{Calls, Verb};
//! use pilotage_testkit::hostile::{Answer, Lie, Questions, Script};
//! use pilotage_testkit::{HostileServer, build};
//! use serde_json::json;
//!
//! # async fn example(victim: &k8s_openapi::api::core::v1::Pod) -> Result<(), Box<dyn std::error::Error>> {
//! let server = HostileServer::start("evil").await?;
//! let secret = json!({ "config": server.kubeconfig() });
//! // Its cluster runs whatever it is asked to …
//! server.answer_questions(Questions::Run(json!({ "status": { "podIP": "nonsense" } })));
//! server.counted(Verb::Create, "podchaperons", 1, Duration::from_secs(30)).await?;
//! // … and what it never was, whatever a list or a watch asks for.
//! let forged = build::chaperon_of(victim, None).granted(1).running("10.0.0.1");
//! server.put_everywhere(forged.value())?;
//! // New requests, from now on:
//! let item = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a-{number}" } });
//! let script = Script::new()
//!     .next(1, Calls::any().path("/readyz"), Lie::SlowBody(Duration::from_secs(1)))
//!     .always(Calls::any().verb(Verb::List), Lie::Answer(Answer::list(&item, None)));
//! server.play(script);
//! # Ok(())
//! # }
//! ```
//!
//! It speaks HTTP/1.1 over TLS and knows one client, by a bearer token. It counts requests as they come, whoever sends
//! them, so that one of these can also stand where a redirect leads to. Every task of it ends when it is stopped or
//! dropped. It lives in the runtime that it was started in.

mod answer;
mod count;
mod feed;
mod honest;
mod kinds;
mod lie;
mod questions;
mod script;
mod serve;
mod wire;
mod world;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use pilotage_api::{GROUP, VERSION, keys};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::answer::{Answer, NUMBER, PADDING};
pub use self::count::Counts;
pub use self::lie::Lie;
pub use self::questions::Questions;
pub use self::script::Script;

use self::count::Counter;
use self::honest::Honest;
use self::kinds::Kind;
use self::serve::Shared;
use self::world::{Refusal, World};
use crate::access::{self, Access, Credential};
use crate::fault::Verb;
use crate::plane::certs::{self, Authority};
use crate::ports::Port;
use crate::tls;
use crate::wait::{WaitError, short};

/// A hostile server can't do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No port is free.
    #[error("no port for a hostile server")]
    Port(#[source] io::Error),
    /// It can't listen on its port.
    #[error("the hostile server can't listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No authority.
    #[error(transparent)]
    Certificate(#[from] certs::Error),
    /// No TLS.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// It has no objects like that.
    #[error("the hostile server can't store that: {0}")]
    Object(String),
    /// It has no such resource.
    #[error("the hostile server has no {0}")]
    Resource(String),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Object(refusal.message)
    }
}

/// A running hostile server. Dropping it closes everything.
pub struct HostileServer {
    shared: Arc<Shared>,
    access: Access,
    cluster_uid: String,
    /// The listener's; ends with `stop`, as the connections do.
    listening: TaskTracker,
    stop: CancellationToken,
    _port: Port,
}

impl std::fmt::Debug for HostileServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostileServer")
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}

impl HostileServer {
    /// Starts one that tells the truth; `name` is that of the cluster in its kubeconfig.
    pub async fn start(name: &str) -> Result<Self, Error> {
        Self::speaking(name, &[tls::HTTP1]).await
    }

    /// The same, which chooses HTTP/2 in the handshake if a client offers that, though it can't speak it.
    pub async fn preferring_http2(name: &str) -> Result<Self, Error> {
        Self::speaking(name, &[tls::HTTP2, tls::HTTP1]).await
    }

    async fn speaking(name: &str, protocols: &[&[u8]]) -> Result<Self, Error> {
        let authority = Authority::new(name)?;
        let acceptor = tls::acceptor(&authority, "hostile-server", protocols)?;
        let port = Port::reserve().map_err(Error::Port)?;
        let address = port.address();
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| Error::Listen { address, source })?;
        let token = format!("token-{}", crate::unique());
        let ca = (authority.certificate(), authority.certificate_der());
        let credential = Credential::Token(token.clone());
        let access = Access::new(name, &format!("https://{address}"), ca, credential);
        let world = Arc::new(World::new());
        let cluster_uid = world.uid();
        world.put(summary(Some(&cluster_uid)), false)?;
        let stop = CancellationToken::new();
        let (listening, connections) = (TaskTracker::new(), TaskTracker::new());
        // A closed tracker still takes tasks; it only lets others wait until there are none.
        listening.close();
        connections.close();
        let shared = Arc::new(Shared {
            honest: Honest { world, token },
            script: Mutex::default(),
            counter: Counter::default(),
            lies: AtomicU64::default(),
            sent: Arc::default(),
            accepted: AtomicU64::default(),
            connections,
            cut: Mutex::new(stop.child_token()),
        });
        let serving = serve::listen(listener, acceptor, Arc::clone(&shared));
        listening.spawn(stop.clone().run_until_cancelled_owned(serving));
        Ok(Self {
            shared,
            access,
            cluster_uid,
            listening,
            stop,
            _port: port,
        })
    }

    /// `https://127.0.0.1:…`
    pub fn url(&self) -> &str {
        self.access.server()
    }

    /// The one client that it knows.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A client of it, which tests themselves may use.
    pub fn client(&self) -> Result<Client, access::Error> {
        self.access.client()
    }

    /// Text of a kubeconfig that leads here, for a Secret.
    pub fn kubeconfig(&self) -> String {
        self.access.kubeconfig_yaml()
    }

    /// UID of the cluster that it says it is, unless told otherwise.
    pub fn cluster_uid(&self) -> &str {
        &self.cluster_uid
    }

    /// Says from now on that it is this cluster; `None`: it says nothing, as plain Admiralty.
    pub fn identify(&self, cluster_uid: Option<&str>) -> Result<(), Error> {
        self.put(summary(cluster_uid)).map(drop)
    }

    /// Lies like this about requests that come from now on, and no more as before.
    pub fn play(&self, script: Script) {
        let known = self.shared.script.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// Tells the truth from now on.
    pub fn tell_truth(&self) {
        self.play(Script::new());
    }

    /// Answers questions in this way from now on, also those that are open.
    pub fn answer_questions(&self, questions: Questions) {
        self.world().set_questions(questions);
    }

    /// Stores an object as it is, over the one of its name; what it lacks (UID, creation, version) it gets. Lists and
    /// watches that select it show it. Returns it as it is stored.
    pub fn put(&self, object: Value) -> Result<Value, Error> {
        Ok(self.world().put(object, false)?)
    }

    /// The same, and every list and watch of its kind shows it, whatever namespace and labels that asked for.
    pub fn put_everywhere(&self, object: Value) -> Result<Value, Error> {
        Ok(self.world().put(object, true)?)
    }

    /// Removes an object, finalizers or not; whether there was one.
    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> Result<bool, Error> {
        Ok(self.world().remove(kind(resource)?, namespace, name))
    }

    /// Tells all watches of a resource that are open, and those that resume, what didn't happen: an event of this type
    /// (`DELETED`, `ERROR`, anything) with this object, which gets a version if it has metadata without one.
    pub fn forge(&self, resource: &str, event: &str, object: Value) -> Result<(), Error> {
        self.world().forge(kind(resource)?, event, object);
        Ok(())
    }

    /// What it holds of a resource, such as `podchaperons`.
    pub fn objects(&self, resource: &str) -> Result<Vec<Value>, Error> {
        Ok(self.world().all(kind(resource)?))
    }

    /// Waits until it holds an object of a resource that passes; returns that.
    pub async fn holds(
        &self,
        resource: &str,
        pass: impl Fn(&Value) -> bool,
        limit: Duration,
    ) -> Result<Value, WaitError> {
        let what = format!("the condition of one of the {resource}");
        let pick = |all: Vec<Value>| all.into_iter().find(&pass);
        self.until(resource, what, pick, limit).await
    }

    /// Waits until it holds no object of a resource that passes.
    pub async fn lacks(
        &self,
        resource: &str,
        pass: impl Fn(&Value) -> bool,
        limit: Duration,
    ) -> Result<(), WaitError> {
        let what = format!("the end of some of the {resource}");
        let pick = |all: Vec<Value>| (!all.iter().any(&pass)).then_some(());
        self.until(resource, what, pick, limit).await
    }

    async fn until<T>(
        &self,
        resource: &str,
        what: String,
        pick: impl Fn(Vec<Value>) -> Option<T>,
        limit: Duration,
    ) -> Result<T, WaitError> {
        let mut changes = self.world().changes();
        let found = tokio::time::timeout(limit, async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = self.objects(resource).ok().and_then(&pick) {
                    return found;
                }
                // The sender lives in the world, which lives here.
                let _ = changes.changed().await;
            }
        });
        found.await.map_err(|_| WaitError {
            what,
            after: limit,
            last: short(self.objects(resource).unwrap_or_default().iter()),
            watch_error: None,
        })
    }

    /// How often it was asked to do this to a resource, such as `podchaperons`, or by a path, such as `/readyz`.
    pub fn count(&self, verb: Verb, what: &str) -> u64 {
        self.shared.counter.get(verb, what)
    }

    /// All that [`Self::count`] tells, with every change.
    pub fn counts(&self) -> watch::Receiver<Counts> {
        self.shared.counter.all()
    }

    /// Waits until it was asked so often; returns how often it was.
    pub async fn counted(
        &self,
        verb: Verb,
        what: &str,
        least: u64,
        limit: Duration,
    ) -> Result<u64, WaitError> {
        self.shared.counter.wait(verb, what, least, limit).await
    }

    /// Requests that it has lied about.
    pub fn lies(&self) -> u64 {
        self.shared.lies.load(Ordering::Relaxed)
    }

    /// Bytes of HTTP that it has sent. Some MiB of them may still be in buffers on their way.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.connections.len()
    }

    /// Connections that were ever opened, whether or not anything was said over them.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Ends all connections without a word; new ones are taken. A lie under way ends with its connection.
    pub fn cut_connections(&self) {
        let cut = self.shared.cut.lock();
        let mut cut = cut.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *cut, self.stop.child_token()).cancel();
    }

    /// Closes everything, and waits until it is.
    pub async fn stop(self) {
        self.stop.cancel();
        self.listening.wait().await;
        self.shared.connections.wait().await;
    }

    fn world(&self) -> &Arc<World> {
        &self.shared.honest.world
    }
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn kind(resource: &str) -> Result<&'static Kind, Error> {
    Kind::of_plural(resource).ok_or_else(|| Error::Resource(resource.to_owned()))
}

/// What an empty cluster of two large nodes tells of itself.
fn summary(cluster_uid: Option<&str>) -> Value {
    let amounts =
        |cpu: &str, memory: &str, pods: &str| json!({ "cpu": cpu, "memory": memory, "pods": pods });
    let all = amounts("64", "256Gi", "220");
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterSummary",
        "metadata": { "name": keys::CLUSTER_SUMMARY_NAME },
        "clusterUid": cluster_uid,
        "capacity": all,
        "allocatable": all,
        "free": all,
        "freeShapes": [{ "nodes": 2, "free": amounts("32", "128Gi", "110") }],
    })
}

#[cfg(test)]
mod tests;
