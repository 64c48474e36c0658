//! What is told of a panic about one pod, and what it means for a request. Steps and turns are caught by
//! `runtime::caught`.

use std::time::Duration;

use kube::Resource;
use pilotage_api::PodChaperon;
use pilotage_proxy::{Outcome, Reply};

pub(crate) use pilotage_runtime::caught::{PANICKED, caught, caught_async, caught_turn, note};
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};

/// A pod whose step panicked is looked at again after this, and not before, whatever is said of it: else a target that
/// says something all the time would have it panic, and told, each time.
pub(crate) const AFTER_PANIC: Duration = Duration::from_mins(1);

/// What is told of a panic in a target: about the pod, or about its chaperon as long as there is no pod.
pub(crate) fn occurrence<P: Resource<DynamicType = ()>>(
    pod: Option<&P>,
    chaperon: Option<&PodChaperon>,
    controller: &str,
    panic: &str,
) -> Option<Occurrence> {
    let about = pod.map(Regarding::object);
    Some(Occurrence {
        regarding: about.or_else(|| chaperon.map(Regarding::object))?,
        type_: EventType::Warning,
        reason: PANICKED,
        action: "Scheduling",
        note: note(panic),
        controller: controller.into(),
    })
}

/// Sends a request; that its sending panicked is no answer.
pub(crate) async fn replied(request: impl Future<Output = Reply>) -> Reply {
    caught_async(request).await.unwrap_or_else(|panic| {
        tracing::error!(%panic, "a request panicked");
        Outcome::Unknown(note(&panic)).into()
    })
}

/// Steps that panic in tests, and are counted.
#[cfg(test)]
pub(crate) mod on_purpose {
    use std::{
        collections::BTreeMap,
        sync::{Mutex, PoisonError},
    };

    /// How the UIDs of such pods begin.
    pub(crate) const UID: &str = "panics-";

    static TRIED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

    pub(crate) fn step(uid: &str) {
        if uid.starts_with(UID) {
            let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
            *tried.entry(uid.to_owned()).or_default() += 1;
            drop(tried);
            panic!("on purpose");
        }
    }

    /// How often the step of such a pod was tried.
    pub(crate) fn tried(uid: &str) -> usize {
        let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
        tried.get(uid).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pod_hears_of_a_panic_and_the_chaperon_only_while_there_is_none() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "shop", "uid": "1" },
        }))
        .unwrap();
        let chaperon: PodChaperon = serde_json::from_value(json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "metadata": { "name": "c", "namespace": "shop", "uid": "2" }, "spec": {},
        }))
        .unwrap();
        let told = |pod: Option<&Pod>, chaperon| {
            let told = occurrence(pod, chaperon, "me", "out of bounds")?;
            assert!(told.note.contains("out of bounds") && told.reason == PANICKED);
            let about = told.regarding;
            Some(format!("{} {} {}", about.kind, about.name, about.uid))
        };
        assert_eq!(told(Some(&pod), Some(&chaperon)).unwrap(), "Pod p 1");
        assert_eq!(told(None, Some(&chaperon)).unwrap(), "PodChaperon c 2");
        assert_eq!(told(None, None), None);
    }

    #[tokio::test]
    async fn a_request_that_panics_is_answered_by_its_panic() {
        let reply = replied(async { panic!("fixed") }).await;
        let Outcome::Unknown(why) = reply.outcome else {
            panic!("{reply:?}");
        };
        assert!(why.contains("fixed"), "{why}");
        assert_eq!(
            replied(async { Outcome::Gone.into() }).await.outcome,
            Outcome::Gone
        );
    }
}
