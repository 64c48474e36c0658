//! The longest single step of what decides in the target, among 10,000 chaperons and with what hostile sources write
//! into them: a source chooses the spec of a candidate and what is annotated.
//!
//! It owns the scenes; it knows the code only by its public face. `make bench-steps` runs it.

#![expect(clippy::expect_used, reason = "what it makes itself can be read")]

mod attempts;
mod candidate;
mod crowd;
mod events;
mod ports;
mod target;
mod words;

use std::process::ExitCode;

use pilotage_absurd::steps;

/// How many chaperons, or pods, there are.
const CHAPERONS: usize = 10_000;
/// How often the scenes are played.
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    println!("Longest single steps of {ROUNDS} rounds with {CHAPERONS} chaperons, processor time.");
    steps::measure(ROUNDS, |times| {
        words::play(times);
        attempts::play(times);
        events::play(times);
        crowd::play(times);
        ports::play(times);
    })
}
