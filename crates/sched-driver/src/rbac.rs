//! What a scheduler may do in its own cluster. Leader election brings its own rules
//! (`pilotage_runtime::lease::RULES`).

use pilotage_runtime::rbac::Rule;

/// The rules that the driver needs, whatever its profiles do. One that evicts pods needs [`PREEMPTION`], too.
pub const RULES: &[Rule] = &[
    // A live read settles a conflict.
    Rule::cluster(&[""], &["pods"], &["get", "list", "watch"]),
    Rule::cluster(&[""], &["nodes"], &["list", "watch"]),
    Rule::cluster(&[""], &["pods/binding"], &["create"]),
    Rule::cluster(&[""], &["pods/status"], &["patch"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];

/// What the [stock plugins](pilotage_sched::plugins::stock_profile) read beside pods and nodes.
pub const STOCK_RULES: &[Rule] = &[Rule::cluster(&[""], &["namespaces"], &["list", "watch"])];

/// What it needs beside that where a profile evicts pods.
pub const PREEMPTION: &[Rule] = &[
    Rule::cluster(&[""], &["pods"], &["delete"]),
    Rule::cluster(&["policy"], &["poddisruptionbudgets"], &["list", "watch"]),
];
