//! `make demo`. See [`pilotage_e2e::demo`].

use std::process::ExitCode;

use clap::Parser;
use pilotage_e2e::demo::{self, Error};

/// Shows the main job on three local clusters.
#[derive(Debug, Parser)]
struct Args {
    /// Leave clusters and pods running until Ctrl-C, and print the kubeconfigs.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match demo::run(args.keep).await {
        Ok(()) => ExitCode::SUCCESS,
        // To stop what was to be kept is what one does in the end.
        Err(Error::Interrupted) if args.keep => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\ndemo failed: {}", error.explain());
            ExitCode::FAILURE
        }
    }
}
