//! Why a command failed, and how it is told.

use std::error::Error as StdError;
use std::path::PathBuf;

use pilotage_gardener_scheduler::live::ReadError;
pub use pilotage_plugin::with_causes as explain;
use pilotage_runtime::admin::AdminError;
use pilotage_runtime::client::ClientError;
use pilotage_runtime::lease::ConfigError;
use pilotage_runtime::logs::LogError;
use pilotage_runtime::shutdown::Unfinished;
use pilotage_runtime::tasks::TaskError;
use pilotage_webhook::args::ArgsError;

use crate::cmd::cleanup::CleanupError;
use crate::cmd::files::FileError;
use crate::cmd::uninstall::UninstallError;
use crate::part::Part;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logs can't be set up.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// There is no cluster to work for.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Signals can't be listened to.
    #[error("can't listen to signals")]
    Signals(#[source] std::io::Error),
    /// The admin port can't be served.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Leader election can't work as configured.
    #[error(transparent)]
    Lease(#[from] ConfigError),
    /// A part can't start.
    #[error("can't start the {part}")]
    Start {
        /// The part.
        part: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A part ended although it should run on.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The end wasn't orderly.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// An object can't be written down.
    #[error("can't write {what} as YAML")]
    Render {
        /// What it is.
        what: String,
        /// Why not.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A file can't be written.
    #[error("can't write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Standard output can't be written.
    #[error("can't write to standard output")]
    Print(#[source] std::io::Error),
    /// No admission configuration can be made of these flags.
    #[error(transparent)]
    Admission(#[from] ArgsError),
    /// Not everything could be cleaned up.
    #[error(transparent)]
    Cleanup(#[from] CleanupError),
    /// It isn't known that nothing is left, or something is.
    #[error(transparent)]
    Uninstall(#[from] UninstallError),
    /// A file that was given can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A garden can't be read.
    #[error(transparent)]
    Garden(#[from] ReadError),
    /// There is no such Shoot in the garden.
    #[error("the garden has no Shoot {0}")]
    NoShoot(String),
    /// A command for people failed.
    #[error(transparent)]
    Plugin(#[from] pilotage_plugin::Error),
    /// A Shoot gets no Seed; why, was printed.
    #[error("no seed for {0}")]
    NoSeed(String),
}

/// What commands end with: the code, of which commands, and what it means. `docs/reference.md` has the same rows.
pub const EXIT_CODES: &[(u8, &str, &str)] = &[
    (
        0,
        "every command",
        "it is done; of a part: it was asked to end, and ended",
    ),
    (
        1,
        "every command",
        "a request failed, or a part can't start or go on; the line on standard error says why",
    ),
    (
        1,
        "`cleanup`",
        "something couldn't be read or written, or the webhook's configuration came back; the rest is done",
    ),
    (
        1,
        "`disconnect`",
        "the source's side is done, and the target doesn't answer; the line on standard error says what is left there",
    ),
    (
        1,
        "`version`",
        "some of several clusters couldn't be asked; the others were told",
    ),
    (
        1,
        "`connect`",
        "it was interrupted while the source tried another kubeconfig, and put the earlier one back",
    ),
    (
        1,
        "`what-if`",
        "it was interrupted, and took back what it had begun",
    ),
    (2, "every command", "the command line is wrong"),
    (
        3,
        "`connect`, `disconnect`, `drain`, `forget`, `install`, `uninstall`, `what-if`",
        "what it waits for didn't come in time; what was written stays, and the same command goes on",
    ),
    (3, "`uninstall --check`", "something is left"),
    (3, "`select-seed`", "no Seed can have the Shoot"),
    (
        4,
        "`connect`, `disconnect`, `drain`, `forget`, `install`, `uninstall`, `what-if`, `status`, `dashboard`, \
         `explain`, `version`",
        "nothing was written that stays; the line on standard error says what is wrong",
    ),
    (
        4,
        "`select-seed`, and parts with a file",
        "a file can't be read, or isn't what it should be",
    ),
];

impl Error {
    /// What the process ends with: 3 if the answer to a question is no, or what was asked for hasn't come about in
    /// time; 4 if a file that was given is bad, or something else is wrong that keeps a command from beginning; else 1.
    /// (2 is a command line that can't be understood, or flags that can't be used.)
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Admission(_) => 2,
            Self::NoSeed(_) | Self::Uninstall(UninstallError::Left(_)) => 3,
            Self::File(_) | Self::Uninstall(UninstallError::Runs(_)) => 4,
            Self::Plugin(error) => error.exit_code(),
            _ => 1,
        }
    }

    /// Wraps why a part can't start.
    pub(crate) fn start<E: Into<Box<dyn StdError + Send + Sync>>>(
        part: Part,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Start {
            part: part.name(),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let cause = std::io::Error::other("disk full");
        let error = Error::Write {
            path: "a.yaml".into(),
            source: cause,
        };
        assert_eq!(explain(&error), "can't write a.yaml: disk full");
        let inner: Box<dyn StdError + Send + Sync> = "no key".into();
        let error = Error::Task(TaskError::Failed {
            task: "webhook".to_owned(),
            source: inner,
        });
        assert_eq!(explain(&error), "webhook failed: no key");
    }
}
