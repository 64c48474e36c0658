//! Whatever stands in a kubeconfig, in a flag, in a summary, or on the wire: it is bounded here, and what is told of it
//! is short.

use kube::Config;
use pilotage_absurd::{json, text};
use pilotage_api::{ClusterSummary, ClusterTarget, Target};
use pilotage_api::{bounds, parent::ClusterUid};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::allow::{Allowed, Place};
use crate::connection::LostReason;
use crate::spec::{Access, SecretRef};
use crate::{identity, kubeconfig};

/// What is told of a mistake has at most so many bytes. A Target's condition takes 32,768.
const TOLD: usize = 16 * 1024;

fn kubeconfig_file() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            { "name": "main", "context": { "cluster": "c", "user": "u", "namespace": "shop" } },
            { "name": "other", "context": { "cluster": "c", "user": "u" } },
        ],
        "clusters": [{ "name": "c", "cluster": {
            "server": "https://one:6443",
            "insecure-skip-tls-verify": true,
            "tls-server-name": "one",
            "disable-compression": true,
            // BEGIN CERTIFICATE and three letters.
            "certificate-authority-data":
                "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllXSmoKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "proxy-url": "",
        } }],
        "users": [{ "name": "u", "user": {
            "token": "t",
            "username": "me",
            "password": "pw",
            "client-certificate-data": "YWJj",
            "client-key-data": "YWJj",
        } }],
    })
}

fn files() -> BoxedStrategy<Vec<u8>> {
    let file = || Just(kubeconfig_file());
    let bytes = |value: Value| value.to_string().into_bytes();
    prop_oneof![
        3 => json::extreme(file()).prop_map(bytes),
        1 => json::junk_in(file()).prop_map(bytes),
        2 => text::damaged(file().prop_map(|file| file.to_string())),
        1 => text::bytes(),
        1 => json::claimed().prop_map(String::into_bytes),
        1 => (select(&["- ", "? ", "a: &a [*a]\n", "{? ", "<<: ", "\"\\U", "|\n  "][..]), 0..9_000_usize)
            .prop_map(|(piece, count)| piece.repeat(count).into_bytes()),
    ]
    .boxed()
}

/// A URL, or nearly.
fn url() -> BoxedStrategy<String> {
    let host = prop_oneof![
        2 => "[a-zA-Z0-9.-]{1,20}",
        1 => select(&["10.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "[", "0x7f.1", "a@b",
            "xn--a"][..]).prop_map(str::to_owned),
        1 => text::text(),
    ];
    (
        select(&["https", "http", "ftp", ""][..]),
        host,
        text::number(),
    )
        .prop_map(|(scheme, host, port)| format!("{scheme}://{host}:{port}"))
        .boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn a_kubeconfig_leads_somewhere_or_its_fault_is_short(file in files(), context in prop::option::of(text::text())) {
        match kubeconfig::parse(&file, context.as_deref()) {
            Ok(config) => {
                let url = &config.cluster_url;
                prop_assert!(matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some());
                prop_assert!(config.proxy_url.is_none());
                prop_assert!(config.auth_info.exec.is_none() && config.auth_info.auth_provider.is_none());
                prop_assert!(config.auth_info.token_file.is_none());
                prop_assert!(config.auth_info.client_certificate.is_none() && config.auth_info.client_key.is_none());
                prop_assert!(config.default_namespace.len() <= file.len().max(7));
            }
            Err(fault) => {
                let secret = SecretRef { namespace: "a".into(), name: "b".into(), key: "c".into(), context: None };
                let reason = LostReason::KubeconfigUnreadable { secret, fault: Box::new(fault) };
                prop_assert!(reason.to_string().len() <= TOLD, "{} bytes", reason.to_string().len());
            }
        }
    }

    #[test]
    fn where_a_server_may_be_is_decided_for_any_url(
        url in url(), places in prop::collection::vec(prop_oneof![
            2 => text::text(), 1 => "(\\*\\.)?[a-zA-Z0-9._-]{1,20}", 1 => "[0-9a-f:.]{2,20}(/[0-9]{1,4})?",
        ], 0..4),
    ) {
        let places: Vec<Place> = places.iter().filter_map(|text| text.parse().ok()).collect();
        let none = places.is_empty();
        let allowed = Allowed { insecure: false, places: places.into() };
        let Ok(url) = url.parse::<http::Uri>() else { return Ok(()) };
        let https = url.scheme_str() == Some("https");
        match allowed.check(&Config::new(url)) {
            Ok(()) => prop_assert!(https),
            Err(refusal) => {
                prop_assert!(!(https && none), "{}", refusal);
                prop_assert!(refusal.to_string().len() <= 4096, "{}", refusal);
            }
        }
    }

    #[test]
    fn who_a_cluster_is_can_be_a_uid(uid in prop::option::of(text::text())) {
        let summary = ClusterSummary { cluster_uid: uid.map(ClusterUid), ..ClusterSummary::default() };
        let said = identity::said(summary);
        prop_assert!(said.is_none_or(|uid| bounds::is_uid(&uid.0)));
    }

    #[test]
    fn any_target_is_reached_one_way_or_none(object in json::junk_in(Just(json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "Target", "metadata": { "name": "a",
        "namespace": "b" },
        "spec": { "self": null, "kubeconfigSecret": { "namespace": "a", "name": "b", "key": "c", "context": "d" } },
    })))) {
        let accesses = [
            serde_json::from_value::<Target>(object.clone()).ok().map(|it| Access::of_target("b", &it.spec)),
            serde_json::from_value::<ClusterTarget>(object.clone()).ok().map(|it| Access::of_cluster_target(&it.spec)),
        ];
        for access in accesses.into_iter().flatten() {
            match access {
                Ok(Access::Secret(secret)) => {
                    prop_assert!(!secret.key.is_empty() && secret.context != Some(String::new()));
                }
                Ok(Access::Local) => {}
                Err(fault) => prop_assert!(fault.to_string().len() <= 1024),
            }
        }
    }
}
