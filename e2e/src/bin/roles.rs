//! `make roles`. See [`pilotage_e2e::roles`].

use std::process::ExitCode;

use pilotage_e2e::roles::{self, Summary};

fn main() -> ExitCode {
    match roles::run() {
        Ok(Summary {
            rights,
            uses,
            spared,
        }) => {
            println!("roles: each of {rights} rights was used, by {uses} sorts of requests");
            for exception in spared {
                println!("roles: an exception that wasn't needed this time: {exception}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("roles: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                eprintln!("  because: {error}");
                source = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
