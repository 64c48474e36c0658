//! Each command in the documents is one that its program understands: Pilotage's by the real command line, kubectl's
//! and Helm's by the help of the real programs, and values of the chart by rendering it.
//!
//! Commands stand in blocks of code: `sh`, `bash`, `console` (behind `$ `), or indented by four columns.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use clap::error::ErrorKind;
use pilotage::Cli;
use pilotage_testkit::tools::Tools;

use crate::chart::{RELEASE, chart, helm};
use crate::workspace::root;

/// Programs of others, of which nothing is known here.
const OTHERS: [&str; 10] = [
    "chmod",
    "e2e/tools/bump.sh",
    "export",
    "install",
    "kind",
    "make",
    "sha256sum",
    "skopeo",
    "tar",
    "target/debug/e2e",
];

/// All documents that users read, by path below the root.
pub(crate) fn documents() -> Vec<(String, String)> {
    let mut names: Vec<String> = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "charts/pilotage/README.md",
        "e2e/demo/README.md",
        "e2e/kind/README.md",
        "e2e/scenarios/README.md",
        "e2e/tools/README.md",
        "image/README.md",
    ]
    .map(str::to_owned)
    .into();
    for file in fs::read_dir(root().join("docs")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|it| it == "md") {
            let name = file.file_name().unwrap().to_str().unwrap();
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(root().join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

/// The lines that are typed, with those that they go on with.
fn lines(document: &str) -> Vec<String> {
    let mut typed: Vec<String> = Vec::new();
    let mut fence: Option<&str> = None;
    let (mut was_blank, mut goes_on) = (true, false);
    for line in document.lines() {
        let is_fence = line.trim_start().strip_prefix("```");
        if let Some(language) = is_fence {
            fence = match fence {
                None => Some(language.trim()),
                Some(_) => None,
            };
            goes_on = false;
            continue;
        }
        let code = match fence {
            Some("sh" | "bash") => Some(line),
            Some("console") if goes_on => Some(line),
            Some("console") => line.strip_prefix("$ "),
            Some(_) => None,
            None => line.strip_prefix("    ").filter(|_| was_blank || goes_on),
        };
        was_blank = line.trim().is_empty() || (fence.is_none() && code.is_some());
        let Some(code) = code.map(str::trim) else {
            goes_on = false;
            continue;
        };
        let (code, more) = match code.strip_suffix('\\') {
            Some(code) => (code, true),
            None => (code, false),
        };
        match typed.last_mut().filter(|_| goes_on) {
            Some(last) => *last += code,
            None => typed.push(code.to_owned()),
        }
        goes_on = more;
    }
    typed
}

/// The commands of one line, each as words: without comments, pipes between them.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            // A comment, or a file that is written.
            (None, '#' | '>') if word.is_none() => break,
            (None, '|' | ';' | '&') => {
                commands.last_mut().unwrap().extend(word.take());
                commands.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => commands.last_mut().unwrap().extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// What kubectl and Helm say of their commands.
struct Helps {
    programs: BTreeMap<&'static str, PathBuf>,
    known: BTreeMap<Vec<String>, String>,
}

impl Helps {
    fn new() -> Self {
        let tools = Tools::find().unwrap();
        let programs = ["kubectl", "helm"].map(|name| (name, tools.path(name).unwrap()));
        Self {
            programs: programs.into(),
            known: BTreeMap::new(),
        }
    }

    fn run(&self, words: &[String]) -> String {
        let output = Command::new(&self.programs[&*words[0]])
            .args(&words[1..])
            .env("KUBECONFIG", "/nonexistent")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is wrong with a command of one of these programs.
    fn fault(&mut self, words: &[String]) -> Option<String> {
        let is_flag = |word: &&String| word.starts_with('-') && word.len() > 1;
        let plain = words.iter().take_while(|word| !is_flag(word));
        let mut asked: Vec<String> = plain.cloned().collect();
        if asked.len() < 2 {
            return Some("its first word is a flag: write the command first".to_owned());
        }
        asked.push("--help".to_owned());
        let help = if let Some(help) = self.known.get(&asked) {
            help.clone()
        } else {
            let mut help = self.run(&asked);
            if words[0] == "kubectl" {
                help += &self.run(&["kubectl", "options"].map(str::to_owned));
            }
            self.known.insert(asked, help.clone());
            help
        };
        let command = format!("{} {}", words[0], words[1]);
        if !help.contains(&command) {
            return Some(format!("there is no command {command}"));
        }
        let mut flags = words.iter().filter(is_flag);
        let unknown = flags.find(|flag| {
            let name = flag.split('=').next().unwrap();
            let mut ends = [" ", "=", ",", ":", "\n"].into_iter();
            !ends.any(|end| help.contains(&format!("{name}{end}")))
        });
        unknown.map(|flag| format!("{command} has no flag {flag}"))
    }
}

/// What is wrong with values that a command of Helm gives to the chart.
fn values(words: &[String]) -> Option<String> {
    let mut arguments = vec!["template".to_owned(), RELEASE.to_owned(), chart()];
    let pairs = words.windows(2).filter(|pair| pair[0] == "--set");
    arguments.extend(pairs.flatten().cloned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    helm(&arguments).err()
}

/// What is wrong with a command.
fn fault(words: &[String], helps: &mut Helps) -> Option<String> {
    let program = words[0].as_str();
    let rest = match (program, words.get(1).map(String::as_str)) {
        ("pilotage" | "kubectl-pilotage", _) => &words[1..],
        ("kubectl", Some("pilotage")) => &words[2..],
        ("kubectl", _) => return helps.fault(words),
        ("helm", verb) => {
            let renders = matches!(verb, Some("install" | "upgrade" | "template"));
            let fault = helps.fault(words);
            return fault.or_else(|| values(words).filter(|_| renders));
        }
        (program, _) if OTHERS.contains(&program) => return None,
        _ => return Some("nothing is known of this program; see OTHERS".to_owned()),
    };
    let line = std::iter::once("pilotage").chain(rest.iter().map(String::as_str));
    match Cli::try_parse_from(line) {
        Ok(_) => None,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn each_command_in_the_documents_is_understood() {
    let mut helps = Helps::new();
    let mut count = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for (document, text) in documents() {
        for line in lines(&text) {
            for words in commands(&line) {
                *count.entry(words[0].clone()).or_default() += 1;
                if let Some(fault) = fault(&words, &mut helps) {
                    wrong.push(format!("{document}: {line}\n  {fault}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for program in ["pilotage", "kubectl", "helm", "make"] {
        assert!(
            count.get(program).is_some_and(|count| *count >= 3),
            "{count:?}"
        );
    }
}

#[test]
fn wrong_commands_are_found_wherever_they_stand() {
    let text = "Words.\n\n    pilotage crds --nowhere x | kubectl apply -f -\n    kubectl nosuch\n\n```sh\nkubectl \
        get pods \\\n  --nosuch\nhelm template pilotage charts/pilotage --set 'nosuch.value=1'\n```\n\n```console\n$ \
        pilotage nosuch\nits output\n```\n\n```yaml\nkubectl nosuch\n```\n\nkubectl nosuch # words\n";
    let mut helps = Helps::new();
    let lines = lines(text);
    let all = lines.iter().flat_map(|line| commands(line));
    let faults: Vec<_> = all.map(|words| fault(&words, &mut helps)).collect();
    let wrong: Vec<bool> = faults.iter().map(Option::is_some).collect();
    assert_eq!(
        wrong,
        [true, false, true, true, true, true],
        "{lines:#?} {faults:#?}"
    );
}
