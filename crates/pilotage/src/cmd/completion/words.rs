//! What may stand next on a command line, for kubectl, which asks a plugin for that: pure.

use clap::builder::ValueHint;
use clap::{Arg, ArgAction, Command};

/// What may be the last word.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// Words, and what each one is.
    pub(super) words: Vec<(String, String)>,
    /// Whether it may be the name of a file.
    pub(super) files: bool,
}

/// What cobra, by which kubectl completes, does with words: it offers no files beside them…
const NO_FILES: u8 = 4;
/// …or whatever the shell offers.
const AS_THE_SHELL: u8 = 0;

impl Offer {
    /// As kubectl reads it: a word with what it is on each line, and at the end a directive.
    pub(super) fn told(&self) -> String {
        let Self { words, files } = self;
        let mut text = String::new();
        for (word, about) in words {
            text += word;
            if !about.is_empty() {
                text += "\t";
                text += about;
            }
            text += "\n";
        }
        let directive = if *files { AS_THE_SHELL } else { NO_FILES };
        text + &format!(":{directive}\n")
    }
}

/// What may stand for the last one of these words, which has begun. `command` has been built; `contexts` are those that
/// the user's kubeconfig has.
pub(super) fn offer(command: &Command, contexts: &[String], words: &[String]) -> Offer {
    let Some((last, before)) = words.split_last() else {
        return Offer::default();
    };
    let mut place = Place {
        command,
        contexts,
        value: None,
        positional: 0,
        only_positionals: false,
        given: Vec::new(),
    };
    for word in before {
        place.pass(word);
    }
    place.offer(last)
}

/// Where a command line has come to.
struct Place<'a> {
    command: &'a Command,
    contexts: &'a [String],
    /// The flag whose value comes next.
    value: Option<&'a Arg>,
    /// How many arguments without a flag there were.
    positional: usize,
    only_positionals: bool,
    /// Flags that were given.
    given: Vec<&'a str>,
}

impl<'a> Place<'a> {
    fn pass(&mut self, word: &str) {
        if self.value.take().is_some() {
            return;
        }
        if self.only_positionals {
            self.positional = self.positional.saturating_add(1);
        } else if word == "--" {
            self.only_positionals = true;
        } else if let Some(flag) = word.strip_prefix("--") {
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            let arg = self.flag(|arg| is_called(arg, name));
            self.flag_given(arg, value.is_some());
        } else if let Some(flags) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
            let mut flags = flags.chars();
            while let Some(short) = flags.next() {
                let arg = self.flag(|arg| arg.get_short() == Some(short));
                let ends = arg.is_some_and(takes_value);
                self.flag_given(arg, !flags.as_str().is_empty());
                if ends {
                    break;
                }
            }
        } else if let Some(command) = self.subcommand(word) {
            self.command = command;
        } else {
            self.positional = self.positional.saturating_add(1);
        }
    }

    fn flag(&self, is_it: impl Fn(&Arg) -> bool) -> Option<&'a Arg> {
        flags(self.command).find(|arg| is_it(arg))
    }

    fn subcommand(&self, word: &str) -> Option<&'a Command> {
        let may_be = self.positional == 0;
        may_be.then(|| self.command.find_subcommand(word)).flatten()
    }

    fn flag_given(&mut self, arg: Option<&'a Arg>, has_value: bool) {
        let Some(arg) = arg else { return };
        self.given.push(arg.get_id().as_str());
        if takes_value(arg) && !has_value && !arg.is_require_equals_set() {
            self.value = Some(arg);
        }
    }

    fn offer(&self, last: &str) -> Offer {
        if let Some(arg) = self.value {
            return self.values(arg, "", last);
        }
        if !self.only_positionals {
            let value = last.strip_prefix("--").and_then(|it| it.split_once('='));
            if let Some((name, value)) = value {
                let arg = self.flag(|arg| is_called(arg, name));
                return arg.map_or_else(Offer::default, |arg| {
                    self.values(arg, &format!("--{name}="), value)
                });
            }
            if last.starts_with('-') {
                return self.flags(last);
            }
        }
        let mut offer = self.positional(last);
        if !self.only_positionals && self.positional == 0 {
            let commands = self
                .command
                .get_subcommands()
                .filter(|it| !it.is_hide_set());
            let commands = commands.filter(|it| it.get_name().starts_with(last));
            let about = |it: &Command| first_line(it.get_about());
            offer
                .words
                .extend(commands.map(|it| (it.get_name().to_owned(), about(it))));
        }
        offer
    }

    /// Those that begin so, and may be given once more.
    fn flags(&self, begun: &str) -> Offer {
        let mut words = Vec::new();
        for arg in flags(self.command).filter(|it| !it.is_hide_set()) {
            let again = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
            if !again && self.given.contains(&arg.get_id().as_str()) {
                continue;
            }
            let Some(name) = arg.get_long() else { continue };
            let word = format!("--{name}");
            if word.starts_with(begun) {
                words.push((word, first_line(arg.get_help())));
            }
        }
        words.sort();
        Offer {
            words,
            files: false,
        }
    }

    fn positional(&self, begun: &str) -> Offer {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        // The last one may take several.
        let several = all
            .last()
            .copied()
            .filter(|it| it.get_action().takes_values());
        let several =
            several.filter(|it| it.get_num_args().is_some_and(|all| all.max_values() > 1));
        let arg = all.get(self.positional).copied().or(several);
        arg.map_or_else(Offer::default, |arg| self.values(arg, "", begun))
    }

    /// Values that are known; of a list, those that may stand last.
    fn values(&self, arg: &Arg, before: &str, begun: &str) -> Offer {
        let is_file = matches!(
            arg.get_value_hint(),
            ValueHint::AnyPath
                | ValueHint::FilePath
                | ValueHint::DirPath
                | ValueHint::ExecutablePath
        );
        let delimiter = arg.get_value_delimiter();
        let list = delimiter.and_then(|delimiter| Some((delimiter, begun.rfind(delimiter)?)));
        let (front, begun) = match list {
            Some((delimiter, at)) => begun.split_at(at.saturating_add(delimiter.len_utf8())),
            None => ("", begun),
        };
        let names = arg.get_value_names().unwrap_or_default();
        let is_context = names.iter().any(|it| it.starts_with("CONTEXT"));
        let contexts = self.contexts.iter().filter(|_| is_context);
        let contexts = contexts.map(|it| (it.clone(), String::new()));
        let known = arg.get_possible_values().into_iter();
        let known = known.filter(|it| !it.is_hide_set());
        let known = known.map(|it| (it.get_name().to_owned(), first_line(it.get_help())));
        let all = known
            .chain(contexts)
            .filter(|(word, _)| word.starts_with(begun));
        Offer {
            words: all
                .map(|(word, about)| (format!("{before}{front}{word}"), about))
                .collect(),
            files: is_file,
        }
    }
}

fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|it| !it.is_positional())
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_called(arg: &Arg, name: &str) -> bool {
    let others = arg.get_all_aliases();
    arg.get_long() == Some(name) || others.is_some_and(|all| all.contains(&name))
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn offered(line: &str) -> Offer {
        let mut command = Cli::command();
        command.build();
        // What follows the last space has begun.
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let contexts = ["london", "paris"].map(str::to_owned);
        offer(&command, &contexts, &words)
    }

    fn words(line: &str) -> Vec<String> {
        offered(line)
            .words
            .into_iter()
            .map(|(word, _)| word)
            .collect()
    }

    #[test]
    fn commands_are_offered_with_what_they_do() {
        assert_eq!(words("dr"), ["drain"]);
        assert!(words("").len() > 15);
        let drain = offered("drai");
        assert!(
            drain.words[0].1.starts_with("Keeps new pods away"),
            "{drain:?}"
        );
        assert!(words("explain ").contains(&"pod".to_owned()));
        assert_eq!(words("nosuch con"), [""; 0]);
    }

    #[test]
    fn flags_are_offered_once() {
        assert_eq!(words("drain --mo"), ["--move"]);
        assert_eq!(words("drain shop/paris --mo"), ["--move"]);
        assert_eq!(words("drain --move --mo"), [""; 0]);
        assert!(words("connect -").contains(&"--target-server".to_owned()));
        assert_eq!(words("drain -- --mo"), [""; 0]);
    }

    #[test]
    fn values_are_offered_where_they_are_known() {
        assert_eq!(words("status -o "), ["table", "wide", "json", "yaml"]);
        assert_eq!(
            words("status -oyaml --output="),
            [
                "--output=table",
                "--output=wide",
                "--output=json",
                "--output=yaml"
            ]
        );
        assert_eq!(words("status --output y"), ["yaml"]);
        assert_eq!(words("completion z"), ["zsh"]);
        assert_eq!(words("status --namespace "), [""; 0]);
        assert_eq!(words("version --source london --o"), ["--output"]);
        assert_eq!(words("connect --source "), ["london", "paris"]);
        assert_eq!(
            words("version --target=london,p"),
            ["--target=london,paris"]
        );
    }

    #[test]
    fn files_are_offered_where_they_belong() {
        let file = offered("status --kubeconfig ");
        assert!(file.files && file.words.is_empty(), "{file:?}");
        assert_eq!(file.told(), ":0\n");
        let name = offered("status --namespace ");
        assert_eq!(name.told(), ":4\n");
        let told = offered("explain ").told();
        assert!(
            told.starts_with("pod\t") && told.ends_with("\n:4\n"),
            "{told}"
        );
    }
}
