use proptest::prelude::*;

use super::*;

/// A review of a pod that is being created.
fn create(pod: &Value) -> Vec<u8> {
    let request = json!({
        "uid": "u", "operation": "CREATE", "object": pod,
        "resource": { "group": "", "version": "v1", "resource": "pods" },
    });
    json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request })
        .to_string()
        .into_bytes()
}

fn elected(spec: &Value) -> Value {
    json!({ "metadata": { "annotations": { keys::ELECT: "" } }, "spec": spec })
}

#[test]
fn what_is_too_large_to_be_read_is_refused_only_if_it_is_elected() {
    let many = json!({ "containers": vec![json!({}); FIELDS_LIMIT] });
    let long = json!({ "containers": ["x".repeat(OBJECT_LIMIT)] });
    for spec in [many, long] {
        let mut pod = elected(&spec);
        let refused = answer(&create(&pod));
        assert_eq!(refused.outcome, Outcome::Denied("TooManyFields"));
        assert_eq!(refused.body["response"]["uid"], "u");
        pod["metadata"]["annotations"] = json!({ "other": keys::ELECT });
        assert_eq!(answer(&create(&pod)).outcome, Outcome::Untouched);
    }
}

#[test]
fn a_pod_of_a_daemon_set_is_admitted_with_a_warning_and_a_notice() {
    let mut pod = elected(&json!({}));
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "d", "controller": true,
    }]);
    let mut review: Value = serde_json::from_slice(&create(&pod)).unwrap();
    review["request"]["namespace"] = "shop".into();
    let left = answer(review.to_string().as_bytes());
    assert_eq!(left.outcome, Outcome::Local);
    let response = &left.body["response"];
    assert_eq!(response["allowed"], true);
    assert_eq!(response.get("patch"), None);
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("DaemonSet \"logs\" places its own pods"));
    let notice = left.notice.unwrap();
    assert_eq!((&*notice.namespace, &*notice.owner.uid), ("shop", "d"));

    review["request"]["dryRun"] = true.into();
    let dry = answer(review.to_string().as_bytes());
    assert_eq!((&dry.body, dry.notice), (&left.body, None));
}

#[test]
fn a_review_whose_answer_panics_is_refused_with_its_words() {
    let pod = elected(&json!({}));
    let refused = answer_by(&create(&pod), |_| panic!("{}", "on purpose ".repeat(1000)));
    assert_eq!(refused.outcome, Outcome::Panicked);
    let response = &refused.body["response"];
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!("u"), &json!(false))
    );
    assert_eq!(response["status"]["code"], 500);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("report it: on purpose"), "{message}");
    assert!(message.len() < TOLD, "{message}");
    assert_eq!(answer(&create(&json!({}))).outcome, Outcome::Untouched);
}

#[test]
fn answers_are_short_whatever_is_asked() {
    let long = "x".repeat(3_000_000);
    let deep = "[".repeat(3_000_000);
    for body in [
        json!({ "apiVersion": long, "kind": long }).to_string(),
        json!({ "apiVersion": API_VERSION, "kind": KIND, "request": { "dryRun": long } })
            .to_string(),
        json!({ "apiVersion": API_VERSION, "kind": KIND, "request": long }).to_string(),
        format!("{{\"request\":{deep}"),
        deep,
        long,
    ] {
        let answer = answer(body.as_bytes());
        assert_eq!(answer.outcome, Outcome::Malformed);
        assert!(answer.body.to_string().len() < 4096);
    }
}

/// JSON of any shape, with numbers and texts at their ends.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()].prop_map(Value::from),
        prop_oneof![Just(u64::MAX), any::<u64>()].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z]{300}".prop_map(Value::from),
        Just(Value::from("9223372036854775807s")),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A pod with anything in the places that are read.
fn any_pod() -> impl Strategy<Value = Value> {
    let places = [
        "/metadata/annotations/A0",
        "/metadata/annotations/A1",
        "/metadata/annotations/A2",
        "/metadata/annotations/A3",
        "/metadata/annotations/A4",
        "/metadata/labels",
        "/metadata/finalizers",
        "/metadata/managedFields",
        "/metadata/ownerReferences",
        "/spec/nodeName",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/affinity",
        "/spec/topologySpreadConstraints",
        "/spec/terminationGracePeriodSeconds",
        "/spec/containers",
        "/spec",
        "/metadata",
    ];
    let changes = prop::collection::vec((prop::sample::select(places.to_vec()), any_json()), 1..4);
    (prop::bool::weighted(0.1), changes).prop_map(|(daemon, changes)| {
        let keys = [
            keys::PROXY_CONSTRAINTS,
            keys::USE_OWN_CONSTRAINTS,
            keys::NO_PREFIX_LABEL_REGEXP,
            keys::REPLACE_AFTER,
            keys::SOURCE_POD_MANIFEST,
        ];
        let mut pod = elected(&json!({ "containers": [] }));
        if daemon {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "\u{1}".repeat(300), "controller": true,
            }]);
        }
        for (place, value) in changes {
            if let Some(number) = place.strip_prefix("/metadata/annotations/A") {
                let key = keys[number.parse::<usize>().unwrap()];
                if let Some(annotations) = pod.pointer_mut("/metadata/annotations") {
                    annotations[key] = value;
                }
            } else {
                let (parent, field) = place.rsplit_once('/').unwrap();
                if let Some(Value::Object(parent)) = pod.pointer_mut(parent) {
                    parent.insert(field.to_owned(), value);
                }
            }
        }
        pod
    })
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,200}") {
            for body in [&bytes[..], text.as_bytes()] {
                let answer = answer(body);
                prop_assert_eq!(answer.outcome, Outcome::Malformed);
                prop_assert!(answer.body.to_string().len() < 4096);
            }
        }

        #[test]
        fn any_review_gets_an_answer(request in any_json(), object in any_json(), more in any_json()) {
            let mut review: Value = serde_json::from_slice(&create(&object)).unwrap();
            prop_assert!(answer(review.to_string().as_bytes()).body["response"].is_object());
            review["request"]["oldObject"] = more.clone();
            review["request"]["options"] = more;
            prop_assert!(answer(review.to_string().as_bytes()).body["response"].is_object());
            review["request"] = request;
            let answer = answer(review.to_string().as_bytes());
            prop_assert_eq!(answer.outcome, Outcome::Malformed);
        }

        #[test]
        fn any_pod_gets_an_answer_that_is_not_much_longer(pod in any_pod()) {
            let body = create(&pod);
            let answer = answer(&body);
            prop_assert!(answer.body["response"]["allowed"].is_boolean());
            // What is added is the pod once more as YAML, all of it in base64.
            prop_assert!(answer.body.to_string().len() < 16 * 1024 + 16 * body.len());
        }
    }
}
