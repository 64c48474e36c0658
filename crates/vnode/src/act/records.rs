//! The records of all proxy pods, read live: whoever decides that a target may go must not miss the last one.
//!
//! A page's pods may have 256 KiB of other people's annotations each, so that pages are small, and nothing is kept of
//! them but what records name.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_api::limits::SUBDOMAIN;
use pilotage_api::record::Record;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};

/// Pods in one page.
const PAGE: u32 = 20;

/// What the records name.
#[derive(Debug, Default)]
pub(crate) struct Records {
    sound: Vec<Record>,
    /// Virtual nodes of damaged ones.
    damaged: HashSet<String>,
    /// Whether a damaged one doesn't say its node any more.
    anywhere: bool,
}

impl Records {
    /// Reads those of all namespaces.
    pub(crate) async fn read(client: &Client) -> Result<Self, CallError> {
        let proxies = format!("spec.schedulerName={}", keys::PROXY_SCHEDULER);
        let mut records = Self::default();
        each_pod(client, &proxies, |pod| {
            let annotations = pod.annotations.as_ref();
            if let Some(text) = annotations.and_then(|all| all.get(keys::GRANTED_TO)) {
                records.add(text);
            }
            true
        })
        .await?;
        Ok(records)
    }

    fn add(&mut self, text: &str) {
        match (text.parse(), text.split_once('/')) {
            (Ok(record), _) => self.sound.push(record),
            (Err(_), Some((node, _))) if !node.is_empty() => {
                if node.len() <= SUBDOMAIN {
                    self.damaged.insert(node.to_owned());
                }
            }
            (Err(_), _) => self.anywhere = true,
        }
    }

    /// Whether one may be at this virtual node. A damaged one may be, unless it still names another.
    pub(crate) fn may_name(&self, node: &str) -> bool {
        self.anywhere
            || self.damaged.contains(node)
            || self.sound.iter().any(|record| record.node == node)
    }

    /// UIDs of the chaperons that records at other nodes name: two Targets may stand for one cluster.
    pub(crate) fn elsewhere(&self, node: &str) -> HashSet<&str> {
        let others = self.sound.iter().filter(|record| record.node != node);
        others.map(|record| record.chaperon_uid.as_str()).collect()
    }
}

/// Lists pods of all namespaces until `take` has seen enough of them, and says so with `false`.
pub(crate) async fn each_pod(
    client: &Client,
    fields: &str,
    mut take: impl FnMut(&ObjectMeta) -> bool,
) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut params = ListParams::default().fields(fields).limit(PAGE);
    loop {
        let page = call::within(CALL_LIMIT, pods.list_metadata(&params)).await?;
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        let wants_more = page.items.iter().all(|pod| take(&pod.metadata));
        if !wants_more || params.continue_token.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(texts: &[&str]) -> Records {
        let mut records = Records::default();
        for text in texts {
            records.add(text);
        }
        records
    }

    #[test]
    fn a_record_names_its_node_and_what_it_names_elsewhere_is_spared() {
        let records = records(&["admiralty-a/u-1/1", "admiralty-b/u-2/-"]);
        assert!(records.may_name("admiralty-a") && records.may_name("admiralty-b"));
        assert!(!records.may_name("admiralty-c"));
        assert_eq!(records.elsewhere("admiralty-a"), HashSet::from(["u-2"]));
        assert_eq!(records.elsewhere("admiralty-c").len(), 2);
    }

    #[test]
    fn a_damaged_record_may_be_at_its_node_or_at_any() {
        for (text, at_a, at_b) in [
            ("admiralty-a/u-1", true, false),
            ("admiralty-a/u-1/0", true, false),
            ("admiralty-a/u-1/x/y", true, false),
            ("admiralty-a/", true, false),
            ("/u-1/1", true, true),
            ("admiralty-a", true, true),
            ("garbage", true, true),
            ("", true, true),
        ] {
            let records = records(&[text]);
            assert_eq!(records.may_name("admiralty-a"), at_a, "{text}");
            assert_eq!(records.may_name("admiralty-b"), at_b, "{text}");
            assert!(records.elsewhere("admiralty-c").is_empty(), "{text}");
        }
    }

    #[test]
    fn nothing_is_kept_of_what_no_node_is_called() {
        let records = records(&[&format!("{}/u-1/0", "x".repeat(200_000))]);
        assert!(records.damaged.is_empty() && !records.anywhere);
    }
}
