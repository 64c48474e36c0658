//! Why a command failed, in one line that says what to do.

use kube::config::KubeconfigError;
use pilotage_runtime::call::CallError;
use pilotage_runtime::client::ClientError;

use crate::Side;
use crate::program::program;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No kubeconfig can be read.
    #[error("can't read the kubeconfig of the {side}; name another one by {}", .side.file_flag())]
    Kubeconfig {
        /// Whose.
        side: Side,
        /// Why not.
        #[source]
        source: KubeconfigError,
    },
    /// The kubeconfig has no such context.
    #[error(
        "the kubeconfig of the {side} has no context {asked:?}; give {} one of: {}", .side.flag(),
        if .known.is_empty() { "(it has none)".to_owned() } else { .known.join(", ") }
    )]
    NoContext {
        /// Whose.
        side: Side,
        /// The context.
        asked: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// No context was named.
    #[error("the kubeconfig has no current context; name one by {}", .0.flag())]
    NoCurrentContext(Side),
    /// No client can be made of a context.
    #[error(
        "can't use context {context:?} of the {side}; mend it in the kubeconfig, or name another one by {}",
        .side.flag()
    )]
    Context {
        /// Whose.
        side: Side,
        /// The context.
        context: String,
        /// Why not.
        #[source]
        source: KubeconfigError,
    },
    /// No client can be made of a context.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A cluster doesn't answer.
    #[error(
        "the {side} (context {context:?}) doesn't answer at {server}; see whether \"kubectl {reach} version\" does"
    )]
    Unreachable {
        /// Which one.
        side: Side,
        /// The context.
        context: String,
        /// Its server.
        server: String,
        /// The flags by which kubectl reaches it.
        reach: String,
        /// How it fails.
        #[source]
        source: Box<CallError>,
    },
    /// A cluster doesn't know who asks.
    #[error("the {side} doesn't accept the credentials of context {context:?}; log in again")]
    Unknown {
        /// Which one.
        side: Side,
        /// The context.
        context: String,
        /// What it says.
        #[source]
        source: CallError,
    },
    /// There is only one cluster.
    #[error(
        "--source and --target lead to the same cluster; name two, or make a Target with \"spec: {{self: true}}\" \
         for a cluster that runs its own pods"
    )]
    SameCluster,
    /// The definitions aren't there.
    #[error(
        "Pilotage isn't installed in the {side}: it knows no {kind}; install it first, by Helm or by \
         \"{} install {reach} --image IMAGE\"",
        program()
    )]
    NotInstalled {
        /// Which one.
        side: Side,
        /// The flags by which commands reach it.
        reach: String,
        /// What it doesn't know.
        kind: &'static str,
    },
    /// A namespace isn't there.
    #[error(
        "the {side} has no namespace {namespace}; make it: kubectl {reach} create namespace {namespace}"
    )]
    NoNamespace {
        /// Which one.
        side: Side,
        /// The flags by which kubectl reaches it.
        reach: String,
        /// The namespace.
        namespace: String,
    },
    /// The user of a context may not do what has to be done.
    #[error(
        "you may not {} in the {side}; take a context whose user may, or have these rights given to you",
        .missing.join(", ")
    )]
    Rights {
        /// Where.
        side: Side,
        /// What.
        missing: Vec<String>,
    },
    /// There is no address for the source.
    #[error(
        "the target's address {server} is one of this machine only, which the source's pods can't reach; \
         give one that they can by --target-server https://HOST:PORT"
    )]
    NoAddress {
        /// What there is.
        server: String,
    },
    /// That is no address.
    #[error("{0:?} is no address of an API server; write it as https://HOST:PORT")]
    BadAddress(String),
    /// A name is taken.
    #[error("{what} is there already and {why}; {instead}")]
    Taken {
        /// What.
        what: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        instead: &'static str,
    },
    /// Somebody else owns a field that has to be written.
    #[error(
        "{what} of the {side} has fields that somebody else set to other values ({says}); have them changed there, \
         or take them over by --force-conflicts"
    )]
    Conflict {
        /// Which object.
        what: String,
        /// Where.
        side: Side,
        /// Who, and which fields.
        says: String,
        /// Whether something else was written before.
        begun: bool,
    },
    /// A cluster would not take an object.
    #[error(
        "the {side} wouldn't take {what}; have that allowed there, and give the same command again"
    )]
    Refused {
        /// Which object.
        what: String,
        /// Which cluster.
        side: Side,
        /// What it says.
        #[source]
        source: CallError,
    },
    /// One side is done, and the other one doesn't answer.
    #[error(
        "{done}; {left} of the {side} couldn't be looked at: give the same command again when that cluster answers"
    )]
    Half {
        /// What was done.
        done: String,
        /// What may be left.
        left: String,
        /// Where.
        side: Side,
        /// How it fails.
        #[source]
        source: Box<Error>,
    },
    /// Some of several clusters couldn't be asked; the others were told.
    #[error("{silent} of {asked} clusters couldn't be asked; each is told above, with the reason")]
    Silent {
        /// How many couldn't.
        silent: usize,
        /// Of how many.
        asked: usize,
    },
    /// A name can't be made of a context's.
    #[error(
        "{0:?} is no name for an object; give another one by {1} (small letters, digits and dashes, 63 at most)"
    )]
    Name(String, &'static str),
    /// A request failed.
    #[error(
        "failed to {what} in the {side}; what was done stays, and the same command goes on from there"
    )]
    Call {
        /// What was tried.
        what: String,
        /// Where.
        side: Side,
        /// Why it failed.
        #[source]
        source: CallError,
    },
    /// A request failed that changes nothing, of who hasn't written either.
    #[error("failed to {what} in the {side}")]
    Read {
        /// What was tried.
        what: String,
        /// Where.
        side: Side,
        /// Why it failed.
        #[source]
        source: CallError,
    },
    /// Something didn't come about in time.
    #[error("{what} after {seconds} s: {last}; {instead}")]
    Waited {
        /// What didn't.
        what: String,
        /// How long it was waited for.
        seconds: u64,
        /// What is known of it.
        last: String,
        /// What to do.
        instead: String,
    },
    /// There is no such object.
    #[error("there is no {what}; {instead}")]
    Missing {
        /// What.
        what: String,
        /// What to do.
        instead: String,
    },
    /// It isn't the time for that.
    #[error("{what}; {instead}")]
    NotNow {
        /// Why not.
        what: String,
        /// What to do.
        instead: String,
    },
    /// Its user has ended a command that had begun.
    #[error("{what}; {instead}")]
    Interrupted {
        /// What wasn't done.
        what: String,
        /// What to do.
        instead: String,
    },
    /// Something can't be written down.
    #[error("can't write that: {0}")]
    Render(String),
    /// Standard output can't be written.
    #[error("can't write to standard output")]
    Print(#[source] std::io::Error),
}

impl Error {
    /// 3 if what was asked for is done and hasn't come about in time, 4 if nothing was changed because something is
    /// wrong that is named, else 1.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Waited { .. } => 3,
            Self::Kubeconfig { .. }
            | Self::NoContext { .. }
            | Self::NoCurrentContext(_)
            | Self::Context { .. }
            | Self::Client(_)
            | Self::Unreachable { .. }
            | Self::Unknown { .. }
            | Self::SameCluster
            | Self::NotInstalled { .. }
            | Self::NoNamespace { .. }
            | Self::Rights { .. }
            | Self::NoAddress { .. }
            | Self::BadAddress(_)
            | Self::Taken { .. }
            | Self::Refused { .. }
            | Self::NotNow { .. }
            | Self::Conflict { begun: false, .. }
            | Self::Name(..)
            | Self::Missing { .. } => 4,
            Self::Call { .. }
            | Self::Read { .. }
            | Self::Conflict { begun: true, .. }
            | Self::Half { .. }
            | Self::Silent { .. }
            | Self::Interrupted { .. }
            | Self::Render(_)
            | Self::Print(_) => 1,
        }
    }

    /// The same of who has written before: that stays.
    pub(crate) fn midway(self) -> Self {
        match self {
            Self::Read { what, side, source } => Self::Call { what, side, source },
            other => other,
        }
    }
}

/// An error with its causes, without saying twice what a message already contains.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_who_may_have_written_is_told_that_it_stays() {
        let read = Error::Read {
            what: "list pods".to_owned(),
            side: Side::Source,
            source: CallError::TimedOut(Duration::from_secs(15)),
        };
        assert_eq!(read.exit_code(), 1);
        assert_eq!(
            with_causes(&read),
            "failed to list pods in the source: no answer from the API server within 15s"
        );
        assert_eq!(
            with_causes(&read.midway()),
            "failed to list pods in the source; what was done stays, and the same command goes on from there: no \
             answer from the API server within 15s"
        );
    }

    #[test]
    fn causes_are_told_once() {
        let full = || io::Error::other("disk full");
        assert_eq!(
            with_causes(&Error::Print(full())),
            "can't write to standard output: disk full"
        );
        let outer = io::Error::other(full());
        assert_eq!(with_causes(&outer), "disk full");
    }
}
