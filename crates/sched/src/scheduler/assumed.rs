//! Owns a pod that has a node and is on its way to be bound: what a binding task needs, apart from the
//! scheduler itself. Runs `PreBind` and Bind, whose panics are errors; knows nothing of the API server, which is behind
//! those plugins.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{BoxFuture, Either, select, try_join_all};

use crate::cancel::Cancellation;
use crate::cycle::score_failure;
use crate::guard::{guarded, guarded_async};
use crate::names::{NodeName, PodUid};
use crate::plugin::{Bound, PreBind, Preflight};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::queue::QueuedPod;
use crate::scheduler::failure::EventNote;
use crate::state::CycleState;
use crate::status::{Status, Verdict};

/// A pod assumed on a node: its room is taken, Reserve and Permit have run.
///
/// It must be given back to the scheduler, by [`crate::Scheduler::bound`] or
/// [`crate::Scheduler::binding_failed`]; until then the room stays taken.
#[must_use = "give it back with Scheduler::bound or Scheduler::binding_failed"]
#[derive(Debug)]
pub struct Assumed {
    pub(crate) queued: QueuedPod,
    pub(crate) node: NodeName,
    pub(crate) profile: Arc<Profile>,
    pub(crate) state: CycleState,
    pub(crate) waits: bool,
    pub(crate) evaluated: usize,
    pub(crate) feasible: usize,
    // What each PreBind plugin said in `preflight`.
    pub(crate) preflight: Option<Vec<Preflight>>,
    pub(crate) cancellation: Cancellation,
}

impl Assumed {
    /// The pod, as it was when it was placed.
    pub const fn pod(&self) -> &Arc<PodInfo> {
        &self.queued.pod
    }

    /// Its UID.
    pub fn uid(&self) -> &PodUid {
        &self.queued.pod.uid
    }

    /// The node.
    pub const fn node(&self) -> &NodeName {
        &self.node
    }

    /// The profile that placed it.
    pub const fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// How it fared in the queue.
    pub const fn queued(&self) -> &QueuedPod {
        &self.queued
    }

    /// How many nodes Filter looked at, and how many of them would have done.
    pub const fn evaluated_and_feasible(&self) -> (usize, usize) {
        (self.evaluated, self.feasible)
    }

    /// Whether it is held at Permit: ask [`crate::Scheduler::permit_state`] before binding.
    pub const fn waits(&self) -> bool {
        self.waits
    }

    /// Asks the `PreBind` plugins what they will do; whether any will act.
    ///
    /// If so, or if the pod [waits](Self::waits), binding takes time, and `status.nominatedNodeName` should be
    /// written first, so that others see what is coming.
    pub fn preflight(&mut self) -> Verdict<bool> {
        let mut plans = Vec::with_capacity(self.profile.pre_binds().len());
        for plugin in self.profile.pre_binds() {
            let plan = guarded(plugin.name(), || {
                plugin.preflight(&self.state, &self.queued.pod, &self.node)
            });
            // It is too late to reject.
            plans.push(plan.map_err(|status| score_failure(status, plugin.name()))?);
        }
        let acts = plans.iter().any(|plan| *plan != Preflight::Skip);
        self.preflight = Some(plans);
        Ok(acts)
    }

    /// Runs `PreBind` and Bind. Call it after [`crate::Scheduler::start_binding`], holding no lock.
    pub async fn bind(&mut self) -> Verdict {
        if self.preflight.is_none() {
            self.preflight()?;
        }
        self.pre_bind().await?;
        self.run_bind().await
    }

    /// Runs Bind alone, for a driver that has run [`Assumed::pre_bind`] itself.
    pub async fn run_bind(&self) -> Verdict {
        self.cancellation.begin_bind()?;
        for plugin in self.profile.binds() {
            let name = plugin.name();
            // The call itself may panic, too.
            let work = async { plugin.bind(&self.state, &self.queued.pod, &self.node).await };
            let bound = guarded_async(name, work).await;
            match bound.map_err(|status| status.by(name))? {
                Bound::Done => return Ok(()),
                Bound::Skip => {}
            }
        }
        let pod = &self.queued.pod.key;
        Err(Status::error(format!(
            "no Bind plugin of the profile took pod {pod}"
        )))
    }

    /// Runs `PreBind` plugins in order; neighbours that all allow it run together. Part of [`Assumed::bind`]; needs
    /// [`Assumed::preflight`] first. Ends early if a plugin has the pod [give its place up](crate::Effects::evict):
    /// what plugins were doing is dropped.
    pub async fn pre_bind(&self) -> Verdict {
        let work = pin!(self.run_pre_binds());
        let cancelled = pin!(self.cancellation.cancelled());
        match select(cancelled, work).await {
            Either::Left((status, _)) => Err(status),
            Either::Right((verdict, _)) => verdict,
        }
    }

    async fn run_pre_binds(&self) -> Verdict {
        let plans = self.preflight.iter().flatten();
        let mut group: Vec<&Arc<dyn PreBind>> = Vec::new();
        for (plugin, plan) in self.profile.pre_binds().iter().zip(plans) {
            match plan {
                Preflight::Skip => {}
                Preflight::Act { parallel: true } => group.push(plugin),
                Preflight::Act { parallel: false } => {
                    self.run_together(&std::mem::take(&mut group)).await?;
                    self.run_together(&[plugin]).await?;
                }
            }
        }
        self.run_together(&group).await
    }

    fn run_together<'a>(&'a self, plugins: &[&'a Arc<dyn PreBind>]) -> BoxFuture<'a, Verdict> {
        let running = plugins.iter().map(|plugin| {
            let plugin = *plugin;
            let name = plugin.name();
            let work = async move {
                let work = plugin.pre_bind(&self.state, &self.queued.pod, &self.node);
                work.await.map_err(|status| status.by(name))
            };
            guarded_async(name, work)
        });
        let all = try_join_all(running.collect::<Vec<_>>());
        Box::pin(async move { all.await.map(|_| ()) })
    }

    /// The event for a pod that was bound.
    pub fn scheduled_event(&self) -> EventNote {
        let note = format!(
            "Successfully assigned {} to {}",
            self.queued.pod.key, self.node
        );
        EventNote {
            warning: false,
            reason: "Scheduled",
            action: "Binding",
            note,
        }
    }
}
