//! What the summary controller needs.

use pilotage_api::{GROUP, keys};
use pilotage_runtime::rbac::Rule;

/// Rules of the summary controller.
pub const RULES: &[Rule] = &[
    Rule::cluster(&[""], &["nodes", "pods"], &["get", "list", "watch"]),
    // An apply that makes the object needs `create`, which can't be limited to a name.
    Rule::cluster(
        &[GROUP],
        &["clustersummaries"],
        &["list", "watch", "create"],
    ),
    Rule::cluster(&[GROUP], &["clustersummaries"], &["patch"]).named(&[keys::CLUSTER_SUMMARY_NAME]),
];
