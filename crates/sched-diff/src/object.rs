//! Reading of API objects that are plain JSON.

use serde_json::{Map, Value};

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
