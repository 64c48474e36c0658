//! What a target's API server logged of evictions: nobody went there before a grant had landed, nor but by the scheduler
//! that the grant was for.

use pilotage_e2e::fleet::SOURCE_ACCOUNT;
use pilotage_testkit::{ControlPlane, build::node, plane::Builder, plane::audit::Policy};

use super::Shop;

/// A target with a log of its writes, and nodes of one core, which have these names.
pub(super) fn audited_target<const N: usize>(name: &str, nodes: [&str; N]) -> Builder {
    let nodes = nodes.map(|name| node(name).cpu("1").build());
    let plane = ControlPlane::builder(name).controller_manager();
    plane.kwok(nodes).audit(Policy::Writes)
}

/// What was done in a target, in order: `grant` (a source's write to a chaperon), `evict <pod>`, `bind`. Who tries again
/// is shown once.
pub(super) async fn steps(shop: &Shop, target: &str) -> Vec<String> {
    let source = format!("system:serviceaccount:{}:{SOURCE_ACCOUNT}", shop.name);
    let scheduler = "system:serviceaccount:pilotage:candidate-scheduler";
    let log = shop.target(target).plane.audit().unwrap();
    let mut steps = Vec::new();
    for entry in log.entries().await.unwrap() {
        if entry.namespace != shop.name || !entry.accepted() {
            continue;
        }
        let done = (entry.verb.as_str(), entry.full_resource());
        let step = match (done.0, done.1.as_str()) {
            ("patch", "podchaperons") if entry.user == source => "grant".to_owned(),
            ("delete", "pods") if entry.user == scheduler => format!("evict {}", entry.name),
            ("create", "pods/binding") if entry.user == scheduler => "bind".to_owned(),
            _ => continue,
        };
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    steps
}
