//! The kubelet of virtual nodes: what `kubectl logs`, `exec`, `attach`, `port-forward` and `cp` ask a pod's node for
//! comes from the pod's delegate, and so does what pods use (`metrics/resource`, `stats/summary`).
//!
//! ```text
//! API server ─ TLS (certificate) ─ who (caller, access) ─ what (route) ─ whose pod (delegate) ─ stream (server)
//!                                                                     target's API server ───────┘
//!                                                  └ which node's pods (usage): its metrics.k8s.io,
//!                                                    at most every few seconds
//! ```
//!
//! It answers as a kubelet does, and nobody whom a kubelet wouldn't: callers need the rights on the virtual node. It
//! may run in every replica, whether that leads or not; virtual nodes show the address of the one that leads. Nothing
//! is kept of what passes.

mod access;
mod answers;
mod authority;
mod caller;
mod certificate;
mod delegate;
mod ending;
mod forwarded;
#[cfg(test)]
mod fuzz;
mod headers;
mod metrics;
mod passing;
pub mod query;
pub mod rbac;
pub mod refusal;
pub mod route;
mod server;
mod slots;
mod told;
mod tunnel;
mod usage;

use std::sync::Arc;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Registry, Watch};
use pilotage_model::virtual_node::KubeletEndpoint;
use pilotage_runtime::caught::retried;
use pilotage_runtime::serve::{ServeError, ServeLimits, TlsServer};
use pilotage_runtime::throttle::Unthrottled;
use pilotage_runtime::tls::{Certificates, ClientAuthorities};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::metrics::KubeletMetrics;

use self::access::Gatekeeper;
use self::certificate::Issuer;
use self::server::Served;
use self::slots::Slots;
use self::told::Teller;
use self::usage::Usage;
use crate::args::KubeletArgs;

/// A kubelet server that listens and doesn't answer yet.
pub struct Kubelet {
    endpoint: KubeletEndpoint,
    server: TlsServer,
    certificates: Certificates,
    authorities: ClientAuthorities,
    issuer: Issuer,
    streams: usize,
}

/// What it works with.
pub struct KubeletWith {
    /// The source's own API server. Who asks for a stream is kept waiting by no other work.
    pub client: Unthrottled,
    /// The source's identity.
    pub cluster: ClusterUid,
    /// The source's targets.
    pub registry: Registry,
    /// All proxy pods of the source.
    pub proxies: Watch<Pod>,
    /// What it counts.
    pub metrics: KubeletMetrics,
}

impl Kubelet {
    /// Listens, if the flags ask for a kubelet server.
    pub fn bind(args: &KubeletArgs) -> BoxFuture<'_, Result<Option<Self>, ServeError>> {
        async move {
            let Some(address) = args.kubelet_address.clone() else {
                return Ok(None);
            };
            let (certificates, authorities) = (Certificates::new(), ClientAuthorities::new());
            // Each step of an answer has a limit of its own, and bodies aren't read.
            let limits = ServeLimits {
                request: None,
                ..ServeLimits::default()
            };
            let at = args.kubelet_listen;
            let server = TlsServer::bind_for(at, &certificates, &authorities, limits).await?;
            let signer = (!args.kubelet_self_signed).then(|| args.kubelet_signer.clone());
            let issuer = Issuer::new(address.clone(), signer);
            let port = server.local_addr().port();
            Ok(Some(Self {
                endpoint: KubeletEndpoint { address, port },
                server,
                certificates,
                authorities,
                issuer,
                streams: usize::from(args.kubelet_streams),
            }))
        }
        .boxed()
    }

    /// Where it is asked, for virtual nodes to show.
    pub fn endpoint(&self) -> &KubeletEndpoint {
        &self.endpoint
    }

    /// Answers until `shutdown`; what it needs for that is tried for again and again.
    pub fn run(self, with: KubeletWith, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
        let Self {
            endpoint,
            server,
            certificates,
            authorities,
            issuer,
            streams,
        } = self;
        let KubeletWith {
            client: Unthrottled(client),
            cluster,
            registry,
            proxies,
            metrics,
        } = with;
        tracing::info!(address = %endpoint.address, port = endpoint.port, "virtual nodes have a kubelet");
        let open = TaskTracker::new();
        let served = Arc::new(Served {
            gate: Gatekeeper::new(client.clone(), authorities.clone()),
            client: client.clone(),
            usage: Usage::new(cluster, registry.clone(), proxies.clone()),
            proxies,
            teller: Teller::new(client.clone()),
            registry,
            slots: Slots::new(streams),
            metrics,
            streams: open.clone(),
            shutdown: shutdown.clone(),
        });
        let router = Router::new().fallback(server::handle).with_state(served);
        let told = |panic: &str| tracing::error!(panic, "what a kubelet server needs panicked");
        let certified = retried(|| issuer.keep(client.clone(), certificates.clone()), told);
        let authorized = retried(
            || authority::follow(client.clone(), authorities.clone()),
            told,
        );
        let needed = async { tokio::join!(certified, authorized) };
        tokio::join!(
            server.serve(router, shutdown.clone()),
            shutdown.run_until_cancelled(needed),
        );
        open.close();
        // Each of them ends by the token; what hangs all the same ends with the process.
        let drained = timeout(ServeLimits::default().drain, open.wait()).await;
        if drained.is_err() {
            tracing::warn!(open = open.len(), "streams are cut");
        }
    }.boxed()
    }
}
