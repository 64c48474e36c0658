//! Owns what `PodDisruptionBudget`s say of victims, as in kube-scheduler 1.36.3 (`filterPodsWithPDBViolation`).
//! Preemption prefers victims whose budgets allow it, and takes others where it must.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::importance::Lower;
use crate::objects::{Budget, Objects};
use crate::pod_info::PodInfo;

/// Budgets that select anything, by namespace.
#[derive(Debug, Default)]
pub(super) struct Budgets(BTreeMap<Arc<str>, Vec<Arc<Budget>>>);

/// Whether a pod's end uses up the budget.
fn counts(budget: &Budget, pod: &PodInfo) -> bool {
    let labels = pod.labels();
    budget.selector.iter().all(|it| it.matches(labels))
        && !budget.disrupted.contains(&*pod.key.name)
}

impl Budgets {
    pub(super) fn read(objects: &Objects) -> Self {
        let mut all: BTreeMap<Arc<str>, Vec<Arc<Budget>>> = BTreeMap::new();
        for (key, budget) in objects.disruption_budgets().entries() {
            if !budget.selector.is_empty() {
                let namespace = all.entry(key.namespace.clone()).or_default();
                namespace.push(budget.clone());
            }
        }
        Self(all)
    }

    /// Parts pods of one node into those whose end breaks a budget, if all before them end too, and the others. Both
    /// keep their order. A pod without labels is in no budget.
    pub(super) fn split(&self, pods: Vec<Lower>) -> (Vec<Lower>, Vec<Lower>) {
        // What is left of a budget when some of the pods have gone.
        let mut left: BTreeMap<(&str, usize), i64> = BTreeMap::new();
        pods.into_iter().partition(|Lower { pod, .. }| {
            let Some((namespace, budgets)) = self.0.get_key_value(&pod.key.namespace) else {
                return false;
            };
            let mut breaks = false;
            if pod.labels().is_empty() {
                return false;
            }
            for (at, budget) in budgets.iter().enumerate() {
                if counts(budget, pod) {
                    let left = left
                        .entry((&**namespace, at))
                        .or_insert(budget.allowed.into());
                    *left = left.saturating_sub(1);
                    breaks |= *left < 0;
                }
            }
            breaks
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    use serde_json::{Value, json};

    use super::{Budgets, Lower};
    use crate::objects::{Objects, Stored as _};
    use crate::test_objects::{PodBuilder, pod};

    fn budget(
        name: &str,
        selector: &Value,
        allowed: i32,
        disrupted: &[&str],
    ) -> PodDisruptionBudget {
        let disrupted = disrupted.iter().map(|name| (name, "2026-01-01T00:00:00Z"));
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "selector": selector },
            "status": {
                "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3, "disruptionsAllowed": allowed,
                "disruptedPods": disrupted.collect::<std::collections::BTreeMap<_, _>>(),
            },
        }))
        .unwrap()
    }

    fn broken_by(budgets: Vec<PodDisruptionBudget>, pods: Vec<PodBuilder>) -> Vec<String> {
        let mut objects = Objects::default();
        for budget in budgets {
            objects.apply(std::sync::Arc::new(budget).object()).unwrap();
        }
        let pods = pods.into_iter().enumerate();
        let pods = pods
            .map(|(at, pod)| Lower {
                pod: pod.info(),
                at,
            })
            .collect();
        let (broken, _) = Budgets::read(&objects).split(pods);
        broken
            .iter()
            .map(|it| it.pod.key.name.to_string())
            .collect()
    }

    fn web(name: &str) -> PodBuilder {
        pod(name).label("app", "web")
    }

    #[test]
    fn a_budget_is_used_up_by_the_pods_in_their_order() {
        let selector = json!({ "matchLabels": { "app": "web" } });
        let pods = || {
            vec![
                web("a"),
                pod("other").label("app", "db"),
                web("b"),
                web("c"),
            ]
        };
        for (allowed, broken) in [(0, vec!["a", "b", "c"]), (1, vec!["b", "c"]), (3, vec![])] {
            let budgets = vec![budget("web", &selector, allowed, &[])];
            assert_eq!(broken_by(budgets, pods()), broken, "{allowed}");
        }
        let negative = vec![budget("web", &selector, -1, &[])];
        assert_eq!(broken_by(negative, vec![web("a")]), ["a"]);
    }

    #[test]
    fn every_budget_of_a_pod_counts_it() {
        let web_budget = budget("web", &json!({ "matchLabels": { "app": "web" } }), 1, &[]);
        let any = json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] });
        let all = budget("all", &any, 2, &[]);
        let pods = vec![web("a"), web("b"), pod("c").label("app", "db")];
        // `b` breaks the first and uses up the second all the same.
        assert_eq!(broken_by(vec![web_budget, all], pods), ["b", "c"]);
    }

    #[test]
    fn who_is_in_no_budget() {
        let everybody = || budget("empty", &json!({}), 0, &[]);
        let nobody = || budget("none", &json!(null), 0, &[]);
        let unread = json!({ "matchExpressions": [{ "key": "app", "operator": "Like" }] });
        let unread = || budget("unread", &unread, 0, &[]);
        let missing = json!({ "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] });
        let missing = || budget("missing", &missing, 0, &[]);
        let foreign = web("a").edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()));
        let selector = json!({ "matchLabels": { "app": "web" } });
        let web_budget = || budget("web", &selector, 0, &["counted"]);
        for (budgets, pod) in [
            (vec![everybody(), nobody(), unread()], web("a")),
            // It matches, but has no labels at all.
            (vec![missing()], pod("bare")),
            (vec![web_budget()], foreign),
            (vec![web_budget()], web("counted")),
        ] {
            assert!(broken_by(budgets, vec![pod]).is_empty());
        }
        assert_eq!(
            broken_by(vec![missing()], vec![pod("b").label("k", "v")]),
            ["b"]
        );
    }

    #[test]
    fn a_pod_that_the_api_server_has_counted_uses_up_nothing() {
        let selector = json!({ "matchLabels": { "app": "web" } });
        let budgets = vec![budget("web", &selector, 1, &["counted"])];
        assert!(broken_by(budgets, vec![web("counted"), web("a")]).is_empty());
    }
}
