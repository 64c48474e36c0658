//! The binary's inside: command line, wiring of the parts, generators of definitions and roles.
//!
//! It only wires. What a part does is in its own crate; what a process needs is in `runtime`.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod cli;
mod cmd;
mod error;
mod part;
mod process;
mod version;

use futures::future::BoxFuture;

pub use cli::{Cli, Command};
pub use cmd::cleanup::CleanupError;
pub use cmd::files::FileError;
pub use cmd::finalizers::ReadError;
pub use cmd::uninstall::UninstallError;
pub use error::{EXIT_CODES, Error, explain};
pub use pilotage_plugin::plain;

/// Runs one command to its end.
///
/// The future is boxed here, so that it is compiled with this crate and not with the binary, which nothing else is
/// built beside.
pub fn run(cli: Cli) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(run_command(cli.command))
}

async fn run_command(command: Command) -> Result<(), Error> {
    match command {
        Command::Webhook(args) => cmd::webhook::run(args).await,
        Command::Controllers(args) => cmd::controllers::run(args).await,
        Command::ProxyScheduler(args) => cmd::proxy_scheduler::run(args).await,
        Command::CandidateScheduler(args) => cmd::candidate_scheduler::run(args).await,
        Command::All(args) => cmd::all::run(*args).await,
        Command::Crds(args) => cmd::crds::run(&args),
        Command::Admission(args) => cmd::admission::run(&args),
        Command::Cleanup(args) => cmd::cleanup::run(args).await,
        Command::Uninstall(args) => cmd::uninstall::run(args).await,
        Command::Rbac(args) => cmd::rbac::run(&args),
        Command::GardenerScheduler(args) => cmd::gardener_scheduler::run(args).await,
        Command::Scheduler(args) => cmd::scheduler::run(args).await,
        Command::SelectSeed(args) => cmd::select_seed::run(&args).await,
        Command::Connect(args) => cmd::print(&pilotage_plugin::connect(*args).await?),
        Command::Disconnect(args) => cmd::print(&pilotage_plugin::disconnect(*args).await?),
        Command::Status(args) => cmd::print(&pilotage_plugin::status(args).await?),
        Command::Explain(args) => cmd::print(&pilotage_plugin::explain(args).await?),
        Command::WhatIf(args) => cmd::print(&pilotage_plugin::what_if(*args).await?),
        Command::Version(args) => {
            let pilotage_plugin::Told { text, left } = pilotage_plugin::version(args).await?;
            cmd::print(&text)?;
            left.map_or(Ok(()), |left| Err(left.into()))
        }
        Command::Dashboard(args) => cmd::print(&pilotage_plugin::dashboard(args).await?),
        Command::Drain(args) => cmd::print(&pilotage_plugin::drain(args).await?),
        Command::Completion(args) => cmd::completion::run(&args),
        Command::Install(args) => {
            let roles = cmd::rbac::of_controllers;
            cmd::print(&pilotage_plugin::install(*args, roles).await?)
        }
        Command::Forget(args) => cmd::print(&pilotage_plugin::forget(args).await?),
    }
}
