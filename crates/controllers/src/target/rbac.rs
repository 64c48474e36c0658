//! What the target controller needs at home, and what a source needs abroad.

use pilotage_api::{GROUP, Right};
use pilotage_clusters::Need;
use pilotage_runtime::rbac::Rule;

use crate::source::rbac::right_rules;

/// Rules besides those of the registry ([`pilotage_clusters::rbac::RULES`]).
pub const RULES: &[Rule] = &[
    Rule::cluster(
        &[GROUP],
        &["targets/status", "clustertargets/status"],
        &["patch"],
    ),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
    // Tokens in the Secrets that ask for their renewal: users' own, so the rule can't name them.
    Rule::given_namespaces(&[""], &["secrets"], &["patch"]),
];

const fn chaperons(verb: &'static str) -> Need {
    Need {
        group: GROUP,
        resource: "podchaperons",
        subresource: "",
        verb,
        cluster_scoped: false,
        right: None,
    }
}

const fn summaries(verb: &'static str) -> Need {
    Need {
        group: GROUP,
        resource: "clustersummaries",
        subresource: "",
        verb,
        cluster_scoped: true,
        right: None,
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
        right: None,
    },
    summaries("list"),
    summaries("watch"),
];

/// What a source that uses a right needs in a target: all that the right's role gives.
pub fn right_needs(right: Right) -> impl Iterator<Item = Need> {
    let rules = right_rules(right).iter();
    rules.flat_map(move |rule| {
        let resources = rule.resources.iter();
        let resources = resources.map(|it| it.split_once('/').unwrap_or((it, "")));
        resources.flat_map(move |(resource, subresource)| {
            rule.verbs.iter().map(move |verb| Need {
                group: rule.groups.first().copied().unwrap_or_default(),
                resource,
                subresource,
                verb,
                cluster_scoped: false,
                right: Some(right),
            })
        })
    })
}

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
