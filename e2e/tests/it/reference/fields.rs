//! The fields of the six kinds, as their definitions in `crds/` describe them.

use std::fs;

use serde_json::Value;

use super::text::{entry, paragraph, sentence};
use crate::workspace::root;

pub(super) fn section() -> String {
    let kinds = definitions().iter().map(kind).collect::<Vec<_>>();
    kinds.join("\n")
}

/// The paths of each kind's fields.
pub(super) fn paths() -> Vec<(String, Vec<String>)> {
    let kinds = definitions().into_iter().map(|definition| {
        let spec = &definition["spec"];
        let mut entries = Vec::new();
        let schema = &spec["versions"][0]["schema"]["openAPIV3Schema"];
        walk("", schema, &mut entries);
        let paths = entries
            .iter()
            .map(|entry| entry.split('`').nth(1).unwrap().to_owned());
        let kind = spec["names"]["kind"].as_str().unwrap().to_owned();
        (kind, paths.collect::<Vec<_>>())
    });
    kinds.collect()
}

fn definitions() -> Vec<Value> {
    let files = fs::read_dir(root().join("crds")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 6, "{paths:?}");
    let read = |path| serde_saphyr::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    paths.iter().map(read).collect()
}

fn kind(definition: &Value) -> String {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let schema = &spec["versions"][0]["schema"]["openAPIV3Schema"];
    let of = match spec["scope"].as_str() {
        Some("Namespaced") => "In a namespace",
        _ => "Of the whole cluster",
    };
    let mut out = format!("### {}\n\n", text(&names["kind"]));
    let about = format!(
        "{} {of}; `kubectl get {}`, or in short `{}`.",
        sentence(&description(schema)),
        text(&names["plural"]),
        text(&names["shortNames"][0]),
    );
    out += &paragraph(&about);
    out += "\n\n";
    let mut entries = Vec::new();
    walk("", schema, &mut entries);
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        entries.push(format!("Rule: {}.", text(&rule["message"])));
    }
    for text in entries {
        out += &entry(&text);
        out.push('\n');
    }
    out
}

/// The fields below a schema, each as an entry.
fn walk(path: &str, schema: &Value, out: &mut Vec<String>) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        let is_given = required.contains(&&**name) && path != "spec";
        let mut sort = sort(field);
        if is_given {
            sort += ", required";
        }
        let says = sentence(&description(field));
        assert!(!says.is_empty(), "{path} isn't described: see crates/api");
        out.push(format!("`{path}` ({sort}): {says}"));
        // Kubernetes says what a condition is.
        if name == "conditions" {
            continue;
        }
        walk(&path, field, out);
        walk(&format!("{path}[]"), &field["items"], out);
    }
}

/// What values a field may have.
fn sort(field: &Value) -> String {
    let items = &field["items"];
    let one_of = |schema: &Value| {
        let values = schema["enum"].as_array()?;
        let values = values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap()));
        Some(values.collect::<Vec<_>>().join(", "))
    };
    let length = |what: &str| {
        let most = &field["maxLength"];
        most.as_u64().map_or_else(
            || what.to_owned(),
            |most| format!("{what}, {most} characters at most"),
        )
    };
    match field["type"].as_str().unwrap_or_default() {
        "string" => length("text"),
        "integer" => "number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => one_of(items).map_or_else(|| "list".to_owned(), |all| format!("list of {all}")),
        "object" if field.get("additionalProperties").is_some() => "amounts by resource".to_owned(),
        _ => "object".to_owned(),
    }
}

fn description(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
