//! Why the demo failed.

use std::time::Duration;

use pilotage_testkit::{WaitError, plane};

use crate::fleet;

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cluster did not do what it should.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// Pods are not where they should be by now.
    #[error("after {} s: {missing}", after.as_secs())]
    Missing {
        /// What is missing.
        missing: String,
        /// How long we waited.
        after: Duration,
    },
    /// The result is wrong.
    #[error("this is wrong: {0}")]
    Wrong(String),
    /// Signals can't be listened to.
    #[error("can't listen to Ctrl-C")]
    Signal(#[source] std::io::Error),
    /// The user has seen enough.
    #[error("interrupted")]
    Interrupted,
}

impl From<plane::Error> for Error {
    fn from(error: plane::Error) -> Self {
        fleet::Error::from(error).into()
    }
}

impl Error {
    /// Wraps the end of a wait.
    pub(super) fn wait(what: &str) -> impl FnOnce(WaitError) -> Self + use<> {
        let wrap = fleet::Error::wait(what);
        move |source| wrap(source).into()
    }

    /// Wraps a refused request.
    pub(super) fn request(what: &str) -> impl FnOnce(kube::Error) -> Self + use<> {
        let wrap = fleet::Error::request(what);
        move |source| wrap(source).into()
    }
}
