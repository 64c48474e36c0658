//! What a source may do here, and what the source controller needs to give it that.

use pilotage_api::{GROUP, Right};
use pilotage_runtime::rbac::Rule;

/// Name of the `ClusterRole` with [`SOURCE_RULES`], unless configured otherwise.
pub const SOURCE_ROLE: &str = "pilotage-source";
/// Name of the `ClusterRole` with [`SUMMARY_VIEWER_RULES`], unless configured otherwise.
pub const SUMMARY_VIEWER_ROLE: &str = "pilotage-cluster-summary-viewer";

/// What a source may do in the namespaces that it is given. A source that runs plain Admiralty asks for more (it
/// updates chaperons, follows other objects and runs commands in pods): give it a role of your own by `--source-role`.
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
const NETWORKING: &str = "networking.k8s.io";

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
    // Whether rights are installed here.
    Rule::cluster(&[RBAC], &["clusterroles"], &["get"]).named(&[
        Right::FollowConfigMaps.role(),
        Right::FollowSecrets.role(),
        Right::FollowServices.role(),
        Right::FollowIngresses.role(),
        Right::Logs.role(),
        Right::Exec.role(),
        Right::Attach.role(),
        Right::PortForward.role(),
        Right::Metrics.role(),
    ]),
];

/// What a right gives to a source, where it is given.
pub const fn right_rules(right: Right) -> &'static [Rule] {
    const COPIES: &[&str] = &["get", "list", "watch", "create", "update", "delete"];
    // kubectl's older transport posts, its newer one gets.
    const STREAM: &[&str] = &["get", "create"];
    match right {
        Right::FollowConfigMaps => const { &[Rule::cluster(&[""], &["configmaps"], COPIES)] },
        Right::FollowSecrets => const { &[Rule::cluster(&[""], &["secrets"], COPIES)] },
        Right::FollowServices => const { &[Rule::cluster(&[""], &["services"], COPIES)] },
        Right::FollowIngresses => const { &[Rule::cluster(&[NETWORKING], &["ingresses"], COPIES)] },
        Right::Logs => const { &[Rule::cluster(&[""], &["pods/log"], &["get"])] },
        Right::Exec => const { &[Rule::cluster(&[""], &["pods/exec"], STREAM)] },
        Right::Attach => const { &[Rule::cluster(&[""], &["pods/attach"], STREAM)] },
        Right::PortForward => const { &[Rule::cluster(&[""], &["pods/portforward"], STREAM)] },
        Right::Metrics => const { &[Rule::cluster(&["metrics.k8s.io"], &["pods"], &["list"])] },
    }
}

/// What the source controller needs besides [`RULES`] to give a right: it may bind its role without holding what that
/// gives.
pub const fn giving_rules(right: Right) -> &'static [Rule] {
    const fn bind(role: &'static [&'static str]) -> [Rule; 1] {
        [Rule::cluster(&[RBAC], &["clusterroles"], &["bind"]).named(role)]
    }
    const CONFIG_MAPS: [Rule; 1] = bind(&[Right::FollowConfigMaps.role()]);
    const SECRETS: [Rule; 1] = bind(&[Right::FollowSecrets.role()]);
    const SERVICES: [Rule; 1] = bind(&[Right::FollowServices.role()]);
    const INGRESSES: [Rule; 1] = bind(&[Right::FollowIngresses.role()]);
    const LOGS: [Rule; 1] = bind(&[Right::Logs.role()]);
    const EXEC: [Rule; 1] = bind(&[Right::Exec.role()]);
    const ATTACH: [Rule; 1] = bind(&[Right::Attach.role()]);
    const PORT_FORWARD: [Rule; 1] = bind(&[Right::PortForward.role()]);
    const METRICS: [Rule; 1] = bind(&[Right::Metrics.role()]);
    match right {
        Right::FollowConfigMaps => &CONFIG_MAPS,
        Right::FollowSecrets => &SECRETS,
        Right::FollowServices => &SERVICES,
        Right::FollowIngresses => &INGRESSES,
        Right::Logs => &LOGS,
        Right::Exec => &EXEC,
        Right::Attach => &ATTACH,
        Right::PortForward => &PORT_FORWARD,
        Right::Metrics => &METRICS,
    }
}
