//! The binary's inside: command line, wiring of the parts, generators of definitions and roles.
//!
//! It only wires. What a part does is in its own crate; what a process needs is in `runtime`.

mod cli;
mod cmd;
mod error;

pub use cli::{Cli, Command};
pub use error::{Error, explain};

/// Runs one command to its end.
pub fn run(cli: &Cli) -> Result<(), Error> {
    match &cli.command {
        Command::Crds(args) => cmd::crds::run(args),
    }
}
