//! Owns word of panics: each is counted, logged, and told on the object that it is about. It must not know what
//! panicked.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_runtime::caught::{PANICKED, note};
use pilotage_sched::{Mishap, PodInfo};

use crate::metrics::Metrics;
use crate::publish::{EventType, Occurrence, Regarding, Warnings};

/// Where panics are told.
pub(crate) struct Mistakes {
    warnings: Warnings,
    metrics: Metrics,
}

impl Mistakes {
    pub(crate) fn new(warnings: Warnings, metrics: Metrics) -> Self {
        Self { warnings, metrics }
    }

    /// A panic about a pod, told in the name of its scheduler.
    pub(crate) fn of_pod(&self, pod: &Pod, scheduler: &Arc<str>, panic: &str) {
        self.tell(Regarding::pod(pod), scheduler, panic);
    }

    /// A panic about a pod that the scheduler has read.
    pub(crate) fn of_scheduled(&self, pod: &PodInfo, panic: &str) {
        self.tell(Regarding::scheduled(pod), &pod.scheduler_name, panic);
    }

    /// A panic about a node, told in the name of a scheduler.
    pub(crate) fn of_node(&self, node: &Node, scheduler: &Arc<str>, panic: &str) {
        self.tell(Regarding::object(node), scheduler, panic);
    }

    /// A panic about an object of somebody else, or about one that is gone.
    pub(crate) fn unheard(&self, kind: &str, namespace: &str, name: &str, panic: &str) {
        self.metrics.panicked();
        tracing::error!(kind, namespace, name, panic, "an object's step panicked");
    }

    /// A plugin failed beside an attempt.
    pub(crate) fn of_plugin(&self, mishap: &Mishap) {
        let Mishap { pod, error } = mishap;
        self.metrics.panicked();
        tracing::error!(pod = %pod.key, %error, "a plugin failed");
        self.warn(
            Regarding::scheduled(pod),
            &pod.scheduler_name,
            error.to_string(),
        );
    }

    /// The object is taken in anew.
    pub(crate) fn mended(&self, object: impl FnOnce() -> Regarding) {
        self.warnings.mended(object);
    }

    /// This process leads: what happened before may be told.
    pub(crate) fn tell_all(&self) {
        self.warnings.tell();
    }

    fn tell(&self, about: Regarding, scheduler: &Arc<str>, panic: &str) {
        self.unheard(&about.kind, &about.namespace, &about.name, panic);
        self.warn(about, scheduler, note(panic));
    }

    fn warn(&self, regarding: Regarding, scheduler: &Arc<str>, note: String) {
        self.warnings.warn(Occurrence {
            regarding,
            type_: EventType::Warning,
            reason: PANICKED,
            action: "Scheduling",
            note,
            controller: scheduler.clone(),
        });
    }
}
