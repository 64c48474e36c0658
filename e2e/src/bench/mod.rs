//! `make bench-multi`: what a pod costs and how long it takes, on real control planes, beside the stock kube-scheduler.
//!
//! Times, CPU and memory come from runs in which nothing is recorded that costs the measured processes anything:
//! requests are counted by the API servers' own metrics. Who sent them is told by runs of their own with audit logs,
//! whose times are not quoted. Ratios are made only within one invocation.

pub mod actors;
mod aim;
mod aims;
pub mod alone;
pub mod comparison;
mod error;
pub mod figures;
pub mod follow;
mod freeze;
mod load;
mod measure;
pub mod proc;
pub mod quantiles;
pub mod report;
pub mod requests;
pub mod runs;
pub mod settings;
pub mod shape;
mod subject;
pub mod table;
pub mod timeline;
pub mod usage;
mod watch;

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;

pub use self::error::Error;
use self::figures::{Report, RunReport};
use self::measure::Bench;
use self::runs::{Pace, Run};
use self::settings::Settings;
use self::subject::Subject;
use crate::explain;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names of runs; all if empty.
    pub only: Vec<String>,
    /// Pods of each measurement.
    pub pods: usize,
    /// Pods a second of the loads of fixed rate.
    pub rate: u32,
    /// Where the figures go as JSON.
    pub json: Option<PathBuf>,
    /// Whether a missed aim is a failure.
    pub strict: bool,
}

/// Measures, and prints the figures. A run that fails doesn't stop the others.
pub async fn run(options: &Options) -> Result<(), Error> {
    let runs = runs::select(&options.only).map_err(Error::NoSuchRun)?;
    let mut report = Report {
        began: Timestamp::now().to_string(),
        pods: options.pods,
        settings: Settings::of_machine()?,
        runs: Vec::new(),
    };
    for run in runs {
        eprintln!("{}: {}", run.name, run.what);
        let done = tokio::select! {
            done = one(run, options, &mut report.settings) => done,
            interrupted = interruption() => return Err(interrupted),
        };
        if let Some(error) = &done.error {
            eprintln!("  failed: {error}");
        }
        report.runs.push(done);
    }
    println!("{}\n\n{}", report.settings.text(), report::text(&report));
    if let Some(path) = &options.json {
        let write = serde_json::to_vec_pretty(&report)
            .map_err(std::io::Error::from)
            .and_then(|json| fs::write(path, json));
        write.map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
    }
    match report.runs.iter().filter(|run| run.error.is_some()).count() {
        0 => {}
        failed => return Err(Error::Runs(failed)),
    }
    if options.strict {
        aim::insist(&aims::aims(&report))?;
    }
    Ok(())
}

async fn interruption() -> Error {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Error::Interrupted,
        Err(error) => Error::Signal(error),
    }
}

/// One run; its figures as far as it came.
async fn one(run: &Run, options: &Options, settings: &mut Settings) -> RunReport {
    let mut report = RunReport {
        name: run.name,
        what: run.what,
        audited: run.audited,
        idle_cores: 0.0,
        idle_by_group: std::collections::BTreeMap::new(),
        loads: Vec::new(),
        error: None,
    };
    let subject = match Subject::start(run).await {
        Ok(subject) => subject,
        Err(error) => {
            report.error = Some(explain(&error));
            return report;
        }
    };
    for plane in subject.planes() {
        settings.add(plane);
    }
    if let Err(error) = measure(run, &subject, options, &mut report).await {
        report.error = Some(format!("{}; logs: {:?}", explain(&error), subject.logs()));
    }
    subject.stop().await;
    report
}

async fn measure(
    run: &Run,
    subject: &Subject,
    options: &Options,
    report: &mut RunReport,
) -> Result<(), Error> {
    let mut bench = Bench::new(subject, run.audited).await?;
    report.idle_cores = bench.idle.total();
    report.idle_by_group = bench.idle.by_group(&bench.programs);
    let pods = options.pods;
    let mut bound = None;
    for (index, load) in run.loads.iter().enumerate() {
        let load = load.at_rate(options.rate);
        let tempo = load.pace.given(bound).ok_or(Error::NoBound)?;
        let frozen = if load.frozen {
            ", one target frozen"
        } else {
            ""
        };
        let at = tempo.rate().map(|rate| format!(" ({rate:.1}/s)"));
        let at = at.filter(|_| load.pace == Pace::HalfOfBound);
        eprintln!(
            "  {pods} pods, {}{}{frozen}",
            load.pace,
            at.unwrap_or_default()
        );
        let figures = bench
            .measure(&load, tempo, &format!("m{index}"), pods)
            .await?;
        eprintln!(
            "    bound after {:.1} s, p50 {:.0} ms, p99 {:.0} ms",
            figures.seconds.bound, figures.bound.p50_ms, figures.bound.p99_ms
        );
        if matches!(load.pace, Pace::Burst(_)) && !load.frozen {
            bound = Some(figures.bound_by_cpu.pods_per_second);
        }
        report.loads.push(figures);
    }
    Ok(())
}
