//! What is stored in a plane that nobody has used, and how to get back there. It knows etcd's keys and no API server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::store::{KeyValue, REGISTRY, REGISTRY_END, ask, decoded, encoded};

/// What an API server makes by itself soon after it is ready.
const OWN: [&str; 8] = [
    "configmaps/kube-system/extension-apiserver-authentication",
    "ipaddresses/10.0.0.1",
    "namespaces/default",
    "namespaces/kube-node-lease",
    "namespaces/kube-public",
    "namespaces/kube-system",
    "servicecidrs/kubernetes",
    "services/specs/default/kubernetes",
];
/// What it goes on writing itself: it stays as it is now, if it was there.
const KEPT: [&str; 5] = [
    "apiregistration.k8s.io/apiservices/",
    "flowschemas/",
    "leases/kube-system/apiserver-",
    "prioritylevelconfigurations/",
    "servicecidrs/kubernetes",
];
/// What shapes the API server itself: it takes and drops whole kinds by these.
const SHAPES: [&str; 2] = [
    "apiextensions.k8s.io/customresourcedefinitions/",
    "apiregistration.k8s.io/apiservices/",
];
/// What decides what is admitted.
const POLICIES: [&str; 2] = [
    "validatingadmissionpolicies/",
    "validatingadmissionpolicybindings/",
];
/// Operations of one transaction; etcd takes 128.
const AT_ONCE: usize = 100;
/// For an API server to make what it makes by itself, and between two looks.
const MADE: Duration = crate::wait::LIMIT;
const LOOK: Duration = Duration::from_millis(50);

/// All keys without `/registry/`, with their revisions and base64 values.
#[derive(Debug)]
pub(super) struct Snapshot(BTreeMap<String, (u64, String)>);

/// What leads back to a snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
struct Way<'a> {
    delete: Vec<&'a str>,
    put: Vec<(&'a str, &'a str)>,
}

/// What a way back took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone {
    /// Admission policies, or bindings of some.
    pub(super) has_policies: bool,
}

#[derive(Debug, Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Debug, Deserialize)]
struct Done {
    #[serde(default)]
    succeeded: bool,
}

impl Snapshot {
    /// Of a plane that was just started, once its API server has made what it makes by itself.
    pub(super) async fn take(etcd: SocketAddr) -> Result<Self, String> {
        let end = Instant::now() + MADE;
        loop {
            let snapshot = Self(read(etcd, false).await?);
            let Some(absent) = OWN.iter().find(|key| !snapshot.0.contains_key(**key)) else {
                return Ok(snapshot);
            };
            if Instant::now() >= end {
                return Err(format!("the API server made no {absent}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Brings everything back to where it was; fails if it can't be brought back.
    pub(super) async fn restore(&self, etcd: SocketAddr) -> Result<Gone, String> {
        let now = read(etcd, true).await?;
        let way = self.way_from(&now)?;
        for transaction in way.transactions() {
            let done: Done = ask(etcd, "/v3/kv/txn", &transaction).await?;
            if !done.succeeded {
                return Err("etcd refused the transaction".to_owned());
            }
        }
        Ok(way.gone())
    }

    fn way_from<'a>(&'a self, now: &'a BTreeMap<String, (u64, String)>) -> Result<Way<'a>, String> {
        let mut way = Way::default();
        for key in now.keys().filter(|key| !self.0.contains_key(*key)) {
            if is_of(key, &SHAPES) {
                return Err(format!("{key} is new"));
            }
            way.delete.push(key);
        }
        for (key, (revision, value)) in &self.0 {
            let is_same = now.get(key).is_some_and(|(now, _)| now == revision);
            if is_same || (now.contains_key(key) && is_of(key, &KEPT)) {
                continue;
            }
            if is_of(key, &SHAPES) {
                return Err(format!("{key} has changed"));
            }
            way.put.push((key, value));
        }
        Ok(way)
    }
}

impl Way<'_> {
    fn gone(&self) -> Gone {
        Gone {
            has_policies: self.delete.iter().any(|key| is_of(key, &POLICIES)),
        }
    }

    fn transactions(&self) -> Vec<Value> {
        let key = |key: &str| encoded(&format!("{REGISTRY}{key}"));
        let delete = self.delete.iter();
        let delete = delete.map(|it| json!({ "request_delete_range": { "key": key(it) } }));
        let put = self.put.iter();
        let put =
            put.map(|(it, value)| json!({ "request_put": { "key": key(it), "value": value } }));
        let all: Vec<Value> = delete.chain(put).collect();
        all.chunks(AT_ONCE)
            .map(|chunk| json!({ "success": chunk }))
            .collect()
    }
}

fn is_of(key: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|it| key.starts_with(it))
}

async fn read(
    etcd: SocketAddr,
    keys_only: bool,
) -> Result<BTreeMap<String, (u64, String)>, String> {
    let range = json!({
        "key": encoded(REGISTRY),
        "range_end": encoded(REGISTRY_END),
        "keys_only": keys_only,
    });
    let range: Range = ask(etcd, "/v3/kv/range", &range).await?;
    let kvs = range.kvs.into_iter().map(|kv| {
        let key = String::from_utf8_lossy(&decoded(&kv.key)?).into_owned();
        let key = key.strip_prefix(REGISTRY).unwrap_or(&key).to_owned();
        Ok((key, (kv.mod_revision.0, kv.value)))
    });
    kvs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(keys: &[(&str, u64)]) -> BTreeMap<String, (u64, String)> {
        let stored = keys.iter();
        stored
            .map(|(key, revision)| ((*key).to_owned(), (*revision, format!("{key}@{revision}"))))
            .collect()
    }

    #[test]
    fn new_keys_go_changed_ones_come_back_and_the_servers_own_stay() {
        let before = Snapshot(stored(&[
            ("clusterroles/admin", 3),
            ("clusterroles/edit", 4),
            ("clusterroles/view", 5),
            ("flowschemas/exempt", 6),
            ("leases/kube-system/apiserver-x", 7),
        ]));
        let now = stored(&[
            ("clusterroles/admin", 3),
            ("clusterroles/edit", 40),
            ("flowschemas/exempt", 60),
            ("flowschemas/of-a-test", 61),
            ("leases/kube-system/apiserver-x", 70),
            ("leases/kube-system/other", 80),
            ("pods/a/b", 90),
        ]);
        let way = Way {
            delete: vec![
                "flowschemas/of-a-test",
                "leases/kube-system/other",
                "pods/a/b",
            ],
            put: vec![
                ("clusterroles/edit", "clusterroles/edit@4"),
                ("clusterroles/view", "clusterroles/view@5"),
            ],
        };
        assert_eq!(before.way_from(&now), Ok(way));
        assert_eq!(before.way_from(&before.0), Ok(Way::default()));
    }

    #[test]
    fn no_way_leads_back_from_other_kinds() {
        let [targets, sources] =
            ["targets", "sources"].map(|name| format!("{}{name}.group", SHAPES[0]));
        let before = Snapshot(stored(&[(&targets, 1)]));
        let error = |now: &[(&str, u64)]| before.way_from(&stored(now)).map(|_| ()).unwrap_err();
        assert_eq!(error(&[]), format!("{targets} has changed"));
        assert_eq!(error(&[(&targets, 2)]), format!("{targets} has changed"));
        let both = [(targets.as_str(), 1), (sources.as_str(), 2)];
        assert_eq!(error(&both), format!("{sources} is new"));
    }

    #[test]
    fn policies_and_their_bindings_are_told_of_when_they_go() {
        let before = Snapshot(stored(&[("validatingadmissionpolicies/own", 1)]));
        let has_policies = |now: &[(&str, u64)]| {
            let now = stored(now);
            before.way_from(&now).unwrap().gone().has_policies
        };
        let own = ("validatingadmissionpolicies/own", 1);
        assert!(!has_policies(&[own, ("pods/a/b", 2)]));
        assert!(has_policies(&[own, ("validatingadmissionpolicies/b", 2)]));
        let binding = ("validatingadmissionpolicybindings/b", 2);
        assert!(has_policies(&[own, binding]));
    }

    #[test]
    fn transactions_are_cut() {
        let names: Vec<String> = (0..=AT_ONCE).map(|number| number.to_string()).collect();
        let way = Way {
            delete: names.iter().map(String::as_str).collect(),
            put: vec![("a", "dmFsdWU=")],
        };
        let transactions = way.transactions();
        let lengths = transactions
            .iter()
            .map(|it| it["success"].as_array().unwrap().len());
        assert_eq!(lengths.collect::<Vec<_>>(), [AT_ONCE, 2]);
        let put = json!({ "request_put": { "key": encoded("/registry/a"), "value": "dmFsdWU=" } });
        assert_eq!(transactions[1]["success"][1], put);
    }
}
