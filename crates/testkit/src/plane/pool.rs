//! Planes that a test of this process has stopped or dropped, and the next one takes: etcd and API server go on,
//! without what the test left in them. A start costs several seconds of a core, most of what many tests cost. It knows
//! nothing of how the parts are started.
//!
//! Only planes whose API server is as by default, but for its audit log, are used again, if nobody struck it or etcd,
//! or changed which kinds it serves; and only if asked for, by the builder or by [`VARIABLE`]: a demo wants everything
//! to go with it.

use std::env;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use serde_json::Value;
use tokio::sync::Notify;

use super::certs::Authority;
use super::snapshot::Snapshot;
use super::{Running, audit, etcd, policies};
use crate::access::Access;

/// The variable of the environment that has planes used again, by whatever value.
pub const VARIABLE: &str = "PILOTAGE_TESTKIT_REUSE";

/// Kinds that an API server goes by itself; it knows them by watches.
const LOOKED_AT: [&str; 12] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/serviceaccounts",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
];

static POOL: Mutex<Pool> = Mutex::new(Pool {
    idle: Vec::new(),
    returning: Vec::new(),
});
/// Somebody returned a core, or didn't.
static RETURNED: Notify = Notify::const_new();

#[derive(Debug)]
struct Pool {
    idle: Vec<Core>,
    /// Of planes that stop just now.
    returning: Vec<Kind>,
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// etcd and API server of a plane, with the definitions.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) running: Running,
    pub(super) authority: Arc<Authority>,
    pub(super) etcd: SocketAddr,
    pub(super) api: SocketAddr,
    /// `None`: it isn't used again.
    pub(super) again: Option<Again>,
}

/// What it takes to use one again.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) kind: Kind,
    pub(super) unused: Snapshot,
}

/// What planes must have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kind {
    pub(super) kubernetes: Option<String>,
    pub(super) json_storage: bool,
    pub(super) audit: audit::Policy,
    pub(super) crds: Vec<Value>,
}

impl Kind {
    /// Whether a core of this kind does for who wants another: its server may log more.
    fn serves(&self, wanted: &Self) -> bool {
        self.kubernetes == wanted.kubernetes
            && self.json_storage == wanted.json_storage
            && self.audit.covers(&wanted.audit)
            && self.crds == wanted.crds
    }
}

/// Whether planes are used again.
pub(super) fn is_wanted() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
}

/// While it lives, a core of this kind [ends](Core::end), and is about to wait here. A test ends before its planes have
/// stopped, and the next one would start new ones.
#[derive(Debug)]
pub(super) struct Returns(Kind);

impl Returns {
    /// `None` if this core isn't used again.
    pub(super) fn announce(core: &Core) -> Option<Self> {
        let kind = core.again.as_ref()?.kind.clone();
        pool().returning.push(kind.clone());
        Some(Self(kind))
    }
}

impl Drop for Returns {
    fn drop(&mut self) {
        let mut pool = pool();
        if let Some(index) = pool.returning.iter().position(|kind| *kind == self.0) {
            pool.returning.swap_remove(index);
        }
        RETURNED.notify_waiters();
    }
}

/// A core that waits here or is about to, and does for who wants this kind.
pub(super) async fn take(wanted: &Kind) -> Option<Core> {
    loop {
        let returned = RETURNED.notified();
        {
            let mut pool = pool();
            if let Some(core) = pool.take(wanted) {
                return Some(core);
            }
            if !pool.returning.iter().any(|kind| kind.serves(wanted)) {
                return None;
            }
        }
        returned.await;
    }
}

/// Any core that waits here. Who starts a new one stops it first: a user has 128 inotify instances, of which each core
/// keeps some, and so there are never more than were once needed at the same time.
pub(super) fn take_any() -> Option<Core> {
    let mut pool = pool();
    (!pool.idle.is_empty()).then(|| pool.idle.swap_remove(0))
}

impl Pool {
    /// One that serves this kind; one of the very kind, if there is one.
    fn take(&mut self, wanted: &Kind) -> Option<Core> {
        let position = |fits: &dyn Fn(&Kind) -> bool| {
            let mut kinds = self.idle.iter().map(|core| core.again.as_ref());
            kinds.position(|again| again.is_some_and(|again| fits(&again.kind)))
        };
        let index =
            position(&|kind| kind == wanted).or_else(|| position(&|kind| kind.serves(wanted)))?;
        Some(self.idle.swap_remove(index))
    }
}

impl Core {
    /// Stops all other parts of its plane. The core waits for whoever wants one of its kind, or stops, too.
    pub(super) async fn end(mut self) {
        self.running.stop_rest().await;
        if self.again.is_some() {
            pool().idle.push(self);
            RETURNED.notify_waiters();
        } else {
            self.running.stop().await;
        }
    }

    /// Takes away what the last user left. An error says why that can't be done.
    pub(super) async fn clean(&self, admin: &Access) -> Result<(), String> {
        let again = self.again.as_ref().ok_or("nobody knows how it was")?;
        let gone = again.unused.restore(self.etcd).await?;
        self.running.run.remove_data_but(etcd::DATA);
        // A list waits until the server has seen what was written before.
        let client = admin.client().map_err(|error| error.to_string())?;
        let looks = LOOKED_AT.map(|path| {
            let client = client.clone();
            async move {
                let request = http::Request::get(format!("{path}?limit=1")).body(Vec::new());
                let request = request.map_err(|error| error.to_string())?;
                let answer = client.request_text(request).await;
                answer.map(drop).map_err(|error| error.to_string())
            }
        });
        try_join_all(looks).await?;
        if gone.has_policies {
            policies::out_of_force(&client).await?;
        }
        Ok(())
    }
}
