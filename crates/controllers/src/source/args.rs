//! Flags that say which roles sources get.

use clap::Args;

use super::rbac;

/// Which roles sources get.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sources")]
pub struct SourceArgs {
    /// `ClusterRole` that says what a source may do in the namespaces it is given.
    ///
    /// The role of this process must allow it to "bind" that role by name.
    #[arg(long, value_name = "NAME", default_value = rbac::SOURCE_ROLE)]
    pub source_role: String,

    /// `ClusterRole` that lets sources read the summary of this cluster.
    #[arg(long, value_name = "NAME", default_value = rbac::SUMMARY_VIEWER_ROLE)]
    pub cluster_summary_viewer_role: String,
}

impl Default for SourceArgs {
    fn default() -> Self {
        Self {
            source_role: rbac::SOURCE_ROLE.to_owned(),
            cluster_summary_viewer_role: rbac::SUMMARY_VIEWER_ROLE.to_owned(),
        }
    }
}
