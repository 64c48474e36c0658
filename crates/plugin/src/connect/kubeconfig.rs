//! What the source gets from `connect`: a kubeconfig. One that doesn't connect a Target that was connected is taken
//! back.

use k8s_openapi::api::core::v1::Secret;
use pilotage_api::{ClusterTarget, Target};
use serde_json::Value;

use super::Work;
use crate::error::{Error, with_causes};
use crate::interrupt::Interrupts;
use crate::plan::Connection;
use crate::{address, progress};

impl Work {
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
