//! What is asked of the API server, and what its answers mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    let done = delete(client, &victim(&json!({})), "why", &|| true).await;
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
    let victim = victim(&json!({}));
    let done = delete(client, &victim, "why", &|| true).await.unwrap();
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
async fn both_requests_are_made_again_where_that_may_help() {
    let ok = || (200, object("u"));
    let conflict = || error(409, "Conflict");
    let forbidden = || error(403, "Forbidden");
    let unavailable = || error(503, "ServiceUnavailable");
    // Nobody knows what an answer means that can't be read.
    let unreadable = (200, json!("junk"));
    let throttled = error(429, "TooManyRequests");
    for failed in [unavailable(), throttled, unreadable] {
        let answers = [failed.clone(), ok(), failed, ok()];
        let (done, asked) = outcome(&answers).await;
        assert_eq!(done, Ok(Done::Evicted), "{answers:?}");
        assert_eq!(asked, [PATCH, PATCH, DELETE, DELETE]);
    }
    // It is still there, and the same.
    let answers = [conflict(), ok(), ok(), conflict(), ok(), ok()];
    let (done, asked) = outcome(&answers).await;
    assert_eq!(done, Ok(Done::Evicted));
    assert_eq!(asked, [PATCH, GET, PATCH, DELETE, GET, DELETE]);
    // But not for ever, and a refusal stays one.
    let tries = TRIES as usize;
    let mut answers: Vec<_> = std::iter::repeat_n(unavailable(), tries).collect();
    let (done, asked) = outcome(&answers).await;
    assert_eq!((done, asked.len()), (Err(Failure::Server), tries));
    answers.insert(0, ok());
    let (done, asked) = outcome(&answers).await;
    assert_eq!((done, asked.len()), (Err(Failure::Server), tries + 1));
    let (done, asked) = outcome(&[forbidden()]).await;
    assert_eq!((done, asked.len()), (Err(Failure::Forbidden), 1));
    let (done, asked) = outcome(&[ok(), forbidden()]).await;
    assert_eq!((done, asked.len()), (Err(Failure::Forbidden), 2));
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_before_each_request_whether_it_may_be_made() {
    let ok = || (200, object("u"));
    let unavailable = || error(503, "ServiceUnavailable");
    let answers = [unavailable(), ok(), unavailable(), ok()];
    let all = [PATCH, PATCH, DELETE, DELETE];
    for allowed in 0..=all.len() {
        let (client, asked) = server(&answers);
        let times = AtomicUsize::new(0);
        let may = || times.fetch_add(1, Ordering::Relaxed) < allowed;
        let done = delete(client, &victim(&json!({})), "why", &may).await;
        let is_all = allowed == all.len();
        let wanted = if is_all { Done::Evicted } else { Done::Left };
        assert_eq!(done.unwrap(), wanted, "{allowed}");
        let asked = asked.lock().unwrap();
        let asked = asked.iter().map(|(what, _)| what.as_str());
        assert_eq!(asked.collect::<Vec<_>>(), all[..allowed]);
    }
}
