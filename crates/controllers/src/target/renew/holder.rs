//! One version of a Secret, and the token in it. The kubeconfig is read only where renewal is asked for, and once as
//! long as it stays the same, whatever else is written on the Secret: its author may do that again and again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use pilotage_api::keys;
use pilotage_clusters::kubeconfig;
use pilotage_clusters::spec::SecretRef;

/// One version of a Secret, and where in it the kubeconfig is.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) reference: SecretRef,
    pub(super) secret: Arc<Secret>,
}

impl Holder {
    /// How long tokens shall live, as it stands there: that asks for renewal.
    pub(super) fn mark(&self) -> Option<&str> {
        let annotations = self.secret.metadata.annotations.as_ref();
        annotations?.get(keys::TOKEN_LIFE).map(String::as_str)
    }

    pub(super) fn kubeconfig(&self) -> Option<&[u8]> {
        let data = self.secret.data.as_ref()?.get(&self.reference.key)?;
        Some(&data.0)
    }

    fn token(&self) -> Option<String> {
        let context = self.reference.context.as_deref();
        kubeconfig::token(self.kubeconfig()?, context).ok()?
    }

    /// Whether the same token is in both.
    fn is_as(&self, other: &Self) -> bool {
        self.reference == other.reference && self.kubeconfig() == other.kubeconfig()
    }

    pub(super) fn place(&self) -> String {
        let SecretRef {
            namespace, name, ..
        } = &self.reference;
        format!("the token in secret {namespace}/{name}")
    }
}

/// The token that was read last.
#[derive(Default)]
pub(super) struct Tokens(Option<(Holder, Option<String>)>);

impl Tokens {
    /// The token that the kubeconfig logs in with, if renewal is asked for, and if it can be read and has one.
    pub(super) fn of(&mut self, holder: &Holder) -> Option<String> {
        self.read(holder, Holder::token)
    }

    fn read(
        &mut self,
        holder: &Holder,
        read: impl FnOnce(&Holder) -> Option<String>,
    ) -> Option<String> {
        let known = self.0.take();
        holder.mark()?;
        let known = known.filter(|(known, _)| known.is_as(holder));
        let token = known.map_or_else(|| read(holder), |(_, token)| token);
        self.0 = Some((holder.clone(), token.clone()));
        token
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kubeconfig(token: &str) -> Value {
        json!({
            "current-context": "a",
            "contexts": [
                { "name": "a", "context": { "cluster": "a", "user": "a" } },
                { "name": "b", "context": { "cluster": "a", "user": "b" } },
            ],
            "clusters": [{ "name": "a", "cluster": { "server": "https://one" } }],
            "users": [
                { "name": "a", "user": { "token": token } },
                { "name": "b", "user": { "token": "another" } },
            ],
        })
    }

    /// A version of a Secret that holds this token.
    fn holder(version: u64, mark: Option<&str>, token: &str, context: Option<&str>) -> Holder {
        let mut secret: Secret = serde_json::from_value(json!({
            "metadata": { "name": "far", "namespace": "shop", "resourceVersion": version.to_string() },
        }))
        .unwrap();
        let mark = mark.map(|mark| [(keys::TOKEN_LIFE.to_owned(), mark.to_owned())].into());
        secret.metadata.annotations = mark;
        let file = kubeconfig(token).to_string().into_bytes();
        secret.data = Some([("config".to_owned(), k8s_openapi::ByteString(file))].into());
        Holder {
            reference: SecretRef {
                namespace: "shop".into(),
                name: "far".into(),
                key: "config".into(),
                context: context.map(Into::into),
            },
            secret: Arc::new(secret),
        }
    }

    #[test]
    fn a_kubeconfig_is_read_once_and_only_where_renewal_is_asked_for() {
        let (mut tokens, mut reads) = (Tokens::default(), 0);
        let mut look = |version, mark, token: &str, context| {
            let token = tokens.read(&holder(version, mark, token, context), |holder| {
                reads += 1;
                holder.token()
            });
            (token, reads)
        };
        let (asked, first) = (Some("720h"), Some("one".to_owned()));
        assert_eq!(look(1, None, "one", None), (None, 0));
        // However often something else is written on it, another life among that.
        for version in 2..1_000 {
            assert_eq!(look(version, asked, "one", None), (first.clone(), 1));
        }
        assert_eq!(look(1_000, Some("24h"), "one", None), (first, 1));
        assert_eq!(look(1_001, asked, "two", None), (Some("two".into()), 2));
        let another = Some("another".to_owned());
        assert_eq!(look(1_001, asked, "two", Some("b")), (another, 3));
        // What can't be read isn't read again either.
        for version in 1_002..1_010 {
            assert_eq!(look(version, asked, "two", Some("nowhere")), (None, 4));
        }
        assert_eq!(look(1_010, None, "two", None), (None, 4));
        assert!(tokens.0.is_none(), "nothing is kept that nobody needs");
    }
}
