//! `sched-diff`: plays seeds through our scheduler and the real one, and tells where they differ.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use pilotage_sched_diff::compare::Signature;
use pilotage_sched_diff::explained::EXPLAINED;
use pilotage_sched_diff::play::Disagreement;
use pilotage_sched_diff::run::Found;
use pilotage_sched_diff::{
    Case, Mode, Nobody, Oracle, Plan, Summary, generate, play_with, run, smaller,
};

/// How many differences of a pod are printed.
const SHOWN: usize = 12;
/// After so many cases a line tells how far it is.
const EVERY: u64 = 500;

/// Plays seeded cases through our scheduler and the real one, and tells where they differ.
#[derive(Debug, Parser)]
struct Args {
    /// The oracle's program.
    #[arg(
        long,
        global = true,
        default_value = "target/tools/kube-scheduler-oracle"
    )]
    oracle: PathBuf,
    /// Cases are histories: pods wait in our queue, and the oracle judges those that stay there after each event.
    #[arg(long, global = true)]
    histories: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Play many seeds.
    Run {
        /// How many.
        #[arg(long, default_value_t = 2000)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// On how many threads, each with an oracle of its own.
        #[arg(long, default_value_t = 2)]
        workers: usize,
        /// From so many seeds on, a field that never had an effect fails the run, and so does what too few pods met and
        /// an explanation that too many needed. Not of histories.
        #[arg(long, default_value_t = 2000)]
        long: u64,
        /// How many pods must be judged; a run of fewer fails. In a history each pod counts after each event.
        #[arg(long, value_name = "N", default_value_t = 0)]
        least_pods: u64,
        /// How many kinds of differences are shown with a small case.
        #[arg(long, default_value_t = 5)]
        examples: usize,
        /// How many tries may be made to make a case smaller.
        #[arg(long, default_value_t = 1500)]
        tries: usize,
        /// Where small cases are written to.
        #[arg(long, default_value = "target/sched-diff")]
        keep: PathBuf,
    },
    /// Play one seed.
    Seed {
        /// The seed.
        seed: u64,
    },
    /// Print the case of a seed as JSON.
    Show {
        /// The seed.
        seed: u64,
    },
    /// Play a case that was written down.
    Replay {
        /// The file.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let Args {
        oracle,
        histories,
        what,
    } = Args::parse();
    let mode = if histories {
        Mode::Histories
    } else {
        Mode::Verdicts
    };
    let done = match what {
        What::Run {
            seeds,
            first,
            workers,
            long,
            least_pods,
            examples,
            tries,
            keep,
        } => {
            let plan = Plan {
                mode,
                oracle,
                first,
                seeds,
                workers,
            };
            many(&plan, long, least_pods).and_then(|(summary, well)| {
                for (signature, found) in summary.found.iter().take(examples) {
                    example(signature, found, &plan, tries, &keep)?;
                }
                Ok(well)
            })
        }
        What::Seed { seed } => one(&generate(seed), mode, &oracle),
        What::Show { seed } => serde_json::to_string_pretty(&generate(seed))
            .map(|text| {
                println!("{text}");
                true
            })
            .map_err(|error| error.to_string()),
        What::Replay { file } => read(&file).and_then(|case| one(&case, mode, &oracle)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sched-diff: {error}");
            ExitCode::from(2)
        }
    }
}

fn read(file: &Path) -> Result<Case, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Plays one case, and tells all differences. Whether there is none.
fn one(case: &Case, mode: Mode, oracle: &Path) -> Result<bool, String> {
    let mut oracle = Oracle::start(oracle).map_err(|error| error.to_string())?;
    let report = play_with(case, mode, &mut oracle, &mut Nobody);
    let report = report.map_err(|error| error.to_string())?;
    for disagreement in &report.disagreements {
        print!("{}", told(disagreement));
    }
    for (name, times) in &report.explained {
        println!("{times} pods differ as explained: {name}");
    }
    println!(
        "{} pods, {} placed, {} differ",
        report.pods,
        report.placed,
        report.disagreements.len()
    );
    Ok(report.disagreements.is_empty())
}

fn told(disagreement: &Disagreement) -> String {
    let mut told = format!("pod {} (step {})\n", disagreement.pod, disagreement.step);
    for difference in disagreement.differences.iter().take(SHOWN) {
        // Writing to a string can't fail.
        let _ = writeln!(told, "  {difference}");
    }
    let more = disagreement.differences.len().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(told, "  and {more} more");
    }
    told
}

/// Plays many, and tells what came of it. Whether all is well.
fn many(plan: &Plan, long: u64, least_pods: u64) -> Result<(Summary, bool), String> {
    let began = Instant::now();
    let summary = run(plan, &|done| {
        if done % EVERY == 0 {
            eprintln!("{done} of {} cases", plan.seeds);
        }
    })
    .map_err(|error| error.to_string())?;
    let seconds = began.elapsed().as_secs_f64();
    let is_judged = plan.mode == Mode::Verdicts;
    if is_judged {
        println!("{}", summary.table);
    }
    for explanation in EXPLAINED {
        println!(
            "{:>10} pods ({}; at most {}) differ as explained: {}. {}",
            summary.needed(explanation),
            percent(summary.needed(explanation), summary.pods),
            percent(explanation.most, 1000),
            explanation.name,
            explanation.reason
        );
    }
    for (seed, error) in &summary.unplayed {
        println!("seed {seed} can't be played: {error}");
    }
    for (signature, found) in &summary.found {
        println!(
            "{:>10} pods differ in {signature}, first with seed {}",
            found.times, found.seed
        );
    }
    let idle = summary.table.idle_names();
    let is_long = is_judged && plan.seeds >= long;
    for name in idle.iter().filter(|_| is_long) {
        println!("without effect: {name}");
    }
    let scarce = summary.table.scarce();
    for what in scarce.iter().filter(|_| is_long) {
        println!("too seldom: {what}");
    }
    let overused = summary.overused(EXPLAINED);
    for explanation in overused.iter().filter(|_| is_long) {
        println!("needed by too many pods: {}", explanation.name);
    }
    let lacking = summary.lacking(least_pods);
    if let Some(lacking) = lacking {
        println!("too few pods: {lacking} are missing to {least_pods}");
    }
    println!(
        "{} cases, {} pods ({} placed) on {} nodes in {seconds:.0} s; {} kinds of differences",
        summary.cases,
        summary.pods,
        summary.placed,
        summary.nodes,
        summary.found.len()
    );
    if is_judged {
        println!("{} rows without effect", idle.len());
    }
    let tested = idle.is_empty() && scarce.is_empty() && overused.is_empty();
    let agreed = summary.found.is_empty() && summary.unplayed.is_empty();
    let well = agreed && (tested || !is_long) && lacking.is_none();
    Ok((summary, well))
}

/// A share in percent, to a hundredth.
fn percent(part: u64, all: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(all.max(1));
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Shows a kind of difference by the smallest case that has it.
fn example(
    signature: &Signature,
    found: &Found,
    plan: &Plan,
    tries: usize,
    keep: &Path,
) -> Result<(), String> {
    println!("\n{signature}, seed {}:", found.seed);
    print!("{}", told(&found.example));
    let case = generate(found.seed);
    let small = smaller(&case, plan.mode, signature, &plan.oracle, tries)
        .map_err(|error| error.to_string())?;
    let json = serde_json::to_string(&small).map_err(|error| error.to_string())?;
    println!("{json}");
    let plugin = signature
        .plugin
        .as_deref()
        .unwrap_or("all")
        .replace(' ', "-");
    let name = format!("{:?}-{plugin}-{}.json", signature.aspect, found.seed);
    let file = keep.join(name);
    let kept = fs::create_dir_all(keep).and_then(|()| fs::write(&file, json + "\n"));
    kept.map_err(|error| format!("{}: {error}", file.display()))?;
    let flag = match plan.mode {
        Mode::Verdicts => "",
        Mode::Histories => "--histories ",
    };
    println!("again: sched-diff {flag}replay {}", file.display());
    one(&small, plan.mode, &plan.oracle).map(drop)
}
