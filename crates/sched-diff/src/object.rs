//! Reading of API objects that are plain JSON.

use serde_json::{Map, Value};

/// The annotation that holds what an object had before a part of it changed. No scheduler reads it.
const BEFORE: &str = "example.com/before";

/// The text at a pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// The list at a pointer; empty if there is none.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let found = object.pointer(pointer).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

/// The map at a pointer, if there is one.
pub fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object)
}

/// Its kind.
pub fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

/// Its name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Namespace and name.
pub fn key(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), name(object))
}

/// The node of a pod, if it has one.
pub fn node_of(pod: &Value) -> Option<&str> {
    Some(text(pod, "/spec/nodeName")).filter(|node| !node.is_empty())
}

/// The pod on a node.
#[must_use]
pub fn on_node(pod: &Value, node: &str) -> Value {
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = node.into();
    pod
}

/// Puts another value in place of the one at a pointer, and keeps that one for [`restore`]. Nothing if there is none.
pub fn replace(object: &mut Value, pointer: &str, with: Value) {
    if let Some(place) = object.pointer_mut(pointer) {
        let before = std::mem::replace(place, with).to_string();
        object["metadata"]["annotations"][BEFORE] = before.into();
    }
}

/// Whether a part of the object was replaced.
pub fn is_replaced(object: &Value) -> bool {
    object["metadata"]["annotations"][BEFORE].is_string()
}

/// Puts back what was at the pointer before it was replaced.
pub fn restore(object: &mut Value, pointer: &str) {
    let before = object["metadata"]["annotations"][BEFORE].as_str();
    let before: Option<Value> = before.and_then(|text| serde_json::from_str(text).ok());
    if let (Some(before), Some(place)) = (before, object.pointer_mut(pointer)) {
        *place = before;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_replaced, replace, restore};

    #[test]
    fn what_was_replaced_can_be_put_back() {
        let mut pod = json!({"metadata": {"labels": {"app": "a"}}});
        replace(&mut pod, "/spec/absent", json!(1));
        assert!(!is_replaced(&pod));
        replace(&mut pod, "/metadata/labels", json!({"app": "b"}));
        assert!(is_replaced(&pod));
        assert_eq!(pod["metadata"]["labels"], json!({"app": "b"}));
        restore(&mut pod, "/metadata/labels");
        assert_eq!(pod["metadata"]["labels"], json!({"app": "a"}));
    }
}
