//! Renderings keep to the schemas of the pinned API server: strictly, so that a field that doesn't exist fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pilotage_testkit::{ControlPlane, tools::Tools};
use serde_json::{Map, Value, json};

use super::cases;

/// Of other projects; no API server of ours knows them.
const FOREIGN: &str = "ServiceMonitor,PrometheusRule,Certificate,Issuer";
const PREFIX: &str = "#/definitions/";

/// The names that a schema refers to.
fn references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                found.insert(name.strip_prefix(PREFIX).unwrap().to_owned());
            }
            fields.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

/// What `OpenAPI` says in JSON Schema's words: fields that aren't named don't exist, and what is a number or a text is
/// said so.
fn strict(name: &str, schema: &Value) -> Value {
    let either = json!({ "type": ["string", "number"] });
    if name.ends_with(".Quantity") || name.ends_with(".IntOrString") {
        return either;
    }
    let mut schema = schema.clone();
    if schema["properties"].is_object() && schema.get("additionalProperties").is_none() {
        schema["additionalProperties"] = false.into();
    }
    schema
}

/// One file for each kind, with all that it refers to.
fn write(openapi: &Value, directory: &Path) {
    let definitions = openapi["definitions"].as_object().unwrap();
    fs::create_dir_all(directory).unwrap();
    for (name, schema) in definitions {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        for kind in kinds.into_iter().flatten() {
            let mut names = BTreeSet::from([name.clone()]);
            let mut new = vec![name.clone()];
            while let Some(one) = new.pop() {
                let mut found = BTreeSet::new();
                references(&definitions[&one], &mut found);
                new.extend(found.into_iter().filter(|it| names.insert(it.clone())));
            }
            let all: Map<_, _> = names
                .iter()
                .map(|name| (name.clone(), strict(name, &definitions[name])))
                .collect();
            let text = |key: &str| kind[key].as_str().unwrap().to_lowercase();
            // kubeconform calls the core group as its version.
            let group = match text("group") {
                group if group.is_empty() => text("version"),
                group => group,
            };
            let file = format!("{}-{group}-{}.json", text("kind"), text("version"));
            let file_text = json!({ "$ref": format!("{PREFIX}{name}"), "definitions": all });
            fs::write(directory.join(file), file_text.to_string()).unwrap();
        }
    }
}

fn kubeconform(schemas: &Path, file: &Path) -> Result<String, String> {
    let kubeconform = Tools::find().unwrap().path("kubeconform").unwrap();
    let location = "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json";
    let output = Command::new(kubeconform)
        .args(["-strict", "-summary", "-skip", FOREIGN, "-schema-location"])
        .arg(schemas.join(location))
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() {
        Ok(text)
    } else {
        Err(text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_object_is_of_a_kind_that_the_api_server_has() {
    let plane = ControlPlane::builder("chart-schemas")
        .start()
        .await
        .unwrap();
    let openapi = plane.kubectl(&["get", "--raw", "/openapi/v2"]);
    let openapi: Value = serde_json::from_str(&openapi.await.unwrap()).unwrap();
    let directory = plane.directory().join("schemas");
    write(&openapi, &directory);
    let check = |name: &str, text: &str| {
        let file = plane.directory().join(format!("{name}.yaml"));
        fs::write(&file, text).unwrap();
        kubeconform(&directory, &file)
    };
    for case in cases() {
        let text = case.text();
        if let Err(error) = check(&case.name, &text) {
            panic!("{}: {error}", case.name);
        }
    }
    // It would notice.
    let default = cases().remove(0).text();
    for (right, wrong) in [
        ("serviceAccountName:", "serviceAccountNam:"),
        ("replicas: 2", "replicas: two"),
    ] {
        assert!(default.contains(right));
        let error = check("wrong", &default.replace(right, wrong)).unwrap_err();
        assert!(error.contains("Invalid: "), "{error}");
    }
}
