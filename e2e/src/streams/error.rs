//! Why streams can't be measured, or cost too much.

use pilotage_testkit::{WaitError, apply, fault, plane, streams};

use crate::{fleet, memory};

/// Why streams can't be measured, or cost too much.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cluster did not do what it should.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// No server of streams.
    #[error(transparent)]
    Server(#[from] streams::Error),
    /// No fault proxy.
    #[error(transparent)]
    Line(#[from] fault::Error),
    /// The process's memory can't be looked at.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// A request failed.
    #[error("can't {what}")]
    Request {
        /// What.
        what: &'static str,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// The pod doesn't run.
    #[error("the pod with the streams doesn't run")]
    Wait(#[source] Box<WaitError>),
    /// A stream broke.
    #[error("a stream broke")]
    Read(#[from] std::io::Error),
    /// A stream ended with other bytes than it should.
    #[error("a stream ended after {read} bytes, of {sent}")]
    Short {
        /// What came.
        read: u64,
        /// What was sent.
        sent: u64,
    },
    /// Nothing came in time.
    #[error("{0} after a minute")]
    Slow(&'static str),
    /// The kubelet server keeps what passes.
    #[error(
        "memory isn't flat: {what} made the kubelet server's process grow by {growth:.1} MiB; at most {aim:.1} MiB \
         were wanted"
    )]
    NotFlat {
        /// What passed.
        what: &'static str,
        /// By how much.
        growth: f64,
        /// By how much it may.
        aim: f64,
    },
    /// Signals can't be listened to.
    #[error("can't listen to Ctrl-C")]
    Signal(#[source] std::io::Error),
    /// The user has seen enough.
    #[error("interrupted")]
    Interrupted,
}

impl From<apply::Error> for Error {
    fn from(error: apply::Error) -> Self {
        fleet::Error::from(error).into()
    }
}

impl From<plane::Error> for Error {
    fn from(error: plane::Error) -> Self {
        fleet::Error::from(error).into()
    }
}

impl Error {
    /// Wraps a refused request.
    pub(super) fn request(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request {
            what,
            source: Box::new(source),
        }
    }
}
