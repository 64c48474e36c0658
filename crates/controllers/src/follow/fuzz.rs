//! Whatever a target shows as copies, what is kept of it is no longer than it was, is none of its content, and says
//! whose copy it is only if that can be an object.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use pilotage_absurd::objects;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::brief::Brief;
use super::kinds::{Followed, KEPT_ANNOTATIONS, KEPT_LABELS, trim};

/// A digest and marks.
const OURS: usize = 512;

/// An object that says of itself that it is a copy.
fn copies() -> BoxedStrategy<Value> {
    let mut object = json!({
        "data": { "hunter2": "aHVudGVyMg==" }, "stringData": { "hunter2": "hunter2" },
        "type": "Opaque", "immutable": true,
        "spec": { "selector": { "app": "web" }, "type": "ClusterIP", "ports": [{ "port": 80 }], "rules": [] },
        "status": { "loadBalancer": { "ingress": [{ "ip": "10.0.0.8" }] } },
    });
    object["metadata"] = objects::metadata(Some("shop"));
    objects::foreign(object, &KEPT_LABELS, &KEPT_ANNOTATIONS)
}

fn length(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

fn is_kept_in_brief<K: Followed>(object: &Value) -> Result<(), TestCaseError> {
    let Ok(mut kept) = serde_json::from_value::<K>(object.clone()) else {
        return Ok(());
    };
    let whole = length(&kept);
    trim(&mut kept);
    prop_assert!(length(&kept) <= whole + OURS);
    let left = serde_json::to_value(&kept).unwrap();
    for content in ["data", "binaryData", "stringData", "status"] {
        prop_assert!(left.get(content).is_none(), "{} of {}", content, left);
    }
    let brief = Brief::of(&kept);
    prop_assert_eq!(brief.digest.len(), 64);
    if let Some(link) = &brief.link {
        let parts = [&link.uid, &link.namespace, &link.name];
        prop_assert!(
            parts
                .iter()
                .all(|part| !part.contains(['/', '?', '%', '\n']))
        );
    }
    Ok(())
}

pilotage_absurd::properties! {
    #[test]
    fn whatever_a_copy_says_little_of_it_is_kept(object in copies()) {
        is_kept_in_brief::<ConfigMap>(&object)?;
        is_kept_in_brief::<Secret>(&object)?;
        is_kept_in_brief::<Service>(&object)?;
        is_kept_in_brief::<Ingress>(&object)?;
    }
}
