//! Chaos on real control planes: somebody is killed, frozen or cut off at the very moment when the first of a stream of
//! pods is in a certain state, which the write that would end it is kept from; in the end every pod runs, in one place,
//! and nothing is left over. In two of the states that is a pod that others have to be evicted for; then nobody may go
//! but by leave of a grant.
//!
//! A cell is `<state>/<who>/<fault>`; there are 144. Each run plays sixteen, others each day, so that each day has
//! every state, everybody and every fault, and nine days have all; and always those two in which a candidate scheduler
//! is killed before and after it evicts. `CHAOS_CELLS` names others (with commas between, or `all`), `CHAOS_ROUNDS`
//! repeats them; `make chaos` plays all.
//!
//! It is a test binary of its own because it needs the machine to itself: its leases last three seconds, and beside a
//! dozen other control planes it would test the machine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail their test"
)]

mod cell;
mod crowd;
mod evictions;
mod keep;
mod play;
mod stage;
mod strike;
mod tapes;
mod world;

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use cell::Cell;
use play::{Verdict, play};
use stage::{Asking, Stage};

const DAY: Duration = Duration::from_hours(24);

/// The cells of this run, one half for each fleet.
fn cells() -> [Vec<Cell>; 2] {
    match std::env::var("CHAOS_CELLS") {
        Ok(text) if !text.trim().is_empty() => cell::chosen(&text).unwrap(),
        _ => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            cell::of_day(now.unwrap().as_secs() / DAY.as_secs())
        }
    }
}

fn rounds() -> usize {
    std::env::var("CHAOS_ROUNDS").map_or(1, |text| text.parse().unwrap())
}

/// How often a cell is played in which no pod gets to its state.
const TRIES: usize = 4;

/// Plays cells one after the other on a fleet of their own; returns the names of those that failed. One whose state no
/// pod got to has tested nothing: it is played again at the end.
async fn play_all(cells: &[Cell], asking: Asking) -> Vec<String> {
    if cells.is_empty() {
        return Vec::new();
    }
    let begin = Instant::now();
    let stage = Stage::start(asking).await.unwrap();
    println!(
        "fleet that asks {asking:?} is up after {:.1} s",
        begin.elapsed().as_secs_f32()
    );
    let mut failed = Vec::new();
    let mut to_play: VecDeque<(Cell, usize)> = cells.iter().map(|cell| (*cell, 1)).collect();
    while let Some((cell, tried)) = to_play.pop_front() {
        let verdict = play(&stage, cell).await;
        tell(&verdict, &stage);
        if !verdict.wrong.is_empty() {
            failed.push(cell.to_string());
        } else if !verdict.reached && tried < TRIES {
            to_play.push_back((cell, tried + 1));
        } else if !verdict.reached {
            failed.push(format!("{cell}, whose state no pod got to {TRIES} times"));
        }
    }
    stage.stop().await;
    failed
}

fn tell(verdict: &Verdict, stage: &Stage) {
    let steps: Vec<String> = verdict
        .steps
        .iter()
        .map(|(step, took)| format!("{step} {:.1}", took.as_secs_f32()))
        .collect();
    let (cell, steps, states) = (verdict.cell, steps.join(", "), &verdict.states);
    let ended = match (verdict.wrong.is_empty(), verdict.reached) {
        (true, true) => "well",
        (true, false) => "NOT PLAYED, no pod got to its state",
        (false, _) => "FAILED",
    };
    let evicted = verdict.evicted;
    println!("{cell}: {ended} ({steps} s; pods were {states:?}; {evicted} evicted)");
    if verdict.wrong.is_empty() && verdict.reached && std::env::var_os("CHAOS_TIMELINE").is_none() {
        return;
    }
    for line in &verdict.wrong {
        println!("  {line}");
    }
    println!("  what was seen:");
    for line in &verdict.timeline {
        println!("  {line}");
    }
    println!("  logs: {:#?}", stage.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_ends_well() {
    let [first, second] = cells();
    for round in 1..=rounds() {
        println!("round {round}: {} cells", first.len() + second.len());
        for cell in first.iter().chain(&second) {
            println!("  {cell}");
        }
        // One after the other: a fleet has three control planes and some twenty processes whose leases are short.
        let mut failed = play_all(&first, Asking::All).await;
        failed.extend(play_all(&second, Asking::BestFirst).await);
        assert!(failed.is_empty(), "round {round}, see above: {failed:#?}");
    }
}
