//! Flags that name one target of a source.

use std::path::PathBuf;

use clap::Args;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::targets::{self, Seen};
use crate::{Side, preflight};

/// Which target of which source.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub(crate) struct WhichArgs {
    /// Name of the Target, or NAMESPACE/NAME.
    #[arg(value_name = "TARGET")]
    name: String,

    /// Context of the source. Without it, the current one.
    #[arg(long, visible_alias = "context", value_name = "CONTEXT")]
    source: Option<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the Target. Without it, that of the source's context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// It is a ClusterTarget.
    #[arg(long, conflicts_with = "namespace")]
    cluster_wide: bool,
}

impl WhichArgs {
    /// The source, and its target, which is there.
    pub(crate) async fn open(&self) -> Result<(Cluster, Seen), Error> {
        let file = self.kubeconfig.as_deref();
        let source = Cluster::open(Side::Source, file, self.source.as_deref()).await?;
        preflight::identity(&source).await?;
        let target = if self.cluster_wide {
            targets::cluster_wide(&source, &self.name).await?
        } else {
            targets::one(&source, self.namespace.as_deref(), &self.name).await?
        };
        Ok((source, target))
    }
}
