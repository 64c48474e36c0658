use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilotage_api::keys;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt;

use super::*;
use crate::intake::BODY_LIMIT;

struct Reply {
    status: u16,
    text: String,
    metrics: String,
}

impl Reply {
    fn response(&self) -> Value {
        let review: Value =
            serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text));
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(review["kind"], "AdmissionReview");
        review["response"].clone()
    }

    fn message(&self) -> String {
        self.response()["status"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

async fn send(request: Request<Body>) -> Reply {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::register(&mut registry));
    let router = router(metrics, Shares::of(2), Arc::new(|_| {}));
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let mut metrics = String::new();
    prometheus_client::encoding::text::encode(&mut metrics, &registry).unwrap();
    Reply {
        status,
        text: String::from_utf8(body.to_vec()).unwrap(),
        metrics,
    }
}

async fn ask(body: impl Into<Body>) -> Reply {
    send(
        Request::post(PATH)
            .header(CONTENT_TYPE, "application/json")
            .body(body.into())
            .unwrap(),
    )
    .await
}

fn create() -> Value {
    serde_json::from_str(include_str!("../../tests/data/create-elected-pod.json")).unwrap()
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut review = create();
    change(&mut review["request"]);
    review.to_string()
}

#[tokio::test]
async fn an_elected_pod_is_patched() {
    let reply = ask(create().to_string()).await;
    let response = reply.response();
    assert_eq!((reply.status, &response["allowed"]), (200, &json!(true)));
    assert_eq!(response["uid"], create()["request"]["uid"]);
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut pod = create()["request"]["object"].clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    insta::assert_yaml_snapshot!("captured_proxy", pod);
    assert!(
        reply
            .metrics
            .contains("pilotage_webhook_requests_total{outcome=\"mutated\",reason=\"\"} 1"),
        "{}",
        reply.metrics
    );
    assert!(
        reply
            .metrics
            .contains("pilotage_webhook_request_duration_seconds_count 1"),
        "{}",
        reply.metrics
    );

    let again = changed(|request| request["object"] = pod);
    let response = ask(again).await.response();
    assert_eq!(
        (&response["allowed"], response.get("patch")),
        (&json!(true), None)
    );
}

#[tokio::test]
async fn called_again_for_an_injected_sidecar_only_the_manifest_changes() {
    let review: Value =
        serde_json::from_str(include_str!("../../tests/data/reinvocation.json")).unwrap();
    let response = ask(review.to_string()).await.response();
    assert_eq!(response["allowed"], true, "{response:#}");
    let patch = STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let paths: Vec<String> = patch.iter().map(|op| op.path().to_string()).collect();
    let manifest = keys::SOURCE_POD_MANIFEST.replace('/', "~1");
    assert_eq!(paths, [format!("/metadata/annotations/{manifest}")]);
    let mut pod = review["request"]["object"].clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    let source = pilotage_model::manifest::from_proxy(&pod)
        .unwrap()
        .into_value();
    assert_eq!(source["spec"]["containers"], pod["spec"]["containers"]);
    assert_eq!(source["spec"]["schedulerName"], "default-scheduler");
}

#[tokio::test]
async fn dry_run_is_answered_alike() {
    let real = ask(create().to_string()).await.response();
    let dry = ask(changed(|request| request["dryRun"] = true.into()))
        .await
        .response();
    assert_eq!(real, dry);
}

#[tokio::test]
async fn refusals_say_why() {
    let reply = ask(changed(|request| {
        request["object"]["metadata"]["annotations"][keys::PROXY_CONSTRAINTS] =
            "affinities: {}".into();
    }))
    .await;
    let status = &reply.response()["status"];
    assert_eq!(
        (reply.status, &reply.response()["allowed"]),
        (200, &json!(false))
    );
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    assert!(
        reply.message().contains("line 1, column 1"),
        "{}",
        reply.message()
    );
    assert!(
        reply
            .metrics
            .contains("{outcome=\"denied\",reason=\"Constraints\"} 1"),
        "{}",
        reply.metrics
    );
}

#[tokio::test]
async fn what_is_not_for_us_is_left_alone() {
    for (case, body) in [
        (
            "a subresource",
            changed(|request| request["subResource"] = "status".into()),
        ),
        (
            "a deletion",
            changed(|request| {
                request["operation"] = "DELETE".into();
                request["object"] = Value::Null;
            }),
        ),
        (
            "an update",
            changed(|request| {
                request["operation"] = "UPDATE".into();
                request["oldObject"] = request["object"].clone();
            }),
        ),
        (
            "not elected",
            changed(|request| request["object"]["metadata"]["annotations"] = Value::Null),
        ),
    ] {
        let response = ask(body).await.response();
        assert_eq!(
            (&response["allowed"], response.get("patch")),
            (&json!(true), None),
            "{case}"
        );
    }
}

#[tokio::test]
async fn a_malformed_question_is_answered_with_what_is_wrong() {
    for (body, want) in [
        (String::new(), "no AdmissionReview: EOF"),
        ("{".to_owned(), "no AdmissionReview"),
        ("{}".to_owned(), "apiVersion"),
        (
            json!({ "apiVersion": "v1", "kind": "Pod" }).to_string(),
            "Pod of v1",
        ),
        (
            json!({ "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview" })
                .to_string(),
            "admission.k8s.io/v1beta1",
        ),
        (
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" }).to_string(),
            "no request",
        ),
        (
            changed(|request| request["resource"]["resource"] = "nodes".into()),
            "not for nodes",
        ),
        (
            changed(|request| request["object"] = Value::Null),
            "no object",
        ),
        (
            changed(|request| request["operation"] = Value::Null),
            "expected a string",
        ),
    ] {
        let reply = ask(body.clone()).await;
        assert_eq!(
            (reply.status, &reply.response()["allowed"]),
            (200, &json!(false)),
            "{body}"
        );
        assert!(
            reply.message().contains(want),
            "{} lacks {want:?}",
            reply.message()
        );
        assert!(reply.metrics.contains("outcome=\"malformed\""));
    }
}

#[test]
fn reviews_of_one_namespace_keep_no_other_waiting() {
    // As the server has it.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(2).build();
    runtime.unwrap().block_on(judge_a_busy_namespace());
}

async fn judge_a_busy_namespace() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (entered, late) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (inside, timed_out) = (entered.clone(), late.clone());
    // A review of `busy` takes until this test lets it go.
    let judge = move |body: &[u8]| {
        if review::namespace(body).as_deref() == Some("busy") {
            inside.notify_one();
            let waited = gate.lock().unwrap().recv_timeout(Duration::from_secs(20));
            if waited == Err(mpsc::RecvTimeoutError::Timeout) {
                timed_out.store(true, Ordering::SeqCst);
            }
        }
        review::answer(body)
    };
    let router = router_of(Desk {
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
        room: Room::default(),
        shares: Shares::of(2),
        judge: Arc::new(judge),
        notify: Arc::new(|_| {}),
    });
    let ask = |namespace: &str| {
        let body = changed(|request| request["namespace"] = namespace.into());
        let request = Request::post(PATH)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body));
        tokio::spawn(router.clone().oneshot(request.unwrap()))
    };
    let busy: Vec<_> = (0..8).map(|_| ask("busy")).collect();
    entered.notified().await;
    let other = ask("shop").await.unwrap().unwrap();
    assert_eq!(other.status(), 200);
    assert!(!late.load(Ordering::SeqCst), "it had to wait");
    drop(release);
    for review in busy {
        assert_eq!(review.await.unwrap().unwrap().status(), 200);
    }
}

/// A review with a text of so many bytes in it. What identifies it comes first, as API servers write it.
fn long(namespace: &str, bytes: usize) -> String {
    let asked = json!({
        "namespace": namespace, "operation": "CREATE",
        "resource": { "group": "", "version": "v1", "resource": "pods" },
        "object": { "metadata": { "labels": { "a": "x".repeat(bytes) } } },
    });
    let rest = asked.to_string().split_off(1);
    let head =
        r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","#;
    format!("{head}{rest}}}")
}

async fn read(response: Response) -> Value {
    assert_eq!(response.status(), 200);
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice::<Value>(&body).unwrap()["response"].clone()
}

/// It has to be told in words that the API server passes on, with the code that makes clients try again.
fn is_turned_away(response: &Value, why: &str) {
    let status = &response["status"];
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!("u"), &json!(false))
    );
    assert_eq!(
        (
            &status["code"],
            &status["reason"],
            &status["details"]["retryAfterSeconds"]
        ),
        (&json!(429), &json!("TooManyRequests"), &json!(1))
    );
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(why), "{message}");
}

#[tokio::test]
async fn who_creates_too_much_at_once_is_told_so_and_others_are_judged() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    // A review of `busy` takes until this test lets it go.
    let judge = move |body: &[u8]| {
        if review::namespace(body).as_deref() == Some("busy") {
            let _ = gate.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
        review::answer(body)
    };
    let mut registry = Registry::default();
    let router = router_of(Desk {
        metrics: Arc::new(Metrics::register(&mut registry)),
        room: Room::default(),
        shares: Shares::of(2),
        judge: Arc::new(judge),
        notify: Arc::new(|_| {}),
    });
    let ask = |namespace: &str| {
        let request = Request::post(PATH)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(long(namespace, 3_000_000)));
        tokio::spawn(router.clone().oneshot(request.unwrap()))
    };
    // Four have room together.
    let busy = (0..5).map(|_| ask("busy"));
    let (first, _, others) = futures::future::select_all(busy).await;
    is_turned_away(&read(first.unwrap().unwrap()).await, "namespace \"busy\"");
    let other = ask("shop").await.unwrap().unwrap();
    assert_eq!(read(other).await["allowed"], true);
    drop(release);
    for review in others {
        let answer = read(review.await.unwrap().unwrap()).await;
        assert_eq!(answer["allowed"], true);
    }
    let mut metrics = String::new();
    prometheus_client::encoding::text::encode(&mut metrics, &registry).unwrap();
    assert!(
        metrics.contains("{outcome=\"busy\",reason=\"\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn who_stops_in_a_body_gives_way_and_is_told_so() {
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let router = router(metrics, Shares::of(2), Arc::new(|_| {}));
    let (review, junk) = (long("shop", 10_000), "x".repeat(10_000));
    let mut stopped = Vec::new();
    // Five have room that don't say how long they will be.
    for number in 0..7 {
        let body = if number == 1 { &junk } else { &review };
        let (begin, rest) = body.split_at(5_000);
        let (sender, parts) = futures::channel::mpsc::unbounded::<Result<Bytes, Infallible>>();
        let send = move |part: &str| {
            let part = Bytes::copy_from_slice(part.as_bytes());
            sender.unbounded_send(Ok(part)).unwrap();
        };
        send(begin);
        let request = Request::post(PATH)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from_stream(parts));
        let answer = tokio::spawn(router.clone().oneshot(request.unwrap()));
        // It is there before the next one comes.
        tokio::task::yield_now().await;
        stopped.push((send, rest, answer));
    }
    let mut answers = Vec::new();
    for (send, rest, answer) in stopped {
        send(rest);
        // That was all.
        drop(send);
        answers.push(answer.await.unwrap().unwrap());
    }
    let mut answers = answers.into_iter();
    let first = read(answers.next().unwrap()).await;
    is_turned_away(&first, "more reviews to take in");
    let second = answers.next().unwrap();
    assert_eq!(second.status(), 429, "no API server begins like this");
    assert_eq!(second.headers()["retry-after"], "1");
    for answer in answers {
        assert_eq!(read(answer).await["allowed"], true);
    }
}

#[tokio::test]
async fn what_others_should_know_is_passed_on() {
    let (sent, told) = mpsc::channel();
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let notify = Arc::new(move |notice: Notice| sent.send(notice.owner.name).unwrap());
    let router = router(metrics, Shares::of(2), notify);
    let body = changed(|request| {
        request["object"]["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "d", "controller": true,
        }]);
    });
    let request = Request::post(PATH)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body));
    let answer = router.oneshot(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(told.try_recv().as_deref(), Ok("logs"));
}

#[tokio::test]
async fn other_requests_are_http_errors() {
    let text = Request::post(PATH)
        .header(CONTENT_TYPE, "text/plain")
        .body(Body::from("{}"))
        .unwrap();
    assert_eq!(send(text).await.status, 415);
    assert_eq!(
        send(Request::get(PATH).body(Body::empty()).unwrap())
            .await
            .status,
        405
    );
    assert_eq!(
        send(Request::post("/").body(Body::empty()).unwrap())
            .await
            .status,
        404
    );
    assert_eq!(ask(vec![b' '; BODY_LIMIT + 1]).await.status, 413);
}
