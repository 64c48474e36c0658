//! Owns word of mistakes of ours about one Target: each is logged at once, and handed to whoever may tell its author.
//! It must not know what went wrong.
//!
//! The words of a panic may quote what is in a Secret, so they are for the log alone.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

/// A panic about one Target.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// The `Target` or `ClusterTarget`.
    pub about: ObjectReference,
    /// What was done for it.
    pub task: &'static str,
}

/// Those who are told.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Mutex<Vec<mpsc::UnboundedSender<Mistake>>>);

impl Mistakes {
    /// Every mistake from now on: read on, the queue has no limit.
    pub(crate) fn subscribe(&self) -> mpsc::UnboundedReceiver<Mistake> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        receiver
    }

    /// Something about a Target panicked.
    pub(crate) fn tell(&self, task: &'static str, about: ObjectReference, panic: &str) {
        tracing::error!(
            task,
            kind = about.kind,
            namespace = about.namespace,
            name = about.name,
            panic,
            "something about a target panicked"
        );
        let mistake = Mistake { about, task };
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|told| told.send(mistake.clone()).is_ok());
    }
}
