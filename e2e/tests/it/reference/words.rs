//! What the reference says by hand: words of events, conditions and refusals, metrics, exit codes. Each is held against
//! the code in both directions, as far as texts can tell.

use std::collections::BTreeSet;

use clap::CommandFactory;
use pilotage::{Cli, EXIT_CODES};

use super::document;
use crate::workspace::{rust_files, shipped};

/// Where reasons of events and conditions are made.
const CRATES: [&str; 13] = [
    "crates/api/",
    "crates/candidate/",
    "crates/clusters/",
    "crates/controllers/",
    "crates/gardener-scheduler/",
    "crates/model/src/virtual_node",
    "crates/pilotage/",
    "crates/proxy/",
    "crates/runtime/",
    "crates/sched/src/scheduler/",
    "crates/sched-driver/",
    "crates/vnode/",
    "webhook/",
];
/// What is in files that write events and conditions: there a reason may be one plain word.
const WRITERS: [&str; 6] = [
    "ConditionState",
    "EventNote",
    "Occurrence {",
    "fn reason(",
    "fn reasons(",
    "fn word(",
];
/// Words of this form that are no reasons: kinds, values of fields, actions of events.
const OTHERS: &str = "
    AdmissionReview CloudProfile ClusterRole ClusterRoleBinding ClusterSource ClusterSummary
    ClusterTarget ConfigMap ConfigMaps CustomResourceDefinition DaemonSet Event MutatingWebhookConfiguration
    NamespacedCloudProfile Node PartialObjectMetadata PodChaperon PodChaperonSpec PodChaperonStatus PodMetrics
    PodMetricsList ProxySchedulerConfiguration RoleBinding ServiceAccount Shoot Source SourceStatus Sources \
    TargetStatus User
    ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding

    AlreadyExists BadRequest False IfNeeded InternalIP JSONPatch NoExecute NoSchedule NoneOnDryRun Normal NotIn \
    PartialEq
    Pending PodResizePending PreferNoSchedule Succeeded TlsAcceptor TooManyRequests True Unknown Warning

    Create PreBind Scheduling
";

/// Whether it is one word in camel case.
fn is_camel(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.contains(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_alphabetic())
}

/// Words in camel case that stand in the code as texts, with the file.
fn literals() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let is_shipped = |name: &str| {
        let tests = [
            "/tests",
            "/testing",
            "/test_",
            "fuzz",
            "simulation",
            "proxy/src/status",
        ];
        name.contains("/src/") && !tests.iter().any(|part| name.contains(part))
    };
    for (name, text) in rust_files() {
        if !is_shipped(&name) || !CRATES.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let text = shipped(&text);
        let writes = WRITERS.iter().any(|mark| text.contains(mark));
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let parts: Vec<&str> = line.split('"').collect();
            for at in (1..parts.len()).step_by(2) {
                let (before, word) = (parts[at - 1], parts[at]);
                let humps = word.chars().filter(char::is_ascii_uppercase).count();
                let is_debug = before.ends_with("debug_struct(")
                    || text.contains(&format!("Debug for {word} "));
                let is_other = ["action: ", "name = "]
                    .iter()
                    .any(|it| before.ends_with(it));
                if is_camel(word) && (humps > 1 || writes) && !is_debug && !is_other {
                    found.push((word.to_owned(), name.clone()));
                }
            }
        }
    }
    found
}

/// The words in camel case that a text has as code.
fn code(text: &str) -> BTreeSet<&str> {
    let code = text.split('`').skip(1).step_by(2);
    let words = code.flat_map(|code| code.split(|c: char| !c.is_ascii_alphabetic()));
    words.filter(|word| is_camel(word)).collect()
}

/// The text of a section of the second level.
fn section<'a>(document: &'a str, title: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("\n## {title}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// The entries of all lists in a text, each in one line.
fn entries(text: &str) -> Vec<String> {
    let blocks = text
        .split("\n\n")
        .filter(|block| block.trim_start().starts_with("- "));
    let lines = blocks.flat_map(|block| {
        let block = block.trim_start().replace("\n  ", " ");
        block.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
fn each_reason_that_users_see_is_told() {
    let document = document();
    let told = code(&document);
    let others: BTreeSet<&str> = OTHERS.split_whitespace().collect();
    let literals = literals();
    assert!(literals.len() > 100, "{literals:?}");
    let untold: BTreeSet<_> = literals
        .iter()
        .filter(|(word, _)| !told.contains(&**word) && !others.contains(&**word))
        .collect();
    assert!(
        untold.is_empty(),
        "docs/reference.md doesn't have these words; say what they mean there if users see them, else list them in \
         {}: {untold:#?}",
        file!()
    );
}

#[test]
fn each_event_that_is_told_is_written_by_somebody() {
    let document = document();
    let literals: BTreeSet<String> = literals().into_iter().map(|(word, _)| word).collect();
    let events = entries(section(&document, "Events"));
    assert!(events.len() > 20, "{events:#?}");
    for event in events {
        let (names, rest) = event.split_once(" (").unwrap();
        let names = code(names);
        assert!(!names.is_empty(), "{event}");
        for name in names {
            assert!(literals.contains(name), "nobody writes {name}");
        }
        assert!(
            rest.starts_with("Warning") || rest.starts_with("Normal"),
            "{event}"
        );
        assert!(
            rest.contains("), on ") || rest.contains("), by "),
            "{event}"
        );
    }
}

/// Metrics as they are told: name, type, and the rest.
fn metrics(document: &str) -> Vec<(String, String, String)> {
    let entries = entries(section(document, "Metrics"));
    let parts = entries.iter().map(|entry| {
        let (name, rest) = entry
            .strip_prefix("- `")
            .unwrap()
            .split_once("` (")
            .unwrap();
        let (kind, says) = rest.split_once("): ").unwrap();
        (name.to_owned(), kind.to_owned(), says.to_owned())
    });
    parts.collect()
}

/// Metrics that code registers: what their names end with, and what they say of themselves.
fn registered() -> Vec<(String, Option<String>)> {
    const CALLS: [&str; 4] = [
        "register(",
        "register_with_unit(",
        "encode_descriptor(",
        "gauges(",
    ];
    let mut found = Vec::new();
    for (_, text) in rust_files()
        .into_iter()
        .filter(|(name, _)| name.contains("/src/"))
    {
        let text = shipped(&text);
        if !text.contains("prometheus_client") {
            continue;
        }
        for call in CALLS {
            for part in text.split(call).skip(1) {
                let arguments = part.trim_start();
                let arguments = arguments.strip_prefix("&mut encoder,").unwrap_or(arguments);
                if !arguments.trim_start().starts_with('"') {
                    continue;
                }
                let mut literals = arguments.split('"').skip(1).step_by(2);
                let name = literals.next().unwrap().to_owned();
                let help = literals.next().filter(|help| help.contains(' '));
                found.push((name, help.map(str::to_owned)));
            }
        }
    }
    found
}

#[test]
fn each_metric_is_told_in_its_own_words() {
    let document = document();
    let told = metrics(&document);
    let registered = registered();
    let ends = ["_total", "_info", "_seconds", "_bytes"];
    let stem = |name: &str| {
        let name = ends[..2]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name)
            .to_owned();
        let unit = ends[2..]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .map(str::to_owned);
        [Some(name), unit].into_iter().flatten().collect::<Vec<_>>()
    };
    let is = |told: &(String, String, String), name: &str, help: Option<&String>| {
        let end = format!("_{name}");
        let is_name = stem(&told.0)
            .iter()
            .any(|stem| stem == name || stem.ends_with(&end));
        is_name && help.is_none_or(|help| told.2.starts_with(help))
    };
    let untold: Vec<_> = registered
        .iter()
        .filter(|(name, help)| !told.iter().any(|it| is(it, name, help.as_ref())))
        .collect();
    assert!(
        untold.is_empty(),
        "docs/reference.md lacks metrics, or says something else: {untold:#?}"
    );
    let gone: Vec<_> = told
        .iter()
        .filter(|it| {
            !registered
                .iter()
                .any(|(name, help)| is(it, name, help.as_ref()))
        })
        .collect();
    assert!(
        gone.is_empty(),
        "nobody has these metrics of docs/reference.md: {gone:#?}"
    );
}

/// The types and words that the reference has for a metric. The name is that of its family.
fn told(family: &str) -> impl Iterator<Item = (String, String)> {
    let ends = ["", "_total", "_info"];
    let names = ends.map(|end| format!("{family}{end}"));
    let all = metrics(&document()).into_iter();
    all.filter(move |(name, ..)| names.contains(name))
        .map(|(_, kind, words)| (kind, words))
}

/// Whether the reference has a metric that a process serves, with its type.
pub(crate) fn tells_of(family: &str, kind: &str) -> bool {
    told(family).any(|(type_, _)| type_ == kind)
}

/// Whether the reference names this label of a metric.
pub(crate) fn tells_of_label(family: &str, label: &str) -> bool {
    let label = format!("`{label}`");
    told(family).any(|(_, words)| words.contains(&label))
}

#[test]
fn each_exit_code_is_told() {
    let mut codes = BTreeSet::from([0, 1, 2]);
    for (name, text) in rust_files() {
        if !name.contains("/src/") {
            continue;
        }
        for body in shipped(&text).split("fn exit_code").skip(1) {
            let body = body.split("\n    }\n").next().unwrap();
            let arms = body.split("=> ").skip(1);
            codes.extend(arms.filter_map(|arm| arm[..1].parse::<u8>().ok()));
        }
    }
    assert!(codes.len() > 3, "{codes:?}");
    let told: BTreeSet<u8> = EXIT_CODES.iter().map(|(code, ..)| *code).collect();
    assert_eq!(
        told, codes,
        "the table of exit codes, and those of the code"
    );
    let document = document();
    let rows = section(&document, "Exit codes").lines();
    let is_row =
        |row: &&str| row.starts_with("| ") && row[2..].starts_with(|c: char| c.is_ascii_digit());
    let rows: Vec<&str> = rows.filter(is_row).collect();
    let want = EXIT_CODES.iter();
    let want: Vec<String> = want
        .map(|(code, of, means)| format!("| {code} | {of} | {means} |"))
        .collect();
    assert_eq!(rows, want, "exit codes in docs/reference.md, and the table");
}

#[test]
fn each_command_has_the_exit_codes_that_its_help_tells() {
    let mut all = Cli::command();
    for command in all.get_subcommands_mut() {
        let name = command.get_name().to_owned();
        let help = command.render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        // Some have a list of them, others a sentence.
        let list = help.split_once("Exit codes:").map(|(_, list)| list);
        let list = list.and_then(|list| list.split("Example").next());
        for code in [3, 4] {
            let said = help.contains(&format!(" with {code} if "));
            let listed = list.is_some_and(|list| list.contains(&format!(" {code} ")));
            let told = EXIT_CODES
                .iter()
                .any(|(it, of, _)| *it == code && of.contains(&format!("`{name}`")));
            assert_eq!(
                said || listed,
                told,
                "{name} ends with {code}: its help, and the table"
            );
        }
    }
}
