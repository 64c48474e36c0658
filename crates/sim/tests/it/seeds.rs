//! Drawn schedules. `make sim` runs many more of them.

use std::thread;

use pilotage_sim::{replay, shrink, walk};

/// Small, because tests aren't optimised.
const SEEDS: u64 = 3000;

#[test]
fn drawn_schedules_keep_every_rule() {
    thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || (part..SEEDS).step_by(2).for_each(check));
        }
    });
}

fn check(seed: u64) {
    let (world, schedule) = walk(seed, false);
    let broken = world.violation().map(|violation| {
        let small = shrink(&schedule);
        let trace = replay(&small, true).trace().join("\n");
        format!("seed {seed}: {violation}\n\n{small}\n{trace}")
    });
    assert_eq!(broken, None);
}

#[test]
fn a_schedule_runs_the_same_each_time_it_is_drawn_replayed_or_written_down() {
    for seed in 0..100 {
        let (first, schedule) = walk(seed, true);
        let (second, _) = walk(seed, true);
        assert_eq!(first.trace(), second.trace(), "seed {seed}");
        let read = schedule.to_string().parse();
        assert_eq!(read.as_ref(), Ok(&schedule));
        let replayed = replay(&schedule, true);
        assert_eq!(replayed.trace().last(), first.trace().last(), "seed {seed}");
        assert_eq!(replayed.elapsed(), first.elapsed(), "seed {seed}");
    }
}
