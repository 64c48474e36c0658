//! Striking somebody, and ending the fault. It knows nothing of pods.

use std::time::Duration;

use pilotage_e2e::fleet::Error;
use pilotage_testkit::fault::Mode;
use pilotage_testkit::{Part, Signal};

use crate::cell::{Actor, Cell, Fault};
use crate::stage::{LEASE, Leader, Stage};
use crate::world::Place;

/// How long an API server is away: past every lease that is kept there.
const OUTAGE: Duration = LEASE.duration.saturating_add(Duration::from_secs(1));

/// Who is to be struck, once it is known in which target.
#[derive(Debug)]
pub(crate) enum Victim {
    /// The leader of a part, in the source, or in each target the one to strike there.
    Leader(Vec<Leader>),
    /// An API server.
    Api,
}

impl Victim {
    /// Finds out who leads, before it matters.
    pub(crate) async fn find(stage: &Stage, actor: Actor) -> Result<Self, Error> {
        let (part, of_source) = match actor {
            Actor::ProxyScheduler => ("proxy-scheduler", true),
            Actor::SourceControllers => ("controllers", true),
            Actor::CandidateScheduler => ("candidate-scheduler", false),
            Actor::TargetControllers => ("controllers", false),
            Actor::SourceApi | Actor::TargetApi => return Ok(Self::Api),
        };
        let mut leaders = Vec::new();
        for (_, place) in stage.places() {
            if (place == Place::Source) == of_source {
                leaders.push(stage.leader(place, part).await?);
            }
        }
        Ok(Self::Leader(leaders))
    }
}

/// Strikes, waits until the fault has had its effect, and ends it. `target` is where the state was seen.
pub(crate) async fn strike(
    stage: &Stage,
    cell: Cell,
    victim: &Victim,
    target: Place,
) -> Result<(), Error> {
    let place = match cell.actor {
        Actor::ProxyScheduler | Actor::SourceControllers | Actor::SourceApi => Place::Source,
        Actor::CandidateScheduler | Actor::TargetControllers | Actor::TargetApi => target,
    };
    let leader = match victim {
        Victim::Leader(leaders) => leaders.iter().find(|leader| leader.place == place),
        Victim::Api => None,
    };
    match leader {
        Some(leader) => strike_leader(stage, cell.fault, leader).await,
        None => strike_api(stage, cell.fault, place).await,
    }
}

async fn strike_leader(stage: &Stage, fault: Fault, leader: &Leader) -> Result<(), Error> {
    let journal = stage.journal();
    let (process, line) = stage
        .struck(leader)
        .unwrap_or_else(|| panic!("no process is {leader}"));
    match fault {
        Fault::Kill => {
            process.kill().await;
            journal.note(format!("STRUCK: {leader} killed"));
        }
        Fault::Freeze => {
            process.signal(Signal::Stop).await?;
            journal.note(format!("STRUCK: {leader} stopped"));
            stage.succeeded(leader).await?;
            process.signal(Signal::Continue).await?;
            journal.note(format!("HEALED: {leader} continues, another leads"));
        }
        Fault::BlackHole => {
            line.set(Mode::BlackHole).await?;
            journal.note(format!("STRUCK: {leader} is cut off"));
            stage.succeeded(leader).await?;
            line.set(Mode::Pass).await?;
            journal.note(format!(
                "HEALED: {leader} has its line again, another leads"
            ));
        }
    }
    Ok(())
}

async fn strike_api(stage: &Stage, fault: Fault, place: Place) -> Result<(), Error> {
    let (journal, cluster) = (stage.journal(), stage.cluster(place));
    let plane = &cluster.plane;
    match fault {
        Fault::Kill => {
            plane.kill(Part::ApiServer).await?;
            journal.note(format!("STRUCK: API server of {place:?} killed"));
            plane.restart(Part::ApiServer).await?;
            journal.note("HEALED: it answers again");
        }
        Fault::Freeze => {
            plane.signal(Part::ApiServer, Signal::Stop).await?;
            journal.note(format!("STRUCK: API server of {place:?} stopped"));
            // Nobody can see a Lease run out there.
            tokio::time::sleep(OUTAGE).await;
            plane.signal(Part::ApiServer, Signal::Continue).await?;
            journal.note("HEALED: it continues");
        }
        Fault::BlackHole => {
            let lines = || cluster.lines.values().chain(&cluster.door);
            for line in lines() {
                line.set(Mode::BlackHole).await?;
            }
            journal.note(format!(
                "STRUCK: nobody reaches the API server of {place:?}"
            ));
            tokio::time::sleep(OUTAGE).await;
            for line in lines() {
                line.set(Mode::Pass).await?;
            }
            journal.note("HEALED: it can be reached");
        }
    }
    Ok(())
}
