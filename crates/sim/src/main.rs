//! `pilotage-sim`: runs schedules by their seeds, and tells the first one that breaks a rule.

use std::{
    collections::BTreeMap,
    io::Write as _,
    panic,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Instant,
};

use pilotage_sim::{REGRESSIONS, Schedule, TRACES, Violation, replay, shrink, walk};

const USAGE: &str = "usage: pilotage-sim SEEDS [FIRST]   run so many schedules, from this seed on
       pilotage-sim seed N          run one, and tell what happens
       pilotage-sim file PATH       run one that is written down
       pilotage-sim traces          play the traces that are written down, and schedules that once broke a rule
       pilotage-sim survey SEEDS    run so many, and count how they break rules";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize| arguments.get(n).and_then(|text| text.parse::<u64>().ok());
    match arguments.first().map(String::as_str) {
        Some("seed") => number(1).map_or_else(usage, |seed| {
            let (_, schedule) = walk(seed, false);
            one(&schedule)
        }),
        Some("file") => match arguments.get(1).map(std::fs::read_to_string) {
            Some(Ok(text)) => match text.parse() {
                Ok(schedule) => one(&schedule),
                Err(error) => fail(&error),
            },
            _ => usage(),
        },
        Some("traces") => traces(),
        Some("survey") => number(1).map_or_else(usage, survey),
        Some(_) => number(0).map_or_else(usage, |seeds| many(number(1).unwrap_or(0), seeds)),
        None => usage(),
    }
}

fn usage() -> ExitCode {
    fail(USAGE)
}

fn say(text: &str) {
    // Who doesn't read has enough.
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(2)
}

/// Runs one schedule and tells what happens.
fn one(schedule: &Schedule) -> ExitCode {
    let world = replay(schedule, true);
    for line in world.trace() {
        say(line);
    }
    match world.violation() {
        Some(violation) => {
            say(&format!("{violation}"));
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// How a seed's schedule broke a rule, or that it panicked.
fn broken(seed: u64) -> Option<(Option<Schedule>, String)> {
    match panic::catch_unwind(|| walk(seed, false)) {
        Ok((world, schedule)) => {
            let violation: &Violation = world.violation()?;
            Some((Some(schedule), violation.to_string()))
        }
        Err(_) => Some((None, "it panicked".to_owned())),
    }
}

/// Plays what is written down.
fn traces() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (name, play) in TRACES {
        let end = panic::catch_unwind(play).unwrap_or_else(|_| Err("it panicked".to_owned()));
        if let Err(what) = end {
            say(&format!("trace {name}: {what}"));
            code = ExitCode::FAILURE;
        }
    }
    for (name, text) in REGRESSIONS {
        let end = panic::catch_unwind(|| {
            let schedule: Schedule = text.parse()?;
            let violation = replay(&schedule, false).violation().cloned();
            violation.map_or(Ok(()), |violation| Err(violation.to_string()))
        });
        if let Err(what) = end.unwrap_or_else(|_| Err("it panicked".to_owned())) {
            say(&format!("trace {name}: {what}"));
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Counts broken rules, with an example of each.
fn survey(seeds: u64) -> ExitCode {
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for seed in 0..seeds {
        if let Some((_, what)) = broken(seed) {
            let what = what.replace(|c: char| c.is_ascii_digit(), "");
            found.entry(what).or_insert((0, seed)).0 += 1;
        }
    }
    for (what, (times, seed)) in &found {
        say(&format!("{times:>6} (seed {seed}) {what}"));
    }
    if found.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn many(first: u64, seeds: u64) -> ExitCode {
    let began = Instant::now();
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let end = first.saturating_add(seeds);
    let found = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return None;
                        }
                        if let Some((schedule, what)) = broken(seed) {
                            stop.store(true, Ordering::Relaxed);
                            return Some((seed, schedule, what));
                        }
                    }
                    None
                })
            })
            .collect();
        let found = workers
            .into_iter()
            .filter_map(|worker| worker.join().ok().flatten());
        found.min_by_key(|(seed, ..)| *seed)
    });
    let Some((seed, schedule, what)) = found else {
        let seconds = began.elapsed().as_secs_f64();
        let rate = seeds as f64 / seconds.max(0.001);
        say(&format!(
            "{seeds} schedules kept every rule ({seconds:.1} s, {rate:.0} a second)"
        ));
        return ExitCode::SUCCESS;
    };
    say(&format!("seed {seed}: {what}"));
    if let Some(schedule) = schedule {
        let small = shrink(&schedule);
        say(&format!(
            "\n{} steps suffice:\n\n{small}",
            small.steps.len()
        ));
        for line in replay(&small, true).trace() {
            say(line);
        }
    }
    say(&format!("\nagain: pilotage-sim seed {seed}"));
    ExitCode::FAILURE
}
