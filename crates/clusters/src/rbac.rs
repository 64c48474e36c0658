//! What the registry needs in the cluster that it runs in.
//!
//! The names of kubeconfig secrets are users' own, so the rule can't name them, but for their namespaces
//! (`--target-namespaces`); the registry itself reads the named ones only.

use pilotage_api::GROUP;
use pilotage_runtime::rbac::Rule;

/// Rules for every component that starts a registry.
pub const RULES: &[Rule] = &[
    Rule::cluster(&[GROUP], &["targets", "clustertargets"], &["list", "watch"]),
    Rule::given_namespaces(&[""], &["secrets"], &["list", "watch"]),
];
