//! `make bench-gardener`. See [`pilotage_e2e::garden::bench`].

use std::process::ExitCode;

use clap::Parser;
use pilotage_e2e::garden::bench;

/// Measures what placing a Gardener Shoot costs, on local control planes.
#[derive(Debug, Parser)]
struct Args {
    /// Shoots of each measurement.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(10..=10_000))]
    shoots: u16,
}

#[tokio::main]
async fn main() -> ExitCode {
    match bench::run(usize::from(Args::parse().shoots)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            eprintln!("\nbench failed: {text}");
            ExitCode::FAILURE
        }
    }
}
