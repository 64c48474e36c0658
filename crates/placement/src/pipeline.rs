//! Owns the selection itself: it runs the steps in their order and ranks what is left. It knows no step and no rule.

use crate::candidate::Candidate;
use crate::points::Points;
use crate::request::Request;
use crate::rules::{self, Rule};
use crate::selection::{Failure, InputError, Ranked, Rejection, Selection};
use crate::settings::{Ranking, Settings};
use crate::steps::{Reason, Step};
use crate::strategy::Distance;

/// What steps and rules may look at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request,
    pub(crate) settings: &'a Settings,
}

/// Those that no step has rejected so far, and the report on the others.
pub(crate) struct Survivors<'a> {
    candidates: &'a [Candidate],
    alive: Vec<usize>,
    /// Of each in `alive`, once the strategy has measured them.
    distances: Vec<Distance>,
    rejected: Vec<Rejection>,
}

impl<'a> Survivors<'a> {
    /// In the order of the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a Candidate> {
        self.alive.iter().map(|index| &self.candidates[*index])
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.alive.is_empty()
    }

    /// Rejects each one that `judge` has a reason against.
    pub(crate) fn keep<R: Into<Reason>>(&mut self, judge: impl Fn(&'a Candidate) -> Result<(), R>) {
        let candidates = self.candidates;
        let rejected = &mut self.rejected;
        self.alive.retain(|index| {
            let candidate = &candidates[*index];
            let reason = judge(candidate).err();
            let keep = reason.is_none();
            rejected.extend(reason.map(|reason| Rejection {
                index: *index,
                name: candidate.name.clone(),
                reason: reason.into(),
            }));
            keep
        });
    }

    /// Rejects each one that has no distance, for a reason that doesn't depend on it.
    pub(crate) fn measure<R: Into<Reason> + Clone>(
        &mut self,
        distances: &[Option<Distance>],
        reason: &R,
    ) {
        let measured = std::mem::take(&mut self.alive).into_iter().zip(distances);
        for (index, distance) in measured {
            if let Some(distance) = distance {
                self.alive.push(index);
                self.distances.push(*distance);
            } else {
                self.rejected.push(Rejection {
                    index,
                    name: self.candidates[index].name.clone(),
                    reason: reason.clone().into(),
                });
            }
        }
    }

    fn rank(&self, context: Context<'_>) -> Result<Vec<Ranked>, InputError> {
        let rules: &[Rule] = match &context.settings.ranking {
            Ranking::Weighted(rules) if !context.request.testing => rules,
            _ => &[],
        };
        let alive: Vec<_> = self.iter().collect();
        let mut ranking: Vec<_> = self
            .alive
            .iter()
            .enumerate()
            .map(|(place, index)| Ranked {
                index: *index,
                name: alive[place].name.clone(),
                distance: self.distances.get(place).copied(),
                scores: Vec::with_capacity(rules.len()),
                total: Points::ZERO,
                used: alive[place].used,
            })
            .collect();
        for rule in rules {
            let scores = rules::score(rule, context, &alive)?;
            for (ranked, score) in ranking.iter_mut().zip(scores) {
                ranked.total = ranked.total.plus(score.points.times(score.weight));
                ranked.scores.push(score);
            }
        }
        ranking.sort_unstable_by(Ranked::order);
        Ok(ranking)
    }
}

/// Who gets a request, who would be next, and why the others can't have it.
///
/// The steps run in the order of [`Step::ALL`], each on what the one before has left; the first one that leaves
/// nobody ends the selection. Ties are broken by how much is placed somewhere, then by name, so that the order of
/// `candidates` changes nothing.
pub fn select(request: &Request, candidates: &[Candidate], settings: &Settings) -> Selection {
    let context = Context { request, settings };
    let mut survivors = Survivors {
        candidates,
        alive: (0..candidates.len()).collect(),
        distances: Vec::new(),
        rejected: Vec::new(),
    };
    let outcome = run(context, &mut survivors);
    let (ranking, failure) = match outcome {
        Ok(ranking) => (ranking, None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    Selection {
        ranking,
        rejected: survivors.rejected,
        failure,
    }
}

fn run(context: Context<'_>, survivors: &mut Survivors<'_>) -> Result<Vec<Ranked>, Failure> {
    for step in Step::ALL.iter().copied() {
        let received = survivors.alive.len();
        step.run(context, survivors)?;
        if survivors.is_empty() {
            return Err(Failure::Empty { step, received });
        }
    }
    Ok(survivors.rank(context)?)
}
