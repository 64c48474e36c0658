//! Health of a process: what must happen before it is ready, and checks that it is alive.
//!
//! Must not know HTTP (see `admin`) or any component. Remote clusters never hold readiness back.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The process's health. Clones share it.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    /// Names of gates not yet released, with how many of each.
    pending: watch::Sender<BTreeMap<String, usize>>,
    draining: watch::Sender<bool>,
    checks: Mutex<Vec<(String, Check)>>,
}

/// Holds readiness back until [`Gate::release`]. Dropping it does not release it: what failed to
/// start never becomes ready.
#[must_use = "the process isn't ready until the gate is released"]
pub struct Gate {
    name: String,
    inner: Arc<Inner>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Ready, as long as nobody adds a gate.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                pending: watch::Sender::new(BTreeMap::new()),
                draining: watch::Sender::new(false),
                checks: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Adds something that must happen first, such as "pods listed".
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        let name = name.into();
        self.inner.pending.send_modify(|pending| {
            let count = pending.entry(name.clone()).or_default();
            *count = count.saturating_add(1);
        });
        Gate {
            name,
            inner: self.inner.clone(),
        }
    }

    /// Adds a liveness check; its error says what is stuck. It must be quick and must not block.
    pub fn check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks().push((name.into(), Box::new(check)));
    }

    /// From now on the process isn't ready any more, since it is about to end.
    pub fn drain(&self) {
        self.inner.draining.send_replace(true);
    }

    /// What keeps the process from being ready, sorted; empty if it is ready.
    pub fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> = self.inner.pending.borrow().keys().cloned().collect();
        if *self.inner.draining.borrow() {
            missing.push("shutting down".to_owned());
        }
        missing
    }

    /// Completes when every gate so far is released.
    pub async fn ready(&self) {
        let mut pending = self.inner.pending.subscribe();
        // The sender lives in `self`, so this can't fail.
        let _ = pending.wait_for(BTreeMap::is_empty).await;
    }

    /// Runs all liveness checks: name and error of those that fail.
    pub fn ailing(&self) -> Vec<(String, String)> {
        self.checks()
            .iter()
            .filter_map(|(name, check)| Some((name.clone(), check().err()?)))
            .collect()
    }

    fn checks(&self) -> MutexGuard<'_, Vec<(String, Check)>> {
        self.inner
            .checks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("missing", &self.missing())
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// What it stands for has happened.
    pub fn release(self) {
        self.inner.pending.send_modify(|pending| {
            if let Some(count) = pending.get_mut(&self.name) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    pending.remove(&self.name);
                }
            }
        });
        tracing::debug!(gate = self.name, "released");
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_when_every_gate_is_released_and_not_draining() {
        let health = Health::new();
        assert!(health.missing().is_empty());
        let pods = health.gate("pods listed");
        let pods_again = health.gate("pods listed");
        let nodes = health.gate("nodes listed");
        assert_eq!(health.missing(), ["nodes listed", "pods listed"]);

        let waiter = tokio::spawn({
            let health = health.clone();
            async move { health.ready().await }
        });
        pods.release();
        nodes.release();
        assert_eq!(health.missing(), ["pods listed"]);
        assert!(!waiter.is_finished());
        pods_again.release();
        waiter.await.unwrap();

        health.drain();
        assert_eq!(health.missing(), ["shutting down"]);
    }

    #[test]
    fn a_dropped_gate_stays_shut() {
        let health = Health::new();
        drop(health.gate("certificate loaded"));
        assert_eq!(health.missing(), ["certificate loaded"]);
    }

    #[test]
    fn failing_checks_are_named() {
        let health = Health::new();
        health.check("loop", || Ok(()));
        health.check("lease", || Err("not renewed for 12s".to_owned()));
        assert_eq!(
            health.ailing(),
            [("lease".to_owned(), "not renewed for 12s".to_owned())]
        );
    }
}
