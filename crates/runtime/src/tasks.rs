//! Supervised tasks: none ends unnoticed.
//!
//! An essential task that fails, panics or simply ends before the end was asked for takes the whole
//! process down, in order: the others are told to finish, and the first error is what `main` reports.

use std::error::Error as StdError;

use std::collections::HashMap;
use thiserror::Error;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::caught::words;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Why the tasks ended early.
#[derive(Debug, Error)]
pub enum TaskError {
    /// It returned an error.
    #[error("{task} failed: {source}")]
    Failed {
        /// The task.
        task: String,
        /// Its error.
        #[source]
        source: BoxError,
    },
    /// It panicked, which is a bug.
    #[error("{task} panicked: {message}")]
    Panicked {
        /// The task.
        task: String,
        /// The panic's message.
        message: String,
    },
    /// It returned although it should have run on.
    #[error("{task} ended although nothing had asked it to")]
    Ended {
        /// The task.
        task: String,
    },
}

/// The tasks of a process or of a part of it.
#[derive(Debug)]
pub struct Tasks {
    token: CancellationToken,
    set: JoinSet<Result<(), BoxError>>,
    known: HashMap<Id, (String, Kind)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs until the token is cancelled.
    Essential,
    /// May end whenever its work is done; failing is still an error.
    Finite,
}

impl Tasks {
    /// No tasks yet; `token` tells them to end, and is cancelled when one fails.
    pub fn new(token: CancellationToken) -> Self {
        Self {
            token,
            set: JoinSet::new(),
            known: HashMap::new(),
        }
    }

    /// The token on which tasks are to end.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Starts a task that is to run until the token is cancelled.
    pub fn essential<E: Into<BoxError>>(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.spawn(name.into(), Kind::Essential, task);
    }

    /// Starts a task that may end by itself.
    pub fn finite<E: Into<BoxError>>(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.spawn(name.into(), Kind::Finite, task);
    }

    fn spawn<E: Into<BoxError>>(
        &mut self,
        name: String,
        kind: Kind,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let span = tracing::info_span!("task", name);
        let task = async move { task.await.map_err(Into::into) };
        let id = self.set.spawn(task.instrument(span)).id();
        self.known.insert(id, (name, kind));
    }

    /// Waits until all tasks have ended; the first failure cancels the token and is returned. With
    /// no deadline of its own: see [`crate::shutdown::drain`]. Dropping the future aborts the tasks.
    pub async fn join(mut self) -> Result<(), TaskError> {
        let mut first = Ok(());
        while let Some(ended) = self.set.join_next_with_id().await {
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let (task, kind) = self
                .known
                .remove(&id)
                .unwrap_or_else(|| ("a task without name".to_owned(), Kind::Finite));
            if let Err(error) = judge(task, kind, ended, self.token.is_cancelled()) {
                tracing::error!(%error, "a task ended the process");
                self.token.cancel();
                if first.is_ok() {
                    first = Err(error);
                }
            }
        }
        first
    }
}

fn judge(
    task: String,
    kind: Kind,
    ended: Result<(Id, Result<(), BoxError>), JoinError>,
    asked: bool,
) -> Result<(), TaskError> {
    match ended {
        Ok((_, Err(source))) => Err(TaskError::Failed { task, source }),
        Ok((_, Ok(()))) if kind == Kind::Essential && !asked => Err(TaskError::Ended { task }),
        Ok((_, Ok(()))) => Ok(()),
        Err(error) if error.is_cancelled() => Err(TaskError::Ended { task }),
        Err(error) => {
            let message = words(&*error.into_panic());
            Err(TaskError::Panicked { task, message })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn tasks() -> Tasks {
        let mut tasks = Tasks::new(CancellationToken::new());
        let token = tasks.token().clone();
        tasks.essential("patient", async move {
            token.cancelled().await;
            Ok::<_, Infallible>(())
        });
        tasks
    }

    #[tokio::test]
    async fn a_failing_task_ends_the_others_and_is_reported() {
        let mut tasks = tasks();
        tasks.essential("lease", async { Err("lost to host-b") });
        let error = tasks.join().await.unwrap_err();
        assert_eq!(error.to_string(), "lease failed: lost to host-b");
    }

    #[tokio::test]
    async fn a_panic_is_reported_with_its_message() {
        let mut tasks = tasks();
        tasks.finite("loop", async {
            let rows: Vec<u8> = Vec::new();
            assert!(!rows.is_empty(), "no rows");
            Ok::<_, Infallible>(())
        });
        let error = tasks.join().await.unwrap_err();
        assert_eq!(error.to_string(), "loop panicked: no rows");
    }

    #[tokio::test]
    async fn an_essential_task_must_not_end_unasked_a_finite_one_may() {
        let mut tasks = tasks();
        tasks.essential("watch", async { Ok::<_, Infallible>(()) });
        assert!(matches!(tasks.join().await, Err(TaskError::Ended { task }) if task == "watch"));

        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.finite("migration", async { Ok::<_, Infallible>(()) });
        assert!(tasks.join().await.is_ok());
    }

    #[tokio::test]
    async fn ending_when_asked_is_no_error() {
        let tasks = tasks();
        tasks.token().cancel();
        assert!(tasks.join().await.is_ok());
    }
}
