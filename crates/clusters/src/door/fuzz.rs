//! Whatever bytes an API server sends, however they are cut: they pass whole, or end the answer, and no more is kept of
//! them than of an object.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use kube::client::Body as Nothing;
use kube::core::Status;
use pilotage_absurd::{json, objects, text};
use pilotage_runtime::weight::measure;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::asked::{Asked, OBJECT_BYTES, OBJECT_WEIGHT, Types};
use super::body::Events;
use super::{DEEPEST, failure, measured};
use crate::budget::UnderWay;

fn event(object: &Value) -> String {
    json!({ "type": "ADDED", "object": object }).to_string() + "\n"
}

/// An event of a pod in whose metadata a field has many entries.
fn crowded(field: &str, entries: usize) -> String {
    let entries = "{},".repeat(entries);
    let field = format!(r#""metadata":{{"{field}":[{entries}{{}}],"#);
    event(&objects::pod()).replacen(r#""metadata":{"#, &field, 1)
}

fn lines() -> BoxedStrategy<Vec<u8>> {
    let pod = || Just(objects::pod());
    let fields = select(
        &[
            "ownerReferences",
            "managedFields",
            r"manag\u0065dFields",
            "more",
        ][..],
    );
    let events = prop_oneof![
        4 => json::extreme(pod()).prop_map(|object| event(&object)),
        2 => json::junk_in(pod()).prop_map(|object| event(&object)),
        2 => json::claimed().prop_map(|text| text + "\n"),
        1 => (fields, 0..200_000_usize).prop_map(|(field, entries)| crowded(field, entries)),
    ];
    let whole = prop::collection::vec(events, 0..4).prop_map(|events| events.concat());
    prop_oneof![
        2 => whole.clone().prop_map(String::into_bytes),
        1 => text::damaged(whole),
        1 => text::bytes(),
    ]
    .boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn what_passes_of_a_watch_is_whole_events_of_the_right_kind(bytes in lines(), size in 1..70_000_usize) {
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _in = clock.enter();
        let request = Request::get("/api/v1/pods?watch=true").body(()).unwrap();
        let mut events = Events::new(Asked::of(&request), Nothing::empty(), UnderWay::new(Arc::default()));
        let mut passed = Vec::new();
        for piece in bytes.chunks(size) {
            match events.take(&Bytes::copy_from_slice(piece)) {
                Ok(taken) => passed.extend_from_slice(&taken.unwrap_or_default()),
                Err(fault) => {
                    prop_assert!(fault.to_string().len() <= 1024, "{}", fault);
                    break;
                }
            }
            prop_assert!(events.kept() <= OBJECT_BYTES);
        }
        prop_assert!(passed.len() <= bytes.len());
        for line in passed.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            prop_assert!(measure(line).weight <= OBJECT_WEIGHT);
            let event: Value = serde_json::from_slice(line).unwrap();
            let is_pod = event["object"]["kind"] == "Pod" && event["object"]["apiVersion"] == "v1";
            let is_end = event["type"] == "ERROR" && event["object"]["kind"] == "Status";
            prop_assert!(is_pod || is_end);
        }
    }

    #[test]
    fn of_a_failing_reply_a_short_status_is_left(
        code in 400..600_u16,
        body in prop_oneof![
            1 => text::bytes(),
            3 => json::extreme(Just(json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
                "message": "no",
                "metadata": { "continue": "x", "resourceVersion": "1" },
                "details": { "name": "web", "group": "g", "kind": "k", "uid": "u", "retryAfterSeconds": 9,
                    "causes": [{ "reason": "r", "message": "m", "field": "f" }] },
            }))).prop_map(|status| status.to_string().into_bytes()),
        ],
    ) {
        let code = StatusCode::from_u16(code).unwrap();
        let tidy = failure::tidy(code, &body);
        prop_assert!(tidy.len() <= 16 * 1024, "{} bytes", tidy.len());
        let status: Status = serde_json::from_slice(&tidy).unwrap();
        prop_assert!(status.is_failure() && status.code == code.as_u16());
    }

    #[test]
    fn what_is_deep_or_of_another_kind_is_a_fault(
        text in json::claimed(), path in prop_oneof![
            2 => "/(api|apis)(/[a-z0-9.]{0,9}){0,6}", 1 => "(/[!-~]{0,9}){0,6}",
        ],
        method in select(&[Method::GET, Method::POST, Method::DELETE][..]),
        kind in text::text(), version in text::text(),
    ) {
        match measured(text.as_bytes(), "a list", None) {
            // Who passes can be read without a limit of its own.
            Ok(()) => prop_assert!(serde_json::from_str::<Value>(&text).map_or(true, |value| depth(&value) <= DEEPEST)),
            Err(fault) => prop_assert!(fault.to_string().len() <= 256, "{}", fault),
        }
        let Ok(request) = Request::builder().method(method).uri(path).body(()) else { return Ok(()) };
        let asked = Asked::of(&request);
        let types = Types { api_version: version, kind };
        if let Err(fault) = asked.check(&types) {
            prop_assert!(fault.to_string().len() <= 256, "{}", fault);
        }
    }
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}
