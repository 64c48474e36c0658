//! What the chaperon controller may do in its cluster, the target.

use pilotage_api::GROUP;
use pilotage_runtime::rbac::Rule;

/// Its rules.
pub const RULES: &[Rule] = &[
    Rule::cluster(&[GROUP], &["podchaperons"], &["list", "watch", "patch"]),
    Rule::cluster(&[GROUP], &["podchaperons/status"], &["patch"]),
    // For owner references that block the owner's deletion.
    Rule::cluster(&[GROUP], &["podchaperons/finalizers"], &["update"]),
    Rule::cluster(
        &[""],
        &["pods"],
        // Patch: only the gate of pods that keep their own scheduler.
        &["get", "list", "watch", "create", "delete", "patch"],
    ),
    // What proxies change while they run: debug containers, and amounts of CPU and memory.
    Rule::cluster(
        &[""],
        &["pods/ephemeralcontainers", "pods/resize"],
        &["patch"],
    ),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];
