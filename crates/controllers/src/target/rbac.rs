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

/// What the source's components need when their own cluster is a target (`self: true`): there they act as themselves,
/// and no Source gives them what [`NEEDS`] asks for.
pub const SELF_TARGET_RULES: &[Rule] = &[
    Rule::cluster(
        &[GROUP],
        &["podchaperons"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    Rule::cluster(&[""], &["pods"], &["list"]),
    // Who it is. Who watches summaries has rules of its own for it.
    Rule::cluster(&[GROUP], &["clustersummaries"], &["list"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary;

    #[test]
    fn a_cluster_may_do_in_itself_what_it_needs_in_targets() {
        for need in NEEDS {
            let rules = SELF_TARGET_RULES.iter().chain(summary::rbac::RULES);
            let given = rules.into_iter().any(|rule| {
                rule.groups.contains(&need.group)
                    && rule.resources.contains(&need.resource)
                    && rule.verbs.contains(&need.verb)
            });
            assert!(given, "{need:?}");
        }
    }
}
