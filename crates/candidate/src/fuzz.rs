//! Whatever a source writes on chaperons, and whatever pods say: what is read of it is bounded, and so is what is
//! written.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_absurd::{json, objects, text};
use pilotage_api::bounds::MOST_ATTEMPTS;
use pilotage_api::{PodChaperon, annotations, keys};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chaperon::{self, Outcome, RawPod, kept};
use crate::memory::Memory;
use crate::settings::Settings;
use crate::view::{ChaperonView, Grant, PodView};
use crate::{Observed, Step, decide};

const UID: &str = "5f6c0000-0000-4000-8000-000000000000";

fn object(kind: &str, finalizers: &[&str], ending: bool, owner: Option<&str>) -> Value {
    let mut object = objects::pod();
    object["kind"] = kind.into();
    let metadata = &mut object["metadata"];
    metadata["finalizers"] = json!(finalizers);
    metadata["labels"][keys::PARENT_UID] = "u".into();
    if !ending {
        metadata["deletionTimestamp"] = Value::Null;
    }
    if let Some(uid) = owner {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "name": "web-1", "uid": uid, "controller": true,
        }]);
    }
    object
}

/// A chaperon with any word under each key that has a meaning.
fn told_chaperon() -> BoxedStrategy<Value> {
    let object = any::<bool>().prop_flat_map(|ending| {
        objects::told(
            object("PodChaperon", &[keys::DELEGATE_GONE], ending, None),
            &[],
            &[
                keys::ATTEMPT,
                keys::ALLOWED_ATTEMPT,
                keys::IS_RESERVED,
                keys::IS_ALLOWED,
                keys::REFUSAL,
                keys::RESERVED_POD_UID,
                keys::GIVE_UP,
                keys::POD_MISSING_SINCE,
                keys::WAS_BOUND,
                keys::PREEMPTS,
                keys::APPLIED_GENERATION,
                keys::CHANGE_REFUSED,
            ],
        )
    });
    let object = object.boxed();
    prop_oneof![2 => object.clone(), 2 => json::extreme(object.clone()), 1 => json::junk_in(object)]
        .boxed()
}

fn told_pod() -> BoxedStrategy<Value> {
    let object = (any::<bool>(), any::<bool>()).prop_map(|(ending, bound)| {
        let mut pod = object("Pod", &[], ending, Some(UID));
        if !bound {
            pod["spec"]["nodeName"] = Value::Null;
        }
        pod
    });
    let object = object.boxed();
    prop_oneof![2 => object.clone(), 2 => json::extreme(object.clone()), 1 => json::junk_in(object)]
        .boxed()
}

fn length(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

/// Bytes of what an API server names an object by.
fn names(meta: &ObjectMeta) -> usize {
    let names = [
        &meta.namespace,
        &meta.name,
        &meta.uid,
        &meta.resource_version,
    ];
    names.into_iter().flatten().map(String::len).sum()
}

pilotage_absurd::properties! {
    #[test]
    fn what_is_left_of_a_heavy_chaperon_and_of_a_heavy_pod_is_small(
        chaperon in told_chaperon(), pod in told_pod(),
    ) {
        // Each byte may be an escape of six.
        let most = |names: usize| 6 * (80 * 1024 + names);
        if let Ok(mut chaperon) = serde_json::from_value::<PodChaperon>(chaperon) {
            kept::slim(&mut chaperon);
            prop_assert!(length(&chaperon) <= most(names(&chaperon.metadata)));
            let again = chaperon.clone();
            kept::slim(&mut chaperon);
            prop_assert_eq!(chaperon, again);
        }
        if let Ok(mut pod) = serde_json::from_value::<RawPod>(pod) {
            kept::slim_pod(&mut pod);
            let kind = pod.api_version.len() + pod.kind.len();
            prop_assert!(length(&pod) <= most(names(&pod.metadata) + kind));
        }
    }

    #[test]
    fn what_is_read_of_a_chaperon_is_bounded(object in told_chaperon()) {
        let Ok(chaperon) = serde_json::from_value::<PodChaperon>(object) else { return Ok(()) };
        let Some(view) = ChaperonView::of(&chaperon) else { return Ok(()) };
        prop_assert!(view.attempt < MOST_ATTEMPTS);
        let allowed = match view.grant {
            Grant::Attempt(allowed) => allowed,
            Grant::Plain(_) => 0,
        };
        prop_assert!(allowed <= MOST_ATTEMPTS);
        for text in [&view.refusal, &view.reserved_pod_uid] {
            prop_assert!(text.as_ref().is_none_or(|text| text.len() <= 2048));
        }
        prop_assert!(view.faults.len() <= 5);
        for fault in &view.faults {
            prop_assert!(fault.to_string().len() <= 1024, "{}", fault);
        }
    }

    #[test]
    fn whatever_is_seen_the_next_attempt_is_the_next_and_all_words_are_short(
        chaperons in prop::collection::vec(told_chaperon(), 1..4), pod in told_pod(), seconds in 0..100_000_u64,
    ) {
        let settings = Settings::default();
        let pod = serde_json::from_value::<Pod>(pod).ok().and_then(|pod| PodView::of(&pod));
        let mut memory = Memory::new(true);
        let mut now = Duration::from_secs(seconds);
        for object in chaperons {
            let chaperon = serde_json::from_value::<PodChaperon>(object).ok();
            let view = chaperon.as_ref().and_then(ChaperonView::of);
            memory.see(view.as_ref(), now);
            if let Some(pod) = &pod {
                memory.taken(&pod.uid, "n1", now);
            }
            for _ in 0..4 {
                let seen = Observed { pod: pod.as_ref(), chaperon: view.as_ref(), memory: &memory,
                    settings: &settings, now };
                let plan = decide(&seen);
                if let Some(note) = &plan.tell {
                    prop_assert!(note.to_string().len() <= 1024, "{}", note);
                }
                if let (Step::Write(write), Some(view)) = (&plan.step, &view) {
                    prop_assert!(write.attempt == view.attempt || write.attempt == view.attempt + 1);
                    prop_assert!(write.attempt <= MOST_ATTEMPTS);
                    prop_assert!(length(&write.patch()) <= 16 * 1024);
                }
                memory.begin(&plan, now);
                now += Duration::from_secs(7);
            }
        }
    }

    #[test]
    fn what_goes_from_a_pod_to_its_chaperon_is_as_long_as_it_says_at_most(
        chaperon in told_chaperon(), pod in prop::option::of(told_pod()), refused in text::text(), wall in text::time(),
    ) {
        let Ok(chaperon) = serde_json::from_value::<PodChaperon>(chaperon) else { return Ok(()) };
        let pod = pod.and_then(|pod| serde_json::from_value::<RawPod>(pod).ok()).map(|mut pod| {
            pod.trim();
            pod
        });
        let most = 4096 + 2 * length(&chaperon) + pod.as_ref().map_or(0, length) + 8 * refused.len();
        let wall = wall.parse().unwrap_or_default();
        let mut memory = chaperon::Memory::default();
        let mut now = Duration::from_secs(100);
        for turn in 0..6 {
            let seen = chaperon::Observed { chaperon: Some(&chaperon), pod: pod.as_ref(), memory: &memory, now, wall };
            let plan = chaperon::decide(&seen);
            prop_assert!(plan.wake_at.is_none_or(|at| at > now && at <= now.saturating_add(Duration::from_mins(1))));
            memory.begin(&plan, now);
            if let Some(action) = &plan.action {
                use chaperon::Action::{CopyAnnotations, CopyStatus, LookAtPod, Mark, SayRefused, Ungate};
                match action {
                    CopyAnnotations(patch) | CopyStatus(patch) | Mark(patch) | SayRefused(patch) | Ungate(patch) => {
                        prop_assert!(length(patch) <= most);
                    }
                    LookAtPod { expected } => prop_assert!(expected.as_ref().is_none_or(|uid| uid.len() <= 64)),
                    _ => {}
                }
                let outcome = match turn % 3 {
                    0 => Outcome::NoPod,
                    1 => Outcome::Refused(refused.clone()),
                    _ => Outcome::Done,
                };
                memory.finish(action, &outcome, now);
            }
            now += Duration::from_secs(70);
        }
    }

    #[test]
    fn copied_annotations_leave_room_for_both_schedulers(
        chaperon in told_chaperon(), more in prop::collection::btree_map(text::text(), text::text(), 0..20),
    ) {
        let Ok(chaperon) = serde_json::from_value::<PodChaperon>(chaperon) else { return Ok(()) };
        let mut pod = object("Pod", &[], false, Some(UID));
        pod["metadata"]["annotations"] = json!(more);
        let pod: RawPod = serde_json::from_value(pod).unwrap();
        let memory = chaperon::Memory::default();
        let seen = chaperon::Observed {
            chaperon: Some(&chaperon), pod: Some(&pod), memory: &memory, now: Duration::from_secs(9),
                wall: jiff::Timestamp::UNIX_EPOCH,
        };
        if let Some(chaperon::Action::CopyAnnotations(patch)) = chaperon::decide(&seen).action {
            let mut all = chaperon.metadata.annotations.unwrap_or_default();
            let ours = annotations::bytes(all.iter().filter(|(key, _)| keys::is_ours(key)));
            for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
                match value.as_str() {
                    Some(value) => all.insert(key.clone(), value.to_owned()),
                    None => all.remove(key),
                };
            }
            prop_assert!(annotations::bytes(&all) <= annotations::LIMIT.max(ours + 512));
        }
    }
}
