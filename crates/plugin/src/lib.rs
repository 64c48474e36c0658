//! Commands for people, also as `kubectl pilotage`: they connect two clusters, and say where pods are and why.
//!
//! What is to be made, and what is said of it, is decided by pure functions (`plan`, `address`, `explain`, `table`).
//! They act with the rights of whoever runs them, once, and end: no part of Pilotage rests on them.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod address;
mod cluster;
mod commands;
mod connect;
mod copies;
mod dashboard;
mod disconnect;
mod drain;
mod error;
mod explain;
mod forget;
mod install;
mod interrupt;
mod life;
mod pair;
mod plan;
mod preflight;
mod program;
mod reach;
mod rights;
mod status;
mod table;
mod taken;
mod targets;
mod tokens;
mod undo;
mod uninstall;
mod version;
mod wait;
mod what_if;
mod which;

use std::fmt;

pub use commands::{
    Answer, connect, dashboard, disconnect, drain, explain, forget, install, status, version,
    what_if,
};
pub use connect::ConnectArgs;
pub use dashboard::DashboardArgs;
pub use disconnect::DisconnectArgs;
pub use drain::DrainArgs;
pub use error::{Error, with_causes};
pub use forget::ForgetArgs;
pub use install::InstallArgs;
pub use install::options::{Roles, RolesFor};
pub use program::called;
pub use status::{ExplainCommand, StatusArgs};
pub use table::plain;
pub use uninstall::{Installed, UninstallArgs};
pub use version::VersionArgs;
pub use what_if::WhatIfArgs;

/// What a cluster is to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its pods run elsewhere.
    Source,
    /// Pods run there.
    Target,
    /// Either, or not known yet.
    Cluster,
}

impl Side {
    /// The flag that names its context.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Source => "--source",
            Self::Target => "--target",
            Self::Cluster => "--context",
        }
    }

    /// The flag that names its kubeconfig.
    pub const fn file_flag(self) -> &'static str {
        match self {
            Self::Source | Self::Cluster => "--kubeconfig",
            Self::Target => "--target-kubeconfig",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Target => "target",
            Self::Cluster => "cluster",
        })
    }
}

/// An answer that may not be all that was asked for.
#[derive(Debug)]
pub struct Told {
    /// What is to be printed.
    pub text: String,
    /// Why not everything could be told, or done.
    pub left: Option<Error>,
}

/// How the answer to a question is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For people, with more columns.
    Wide,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
}

/// Writes an answer as it was asked for.
fn written(
    output: Output,
    value: &impl serde::Serialize,
    table: impl FnOnce() -> String,
) -> Result<String, Error> {
    let value = serde_json::to_value(value).map_err(|error| Error::Render(error.to_string()))?;
    match output {
        Output::Table | Output::Wide => Ok(table()),
        Output::Json => serde_json::to_string_pretty(&value)
            .map(|text| text + "\n")
            .map_err(|error| Error::Render(error.to_string())),
        Output::Yaml => plan::yaml(&value),
    }
}

/// Says on standard error what is being done.
fn progress(text: &str) {
    use std::io::Write as _;
    // Whoever doesn't read it doesn't want it.
    let _ = writeln!(std::io::stderr(), "{}", plain(text));
}
