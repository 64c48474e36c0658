//! Why an attack can't be measured, or succeeded.

use pilotage_testkit::{WaitError, apply, hostile};

use crate::{fleet, memory};

/// Why an attack can't be measured, or succeeded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cluster did not do what it should.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// No hostile server.
    #[error(transparent)]
    Server(#[from] hostile::Error),
    /// The source's memory can't be looked at.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// The process of the source isn't there any more.
    #[error("the source's process has ended")]
    Gone,
    /// A request of the load was refused.
    #[error("can't {what}")]
    Request {
        /// What.
        what: &'static str,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something that should happen under attack didn't.
    #[error("{what}")]
    Wait {
        /// What.
        what: String,
        /// What was seen.
        #[source]
        source: Box<WaitError>,
    },
    /// What should be a pod is none.
    #[error("what is written is no pod")]
    Pod(#[source] serde_json::Error),
    /// Nobody asked for what is lied about.
    #[error("the attack {0} wasn't played: no request was lied about")]
    NotPlayed(&'static str),
    /// Not all of them were played.
    #[error("{played} attacks were played, and there are {known}")]
    NotAll {
        /// So many were.
        played: usize,
        /// So many there are.
        known: usize,
    },
    /// One did what none may.
    #[error("the attack {attack} succeeded: {what}")]
    Succeeded {
        /// Which.
        attack: &'static str,
        /// What happened.
        what: &'static str,
    },
    /// The source took too much memory.
    #[error("the source took {peak:.0} MiB; at most {aim:.0} MiB were wanted")]
    TooLarge {
        /// What it took.
        peak: f64,
        /// What it may take.
        aim: f64,
    },
    /// The pods of others waited longer.
    #[error(
        "the slowest pods of others (p99) took {attacked:.0} ms under attack, and {calm:.0} ms before; {most:.0} ms \
         were the most"
    )]
    TooSlow {
        /// p99 before, in milliseconds.
        calm: f64,
        /// p99 under attack, in milliseconds.
        attacked: f64,
        /// What it may be, in milliseconds.
        most: f64,
    },
    /// There is nothing to compare.
    #[error("no pods were measured")]
    NoPods,
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

impl From<pilotage_testkit::plane::Error> for Error {
    fn from(error: pilotage_testkit::plane::Error) -> Self {
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

    /// Wraps the end of a wait.
    pub(super) fn wait(what: String) -> impl FnOnce(WaitError) -> Self {
        move |source| Self::Wait {
            what,
            source: Box::new(source),
        }
    }

    /// The error with its causes.
    pub fn explain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
