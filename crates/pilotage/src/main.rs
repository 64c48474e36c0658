//! The one binary. It parses, runs, and says in words why it failed; everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use pilotage::{Cli, explain, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pilotage: {}", explain(&error));
            ExitCode::FAILURE
        }
    }
}
