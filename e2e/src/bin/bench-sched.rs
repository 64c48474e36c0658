//! The end-to-end part of `make bench-sched`. See [`pilotage_e2e::bench::alone`].

use std::process::ExitCode;

use clap::Parser;
use pilotage_e2e::bench::alone::{self, Options};

/// Measures `pilotage scheduler` beside the real kube-scheduler, each alone in a local cluster.
#[derive(Debug, Parser)]
struct Args {
    /// Pods of each load.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(5..=9_999))]
    pods: u16,

    /// Nodes of the cluster.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=5_000))]
    nodes: u16,

    /// Bursts of each scheduler; the best one counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let options = Options {
        pods: usize::from(args.pods),
        nodes: usize::from(args.nodes),
        rounds: usize::from(args.rounds),
    };
    match alone::run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nbench failed: {}", error.explain());
            ExitCode::FAILURE
        }
    }
}
