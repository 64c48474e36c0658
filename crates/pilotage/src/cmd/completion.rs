//! `completion`: what a shell, or kubectl, needs to complete the words of a command line.
//!
//! kubectl completes a plugin's words by a program of its own, `kubectl_complete-pilotage`: it gives it the words
//! behind `kubectl pilotage`, of which the last one has begun, and reads on each line what that may become. The script
//! that is printed here for that asks this command.

mod words;

use clap::{CommandFactory, ValueEnum};
use clap_complete::generate;
use clap_complete::shells;
use kube::config::Kubeconfig;

use crate::cli::Cli;
use crate::error::Error;

/// Who completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
    /// kubectl, in any shell: "kubectl pilotage".
    Kubectl,
}

/// The program that kubectl runs.
const SCRIPT: &str = "#!/bin/sh\nexec kubectl-pilotage completion kubectl -- \"$@\"\n";

/// Flags of `completion`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which shell; or kubectl, for "kubectl pilotage" in any shell.
    #[arg(value_enum)]
    shell: Shell,

    /// Words of a command line, for kubectl: prints what the last one may become.
    #[arg(last = true, value_name = "WORDS", hide = true)]
    words: Vec<String>,
}

/// Prints the script, or what a word may become.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    super::print(&text(args))
}

fn text(args: &Args) -> String {
    let Args { shell, words } = args;
    if *shell != Shell::Kubectl || words.is_empty() {
        return script(*shell);
    }
    let mut command = Cli::command();
    command.build();
    words::offer(&command, &contexts(), words).told()
}

/// Those of the user's kubeconfig, if it can be read.
fn contexts() -> Vec<String> {
    let kubeconfig = Kubeconfig::read().unwrap_or_default();
    let contexts = kubeconfig.contexts.into_iter();
    contexts.map(|it| it.name).collect()
}

fn script(shell: Shell) -> String {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    match shell {
        Shell::Bash => generate(shells::Bash, &mut command, name, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, name, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, name, &mut script),
        Shell::Kubectl => return SCRIPT.to_owned(),
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
    #[test]
    fn kubectl_is_given_a_program_that_asks_this_one() {
        let of = |line: &str| {
            let cli = Cli::from_line(line.split(' ').map(Into::into)).unwrap();
            match cli.command {
                crate::cli::Command::Completion(args) => text(&args),
                _ => String::new(),
            }
        };
        assert_eq!(of("pilotage completion kubectl"), SCRIPT);
        let words = of("kubectl-pilotage completion kubectl -- drain --mo");
        assert!(words.starts_with("--move\tEvict"), "{words}");
        assert!(of("pilotage completion kubectl -- ").starts_with("webhook\t"));
    }
}
