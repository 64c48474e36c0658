//! What watched pods and nodes mean: the scheduler takes them in, then the observer is told. Neither's panic keeps an
//! event from the other one, nor from anybody else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_runtime::caught::caught;
use pilotage_sched::{Moment, NodeName, PodUid, Scheduler};

use crate::driver::Inner;
use crate::feed::Sink;
use crate::publish::Regarding;

/// Takes pods.
pub(crate) struct PodSink {
    pub(crate) inner: Arc<Inner>,
}

impl Sink<Pod> for PodSink {
    fn applied(&mut self, pod: &Arc<Pod>) {
        self.inner.mistakes.mended(|| Regarding::pod(pod));
        let seen = |scheduler: &mut Scheduler, now| scheduler.pod_applied(pod.clone(), now);
        match take_in(&self.inner, seen) {
            Ok(Ok(change)) => {
                let name = pod.metadata.name.as_deref();
                tracing::trace!(
                    namespace = pod.metadata.namespace,
                    name,
                    ?change,
                    "pod seen"
                );
            }
            Ok(Err(error)) => tracing::error!(%error, "a pod is left out"),
            Err(panic) => self.panicked(pod, &panic),
        }
        self.inner.observer.pod_applied(pod);
    }

    fn deleted(&mut self, namespace: &str, name: &str, uid: &str) {
        let gone = PodUid::from(uid);
        let seen = |scheduler: &mut Scheduler, now| scheduler.pod_deleted(&gone, now);
        if let Err(panic) = take_in(&self.inner, seen) {
            let mistakes = &self.inner.mistakes;
            mistakes.unheard("Pod", namespace, name, &panic);
        }
        self.inner.observer.pod_deleted(namespace, name, uid);
    }

    fn panicked(&mut self, pod: &Arc<Pod>, panic: &str) {
        let spec = pod.spec.as_ref();
        let name = spec.and_then(|spec| spec.scheduler_name.as_deref());
        let name = name.unwrap_or("default-scheduler");
        let profile = |scheduler: &mut Scheduler| {
            let profile = scheduler.profiles().get(name);
            profile.map(|profile| profile.name().clone())
        };
        let mistakes = &self.inner.mistakes;
        if let Some(ours) = self.inner.core.ask(profile) {
            mistakes.of_pod(pod, &ours, panic);
        } else {
            // Its author asked nothing of us.
            let Regarding {
                namespace, name, ..
            } = Regarding::pod(pod);
            mistakes.unheard("Pod", &namespace, &name, panic);
        }
    }
}

/// Has the scheduler do something; the panic's words if there was one.
fn take_in<R>(inner: &Inner, work: impl FnOnce(&mut Scheduler, Moment) -> R) -> Result<R, String> {
    caught(|| inner.core.with(work))
}

/// Takes nodes.
pub(crate) struct NodeSink {
    pub(crate) inner: Arc<Inner>,
}

impl Sink<Node> for NodeSink {
    fn applied(&mut self, node: &Arc<Node>) {
        self.inner.mistakes.mended(|| Regarding::object(&**node));
        let seen = |scheduler: &mut Scheduler, now| scheduler.node_applied(node, now);
        match take_in(&self.inner, seen) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a node is left out"),
            Err(panic) => self.panicked(node, &panic),
        }
        self.inner.observer.node_applied(node);
    }

    fn deleted(&mut self, _namespace: &str, name: &str, _uid: &str) {
        let gone = NodeName::from(name);
        let seen = |scheduler: &mut Scheduler, now| scheduler.node_deleted(&gone, now);
        if let Err(panic) = take_in(&self.inner, seen) {
            self.inner.mistakes.unheard("Node", "", name, &panic);
        }
        self.inner.observer.node_deleted(name);
    }

    fn panicked(&mut self, node: &Arc<Node>, panic: &str) {
        let first = |scheduler: &mut Scheduler| {
            let mut profiles = scheduler.profiles().iter();
            profiles.next().map(|profile| profile.name().clone())
        };
        if let Some(ours) = self.inner.core.ask(first) {
            self.inner.mistakes.of_node(node, &ours, panic);
        }
    }
}
