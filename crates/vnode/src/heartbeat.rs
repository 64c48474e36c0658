//! The lease of one virtual node: the heartbeat of this process, whatever the target does.
//!
//! Node lifecycle marks a node Unknown when its lease isn't renewed. A lost target is told by Ready=False instead, so
//! the lease goes on: silence means that *we* are away, and must never be taken for the target's.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_clusters::Watch;
use pilotage_runtime::call::{self, CallError};
use pilotage_runtime::lease::Leadership;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::act::FIELD_MANAGER;
use crate::args::NodeArgs;
use crate::rbac::LEASE_NAMESPACE;

/// Renews the lease of `node` for ever, as long as the node exists and this process leads.
pub(crate) async fn run(
    client: Client,
    leadership: Leadership,
    nodes: Watch<Node>,
    node: String,
    args: NodeArgs,
) {
    let leases: Api<Lease> = Api::namespaced(client, LEASE_NAMESPACE);
    let mut ticks = interval(args.node_heartbeat_period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing_since: Option<Instant> = None;
    loop {
        ticks.tick().await;
        leadership.acquired().await;
        let Some(uid) = nodes
            .get(None, &node)
            .and_then(|node| node.metadata.uid.clone())
        else {
            continue;
        };
        let lease = lease(&node, &uid, args.node_lease_duration, Timestamp::now());
        match renew(&leases, &node, &lease, args.node_heartbeat_period).await {
            Ok(()) => failing_since = None,
            Err(error) => {
                let since = *failing_since.get_or_insert_with(Instant::now);
                tracing::warn!(node, %error, failing_for = ?since.elapsed(), "failed to renew the node's lease");
            }
        }
    }
}

async fn renew(
    leases: &Api<Lease>,
    node: &str,
    lease: &Value,
    limit: Duration,
) -> Result<(), CallError> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    call::within(limit, leases.patch(node, &params, &Patch::Apply(lease)))
        .await
        .map(drop)
}

/// A node's lease as kubelets write it; it goes with its node.
fn lease(node: &str, uid: &str, duration: Duration, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": duration.as_secs(),
            "renewTime": format!("{now:.6}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_one_that_the_types_can_read() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let value = lease("n", "u", Duration::from_secs(40), now);
        assert_eq!(value["spec"]["renewTime"], "2026-11-21T12:00:00.000000Z");
        let lease: Lease = serde_json::from_value(value).unwrap();
        assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(40));
    }
}
