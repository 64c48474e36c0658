//! Owns what an API server makes of `matchLabelKeys` and `mismatchLabelKeys` of affinity terms: requirements about the
//! pod's own labels, which are all that schedulers read of them. The oracle has no API server, so that generated terms
//! are as one leaves them; for a real one they are written as a user does. Such terms have no other requirements.

use serde_json::{Value, json};

const FIELDS: [(&str, &str); 2] = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];

/// Gives a term with a selector this label key, that pods like its own match, or don't match.
pub fn add(term: &mut Value, key: &str, matches: bool, labels: &Value) {
    let (field, operator) = FIELDS[usize::from(!matches)];
    term[field] = json!([key]);
    if let Some(value) = labels.get(key) {
        let requirement = json!({"key": key, "operator": operator, "values": [value]});
        term["labelSelector"]["matchExpressions"] = json!([requirement]);
    }
}

/// Whether a term has a requirement that was made of a label key.
pub fn are_merged(term: &Value) -> bool {
    let has_keys = FIELDS.iter().any(|(field, _)| term.get(field).is_some());
    has_keys && term.pointer("/labelSelector/matchExpressions").is_some()
}

/// Takes a requirement away that was made of a label key.
pub fn unmerge(term: &mut Value) {
    if are_merged(term)
        && let Some(selector) = term["labelSelector"].as_object_mut()
    {
        selector.remove("matchExpressions");
    }
}

/// A pod as its user writes it.
pub fn as_written(pod: &mut Value) {
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let of = |kind: &str| {
            format!("/spec/affinity/{affinity}/{kind}DuringSchedulingIgnoredDuringExecution")
        };
        for term in terms(pod, &of("required")) {
            unmerge(term);
        }
        for weighted in terms(pod, &of("preferred")) {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                unmerge(term);
            }
        }
    }
}

fn terms<'a>(pod: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    let terms = pod.pointer_mut(pointer).and_then(Value::as_array_mut);
    terms.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{add, are_merged, as_written};

    #[test]
    fn keys_become_requirements_and_are_written_without_them() {
        let labels = json!({"app": "a", "hash": "1"});
        let term =
            || json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
        let merged = |key: &str, matches: bool| {
            let mut merged = term();
            add(&mut merged, key, matches, &labels);
            merged
        };
        let same = merged("hash", true);
        let requirement = json!([{"key": "hash", "operator": "In", "values": ["1"]}]);
        assert_eq!(same["labelSelector"]["matchExpressions"], requirement);
        assert_eq!(same["matchLabelKeys"], json!(["hash"]));
        let other = merged("hash", false);
        let requirement = json!([{"key": "hash", "operator": "NotIn", "values": ["1"]}]);
        assert_eq!(other["labelSelector"]["matchExpressions"], requirement);
        assert_eq!(other["mismatchLabelKeys"], json!(["hash"]));
        let absent = merged("absent", true);
        assert!(are_merged(&same) && are_merged(&other) && !are_merged(&absent));

        let mut pod = json!({"spec": {"affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [same, absent]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": other},
            ]},
        }}});
        as_written(&mut pod);
        let affinity = &pod["spec"]["affinity"];
        let near = &affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let apart = &affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        let written: Vec<Value> = ["hash", "absent"]
            .map(|key| {
                let mut written = term();
                written["matchLabelKeys"] = json!([key]);
                written
            })
            .into();
        assert_eq!(*near, Value::from(written));
        let term = &apart[0]["podAffinityTerm"];
        assert_eq!(term["mismatchLabelKeys"], json!(["hash"]));
        assert_eq!(term["labelSelector"], json!({"matchLabels": {"app": "a"}}));
    }
}
