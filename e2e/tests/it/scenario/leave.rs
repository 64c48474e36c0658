//! What a target's API server logged of evictions: nobody went there before a grant had landed, nor but by the
//! scheduler that the grant was for.

use pilotage_e2e::fleet::SOURCE_ACCOUNT;
use pilotage_testkit::{
    ControlPlane, audit::Entry, build::node, plane::Builder, plane::audit::Policy,
};

use super::Shop;

/// A target with a log of its writes, and nodes of one core, which have these names.
pub(super) fn audited_target<const N: usize>(name: &str, nodes: [&str; N]) -> Builder {
    let nodes = nodes.map(|name| node(name).cpu("1").build());
    let plane = ControlPlane::builder(name).controller_manager();
    plane.kwok(nodes).audit(Policy::Writes)
}

/// What was done in a target, in order: `grant` (a source's write to a chaperon), `evict <pod>`, `bind`. Who tries
/// again is shown once.
pub(super) async fn steps(shop: &Shop, target: &str) -> Vec<String> {
    let mut steps = every_step(shop, target).await;
    steps.dedup();
    steps
}

/// The same, with every try that was accepted.
pub(super) async fn every_step(shop: &Shop, target: &str) -> Vec<String> {
    let source = format!("system:serviceaccount:{}:{SOURCE_ACCOUNT}", shop.name);
    let scheduler = "system:serviceaccount:pilotage:candidate-scheduler";
    let log = shop.target(target).plane.audit().unwrap();
    let entries = log.entries_in(&shop.name).await.unwrap();
    let ours = entries.into_iter().filter(Entry::accepted);
    let steps = ours.filter_map(|entry| {
        let done = (entry.verb.as_str(), entry.full_resource());
        match (done.0, done.1.as_str()) {
            ("patch", "podchaperons") if entry.user == source => Some("grant".to_owned()),
            ("delete", "pods") if entry.user == scheduler => Some(format!("evict {}", entry.name)),
            ("create", "pods/binding") if entry.user == scheduler => Some("bind".to_owned()),
            _ => None,
        }
    });
    steps.collect()
}
