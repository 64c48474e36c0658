//! The commands as whoever runs them sees them: each takes its flags, and answers with what is to be printed.
//!
//! Their futures are boxed, so that commands are compiled with this crate, beside others, and not where they are
//! awaited.

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{
    ConnectArgs, DashboardArgs, DisconnectArgs, DrainArgs, Error, ExplainCommand, ForgetArgs,
    InstallArgs, Roles, StatusArgs, Told, VersionArgs, WhatIfArgs,
};

/// What is to be printed in the end.
pub type Answer = BoxFuture<'static, Result<String, Error>>;

/// Connects two clusters.
pub fn connect(args: ConnectArgs) -> Answer {
    crate::connect::connect(args).boxed()
}

/// Opens the live page.
pub fn dashboard(args: DashboardArgs) -> Answer {
    crate::dashboard::dashboard(args).boxed()
}

/// Ends a connection.
pub fn disconnect(args: DisconnectArgs) -> Answer {
    crate::disconnect::disconnect(args).boxed()
}

/// Keeps new pods away from a target.
pub fn drain(args: DrainArgs) -> Answer {
    crate::drain::drain(args).boxed()
}

/// Tells why a pod is where it is.
pub fn explain(args: ExplainCommand) -> Answer {
    crate::status::explain(args).boxed()
}

/// Gives a target up.
pub fn forget(args: ForgetArgs) -> Answer {
    crate::forget::forget(args).boxed()
}

/// Installs Pilotage.
pub fn install(args: InstallArgs, roles: Roles) -> Answer {
    crate::install::install(args, roles).boxed()
}

/// Tells of all targets, or of one pod.
pub fn status(args: StatusArgs) -> Answer {
    crate::status::status(args).boxed()
}

/// Tells which versions there are.
pub fn version(args: VersionArgs) -> BoxFuture<'static, Result<Told, Error>> {
    crate::version::version(args).boxed()
}

/// Tells what targets would answer about a pod.
pub fn what_if(args: WhatIfArgs) -> Answer {
    crate::what_if::what_if(args).boxed()
}
