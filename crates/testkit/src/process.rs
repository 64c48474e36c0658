//! A supervised process with a place of its own: it can be killed, frozen, and started again with the same arguments,
//! port and data. It knows nothing of what the process is.

use std::path::Path;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::ready::{NotReady, Probe};
use crate::supervisor::{self, Exit, Pids, Signal, Spec, Supervised};

/// Characters of the log that an error shows.
const TAIL: usize = 1_500;

/// A process can't be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The supervisor failed.
    #[error("can't run {name}")]
    Supervisor {
        /// The process.
        name: String,
        /// Why.
        #[source]
        source: supervisor::Error,
    },
    /// It ended while we waited for it.
    #[error("{name} ended by {exit}; its log {log} ends with:\n{tail}")]
    Ended {
        /// The process.
        name: String,
        /// How.
        exit: Exit,
        /// Its log file.
        log: String,
        /// Its last words.
        tail: String,
    },
    /// It runs and doesn't answer.
    #[error("{name} is {source}; its log {log} ends with:\n{tail}")]
    NotReady {
        /// The process.
        name: String,
        /// What it said last.
        source: NotReady,
        /// Its log file.
        log: String,
        /// Its last words.
        tail: String,
    },
    /// It isn't running.
    #[error("{name} isn't running")]
    NotRunning {
        /// The process.
        name: String,
    },
}

impl Error {
    /// Somebody else has the port.
    pub fn is_port_conflict(&self) -> bool {
        let Self::Ended { tail, .. } = self else {
            return false;
        };
        ["address already in use", "Address already in use"]
            .iter()
            .any(|it| tail.contains(it))
    }
}

/// A process that can be started again.
#[derive(Debug)]
pub struct Process {
    name: String,
    spec: Spec,
    probe: Probe,
    running: Mutex<Option<Supervised>>,
}

impl Process {
    /// Starts it. Readiness is waited for by [`Self::ready`].
    pub async fn start(name: impl Into<String>, spec: Spec, probe: Probe) -> Result<Self, Error> {
        let process = Self {
            name: name.into(),
            spec,
            probe,
            running: Mutex::new(None),
        };
        process.start_again().await?;
        Ok(process)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.spec.log
    }

    /// What it was started with.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Waits until it answers, or fails when it ends before.
    pub async fn ready(&self, limit: Duration) -> Result<(), Error> {
        let probe = self.probe.wait(limit);
        tokio::select! {
            // An answer may come from somebody else who has the port: look first whether ours has ended.
            biased;
            ended = self.ended() => Err(ended),
            answer = probe => answer.map_err(|source| Error::NotReady {
                name: self.name.clone(),
                source,
                log: self.spec.log.display().to_string(),
                tail: self.tail(),
            }),
        }
    }

    /// Sends a signal.
    pub async fn signal(&self, signal: Signal) -> Result<(), Error> {
        match &*self.running.lock().await {
            Some(running) => running.signal(signal).map_err(|source| Error::Supervisor {
                name: self.name.clone(),
                source,
            }),
            None => Err(Error::NotRunning {
                name: self.name.clone(),
            }),
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&self) -> Option<Exit> {
        match self.running.lock().await.take() {
            Some(running) => Some(running.kill().await),
            None => None,
        }
    }

    /// SIGTERM, then SIGKILL after `grace`.
    pub async fn stop(&self, grace: Duration) -> Option<Exit> {
        match self.running.lock().await.take() {
            Some(running) => Some(running.stop(grace).await),
            None => None,
        }
    }

    /// Kills it if it runs, and starts it with the same arguments.
    pub async fn start_again(&self) -> Result<(), Error> {
        let mut running = self.running.lock().await;
        if let Some(running) = running.take() {
            running.kill().await;
        }
        let started = Supervised::start(&self.spec).map_err(|source| Error::Supervisor {
            name: self.name.clone(),
            source,
        })?;
        *running = Some(started);
        Ok(())
    }

    /// [`Self::start_again`], then [`Self::ready`].
    pub async fn restart(&self, limit: Duration) -> Result<(), Error> {
        self.start_again().await?;
        self.ready(limit).await
    }

    /// Waits for its end; `None` when it isn't running.
    pub async fn wait(&self) -> Option<Exit> {
        let waiting = match &*self.running.lock().await {
            Some(running) => running.ended(),
            None => return None,
        };
        Some(waiting.await)
    }

    /// Waits for an end that nobody wanted, and says how it came.
    pub async fn ended(&self) -> Error {
        match self.wait().await {
            Some(exit) => Error::Ended {
                name: self.name.clone(),
                exit,
                log: self.spec.log.display().to_string(),
                tail: self.tail(),
            },
            None => Error::NotRunning {
                name: self.name.clone(),
            },
        }
    }

    /// How it ended, if it has by itself.
    pub async fn exit(&self) -> Option<Exit> {
        self.running
            .lock()
            .await
            .as_ref()
            .and_then(Supervised::exit)
    }

    /// Its process ids while it runs.
    pub async fn pids(&self) -> Option<Pids> {
        self.running.lock().await.as_ref().map(Supervised::pids)
    }

    /// The end of its log.
    pub fn tail(&self) -> String {
        tail(&self.spec.log)
    }
}

/// The end of a log, whole lines.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut start = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    match text[start..].split_once('\n') {
        Some((_, rest)) if start > 0 => rest.to_owned(),
        _ => text[start..].to_owned(),
    }
}
