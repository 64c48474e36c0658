//! Binds pods by asking a port to write the Binding. Knows nothing of API servers.

use std::error::Error;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::names::NodeName;
use crate::plugin::{Bind, Bound, Plugin};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};

/// Writes Bindings; given by the driver.
pub trait Binder: Send + Sync + 'static {
    /// POSTs the Binding of the pod to the node, with the pod's UID, so that a namesake can't be bound.
    fn bind<'a>(
        &'a self,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>>;
}

/// Binds every pod through a [`Binder`].
pub struct DefaultBinder(Arc<dyn Binder>);

impl DefaultBinder {
    /// Binds through `binder`.
    pub const fn new(binder: Arc<dyn Binder>) -> Self {
        Self(binder)
    }
}

impl Plugin for DefaultBinder {
    fn name(&self) -> PluginName {
        "DefaultBinder"
    }
}

impl Bind for DefaultBinder {
    fn bind<'a>(
        &'a self,
        _state: &'a CycleState,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Verdict<Bound>> {
        let binding = self.0.bind(pod, node);
        Box::pin(async move { binding.await.map(|()| Bound::Done).map_err(Status::error) })
    }
}
