use pilotage_api::bounds;
use pilotage_runtime::{args::parse_duration, moment};

use super::*;

#[test]
fn no_flag_asks_for_a_longer_time_than_the_wire_may() {
    assert_eq!(moment::LONGEST_TIME, bounds::LONGEST_TIME);
    assert_eq!(parse_duration("1000000h"), Ok(bounds::LONGEST_TIME));
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn a_plugins_help_has_its_name() {
    let help = |program: &str| {
        let line = [program, "status", "--help"].map(OsString::from);
        Cli::from_line(line).unwrap_err().to_string()
    };
    let plugin = help("/usr/local/bin/kubectl-pilotage");
    assert!(
        plugin.contains("Usage: kubectl pilotage status"),
        "{plugin}"
    );
    let own = help("target/debug/pilotage");
    assert!(own.contains("Usage: pilotage status"), "{own}");
    let parsed = Cli::from_line(["kubectl-pilotage", "explain", "pod", "a/b"].map(OsString::from));
    assert!(matches!(parsed.unwrap().command, Command::Explain(_)));
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

#[test]
fn examples_are_command_lines() {
    let mut command = Cli::command();
    let mut help = command.render_long_help().to_string();
    for subcommand in command.get_subcommands_mut() {
        help += &subcommand.render_long_help().to_string();
    }
    let examples: Vec<_> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  pilotage "))
        .collect();
    assert!(examples.len() > 3, "{help}");
    for example in examples {
        let words = example
            .split(['|', '>'])
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let parsed = Cli::try_parse_from(std::iter::once("pilotage").chain(words));
        assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
    }
}
