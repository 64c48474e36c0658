//! What a source may do here, and what the source controller needs to give it that.

use pilotage_api::GROUP;
use pilotage_runtime::rbac::Rule;

/// Name of the `ClusterRole` with [`SOURCE_RULES`], unless configured otherwise.
pub const SOURCE_ROLE: &str = "pilotage-source";
/// Name of the `ClusterRole` with [`SUMMARY_VIEWER_RULES`], unless configured otherwise.
pub const SUMMARY_VIEWER_ROLE: &str = "pilotage-cluster-summary-viewer";

/// What a source may do in the namespaces that it is given. A source that runs plain Admiralty asks for more (it updates
/// chaperons, follows other objects and runs commands in pods): give it a role of your own by `--source-role`.
pub const SOURCE_RULES: &[Rule] = &[
    Rule::cluster(
        &[GROUP],
        &["podchaperons"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    // Whether a plain target's delegate is gone: only its pods tell.
    Rule::cluster(&[""], &["pods"], &["list"]),
];

/// What every source may read of the cluster as a whole.
pub const SUMMARY_VIEWER_RULES: &[Rule] = &[Rule::cluster(
    &[GROUP],
    &["clustersummaries"],
    &["list", "watch"],
)];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rules of the source controller. It may bind the two roles without holding what they give.
pub const RULES: &[Rule] = &[
    Rule::cluster(
        &[GROUP],
        &["sources", "clustersources"],
        &["get", "list", "watch"],
    ),
    Rule::cluster(
        &[GROUP],
        &["sources/status", "clustersources/status"],
        &["patch"],
    ),
    Rule::cluster(
        &[""],
        &["serviceaccounts"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    Rule::cluster(
        &[RBAC],
        &["rolebindings", "clusterrolebindings"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    Rule::cluster(&[RBAC], &["clusterroles"], &["bind", "get"])
        .named(&[SOURCE_ROLE, SUMMARY_VIEWER_ROLE]),
];
