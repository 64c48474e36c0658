//! Extenders that are slow, silent or broken: who waits for them stops nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pilotage_sched::{Extender, Filtered, NodeName, PodInfo};
use tokio::sync::Semaphore;

use super::Running;
use crate::extension::{AskExtender, Extension};

/// Agrees to node `b` alone, once it is let.
struct Slow(Arc<Semaphore>);

impl AskExtender for Slow {
    fn filter<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a [NodeName],
    ) -> BoxFuture<'a, Result<Filtered, String>> {
        assert!(&*pod.key.name != "bad", "on purpose");
        async {
            self.0.acquire().await.unwrap().forget();
            let nodes = [NodeName::from("b")].into();
            Ok(Filtered {
                nodes,
                ..Filtered::default()
            })
        }
        .boxed()
    }

    fn prioritize<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a [NodeName],
    ) -> BoxFuture<'a, Result<BTreeMap<NodeName, i64>, String>> {
        async { Err("it only filters".to_owned()) }.boxed()
    }
}

fn slow(lets: &Arc<Semaphore>, resource: &str) -> Extension {
    Extension {
        extender: Extender {
            name: "slow".into(),
            filters: true,
            weight: None,
            ignorable: false,
            managed_resources: [resource.to_owned()].into(),
        },
        client: Arc::new(Slow(lets.clone())),
        timeout: Duration::from_secs(5),
    }
}

fn node_of(running: &Running, name: &str) -> Option<String> {
    running.inner.core.ask(|scheduler| {
        let nodes = scheduler.nodes().iter();
        let mut nodes = nodes.filter(|node| node.pods().iter().any(|pod| &*pod.key.name == name));
        nodes.next().map(|node| node.name().to_string())
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_extender_while_others_are_bound() {
    let lets = Arc::new(Semaphore::new(0));
    let mut running = Running::start_with("nowhere", vec![slow(&lets, "memory")]);
    running.see_asking("asks", "memory", "1");
    running.see("first", "3");
    running.bound(&["first"]).await;
    assert_eq!(node_of(&running, "asks"), None);
    lets.add_permits(1);
    running.bound(&["asks"]).await;
    assert_eq!(node_of(&running, "asks").as_deref(), Some("b"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_silent_or_breaks_fails_the_attempt_and_is_asked_again() {
    let lets = Arc::new(Semaphore::new(0));
    let mut running = Running::start_with("nowhere", vec![slow(&lets, "memory")]);
    running.see_asking("bad", "memory", "1");
    running.see_asking("asks", "memory", "1");
    running.bound(&["failed asks", "failed bad"]).await;
    lets.add_permits(1);
    running.bound(&["asks"]).await;
    assert_eq!(node_of(&running, "bad"), None);
    let told = running.events.taken();
    let note_of = |name| {
        let mut told = told.iter().filter(|event| event.regarding.name == name);
        told.next().map(|event| &*event.note)
    };
    assert_eq!(note_of("asks"), Some("extender slow: no answer within 5s"));
    assert_eq!(note_of("bad"), Some("extender slow: on purpose"));
    running.stop().await;
}
