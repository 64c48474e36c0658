//! The flags of all commands, as the real command line describes them: those of several commands once.

use clap::{Arg, ArgAction, Command, CommandFactory};
use pilotage::Cli;

use super::text::{entry, escaped, paragraph, sentence};

/// One flag, and the commands that take it.
#[derive(Debug)]
struct Flag {
    entry: String,
    heading: Option<String>,
    of: Vec<String>,
}

pub(super) fn section() -> String {
    let mut root = Cli::command();
    root.build();
    let mut commands = Vec::new();
    let mut flags = Vec::new();
    collect(&root, "", &mut commands, &mut flags);
    let mut out = String::new();
    for group in shared(&flags) {
        out += &format!("### {}\n\n", title(&group));
        let (heading, of, flags) = &group;
        if heading.is_some() {
            out += &format!("{}\n\n", paragraph(&format!("Of {}.", list(of))));
        }
        out += &entries(flags);
    }
    for (name, about) in commands {
        out += &format!(
            "### `pilotage {name}`\n\n{}\n\n",
            paragraph(&sentence(&escaped(&about)))
        );
        let own = flags.iter().filter(|flag| flag.of == [name.as_str()]);
        out += &entries(&own.collect::<Vec<_>>());
        let groups = shared(&flags)
            .into_iter()
            .filter(|(_, of, _)| of.contains(&name));
        let groups: Vec<_> = groups.map(|group| title(&group)).collect();
        if !groups.is_empty() {
            let also = format!("Also the flags above under: {}.", groups.join("; "));
            out += &format!("{}\n\n", paragraph(&also));
        }
    }
    out
}

/// The commands below one, and their flags, in order.
fn collect(
    command: &Command,
    path: &str,
    commands: &mut Vec<(String, String)>,
    flags: &mut Vec<Flag>,
) {
    for command in command
        .get_subcommands()
        .filter(|it| it.get_name() != "help")
    {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        let about = command.get_about().map(ToString::to_string);
        commands.push((path.clone(), about.unwrap_or_default()));
        for arg in command.get_arguments().filter(|arg| !is_clap(arg)) {
            let heading = arg.get_help_heading().map(str::to_owned);
            let entry = said(arg);
            match flags
                .iter_mut()
                .find(|flag| flag.entry == entry && flag.heading == heading)
            {
                Some(flag) => flag.of.push(path.clone()),
                None => flags.push(Flag {
                    entry,
                    heading,
                    of: vec![path.clone()],
                }),
            }
        }
        collect(command, &path, commands, flags);
    }
}

/// Whether it is the parser's own.
fn is_clap(arg: &Arg) -> bool {
    ["help", "version"].contains(&arg.get_id().as_str())
}

type Group<'a> = (Option<String>, Vec<String>, Vec<&'a Flag>);

/// Flags that several commands take: those of one heading and the same commands together.
fn shared(flags: &[Flag]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for flag in flags.iter().filter(|flag| flag.of.len() > 1) {
        let same = |(heading, of, _): &&mut Group<'_>| *heading == flag.heading && *of == flag.of;
        match groups.iter_mut().find(same) {
            Some((.., group)) => group.push(flag),
            None => groups.push((flag.heading.clone(), flag.of.clone(), vec![flag])),
        }
    }
    groups
}

fn title((heading, of, _): &Group<'_>) -> String {
    heading
        .clone()
        .unwrap_or_else(|| format!("Flags of {}", list(of)))
}

fn entries(flags: &[&Flag]) -> String {
    if flags.is_empty() {
        return String::new();
    }
    let entries = flags.iter().map(|flag| flag.entry.clone() + "\n");
    entries.collect::<String>() + "\n"
}

fn list(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// What is said of one flag.
fn said(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(sentence);
    let mut text = format!(
        "{}: {}",
        spelled(arg),
        escaped(&paragraphs.collect::<Vec<_>>().join(" "))
    );
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let values = arg.get_possible_values();
    let is_bool = values.iter().any(|value| value.get_name() == "true");
    if !is_switch && !is_bool && !values.is_empty() {
        let each = values.iter().map(|value| {
            let help = value
                .get_help()
                .map(|help| format!(" ({})", escaped(&help.to_string())));
            format!("`{}`{}", value.get_name(), help.unwrap_or_default())
        });
        text += &format!(" Values: {}.", each.collect::<Vec<_>>().join(", "));
    }
    let defaults = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.collect();
    if !is_switch && !defaults.is_empty() {
        text += &format!(" Default: `{}`.", defaults.join(","));
    }
    if let Some(variable) = arg.get_env() {
        text += &format!(
            " Without the flag, the variable `{}` counts.",
            variable.to_string_lossy()
        );
    }
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    for alias in aliases {
        text += &format!(" Also `--{alias}`.");
    }
    entry(&text)
}

fn spelled(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values = values.iter().map(ToString::to_string);
    let values = values.collect::<Vec<_>>().join(" ");
    let Some(long) = arg.get_long() else {
        return format!("`{values}`");
    };
    let short = arg.get_short().map(|short| format!("`-{short}`, "));
    let flag = if !arg.get_action().takes_values() {
        format!("`--{long}`")
    } else if arg.is_require_equals_set() {
        format!("`--{long}[={values}]`")
    } else {
        format!("`--{long} {values}`")
    };
    short.unwrap_or_default() + &flag
}
