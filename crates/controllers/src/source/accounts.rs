//! Service accounts that were made for Sources, and what is kept of each: who it is, and whose. Whoever may create
//! service accounts writes the rest. Must not know what is done with them.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ServiceAccount, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, core::PartialObjectMeta};
use pilotage_api::keys::MANAGED_BY;
use pilotage_clusters::{Watch, WatchConfig};
use pilotage_runtime::thin::{FIELD, Path, thin};
use tokio_util::sync::CancellationToken;

/// Owners that are known of one: as many Sources may share it.
const OWNERS: usize = 64;
/// What is read of an account.
const OUTLINE: [Path; 9] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "ownerReferences"],
    &["metadata", "labels", MANAGED_BY.0],
];

/// Those with our label, in all namespaces.
pub(super) fn watch(client: &Client, stop: &CancellationToken) -> Watch<ServiceAccount> {
    let config = WatchConfig::all().labels(format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
    let config = config.trim(trim).slim(trim).heavy(outline);
    Watch::of_client(client.clone(), config, stop)
}

/// An account of which an API server was asked for no more.
pub(super) fn known(account: PartialObjectMeta<ServiceAccount>) -> ServiceAccount {
    let mut account = ServiceAccount {
        metadata: account.metadata,
        ..ServiceAccount::default()
    };
    trim(&mut account);
    account
}

fn trim(account: &mut ServiceAccount) {
    let meta = std::mem::take(&mut account.metadata);
    let label = meta
        .labels
        .and_then(|mut all| all.remove_entry(MANAGED_BY.0));
    let owners = meta.owner_references.map(|mut owners| {
        owners.truncate(OWNERS);
        owners
    });
    *account = ServiceAccount {
        metadata: ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            deletion_timestamp: meta.deletion_timestamp,
            owner_references: owners,
            labels: label.map(|label| BTreeMap::from([label])),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
}

/// An account that is too heavy to be read whole.
fn outline(text: &str) -> serde_json::Result<ServiceAccount> {
    let thin = thin(text, &OUTLINE, FIELD)?;
    let mut account = serde_json::from_str(&thin.text)?;
    trim(&mut account);
    Ok(account)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_heavy_account_it_is_known_who_and_whose_it_is() {
        let owner = json!({ "apiVersion": "v1", "kind": "Source", "name": "s", "uid": "s" });
        let text = json!({
            "metadata": {
                "namespace": "shop", "name": "robot", "uid": "u", "resourceVersion": "1",
                "labels": { MANAGED_BY.0: MANAGED_BY.1, "a": "b" }, "ownerReferences": [owner],
                "annotations": { "a": "x".repeat(200_000) },
            },
            "secrets": vec![json!({}); 100_000],
        });
        let mut trimmed: ServiceAccount = serde_json::from_value(text.clone()).unwrap();
        trim(&mut trimmed);
        let outlined = outline(&text.to_string()).unwrap();
        assert_eq!(trimmed, outlined);
        let meta = json!({
            "namespace": "shop", "name": "robot", "uid": "u", "resourceVersion": "1",
            "labels": { MANAGED_BY.0: MANAGED_BY.1 }, "ownerReferences": [owner],
        });
        assert_eq!(serde_json::to_value(&trimmed.metadata).unwrap(), meta);
        assert!(trimmed.secrets.is_none());
    }
}
