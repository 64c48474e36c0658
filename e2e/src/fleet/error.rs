//! Why clusters can't be started or connected.

use std::path::PathBuf;

use pilotage_testkit::{WaitError, access, apply, cli, fault, pilotage, plane, tools};

/// Why clusters can't be started or connected, or something did not happen in them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cluster did not start or refused something.
    #[error(transparent)]
    Plane(#[from] plane::Error),
    /// Pilotage did not start.
    #[error(transparent)]
    Pilotage(#[from] pilotage::Error),
    /// A manifest was refused.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// No kubeconfig for somebody.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// No fault proxy.
    #[error(transparent)]
    Fault(#[from] fault::Error),
    /// Helm did not install the chart.
    #[error(transparent)]
    Helm(#[from] cli::Error),
    /// Helm isn't there.
    #[error(transparent)]
    Tools(#[from] Box<tools::Error>),
    /// Something did not happen.
    #[error("{what}")]
    Wait {
        /// What should have happened.
        what: String,
        /// What was seen.
        #[source]
        source: WaitError,
    },
    /// A process ended on its own.
    #[error("{process} ended by itself; its log ends with:\n{tail}")]
    Ended {
        /// Which.
        process: String,
        /// Its last words.
        tail: String,
    },
    /// A manifest can't be read.
    #[error("can't read {path}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// An API server refused a request.
    #[error("{what}")]
    Request {
        /// What was asked.
        what: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Wraps the end of a wait.
    pub fn wait(what: &str) -> impl FnOnce(WaitError) -> Self + use<> {
        let what = what.to_owned();
        move |source| Self::Wait { what, source }
    }

    /// Wraps a refused request.
    pub fn request(what: &str) -> impl FnOnce(kube::Error) -> Self + use<> {
        let what = what.to_owned();
        move |source| Self::Request {
            what,
            source: Box::new(source),
        }
    }
}
