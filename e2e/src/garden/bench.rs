//! `make bench-gardener`: CPU and memory of the scheduler a bound Shoot, end to end on a real API server.
//!
//! CPU is what the kernel has counted for the scheduler's process alone, from before the Shoots are created until all
//! of them are bound and their events written; the process is warm, its caches are full.

use std::fs;
use std::time::{Duration, Instant};

use pilotage_testkit::ControlPlane;

use super::{Error, Place, objects};
use crate::bench::proc::{kib, stat};
use crate::bench::table::table;

/// Shoots before those that are measured.
const WARM_UP: usize = 50;
/// Nothing takes nearly as long.
const LIMIT: Duration = Duration::from_mins(10);
/// Events may be written that long after the last binding.
const SETTLE: Duration = Duration::from_secs(2);
/// As one who wants to know what it can do: the default would limit writes to 50 a second, and on a busy machine a
/// Lease can be lost.
const CONFIG: &str = "clientConnection: {qps: 100000, burst: 100000}\nleaderElection: {leaderElect: \
    false}\nlogLevel: info\n";

/// What gardener-scheduler took of CPU a Shoot among 1,000 Seeds, in ms, and of memory, in MiB: the lower ends of what
/// was measured, on another machine of two cores (commit b312835d17).
const REAL: (f64, f64) = (55.0, 150.0);
/// What is aimed at, among however many Seeds: these parts of it.
const AIM: (f64, f64) = (20.0, 3.0);

/// One measurement.
struct Case {
    seeds: usize,
    strategy: &'static str,
    /// What the real one took on another machine: CPU a Shoot in ms, Shoots a second, resident MiB.
    real: Option<(&'static str, &'static str, &'static str)>,
}

const CASES: &[Case] = &[
    Case {
        seeds: 10,
        strategy: "SameRegion",
        real: Some(("4-5", "80", "72-77")),
    },
    Case {
        seeds: 100,
        strategy: "SameRegion",
        real: Some(("8-15", "65", "")),
    },
    Case {
        seeds: 1000,
        strategy: "SameRegion",
        real: Some(("55-85", "11-22", "150-200")),
    },
    Case {
        seeds: 1000,
        strategy: "MinimalDistance",
        real: None,
    },
];

/// What was measured in one case.
struct Figures {
    /// Shoots a second.
    rate: f64,
    /// CPU a Shoot, in ms.
    cpu: f64,
    /// Resident MiB before the first Shoot, at most, and what of the end isn't the binary's own file.
    idle: u64,
    peak: u64,
    anonymous: u64,
}

/// Measures `shoots` Shoots in each case, and prints a table.
pub async fn run(shoots: usize) -> Result<(), Error> {
    let mut rows = Vec::new();
    let mut worst = (0.0_f64, 0.0_f64);
    for case in CASES {
        eprintln!("{} Seeds, {}", case.seeds, case.strategy);
        let figures = measure(case, shoots).await?;
        let Figures {
            rate,
            cpu,
            idle,
            peak,
            anonymous,
        } = figures;
        eprintln!("  {rate:.0} Shoots/s, {cpu:.2} ms of CPU a Shoot, {peak} MiB");
        worst = (worst.0.max(cpu), worst.1.max(peak as f64));
        let real = case.real.unwrap_or(("", "", ""));
        rows.push(vec![
            case.seeds.to_string(),
            case.strategy.to_owned(),
            format!("{rate:.0}"),
            format!("{cpu:.2}"),
            idle.to_string(),
            peak.to_string(),
            anonymous.to_string(),
            real.0.to_owned(),
            real.1.to_owned(),
            real.2.to_owned(),
        ]);
    }
    let titles = [
        "SEEDS",
        "STRATEGY",
        "SHOOTS/S",
        "CPU MS/SHOOT",
        "IDLE MIB",
        "PEAK MIB",
        "ANON MIB",
        "REAL: CPU MS",
        "SHOOTS/S",
        "MIB",
    ];
    println!(
        "{shoots} Shoots in each case, with {} workers.\n\n{}\n\nThe right-hand columns are gardener-scheduler's \
         (commit b312835d17), measured on another machine of two cores.",
        5,
        table(&titles, &rows)
    );
    println!("{}", verdict("CPU a Shoot", "ms", worst.0, REAL.0, AIM.0));
    println!("{}", verdict("Memory", "MiB", worst.1, REAL.1, AIM.1));
    Ok(())
}

/// Whether the worst case stays within a part of what the real one takes among 1,000 Seeds.
fn verdict(what: &str, unit: &str, worst: f64, real: f64, part: f64) -> String {
    let outcome = if worst * part <= real {
        "met"
    } else {
        "MISSED"
    };
    format!(
        "{what}: at most {worst:.2} {unit}, 1/{:.1} of its {real} among 1,000 Seeds; 1/{part} or less was wanted: \
         {outcome}.",
        real / worst
    )
}

async fn measure(case: &Case, shoots: usize) -> Result<Figures, Error> {
    let place = Place::start(ControlPlane::builder("bench-gardener")).await?;
    let room = 2 * (shoots + WARM_UP);
    let seeds = (0..case.seeds).map(|number| objects::seed(number, room));
    place.create(seeds).await?;
    let strategy = format!(
        "schedulers: {{shoot: {{candidateDeterminationStrategy: {}}}}}",
        case.strategy
    );
    let scheduler = place.scheduler(&format!("{CONFIG}{strategy}")).await?;
    let pids = scheduler.process().pids().await.ok_or(Error::Gone)?;
    let pid = pids.child;
    let idle = resident(pid, "VmRSS")?;
    place.create((0..WARM_UP).map(objects::shoot)).await?;
    place.bound(WARM_UP, LIMIT).await?;
    tokio::time::sleep(SETTLE).await;
    let (before, began) = (cpu(pid)?, Instant::now());
    let all = WARM_UP + shoots;
    place.create((WARM_UP..all).map(objects::shoot)).await?;
    place.bound(all, LIMIT).await?;
    let took = began.elapsed();
    tokio::time::sleep(SETTLE).await;
    let cpu = cpu(pid)?.saturating_sub(before);
    let peak = resident(pid, "VmHWM")?;
    let anonymous = resident(pid, "RssAnon")?;
    place.stop(scheduler).await;
    Ok(Figures {
        rate: shoots as f64 / took.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e3 / shoots as f64,
        idle,
        peak,
        anonymous,
    })
}

fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Machine {
        path: path.to_owned(),
        source,
    })
}

fn cpu(pid: i32) -> Result<Duration, Error> {
    let stat = stat(&read(&format!("/proc/{pid}/stat"))?);
    stat.map(|stat| stat.own).ok_or(Error::Gone)
}

/// In MiB.
fn resident(pid: i32, key: &str) -> Result<u64, Error> {
    let kib = kib(&read(&format!("/proc/{pid}/status"))?, key);
    kib.map(|kib| kib / 1024).ok_or(Error::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_met_or_missed() {
        let met = "Memory: at most 50.00 MiB, 1/3.0 of its 150 among 1,000 Seeds; 1/3 or less was wanted: met.";
        assert_eq!(verdict("Memory", "MiB", 50.0, 150.0, 3.0), met);
        assert!(verdict("Memory", "MiB", 51.0, 150.0, 3.0).ends_with("MISSED."));
    }
}
