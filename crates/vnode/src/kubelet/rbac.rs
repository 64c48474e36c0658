//! What the kubelet server needs in the source cluster, besides what everybody needs: for who turns it on.

use pilotage_runtime::rbac::Rule;

use super::authority;

/// Its rules. The right to approve is one on the default signer; for another one (`--kubelet-signer`) the operator
/// gives it.
pub const RULES: &[Rule] = &[
    // Whose logs are asked for.
    Rule::cluster(&[""], &["pods"], &["get"]),
    // Who asks, and whether he may.
    Rule::cluster(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
    Rule::cluster(
        &["authorization.k8s.io"],
        &["subjectaccessreviews"],
        &["create"],
    ),
    Rule::namespace(authority::NAMESPACE, &[""], &["configmaps"], &["get"])
        .named(&[authority::NAME]),
    // The serving certificate. Its requests get their names from the API server, so the rule can't name them.
    Rule::cluster(
        &["certificates.k8s.io"],
        &["certificatesigningrequests"],
        &["create", "list", "watch", "delete"],
    ),
    Rule::cluster(
        &["certificates.k8s.io"],
        &["certificatesigningrequests/approval"],
        &["update"],
    ),
    Rule::cluster(&["certificates.k8s.io"], &["signers"], &["approve"])
        .named(&["kubernetes.io/kubelet-serving"]),
];
