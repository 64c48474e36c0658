//! What one scheduling cycle costs, beside the real scheduler's framework and plugins in one process (the oracle of
//! `e2e/tools`) where that is given. It owns the clusters and pods; it knows the code only by its public face.
//!
//! `make bench-sched` runs it. CPU time of this thread, from a pod as the watch brings it (parsed, compared with
//! others, and queued) to its node being assumed, as the oracle's is from the object to the assumed pod; of both the
//! mean of all pods after some that warm up, and the median. Of a pod that preempts, both its attempts and what its
//! victims' going costs in between. The profile is that of `pilotage scheduler`. Ratios are those of the same run, of
//! means. It fails if an event that helps nobody costs more than it may, and, with `--strict`, if an aim is missed of
//! the lines that were measured: of cycles (`aims.rs`), or of events that help all (`waiting.rs`). Arguments:
//! `--oracle PATH`, `--strict`, and words that choose among the lines; words that no line has are a mistake.

// What can't be set up ends the bench.
#![allow(clippy::expect_used)]

mod aims;
mod cluster;
mod measure;
mod oracle;
mod shape;
mod waiting;

use std::process::ExitCode;

use self::aims::{Line, Theirs};
use self::measure::{Cost, measure};
use self::shape::{SHAPES, Shape};

/// Percentages of the nodes that are looked at.
const ALL: u8 = 100;
/// As kube-scheduler does it, from some size of the cluster on.
const SHARE: u8 = 0;

/// How many nodes the clusters have.
const SIZES: [usize; 3] = [1_000, 5_000, 50_000];

fn main() -> ExitCode {
    let mut words = Vec::new();
    let mut oracle = None;
    let mut strict = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--oracle" => oracle = arguments.next(),
            "--strict" => strict = true,
            // Cargo's own.
            "--bench" => {}
            _ => words.push(argument),
        }
    }
    if strict && oracle.is_none() {
        eprintln!("failed: --strict needs --oracle");
        return ExitCode::FAILURE;
    }
    let chosen = |line: &str| {
        let parts = line.split(' ').collect::<Vec<_>>();
        words.iter().all(|word| parts.contains(&word.as_str()))
    };
    let lines = SHAPES.into_iter().flat_map(|shape| {
        let named = move |nodes| (name(shape, nodes), shape, nodes);
        SIZES.map(named)
    });
    let lines = lines.filter(|(name, ..)| chosen(name)).collect::<Vec<_>>();
    if lines.is_empty() && !waiting::lines().any(|line| chosen(&line)) {
        eprintln!(
            "failed: no line has all of these words: {}",
            words.join(" ")
        );
        return ExitCode::FAILURE;
    }
    let heads = ["ours", "ours, share", "theirs", "", "theirs, share", "", ""];
    println!(
        "CPU µs a pod (its median), with all nodes or with kube-scheduler's stock share of them:"
    );
    println!(
        "{:20} {}",
        "",
        heads.map(|head| format!("{head:>18}")).concat()
    );
    let mut failed = false;
    let mut measured = Vec::new();
    for (name, shape, nodes) in lines {
        print!("{name:20} ");
        match compare(shape, nodes, oracle.as_deref()) {
            Ok(line) => measured.push(line),
            Err(error) => {
                print!(" {error}");
                failed = true;
            }
        }
        println!();
    }
    println!("Ratios are theirs to ours with all nodes, and the last one to ours with the share.");
    failed |= !waiting::print(chosen);
    let mut missed = waiting::print_helping(chosen);
    missed.extend(aims::missed(&measured));
    for aim in &missed {
        println!("missed: {aim}");
    }
    failed |= strict && !missed.is_empty();
    ExitCode::from(u8::from(failed))
}

fn name(shape: Shape, nodes: usize) -> String {
    format!("{} {nodes}", shape.name())
}

/// Prints one line; fails if the oracle was asked and doesn't answer.
fn compare(shape: Shape, nodes: usize, oracle: Option<&str>) -> Result<Line, String> {
    let [ours, share] = [ALL, SHARE].map(|percentage| measure(shape, nodes, percentage));
    print!("{}{}", cell(ours), cell(share));
    let line = |theirs| Line {
        shape,
        nodes,
        ours: ours.mean,
        theirs,
    };
    let Some(oracle) = oracle else {
        return Ok(line(None));
    };
    match [ALL, SHARE].map(|percentage| oracle::ask(oracle, shape, nodes, percentage)) {
        [Ok(all), Ok(theirs)] => {
            print!("{}{:17.1}x", cell(all), all.mean / ours.mean);
            let (to_all, to_share) = (theirs.mean / ours.mean, theirs.mean / share.mean);
            print!("{}{to_all:17.1}x{to_share:17.1}x", cell(theirs));
            Ok(line(Some(Theirs {
                all: all.mean,
                share: theirs.mean,
            })))
        }
        [all, theirs] => Err(format!("{all:?} {theirs:?}")),
    }
}

fn cell(cost: Cost) -> String {
    let text = format!("{:.1} ({:.1})", cost.mean, cost.median);
    format!("{text:>18}")
}
