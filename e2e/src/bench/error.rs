//! Why something can't be measured.

use std::path::PathBuf;
use std::time::Duration;

use pilotage_testkit::{pilotage, plane};

use crate::{fleet, scheduler};

/// Why something can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cluster did not do what it should.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// There is no such run.
    #[error("there is no run {0:?}; --list shows all")]
    NoSuchRun(String),
    /// The kernel's figures can't be read.
    #[error("can't read {path}")]
    Proc {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The kernel's figures can't be understood.
    #[error("can't understand {0}")]
    Unreadable(PathBuf),
    /// A process that is measured isn't there any more.
    #[error("{0} has ended while it was measured")]
    Ended(String),
    /// Events were lost, so that nobody can say what happened in between.
    #[error("the watch of pods in {cluster} has a gap: {why}")]
    Gap {
        /// Where.
        cluster: String,
        /// What the server said.
        why: String,
    },
    /// Pods are not where they should be by now.
    #[error("after {} s {what}: {state}", after.as_secs())]
    Late {
        /// What should have been.
        what: &'static str,
        /// How long we waited.
        after: Duration,
        /// What is.
        state: String,
    },
    /// The figures can't be computed.
    #[error("there is nothing to compute figures from: {0}")]
    Empty(&'static str),
    /// A load is to be half of a bound that isn't known.
    #[error("no burst before this load has shown what half of the bound is")]
    NoBound,
    /// The results can't be written.
    #[error("can't write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Signals can't be listened to.
    #[error("can't listen to Ctrl-C")]
    Signal(#[source] std::io::Error),
    /// The user has seen enough.
    #[error("interrupted")]
    Interrupted,
    /// An aim was missed.
    #[error("{0}")]
    Missed(String),
    /// Some runs failed; each has said why.
    #[error("{0} of the runs failed")]
    Runs(usize),
    /// Aims were to be met, and these runs have none.
    #[error("these runs have no aims")]
    NoAims,
    /// Aims are missed, and none was to be.
    #[error("{0} of the aims are missed")]
    Aims(usize),
}

impl From<plane::Error> for Error {
    fn from(error: plane::Error) -> Self {
        fleet::Error::from(error).into()
    }
}

impl From<pilotage::Error> for Error {
    fn from(error: pilotage::Error) -> Self {
        fleet::Error::from(error).into()
    }
}

impl From<scheduler::Error> for Error {
    fn from(error: scheduler::Error) -> Self {
        match error {
            scheduler::Error::Plane(error) => error.into(),
            scheduler::Error::Pilotage(error) => error.into(),
        }
    }
}

impl Error {
    /// Wraps a refused request.
    pub(super) fn request(what: &str) -> impl FnOnce(kube::Error) -> Self + use<> {
        let wrap = fleet::Error::request(what);
        move |source| wrap(source).into()
    }
}
