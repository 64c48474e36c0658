//! One process: logs, clients, leases, admin port, supervised tasks, and the order in which all of it ends.
//!
//! It knows no part but by name. A part's tasks end when the process is asked to; Leases and the admin port outlive
//! them, so that nobody takes over before the work has drained and probes see it drain.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use clap::Args;
use futures::future::BoxFuture;
use kube::{Client, Config};
use pilotage_api::keys;
use pilotage_runtime::admin::{AdminServer, Router};
use pilotage_runtime::args::{AdminArgs, ClientArgs, LeaseArgs, LogArgs, ThrottleArgs};
use pilotage_runtime::lease::{Elector, Leaders, Leadership, LeaseConfig, unique_identity};
use pilotage_runtime::otlp::{Service, TraceArgs, Tracer};
use pilotage_runtime::ready::Health;
use pilotage_runtime::shutdown::{DRAIN_LIMIT, UnixSignals, drain};
use pilotage_runtime::tasks::Tasks;
use pilotage_runtime::throttle::{Throttle, Unthrottled};
use pilotage_runtime::{client, logs, metrics};
use pilotage_sched_driver::publish::Recorder;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::part::Part;
use crate::version;

/// Flags that every process has.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProcessArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(flatten)]
    pub(crate) throttle: ThrottleArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// A process that is being put together.
pub(crate) struct Process {
    /// Work: parts and what belongs to them.
    pub(crate) tasks: Tasks,
    /// What must happen before the process is ready.
    pub(crate) health: Health,
    registry: Registry,
    leaders: Leaders,
    config: Config,
    /// What holds back requests of all clients, but for those that are made [without](Self::unthrottled).
    throttle: Option<Throttle>,
    signals: UnixSignals,
    /// Where the admin port is served.
    admin: Vec<SocketAddr>,
    /// What is served there besides.
    routes: Router,
    /// What outlives the parts.
    frame: Tasks,
}

impl Process {
    /// Sets up logs and signals, and finds the cluster to work for.
    pub(crate) async fn begin(name: &str, args: &ProcessArgs) -> Result<Self, Error> {
        logs::init(&args.log)?;
        let signals = UnixSignals::listen().map_err(Error::Signals)?;
        tracing::info!(
            process = name,
            version = env!("CARGO_PKG_VERSION"),
            "pilotage starts"
        );
        let config = client::load_config(&args.client).await?;
        Ok(Self {
            tasks: Tasks::new(CancellationToken::new()),
            frame: Tasks::new(CancellationToken::new()),
            health: Health::new(),
            registry: metrics::root(name),
            leaders: Leaders::default(),
            config,
            throttle: args.throttle.to_throttle(),
            signals,
            admin: vec![args.admin.admin_addr],
            routes: Router::new(),
        })
    }

    /// A client of its own for a component, which its User-Agent names.
    pub(crate) fn client(&self, component: &str) -> Result<Client, Error> {
        let Unthrottled(client) = self.unthrottled(component)?;
        Ok(match &self.throttle {
            Some(throttle) => throttle.client(client),
            None => client,
        })
    }

    /// Whether its requests may have to wait for each other.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttle.is_some()
    }

    /// One whose requests don't count.
    pub(crate) fn unthrottled(&self, component: &str) -> Result<Unthrottled, Error> {
        let client = client::from_config(self.config.clone(), component)?;
        Ok(Unthrottled(client))
    }

    /// One for streams, which takes no silence for a dead connection.
    pub(crate) fn streams_client(&self, component: &str) -> Result<Client, Error> {
        Ok(client::for_streams(self.config.clone(), component)?)
    }

    /// Serves the admin port at another address, too.
    pub(crate) fn also_at(&mut self, address: SocketAddr) {
        if !self.admin.contains(&address) {
            self.admin.push(address);
        }
    }

    /// Serves these routes at the admin port, too.
    pub(crate) fn also_serves(&mut self, routes: Router) {
        self.routes = std::mem::take(&mut self.routes).merge(routes);
    }

    /// Where a part registers its metrics. They carry its name, since two parts of one process are schedulers.
    pub(crate) fn metrics(&mut self, part: Part) -> &mut Registry {
        self.registry
            .sub_registry_with_label(("part".into(), part.name().into()))
    }

    /// The namespace where this process runs.
    pub(crate) fn namespace(&self) -> &str {
        &self.config.default_namespace
    }

    /// The token on which work ends.
    pub(crate) fn token(&self) -> CancellationToken {
        self.tasks.token().clone()
    }

    /// Adds a component. It is polled once here, so that the gates which it takes before its first wait are there
    /// before anybody asks whether the process is ready.
    pub(crate) fn component<E>(
        &mut self,
        name: impl Into<String>,
        mut running: BoxFuture<'static, Result<(), E>>,
    ) where
        E: Into<Box<dyn StdError + Send + Sync>> + Send + 'static,
    {
        // Whoever runs it polls it again, so nobody needs waking now.
        let mut context = Context::from_waker(Waker::noop());
        match running.as_mut().poll(&mut context) {
            Poll::Pending => self.tasks.essential(name, running),
            Poll::Ready(ended) => self.tasks.essential(name, std::future::ready(ended)),
        }
    }

    /// A recorder of events, whose writer outlives the parts.
    pub(crate) fn recorder(&mut self, client: Client) -> Recorder {
        let (recorder, writer) = Recorder::new(client, unique_identity());
        let token = self.frame.token().clone();
        self.frame.essential("event writer", async move {
            writer.run(token).await;
            Ok::<_, Infallible>(())
        });
        recorder
    }

    /// Where a part's spans go, if pods are traced. What sends them outlives the parts.
    pub(crate) fn tracer(&mut self, part: Part, args: &TraceArgs) -> Option<Tracer> {
        let endpoint = args.endpoint()?.clone();
        let service = Service {
            name: part.object_name(),
            instance: unique_identity(),
        };
        let registry = self.metrics(part);
        let (tracer, exporter) = Tracer::new(endpoint, args.trace_ratio, service, registry);
        let token = self.frame.token().clone();
        self.frame
            .essential(format!("traces of the {part}"), async move {
                exporter.run(token).await;
                Ok::<_, Infallible>(())
            });
        Some(tracer)
    }

    /// Takes part in the election for `lease`; without leader election this process always leads.
    pub(crate) fn leadership(
        &mut self,
        args: &LeaseArgs,
        lease: &str,
    ) -> Result<Leadership, Error> {
        let config = args.to_config(lease, self.namespace())?;
        self.elected(config)
    }

    /// Takes part in the election for this Lease; without one this process always leads.
    pub(crate) fn elected(&mut self, config: Option<LeaseConfig>) -> Result<Leadership, Error> {
        let Some(config) = config else {
            return Ok(Leadership::always());
        };
        // Who is asked for his version has no other place where everybody may look.
        let config = config.annotated(keys::RUNNING_VERSION, env!("CARGO_PKG_VERSION"));
        let lease = config.name().to_owned();
        // Whoever waits too long for a turn would lose it.
        let Unthrottled(client) = self.unthrottled("leader-election")?;
        let (elector, leadership) = Elector::new(client, config, unique_identity());
        self.leaders.add(&lease, leadership.clone());
        let token = self.frame.token().clone();
        self.frame
            .essential(format!("lease {lease}"), elector.run(token));
        Ok(leadership)
    }

    /// Runs until a signal or the first failure, then ends everything in order.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let Self {
            tasks,
            health,
            mut registry,
            leaders,
            config,
            throttle: _,
            signals,
            admin,
            routes,
            mut frame,
        } = self;
        let asking = client::from_config(config, "version")?;
        let work = tasks.token().clone();
        let framing = frame.token().clone();
        registry.register_collector(Box::new(leaders));
        let registry = Arc::new(registry);
        for address in admin {
            let server = AdminServer::bind(address, health.clone(), registry.clone()).await?;
            let server = server.with(routes.clone());
            frame.essential(
                format!("admin server {address}"),
                server.serve(framing.clone()),
            );
        }
        // A lost lease or a dead admin port ends the work, too.
        let frame = tokio::spawn({
            let work = work.clone();
            async move {
                let ended = frame.join().await;
                work.cancel();
                ended
            }
        });
        let draining = tokio::spawn({
            let (work, health) = (work.clone(), health.clone());
            async move {
                work.cancelled().await;
                health.drain();
            }
        });
        let ready = tokio::spawn(async move {
            health.ready().await;
            tracing::info!("ready");
        });
        let telling = tokio::spawn(version::tell(asking));
        let worked = drain(tasks.join(), &work, signals, DRAIN_LIMIT).await;
        work.cancel();
        framing.cancel();
        ready.abort();
        telling.abort();
        draining.abort();
        // Giving back a Lease is one bounded request, and the port waits for open requests for some seconds at most.
        let framed = frame.await;
        worked??;
        match framed {
            Ok(framed) => framed?,
            Err(panic) => tracing::error!(%panic, "the frame of the process panicked"),
        }
        tracing::info!("pilotage ends");
        Ok(())
    }
}
