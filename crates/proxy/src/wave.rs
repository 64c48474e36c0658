//! Whom to ask next, and when enough answers are in.
//!
//! A wave is a few targets asked at once: one while the best one's free room surely fits and it isn't known to be silent, else
//! three. It is widened when all of it refused, or after a short silence that doubles; a target that answers others isn't silent.

use std::collections::BTreeMap;

use crate::{
    class::Class,
    memory::Memory,
    plan::{Action, Answer, Gate, Note},
    settings::{LONGEST_BUSY, LONGEST_SILENCE, Settings},
    targets::Targets,
    view::{ChaperonView, Monotonic},
};

/// A target that the pod may be asked for, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The virtual node.
    pub node: String,
    /// Its published free room fits the pod, whatever else was asked there, and it isn't silent.
    pub surely_fits: bool,
    /// How far back it stands; those of one class are equal until a cycle scores them.
    pub class: u32,
}

/// Why a target that could take the pod isn't asked.
pub(crate) const LEAVING: &str = "its Target is being deleted";

/// What a wave's decision reads.
pub(crate) struct Asking<'a> {
    pub(crate) ranking: &'a [Ranked],
    pub(crate) chaperons: &'a [ChaperonView],
    pub(crate) targets: &'a Targets,
    pub(crate) memory: &'a Memory,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Monotonic,
}

/// What it decides.
pub(crate) struct Wave {
    pub(crate) asks: Vec<Action>,
    pub(crate) gate: Gate,
    pub(crate) answers: BTreeMap<String, Answer>,
    pub(crate) wake_at: Option<Monotonic>,
}

impl Asking<'_> {
    /// What each ranked or asked target says.
    fn answers(&self) -> BTreeMap<String, Answer> {
        let mut answers = BTreeMap::new();
        for ranked in self.ranking {
            let node = &ranked.node;
            if !self.targets.is_reachable(node) {
                answers.insert(node.clone(), Answer::Unreachable);
            } else if self.targets.is_leaving(node) {
                answers.insert(node.clone(), Answer::Refused(LEAVING.to_owned()));
            } else if let Some(reason) = self.memory.ask_refusal(node) {
                answers.insert(node.clone(), Answer::Refused(reason.to_owned()));
            } else if self.memory.ask_under_way(node) {
                answers.insert(node.clone(), self.waiting(node));
            }
        }
        for chaperon in self.chaperons {
            let answer = match &chaperon.class {
                _ if !self.targets.is_reachable(&chaperon.node) => Answer::Unreachable,
                _ if self.targets.is_leaving(&chaperon.node) => Answer::Refused(LEAVING.to_owned()),
                Class::Reserved(_) | Class::PlainReserved => Answer::Reserved,
                Class::Refused(reason) | Class::VoidRefused(reason) => {
                    Answer::Refused(reason.clone())
                }
                Class::Ending
                | Class::Missing
                | Class::Bound
                | Class::Granted(_)
                | Class::VoidReserved(_)
                | Class::Asked
                | Class::PlainGranted => self.waiting(&chaperon.node),
            };
            answers.insert(chaperon.node.clone(), answer);
        }
        answers
    }

    fn waiting(&self, node: &str) -> Answer {
        let since = self.memory.asked_at(node).unwrap_or(self.now);
        if self.now >= since + self.settings.patience {
            Answer::Silent
        } else {
            Answer::Waiting
        }
    }

    /// Targets that can be asked next, best first; those left after a grant come last.
    fn unasked<'b>(&'b self, answers: &BTreeMap<String, Answer>) -> Vec<&'b Ranked> {
        let mut next: Vec<_> = self
            .ranking
            .iter()
            .filter(|ranked| {
                !answers.contains_key(&ranked.node)
                    // A failed ask is sent again when its time has come.
                    || (self.memory.ask_refusal(&ranked.node).is_some()
                        && self.targets.is_reachable(&ranked.node)
                        && !self.targets.is_leaving(&ranked.node)
                        && !self.memory.ask_under_way(&ranked.node)
                        && !self.chaperons.iter().any(|c| c.node == ranked.node))
            })
            .collect();
        next.sort_by_key(|ranked| self.memory.was_left(&ranked.node));
        next
    }

    fn class(&self, node: &str) -> Option<u32> {
        let ranked = self.ranking.iter().find(|ranked| ranked.node == node)?;
        Some(ranked.class)
    }

    fn wave_size(&self, next: &[&Ranked]) -> usize {
        let sure = next.first().is_some_and(|best| best.surely_fits);
        match (self.settings.ask_all, sure) {
            (true, _) => next.len(),
            (false, true) => 1,
            (false, false) => self.settings.wave,
        }
    }

    /// How long the wave after `earlier` ones may be silent.
    fn silence(&self, earlier: u32) -> Monotonic {
        let doubled = self.settings.silence.saturating_mul(1 << earlier.min(10));
        doubled.min(LONGEST_SILENCE.max(self.settings.silence))
    }

    /// When the silence of the newest wave becomes too long: of those that were asked, nobody has answered anything.
    fn silence_over(&self, waiting: &[String]) -> Option<Monotonic> {
        let earlier = self.memory.waves().saturating_sub(1);
        let asked = self.memory.last_wave_at()?;
        let since = |node: &String| self.targets.silent_since(node, asked, LONGEST_BUSY);
        let since = waiting.iter().map(since).max().unwrap_or(asked);
        Some(since + self.silence(earlier))
    }

    /// Decides the next wave and whether a scheduling cycle may run.
    pub(crate) fn decide(&self) -> Wave {
        let answers = self.answers();
        let waiting: Vec<String> = answers
            .iter()
            .filter(|(_, answer)| **answer == Answer::Waiting)
            .map(|(node, _)| node.clone())
            .collect();
        // A node that doesn't suit any more can't be chosen, whatever its target holds.
        let reserved = |ranked: &&Ranked| answers.get(&ranked.node) == Some(&Answer::Reserved);
        let holders = self.ranking.iter().filter(reserved);
        if let Some(best) = holders.map(|ranked| ranked.class).min() {
            // Those that would lose anyway aren't waited for.
            let mut waiting = waiting;
            waiting.retain(|node| self.class(node).is_none_or(|class| class <= best));
            return self.settle(answers, waiting);
        }
        let next = self.unasked(&answers);
        let silence_over = self.silence_over(&waiting);
        let widen = waiting.is_empty() || silence_over.is_none_or(|at| self.now >= at);
        let mut asks = Vec::new();
        if widen {
            let size = self.wave_size(&next);
            asks.extend(next.iter().take(size).map(|r| Action::Ask {
                node: r.node.clone(),
            }));
        }
        let patience_over = waiting
            .iter()
            .filter_map(|node| self.memory.asked_at(node))
            .map(|at| at + self.settings.patience)
            .min();
        // The silence of the wave that goes out now starts now.
        let next_silence_over = if asks.is_empty() {
            silence_over.filter(|at| *at > self.now)
        } else {
            Some(self.now + self.silence(self.memory.waves()))
        };
        let more = next.len() > asks.len();
        let wake_at = [next_silence_over.filter(|_| more), patience_over]
            .into_iter()
            .flatten()
            .min();
        // With nobody left to wait for, the cycle runs to tell the user why nobody takes the pod.
        let fresh_asks = asks.iter().any(|ask| match ask {
            Action::Ask { node } => self.memory.ask_refusal(node).is_none(),
            _ => false,
        });
        let gate = if waiting.is_empty() && !fresh_asks {
            Gate::Open
        } else {
            Gate::Closed(Note::Asked(waiting))
        };
        Wave {
            asks,
            gate,
            answers,
            wake_at,
        }
    }

    /// Somebody holds a node: give the rest of the wave a moment, then choose.
    fn settle(&self, answers: BTreeMap<String, Answer>, waiting: Vec<String>) -> Wave {
        let settled_at = self.memory.first_reserved_at().unwrap_or(self.now) + self.settings.settle;
        let enough = waiting.is_empty() || self.now >= settled_at;
        let gate = if enough {
            Gate::Open
        } else {
            Gate::Closed(Note::Asked(waiting))
        };
        Wave {
            asks: Vec::new(),
            gate,
            answers,
            wake_at: (!enough).then_some(settled_at),
        }
    }
}
