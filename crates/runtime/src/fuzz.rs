//! Any JSON is measured without being read, an object that can't be read tells who it is, and any flag is a time or
//! none.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource;
use kube::core::WatchEvent;
use pilotage_absurd::{json, objects, text};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::args::parse_duration;
use crate::guarded::Guarded;
use crate::weight::{measure, of};

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}

/// Values in a value, itself included.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum::<usize>(),
        _ => 0,
    }
}

pilotage_absurd::properties! {
    #[test]
    fn what_is_read_is_no_deeper_and_no_heavier_than_measured(value in prop_oneof![
        json::json(), json::extreme(Just(objects::pod())), json::junk_in(Just(objects::node())),
    ], pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let measured = measure(text.as_bytes());
        prop_assert_eq!(measured.depth, depth(&value));
        // A value takes 32 bytes by itself.
        prop_assert!(measured.weight >= text.len().max(32 * (values(&value) - 1)));
        prop_assert!(of(&value) >= 32 * (values(&value) - 1));
    }

    #[test]
    fn any_bytes_are_measured(bytes in prop_oneof![text::bytes(), json::claimed().prop_map(String::into_bytes)]) {
        let measured = measure(&bytes);
        prop_assert!(measured.depth <= bytes.len());
        prop_assert!(measured.weight >= bytes.len() && measured.weight <= 641 * bytes.len());
    }

    #[test]
    fn an_object_is_read_without_managed_fields_or_tells_its_name(object in prop_oneof![
        1 => json::extreme(Just(objects::pod())),
        1 => json::junk_in(prop_oneof![Just(objects::pod()), Just(objects::node())]),
    ]) {
        let text = object.to_string();
        let list = format!("[{text}]");
        if let Ok(read) = serde_json::from_str::<Vec<Guarded<Pod>>>(&list) {
            if let Ok(pod) = &read[0].0 {
                let mut whole: Pod = serde_json::from_str(&text).unwrap();
                whole.metadata.managed_fields = None;
                prop_assert_eq!(pod, &whole);
            } else {
                let name = read[0].meta().name.as_deref();
                prop_assert!(name.is_none() || object["metadata"]["name"] == json!(name));
            }
        }
        // In the order in which API servers write it.
        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}");
        let read = serde_json::from_str::<WatchEvent<Guarded<Node>>>(&event);
        prop_assert!(read.is_ok(), "one object that can't be read stops no other");
    }

    #[test]
    fn a_flag_is_ten_years_at_most(text in prop_oneof![3 => text::duration(), 1 => text::text()]) {
        if let Ok(time) = parse_duration(&text) {
            prop_assert!(time <= Duration::from_hours(10 * 365 * 24));
        }
    }
}
