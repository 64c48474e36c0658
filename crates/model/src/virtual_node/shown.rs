//! What of a target's summary may stand on its virtual node. Knows no node.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilotage_api::summary::{FreeShape, ResourceList};
use pilotage_api::{annotations, bounds, keys, limits};
use thiserror::Error;

use crate::label_pattern::LabelPattern;

/// Label that tells nodes of one cluster apart; never shared, even if a cluster has just one node.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Prefix of what a machine is in its own cluster: a virtual node is none of these.
const ROLES: &str = "node-role.kubernetes.io/";
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

/// Labels of a summary that may stand on the virtual node. What is no label by its form, and more than anybody gives to
/// all of its nodes, is left off: the target says what it likes, and the API server would refuse the whole node for one
/// of them.
pub fn shown_labels(
    shared: &BTreeMap<String, String>,
    excluded: &ExcludedLabels,
) -> BTreeMap<String, String> {
    shared
        .iter()
        .filter(|(key, _)| annotations::is_qualified_name(key))
        .filter(|(_, value)| annotations::is_label_value(value))
        .take(SHOWN)
        .filter(|(key, value)| {
            // Where a cluster is, only it knows for sure.
            let is_told = !keys::is_ours(key) || *key == keys::CLOUD_PROVIDER;
            let is_machines = *key == HOSTNAME || key.starts_with(ROLES);
            !is_machines && is_told && !excluded.excludes(key, value)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Zones of a summary that may be told, separated by commas: those whose label may be shown, as many as a list may
/// have.
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

/// How many bytes of amounts of a target are shown: a thousand resources, or one shape's share of them.
const AMOUNTS: usize = 32 * 1024;
/// How many bytes of shapes are: all of the node's annotations together have to pass the API server.
const SHAPES: usize = 64 * 1024;
/// What an amount takes besides its name and itself: quotes, colon and comma.
const PUNCTUATION: usize = 6;
/// Longest amount.
const AMOUNT: usize = 48;
/// All suffixes that leave a whole number whole.
const MULTIPLES: [&str; 13] = [
    "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];
/// The others.
const FRACTIONS: [&str; 3] = ["n", "u", "m"];
/// Resources of which a part can be had.
const DIVISIBLE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The amounts of a summary that the API server takes on a node, as many as fit. It would refuse the whole node for one
/// of the others.
///
/// Leaves huge pages out if there are several sizes and the cluster's own nodes never have more than one: then its API
/// server or its tools may not expect that.
pub fn shown_resources(resources: &ResourceList, several_huge_page_sizes: bool) -> ResourceList {
    let drop = has_several_huge_page_sizes(resources) && !several_huge_page_sizes;
    let mut room = AMOUNTS;
    resources
        .iter()
        .filter(|(name, _)| !(drop && name.starts_with(HUGE_PAGES)))
        .filter(|(name, amount)| annotations::is_qualified_name(name) && is_amount(name, &amount.0))
        .map_while(|(name, amount)| {
            room = room.checked_sub(bytes((name, amount)))?;
            Some((name.clone(), amount.clone()))
        })
        .collect()
}

/// The first shapes of a summary, as many as fit, with their amounts as above.
pub fn shown_shapes(shapes: &[FreeShape]) -> Vec<FreeShape> {
    let mut room = SHAPES;
    shapes
        .iter()
        .map_while(|shape| {
            let free = shown_resources(&shape.free, true);
            let amounts: usize = free.iter().map(bytes).sum();
            // With braces, names of the fields and the number of nodes.
            room = room.checked_sub(amounts.saturating_add(AMOUNT))?;
            let nodes = shape.nodes;
            Some(FreeShape { nodes, free })
        })
        .collect()
}

/// What an amount takes in JSON.
fn bytes((name, amount): (&String, &Quantity)) -> usize {
    let all = name.len().saturating_add(amount.0.len());
    all.saturating_add(PUNCTUATION)
}

/// Whether the API server takes this for so much of a resource that a node has: no less than nothing, and a whole
/// number of what can't be divided.
fn is_amount(resource: &str, text: &str) -> bool {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (_, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = !matches!(number, "" | ".") && !fraction.contains('.');
    // Nobody has ten to the hundredth of anything.
    let exponent = suffix.strip_prefix(['e', 'E']).map(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let is_digits = digits.bytes().all(|it| it.is_ascii_digit());
        let is_exponent = matches!(digits.len(), 1 | 2) && is_digits;
        (is_exponent, !exponent.starts_with('-'))
    });
    let (is_suffix, stays_whole) = match exponent {
        Some(exponent) if suffix != "E" && suffix != "Ei" => exponent,
        _ => {
            let multiplies = MULTIPLES.contains(&suffix);
            (multiplies || FRACTIONS.contains(&suffix), multiplies)
        }
    };
    let is_whole = fraction.is_empty() && stays_whole;
    text.len() <= AMOUNT && is_number && is_suffix && (is_whole || DIVISIBLE.contains(&resource))
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
            ("node-role.kubernetes.io/worker", ""),
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
        let malformed = map(&[
            ("a", "b c"),
            ("no key", "v"),
            ("Example.com/a", "v"),
            ("b", "-"),
            ("c", "ä"),
            ("d", ""),
            ("", "v"),
        ]);
        let shown = shown_labels(&malformed, &ExcludedLabels::None);
        assert_eq!(shown.into_keys().collect::<Vec<_>>(), ["d"]);
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
    fn an_amount_that_the_api_server_takes_is_shown() {
        for (name, amount, shown) in [
            ("cpu", "1500m", true),
            ("cpu", "0.5", true),
            ("cpu", "-1", false),
            ("cpu", "", false),
            ("cpu", ".", false),
            ("cpu", "1.2.3", false),
            ("cpu", "1 ", false),
            ("cpu", "1e-3", true),
            ("cpu", "1e+3", true),
            ("cpu", "1e+-3", false),
            ("cpu", "1e", false),
            ("cpu", "1e2147483647", false),
            ("memory", "8Ei", true),
            ("memory", "1E", true),
            ("memory", "1Zi", false),
            ("pods", "110", true),
            ("pods", "1500m", false),
            ("example.com/gpu", "2k", true),
            ("example.com/gpu", "2E3", true),
            ("example.com/gpu", "0.5", false),
            ("example.com/gpu", "2e-3", false),
            ("no name", "1", false),
        ] {
            let one = resources(&[(name, amount)]);
            assert_eq!(
                shown_resources(&one, true) == one,
                shown,
                "{name}: {amount}"
            );
        }
    }

    #[test]
    fn as_many_amounts_are_shown_as_a_node_may_have() {
        let many: Vec<_> = (0..100_000).map(|number| format!("a.b/{number}")).collect();
        let many: Vec<_> = many.iter().map(|name| (&**name, "1")).collect();
        let many = resources(&many);
        let shown = shown_resources(&many, true);
        assert!(shown.len() > 1000 && shown.len() < 4000);
        let shape = FreeShape {
            nodes: 1,
            free: many,
        };
        assert_eq!(shown_shapes(&vec![shape; 9]).len(), 1);
        let small = FreeShape {
            nodes: i64::MAX,
            free: shown_resources(&resources(&[("cpu", "4")]), true),
        };
        let one = std::slice::from_ref(&small);
        assert_eq!(shown_shapes(one), one);
        assert!(shown_shapes(&vec![small; 100_000]).len() < 2000);
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
