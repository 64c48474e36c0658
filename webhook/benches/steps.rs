//! The longest answer to one review, with the largest pods that the API server takes and what a hostile author may put
//! into them: reviews are answered one after the other.
//!
//! It owns the reviews; it knows the code only by its public face. `make bench-steps` runs it.

use std::process::ExitCode;

use pilotage_absurd::steps;
use pilotage_api::keys;
use pilotage_webhook::review::answer;
use serde_json::{Map, Value, json};

/// How often each review is answered.
const ROUNDS: usize = 15;

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
    })
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
