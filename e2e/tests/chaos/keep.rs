//! Keeping the first pod in its state until the fault is there: the write that would end the state is held back on its
//! way, and lands when the fault is over, whoever has taken over meanwhile. It knows nothing of faults.

use std::time::Duration;

use pilotage_testkit::fault::{Calls, Held, Verb};
use tokio::time::timeout;

use crate::cell::State;
use crate::stage::Stage;
use crate::world::Place;

/// For a write to land that was held back.
const LANDING: Duration = Duration::from_secs(5);

/// Writes that are held back, or will be.
#[derive(Debug)]
pub(crate) struct Kept(Vec<Held>);

impl Kept {
    /// Holds back the next write in this namespace that would end the state, of each process that may send it.
    pub(crate) fn start(stage: &Stage, state: State, namespace: &str) -> Self {
        let (part, of_source, write) = match state {
            State::Asked => (
                "candidate-scheduler",
                false,
                Calls::of(Verb::Patch, "podchaperons"),
            ),
            State::Reserved => ("proxy-scheduler", true, Calls::of(Verb::Patch, "pods")),
            State::Granted | State::Evicted => (
                "candidate-scheduler",
                false,
                Calls::of(Verb::Create, "pods/binding"),
            ),
            State::ToEvict => (
                "candidate-scheduler",
                false,
                Calls::of(Verb::Delete, "pods"),
            ),
            State::Bound => (
                "proxy-scheduler",
                true,
                Calls::of(Verb::Create, "pods/binding"),
            ),
            // Its finalizer is lifted.
            State::Deleting => ("controllers", true, Calls::of(Verb::Patch, "pods")),
            // Nothing ends it.
            State::Running => return Self(Vec::new()),
        };
        let write = write.namespace(namespace);
        let places = stage.places().into_iter();
        let lines = places
            .filter(|(_, place)| (*place == Place::Source) == of_source)
            .flat_map(|(cluster, _)| &cluster.lines)
            .filter(|(host, _)| host.rsplit_once('-').is_some_and(|(name, _)| name == part));
        Self(lines.map(|(_, line)| line.hold(write.clone())).collect())
    }

    /// Lets what was held back land, and holds nothing more.
    pub(crate) async fn release(self) {
        for mut held in self.0 {
            if held.is_caught() {
                // Its sender's connection may be gone, and the API server, too: then it never lands.
                let _ = timeout(LANDING, held.release()).await;
            }
        }
    }
}
