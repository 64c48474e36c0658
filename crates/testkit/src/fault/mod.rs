//! A proxy in front of one API server that breaks what passes through it, as a test says while it runs.
//!
//! Who goes through it is a matter of kubeconfigs: [`FaultProxy::access`] gives one and the same user by another
//! address. The line of each connection can be cut, late, slow, or a black hole ([`Mode`]); single requests can lose
//! their reply or be held back until they land late; watches can expire as they do on a real API server, so that their
//! clients have to list again.
//!
//! ```no_run
//! use pilotage_testkit::fault::{Calls, FaultProxy, Mode, Verb};
//! # async fn example(plane: &pilotage_testkit::ControlPlane) -> Result<(), Box<dyn std::error::Error>> {
//! let proxy = FaultProxy::start(plane).await?;
//! let user = plane.service_account_access("default", "somebody").await?;
//! let client = proxy.access(&user)?.client()?;
//! // … whoever uses `client` can be cut off:
//! proxy.set(Mode::BlackHole).await?;
//! proxy.set(Mode::Pass).await?;
//! // … or be left in doubt about a write:
//! let lost = proxy.lose_reply(Calls::of(Verb::Create, "pods/binding"));
//! assert_eq!(lost.caught().await, Some(201));
//! # Ok(())
//! # }
//! ```
//!
//! It must read requests to know watches and to hold single calls, so TLS ends here: with a serving certificate of the
//! plane's own CA, so that clients notice nothing. **Bearer tokens are passed on; client certificates can't be**, since
//! only their owner has the key. HTTP/1.1 and HTTP/2 both pass, streaming in both directions, and so do upgraded
//! connections (exec, attach, port-forward), to which only the mode of the line applies.
//!
//! Every task of a proxy ends when it is stopped or dropped. It lives in the runtime that it was started in.

mod call;
mod connection;
mod link;
mod listen;
mod rules;
mod tls;
mod upgrade;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::{mpsc, oneshot, watch as cell};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::call::{Call, Calls, Verb};
pub use self::link::Mode;
pub use self::rules::{Held, LostReply, Times};
pub(crate) use self::tls::Connectors;

use self::connection::Wiring;
use self::listen::{Command, Listening};
use self::rules::Rules;
use crate::access::Access;
use crate::plane::ControlPlane;
use crate::ports::Port;

/// A fault proxy can't do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No port is free.
    #[error("no port for a fault proxy")]
    Port(#[source] io::Error),
    /// It can't listen on its port.
    #[error("the fault proxy can't listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No TLS.
    #[error(transparent)]
    Tls(#[from] crate::tls::Error),
    /// The API server has no address that can be forwarded to.
    #[error("{0} is no https://address:port")]
    Server(String),
    /// The user's credential can't be passed on.
    #[error(
        "a client certificate can't be passed on by a proxy that ends TLS: use a service account's token"
    )]
    ClientCertificate,
    /// Its task is gone, because its runtime is.
    #[error("the fault proxy has ended")]
    Ended,
}

/// Answers some requests in place of the API server, such as those for a subresource that it doesn't have.
pub trait Answer: Send + Sync {
    /// Whether it answers these.
    fn takes(&self, call: &Call) -> bool;

    /// Its answer.
    fn answer(&self, call: &Call, request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>>;
}

/// Answers nothing.
struct Nobody;

impl Answer for Nobody {
    fn takes(&self, _: &Call) -> bool {
        false
    }

    fn answer(&self, _: &Call, _: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> {
        Box::pin(std::future::pending())
    }
}

/// A running fault proxy. Dropping it closes everything.
#[derive(Debug)]
pub struct FaultProxy {
    port: Port,
    mode: cell::Receiver<Mode>,
    rules: Arc<Rules>,
    commands: mpsc::UnboundedSender<Command>,
    connections: TaskTracker,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl FaultProxy {
    /// Starts one in front of a plane's API server; everything passes.
    pub async fn start(plane: &ControlPlane) -> Result<Self, Error> {
        Self::start_with(plane, None::<Nobody>).await
    }

    /// The same, with somebody who answers some requests in its place.
    pub async fn start_with(
        plane: &ControlPlane,
        answer: Option<impl Answer + 'static>,
    ) -> Result<Self, Error> {
        let bad_server = || Error::Server(plane.url().to_owned());
        let server = plane
            .url()
            .strip_prefix("https://")
            .ok_or_else(bad_server)?;
        let server: SocketAddr = server.parse().map_err(|_| bad_server())?;
        let port = Port::reserve().map_err(Error::Port)?;
        let (mode_sender, mode) = cell::channel(Mode::Pass);
        let rules = Arc::<Rules>::default();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let connections = TaskTracker::new();
        // A closed tracker still takes tasks; it only lets others wait until there are none.
        tasks.close();
        connections.close();
        let wiring = Wiring {
            acceptor: crate::tls::acceptor(
                plane.authority(),
                "fault-proxy",
                &[tls::HTTP2, tls::HTTP1],
            )?,
            connectors: tls::Connectors::new(plane.authority())?,
            server,
            rules: Arc::clone(&rules),
            answer: answer.map(|answer| Box::new(answer) as Box<dyn Answer>),
            mode: mode.clone(),
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        let address = port.address();
        let listening =
            Listening::bind(address, Arc::new(wiring), mode_sender, connections.clone())
                .await
                .map_err(|source| Error::Listen { address, source })?;
        let (commands, inbox) = mpsc::unbounded_channel();
        tasks.spawn(listening.run(inbox));
        Ok(Self {
            port,
            mode,
            rules,
            commands,
            connections,
            stop,
            tasks,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// `https://127.0.0.1:…`
    pub fn url(&self) -> String {
        format!("https://{}", self.port.address())
    }

    /// The same user through this proxy. Fails for users by client certificate (see the module).
    pub fn access(&self, user: &Access) -> Result<Access, Error> {
        if user.is_by_certificate() {
            return Err(Error::ClientCertificate);
        }
        Ok(user.via(&self.url()))
    }

    /// How its lines behave now.
    pub fn mode(&self) -> Mode {
        *self.mode.borrow()
    }

    /// Changes how its lines behave. When this returns, it is so: nothing is under way on a line that was cut, and
    /// whatever a black hole swallows from now on stays unseen.
    pub async fn set(&self, mode: Mode) -> Result<(), Error> {
        let (done, doing) = oneshot::channel();
        let command = Command { mode, done };
        self.commands.send(command).map_err(|_| Error::Ended)?;
        doing
            .await
            .map_err(|_| Error::Ended)?
            .map_err(|source| Error::Listen {
                address: self.port.address(),
                source,
            })
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Watches under way now.
    pub fn watches(&self) -> usize {
        self.rules.watches()
    }

    /// Ends each watch under way of these with 410 Expired; returns how many those were.
    pub fn expire_watches(&self, calls: &Calls) -> usize {
        self.rules.expire(calls)
    }

    /// Answers new watches of these that go on from a resource version with 410 Expired. Those that begin anew pass.
    pub fn refuse_watches(&self, calls: Calls, times: Times) {
        self.rules.refuse_watches(calls, times);
    }

    /// Takes back every [`Self::refuse_watches`].
    pub fn accept_watches(&self) {
        self.rules.accept_watches();
    }

    /// The next of these requests goes through, and its connection is closed before the reply: its sender can't know
    /// how it ended.
    pub fn lose_reply(&self, calls: Calls) -> LostReply {
        self.rules.lose_reply(calls)
    }

    /// The next of these requests is held back until it is released, and lands then even if its sender has given up.
    pub fn hold(&self, calls: Calls) -> Held {
        self.rules.hold(calls)
    }

    /// Closes everything, and waits until it is.
    pub async fn stop(self) {
        self.stop.cancel();
        self.connections.wait().await;
        self.tasks.wait().await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
