//! `make bench-multi`. See [`pilotage_e2e::bench`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pilotage_e2e::bench::{self, Options, runs::RUNS};

/// Measures what delegated pods cost and how long they take, on local control planes.
#[derive(Debug, Parser)]
struct Args {
    /// Only these runs, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Pods of each measurement.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(5..=1000))]
    pods: u16,

    /// Pods a second where they aren't created as fast as possible.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// Writes all figures there as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Shows the runs and ends.
    #[arg(long)]
    list: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        for run in RUNS {
            println!("{:14} {}", run.name, run.what);
        }
        return ExitCode::SUCCESS;
    }
    let options = Options {
        only: args.only,
        pods: usize::from(args.pods),
        rate: args.rate,
        json: args.json,
    };
    match bench::run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nbench failed: {}", error.explain());
            ExitCode::FAILURE
        }
    }
}
