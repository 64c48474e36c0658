//! Owns the selection itself: it runs the steps in their order and ranks what is left. It knows no step and no rule.
//!
//! Steps that look at each candidate alone run one after the other on a block of candidates, then on the next block:
//! ten thousand candidates are more than a processor's caches hold, so that a step which went through all of them
//! would wait for memory at each one.

use std::borrow::Borrow;

use crate::candidate::Candidate;
use crate::ranking::Standings;
use crate::request::Request;
use crate::selection::{Failure, InputError, Ranked, Rejection, Selection};
use crate::settings::Settings;
use crate::steps::{Reason, Step};
use crate::strategy::Distance;

/// So many candidates, and what steps read of them, stay in a cache of the second level.
pub(crate) const BLOCK: usize = 64;

/// What steps and rules may look at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request,
    pub(crate) settings: &'a Settings,
}

/// A candidate and its place in the list.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'c> {
    pub(crate) index: usize,
    pub(crate) candidate: &'c Candidate,
}

/// Takes those out of a block that it has a reason against.
type Judge<'a> = dyn for<'c> Fn(&mut Vec<Seat<'c>>, &mut Vec<Rejection>) + 'a;
/// Takes those out of a block that it has a reason against, and adds the distances of the others to a list.
type Measurer<'a> =
    dyn for<'c> Fn(&mut Vec<Seat<'c>>, &mut Vec<Rejection>, &mut Vec<Distance>) + 'a;
/// Takes those out of all survivors that it has a reason against.
type Jury<'a> = dyn for<'c> Fn(&mut Survivors<'c>) + 'a;

/// What a step does with the candidates of one request; whatever is the same for all of them has been done.
pub(crate) enum Pass<'a> {
    /// It rejects nobody.
    All,
    /// It looks at each candidate alone.
    Each(Box<Judge<'a>>),
    /// It measures each candidate alone.
    Measure(Box<Measurer<'a>>),
    /// It looks at all survivors together.
    Together(Box<Jury<'a>>),
}

impl<'a> Pass<'a> {
    /// Rejects each one that `judge` has a reason against, without a look at others.
    pub(crate) fn each<R: Into<Reason>>(judge: impl Fn(&Candidate) -> Result<(), R> + 'a) -> Self {
        Self::Each(Box::new(move |seats, rejected| {
            keep(seats, rejected, &judge);
        }))
    }

    /// Measures each one, or rejects it, without a look at others. Only the last step may do so.
    pub(crate) fn measure<R: Into<Reason>>(
        measure: impl Fn(&Candidate) -> Result<Distance, R> + 'a,
    ) -> Self {
        Self::Measure(Box::new(move |seats, rejected, distances| {
            seats.retain(|seat| match measure(seat.candidate) {
                Ok(distance) => {
                    distances.push(distance);
                    true
                }
                Err(reason) => {
                    rejected.push(seat.rejected(reason));
                    false
                }
            });
        }))
    }

    /// Looks at all survivors together.
    pub(crate) fn together(jury: impl for<'c> Fn(&mut Survivors<'c>) + 'a) -> Self {
        Self::Together(Box::new(jury))
    }
}

fn keep<R: Into<Reason>>(
    seats: &mut Vec<Seat<'_>>,
    rejected: &mut Vec<Rejection>,
    judge: impl Fn(&Candidate) -> Result<(), R>,
) {
    seats.retain(|seat| match judge(seat.candidate) {
        Ok(()) => true,
        Err(reason) => {
            rejected.push(seat.rejected(reason));
            false
        }
    });
}

impl Seat<'_> {
    fn rejected(&self, reason: impl Into<Reason>) -> Rejection {
        Rejection {
            index: self.index,
            name: self.candidate.name.clone(),
            reason: reason.into(),
        }
    }
}

/// Reads a little of all that the steps will read of these candidates. Nothing here waits for anything that was read
/// before, so that a processor fetches it all at once; steps would wait for one after the other.
fn warm(request: &Request, seats: &[Seat<'_>]) {
    let labels = request.profile_selector.is_some() || request.own_selector.is_some();
    let mut sum = 0;
    for Seat { candidate, .. } in seats {
        sum ^= candidate.provider.len() ^ candidate.region.name().len();
        if labels && let Some((key, value)) = candidate.labels.iter().next() {
            sum ^= key.len() ^ value.len();
        }
        if let Some(resource) = candidate.resources.first() {
            sum ^= resource.name.len();
        }
    }
    std::hint::black_box(sum);
}

/// Those that no step has rejected so far, and the report on the others.
pub(crate) struct Survivors<'c> {
    seats: Vec<Seat<'c>>,
    /// Of each in `seats`, once the strategy has measured them.
    distances: Vec<Distance>,
    /// By the step that runs.
    rejected: Vec<Rejection>,
}

impl<'c> Survivors<'c> {
    /// In the order of the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'c Candidate> {
        self.seats.iter().map(|seat| seat.candidate)
    }

    /// Rejects each one that `judge` has a reason against.
    pub(crate) fn keep<R: Into<Reason>>(&mut self, judge: impl Fn(&Candidate) -> Result<(), R>) {
        keep(&mut self.seats, &mut self.rejected, judge);
    }
}

/// A part of a selection's work, see [`select_watched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// What is the same for all candidates.
    Preparation,
    /// A step.
    Step(Step),
    /// Scores, the order, and the report.
    Ranking,
}

/// Who gets a request, who would be next, and why the others can't have it.
///
/// The steps run in the order of [`Step::ALL`], each on what the one before has left; the first one that leaves
/// nobody ends the selection. Ties are broken by how much is placed somewhere, then by name, so that the order of
/// `candidates` changes nothing.
///
/// Candidates may be shared (`&[Arc<Candidate>]`), so that whoever prepares them once can select from any of them
/// without a copy.
pub fn select<C: Borrow<Candidate>>(
    request: &Request,
    candidates: &[C],
    settings: &Settings,
) -> Selection {
    select_watched(request, candidates, settings, &mut |_| {})
}

/// [`select`], and calls `done` after each piece of its work, a stage having many of them: whoever has a clock sees
/// where the time goes.
pub fn select_watched<C: Borrow<Candidate>>(
    request: &Request,
    candidates: &[C],
    settings: &Settings,
    done: &mut dyn FnMut(Stage),
) -> Selection {
    let seats = candidates
        .iter()
        .enumerate()
        .map(|(index, candidate)| Seat {
            index,
            candidate: candidate.borrow(),
        });
    let context = Context { request, settings };
    Course::new(seats.collect()).run(context, done)
}

/// All lists as one, without a second copy of the first.
fn joined(lists: Vec<Vec<Rejection>>) -> Vec<Rejection> {
    let whole: usize = lists.iter().map(Vec::len).sum();
    let mut lists = lists.into_iter().filter(|list| !list.is_empty());
    let mut all = lists.next().unwrap_or_default();
    all.reserve_exact(whole.saturating_sub(all.len()));
    for mut list in lists {
        all.append(&mut list);
    }
    all
}

/// A selection on its way.
struct Course<'c> {
    survivors: Survivors<'c>,
    /// Those who fell out, in the order of the steps, each step that runs now having a list of its own.
    rejected: Vec<Vec<Rejection>>,
}

impl<'c> Course<'c> {
    const fn new(seats: Vec<Seat<'c>>) -> Self {
        Self {
            survivors: Survivors {
                seats,
                distances: Vec::new(),
                rejected: Vec::new(),
            },
            rejected: Vec::new(),
        }
    }

    fn run(mut self, context: Context<'_>, done: &mut dyn FnMut(Stage)) -> Selection {
        let mut standings = Standings::new(context);
        let steps = self.steps(context, &mut standings, done);
        let outcome = steps.and_then(|()| {
            let Survivors {
                seats, distances, ..
            } = &self.survivors;
            Ok(standings?.rank(seats, distances))
        });
        let (ranking, failure): (Vec<Ranked>, _) = match outcome {
            Ok(ranking) => (ranking, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let selection = Selection {
            ranking,
            rejected: joined(self.rejected),
            failure,
        };
        done(Stage::Ranking);
        selection
    }

    /// Runs all steps, and reads `standings` of those that are left.
    fn steps(
        &mut self,
        context: Context<'_>,
        standings: &mut Result<Standings<'_>, InputError>,
        done: &mut dyn FnMut(Stage),
    ) -> Result<(), Failure> {
        if self.survivors.seats.is_empty() {
            return Err(Failure::Empty {
                step: Step::ALL[0],
                received: 0,
            });
        }
        let mut steps = Step::ALL.iter().copied();
        loop {
            let mut alone = Vec::with_capacity(Step::ALL.len());
            let together = steps.by_ref().find_map(|step| {
                match step.prepare(context) {
                    Ok(Pass::All) => {}
                    Ok(Pass::Together(jury)) => return Some((step, jury)),
                    // Also an error: it fails only those who come as far as this.
                    pass => alone.push((step, pass)),
                }
                None
            });
            done(Stage::Preparation);
            let Some((step, jury)) = together else {
                let standings = standings.as_mut().ok();
                return self.each(context.request, &alone, standings, done);
            };
            self.each(context.request, &alone, None, done)?;
            jury(&mut self.survivors);
            self.rejected
                .push(std::mem::take(&mut self.survivors.rejected));
            done(Stage::Step(step));
            self.somebody(&[step])?;
        }
    }

    /// Steps that look at each candidate alone, on a block at a time; after the last ones `standings` are read.
    fn each(
        &mut self,
        request: &Request,
        alone: &[(Step, Result<Pass<'_>, InputError>)],
        mut standings: Option<&mut Standings<'_>>,
        done: &mut dyn FnMut(Stage),
    ) -> Result<(), Failure> {
        if alone.is_empty() && standings.is_none() {
            return Ok(());
        }
        let first = self.rejected.len();
        let with_these = first.saturating_add(alone.len());
        self.rejected.resize_with(with_these, Vec::new);
        let seats = &mut self.survivors.seats;
        let mut kept = 0_usize;
        let mut failure = None;
        let mut block = Vec::with_capacity(BLOCK);
        for start in (0..seats.len()).step_by(BLOCK) {
            let end = seats.len().min(start.saturating_add(BLOCK));
            block.clear();
            block.extend_from_slice(&seats[start..end]);
            warm(request, &block);
            for ((step, judge), rejected) in alone.iter().zip(&mut self.rejected[first..]) {
                match judge {
                    Ok(Pass::Each(judge)) => judge(&mut block, rejected),
                    Ok(Pass::Measure(measurer)) => {
                        measurer(&mut block, rejected, &mut self.survivors.distances);
                    }
                    Ok(Pass::All | Pass::Together(_)) => {}
                    Err(error) => {
                        failure = Some(error);
                        block.clear();
                    }
                }
                done(Stage::Step(*step));
                if block.is_empty() {
                    break;
                }
            }
            if let Some(standings) = &mut standings {
                standings.read(&block);
                done(Stage::Ranking);
            }
            let more = kept.saturating_add(block.len());
            seats[kept..more].copy_from_slice(&block);
            kept = more;
        }
        seats.truncate(kept);
        if let Some(error) = failure {
            return Err(error.clone().into());
        }
        if alone.is_empty() {
            return Ok(());
        }
        let steps: Vec<_> = alone.iter().map(|(step, _)| *step).collect();
        self.somebody(&steps)
    }

    /// Fails if nobody is left, by the last step that got somebody: one of these, which ran last.
    fn somebody(&self, steps: &[Step]) -> Result<(), Failure> {
        if !self.survivors.seats.is_empty() {
            return Ok(());
        }
        let lists = self.rejected.iter().rev().map(Vec::len);
        let mut last = steps.iter().rev().copied().zip(lists);
        let (step, received) = last.find(|(_, count)| *count > 0).unwrap_or((steps[0], 0));
        Err(Failure::Empty { step, received })
    }
}
