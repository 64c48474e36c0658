//! Binds a proxy pod: hands the cycle's choice to the state machine and waits until the delegate is bound.

use std::sync::Arc;

use futures::future::BoxFuture;
use pilotage_sched::{
    Bind, Bound, CycleState, NodeName, Plugin, PluginName, PodInfo, Status, Verdict,
};
use thiserror::Error;

/// Why a choice couldn't be carried out. The pod is tried again.
#[derive(Debug, Error)]
pub enum GrantFailure {
    /// The choice is void.
    #[error("the choice of {node} failed: {reason}")]
    Failed {
        /// The chosen virtual node.
        node: String,
        /// Why.
        reason: String,
    },
    /// Nobody carries out choices any more: the process is ending.
    #[error("the process is ending")]
    Ending,
}

/// Carries out a choice: record, grant, wait for the delegate, bind the proxy.
pub trait Grants: Send + Sync + 'static {
    /// Ends when the proxy pod with this UID is bound to `node`, or can't be.
    fn grant<'a>(&'a self, uid: &'a str, node: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>>;
}

/// The Bind plugin over a [`Grants`] port.
pub struct GrantBind {
    port: Arc<dyn Grants>,
}

impl GrantBind {
    /// Binds through this port.
    pub fn new(port: Arc<dyn Grants>) -> Self {
        Self { port }
    }
}

impl Plugin for GrantBind {
    fn name(&self) -> PluginName {
        "GrantBind"
    }
}

impl Bind for GrantBind {
    fn bind<'a>(
        &'a self,
        _: &'a CycleState,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Verdict<Bound>> {
        Box::pin(async move {
            match self.port.grant(&pod.uid, node).await {
                Ok(()) => Ok(Bound::Done),
                Err(failure) => Err(Status::unschedulable(failure.to_string())),
            }
        })
    }
}
