//! Pods on a virtual node that are nobody's proxies: nothing runs behind them, and no kubelet ever ends them.
//!
//! Mostly they are of `DaemonSet`s that tolerate every taint, which no field of a node keeps away. Such a pod is marked
//! as failed: its controller deletes it, and makes the next one after a pause that grows to a quarter of an hour.
//! Marked deleted it would be made again at once, and so for ever. Any other pod stays, since nobody knows what its
//! author wants, and is told once that it doesn't run. A deletion that waits for a kubelet is finished here.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_runtime::backoff::dice;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::lease::Leadership;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::act::{FIELD_MANAGER, with_uid};
use crate::decide::is_proxy;
use crate::keeper::BACKOFF;
use crate::kept::DAEMON_SET;
use crate::sight::{Look, View};

/// Reason in a failed pod's status, and of the event on one that stays.
const REASON: &str = "VirtualNode";
/// So many pods of a node are told at most: each costs a request, and who has more has seen enough.
const MOST_TOLD: usize = 64;

/// What becomes of a stray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It fails: its controller does the rest.
    Fail {
        /// Over this version only.
        version: String,
    },
    /// Its deletion ends.
    Finish,
    /// It stays, and is told what it waits for.
    Tell,
}

/// A stray, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    namespace: String,
    name: String,
    uid: String,
    step: Step,
}

/// What becomes of those that are nobody's proxies.
pub fn decide(pods: &[Arc<Pod>]) -> Vec<Due> {
    let due = pods.iter().filter(|pod| !is_proxy(pod)).filter_map(|pod| {
        let meta = &pod.metadata;
        let step = if meta.deletion_timestamp.is_some() {
            // At grace 0 only finalizers are left, which are others' affair.
            (meta.deletion_grace_period_seconds != Some(0)).then_some(Step::Finish)
        } else if has_ended(pod) {
            None
        } else if is_daemons(pod) {
            let version = meta.resource_version.clone()?;
            Some(Step::Fail { version })
        } else {
            Some(Step::Tell)
        };
        Some(Due {
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            step: step?,
        })
    });
    due.collect()
}

fn is_daemons(pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == DAEMON_SET && owner.controller == Some(true))
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// What is left to do, if these were told: each is told once, after others were seen to.
fn left(told: &mut HashSet<String>, mut due: Vec<Due>) -> Vec<Due> {
    let stay = due.iter().filter(|due| due.step == Step::Tell);
    let stay: HashSet<&str> = stay.map(|due| due.uid.as_str()).collect();
    told.retain(|uid| stay.contains(uid.as_str()));
    due.retain(|due| {
        due.step != Step::Tell || (told.len() < MOST_TOLD && told.insert(due.uid.clone()))
    });
    due.sort_by_key(|due| due.step == Step::Tell);
    due
}

/// Ends the strays on a node, as long as this process leads, for ever.
pub(crate) async fn run(client: Client, recorder: Recorder, leadership: Leadership, look: Look) {
    let mut views = look.views();
    let ending = Ending {
        client,
        recorder,
        leadership,
        node: look.node().to_owned(),
    };
    let mut told = HashSet::new();
    loop {
        let view = look.view(views.borrow_and_update().as_ref());
        tokio::select! {
            () = ending.run(&view, &mut told) => return,
            // What the other way shows is looked at anew: a request that is cut off here was one that may be lost.
            Ok(()) = views.changed() => {}
        }
    }
}

/// What strays of a node are ended with.
struct Ending {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    node: String,
}

impl Ending {
    /// Ends those that a view shows, as long as that is kept.
    async fn run(&self, view: &View, told: &mut HashSet<String>) {
        let Self {
            leadership, node, ..
        } = self;
        let mut changes = view.changes();
        let mut failures = 0_u32;
        loop {
            leadership.acquired().await;
            changes.mark_unchanged();
            let mut failed = false;
            for due in left(told, decide(&view.pods())) {
                if !leadership.is_leader() {
                    break;
                }
                if let Err(error) = self.act(&due).await {
                    let Due {
                        namespace, name, ..
                    } = &due;
                    tracing::warn!(node, namespace, name, %error, "failed to end a pod on a virtual node");
                    failed = true;
                }
            }
            if !leadership.is_leader() {
                // Whoever leads again looks at all of them.
                told.clear();
                continue;
            }
            if failed {
                failures = failures.saturating_add(1);
                sleep(BACKOFF.delay(failures, dice())).await;
                continue;
            }
            failures = 0;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn act(&self, due: &Due) -> Result<(), CallError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &due.namespace);
        let outcome = match &due.step {
            Step::Fail { version } => {
                let patch = Patch::Merge(failed(&self.node, &due.uid, version));
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                let call = pods.patch_status(&due.name, &params, &patch);
                call::within(CALL_LIMIT, call).await.map(drop)
            }
            Step::Finish => {
                let params = with_uid(due.uid.clone()).grace_period(0);
                let call = pods.delete(&due.name, &params);
                call::within(CALL_LIMIT, call).await.map(drop)
            }
            Step::Tell => {
                self.tell(due).await;
                Ok(())
            }
        };
        match outcome {
            // It moved on or is gone: the watch shows what there is to do then.
            Err(error) if matches!(error.kind(), Failure::NotFound | Failure::Conflict) => Ok(()),
            outcome => outcome,
        }
    }

    /// Tells a pod that it doesn't run.
    async fn tell(&self, due: &Due) {
        let event = Event {
            type_: EventType::Warning,
            reason: REASON.to_owned(),
            note: Some(message(&self.node, "such pods")),
            action: "Run".to_owned(),
            secondary: None,
        };
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(due.namespace.clone()),
            name: Some(due.name.clone()),
            uid: Some(due.uid.clone()),
            ..ObjectReference::default()
        };
        let call = self.recorder.publish(&event, &pod);
        if let Err(error) = call::within(CALL_LIMIT, call).await {
            tracing::debug!(%error, "failed to publish an event");
        }
    }
}

/// Why pods on the node don't run, and what keeps them off it.
fn message(node: &str, whom: &str) -> String {
    format!(
        "{node} stands for another cluster, and nothing runs on it: keep {whom} off nodes with the label {}={} by node \
         affinity",
        keys::PROVIDER,
        keys::PROVIDER_VALUE
    )
}

/// The status of a stray that fails, over this version only.
fn failed(node: &str, uid: &str, version: &str) -> Value {
    let message = message(node, "the DaemonSet");
    json!({
        "metadata": { "uid": uid, "resourceVersion": version },
        "status": { "phase": "Failed", "reason": REASON, "message": message },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(extra: &Value) -> Arc<Pod> {
        let mut pod = json!({ "metadata": {
            "namespace": "kube-system", "name": "cni", "uid": "u", "resourceVersion": "7",
        } });
        for (key, value) in extra.as_object().unwrap() {
            if key == "status" {
                pod["status"] = value.clone();
            } else {
                pod["metadata"][key] = value.clone();
            }
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_of_daemon_sets_fail_once_and_deletions_end_and_others_are_told() {
        let owner = |kind: &str| {
            let (group, name) = ("apps/v1", "cni");
            json!([{ "apiVersion": group, "kind": kind, "name": name, "uid": "d", "controller": true }])
        };
        let now = "2026-11-25T00:00:00Z";
        let manifest = json!({ keys::SOURCE_POD_MANIFEST: "" });
        let fail = Some(Step::Fail {
            version: "7".into(),
        });
        for (what, given, expected) in [
            (
                "a daemon",
                json!({ "ownerReferences": owner("DaemonSet") }),
                fail,
            ),
            (
                "one that has failed",
                json!({ "ownerReferences": owner("DaemonSet"), "status": { "phase": "Failed" } }),
                None,
            ),
            (
                "a replica",
                json!({ "ownerReferences": owner("ReplicaSet") }),
                Some(Step::Tell),
            ),
            ("anybody's", json!({}), Some(Step::Tell)),
            (
                "one that has ended",
                json!({ "status": { "phase": "Succeeded" } }),
                None,
            ),
            (
                "one that is deleted",
                json!({ "deletionTimestamp": now, "deletionGracePeriodSeconds": 30 }),
                Some(Step::Finish),
            ),
            (
                "one that only a finalizer keeps",
                json!({ "deletionTimestamp": now, "deletionGracePeriodSeconds": 0 }),
                None,
            ),
            (
                "a proxy",
                json!({ "ownerReferences": owner("DaemonSet"), "annotations": manifest }),
                None,
            ),
        ] {
            let due = decide(&[pod(&given)]);
            let step = due.into_iter().next().map(|due| due.step);
            assert_eq!(step, expected, "{what}");
        }
    }

    #[test]
    fn who_stays_is_told_once_after_the_others_and_of_many_some_are() {
        let stays = |uid: usize| pod(&json!({ "uid": uid.to_string() }));
        let now = "2026-11-25T00:00:00Z";
        let ends = json!({ "deletionTimestamp": now, "deletionGracePeriodSeconds": 30 });
        let mut told = HashSet::new();
        let mut steps = |pods: &[Arc<Pod>]| -> Vec<Step> {
            let due = left(&mut told, decide(pods));
            due.into_iter().map(|due| due.step).collect()
        };
        let both = [stays(0), pod(&ends)];
        assert_eq!(steps(&both), [Step::Finish, Step::Tell]);
        assert_eq!(steps(&both), [Step::Finish]);
        let many: Vec<_> = (0..2 * MOST_TOLD).map(stays).collect();
        assert_eq!(steps(&many).len(), MOST_TOLD - 1);
        assert!(steps(&many).is_empty());
        // Nothing is kept of who is gone.
        assert!(steps(&[]).is_empty());
        assert!(told.is_empty());
    }
}
