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
const CONFIG: &str = "clientConnection: {qps: 100000, burst: 100000}\nleaderElection: {leaderElect: false}\nlogLevel: info\n";

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

/// Measures `shoots` Shoots in each case, and prints a table.
pub async fn run(shoots: usize) -> Result<(), Error> {
    let mut rows = Vec::new();
    for case in CASES {
        eprintln!("{} Seeds, {}", case.seeds, case.strategy);
        let row = measure(case, shoots).await?;
        eprintln!(
            "  {} Shoots/s, {} ms of CPU a Shoot, {} MiB",
            row[2], row[3], row[5]
        );
        rows.push(row);
    }
    let titles = [
        "SEEDS",
        "STRATEGY",
        "SHOOTS/S",
        "CPU MS/SHOOT",
        "IDLE MIB",
        "PEAK MIB",
        "REAL: CPU MS",
        "SHOOTS/S",
        "MIB",
    ];
    println!(
        "{shoots} Shoots in each case, with {} workers.\n\n{}\n\n\
         The right-hand columns are gardener-scheduler's (commit b312835d17), measured on another machine of two cores.",
        5,
        table(&titles, &rows)
    );
    Ok(())
}

async fn measure(case: &Case, shoots: usize) -> Result<Vec<String>, Error> {
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
    place.stop(scheduler).await;
    let real = case.real.unwrap_or(("", "", ""));
    Ok(vec![
        case.seeds.to_string(),
        case.strategy.to_owned(),
        format!("{:.0}", shoots as f64 / took.as_secs_f64()),
        format!("{:.2}", cpu.as_secs_f64() * 1e3 / shoots as f64),
        idle.to_string(),
        peak.to_string(),
        real.0.to_owned(),
        real.1.to_owned(),
        real.2.to_owned(),
    ])
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
