//! Plays many seeds on several threads, each with an oracle of its own, gathers what differs, and makes an example of
//! each kind small.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::case::Case;
use crate::compare::{Difference, Signature};
use crate::coverage::{Effects, Table};
use crate::explained::{EXPLAINED, Explanation};
use crate::generate::generate;
use crate::histories;
use crate::oracle::Oracle;
use crate::play::{Disagreement, Nobody, Observer, Players, Report, play};
use crate::shrink::shrink;
use crate::side::SideError;
use crate::subject::Subject;

/// How cases are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Both judge each pod when its turn comes: see [`play`](crate::play).
    Verdicts,
    /// Pods wait in our queue, and the oracle judges those that stay there: see [`histories`].
    Histories,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How cases are played.
    pub mode: Mode,
    /// The oracle's program.
    pub oracle: PathBuf,
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// On how many threads.
    pub workers: usize,
}

/// A kind of difference.
#[derive(Clone, Debug)]
pub struct Found {
    /// On how many pods.
    pub times: u64,
    /// The lowest seed that shows it.
    pub seed: u64,
    /// The first pod of that seed that shows it.
    pub example: Disagreement,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many cases.
    pub cases: u64,
    /// How many pods.
    pub pods: u64,
    /// How many of them were placed.
    pub placed: u64,
    /// How many nodes they were judged on, in all.
    pub nodes: u64,
    /// On how many pods each explanation was needed.
    pub explained: BTreeMap<String, u64>,
    /// Differences that nothing explains.
    pub found: BTreeMap<Signature, Found>,
    /// Seeds that couldn't be played.
    pub unplayed: Vec<(u64, SideError)>,
    /// What had an effect.
    pub table: Table,
}

impl Summary {
    /// On how many pods this explanation was needed.
    pub fn needed(&self, explanation: &Explanation) -> u64 {
        let times = self.explained.get(explanation.name);
        times.copied().unwrap_or_default()
    }

    /// The explanations that more pods needed than may.
    pub fn overused<'a>(&self, explanations: &'a [Explanation]) -> Vec<&'a Explanation> {
        let is_over = |explanation: &&Explanation| {
            let share = u128::from(self.needed(explanation)) * 1000;
            share > u128::from(self.pods) * u128::from(explanation.most)
        };
        explanations.iter().filter(is_over).collect()
    }

    /// How many pods lack of so many; `None` if as many were judged.
    pub const fn lacking(&self, least: u64) -> Option<u64> {
        match least.saturating_sub(self.pods) {
            0 => None,
            lacking => Some(lacking),
        }
    }

    fn add(&mut self, seed: u64, report: Report) {
        self.cases += 1;
        self.pods += report.pods as u64;
        self.placed += report.placed as u64;
        self.nodes += report.nodes as u64;
        for (name, times) in report.explained {
            *self.explained.entry(name).or_default() += times as u64;
        }
        for example in report.disagreements {
            if let Some(signature) = signature(&example) {
                let found = Found {
                    times: 1,
                    seed,
                    example,
                };
                self.found(signature, found);
            }
        }
    }

    fn found(&mut self, signature: Signature, found: Found) {
        let known = self.found.entry(signature).or_insert_with(|| Found {
            times: 0,
            ..found.clone()
        });
        let times = known.times + found.times;
        if found.seed < known.seed {
            *known = found;
        }
        known.times = times;
    }

    fn merge(&mut self, other: Self) {
        self.cases += other.cases;
        self.pods += other.pods;
        self.placed += other.placed;
        self.nodes += other.nodes;
        for (name, times) in other.explained {
            *self.explained.entry(name).or_default() += times;
        }
        for (signature, found) in other.found {
            self.found(signature, found);
        }
        self.unplayed.extend(other.unplayed);
        if self.table.is_empty() {
            self.table = other.table;
        } else {
            self.table.merge(&other.table);
        }
    }
}

/// The kind of a disagreement: that of its first difference, from which the others may follow.
pub fn signature(disagreement: &Disagreement) -> Option<Signature> {
    disagreement.differences.first().map(Difference::signature)
}

/// Plays a case through ours and an oracle. Nobody looks on while a history is played.
pub fn play_with(
    case: &Case,
    mode: Mode,
    oracle: &mut Oracle,
    observer: &mut dyn Observer,
) -> Result<Report, SideError> {
    let mut players = Players {
        ours: &mut Subject::default(),
        theirs: oracle,
        explanations: EXPLAINED,
    };
    match mode {
        Mode::Verdicts => play(case, &mut players, observer),
        Mode::Histories => histories::play(case, &mut players),
    }
}

/// Runs a plan. `progress` is told how many cases are done.
pub fn run(plan: &Plan, progress: &(dyn Fn(u64) + Sync)) -> Result<Summary, SideError> {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> Result<Summary, SideError> {
        let mut oracle = Oracle::start(&plan.oracle)?;
        let mut summary = Summary::default();
        let mut effects = Effects::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= plan.seeds {
                summary.table = effects.into_table();
                return Ok(summary);
            }
            let seed = plan.first.wrapping_add(at);
            match play_with(&generate(seed), plan.mode, &mut oracle, &mut effects) {
                Ok(report) => summary.add(seed, report),
                Err(error) => {
                    // It may have died of it; another one goes on.
                    oracle = Oracle::start(&plan.oracle)?;
                    summary.unplayed.push((seed, error));
                }
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let mut summary = Summary::default();
    thread::scope(|scope| -> Result<(), SideError> {
        let workers: Vec<_> = (0..plan.workers.max(1))
            .map(|_| scope.spawn(work))
            .collect();
        for worker in workers {
            let lost = || SideError::Lost("a worker panicked".to_owned());
            summary.merge(worker.join().map_err(|_| lost())??);
        }
        Ok(())
    })?;
    summary.unplayed.sort_by_key(|(seed, _)| *seed);
    Ok(summary)
}

/// Makes a case smaller that shows this kind of difference.
pub fn smaller(
    case: &Case,
    mode: Mode,
    wanted: &Signature,
    program: &Path,
    tries: usize,
) -> Result<Case, SideError> {
    let mut oracle = Oracle::start(program)?;
    let mut lost = None;
    let small = shrink(case, tries, &mut |case| match play_with(
        case,
        mode,
        &mut oracle,
        &mut Nobody,
    ) {
        Ok(report) => {
            let mut found = report.disagreements.iter().filter_map(signature);
            found.any(|found| found == *wanted)
        }
        Err(SideError::Refused { .. }) => false,
        Err(error) => {
            match Oracle::start(program) {
                Ok(another) => oracle = another,
                Err(_) => lost = Some(error),
            }
            false
        }
    });
    lost.map_or(Ok(small), Err)
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::explained::Explanation;

    #[test]
    fn a_run_of_too_few_pods_is_told() {
        let of = |pods| Summary {
            pods,
            ..Summary::default()
        };
        assert_eq!(of(299).lacking(300), Some(1));
        assert_eq!(of(300).lacking(300), None);
        assert_eq!(of(0).lacking(0), None, "nobody asked for any");
    }

    #[test]
    fn a_reason_that_too_many_pods_need_is_told() {
        let explanation = Explanation {
            name: "p",
            reason: "P is another one.",
            most: 20,
            explains: |_, _| true,
        };
        let overused = |times| {
            let summary = Summary {
                pods: 1000,
                explained: [("p".to_owned(), times)].into(),
                ..Summary::default()
            };
            assert_eq!(summary.needed(&explanation), times);
            let overused = summary.overused(std::slice::from_ref(&explanation));
            overused.iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(overused(20), [""; 0]);
        assert_eq!(overused(21), ["p"]);
        assert!(Summary::default().overused(&[explanation]).is_empty());
    }
}
