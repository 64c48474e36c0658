//! What others may ask of a running driver, and tell it.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_sched::{
    AnyObject, Coming, EvaluateError, Evaluation, Event, Gate, Place, PluginName, PodInfo, PodUid,
    Reason, Rechecked,
};

use crate::driver::Inner;
use crate::publish::{EventType, Occurrence, Recorder, Regarding};

/// A handle to the driver; clones are cheap. Nothing here waits or does I/O.
#[derive(Clone)]
pub struct DriverHandle {
    pub(crate) inner: Arc<Inner>,
}

impl DriverHandle {
    /// Tries a queued pod as soon as possible: runs `PreEnqueue` and skips backoff, wherever it waits.
    /// Where it is now; `None` if it isn't in the queue. A pod that is being tried goes to the active
    /// queue if it comes back.
    pub fn activate(&self, pod: &PodUid) -> Option<Place> {
        self.inner.core.with(|scheduler, _| scheduler.activate(pod))
    }

    /// Lets a pod that is held at Permit pass `plugin`. `false` if that plugin doesn't hold it.
    pub fn allow(&self, pod: &PodUid, plugin: PluginName) -> bool {
        self.inner
            .core
            .with(|scheduler, _| scheduler.allow(pod, plugin))
    }

    /// Rejects a pod that is held at Permit, in `plugin`'s name. `false` if it isn't held.
    pub fn reject(&self, pod: &PodUid, plugin: PluginName, reason: impl Into<Reason>) -> bool {
        self.inner
            .core
            .with(|scheduler, _| scheduler.reject(pod, plugin, reason))
    }

    /// A pod expects no room any more that evictions make or could make for it.
    pub fn give_up_room(&self, pod: &PodUid) {
        self.inner
            .core
            .with(|scheduler, now| scheduler.give_up_room(pod, now));
    }

    /// Something happened that plugins registered for under this name; how many waiting pods it may help.
    pub fn custom_event(&self, name: &'static str, object: Option<AnyObject>) -> usize {
        self.inner
            .core
            .with(|scheduler, now| scheduler.custom_event(name, object, now))
    }

    /// Something happened to an object that the driver doesn't watch; how many waiting pods it may help.
    pub fn event(&self, event: &Event) -> usize {
        self.inner
            .core
            .with(|scheduler, now| scheduler.event(event, now))
    }

    /// Whether the node that is held for an assumed pod still does, on the newest state and as if the
    /// pod itself weren't there.
    pub fn recheck(&self, pod: &PodUid) -> Rechecked {
        self.inner.core.ask(|scheduler| scheduler.recheck(pod))
    }

    /// Filter and score of all nodes for a pod, taking nothing; scores count what is `coming` as taken.
    pub fn evaluate(
        &self,
        profile: &str,
        pod: &PodInfo,
        coming: Arc<Coming>,
    ) -> Result<Evaluation, EvaluateError> {
        self.inner
            .core
            .ask(|scheduler| scheduler.evaluate(profile, pod, coming))
    }

    /// The same as it would be if pods that are expected on nodes were there; `None` if that changes nothing for the
    /// pod.
    pub fn evaluate_expecting<'a>(
        &self,
        profile: &str,
        pod: &PodInfo,
        expected: impl IntoIterator<Item = (&'a str, &'a Arc<PodInfo>)>,
    ) -> Result<Option<Evaluation>, EvaluateError> {
        self.inner
            .core
            .ask(|scheduler| scheduler.evaluate_expecting(profile, pod, expected))
    }

    /// Whether a node is held for the pod, which isn't seen bound yet.
    pub fn is_assumed(&self, pod: &PodUid) -> bool {
        self.inner.core.ask(|scheduler| scheduler.is_assumed(pod))
    }

    /// Where a pod is in the queue; `None` if it isn't there.
    pub fn place(&self, pod: &PodUid) -> Option<Place> {
        self.inner.core.ask(|scheduler| scheduler.place(pod))
    }

    /// What keeps a pod from being tried at all.
    pub fn gate(&self, pod: &PodUid) -> Option<Gate> {
        self.inner
            .core
            .ask(|scheduler| scheduler.gate(pod).cloned())
    }

    /// A pod of ours without a node, as last seen.
    pub fn pending_pod(&self, pod: &PodUid) -> Option<Arc<PodInfo>> {
        self.inner
            .core
            .ask(|scheduler| scheduler.pending_pod(pod).cloned())
    }

    /// Records an event about a pod in the name of its scheduler. Repeats are counted, not written.
    pub fn record(
        &self,
        pod: &Pod,
        type_: EventType,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let controller = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.scheduler_name.as_deref());
        self.inner.recorder.record(Occurrence {
            regarding: Regarding::pod(pod),
            type_,
            reason,
            action,
            note,
            controller: controller.unwrap_or("default-scheduler").into(),
        });
    }

    /// The event recorder, for events about other objects.
    pub fn recorder(&self) -> &Recorder {
        &self.inner.recorder
    }
}

impl fmt::Debug for DriverHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DriverHandle")
    }
}
