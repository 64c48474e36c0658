//! Why scripts can't be run, or which of them failed.

use std::path::PathBuf;

use crate::fleet;

/// Why scripts can't be run, or which of them failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The clusters.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// One of them.
    #[error(transparent)]
    Plane(#[from] pilotage_testkit::plane::Error),
    /// A directory or a file.
    #[error("can't read or write {}", .path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The tools of the workspace.
    #[error("can't find kubectl")]
    Tools(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nobody stands for what pods serve.
    #[error("can't listen")]
    Listen(#[source] std::io::Error),
    /// There is no such script.
    #[error("there is no scenario {name:?}; there are {}", .known.join(", "))]
    Unknown {
        /// The name that was given.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// The directory has no kubeconfigs.
    #[error("{} has to hold a kubeconfig \"source\" and one for each target", .0.display())]
    NoKubeconfigs(PathBuf),
    /// It can't be started.
    #[error(transparent)]
    Start(#[from] pilotage_testkit::cli::Error),
    /// These failed.
    #[error("failed: {}", .0.join(", "))]
    Failed(Vec<String>),
}
