//! What a scheduler may do in its own cluster. Leader election brings its own rules
//! (`pilotage_runtime::lease::RULES`).

use pilotage_runtime::rbac::Rule;

/// The rules that the driver needs, whatever its profiles do. One that evicts pods needs [`PREEMPTION`], too.
pub const RULES: &[Rule] = &[
    // A live read settles a conflict.
    Rule::cluster(&[""], &["pods"], &["get", "list", "watch"]),
    Rule::cluster(&[""], &["nodes"], &["list", "watch"]),
    Rule::cluster(&[""], &["pods/binding"], &["create"]),
    Rule::cluster(&[""], &["pods/status"], &["patch"]),
    Rule::cluster(&["events.k8s.io"], &["events"], &["create", "patch"]),
];

/// The rules that the stock plugins need beside those: to read the objects that they want.
pub const STOCK_RULES: &[Rule] = &[
    // Affinity selects namespaces by their labels.
    Rule::cluster(&[""], &["namespaces"], &["list", "watch"]),
    // Pods without constraints are spread with those of their Services and controllers.
    Rule::cluster(
        &[""],
        &["services", "replicationcontrollers"],
        &["list", "watch"],
    ),
    Rule::cluster(
        &["apps"],
        &["replicasets", "statefulsets"],
        &["list", "watch"],
    ),
];

/// What it needs beside that where a profile evicts pods.
pub const PREEMPTION: &[Rule] = &[
    Rule::cluster(&[""], &["pods"], &["delete"]),
    Rule::cluster(&["policy"], &["poddisruptionbudgets"], &["list", "watch"]),
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use pilotage_sched::plugins::{Binder, stock_profile};
    use pilotage_sched::{NodeName, PodInfo};

    use super::STOCK_RULES;

    struct Never;

    impl Binder for Never {
        fn bind<'a>(
            &'a self,
            _: &'a PodInfo,
            _: &'a NodeName,
        ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
            Box::pin(async { Err("nothing is bound here".into()) })
        }
    }

    #[test]
    fn every_kind_that_the_stock_plugins_want_may_be_read() {
        let profile = stock_profile("test", Arc::new(Never))
            .evicting_nobody()
            .build()
            .unwrap();
        let wanted = profile.wants().iter().map(|kind| {
            let name = kind.name().to_lowercase();
            format!("{name}s")
        });
        let mut wanted: Vec<_> = wanted.collect();
        let granted = STOCK_RULES.iter().flat_map(|rule| rule.resources);
        let mut granted: Vec<_> = granted.map(|name| (*name).to_owned()).collect();
        wanted.sort();
        granted.sort();
        assert_eq!(granted, wanted);
        let verbs = STOCK_RULES.iter().map(|rule| rule.verbs);
        assert!(verbs.into_iter().all(|verbs| verbs == ["list", "watch"]));
    }
}
