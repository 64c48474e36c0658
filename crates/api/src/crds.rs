//! The definitions of all kinds, in the order in which they are printed and installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{ClusterSource, ClusterTarget, PodChaperon, Source, Target, summary};

/// The definitions of all six kinds.
pub fn all() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    Ok(vec![
        ClusterSource::crd(),
        summary::definition()?,
        ClusterTarget::crd(),
        PodChaperon::crd(),
        Source::crd(),
        Target::crd(),
    ])
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };

    use super::*;
    use crate::keys;

    #[test]
    fn every_kind_has_columns_a_short_name_and_its_category() {
        let crds = all().unwrap();
        assert_eq!(crds.len(), 6);
        for crd in crds {
            let kind = &crd.spec.names.kind;
            assert!(
                crd.spec
                    .names
                    .short_names
                    .is_some_and(|names| names.len() == 1),
                "{kind}"
            );
            assert_eq!(
                crd.spec.names.categories,
                Some(vec!["admiralty".to_owned()]),
                "{kind}"
            );
            let version = &crd.spec.versions[0];
            assert!(
                version.additional_printer_columns.as_ref().unwrap().len() >= 4,
                "{kind}"
            );
            if kind != "ClusterSummary" {
                let status = version
                    .subresources
                    .as_ref()
                    .and_then(|s| s.status.as_ref());
                assert!(status.is_some(), "{kind} has a status subresource");
            }
        }
    }

    #[test]
    fn every_kind_says_what_it_is() {
        for crd in all().unwrap() {
            let schema = crd.spec.versions[0].schema.as_ref().unwrap();
            let schema = schema.open_api_v3_schema.as_ref().unwrap();
            let says = schema.description.as_deref().unwrap_or_default();
            let kind = &crd.spec.names.kind;
            assert!(
                says.ends_with('.') && !says.contains("derived"),
                "{kind}: {says:?}"
            );
        }
    }

    #[test]
    fn columns_show_keys_that_exist() {
        let known = [
            keys::IS_RESERVED,
            keys::IS_ALLOWED,
            keys::ATTEMPT,
            keys::PARENT_NAME,
            keys::PARENT_CLUSTER_NAME,
            keys::REFUSAL,
            keys::ALLOWED_ATTEMPT,
        ];
        let mut shown = Vec::new();
        for crd in all().unwrap() {
            for version in crd.spec.versions {
                for column in version.additional_printer_columns.unwrap_or_default() {
                    let path = column.json_path;
                    let rest = [".metadata.annotations.", ".metadata.labels."]
                        .iter()
                        .find_map(|map| path.strip_prefix(map));
                    match rest {
                        // An unescaped dot would end the key.
                        Some(rest) => {
                            assert!(!rest.replace("\\.", "").contains('.'), "{path}");
                            shown.push(rest.replace("\\.", "."));
                        }
                        None => assert!(
                            path.starts_with(".status.")
                                || path.starts_with(".spec.")
                                || path.starts_with(".allocatable.")
                                || path == ".metadata.creationTimestamp",
                            "{}: {path}",
                            crd.spec.names.kind
                        ),
                    }
                }
            }
        }
        shown.sort_unstable();
        let mut known = known.map(str::to_owned);
        known.sort_unstable();
        assert_eq!(shown, known);
    }

    /// Texts, lists and mappings without a bound, by path. What has no schema is bounded by whoever reads it.
    fn unbounded(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
        if schema.x_kubernetes_preserve_unknown_fields == Some(true) {
            return;
        }
        let is_text = schema.type_.as_deref() == Some("string");
        let is_text = is_text || schema.x_kubernetes_int_or_string == Some(true);
        let is_short = schema.max_length.is_some() || schema.enum_.is_some();
        let is_short = is_short || schema.format.as_deref() == Some("date-time");
        if is_text && !is_short {
            found.push(path.to_owned());
        }
        for (name, field) in schema.properties.iter().flatten() {
            unbounded(field, &format!("{path}.{name}"), found);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
            if schema.max_items.is_none() {
                found.push(format!("{path}[]"));
            }
            unbounded(item, &format!("{path}[]"), found);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(value)) = &schema.additional_properties {
            if schema.max_properties.is_none() {
                found.push(format!("{path}.*"));
            }
            unbounded(value, &format!("{path}.*"), found);
        }
    }

    #[test]
    fn all_that_somebody_may_write_is_bounded() {
        let mut found = Vec::new();
        for crd in all().unwrap() {
            let schema = crd.spec.versions[0].schema.as_ref().unwrap();
            let schema = schema.open_api_v3_schema.as_ref().unwrap();
            unbounded(schema, &crd.spec.names.kind, &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn names_of_targets_are_values_of_labels() {
        for crd in [Target::crd(), ClusterTarget::crd()] {
            let schema = crd.spec.versions[0].schema.as_ref().unwrap();
            let schema = schema.open_api_v3_schema.as_ref().unwrap();
            let rules = schema.x_kubernetes_validations.as_ref().unwrap();
            let limit = format!("self.metadata.name.size() <= {}", crate::limits::LABEL);
            assert!(rules.iter().any(|rule| rule.rule == limit), "{rules:?}");
        }
    }

    #[test]
    fn a_chaperon_keeps_fields_that_nobody_knows() {
        let crd = PodChaperon::crd();
        let schema = crd.spec.versions[0].schema.as_ref().unwrap();
        let properties = schema
            .open_api_v3_schema
            .as_ref()
            .unwrap()
            .properties
            .as_ref()
            .unwrap();
        for field in ["spec", "status"] {
            assert_eq!(
                properties[field].x_kubernetes_preserve_unknown_fields,
                Some(true)
            );
        }
        let wire = serde_json::json!({ "futureField": { "x": 1 }, "containers": [] });
        let spec: crate::PodChaperonSpec = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(spec).unwrap(), wire);
    }
}
