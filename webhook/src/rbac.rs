//! What the webhook's own identity may do: keep its certificates, install its admission configuration, tell each
//! `DaemonSet` of its pods that stay local. Nothing on pods: they come to it in reviews.

use pilotage_runtime::rbac::Rule;

use crate::args::DEFAULT_SECRET;
use crate::objects::{CONFIGURATION, POLICY, TARGETS_POLICY};

const ADMISSION: &[&str] = &["admissionregistration.k8s.io"];
const KEEP: &[&str] = &["get", "list", "watch", "patch"];

/// The rules. A Secret of another name (`--tls-secret`) needs a rule of its own.
pub const RULES: &[Rule] = &[
    Rule::cluster(ADMISSION, &["mutatingwebhookconfigurations"], KEEP).named(&[CONFIGURATION]),
    Rule::cluster(
        ADMISSION,
        &[
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        KEEP,
    )
    .named(&[POLICY, TARGETS_POLICY]),
    // An apply that creates is authorized with the object's name.
    Rule::cluster(ADMISSION, &["mutatingwebhookconfigurations"], &["create"])
        .named(&[CONFIGURATION]),
    Rule::cluster(
        ADMISSION,
        &[
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        &["create"],
    )
    .named(&[POLICY, TARGETS_POLICY]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
    Rule::own_namespace(&[""], &["secrets"], KEEP).named(&[DEFAULT_SECRET]),
    // A POST carries no name that could be checked.
    Rule::own_namespace(&[""], &["secrets"], &["create"]),
];
