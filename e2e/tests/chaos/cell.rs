//! The cells: what state the first pod is in, who is struck then, and by what; and which of them are run when. It knows
//! nothing of clusters.

use std::fmt;
use std::str::FromStr;

/// The state of a pod in which somebody is struck, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// A target was asked: it has the chaperon.
    Asked,
    /// A node is held for it.
    Reserved,
    /// The choice fell on it.
    Granted,
    /// The same, and others have to go for it: nobody has gone yet.
    ToEvict,
    /// They have gone.
    Evicted,
    /// Its delegate is bound.
    Bound,
    /// Its proxy runs.
    Running,
    /// Its proxy is being deleted, and was running.
    Deleting,
}

/// Who is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// The leader of the proxy scheduler.
    ProxyScheduler,
    /// The leader of the candidate scheduler, in the target where the state was seen.
    CandidateScheduler,
    /// The leader of the source's controllers.
    SourceControllers,
    /// The leader of that target's controllers.
    TargetControllers,
    /// The source's API server.
    SourceApi,
    /// That target's API server.
    TargetApi,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// kill -9; it is started again.
    Kill,
    /// SIGSTOP past the lease, then SIGCONT.
    Freeze,
    /// It can't reach its API server past the lease (an API server: nobody reaches it), then it can.
    BlackHole,
}

pub(crate) const STATES: [(State, &str); 8] = [
    (State::Asked, "asked"),
    (State::Reserved, "reserved"),
    (State::Granted, "granted"),
    (State::ToEvict, "to-evict"),
    (State::Evicted, "evicted"),
    (State::Bound, "bound"),
    (State::Running, "running"),
    (State::Deleting, "deleting"),
];
pub(crate) const ACTORS: [(Actor, &str); 6] = [
    (Actor::ProxyScheduler, "proxy-scheduler"),
    (Actor::CandidateScheduler, "candidate-scheduler"),
    (Actor::SourceControllers, "source-controllers"),
    (Actor::TargetControllers, "target-controllers"),
    (Actor::SourceApi, "source-api"),
    (Actor::TargetApi, "target-api"),
];
pub(crate) const FAULTS: [(Fault, &str); 3] = [
    (Fault::Kill, "kill"),
    (Fault::Freeze, "freeze"),
    (Fault::BlackHole, "black-hole"),
];

/// One cell, named `<state>/<actor>/<fault>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) state: State,
    pub(crate) actor: Actor,
    pub(crate) fault: Fault,
}

fn name_of<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    let found = table.iter().find(|(known, _)| known == value);
    found.map_or("", |(_, name)| name)
}

fn of_name<T: Copy>(table: &[(T, &str)], name: &str) -> Result<T, String> {
    let found = table.iter().find(|(_, known)| *known == name);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|(_, name)| *name).collect();
        format!("{name:?} is none of {}", known.join(", "))
    })
}

impl State {
    /// Whether it is a state of pods that fit nowhere as it is: others are evicted for them.
    pub(crate) fn is_of_preemptors(self) -> bool {
        matches!(self, Self::ToEvict | Self::Evicted)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, actor) = (name_of(&STATES, &self.state), name_of(&ACTORS, &self.actor));
        write!(f, "{state}/{actor}/{}", name_of(&FAULTS, &self.fault))
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.trim().split('/').collect();
        let [state, actor, fault] = parts[..] else {
            return Err(format!("{text:?} is not of the form state/actor/fault"));
        };
        Ok(Self {
            state: of_name(&STATES, state)?,
            actor: of_name(&ACTORS, actor)?,
            fault: of_name(&FAULTS, fault)?,
        })
    }
}

/// Groups of eight cells. In each every state occurs once, every actor, and every fault twice; together they are all.
const GROUPS: usize = 18;

fn group(index: usize) -> Vec<Cell> {
    let (offset, phase) = (index % ACTORS.len(), index / ACTORS.len());
    STATES
        .iter()
        .enumerate()
        .map(|(number, (state, _))| Cell {
            state: *state,
            actor: ACTORS[(number + offset) % ACTORS.len()].0,
            fault: FAULTS[(number + phase) % FAULTS.len()].0,
        })
        .collect()
}

/// Those that every day has: the one who evicts dies before and after it did.
const EACH_DAY: [Cell; 2] = [
    Cell {
        state: State::ToEvict,
        actor: Actor::CandidateScheduler,
        fault: Fault::Kill,
    },
    Cell {
        state: State::Evicted,
        actor: Actor::CandidateScheduler,
        fault: Fault::Kill,
    },
];

/// Those of a day, one half for each of two fleets. Nine days show all cells.
pub(crate) fn of_day(day: u64) -> [Vec<Cell>; 2] {
    let half = GROUPS / 2;
    let first = (day % half as u64) as usize;
    let mut halves = [group(first), group(first + half)];
    // The next day on the other fleet.
    for (cell, fleet) in EACH_DAY.into_iter().zip([day % 2, (day + 1) % 2]) {
        if !halves.iter().flatten().any(|its| *its == cell) {
            halves[fleet as usize].push(cell);
        }
    }
    halves
}

/// All cells, one half for each of two fleets.
pub(crate) fn all() -> [Vec<Cell>; 2] {
    let half = GROUPS / 2;
    [
        (0..half).flat_map(group).collect(),
        (half..GROUPS).flat_map(group).collect(),
    ]
}

/// What `CHAOS_CELLS` asks for: `all`, or names with commas between, dealt out to two fleets.
pub(crate) fn chosen(text: &str) -> Result<[Vec<Cell>; 2], String> {
    if text.trim() == "all" {
        return Ok(all());
    }
    let mut halves = [Vec::new(), Vec::new()];
    for (number, name) in text.split(',').enumerate() {
        halves[number % 2].push(name.parse()?);
    }
    Ok(halves)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_cells_are_different_and_survive_their_names() {
        let cells: BTreeSet<Cell> = all().into_iter().flatten().collect();
        assert_eq!(cells.len(), 8 * 6 * 3);
        for cell in cells {
            assert_eq!(cell.to_string().parse(), Ok(cell));
        }
    }

    #[test]
    fn each_day_shows_every_state_actor_and_fault_and_nine_days_all_cells() {
        let mut seen = BTreeSet::new();
        for day in 20_000..20_009 {
            let cells: Vec<Cell> = of_day(day).into_iter().flatten().collect();
            let extra = cells.len() - 16;
            assert!(extra <= EACH_DAY.len());
            let distinct: BTreeSet<Cell> = cells.iter().copied().collect();
            assert_eq!(distinct.len(), cells.len());
            assert!(EACH_DAY.iter().all(|cell| distinct.contains(cell)));
            let count = |fits: &dyn Fn(&Cell) -> bool| cells.iter().filter(|c| fits(c)).count();
            for (state, name) in STATES {
                assert!(count(&|cell| cell.state == state) >= 2, "{name}");
            }
            for (actor, name) in ACTORS {
                assert!(count(&|cell| cell.actor == actor) >= 2, "{name}");
            }
            for (fault, name) in FAULTS {
                assert!(count(&|cell| cell.fault == fault) >= 4, "{name}");
            }
            seen.extend(cells);
        }
        assert_eq!(seen.len(), 8 * 6 * 3);
    }

    #[test]
    fn a_wrong_name_is_explained() {
        let error = chosen("asked/source-api/kill,asked/source-api/cut").unwrap_err();
        assert_eq!(error, r#""cut" is none of kill, freeze, black-hole"#);
        assert!(chosen("asked").unwrap_err().contains("state/actor/fault"));
    }
}
