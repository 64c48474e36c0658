//! Plays a case through both schedulers, side by side: each step goes to both, each pod is judged by both, and goes
//! where ours puts it. Where room was made for it the victims go in both, and it comes again.

mod aftermath;

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use self::aftermath::preempted;
use crate::case::{Case, Step};
use crate::compare::{
    Difference, compare, compare_choice, compare_gate, compare_message, compare_preemption,
    compare_report,
};
use crate::explained::{Explanation, Scene, explain};
use crate::object;
use crate::side::{Side, SideError};
use crate::subject::{Outcome, Subject};
use crate::verdict::Verdict;
use crate::world::World;

/// A pod on which the two differ without explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The place of its step in the case.
    pub step: usize,
    /// Its namespace and name.
    pub pod: String,
    /// In what; the first ones come first.
    pub differences: Vec<Difference>,
}

/// What came of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many pods were judged.
    pub pods: usize,
    /// How many of them were placed.
    pub placed: usize,
    /// How many nodes they were judged on.
    pub nodes: usize,
    /// How many pods each explanation was needed for.
    pub explained: BTreeMap<String, usize>,
    /// The pods without explanation.
    pub disagreements: Vec<Disagreement>,
}

/// Looks on while a case is played.
pub trait Observer {
    /// A case begins.
    fn opened(&mut self, _world: &World) {}

    /// An object was created or changed, or a pod placed.
    fn applied(&mut self, _object: &Value) {}

    /// An object is gone.
    fn deleted(&mut self, _object: &Value) {}

    /// A pod was nominated.
    fn nominated(&mut self, _pod: &Value, _node: &str) {}

    /// Both have said the same of a pod, which has changed nothing yet.
    fn agreed(&mut self, _scene: &Scene<'_>) {}
}

/// Looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {}

/// The two schedulers, and what explains differences between them.
pub struct Players<'a> {
    /// Ours.
    pub ours: &'a mut Subject,
    /// The oracle.
    pub theirs: &'a mut dyn Side,
    /// What may differ.
    pub explanations: &'a [Explanation],
}

/// Plays a case. Fails if a side refuses what it is given, or is lost.
pub fn play(
    case: &Case,
    players: &mut Players<'_>,
    observer: &mut dyn Observer,
) -> Result<Report, SideError> {
    players.ours.open(&case.configuration, &case.objects)?;
    players.theirs.open(&case.configuration, &case.objects)?;
    let mut game = Game {
        players,
        world: World::new(&case.configuration, &case.objects),
        observer,
        report: Report::default(),
        leaving: Vec::new(),
    };
    game.observer.opened(&game.world);
    for (at, step) in case.steps.iter().enumerate() {
        // Another seed for each pod, and the same one for a pod when others are left out.
        let seed = case.seed.wrapping_add(hash(&object::key(step.object())));
        game.step(at, step, seed)?;
    }
    Ok(game.report)
}

/// FNV-1a, 64 bits: the same on each machine and in each version.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

struct Game<'a, 'b> {
    players: &'a mut Players<'b>,
    world: World,
    observer: &'a mut dyn Observer,
    report: Report,
    // Victims that are being deleted, and go when their preemptor was tried once more.
    leaving: Vec<Value>,
}

/// How often a pod is tried in a row, at most.
const TURNS: u64 = 4;

impl Game<'_, '_> {
    fn step(&mut self, at: usize, step: &Step, seed: u64) -> Result<(), SideError> {
        match step {
            Step::Schedule(pod) if self.world.pods().contains_key(&object::key(pod)) => Ok(()),
            Step::Schedule(pod) => {
                let mut turns = 0..TURNS;
                while let Some(turn) = turns.next()
                    && self.schedule(at, pod, seed.wrapping_add(turn))?
                {}
                self.leaving.clear();
                Ok(())
            }
            Step::Ask(pod) => {
                let (ours, theirs) = self.evaluate(pod)?;
                let mut differences = self.compare(&ours, &theirs);
                let texts = (ours.message.as_deref(), theirs.message.as_deref());
                differences.extend(compare_report(texts.0, texts.1));
                self.judge(at, pod, (&ours, &theirs), differences);
                Ok(())
            }
            Step::Apply(object) => match self.world.current(object) {
                Some(object) => self.apply(&object),
                None => Ok(()),
            },
            Step::Delete(object) => self.delete(object),
            Step::Finish(pod) => self.finish(pod),
            Step::Nominate { pod, .. } if self.world.has(pod) => Ok(()),
            Step::Nominate { pod, node } => {
                self.players.ours.nominate(pod, node)?;
                self.players.theirs.nominate(pod, node)?;
                self.world.nominate(pod, node);
                self.observer.nominated(pod, node);
                Ok(())
            }
        }
    }

    fn evaluate(&mut self, pod: &Value) -> Result<(Verdict, Verdict), SideError> {
        let ours = self.players.ours.judge(pod)?;
        let theirs = self.players.theirs.evaluate(pod)?;
        self.report.pods += 1;
        self.report.nodes += self.world.nodes().len();
        Ok((ours, theirs))
    }

    fn compare(&self, ours: &Verdict, theirs: &Verdict) -> Vec<Difference> {
        compare(ours, theirs, |node| self.world.nodes().contains_key(node))
    }

    /// Whether the pod is to be tried again at once.
    fn schedule(&mut self, at: usize, pod: &Value, seed: u64) -> Result<bool, SideError> {
        let nomination = self.world.nomination(pod).map(str::to_owned);
        let (mut ours, mut theirs) = self.evaluate(pod)?;
        let outcome = self.players.ours.schedule(pod, seed)?;
        // What counts is where the pod is expected from now on.
        theirs.nominated = match theirs.nominated.take() {
            None if theirs.error.is_none() => nomination.clone(),
            None => None,
            Some(node) => Some(node).filter(|node| !node.is_empty()),
        };
        let mut differences = self.compare(&ours, &theirs);
        let gate = theirs.pre_enqueue.as_ref();
        match &outcome {
            // Of a failure nothing else is told, and who is gated isn't tried.
            Outcome::Gated(_) if theirs.error.is_some() => {}
            Outcome::Gated(refusal) => differences.extend(compare_gate(Some(refusal), gate)),
            _ if gate.is_some() => differences.extend(compare_gate(None, gate)),
            Outcome::Placed(node) => {
                differences.extend(compare_choice(node, &theirs, nomination.as_ref()));
            }
            Outcome::Failed(told) => {
                ours.message = Some(told.message.clone());
                ours.nominated.clone_from(&told.nominated);
                ours.victims.clone_from(&told.victims);
                ours.cleared.clone_from(&told.cleared);
                let texts = (ours.message.as_deref(), theirs.message.as_deref());
                differences.extend(compare_message(texts.0, texts.1));
                let is_going = |pod: &str| {
                    let known = self.world.pods().get(pod);
                    known.is_some_and(|known| known["metadata"]["deletionTimestamp"].is_string())
                };
                differences.extend(compare_preemption(&ours, &theirs, is_going));
            }
        }
        differences.sort_by_key(|difference| difference.aspect);
        self.judge(at, pod, (&ours, &theirs), differences);
        match outcome {
            Outcome::Placed(node) => {
                self.players.theirs.assume(pod, &node)?;
                self.world.assume(pod, &node);
                self.observer.applied(&object::on_node(pod, &node));
                self.report.placed += 1;
                Ok(false)
            }
            Outcome::Failed(told) => self.make_room(pod, &told, nomination.as_deref(), seed),
            Outcome::Gated(_) => {
                self.forget(pod, nomination.is_some())?;
                Ok(false)
            }
        }
    }

    fn judge(
        &mut self,
        step: usize,
        pod: &Value,
        (ours, theirs): (&Verdict, &Verdict),
        differences: Vec<Difference>,
    ) {
        let scene = Scene {
            pod,
            world: &self.world,
            ours,
            theirs,
        };
        if differences.is_empty() {
            self.observer.agreed(&scene);
            return;
        }
        let (open, names) = explain(&scene, differences, self.players.explanations);
        for name in names.into_iter().collect::<std::collections::BTreeSet<_>>() {
            *self.report.explained.entry(name.to_owned()).or_default() += 1;
        }
        if !open.is_empty() {
            self.report.disagreements.push(Disagreement {
                step,
                pod: object::key(pod),
                differences: open,
            });
        }
    }

    fn apply(&mut self, object: &Value) -> Result<(), SideError> {
        self.players.ours.apply(object)?;
        self.players.theirs.apply(object)?;
        self.world.apply(object);
        self.observer.applied(object);
        Ok(())
    }

    /// Shows a pod that was only assumed, so that its end can be shown.
    fn confirm(&mut self, pod: &Value) -> Result<(), SideError> {
        let known = self.world.pods().get(&object::key(pod)).cloned();
        match known {
            Some(known) if self.world.is_assumed(pod) => self.apply(&known),
            _ => Ok(()),
        }
    }

    fn delete(&mut self, object: &Value) -> Result<(), SideError> {
        if !self.world.has(object) {
            return Ok(());
        }
        self.confirm(object)?;
        let object = self.world.current(object).unwrap_or_else(|| object.clone());
        self.players.ours.delete(&object)?;
        self.players.theirs.delete(&object)?;
        self.world.delete(&object);
        self.observer.deleted(&object);
        Ok(())
    }

    fn finish(&mut self, pod: &Value) -> Result<(), SideError> {
        self.confirm(pod)?;
        let Some(mut pod) = self.world.current(pod).filter(|pod| self.world.has(pod)) else {
            return Ok(());
        };
        pod["status"]["phase"] = "Succeeded".into();
        // The real scheduler's watch leaves such pods out, which shows as a deletion.
        self.players.ours.apply(&pod)?;
        self.players.theirs.delete(&pod)?;
        self.world.delete(&pod);
        self.observer.deleted(&pod);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
