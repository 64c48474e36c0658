//! What follows when a pod has no node: it is expected where room is made for it, and the victims go. How fast they go
//! is decided by the seed, so that a pod also comes again while they are still there, or long after.

use serde_json::{Value, json};

use super::Game;
use crate::object;
use crate::side::{Side as _, SideError};
use crate::subject::Unplaced;

/// How the victims of a pod go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    /// At once; then the pod is tried again.
    AtOnce,
    /// They are being deleted while the pod is tried again, and go after that.
    Slowly,
    /// They are being deleted, and the pod may come again some time.
    Late,
}

impl Going {
    const fn of(seed: u64) -> Self {
        match (seed >> 8) % 4 {
            0 | 1 => Self::AtOnce,
            2 => Self::Slowly,
            _ => Self::Late,
        }
    }
}

impl Game<'_, '_> {
    /// Does what our scheduler decided, in both. Whether the pod is to be tried again at once.
    pub(super) fn make_room(
        &mut self,
        pod: &Value,
        told: &Unplaced,
        before: Option<&str>,
        seed: u64,
    ) -> Result<bool, SideError> {
        match told.nominated.as_deref() {
            None => self.forget(pod, before.is_some())?,
            Some(node) => {
                // Ours has let go of it already.
                self.players.ours.nominate(pod, node)?;
                if before != Some(node) {
                    self.players.theirs.nominate(pod, node)?;
                    self.world.nominate(pod, node);
                    self.observer.nominated(pod, node);
                }
            }
        }
        for other in self.expected(&told.cleared) {
            self.players.ours.delete(&other)?;
            self.forget(&other, true)?;
        }
        if told.victims.is_empty() {
            let leaving = std::mem::take(&mut self.leaving);
            for victim in &leaving {
                self.delete(victim)?;
            }
            return Ok(!leaving.is_empty());
        }
        let going = Going::of(seed);
        for victim in &told.victims {
            let Some(victim) = self.world.pods().get(victim).cloned() else {
                continue;
            };
            if going == Going::AtOnce {
                self.delete(&victim)?;
                continue;
            }
            let victim = preempted(victim);
            self.apply(&victim)?;
            if going == Going::Slowly {
                self.leaving.push(victim);
            }
        }
        Ok(going != Going::Late)
    }

    /// Forgets a pod that may be expected somewhere, and that ours has let go of.
    pub(super) fn forget(&mut self, pod: &Value, is_expected: bool) -> Result<(), SideError> {
        if is_expected {
            self.players.theirs.delete(pod)?;
            self.world.delete(pod);
            self.observer.deleted(pod);
        }
        Ok(())
    }

    /// The nominated pods with these names.
    fn expected(&self, names: &[String]) -> Vec<Value> {
        let all = self.world.nominations();
        let meant = all.filter(|(pod, _)| names.contains(&object::key(pod)));
        meant.map(|(pod, _)| pod.clone()).collect()
    }
}

/// The pod while it is being deleted since a scheduler needs its room.
pub(crate) fn preempted(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler"}]);
    pod
}
