//! Whom an urgent pod evicts in full targets where some are under a `PodDisruptionBudget`: the least important of those
//! that no budget spares, wherever they are; one that a budget spares only if nothing else helps.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::wait_for;
use serde_json::json;

use super::evictions::{occupied, urgent, with_classes};
use super::leave::{audited_target, steps};
use super::{LIMIT, Shop, node_of, started};

/// A budget that has nobody spared on a node; waits until the target's controller has counted.
async fn spared(shop: &Shop, target: &str, node: &str) {
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": node, "namespace": shop.name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "on": node } } },
    });
    let plane = &shop.target(target).plane;
    plane.apply_yaml(&budget.to_string()).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(plane.admin(), &shop.name);
    let counted = |budget: &PodDisruptionBudget| {
        let status = budget.status.as_ref();
        status.is_some_and(|it| it.current_healthy == Some(1) && it.disruptions_allowed == Some(0))
    };
    wait_for(&budgets, node, counted, LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lowest_go_whom_no_budget_spares_and_a_budget_is_broken_last() {
    let spec = Spec::new()
        .target_plane(audited_target("east", ["spared", "cheap"]))
        .target_plane(audited_target("west", ["dear"]));
    let shop = Shop::unconnected(started(spec).await, "budgets").await;
    for cluster in shop.fleet.all() {
        with_classes(cluster).await;
    }
    occupied(&shop, "east", "spared", "low").await;
    occupied(&shop, "east", "cheap", "low").await;
    occupied(&shop, "west", "dear", "middle").await;
    spared(&shop, "east", "spared").await;
    shop.fleet.connect(&shop.name).await.unwrap();

    for (pod, place) in [
        ("first", ("east", "cheap")),
        // It matters more than who is spared; that counts behind the budget.
        ("second", ("west", "dear")),
        ("third", ("east", "spared")),
    ] {
        let (target, delegate) = urgent(&shop, pod).await;
        assert_eq!(
            (&*target, node_of(&delegate)),
            (place.0, Some(place.1)),
            "{pod}"
        );
    }
    let east = [
        "grant",
        "evict on-cheap",
        "bind",
        "grant",
        "evict on-spared",
        "bind",
    ];
    assert_eq!(steps(&shop, "east").await, east);
    assert_eq!(
        steps(&shop, "west").await,
        ["grant", "evict on-dear", "bind"]
    );
}
