//! Plays a case as a history: a pod that finds no node stays in our queue, and the steps that follow are what happens
//! around it. After each, when our queue has come to rest, the oracle finds no node for any pod that waits for another
//! event, or it was overlooked: our queue and hints are on trial here. What plugins say is compared by
//! [`play`](crate::play), and a pod that only the oracle would place is a matter of that, explained or not.
//!
//! A minute passes from step to step, so that backoff is over, and nobody is tried for having waited long. What neither
//! scheduler takes for news is followed by a try of all. Whether others could be evicted for a pod that waits isn't
//! asked: hints say when it may fit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, Step};
use crate::compare::{Aspect, Difference, compare};
use crate::configuration::Configuration;
use crate::explained::{Scene, explain};
use crate::object;
use crate::play::{Disagreement, Players, Report, hash, preempted};
use crate::side::{Side as _, SideError};
use crate::subject::{HELD, Outcome, Unplaced, Waiting};
use crate::world::World;

/// The time between two steps.
const BETWEEN: Duration = Duration::from_mins(1);
/// How often pods are tried after one step, at most: a queue that never comes to rest is an error.
const TURNS: u64 = 10_000;
/// What pods without constraints are spread by.
const SELECTING: [&str; 4] = [
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
];

/// Plays a case as a history. The report counts the questions to the oracle as pods, and says a pod once that was
/// overlooked. Fails if a side refuses what it is given, or is lost.
pub fn play(case: &Case, players: &mut Players<'_>) -> Result<Report, SideError> {
    let is_pending =
        |object: &&Value| object::kind(object) == "Pod" && object::node_of(object).is_none();
    let (pending, objects): (Vec<&Value>, Vec<&Value>) = case.objects.iter().partition(is_pending);
    let objects: Vec<Value> = objects.into_iter().cloned().collect();
    players.ours.open(&case.configuration, &objects)?;
    let theirs = without_preemption(&case.configuration);
    players.theirs.open(&theirs, &objects)?;
    let mut history = History {
        players,
        world: World::new(&case.configuration, &objects),
        waiting: BTreeMap::new(),
        held: BTreeSet::new(),
        ending: Vec::new(),
        silent: false,
        told: BTreeSet::new(),
        report: Report::default(),
    };
    for pod in pending {
        history.come(pod)?;
    }
    for (at, step) in case.steps.iter().enumerate() {
        let seed = case.seed.wrapping_add(hash(&object::key(step.object())));
        history.step(at, step, seed)?;
    }
    Ok(history.report)
}

/// The oracle is only asked where a pod fits, with regard to nominations: whom it would evict would cost most of the
/// time.
fn without_preemption(configuration: &Configuration) -> Configuration {
    const NAME: &str = "DefaultPreemption";
    let mut configuration = configuration.clone();
    configuration.plugins.retain(|plugin| plugin.name != NAME);
    configuration.arguments.remove(NAME);
    configuration
}

struct History<'a, 'b> {
    players: &'a mut Players<'b>,
    // What both know: nodes, pods on nodes, nominations.
    world: World,
    // Pods without a node, by namespace and name.
    waiting: BTreeMap<String, Value>,
    // Those of them that a gate keeps back.
    held: BTreeSet<String>,
    // Pods that began to end, and are gone with the next step.
    ending: Vec<Value>,
    // Something happened that neither scheduler takes for news, although it may help: a pod begins to end, which isn't
    // counted any more where pods are spread; other pods are selected by what the configuration's constraints go by, or
    // by a pod's own `matchLabelKeys`; a pod that is expected somewhere needs less.
    silent: bool,
    // Pods that were overlooked.
    told: BTreeSet<String>,
    report: Report,
}

impl History<'_, '_> {
    fn step(&mut self, at: usize, step: &Step, seed: u64) -> Result<(), SideError> {
        self.players.ours.pass(BETWEEN)?;
        for pod in std::mem::take(&mut self.ending) {
            self.delete(&pod)?;
        }
        match step {
            Step::Schedule(pod) if self.is_on_node(pod) => {}
            Step::Schedule(pod) => {
                self.held.remove(&object::key(pod));
                self.come(pod)?;
            }
            // A question, which changes nothing.
            Step::Ask(_) => {}
            Step::Apply(object) => self.change(object)?,
            Step::Delete(object) => self.delete(object)?,
            Step::Finish(pod) => self.finish(pod)?,
            Step::Nominate { pod, .. } if self.world.has(pod) || self.is_waiting(pod) => {}
            Step::Nominate { pod, node } => {
                self.held.insert(object::key(pod));
                self.waiting.insert(object::key(pod), pod.clone());
                self.expect(pod, node)?;
            }
        }
        self.settle(seed)?;
        self.ask(at, step)
    }

    fn is_on_node(&self, pod: &Value) -> bool {
        self.world.pods().contains_key(&object::key(pod))
    }

    fn is_waiting(&self, pod: &Value) -> bool {
        self.waiting.contains_key(&object::key(pod))
    }

    /// The pod without a node as a watch shows it.
    fn shown(&self, pod: &Value) -> Value {
        let mut shown = pod.clone();
        if let Some(node) = self.world.nomination(pod) {
            shown["status"]["nominatedNodeName"] = node.into();
        }
        if self.held.contains(&object::key(pod)) {
            shown["spec"]["schedulingGates"] = json!([{"name": HELD}]);
        }
        shown
    }

    /// A pod without a node comes, or changes.
    fn come(&mut self, pod: &Value) -> Result<(), SideError> {
        let before = self.waiting.insert(object::key(pod), pod.clone());
        if before.is_some_and(|before| before != *pod) {
            let spread = object::list(pod, "/spec/topologySpreadConstraints");
            self.silent |= spread.iter().any(|it| it.get("matchLabelKeys").is_some());
            if let Some(node) = self.world.nomination(pod).map(str::to_owned) {
                self.players.theirs.nominate(pod, &node)?;
                self.world.nominate(pod, &node);
                self.silent = true;
            }
        }
        let shown = self.shown(pod);
        self.players.ours.apply(&shown)
    }

    /// A pod without a node is expected on one from now on.
    fn expect(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        self.players.theirs.nominate(pod, node)?;
        self.world.nominate(pod, node);
        let shown = self.shown(pod);
        self.players.ours.apply(&shown)
    }

    /// A pod without a node isn't expected anywhere any more.
    fn expect_nowhere(&mut self, pod: &Value) -> Result<(), SideError> {
        if self.world.nomination(pod).is_none() {
            return Ok(());
        }
        self.players.theirs.delete(pod)?;
        self.world.delete(pod);
        let shown = self.shown(pod);
        self.players.ours.apply(&shown)
    }

    /// An object comes, or changes.
    fn change(&mut self, object: &Value) -> Result<(), SideError> {
        let Some(current) = self.world.current(object) else {
            let is_waiting = self.is_waiting(object);
            return if is_waiting && is_ending(object) {
                // What has no node is gone at once.
                self.delete(object)
            } else if is_waiting {
                self.come(object)
            } else {
                Ok(())
            };
        };
        if object::kind(&current) == "Pod" {
            let key = object::key(&current);
            self.waiting.remove(&key);
            self.held.remove(&key);
            let known = self.world.pods().get(&key);
            if is_ending(&current) && known.is_none_or(|known| !is_ending(known)) {
                self.silent = true;
                self.ending.push(current.clone());
            }
        }
        self.silent |= SELECTING.contains(&object::kind(&current));
        self.apply(&current)
    }

    fn apply(&mut self, object: &Value) -> Result<(), SideError> {
        self.players.ours.apply(object)?;
        self.players.theirs.apply(object)?;
        self.world.apply(object);
        Ok(())
    }

    /// An object is gone; with a node its pods.
    fn delete(&mut self, object: &Value) -> Result<(), SideError> {
        let kind = object::kind(object);
        if kind == "Pod" && self.is_waiting(object) {
            return self.delete_waiting(object);
        }
        if !self.world.has(object) {
            return Ok(());
        }
        self.silent |= SELECTING.contains(&kind);
        let current = self.world.current(object);
        let current = current.unwrap_or_else(|| object.clone());
        self.players.ours.delete(&current)?;
        self.players.theirs.delete(&current)?;
        self.world.delete(&current);
        if kind == "Node" {
            let name = object::name(object);
            let pods = self.world.pods().values();
            let there = pods.filter(|pod| object::node_of(pod) == Some(name));
            for pod in there.cloned().collect::<Vec<_>>() {
                self.delete(&pod)?;
            }
        }
        Ok(())
    }

    fn delete_waiting(&mut self, pod: &Value) -> Result<(), SideError> {
        let key = object::key(pod);
        self.waiting.remove(&key);
        self.held.remove(&key);
        self.players.ours.delete(pod)?;
        if self.world.nomination(pod).is_some() {
            self.players.theirs.delete(pod)?;
            self.world.delete(pod);
        }
        Ok(())
    }

    fn finish(&mut self, pod: &Value) -> Result<(), SideError> {
        if !self.is_on_node(pod) {
            return self.delete(pod);
        }
        let Some(mut pod) = self.world.current(pod) else {
            return Ok(());
        };
        pod["status"]["phase"] = "Succeeded".into();
        // The real scheduler's watch leaves such pods out, which shows as a deletion.
        self.players.ours.apply(&pod)?;
        self.players.theirs.delete(&pod)?;
        self.world.delete(&pod);
        Ok(())
    }

    /// Turns our queue until it has come to rest.
    fn settle(&mut self, seed: u64) -> Result<(), SideError> {
        for turn in 0..TURNS {
            if let Some((key, outcome)) = self.players.ours.turn(seed.wrapping_add(turn))? {
                let unknown = || SideError::refused("turn", &format!("{key} doesn't wait"));
                let pod = self.waiting.get(&key).cloned().ok_or_else(unknown)?;
                match outcome {
                    Outcome::Placed(node) => self.place(&pod, &node)?,
                    Outcome::Failed(told) => self.make_room(&pod, &told, seed)?,
                    Outcome::Gated(_) => {}
                }
            } else if std::mem::take(&mut self.silent) {
                self.players.ours.wake()?;
            } else {
                return Ok(());
            }
        }
        let restless = format!("the queue doesn't come to rest within {TURNS} turns");
        Err(SideError::refused("turn", &restless))
    }

    /// A pod was bound, which the watch shows at once.
    fn place(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        self.waiting.remove(&object::key(pod));
        self.held.remove(&object::key(pod));
        self.players.theirs.assume(pod, node)?;
        self.world.assume(pod, node);
        self.report.placed += 1;
        self.apply(&object::on_node(pod, node))
    }

    /// Does what preemption has decided: the one is expected somewhere, others aren't, and victims go, at once or with
    /// the next step.
    fn make_room(&mut self, pod: &Value, told: &Unplaced, seed: u64) -> Result<(), SideError> {
        match told.nominated.as_deref() {
            None => self.expect_nowhere(pod)?,
            Some(node) if self.world.nomination(pod) == Some(node) => {}
            Some(node) => self.expect(pod, node)?,
        }
        for key in &told.cleared {
            if let Some(other) = self.waiting.get(key).cloned() {
                self.expect_nowhere(&other)?;
            }
        }
        for key in &told.victims {
            let Some(victim) = self.world.pods().get(key).cloned() else {
                continue;
            };
            if (seed.wrapping_add(hash(key)) >> 8).is_multiple_of(2) {
                self.delete(&victim)?;
            } else {
                self.change(&preempted(victim))?;
            }
        }
        Ok(())
    }

    /// Asks the oracle about all that wait for another event.
    fn ask(&mut self, at: usize, step: &Step) -> Result<(), SideError> {
        for Waiting { pod: key, plugins } in self.players.ours.waiting()? {
            let Some(pod) = self.waiting.get(&key).cloned() else {
                let unknown = format!("{key} is in the queue, and doesn't wait");
                return Err(SideError::refused("waiting", &unknown));
            };
            if self.told.contains(&key) {
                continue;
            }
            let theirs = self.players.theirs.evaluate(&pod)?;
            self.report.pods += 1;
            self.report.nodes += self.world.nodes().len();
            if theirs.scores.is_empty() {
                continue;
            }
            let ours = self.players.ours.judge(&pod)?;
            let differences = if ours.scores.is_empty() {
                compare(&ours, &theirs, |node| self.world.nodes().contains_key(node))
            } else {
                vec![Difference {
                    aspect: Aspect::Waiting,
                    node: None,
                    plugin: Some(plugins.join(" and ")).filter(|plugins| !plugins.is_empty()),
                    ours: format!("leaves it where it is after {}", event(step)),
                    theirs: format!("places it on {:?}", theirs.best),
                }]
            };
            let scene = Scene {
                pod: &pod,
                world: &self.world,
                ours: &ours,
                theirs: &theirs,
            };
            let (open, names) = explain(&scene, differences, self.players.explanations);
            for name in names.into_iter().collect::<BTreeSet<_>>() {
                *self.report.explained.entry(name.to_owned()).or_default() += 1;
            }
            if !open.is_empty() {
                self.told.insert(key.clone());
                self.report.disagreements.push(Disagreement {
                    step: at,
                    pod: key,
                    differences: open,
                });
            }
        }
        Ok(())
    }
}

fn is_ending(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// What happened, in words.
fn event(step: &Step) -> String {
    let what = match step {
        Step::Schedule(_) => "the arrival of",
        Step::Ask(_) => "a question about",
        Step::Apply(_) => "a change of",
        Step::Delete(_) => "the deletion of",
        Step::Finish(_) => "the end of",
        Step::Nominate { .. } => "the nomination of",
    };
    let object = step.object();
    let key = object::key(object);
    format!(
        "{what} {} {}",
        object::kind(object),
        key.trim_start_matches('/')
    )
}

#[cfg(test)]
mod tests;
