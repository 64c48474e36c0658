//! How the scheduling loop reaches the edge: a cycle hands over its choice and waits; nodes come as soon as the
//! scheduler knows them, so that a ranking made for a node finds it there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Node;
use pilotage_api::keys;
use pilotage_proxy::{
    Words,
    placing::{Home, OwnNodes},
    plugins::{GrantFailure, Grants},
};
use pilotage_sched::{Failure, PodInfo};
use pilotage_sched_driver::Observer;
use tokio::sync::{mpsc, oneshot};

use super::story::Stories;

/// A choice that a cycle made, and where it waits for the end.
pub(super) struct Choice {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) done: oneshot::Sender<Result<(), GrantFailure>>,
}

/// A change of a virtual node, which the scheduler has taken in.
pub(super) enum NodeEvent {
    /// It is new or changed.
    Applied(Arc<Node>),
    /// It is gone.
    Deleted(String),
    /// The source's own nodes say that it is there from now on.
    Home(Home),
}

/// Hands choices to the edge; the Bind plugin's port.
pub struct Port {
    choices: mpsc::UnboundedSender<Choice>,
}

/// A failed attempt, in words for its pod's condition; none, if that says so already.
pub(super) struct Failed {
    pub(super) uid: String,
    pub(super) words: Option<Words>,
}

/// Hands virtual nodes to the edge, and of the other ones where they are, and what became of failed attempts; the
/// driver's observer.
pub struct Feed {
    nodes: mpsc::UnboundedSender<NodeEvent>,
    failed: mpsc::UnboundedSender<Failed>,
    stories: Stories,
    own: Mutex<OwnNodes>,
}

impl Feed {
    fn own(&self) -> MutexGuard<'_, OwnNodes> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without an edge nobody ranks.
    fn send(&self, event: NodeEvent) {
        let _ = self.nodes.send(event);
    }
}

/// Where the edge finds what is handed to it.
pub struct Inbox {
    pub(super) choices: mpsc::UnboundedReceiver<Choice>,
    pub(super) nodes: mpsc::UnboundedReceiver<NodeEvent>,
    pub(super) failed: mpsc::UnboundedReceiver<Failed>,
    pub(super) stories: Stories,
}

/// Both ways to the edge, and the inbox to run it with.
pub fn connect() -> (Port, Feed, Inbox) {
    let (choices, chosen) = mpsc::unbounded_channel();
    let (nodes, seen) = mpsc::unbounded_channel();
    let (failed, heard) = mpsc::unbounded_channel();
    let inbox = Inbox {
        choices: chosen,
        nodes: seen,
        failed: heard,
        stories: Stories::default(),
    };
    let feed = Feed {
        nodes,
        failed,
        stories: inbox.stories.clone(),
        own: Mutex::default(),
    };
    (Port { choices }, feed, inbox)
}

impl Observer for Feed {
    fn node_applied(&self, node: &Arc<Node>) {
        let labels = node.metadata.labels.as_ref();
        let provider = labels.and_then(|labels| labels.get(keys::PROVIDER));
        let news = if provider.is_some_and(|provider| provider == keys::PROVIDER_VALUE) {
            self.send(NodeEvent::Applied(node.clone()));
            let name = node.metadata.name.as_deref().unwrap_or_default();
            self.own().remove(name)
        } else {
            self.own().apply(node)
        };
        if let Some(home) = news {
            self.send(NodeEvent::Home(home));
        }
    }

    fn node_deleted(&self, name: &str) {
        self.send(NodeEvent::Deleted(name.to_owned()));
        let news = self.own().remove(name);
        if let Some(home) = news {
            self.send(NodeEvent::Home(home));
        }
    }

    fn failed(&self, failure: &Failure) {
        let condition = failure.status().and_then(|status| status.condition);
        let words = condition.map(|condition| Words {
            reason: condition.reason,
            message: condition.message,
        });
        let uid = failure.pod.uid.to_string();
        let _ = self.failed.send(Failed { uid, words });
    }

    fn story(&self, pod: &Arc<PodInfo>) -> Option<String> {
        self.stories.take(pod.uid.as_ref())
    }

    /// The edge does, among its own writes of the pod.
    fn writes_status(&self, _: &Failure) -> bool {
        false
    }
}

impl Grants for Port {
    fn grant<'a>(&'a self, uid: &'a str, node: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
        async move {
            let (done, end) = oneshot::channel();
            let choice = Choice {
                uid: uid.to_owned(),
                node: node.to_owned(),
                done,
            };
            self.choices
                .send(choice)
                .map_err(|_| GrantFailure::Ending)?;
            end.await.unwrap_or(Err(GrantFailure::Ending))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use k8s_openapi::api::core::v1::Pod;
    use pilotage_sched::{
        Attempt, FirstOfEquals, Moment, NodeName, Scheduler, SchedulerConfig,
        plugins::{Binder, stock_profile},
    };
    use serde_json::json;

    use super::*;

    /// Nothing is bound here.
    struct NoBinder;

    impl Binder for NoBinder {
        fn bind<'a>(
            &'a self,
            _: &'a PodInfo,
            _: &'a NodeName,
        ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
            async { unreachable!("there are no nodes") }.boxed()
        }
    }

    /// How a pod fails in a cluster without nodes.
    fn failure() -> Box<Failure> {
        let profile = stock_profile("s", Arc::new(NoBinder)).build().unwrap();
        let mut scheduler = Scheduler::new([profile], SchedulerConfig::default()).unwrap();
        let metadata = json!({ "name": "p", "namespace": "default", "uid": "u" });
        let spec = json!({ "schedulerName": "s", "containers": [] });
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
        let _ = scheduler.pod_applied(Arc::new(pod), Moment::ZERO).unwrap();
        match scheduler.schedule_next(Moment::ZERO, &mut FirstOfEquals) {
            Some(Attempt::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_condition_of_a_failed_attempt_is_the_edges_to_write() {
        let (_port, feed, mut inbox) = connect();
        let failure = failure();
        assert!(!feed.writes_status(&failure), "one writer of a proxy pod");
        feed.failed(&failure);
        let Failed { uid, words } = inbox.failed.try_recv().unwrap();
        let words = words.expect("the edge gets what is to be said");
        assert_eq!((uid.as_str(), words.reason), ("u", "Unschedulable"));
        assert_eq!(words.message, "no nodes available to schedule pods");
    }
}
