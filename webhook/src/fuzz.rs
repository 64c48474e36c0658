//! Whatever is asked for whatever pod, there is a short answer; a refusal is in few words, and what is let through can
//! be read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilotage_absurd::{json, objects, text};
use pilotage_api::{annotations, keys};
use pilotage_model::manifest::{LONGEST, from_proxy};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::certs::Material;
use crate::certs::plan::{self, Timings};
use crate::mutate::{self, Mutation};
use crate::review::{Outcome, answer};

/// What a pod's author is told has at most so many bytes.
const TOLD: usize = 4096;

fn pod() -> BoxedStrategy<Value> {
    let mut pod = objects::pod();
    pod["metadata"]["annotations"][keys::ELECT] = "".into();
    pod["spec"]["nodeName"] = Value::Null;
    let told = objects::told(
        pod,
        &[keys::HAS_FINALIZER],
        &[
            keys::PROXY_CONSTRAINTS,
            keys::USE_OWN_CONSTRAINTS,
            keys::NO_PREFIX_LABEL_REGEXP,
            keys::REPLACE_AFTER,
            keys::NO_RESERVATION,
            keys::REGION,
            keys::ZONES,
        ],
    );
    prop_oneof![1 => told.clone(), 3 => json::extreme(told.clone()), 1 => json::junk_in(told)]
        .boxed()
}

fn review(pod: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "object": pod, "namespace": "shop", "name": "web", "dryRun": false,
            "resource": { "group": "", "version": "v1", "resource": "pods" }, "subResource": "",
        },
    })
}

pilotage_absurd::properties! {
    #[test]
    fn any_question_gets_a_short_answer(body in prop_oneof![
        2 => json::extreme(pod().prop_map(|pod| review(&pod))).prop_map(|review| review.to_string().into_bytes()),
        1 => json::junk_in(pod().prop_map(|pod| review(&pod))).prop_map(|review| review.to_string().into_bytes()),
        1 => text::damaged(pod().prop_map(|pod| review(&pod).to_string())),
        1 => json::claimed().prop_map(String::into_bytes),
        1 => text::bytes(),
    ]) {
        let answer = answer(&body);
        let response = &answer.body["response"];
        prop_assert_eq!(&answer.body["kind"], "AdmissionReview");
        let uid = response["uid"].as_str().unwrap().len();
        if let Outcome::Mutated = answer.outcome {
            // What is added is the pod once more as YAML, all of it in base64.
            prop_assert!(answer.body.to_string().len() < 16 * 1024 + 16 * body.len());
            let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
            prop_assert!(serde_json::from_slice::<Vec<Value>>(&patch).is_ok());
        } else {
            // Each byte may be an escape of six.
            prop_assert!(answer.body.to_string().len() <= 6 * (TOLD + uid), "{:?}", answer.outcome);
        }
    }

    #[test]
    fn an_elected_pod_becomes_a_proxy_that_fits_or_its_author_is_told(pod in pod()) {
        match mutate::mutate(&pod) {
            Err(denial) => prop_assert!(denial.to_string().len() <= TOLD, "{}", denial),
            Ok(Mutation::None) => prop_assert!(!mutate::is_elected(&pod)),
            // Each byte of its name may be an escape.
            Ok(Mutation::Local(owner)) => prop_assert!(owner.to_string().len() <= 2 * TOLD),
            Ok(Mutation::Proxy(patch)) => {
                let mut proxy = pod.clone();
                prop_assert!(json_patch::patch(&mut proxy, &patch).is_ok());
                let all = proxy["metadata"]["annotations"].as_object().unwrap();
                let bytes: usize = all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
                prop_assert!(bytes <= annotations::LIMIT);
                prop_assert!(all[keys::SOURCE_POD_MANIFEST].as_str().is_some_and(|text| text.len() <= LONGEST));
                prop_assert!(from_proxy(&proxy).is_ok());
            }
        }
    }

    #[test]
    fn a_secret_with_certificates_is_read_or_none(secret in prop_oneof![
        3 => json::extreme(Just(certificates())), 1 => json::junk_in(Just(certificates())),
    ], name in text::text()) {
        let Ok(material) = serde_json::from_value::<Material>(secret) else { return Ok(()) };
        let (now, timings) = ("2026-06-01T00:00:00Z".parse().unwrap(), timings());
        let step = plan::decide(Some(&material), &[name], now, &timings);
        if let plan::Step::Keep { until } = step {
            prop_assert!(until > now);
        }
    }
}

fn timings() -> Timings {
    let hours = |hours| std::time::Duration::from_hours(hours);
    Timings::new(hours(26_280), hours(720), hours(1)).unwrap()
}

fn certificates() -> Value {
    let (soon, later) = ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
    let ca = json!({ "name": "ca", "notAfter": later, "certificate": "PEM", "key": "PEM" });
    json!({
        "ca": ca,
        "serving": { "names": ["a.svc"], "made": soon, "notAfter": later, "certificate": "PEM", "key": "PEM" },
        "next": { "ca": ca, "from": soon },
        "retired": { "certificate": "PEM", "until": later },
    })
}
