//! The command line: its commands, and the help that teaches what they are. Flags live beside what they configure.

use clap::{Parser, Subcommand};

use crate::cmd;

/// Runs pods of one Kubernetes cluster in other clusters.
///
/// A pod annotated multicluster.admiralty.io/elect in a source cluster becomes a proxy pod. It is
/// asked for in several target clusters at once; each reserves a real node for it, exactly one binds
/// it there, and its status flows back. The proxy pod itself is bound to a virtual node, which stands
/// for the chosen target.
///
/// Where the parts run:
///
///   source cluster    webhook, controllers, proxy-scheduler
///   target cluster    controllers, candidate-scheduler
///
/// A cluster may be both. "all" runs every part in one process. Parts that find nothing to do stay
/// idle, so it is right for sources and targets alike.
#[derive(Debug, Parser)]
#[command(
    name = "pilotage",
    version,
    after_long_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true,
    verbatim_doc_comment
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Example: install definitions and roles in a cluster, then run everything there in one process:

  pilotage crds | kubectl apply --server-side -f -
  kubectl create namespace pilotage
  pilotage rbac --service-account pilotage/pilotage | kubectl apply -f -
  pilotage all

Each command explains itself: pilotage webhook --help";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prints the custom resource definitions.
    ///
    /// They belong into every cluster, source or target, before anything else of Pilotage. They are those
    /// of Admiralty's API group, so that the objects of an existing installation stay valid.
    ///
    /// Example:
    ///
    ///   pilotage crds | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Crds(cmd::crds::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_teaches() {
        let mut command = Cli::command();
        let help = command.render_long_help().to_string();
        for word in ["source cluster  ", "target cluster  ", "kubectl apply"] {
            assert!(help.contains(word), "{word} in\n{help}");
        }
        let names: Vec<_> = command
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        for name in names.into_iter().filter(|name| name != "help") {
            let help = command
                .find_subcommand_mut(&name)
                .unwrap()
                .render_long_help()
                .to_string();
            let lines = help
                .lines()
                .take_while(|line| !line.starts_with("Usage"))
                .count();
            assert!(lines >= 6, "{name} is not explained:\n{help}");
            assert!(
                help.contains("\n  pilotage "),
                "{name} shows no example:\n{help}"
            );
        }
    }
}
