//! What following needs at home, for each kind by itself: it is opt-in.

use pilotage_runtime::rbac::Rule;

use super::FollowedKind;

const READ: &[&str] = &["get", "list", "watch"];
const REROUTE: &[&str] = &["get", "list", "watch", "patch"];
const NETWORKING: &str = "networking.k8s.io";

/// Rules besides those of the target controller and of feedback.
pub const fn rules(kind: FollowedKind) -> &'static [Rule] {
    match kind {
        FollowedKind::ConfigMaps => const { &[Rule::cluster(&[""], &["configmaps"], READ)] },
        FollowedKind::Secrets => const { &[Rule::cluster(&[""], &["secrets"], READ)] },
        FollowedKind::Services => const { &[Rule::cluster(&[""], &["services"], REROUTE)] },
        FollowedKind::Ingresses => const { &[Rule::cluster(&[NETWORKING], &["ingresses"], READ)] },
    }
}
