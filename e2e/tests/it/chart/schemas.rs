//! Renderings keep to the schemas of the pinned API server, and of the projects whose kinds it doesn't know: strictly,
//! so that a field that doesn't exist fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pilotage_testkit::{ControlPlane, apply, tools::Tools};
use serde_json::{Map, Value, json};

use super::cases;

const PREFIX: &str = "#/definitions/";
/// What every object's metadata is.
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

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

/// Makes the schema of a custom resource strict, at each of its levels.
fn close(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().for_each(close);
        let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        if !is_open && schema.get("additionalProperties").is_none() {
            schema["additionalProperties"] = false.into();
        }
    }
    for part in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(part) {
            close(inner);
        }
    }
}

/// A definition with all that it refers to, by name.
fn needed(definitions: &Map<String, Value>, name: &str) -> Map<String, Value> {
    let mut names = BTreeSet::from([name.to_owned()]);
    let mut new = vec![name.to_owned()];
    while let Some(one) = new.pop() {
        let mut found = BTreeSet::new();
        references(&definitions[&one], &mut found);
        new.extend(found.into_iter().filter(|it| names.insert(it.clone())));
    }
    names
        .iter()
        .map(|name| (name.clone(), strict(name, &definitions[name])))
        .collect()
}

/// Writes the schema of a kind where kubeconform finds it.
fn write_one(directory: &Path, [kind, group, version]: [&str; 3], schema: &Value) {
    let name = format!("{kind}-{group}-{version}.json").to_lowercase();
    fs::write(directory.join(name), schema.to_string()).unwrap();
}

/// One file for each kind that the API server has.
fn write(definitions: &Map<String, Value>, directory: &Path) {
    for (name, schema) in definitions {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        for kind in kinds.into_iter().flatten() {
            let [kind, group, version] =
                ["kind", "group", "version"].map(|key| kind[key].as_str().unwrap());
            // kubeconform calls the core group as its version.
            let group = if group.is_empty() { version } else { group };
            let all = needed(definitions, name);
            let schema = json!({ "$ref": format!("{PREFIX}{name}"), "definitions": all });
            write_one(directory, [kind, group, version], &schema);
        }
    }
}

/// One file for each kind of another project.
fn write_foreign(definitions: &Map<String, Value>, directory: &Path) {
    let crds = Tools::find().unwrap().directory().join("crds");
    for file in fs::read_dir(crds).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for crd in apply::documents(&text).unwrap() {
            let spec = &crd["spec"];
            let group = spec["group"].as_str().unwrap();
            let kind = spec["names"]["kind"].as_str().unwrap();
            for version in spec["versions"].as_array().unwrap() {
                let name = version["name"].as_str().unwrap();
                let mut schema = version["schema"]["openAPIV3Schema"].clone();
                close(&mut schema);
                schema["properties"]["metadata"] = json!({ "$ref": format!("{PREFIX}{METADATA}") });
                schema["definitions"] = needed(definitions, METADATA).into();
                write_one(directory, [kind, group, name], &schema);
            }
        }
    }
}

fn kubeconform(schemas: &Path, file: &Path) -> Result<String, String> {
    let kubeconform = Tools::find().unwrap().path("kubeconform").unwrap();
    let location = "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json";
    let output = Command::new(kubeconform)
        .args(["-strict", "-summary", "-schema-location"])
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
async fn every_object_keeps_to_the_schema_of_its_kind() {
    let plane = ControlPlane::builder("chart-schemas")
        .start()
        .await
        .unwrap();
    let openapi = plane.kubectl(&["get", "--raw", "/openapi/v2"]);
    let openapi: Value = serde_json::from_str(&openapi.await.unwrap()).unwrap();
    let directory = plane.directory().join("schemas");
    fs::create_dir_all(&directory).unwrap();
    let definitions = openapi["definitions"].as_object().unwrap();
    write(definitions, &directory);
    write_foreign(definitions, &directory);
    let check = |name: &str, text: &str| {
        let file = plane.directory().join(format!("{name}.yaml"));
        fs::write(&file, text).unwrap();
        kubeconform(&directory, &file)
    };
    let texts: Vec<_> = cases()
        .iter()
        .map(|case| (case.name.clone(), case.text()))
        .collect();
    for (name, text) in &texts {
        if let Err(error) = check(name, text) {
            panic!("{name}: {error}");
        }
    }
    // It would notice.
    for (kind, right, wrong) in [
        ("Deployment", "serviceAccountName:", "serviceAccountNam:"),
        ("Deployment", "replicas: 2", "replicas: two"),
        ("ServiceMonitor", "matchNames:", "matchName:"),
        ("PrometheusRule", "- alert: ", "- alarm: "),
        ("Certificate", "dnsNames:", "dnsName:"),
        ("Issuer", "selfSigned:", "selfSignd:"),
    ] {
        let has = format!("\nkind: {kind}\n");
        let with = texts
            .iter()
            .find(|(_, text)| text.contains(&has) && text.contains(right));
        let (_, text) = with.unwrap_or_else(|| panic!("no rendering has {right} in a {kind}"));
        let error = check("wrong", &text.replace(right, wrong)).unwrap_err();
        let is_told = error.contains(&format!(" {kind} ")) && error.contains("is invalid: ");
        assert!(is_told, "{kind}, {wrong}: {error}");
    }
}
