//! A property of the world under any order of things: with requests that are late, lost or answered to nobody, and a
//! cache that lags, no Seed gets more Shoots than it has room for, and in the end everything counts where it is.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use serde_json::json;

use super::tests::{key, place, shoot, world};
use super::*;

/// What can happen next; numbers choose among what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize),
    Touch(usize),
    Delete(usize),
    /// The cache gets so many events.
    Deliver(usize),
    /// An attempt, unless one is under way.
    Attempt(usize),
    /// A request arrives, and its reply.
    Answer(usize),
    /// A request is refused.
    Refuse(usize),
    /// A request arrives, its reply doesn't.
    Arrive(usize),
    /// A request seems lost; it may arrive later.
    Lose(usize),
    /// One that seemed lost arrives.
    Late(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..6_usize;
    prop_oneof![
        2 => n.clone().prop_map(Step::Create),
        1 => n.clone().prop_map(Step::Touch),
        1 => n.clone().prop_map(Step::Delete),
        4 => (1..4_usize).prop_map(Step::Deliver),
        6 => n.clone().prop_map(Step::Attempt),
        4 => n.clone().prop_map(Step::Answer),
        1 => n.clone().prop_map(Step::Refuse),
        1 => n.clone().prop_map(Step::Arrive),
        1 => n.clone().prop_map(Step::Lose),
        1 => n.prop_map(Step::Late),
    ]
}

const ROOM: [(&str, u64); 2] = [("s", 2), ("t", 1)];

/// An API server.
#[derive(Default)]
struct Server {
    version: u64,
    /// Version and Seed of each Shoot.
    shoots: BTreeMap<usize, (u64, Option<String>)>,
    /// What the cache hasn't got yet.
    events: VecDeque<(usize, Option<SeenShoot>)>,
}

impl Server {
    fn write(&mut self, number: usize, seed: Option<String>) {
        self.version += 1;
        let patch = match &seed {
            Some(seed) => json!({"spec": {"seedName": seed}}),
            None => json!({}),
        };
        let seen = shoot(&number.to_string(), self.version, &patch);
        self.shoots.insert(number, (self.version, seed));
        self.events.push_back((number, Some(seen)));
    }

    fn touch(&mut self, number: usize) {
        if let Some((_, seed)) = self.shoots.get(&number).cloned() {
            self.write(number, seed);
        }
    }

    fn delete(&mut self, number: usize) {
        if self.shoots.remove(&number).is_some() {
            self.version += 1;
            self.events.push_back((number, None));
        }
    }

    /// The new version, or a conflict.
    fn bind(&mut self, number: usize, bind: &Bind) -> Option<u64> {
        let (version, seed) = self.shoots.get(&number)?;
        if version.to_string() != bind.version || seed.is_some() {
            return None;
        }
        self.write(number, Some(bind.seed.to_string()));
        Some(self.version)
    }

    fn at(&self, seed: &str) -> u64 {
        let seeds = self
            .shoots
            .values()
            .filter(|(_, own)| own.as_deref() == Some(seed));
        seeds.count() as u64
    }
}

fn deliver(server: &mut Server, world: &mut World) -> bool {
    let Some((number, seen)) = server.events.pop_front() else {
        return false;
    };
    world.shoot(&key(&number.to_string()), seen.as_ref());
    true
}

fn play(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut server, mut world) = (Server::default(), world());
    for (name, room) in ROOM {
        world.seed(name, Some(&place(name, room, &json!({}))));
    }
    let mut under_way: Vec<(usize, Bind)> = Vec::new();
    let mut lost: Vec<(usize, Bind)> = Vec::new();
    for step in steps {
        match *step {
            Step::Create(number) if !server.shoots.contains_key(&number) => {
                server.write(number, None);
            }
            Step::Touch(number) => server.touch(number),
            Step::Delete(number) => server.delete(number),
            Step::Deliver(count) => {
                for _ in 0..count {
                    deliver(&mut server, &mut world);
                }
            }
            Step::Attempt(number) => {
                let busy = under_way.iter().any(|(other, _)| *other == number);
                if !busy && let Decision::Bind(bind) = world.decide(&key(&number.to_string())) {
                    under_way.push((number, bind));
                }
            }
            Step::Refuse(at) if at < under_way.len() => {
                let (number, bind) = under_way.remove(at);
                let key = key(&number.to_string());
                world.not_bound(&key, &bind, NotBound::Refused, "no");
            }
            Step::Answer(at) | Step::Arrive(at) | Step::Lose(at) if at < under_way.len() => {
                let (number, bind) = under_way.remove(at);
                let key = key(&number.to_string());
                let bound = match step {
                    Step::Lose(_) => {
                        lost.push((number, bind.clone()));
                        None
                    }
                    _ => server.bind(number, &bind),
                };
                match (step, bound) {
                    (Step::Answer(_), Some(version)) => {
                        world.bound(&key, &bind, &version.to_string());
                    }
                    (Step::Answer(_), None) => {
                        world.not_bound(&key, &bind, NotBound::Conflict, "conflict");
                    }
                    _ => {
                        world.not_bound(&key, &bind, NotBound::Open, "no answer");
                    }
                }
            }
            Step::Late(at) if at < lost.len() => {
                let (number, bind) = lost.remove(at);
                server.bind(number, &bind);
            }
            Step::Create(_)
            | Step::Answer(_)
            | Step::Refuse(_)
            | Step::Arrive(_)
            | Step::Lose(_)
            | Step::Late(_) => {}
        }
        for (name, room) in ROOM {
            prop_assert!(server.at(name) <= room, "{name} is overfilled by {step:?}");
        }
    }
    // All comes to rest: what is under way is answered, what was lost stays lost.
    for (number, bind) in under_way {
        let key = key(&number.to_string());
        match server.bind(number, &bind) {
            Some(version) => world.bound(&key, &bind, &version.to_string()),
            None => drop(world.not_bound(&key, &bind, NotBound::Conflict, "conflict")),
        }
    }
    let numbers: Vec<_> = server.shoots.keys().copied().collect();
    for number in &numbers {
        server.touch(*number);
    }
    while deliver(&mut server, &mut world) {}
    for (name, _) in ROOM {
        prop_assert_eq!(world.used(name), server.at(name), "{}", name);
    }
    // Whoever fits is bound now.
    for number in numbers {
        let key = key(&number.to_string());
        if let Decision::Bind(bind) = world.decide(&key) {
            prop_assert!(server.bind(number, &bind).is_some());
        }
    }
    let placed: u64 = ROOM.iter().map(|(name, _)| server.at(name)).sum();
    prop_assert_eq!(placed, (server.shoots.len() as u64).min(3));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_seed_is_overfilled_and_everything_counts_in_the_end(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        play(&steps)?;
    }
}
