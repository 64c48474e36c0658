//! What of a target's summary may stand on its virtual node. Knows no node.

use std::collections::BTreeMap;

use pilotage_api::summary::ResourceList;
use pilotage_api::{bounds, keys, limits};
use thiserror::Error;

use crate::label_pattern::LabelPattern;

/// Label that tells nodes of one cluster apart; never shared, even if a cluster has just one node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Prefix of the names of huge-page resources.
const HUGE_PAGES: &str = "hugepages-";

/// Labels of a target that must not be shown, by `key=value`.
#[derive(Clone, Debug, Default)]
pub enum ExcludedLabels {
    /// All are shown.
    #[default]
    None,
    /// Those that match are not; the expression may match anywhere in `key=value`.
    Matching(LabelPattern),
    /// None is shown, since nobody knows which ones the unreadable expression was to hide.
    All,
}

/// An `excludedLabelsRegexp` that is no regular expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("spec.excludedLabelsRegexp is no regular expression: {0}")]
pub struct ExcludedLabelsError(String);

impl ExcludedLabels {
    /// Reads the expression; see [`ExcludedLabels::All`] for what to do with an error.
    pub fn parse(text: Option<&str>) -> Result<Self, ExcludedLabelsError> {
        match text.filter(|text| !text.is_empty()) {
            None => Ok(Self::None),
            Some(text) => LabelPattern::parse(text)
                .map(Self::Matching)
                .map_err(|error| ExcludedLabelsError(error.reason)),
        }
    }

    fn excludes(&self, key: &str, value: &str) -> bool {
        match self {
            Self::None => false,
            // One that gets no answer may be to be hidden.
            Self::Matching(pattern) => pattern.matches(key, value).unwrap_or(true),
            Self::All => true,
        }
    }
}

/// How many labels of a target are shown.
const SHOWN: usize = 256;

/// Labels of a summary that may stand on the virtual node. What is no label for its length, and more than anybody gives to
/// all of its nodes, is left off: the target says what it likes.
pub fn shown_labels(
    shared: &BTreeMap<String, String>,
    excluded: &ExcludedLabels,
) -> BTreeMap<String, String> {
    shared
        .iter()
        .filter(|(key, value)| key.len() <= limits::KEY && value.len() <= limits::LABEL)
        .take(SHOWN)
        .filter(|(key, value)| {
            // Where a cluster is, only it knows for sure.
            let is_told = !keys::is_ours(key) || *key == keys::CLOUD_PROVIDER;
            *key != HOSTNAME && is_told && !excluded.excludes(key, value)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Zones of a summary that may be told, separated by commas: those whose label may be shown, as many as a list may have.
pub fn shown_zones(zones: &str, excluded: &ExcludedLabels) -> Option<String> {
    let zones = limits::names(bounds::cut(zones, limits::LIST));
    let zones = zones.filter(|zone| zone.len() <= limits::LABEL);
    let told = zones.take(limits::LISTED).filter(|zone| {
        let mut labels = keys::ZONE_LABELS.iter();
        !labels.any(|label| excluded.excludes(label, zone))
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join(","))
}

/// Leaves huge pages out if there are several sizes and the cluster's own nodes never have more than one: then its API
/// server or its tools may not expect that.
pub fn shown_resources(resources: &ResourceList, several_huge_page_sizes: bool) -> ResourceList {
    let drop = has_several_huge_page_sizes(resources) && !several_huge_page_sizes;
    resources
        .iter()
        .filter(|(name, _)| !(drop && name.starts_with(HUGE_PAGES)))
        .map(|(name, quantity)| (name.clone(), quantity.clone()))
        .collect()
}

/// Whether a node or cluster has huge pages of more than one size.
pub fn has_several_huge_page_sizes(resources: &ResourceList) -> bool {
    resources
        .keys()
        .filter(|name| name.starts_with(HUGE_PAGES))
        .count()
        > 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::{map, resources};
    use super::*;

    #[test]
    fn labels_are_shown_unless_they_are_excluded_or_a_machines_own() {
        let shared = map(&[
            ("kubernetes.io/hostname", "n1"),
            ("multicluster.admiralty.io/x", "y"),
            ("multicluster.admiralty.io/cloud-provider", "aws"),
            ("secret/owner", "bank"),
            ("topology.kubernetes.io/region", "eu"),
        ]);
        let provider = "multicluster.admiralty.io/cloud-provider";
        let region = "topology.kubernetes.io/region";
        for (expression, want) in [
            (None, &[provider, "secret/owner", region][..]),
            (Some(""), &[provider, "secret/owner", region]),
            (Some("^secret/"), &[provider, region]),
            (Some("=bank$"), &[provider, region]),
            (Some("."), &[]),
        ] {
            let excluded = ExcludedLabels::parse(expression).unwrap();
            let shown: Vec<_> = shown_labels(&shared, &excluded).into_keys().collect();
            assert_eq!(shown, want, "{expression:?}");
        }
        assert!(shown_labels(&shared, &ExcludedLabels::All).is_empty());
        let long = map(&[("a", &"v".repeat(64)), (&"k".repeat(318), "v"), ("b", "v")]);
        let shown = shown_labels(&long, &ExcludedLabels::None);
        assert_eq!(shown.into_keys().collect::<Vec<_>>(), ["b"]);
        let error = ExcludedLabels::parse(Some("a(b")).unwrap_err().to_string();
        assert_eq!(
            error,
            "spec.excludedLabelsRegexp is no regular expression: unclosed group"
        );
    }

    #[test]
    fn zones_are_told_unless_their_labels_are_excluded() {
        for (expression, want) in [
            (None, Some("a,b")),
            (Some("zone=a$"), Some("b")),
            (Some("^topology"), None),
            (Some("zone"), None),
        ] {
            let excluded = ExcludedLabels::parse(expression).unwrap();
            assert_eq!(
                shown_zones("a,b", &excluded).as_deref(),
                want,
                "{expression:?}"
            );
        }
        assert_eq!(shown_zones("", &ExcludedLabels::None), None);
        let many = format!("{},b{}", "z".repeat(64), ",a".repeat(100_000));
        let told = shown_zones(&many, &ExcludedLabels::None).unwrap();
        assert!(told.starts_with("b,a,a") && told.len() == 2 * limits::LISTED - 1);
        assert_eq!(shown_zones("a", &ExcludedLabels::All), None);
    }

    #[test]
    fn several_sizes_of_huge_pages_need_a_cluster_that_knows_them() {
        let one = resources(&[("cpu", "4"), ("hugepages-2Mi", "0")]);
        let two = resources(&[
            ("cpu", "4"),
            ("hugepages-1Gi", "0"),
            ("hugepages-2Mi", "1Gi"),
        ]);
        assert_eq!(shown_resources(&one, false), one);
        assert_eq!(shown_resources(&two, true), two);
        assert_eq!(shown_resources(&two, false), resources(&[("cpu", "4")]));
    }
}
