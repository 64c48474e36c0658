//! `make bench-hostile`. See [`pilotage_e2e::hostile::bench`].

use std::process::ExitCode;

use clap::Parser;
use pilotage_e2e::hostile::bench;

/// Measures what all attacks of a hostile target cost the source and the pods of others, and fails if that is too much.
#[derive(Debug, Parser)]
struct Args {
    /// For how long it attacks.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match bench::run(Args::parse().minutes).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nbench failed: {}", error.explain());
            ExitCode::FAILURE
        }
    }
}
