//! What is asked of the API server, and what its answers mean.

use std::sync::Arc;

use pilotage_sched::PodInfo;
use serde_json::{Value, json};

use super::*;
use crate::test_server::{error, server};

fn object(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "ns", "name": "victim", "uid": uid, "generation": 3 },
    })
}

fn victim(status: &Value) -> PodInfo {
    let mut object = object("u");
    object["status"] = status.clone();
    let object = serde_json::from_value(object).unwrap();
    PodInfo::parse(Arc::new(object)).unwrap()
}

async fn outcome(answers: &[(u16, Value)]) -> (Result<Done, Failure>, Vec<String>) {
    let (client, asked) = server(answers);
    let done = delete(client, &victim(&json!({})), "why").await;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let asked = asked.into_iter().map(|(what, _)| what);
    (done.map_err(|error| error.kind()), asked.collect())
}

const PATCH: &str = "PATCH /api/v1/namespaces/ns/pods/victim/status";
const DELETE: &str = "DELETE /api/v1/namespaces/ns/pods/victim";
const GET: &str = "GET /api/v1/namespaces/ns/pods/victim";

#[tokio::test]
async fn a_pod_is_marked_and_then_deleted_by_its_uid() {
    let (client, asked) = server(&[(200, object("u")), (200, object("u"))]);
    let done = delete(client, &victim(&json!({})), "why").await.unwrap();
    assert_eq!(done, Done::Evicted);
    let asked = asked.lock().unwrap();
    let [(patch, marked), (delete, options)] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!((patch.as_str(), delete.as_str()), (PATCH, DELETE));
    assert_eq!(marked["metadata"]["uid"], "u");
    assert_eq!(options["preconditions"], json!({ "uid": "u" }));
    assert_eq!(options.get("gracePeriodSeconds"), None, "the pod's own");
}

#[test]
fn the_condition_is_kube_schedulers() {
    let now = Timestamp::new(1_700_000_000, 999).unwrap();
    let patch = target_patch(&victim(&json!({})), "why", now);
    let wanted = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "why",
        "lastTransitionTime": "2023-11-14T22:13:20Z",
        "observedGeneration": 3,
    });
    assert_eq!(patch["status"], json!({ "conditions": [wanted] }));
    // The time says since when it is True.
    let marked = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI" }] });
    let patch = target_patch(&victim(&marked), "why", now);
    assert_eq!(
        patch["status"]["conditions"][0].get("lastTransitionTime"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_gone_needs_no_eviction() {
    let ok = || (200, object("u"));
    let other = || (200, object("other"));
    for (answers, asked) in [
        (vec![error(404, "NotFound")], vec![PATCH]),
        (vec![ok(), error(404, "NotFound")], vec![PATCH, DELETE]),
        (vec![error(409, "Conflict"), other()], vec![PATCH, GET]),
        (
            vec![ok(), error(409, "Conflict"), other()],
            vec![PATCH, DELETE, GET],
        ),
        (
            vec![ok(), error(409, "Conflict"), error(404, "NotFound")],
            vec![PATCH, DELETE, GET],
        ),
    ] {
        assert_eq!(
            outcome(&answers).await,
            (
                Ok(Done::Gone),
                asked.iter().map(ToString::to_string).collect()
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn writing_the_condition_is_tried_again_where_that_may_help() {
    let ok = || (200, object("u"));
    let unavailable = || error(503, "ServiceUnavailable");
    let answers = [unavailable(), error(409, "Conflict"), ok(), ok(), ok()];
    let (done, asked) = outcome(&answers).await;
    assert_eq!(done, Ok(Done::Evicted));
    assert_eq!(asked, [PATCH, PATCH, GET, PATCH, DELETE]);
    let answers = [unavailable(), unavailable(), unavailable(), unavailable()];
    let (done, asked) = outcome(&answers).await;
    assert_eq!((done, asked.len()), (Err(Failure::Server), 4));
    // A refusal stays one, and so does a deletion that failed.
    let (done, asked) = outcome(&[error(403, "Forbidden")]).await;
    assert_eq!((done, asked.len()), (Err(Failure::Forbidden), 1));
    let (done, asked) = outcome(&[ok(), unavailable()]).await;
    assert_eq!((done, asked.len()), (Err(Failure::Server), 2));
}
