//! Flags that say which two clusters are meant and what the connection is called.

use std::path::PathBuf;

use clap::Args;

use crate::Side;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::life::Life;
use crate::plan::{self, Connection};

/// Which two clusters, and what their connection is called.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub(crate) struct PairArgs {
    /// Context of the cluster whose pods run elsewhere.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) source: String,

    /// Context of the cluster where they run.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) target: String,

    /// Kubeconfig file with both contexts. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Kubeconfig file of the target, if it is another one.
    #[arg(long, value_name = "FILE")]
    pub(crate) target_kubeconfig: Option<PathBuf>,

    /// Namespace whose pods may run in the target, in its namespace of the same name. Without it, that of the source's
    /// context.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// For all namespaces: a ClusterTarget and a ClusterSource.
    #[arg(long, conflicts_with = "namespace")]
    pub(crate) cluster_wide: bool,

    /// Name of the Target. Without it, it is made of the target's context.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Name of the Source and of its service account. Without it, it is made of the source's context.
    #[arg(long, value_name = "NAME")]
    pub(crate) source_name: Option<String>,

    /// Namespace, in both clusters, of the service account and the Secrets of a connection of all namespaces.
    #[arg(long, value_name = "NAMESPACE", default_value = "pilotage")]
    pub(crate) home: String,
}

impl PairArgs {
    /// The connection that is meant, if the source's context has this namespace.
    fn connection(&self, namespace: &str) -> Result<Connection, Error> {
        let name = |given: &Option<String>, context: &str, flag| {
            let name = given.clone().unwrap_or_else(|| plan::name_of(context));
            if plan::is_name(&name) {
                Ok(name)
            } else {
                Err(Error::Name(name, flag))
            }
        };
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        Ok(Connection {
            target_name: name(&self.name, &self.target, "--name")?,
            source_name: name(&self.source_name, &self.source, "--source-name")?,
            namespace: (!self.cluster_wide).then(|| namespace.to_owned()),
            home: self.home.clone(),
            rights: Vec::new(),
            source_uid: None,
            life: Life::default(),
        })
    }

    /// Both clusters, as far as kubeconfigs tell, and the connection.
    pub(crate) async fn open(&self) -> Result<(Cluster, Cluster, Connection), Error> {
        let source = self.kubeconfig.as_deref();
        let target = self.target_kubeconfig.as_deref().or(source);
        let source = Cluster::open(Side::Source, source, Some(&self.source)).await?;
        let target = Cluster::open(Side::Target, target, Some(&self.target)).await?;
        let connection = self.connection(&source.namespace)?;
        Ok((source, target, connection))
    }
}
