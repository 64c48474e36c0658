//! Renderings as they were when somebody last looked at them. Roles and definitions aren't repeated here: `roles` and the
//! test of generated files have these.

use super::cases;
use serde_json::{Value, json};

/// The rules of a role, and what a definition or a dashboard says, are in other files.
fn shortened(mut object: Value) -> Value {
    match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => object["spec"] = json!("as in crds/"),
        "Role" | "ClusterRole" => object["rules"] = json!("as pilotage rbac prints them"),
        "PrometheusRule" => object["spec"] = json!("as in files/alerts.yaml"),
        "ConfigMap" if object["data"]["pilotage.json"].is_string() => {
            object["data"]["pilotage.json"] = json!("as in files/dashboard.json");
        }
        _ => {}
    }
    object
}

#[test]
fn renderings_are_as_they_were() {
    for case in cases() {
        let objects: Vec<_> = case.objects().into_iter().map(shortened).collect();
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!(case.name.clone(), objects);
        });
    }
}
