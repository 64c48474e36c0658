//! What virtual nodes need in the source cluster.

use pilotage_api::GROUP;
use pilotage_runtime::rbac::Rule;

/// Namespace of all nodes' heartbeats.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Rules besides those of the registry ([`pilotage_clusters::rbac::RULES`]).
pub const RULES: &[Rule] = &[
    // Their names follow from users' Targets, so the rule can't name them.
    Rule::cluster(
        &[""],
        &["nodes"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    Rule::cluster(&[""], &["nodes/status"], &["patch"]),
    Rule::namespace(
        LEASE_NAMESPACE,
        &["coordination.k8s.io"],
        &["leases"],
        &["create", "patch", "delete"],
    ),
    // The proxies of a target that is being deleted.
    Rule::cluster(&[""], &["pods"], &["list", "watch", "delete"]),
    // Pods on virtual nodes that no kubelet will ever run.
    Rule::cluster(&[""], &["pods/status"], &["patch"]),
    // Our finalizer on them.
    Rule::cluster(&[GROUP], &["targets", "clustertargets"], &["patch"]),
    // Our finalizer on the Secrets that they use: users' own, so the rule can't name them. Where these rights go with a
    // namespace, none is put on, and one that is there is taken off.
    Rule::given_namespaces(&[""], &["secrets"], &["patch"]),
    // Whether such a Secret is deleted by itself or with its namespace.
    Rule::cluster(&[""], &["namespaces"], &["get"]),
    // What is left of ours in a target that is this very cluster.
    Rule::cluster(&[GROUP], &["podchaperons"], &["list"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];
