//! The order in which the pipeline would have a pod's targets, and why each one isn't first or isn't there at all.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use pilotage_placement::{Loss, Ranked, Reason, reasons};

use crate::plan::Answer;

/// How long the note of an event is at most, in bytes, less what says how many were left out.
const ROOM: usize = 1000;

/// Where one target stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// 0 is best. Targets of one class are equal in the pipeline's eyes.
    pub class: u32,
    /// How many pods are placed there, or may be soon.
    pub used: u64,
    /// Why it isn't in the best class.
    pub why: Option<Why>,
}

/// Why a target isn't in the best class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The best one is better.
    Loss(Loss),
    /// A step wouldn't have it, but the pod didn't ask for that itself.
    Step(Reason),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss(loss @ Loss::Farther { .. }) => write!(f, "is {loss}"),
            Self::Loss(loss) => loss.fmt(f),
            Self::Step(reason) => reason.fmt(f),
        }
    }
}

/// The order of a pod's targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By virtual node.
    standings: HashMap<Arc<str>, Standing>,
    /// Targets that the pod's own words rule out.
    passed: BTreeMap<Arc<str>, Reason>,
}

impl Order {
    /// Where a target stands, if it may have the pod.
    pub fn standing(&self, node: &str) -> Option<&Standing> {
        self.standings.get(node)
    }

    /// Whether the pod's own words rule a target out.
    pub fn passes_over(&self, node: &str) -> bool {
        self.passed.contains_key(node)
    }

    /// Targets that the pod's own words rule out, with the reason, by name.
    pub fn passed(&self) -> impl Iterator<Item = (&str, &Reason)> {
        self.passed.iter().map(|(node, reason)| (&**node, reason))
    }

    /// Targets that may have the pod, with why each isn't in the best class, if it isn't.
    pub fn standings(&self) -> impl Iterator<Item = (&str, &Standing)> {
        self.standings
            .iter()
            .map(|(node, standing)| (&**node, standing))
    }

    /// Says so to the pod's author: one short phrase for each target but the one that got the pod, best first, as far
    /// as an event has room for them. What they answered counts before where they stand.
    pub fn tell(&self, winner: &str, answers: &BTreeMap<String, Answer>) -> Option<String> {
        let class = |node: &str| self.standing(node).map_or(u32::MAX, |at| at.class);
        let answered = answers.keys().map(|node| &**node);
        let standing = self.standings().map(|(node, _)| node);
        let nodes = answered
            .chain(standing)
            .chain(self.passed.keys().map(|node| &**node));
        let others: BTreeSet<_> = nodes
            .filter(|node| *node != winner)
            .map(|node| (class(node), node))
            .collect();
        let mut phrases = others.into_iter().filter_map(|(_, node)| {
            let phrase = self.phrase(node, answers.get(node))?;
            Some(format!("{node} {phrase}"))
        });
        let mut text = phrases.next()?;
        while let Some(phrase) = phrases.next() {
            if text.len().saturating_add(phrase.len()) > ROOM {
                let more = format!("; and {} more", phrases.count().saturating_add(1));
                text.push_str(&more);
                break;
            }
            text.push_str("; ");
            text.push_str(&phrase);
        }
        Some(text)
    }

    fn phrase(&self, node: &str, answer: Option<&Answer>) -> Option<String> {
        let passed = || self.passed.get(node).map(ToString::to_string);
        let why = || Some(self.standing(node)?.why.as_ref()?.to_string());
        answer
            .and_then(Answer::objection)
            .or_else(passed)
            .or_else(why)
    }

    /// Names with class and use, and those that are passed over.
    #[cfg(test)]
    pub(crate) fn of_test(standings: &[(&str, u32, u64)], passed: &[&str]) -> Self {
        let mut order = Self::default();
        for &(node, class, used) in standings {
            let why = None;
            order.stand(node.into(), Standing { class, used, why });
        }
        for node in passed {
            let reason = reasons::Provider("other".into());
            order.pass((*node).into(), reason.into());
        }
        order
    }

    pub(super) fn pass(&mut self, node: Arc<str>, reason: Reason) {
        self.passed.insert(node, reason);
    }

    pub(super) fn stand(&mut self, node: Arc<str>, standing: Standing) {
        self.standings.insert(node, standing);
    }

    /// Adds a ranking behind those that are there; `first` says for each why it wasn't with them.
    pub(super) fn append(
        &mut self,
        class: &mut u32,
        ranking: Vec<Ranked>,
        first: impl Fn(&str) -> Option<Reason>,
    ) {
        let best = ranking.first().cloned();
        let mut before: Option<Ranked> = None;
        for ranked in ranking {
            let equal =
                |other: &Ranked| (other.distance, other.total) == (ranked.distance, ranked.total);
            if before.as_ref().is_some_and(|before| !equal(before)) {
                *class = class.saturating_add(1);
            }
            let loss = best.as_ref().filter(|best| !equal(best));
            let why = first(&ranked.name)
                .map(Why::Step)
                .or_else(|| loss.map(|best| Why::Loss(ranked.loss_to(best))));
            let standing = Standing {
                class: *class,
                used: ranked.used,
                why,
            };
            self.stand(ranked.name.clone(), standing);
            before = Some(ranked);
        }
        if before.is_some() {
            *class = class.saturating_add(1);
        }
    }
}

/// What becomes of a target that a step rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It can't have the pod: the pod's own words rule it out.
    Never,
    /// It comes after the others, in an order of its own: the pod only wishes for something else.
    Later,
    /// It comes last of all.
    Last,
}

/// A step must not make a pod impossible that asks for nothing.
pub(super) const fn verdict(reason: &Reason, demands_region: bool) -> Verdict {
    match reason {
        // Whether it answers is known better by asking.
        Reason::Usable(_) | Reason::Strategy(reasons::Strategy::TooFar) => Verdict::Last,
        Reason::Strategy(reasons::Strategy::OtherRegion(_)) if demands_region => Verdict::Never,
        // The first two are annotations' demands, the others filters of the scheduler's own.
        Reason::Provider(_)
        | Reason::AccessRestrictions(_)
        | Reason::OwnSelector(_)
        | Reason::Taints(_) => Verdict::Never,
        // A wish. Besides zones and the strategy, no other step has anything to say of pods.
        _ => Verdict::Later,
    }
}
