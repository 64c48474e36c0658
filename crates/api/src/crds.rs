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
