//! Tells on a proxy pod why a stream of it was ended: a shell has no room for a line of ours.
//!
//! Events are written one after the other, each while its stream still has its place: no more of them wait than there
//! may be streams.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::delegate::Proxy;
use super::ending::Ending;

/// How long one may take, and wait for others: a process that ends waits for it.
const LIMIT: Duration = Duration::from_secs(5);

/// Writes these events.
#[derive(Clone)]
pub(crate) struct Teller {
    recorder: Arc<Mutex<Recorder>>,
}

impl Teller {
    pub(crate) fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: "pilotage".into(),
            instance: None,
        };
        let recorder = Arc::new(Mutex::new(Recorder::new(client, reporter)));
        Self { recorder }
    }

    /// One of its streams was ended. Those that end alike within minutes are counted by one event.
    pub(crate) async fn ended(&self, proxy: &Proxy, ending: Ending) {
        tracing::info!(%ending, namespace = proxy.namespace, pod = proxy.name, "a stream was ended");
        let event = Event {
            type_: EventType::Warning,
            reason: "StreamEnded".to_owned(),
            note: Some(format!(
                "a stream of this pod (exec, attach or port-forward) was ended: {ending}"
            )),
            // Repeated events of one action show the first one's note.
            action: action(ending).to_owned(),
            secondary: None,
        };
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(proxy.namespace.clone()),
            name: Some(proxy.name.clone()),
            uid: Some(proxy.uid.clone()),
            ..ObjectReference::default()
        };
        let publish = async { self.recorder.lock().await.publish(&event, &pod).await };
        match timeout(LIMIT, publish).await {
            Ok(Ok(())) => {}
            // With the pod its namespace may have gone.
            Ok(Err(error)) => tracing::debug!(%error, "failed to publish an event"),
            Err(_) => tracing::debug!("to publish an event took too long"),
        }
    }
}

fn action(ending: Ending) -> &'static str {
    match ending {
        Ending::PodGone => "Forget",
        Ending::TargetRemoved => "Remove",
        Ending::TargetLost => "Lose",
        Ending::Shutdown => "Stop",
        Ending::Stalled => "Stall",
    }
}
