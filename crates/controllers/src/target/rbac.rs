//! What the target controller needs at home, and what a source needs abroad.

use pilotage_api::GROUP;
use pilotage_clusters::Need;
use pilotage_runtime::rbac::Rule;

/// Rules besides those of the registry ([`pilotage_clusters::rbac::RULES`]).
pub const RULES: &[Rule] = &[
    Rule::cluster(
        &[GROUP],
        &["targets/status", "clustertargets/status"],
        &["patch"],
    ),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];

const fn chaperons(verb: &'static str) -> Need {
    Need {
        group: GROUP,
        resource: "podchaperons",
        subresource: "",
        verb,
        cluster_scoped: false,
    }
}

const fn summaries(verb: &'static str) -> Need {
    Need {
        group: GROUP,
        resource: "clustersummaries",
        subresource: "",
        verb,
        cluster_scoped: true,
    }
}

/// What must be permitted in a target before pods can be sent there. A Source or `ClusterSource` there gives it.
pub const NEEDS: &[Need] = &[
    chaperons("create"),
    chaperons("get"),
    chaperons("list"),
    chaperons("watch"),
    chaperons("patch"),
    chaperons("delete"),
    Need {
        group: "",
        resource: "pods",
        subresource: "",
        verb: "list",
        cluster_scoped: false,
    },
    summaries("list"),
    summaries("watch"),
];
