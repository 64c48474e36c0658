//! What the ask edge may do in the source; what it may do in targets is the source's role there.

use pilotage_runtime::rbac::Rule;

/// Proxies are followed and get their record; tables of regions are read; events are written.
pub const RULES: &[Rule] = &[
    Rule::cluster(&[""], &["pods"], &["get", "list", "watch", "patch"]),
    Rule::cluster(&[""], &["pods/binding"], &["create"]),
    Rule::cluster(&[""], &["pods/status"], &["patch"]),
    Rule::own_namespace(&[""], &["configmaps"], &["list", "watch"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];
