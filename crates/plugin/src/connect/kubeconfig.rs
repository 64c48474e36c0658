//! What the source gets from `connect`: a token of its account in a kubeconfig. One that doesn't connect a Target that
//! was connected is taken back.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use pilotage_api::{ClusterTarget, Target};
use pilotage_runtime::call::{CALL_LIMIT, find, within};
use serde_json::Value;

use super::Work;
use crate::error::{Error, with_causes};
use crate::interrupt::Interrupts;
use crate::plan::Connection;
use crate::wait::{self, Shows};
use crate::{address, progress};

/// The token of the Source's account.
pub(super) struct Token {
    pub(super) text: String,
    /// The one before, if it was made void.
    void: Option<String>,
}

impl Token {
    /// A kubeconfig with this token, if it had the one that is void now.
    pub(super) fn in_place_of_the_old_one(&self, kubeconfig: &str) -> String {
        match &self.void {
            Some(void) => kubeconfig.replace(void.as_str(), &self.text),
            None => kubeconfig.to_owned(),
        }
    }
}

impl Work {
    /// A token of the Source's account.
    pub(super) async fn token(&self) -> Result<Token, Error> {
        let name = self.connection.token_name();
        let secrets: Api<Secret> = self.target.api(self.connection.place());
        progress(&format!("target: Secret {name} with a token"));
        let text = |secret: &Secret| {
            let token = secret.data.as_ref()?.get("token")?;
            String::from_utf8(token.0.clone())
                .ok()
                .filter(|it| !it.is_empty())
        };
        let mut void = None;
        if self.args.renew_token {
            let there = find(CALL_LIMIT, secrets.get(&name), "secrets", &name).await;
            if let Some(old) = there.map_err(self.target.failed("read the token"))? {
                void = text(&old);
                let params = DeleteParams::default();
                let params = params.preconditions(Preconditions {
                    uid: old.uid(),
                    resource_version: None,
                });
                let deleted = within(CALL_LIMIT, secrets.delete(&name, &params)).await;
                deleted.map_err(self.target.failed("delete the old token"))?;
            }
        }
        self.target
            .apply::<Secret>(&self.connection.token(), self.args.force_conflicts)
            .await?;
        let look = |secret: Option<&Secret>| {
            if secret.and_then(text).is_some() {
                return Shows::Done;
            }
            Shows::Yet(
                if secret.is_some() {
                    "it is empty"
                } else {
                    "it was deleted"
                }
                .to_owned(),
            )
        };
        let waited = wait::until(secrets.clone(), &name, self.args.timeout, look).await;
        waited.map_err(|last| {
            let what = format!("Kubernetes has put no token into Secret {name} of the target");
            self.late(
                what,
                last,
                "see whether its kube-controller-manager runs, and give the same command again",
            )
        })?;
        let secret = within(CALL_LIMIT, secrets.get(&name)).await;
        let secret = secret.map_err(self.target.failed("read the token"))?;
        let text = text(&secret).ok_or_else(|| {
            let what = format!("the token in Secret {name} of the target went away");
            self.late(
                what,
                "it is empty".to_owned(),
                "give the same command again",
            )
        })?;
        Ok(Token { text, void })
    }

    pub(super) fn kubeconfig(&self, server: &str, token: &str) -> Value {
        let Connection {
            target_name,
            namespace,
            ..
        } = &self.connection;
        address::kubeconfig(
            target_name,
            server,
            &self.target.trust,
            namespace.as_deref(),
            token,
        )
    }

    /// The kubeconfig, and the Target that names it. Returns the version of the Secret.
    pub(super) async fn tell(&self, kubeconfig: &str) -> Result<Option<String>, Error> {
        let (name, force) = (&self.connection.target_name, self.args.force_conflicts);
        let secret = self.connection.secret(&kubeconfig);
        progress(&format!(
            "source: Secret {} with a kubeconfig",
            self.connection.secret_name()
        ));
        let written = self.source.apply::<Secret>(&secret, force).await?;
        progress(&format!("source: {} {name}", self.connection.target_kind()));
        let object = self.connection.target();
        match self.connection.namespace {
            Some(_) => self.source.apply::<Target>(&object, force).await,
            None => self.source.apply::<ClusterTarget>(&object, force).await,
        }?;
        Ok(written.metadata.resource_version)
    }

    /// Tells the source of another kubeconfig than the one by which it is connected, which is put back if that doesn't
    /// connect it: nobody can say beforehand what the source's pods reach.
    pub(super) async fn replace(&self, good: &str, written: &str) -> Result<(), Error> {
        let mut interrupts = Interrupts::listen()?;
        let replacing = async {
            let version = self.tell(written).await?;
            self.label().await?;
            self.connected(version.as_deref()).await
        };
        let error = tokio::select! {
            replaced = replacing => match replaced {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            () = interrupts.next() => Error::Interrupted {
                what: "interrupted before the source was connected by the new kubeconfig".to_owned(),
                instead: "give the same command again".to_owned(),
            },
        };
        let secret = self.connection.secret_name();
        let earlier = self.connection.secret(&good);
        let force = self.args.force_conflicts;
        if let Err(failed) = self.source.apply::<Secret>(&earlier, force).await {
            progress(&format!(
                "warning: Secret {secret} of the source keeps the new kubeconfig: {}",
                with_causes(&failed)
            ));
            return Err(error);
        }
        progress(&format!(
            "source: Secret {secret} has its earlier kubeconfig again"
        ));
        Err(match error {
            Error::Waited {
                what,
                seconds,
                last,
                instead,
            } => Error::Waited {
                what: format!("{what} by the new kubeconfig"),
                seconds,
                last,
                instead: format!("the earlier one is in place again; {instead}"),
            },
            error => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_back_has_a_token_that_is_good() {
        let token = |void: Option<&str>| Token {
            text: "new".to_owned(),
            void: void.map(str::to_owned),
        };
        let back = |void, kubeconfig| token(void).in_place_of_the_old_one(kubeconfig);
        assert_eq!(back(None, "{token: old}"), "{token: old}");
        assert_eq!(back(Some("old"), "{token: old}"), "{token: new}");
        assert_eq!(
            back(Some("old"), "{token: of-another-source}"),
            "{token: of-another-source}"
        );
    }
}
