//! Planes that a test of this process has stopped and the next one takes: etcd and API server go on, without what the
//! test left in them. A start costs several seconds of a core, most of what many tests cost. It knows nothing of how
//! the parts are started.
//!
//! Only planes whose API server is as by default, but for its audit log, are used again, if nobody struck it or etcd,
//! or changed which kinds it serves; and only if asked for, by the builder or by [`VARIABLE`]: a demo wants everything
//! to go with it.

use std::env;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::try_join_all;
use serde_json::Value;

use super::certs::Authority;
use super::snapshot::Snapshot;
use super::{Running, audit, etcd};
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

static IDLE: Mutex<Vec<Core>> = Mutex::new(Vec::new());

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

/// Keeps a core for whoever wants one of its kind, or gives it back: it can't be used again.
pub(super) fn put(core: Core) -> Option<Core> {
    if core.again.is_none() || core.running.was_struck() {
        return Some(core);
    }
    IDLE.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(core);
    None
}

/// A core that waits here and does for who wants this kind; one of the very kind, if there is one.
pub(super) fn take(wanted: &Kind) -> Option<Core> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let position = |fits: &dyn Fn(&Kind) -> bool| {
        let mut kinds = idle.iter().map(|core| core.again.as_ref());
        kinds.position(|again| again.is_some_and(|again| fits(&again.kind)))
    };
    let index =
        position(&|kind| kind == wanted).or_else(|| position(&|kind| kind.serves(wanted)))?;
    Some(idle.swap_remove(index))
}

/// Any core that waits here. Who starts a new one stops it first: a user has 128 inotify instances, of which each core
/// keeps some, and so there are never more than were once needed at the same time.
pub(super) fn take_any() -> Option<Core> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    (!idle.is_empty()).then(|| idle.swap_remove(0))
}

impl Core {
    /// Takes away what the last user left. An error says why that can't be done.
    pub(super) async fn clean(&self, admin: &Access) -> Result<(), String> {
        let again = self.again.as_ref().ok_or("nobody knows how it was")?;
        again.unused.restore(self.etcd).await?;
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
        try_join_all(looks).await.map(drop)
    }
}
