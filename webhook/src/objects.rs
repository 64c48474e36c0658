//! The objects that the webhook installs: its MutatingWebhookConfiguration, and two policies with their bindings, each
//! a ValidatingAdmissionPolicy. One guards what the mutation promises, the other one what is written on Targets. Pure.
//!
//! Every field that matters is spelled out, also where it is the API server's default: only what is applied is owned,
//! and only what is owned is repaired.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilotage_api::keys;
use serde_json::{Value, json};

use crate::router::PATH;

mod guard;
mod places;

/// Name of the MutatingWebhookConfiguration. The API server calls webhooks in the order of these names; one that comes
/// late sees what the others injected, and has the last word on the fields that it owns.
pub const CONFIGURATION: &str = "zz-pilotage";
/// Name of the one webhook in it.
pub const WEBHOOK: &str = "elect.pods.multicluster.admiralty.io";
/// Name of the ValidatingAdmissionPolicy of pods and of its binding.
pub const POLICY: &str = "pilotage-proxy-pods";
/// Name of the ValidatingAdmissionPolicy of Targets of both kinds, and of its binding.
pub const TARGETS_POLICY: &str = "pilotage-targets";
/// Expression: something is made, not changed.
const IS_CREATE: &str = "request.operation == 'CREATE'";

/// How the API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Through a Service of the same cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// At a fixed address.
    Url(String),
}

impl Reach {
    /// The names that the serving certificate must be good for.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service {
                namespace, name, ..
            } => vec![format!("{name}.{namespace}.svc")],
            Self::Url(url) => host(url).into_iter().map(str::to_owned).collect(),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Service {
                namespace,
                name,
                port,
            } => {
                json!({ "service": { "namespace": namespace, "name": name, "port": port, "path": PATH } })
            }
            Self::Url(url) => json!({ "url": format!("{}{PATH}", url.trim_end_matches('/')) }),
        }
    }
}

/// Host of `https://host:port`, without the brackets of an IPv6 address.
pub(crate) fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://")?;
    let authority = rest.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Who writes what Pilotage alone may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writers {
    /// All service accounts of this namespace.
    AccountsOf(String),
    /// These users, as the API server calls them.
    Users(Vec<String>),
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AccountsOf(namespace) => {
                write!(f, "the service accounts of namespace {namespace}")
            }
            Self::Users(users) => f.write_str(&users.join(", ")),
        }
    }
}

/// All objects to install.
pub fn all(reach: &Reach, writers: &Writers, ca_bundle: Option<&str>) -> Vec<Value> {
    vec![
        places::policy(),
        binding(TARGETS_POLICY),
        guard::policy(writers),
        binding(POLICY),
        configuration(reach, ca_bundle),
    ]
}

/// The MutatingWebhookConfiguration. Without a bundle, whoever put one there keeps it.
pub fn configuration(reach: &Reach, ca_bundle: Option<&str>) -> Value {
    let mut client_config = reach.to_value();
    if let Some(bundle) = ca_bundle {
        client_config["caBundle"] = STANDARD.encode(bundle).into();
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": CONFIGURATION, "labels": labels() },
        "webhooks": [{
            "name": WEBHOOK,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client_config,
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                // Updates are the policy's: it needs no server, so a pod can be changed while we are away.
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }],
            "namespaceSelector": { "matchLabels": { keys::NAMESPACE_LABEL: keys::NAMESPACE_LABEL_VALUE } },
            "matchConditions": [{
                "name": "elected",
                // The shorter `in object.metadata.annotations` fails for pods without annotations, and refuses them.
                "expression": format!("'{}' in object.metadata.?annotations.orValue({{}})", keys::ELECT),
            }],
            "matchPolicy": "Equivalent",
            // An elected pod that is not made a proxy would run here.
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            // Events tell of pods that stay local.
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 5,
        }],
    })
}

/// The binding of a policy: everywhere, and deny.
fn binding(policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": policy, "labels": labels() },
        "spec": { "policyName": policy, "validationActions": ["Deny"] },
    })
}

/// Only the bundle, for a configuration that somebody else installs.
pub fn bundle_only(ca_bundle: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": CONFIGURATION },
        "webhooks": [{ "name": WEBHOOK, "clientConfig": { "caBundle": STANDARD.encode(ca_bundle) } }],
    })
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": "pilotage" })
}

/// Whether `live` has everything that `wanted` says: maps may have more, lists may not.
pub fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| live.get(key).is_some_and(|live| covers(live, wanted))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| covers(live, wanted))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Reach {
        Reach::Service {
            namespace: "pilotage".into(),
            name: "pilotage-webhook".into(),
            port: 443,
        }
    }

    #[test]
    fn what_is_installed() {
        insta::assert_yaml_snapshot!(
            "installed",
            all(
                &service(),
                &Writers::AccountsOf("pilotage".into()),
                Some("PEM")
            )
        );
    }

    #[test]
    fn names_for_the_certificate() {
        for (url, want) in [
            ("https://127.0.0.1:9443", "127.0.0.1"),
            ("https://hooks.example.com", "hooks.example.com"),
            ("https://hooks.example.com/base", "hooks.example.com"),
            ("https://[::1]:9443", "::1"),
        ] {
            assert_eq!(Reach::Url(url.to_owned()).names(), [want], "{url}");
        }
        for url in ["http://a:1", "a:1", "https://:1", "https://"] {
            assert_eq!(host(url), None, "{url}");
        }
        assert_eq!(service().names(), ["pilotage-webhook.pilotage.svc"]);
    }

    #[test]
    fn urls_get_the_path_and_no_bundle_is_no_field() {
        let reach = Reach::Url("https://127.0.0.1:9443/".into());
        let object = configuration(&reach, None);
        assert_eq!(
            object["webhooks"][0]["clientConfig"],
            json!({ "url": "https://127.0.0.1:9443/mutate--v1-pod" })
        );
    }

    #[test]
    fn drift_is_what_is_missing_or_different() {
        let wanted = json!({ "a": 1, "b": [{ "c": "x" }] });
        for (live, covered) in [
            (json!({ "a": 1, "b": [{ "c": "x", "d": 1 }], "e": 2 }), true),
            (json!({ "a": 2, "b": [{ "c": "x" }] }), false),
            (json!({ "b": [{ "c": "x" }] }), false),
            (json!({ "a": 1, "b": [] }), false),
            (json!({ "a": 1, "b": [{ "c": "x" }, {}] }), false),
        ] {
            assert_eq!(covers(&live, &wanted), covered, "{live}");
        }
    }
}
