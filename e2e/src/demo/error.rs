//! Why the demo failed.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;

use pilotage_testkit::{WaitError, access, apply, pilotage, plane};

/// Why the demo failed.
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
    /// Something did not happen.
    #[error("{what}")]
    Wait {
        /// What should have happened.
        what: String,
        /// What was seen.
        #[source]
        source: WaitError,
    },
    /// Pods are not where they should be by now.
    #[error("after {} s: {missing}", after.as_secs())]
    Missing {
        /// What is missing.
        missing: String,
        /// How long we waited.
        after: Duration,
    },
    /// A process ended on its own.
    #[error("{process} ended by itself; its log ends with:\n{tail}")]
    Ended {
        /// Which.
        process: String,
        /// Its last words.
        tail: String,
    },
    /// The result is wrong.
    #[error("this is wrong: {0}")]
    Wrong(String),
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
    /// Signals can't be listened to.
    #[error("can't listen to Ctrl-C")]
    Signal(#[source] std::io::Error),
    /// The user has seen enough.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Wraps the end of a wait.
    pub(super) fn wait(what: &str) -> impl FnOnce(WaitError) -> Self + use<> {
        let what = what.to_owned();
        move |source| Self::Wait { what, source }
    }

    /// Wraps a refused request.
    pub(super) fn request(what: &str) -> impl FnOnce(kube::Error) -> Self + use<> {
        let what = what.to_owned();
        move |source| Self::Request {
            what,
            source: Box::new(source),
        }
    }

    /// The error with its causes.
    pub fn explain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        text
    }
}
