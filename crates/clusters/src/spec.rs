//! How a spec says that its target is reached.
//!
//! The API server refuses a spec with both ways or none, but objects may be older than that rule, so it is checked
//! here again. Must not know secrets' contents or clients.

use pilotage_api::{ClusterTargetSpec, TargetSpec};
use thiserror::Error;

/// Key of the secret's data unless the spec names one.
pub const DEFAULT_KEY: &str = "config";

/// How a target is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is this very cluster.
    Local,
    /// By a kubeconfig in a secret.
    Secret(SecretRef),
}

/// A kubeconfig in a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretRef {
    /// Namespace of the secret.
    pub namespace: String,
    /// Name of the secret.
    pub name: String,
    /// Key of its data.
    pub key: String,
    /// Context of the kubeconfig; `None`: its current one.
    pub context: Option<String>,
}

/// Why a spec doesn't say how its target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpecFault {
    /// Both ways at once.
    #[error("spec.self and spec.kubeconfigSecret exclude each other: remove one of them")]
    Both,
    /// Neither.
    #[error("exactly one of spec.self (true) and spec.kubeconfigSecret must be given")]
    Neither,
}

impl Access {
    /// What the spec of a `Target` in `namespace` says.
    pub fn of_target(namespace: &str, spec: &TargetSpec) -> Result<Self, SpecFault> {
        let secret = spec.kubeconfig_secret.as_ref().map(|secret| SecretRef {
            namespace: namespace.to_owned(),
            name: secret.name.clone(),
            key: key(secret.key.as_ref()),
            context: secret.context.clone().filter(|context| !context.is_empty()),
        });
        Self::choose(spec.self_, secret)
    }

    /// What the spec of a `ClusterTarget` says.
    pub fn of_cluster_target(spec: &ClusterTargetSpec) -> Result<Self, SpecFault> {
        let secret = spec.kubeconfig_secret.as_ref().map(|secret| SecretRef {
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
            key: key(secret.key.as_ref()),
            context: secret.context.clone().filter(|context| !context.is_empty()),
        });
        Self::choose(spec.self_, secret)
    }

    fn choose(self_: Option<bool>, secret: Option<SecretRef>) -> Result<Self, SpecFault> {
        match (self_.unwrap_or_default(), secret) {
            (true, None) => Ok(Self::Local),
            (false, Some(secret)) => Ok(Self::Secret(secret)),
            (true, Some(_)) => Err(SpecFault::Both),
            (false, None) => Err(SpecFault::Neither),
        }
    }
}

fn key(given: Option<&String>) -> String {
    given
        .filter(|key| !key.is_empty())
        .map_or_else(|| DEFAULT_KEY.to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use pilotage_api::{KubeconfigSecret, NamespacedKubeconfigSecret};

    use super::*;

    fn secret(key: Option<&str>) -> KubeconfigSecret {
        KubeconfigSecret {
            name: "s".into(),
            key: key.map(Into::into),
            context: Some(String::new()),
        }
    }

    #[test]
    fn exactly_one_way() {
        let wanted = |key: &str| {
            Ok(Access::Secret(SecretRef {
                namespace: "ns".into(),
                name: "s".into(),
                key: key.into(),
                context: None,
            }))
        };
        for (self_, kubeconfig_secret, want) in [
            (Some(true), None, Ok(Access::Local)),
            (None, Some(secret(None)), wanted("config")),
            (Some(false), Some(secret(Some("k"))), wanted("k")),
            (Some(true), Some(secret(None)), Err(SpecFault::Both)),
            (Some(false), None, Err(SpecFault::Neither)),
            (None, None, Err(SpecFault::Neither)),
        ] {
            let spec = TargetSpec {
                self_,
                kubeconfig_secret,
                excluded_labels_regexp: None,
            };
            assert_eq!(Access::of_target("ns", &spec), want, "{spec:?}");
        }
    }

    #[test]
    fn a_cluster_target_names_the_secrets_namespace() {
        let spec = ClusterTargetSpec {
            kubeconfig_secret: Some(NamespacedKubeconfigSecret {
                namespace: "keys".into(),
                name: "s".into(),
                key: None,
                context: Some("prod".into()),
            }),
            ..ClusterTargetSpec::default()
        };
        let Ok(Access::Secret(secret)) = Access::of_cluster_target(&spec) else {
            panic!()
        };
        assert_eq!(
            (secret.namespace.as_str(), secret.context.as_deref()),
            ("keys", Some("prod"))
        );
    }
}
