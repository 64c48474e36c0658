//! Owns whether a Shoot is one that a scheduler has to place.

use crate::kinds::Shoot;

/// Name of Gardener's own scheduler.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Why a scheduler leaves a Shoot alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEligible {
    /// It has a Seed.
    #[error("it is assigned to seed {0:?}")]
    Assigned(String),
    /// Another scheduler is to place it.
    #[error("it is for the scheduler {0:?}")]
    OtherScheduler(String),
    /// Its control plane runs in its own workers.
    #[error("it hosts its control plane itself")]
    HostsItself,
    /// It is being deleted.
    #[error("it is being deleted")]
    Deleting,
}

/// Whether the scheduler of this name has to place a Shoot; no name is Gardener's own.
pub fn eligible(shoot: &Shoot, scheduler: Option<&str>) -> Result<(), NotEligible> {
    let wanted = shoot.scheduler.as_deref().unwrap_or(DEFAULT_SCHEDULER);
    if let Some(seed) = &shoot.seed {
        return Err(NotEligible::Assigned(seed.clone()));
    }
    if wanted != scheduler.unwrap_or(DEFAULT_SCHEDULER) {
        return Err(NotEligible::OtherScheduler(wanted.to_owned()));
    }
    if shoot.workers.iter().any(|worker| worker.hosts_itself) {
        return Err(NotEligible::HostsItself);
    }
    if shoot.deleting {
        return Err(NotEligible::Deleting);
    }
    Ok(())
}
