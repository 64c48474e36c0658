//! `completion`: what a shell needs to complete the words of a command line.

use clap::{CommandFactory, ValueEnum};
use clap_complete::generate;
use clap_complete::shells;

use crate::cli::Cli;
use crate::error::Error;

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
}

/// Flags of `completion`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    super::print(&script(args.shell))
}

fn script(shell: Shell) -> String {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    match shell {
        Shell::Bash => generate(shells::Bash, &mut command, name, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, name, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, name, &mut script),
    }
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_learns_commands_and_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for word in ["connect", "drain", "target-server", "label-namespace"] {
                assert!(script.contains(word), "{word} for {shell:?}");
            }
        }
    }
}
