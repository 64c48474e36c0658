//! What one scheduling cycle costs, beside the real scheduler's framework and plugins in one process (the oracle of
//! `e2e/tools`) where that is given. It owns the clusters and pods; it knows the code only by its public face.
//!
//! `make bench-sched` runs it. CPU time of this thread, from a pod as the watch brings it (parsed, compared with
//! others, and queued) to its node being assumed, as the oracle's is from the object to the assumed pod; of both the
//! mean of all pods after some that warm up, and the median. Of a pod that preempts, both its attempts and what its
//! victims' going costs in between. The profile is that of `pilotage scheduler`. Ratios are those of the same run, of
//! means. It fails if an event that helps nobody costs more than it may. Arguments: `--oracle PATH`, and words that
//! choose among the lines.

// What can't be set up ends the bench.
#![allow(clippy::expect_used)]

mod cluster;
mod measure;
mod oracle;
mod shape;
mod waiting;

use std::process::ExitCode;

use self::measure::{Cost, measure};
use self::shape::{SHAPES, Shape};

/// Percentages of the nodes that are looked at.
const ALL: u8 = 100;
/// As kube-scheduler does it, from some size of the cluster on.
const SHARE: u8 = 0;

fn main() -> ExitCode {
    let mut words = Vec::new();
    let mut oracle = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--oracle" => oracle = arguments.next(),
            // Cargo's own.
            "--bench" => {}
            _ => words.push(argument),
        }
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
    let chosen = |line: &str| {
        let parts = line.split(' ').collect::<Vec<_>>();
        words.iter().all(|word| parts.contains(&word.as_str()))
    };
    let mut failed = false;
    for shape in SHAPES {
        for nodes in [1_000, 5_000, 50_000] {
            let name = format!("{} {nodes}", shape.name());
            if chosen(&name) {
                print!("{name:20} ");
                failed |= !compare(shape, nodes, oracle.as_deref());
                println!();
            }
        }
    }
    println!("Ratios are theirs to ours with all nodes, and the last one to ours with the share.");
    failed |= !waiting::print(chosen);
    ExitCode::from(u8::from(failed))
}

/// Prints one line; whether the oracle answered, if it was asked.
fn compare(shape: Shape, nodes: usize, oracle: Option<&str>) -> bool {
    let [ours, share] = [ALL, SHARE].map(|percentage| measure(shape, nodes, percentage));
    print!("{}{}", cell(ours), cell(share));
    let Some(oracle) = oracle else {
        return true;
    };
    match [ALL, SHARE].map(|percentage| oracle::ask(oracle, shape, nodes, percentage)) {
        [Ok(all), Ok(theirs)] => {
            print!("{}{:17.1}x", cell(all), all.mean / ours.mean);
            let (to_all, to_share) = (theirs.mean / ours.mean, theirs.mean / share.mean);
            print!("{}{to_all:17.1}x{to_share:17.1}x", cell(theirs));
            true
        }
        [all, theirs] => {
            print!(" {all:?} {theirs:?}");
            false
        }
    }
}

fn cell(cost: Cost) -> String {
    let text = format!("{:.1} ({:.1})", cost.mean, cost.median);
    format!("{text:>18}")
}
