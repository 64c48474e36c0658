//! What the scheduler of Shoots may do. Leader election brings its own rules, for the namespace of its Lease.

use pilotage_gardener::kinds::{GARDEN, GROUP};
use pilotage_runtime::rbac::Rule;

/// Rules of the scheduler of Shoots.
pub const RULES: &[Rule] = &[
    Rule::cluster(
        &[GROUP],
        &[
            "cloudprofiles",
            "namespacedcloudprofiles",
            "projects",
            "seeds",
            "shoots",
        ],
        &["list", "watch"],
    ),
    Rule::cluster(&[GROUP], &["shoots/binding"], &["update"]),
    Rule::cluster(&[GROUP], &["shoots/status"], &["patch"]),
    // Lists with a label selector can't be limited to it.
    Rule::namespace(GARDEN, &[""], &["configmaps"], &["list", "watch"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];
