//! What the feedback controller may do in the source.

use pilotage_runtime::rbac::Rule;

/// Proxies are followed, patched and deleted; events are written.
pub const RULES: &[Rule] = &[
    Rule::cluster(
        &[""],
        &["pods"],
        &["get", "list", "watch", "patch", "delete"],
    ),
    Rule::cluster(&[""], &["pods/status"], &["patch"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];
