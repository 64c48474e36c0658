//! The longest answer to one review, with the largest pods that the API server takes and what a hostile author may put
//! into them: those of a namespace are answered one after the other. And the longest poll of its route, which all
//! reviews share a thread for: each is taken in before it waits for its turn.
//!
//! It owns the reviews; it knows the code only by its public face. `make bench-steps` runs it.

#![expect(clippy::expect_used, reason = "what it makes itself is well")]

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode, header};
use futures::stream;
use pilotage_absurd::steps::{self, Times};
use pilotage_api::keys;
use pilotage_webhook::Metrics;
use pilotage_webhook::review::answer;
use pilotage_webhook::router::{PATH, router};
use pilotage_webhook::shares::Shares;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};
use tower::ServiceExt;

/// How often each review is answered.
const ROUNDS: usize = 15;
/// How long a review may be that is taken in, almost.
const LONGEST: usize = 8_300_000;
/// How much of it comes at once.
const FRAME: usize = 16 << 10;

fn main() -> ExitCode {
    println!("Answers to one review, the slowest of {ROUNDS} rounds, processor time.");
    let reviews: Vec<_> = pods()
        .into_iter()
        .map(|(name, pod)| {
            let body = review(&pod);
            let outcome = answer(&body).outcome;
            let kilobytes = body.len() / 1000;
            (format!("{name}, {kilobytes} kB: {outcome:?}"), body)
        })
        .collect();
    steps::measure(ROUNDS, |times| {
        for (name, body) in &reviews {
            times.step(name, || answer(body).outcome);
        }
        route(times);
    })
}

/// What the route's own thread does of a review: it takes it in, looks whose it is, and has it judged elsewhere.
fn route(times: &mut Times) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let full = |each: &str, between: &str| {
        let each = each.to_owned() + between;
        each.repeat(LONGEST / each.len())
    };
    let before =
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","#;
    let after = r#""namespace":"shop"}}"#;
    for (name, filled) in [
        ("text", full("x", "")),
        ("quoted text", full(r#"\""#, "")),
        ("text of \\u", full(r"\u00e4", "")),
    ] {
        let body = format!(r#"{before}"object":"{filled}",{after}"#);
        asked(times, &runtime, &format!("8 MB of {name}"), body);
    }
    for (name, each) in [
        ("objects", "{}"),
        ("named fields", r#"{"":""}"#),
        ("numbers", "1"),
        ("fractions", "1e1"),
        ("arrays", "[[]]"),
    ] {
        let body = format!(r#"{before}"object":[{}0],{after}"#, full(each, ","));
        asked(times, &runtime, &format!("8 MB of {name}"), body);
    }
    let fields = full(r#""a":0"#, ",");
    asked(
        times,
        &runtime,
        "8 MB of fields",
        format!("{before}{fields}{after}"),
    );
}

fn asked(times: &mut Times, runtime: &tokio::runtime::Runtime, name: &str, body: String) {
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let router = router(metrics, Shares::of(2), Arc::new(|_| {}));
    let body = Bytes::from(body);
    let frames: Vec<Result<Bytes, Infallible>> = (0..body.len())
        .step_by(FRAME)
        .map(|begin| Ok(body.slice(begin..body.len().min(begin + FRAME))))
        .collect();
    let request = Request::post(PATH).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from_stream(stream::iter(frames)));
    let request = request.expect("a request");
    let name = format!("route: {name}");
    let answer = runtime.block_on(times.polls(&name, router.oneshot(request)));
    assert!(answer.is_ok_and(|answer| answer.status() == StatusCode::OK));
}

fn review(pod: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "object": pod,
            "resource": { "group": "", "version": "v1", "resource": "pods" },
        },
    });
    review.to_string().into_bytes()
}

/// An elected pod with these annotations as well, and a container with so many variables.
fn pod(annotations: Value, variables: usize) -> Value {
    let variables = 0..variables;
    let env: Vec<_> = variables
        .clone()
        .map(|number| json!({ "name": format!("V{number}"), "value": "x" }))
        .collect();
    let owned: Map<_, _> = variables
        .map(|number| {
            let key = format!("k:{{\"name\":\"V{number}\"}}");
            (key, json!({ ".": {}, "f:name": {}, "f:value": {} }))
        })
        .collect();
    let mut pod = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "labels": { "app": "web" },
            "annotations": { keys::ELECT: "" },
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": owned } }],
        },
        "spec": { "containers": [{ "name": "c", "image": "i", "env": env }], "schedulerName": "default-scheduler" },
    });
    if let (Some(all), Value::Object(more)) =
        (pod["metadata"]["annotations"].as_object_mut(), annotations)
    {
        all.extend(more);
    }
    pod
}

fn pods() -> Vec<(&'static str, Value)> {
    let plain = |variables| pod(json!({}), variables);
    let with = |key: &str, text: String| pod(json!({ key: text }), 1);
    let own = |field: &str, value: Value| {
        let mut pod = pod(json!({ keys::USE_OWN_CONSTRAINTS: "" }), 1);
        pod["spec"][field] = value;
        pod
    };
    let tolerations = |count: usize| -> Value {
        let each = (0..count).map(|n| json!({ "key": format!("k{n}"), "operator": "Exists" }));
        each.collect()
    };
    let arguments = |arguments: Value| {
        let mut pod = plain(1);
        pod["spec"]["containers"][0]["args"] = arguments;
        pod
    };
    // What the first call made of it, and another webhook has changed since.
    let again = || {
        let mut pod = plain(3_000);
        let manifest =
            "metadata: {}\nspec:\n  containers:\n".to_owned() + &"  - name: c\n".repeat(5_400);
        pod["metadata"]["annotations"][keys::SOURCE_POD_MANIFEST] = manifest.into();
        pod
    };
    let nested = (0..20).fold(json!("x"), |inner, _| json!({ "a": [inner] }));
    vec![
        ("an ordinary pod", plain(10)),
        ("one whose manifest just fits", plain(3_200)),
        ("one whose manifest doesn't fit", plain(4_000)),
        ("one with its manifest, called again", again()),
        ("60,000 small fields", arguments(vec!["x"; 60_000].into())),
        (
            "20,000 small objects",
            arguments(vec![json!({ "a": {} }); 20_000].into()),
        ),
        (
            "1,000,000 small fields",
            arguments(vec![json!({}); 1_000_000].into()),
        ),
        ("deep objects", arguments(vec![nested; 500].into())),
        (
            "one text of 2 MB",
            arguments(json!(["x".repeat(1_900_000)])),
        ),
        (
            "one text of 7 MB",
            arguments(json!(["x".repeat(7_000_000)])),
        ),
        (
            "250 kB that need quotes",
            arguments(json!(["\u{1}\"':\n".repeat(40_000)])),
        ),
        (
            "75,000 tolerations",
            own("tolerations", tolerations(75_000)),
        ),
        ("256 tolerations", own("tolerations", tolerations(256))),
        (
            "a fragment of 64 kB",
            with(
                keys::PROXY_CONSTRAINTS,
                format!("tolerations: [{}]", "{key: a},".repeat(6_500)),
            ),
        ),
        (
            "a fragment of 64 kB with nothing in it",
            with(
                keys::PROXY_CONSTRAINTS,
                format!("tolerations: {}", "[".repeat(65_000)),
            ),
        ),
        (
            "a fragment of aliases",
            with(
                keys::PROXY_CONSTRAINTS,
                format!("tolerations:\n- &t {{key: a}}\n{}", "- *t\n".repeat(10_000)),
            ),
        ),
        (
            "an expression that is slow to read",
            with(
                keys::NO_PREFIX_LABEL_REGEXP,
                "(?i)".to_owned() + &"[a-z]{9}".repeat(120),
            ),
        ),
        (
            "an expression of Unicode",
            with(
                keys::NO_PREFIX_LABEL_REGEXP,
                "(?i)".to_owned() + &"\\pL".repeat(340),
            ),
        ),
        (
            "a region of 200 kB",
            with(keys::REGION, "r".repeat(200_000)),
        ),
    ]
}
