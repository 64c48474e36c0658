//! What the ask edge may do in the source; what it may do in targets is the source's role there.

use pilotage_runtime::rbac::Rule;

/// Proxies are followed and get their record; tables of regions are read, and namespaces, whose labels affinity
/// selects; events are written.
pub const RULES: &[Rule] = &[
    Rule::cluster(&[""], &["pods"], &["get", "list", "watch", "patch"]),
    Rule::cluster(&[""], &["pods/binding"], &["create"]),
    Rule::cluster(&[""], &["pods/status"], &["patch"]),
    Rule::cluster(&[""], &["namespaces"], &["list", "watch"]),
    Rule::own_namespace(&[""], &["configmaps"], &["list", "watch"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilotage_proxy::profile::profiles;

    use super::*;

    #[test]
    fn every_kind_that_the_profiles_want_may_be_read() {
        let (port, ..) = crate::ask::connect();
        let [scheduling, ranking] = profiles(&Arc::default(), Arc::new(port)).unwrap();
        let wanted = scheduling.wants().union(ranking.wants());
        for kind in wanted.map(|kind| format!("{}s", kind.name().to_lowercase())) {
            let mut rules = RULES.iter();
            let may = rules.any(|rule| {
                rule.resources.contains(&&*kind) && rule.verbs.ends_with(&["list", "watch"])
            });
            assert!(may, "{kind}");
        }
    }
}
