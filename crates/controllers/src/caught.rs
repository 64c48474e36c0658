//! A panic in one pod's step, which must stop nobody else's. It must not know what steps do.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::FutureExt;
use kube::Resource;
use pilotage_api::PodChaperon;
use pilotage_proxy::{Outcome, Reply};
use pilotage_runtime::moment;
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};

use crate::turns::{self, Next};

/// A pod whose step panicked is looked at again after this, if nothing happens to it before. In a target, where a node may be
/// held for it, that is sooner ([`turns::AFTER_PANIC`]).
pub(crate) const AFTER_PANIC: Duration = Duration::from_mins(1);

/// Reason of the event that its author gets.
pub(crate) const PANICKED: &str = "InternalError";

/// What the author is told.
pub(crate) fn note(panic: &str) -> String {
    format!("a mistake in Pilotage, please report it: {panic}; it tries again after a pause")
}

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

/// Takes one name's turn; if it panics, tells the panic's words, and asks for another turn after a pause.
pub(crate) async fn caught_turn(turn: impl Future<Output = Next>, tell: impl FnOnce(&str)) -> Next {
    match AssertUnwindSafe(turn).catch_unwind().await {
        Ok(next) => next,
        Err(panic) => {
            tell(&words(&*panic));
            Next::At(moment::from_now(turns::AFTER_PANIC))
        }
    }
}

/// Runs a step; the panic's own words if there was one. What the step was changing may be half changed: each decision reads
/// what is there, and its requests carry their preconditions.
pub(crate) fn caught(step: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| words(&*panic))
}

/// Sends a request; that its sending panicked is no answer.
pub(crate) async fn replied(request: impl Future<Output = Reply>) -> Reply {
    let ended = AssertUnwindSafe(request).catch_unwind().await;
    ended.unwrap_or_else(|panic| {
        let why = words(&*panic);
        tracing::error!(panic = %why, "a request panicked");
        Outcome::Unknown(note(&why)).into()
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no words").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::turns::Turns;

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_one_turn_is_told_at_each_try_and_stops_no_other_name() {
        let (turns, waker) = Turns::new(1);
        let start = tokio::time::Instant::now();
        let log: Arc<Mutex<Vec<(&str, u64)>>> = Arc::default();
        let stop = CancellationToken::new();
        let turn = {
            let log = log.clone();
            move |name: &'static str| {
                let log = log.clone();
                let note = move |what| log.lock().unwrap().push((what, start.elapsed().as_secs()));
                async move {
                    let told = note.clone();
                    let turn = async move {
                        assert_ne!(name, "bad", "on purpose");
                        note(name);
                        Next::Rest
                    };
                    caught_turn(turn, |panic| {
                        assert!(panic.contains("on purpose"), "{panic}");
                        told("told");
                    })
                    .await
                }
                .boxed()
            }
        };
        let task = tokio::spawn(turns.run(turn, stop.clone()));
        waker.wake("bad");
        waker.wake("good");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(
            *log.lock().unwrap(),
            [("told", 0), ("good", 0), ("told", 10)]
        );
        stop.cancel();
        task.await.unwrap();
    }

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

    #[test]
    fn a_panic_ends_its_step_and_tells_why() {
        assert_eq!(caught(|| {}), Ok(()));
        let number = std::hint::black_box(0_u8);
        let panics = caught(|| {
            std::hint::black_box([1][usize::from(number) + 1]);
        });
        assert!(panics.unwrap_err().contains("out of bounds"));
        assert_eq!(caught(|| panic!("fixed")), Err("fixed".to_owned()));
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
