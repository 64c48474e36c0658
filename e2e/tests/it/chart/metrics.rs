//! Alerts and dashboard ask for metrics that there are, by labels that they have, and the reference tells of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::reference;
use crate::workspace::{root, rust_files, shipped};

/// Ends of names that a histogram, a counter or an info has in Prometheus beside that of its family.
const ENDS: [&str; 5] = ["_bucket", "_count", "_sum", "_total", "_info"];
/// Of our metrics, with their first words.
const OURS: [&str; 4] = ["pilotage_", "scheduler_", "process_", "leader_election_"];
/// Labels that Prometheus adds, and that of buckets.
const ADDED: [&str; 3] = ["namespace", "pod", "le"];

/// Families that are served only once something rare has happened: by the names that code registers them by.
const RARE: [(&str, &str); 3] = [
    (
        "pilotage_kubelet_requests_refused",
        "kubelet_requests_refused",
    ),
    ("pilotage_kubelet_streams_open", "kubelet_streams_open"),
    ("pilotage_candidate_refusals", "refusals"),
];

/// Where the code has the values of a label.
const VALUES: [(&str, &str); 6] = [
    ("answer", "crates/controllers/src/ask/metrics.rs"),
    ("component", "crates/pilotage/src/part.rs"),
    ("end", "crates/candidate/src/plan.rs"),
    // Of Leases.
    ("name", "crates/pilotage/src/part.rs"),
    ("result", "crates/sched-driver/src/metrics.rs"),
    ("state", "crates/controllers/src/fleet/metrics.rs"),
];

fn expressions() -> Vec<String> {
    let file = |name: &str| fs::read_to_string(root().join("charts/pilotage/files").join(name));
    let alerts: Value = serde_saphyr::from_str(&file("alerts.yaml").unwrap()).unwrap();
    let dashboard: Value = serde_json::from_str(&file("dashboard.json").unwrap()).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap();
    let rules = list(&alerts["groups"])
        .into_iter()
        .flat_map(|group| list(&group["rules"]));
    let targets = list(&dashboard["panels"])
        .into_iter()
        .flat_map(|panel| list(&panel["targets"]));
    rules
        .chain(targets)
        .map(|one| one["expr"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_alert_has_its_line_in_the_guide() {
    let alerts = fs::read_to_string(root().join("charts/pilotage/files/alerts.yaml")).unwrap();
    let guide = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let named = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let named: BTreeSet<_> = named.collect();
    let told = guide
        .lines()
        .filter_map(|line| line.strip_prefix("- `Pilotage")?.split('`').next());
    let told: BTreeSet<_> = told.map(|rest| format!("Pilotage{rest}")).collect();
    assert!(named.len() > 5, "{named:?}");
    assert!(
        named.iter().eq(told.iter()),
        "alerts {named:?}, docs/operations.md {told:?}"
    );
}

/// What isn't closed in an expression, or closes nothing.
fn unclosed(expression: &str) -> Option<char> {
    let mut open = Vec::new();
    let mut letters = expression.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => loop {
                match letters.next() {
                    None => return Some('"'),
                    Some('"') => break,
                    // What follows is a letter of the text.
                    Some('\\') => {
                        letters.next();
                    }
                    Some(_) => {}
                }
            },
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(letter) => return Some(letter),
            _ => {}
        }
    }
    open.pop()
}

#[test]
fn brackets_close_in_every_expression() {
    for text in expressions() {
        assert_eq!(unclosed(&text), None, "{text}");
    }
    for (wrong, what) in [
        ("sum(rate(a[5m])", ')'),
        ("a{b=\"}\"", '}'),
        ("sum by (a)) (b)", ')'),
        ("rate(a[5m)]", ')'),
        ("a{b=\"}", '"'),
    ] {
        assert_eq!(unclosed(wrong), Some(what), "{wrong}");
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The family of one of our metrics.
fn family(name: &str) -> &str {
    let end = ENDS.iter().find_map(|end| name.strip_suffix(end));
    end.unwrap_or(name)
}

/// The families that an expression asks for.
fn families(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|c| !is_word(c))
        .filter(|word| OURS.iter().any(|start| word.starts_with(start)))
        .map(family)
}

/// The families that are asked for.
fn asked() -> BTreeSet<String> {
    let all = expressions();
    let all = all.iter().flat_map(|text| families(text));
    all.map(str::to_owned).collect()
}

/// A series that is served: its name, its labels and its value.
fn series(texts: &[String]) -> impl Iterator<Item = (&str, BTreeMap<&str, &str>, f64)> {
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels
            .trim_end_matches('}')
            .split("\",")
            .filter_map(|pair| {
                let (label, value) = pair.split_once("=\"")?;
                Some((label, value.trim_end_matches('"')))
            });
        (name, labels.collect(), value.parse().unwrap())
    })
}

/// The sum of the series of this name with these labels.
pub(super) fn sum(texts: &[String], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |has: &BTreeMap<&str, &str>| {
        let mut labels = labels.iter();
        labels.all(|(label, value)| has.get(label) == Some(value))
    };
    let found = series(texts).filter(|(is, has, _)| *is == name && fits(has));
    found.map(|(_, _, value)| value).sum()
}

/// Fails if an expression selects, or sorts, by a label that none of the served series has.
fn by_labels_that_exist(texts: &[String]) {
    let mut has = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (name, labels, _) in series(texts) {
        has.entry(family(name)).or_default().extend(labels.keys());
    }
    for text in expressions() {
        let known = families(&text).filter_map(|family| has.get(family));
        let known: BTreeSet<&str> = known.flatten().copied().chain(ADDED).collect();
        let selectors = text.split('{').skip(1).map(|rest| rest.split('}').next());
        let sorted = ["by (", "on ("].map(|word| text.split(word).skip(1));
        let sorted = sorted.into_iter().flatten();
        let lists = selectors.chain(sorted.map(|rest| rest.split(')').next()));
        let words = lists.flatten().flat_map(|list| list.split(','));
        let words = words.filter_map(|word| word.trim().split(|c| !is_word(c)).next());
        let unknown: Vec<_> = words
            .filter(|word| !word.is_empty() && !known.contains(word))
            .collect();
        let is_rare = families(&text).all(|family| !has.contains_key(family));
        assert!(
            unknown.is_empty() || is_rare,
            "{unknown:?} in {text}; there are {known:?}"
        );
    }
}

/// Label and value of each comparison in an expression, but for those with nothing.
fn compared(expression: &str) -> Vec<(&str, &str)> {
    let selectors = expression.split('{').skip(1);
    let selectors = selectors.filter_map(|rest| rest.split('}').next());
    let pairs = selectors.flat_map(|selector| selector.split(','));
    let pairs = pairs.filter_map(|pair| {
        let pair = pair.trim();
        let (label, rest) = pair.split_at(pair.find(|c| !is_word(c))?);
        let value = rest.trim_start_matches(['=', '!', '~']).trim_matches('"');
        Some((label, value))
    });
    pairs.filter(|(_, value)| !value.is_empty()).collect()
}

/// Why a label never has such a value, if so. Of an expression `NAME.+` the beginning counts.
fn fault(label: &str, value: &str) -> Option<String> {
    let Some((_, file)) = VALUES.iter().find(|(known, _)| *known == label) else {
        return Some(format!("say in VALUES which file has those of {label}"));
    };
    let text = fs::read_to_string(root().join(file)).unwrap();
    let literal = match value.strip_suffix(".+") {
        Some(start) => format!("\"{start}"),
        None => format!("\"{value}\""),
    };
    let is_there = shipped(&text).contains(&literal);
    (!is_there).then(|| format!("{file} has no {literal}"))
}

#[test]
fn alerts_and_dashboard_compare_with_values_that_the_code_gives() {
    let all = expressions();
    let compared: BTreeSet<_> = all.iter().flat_map(|text| compared(text)).collect();
    for (label, value) in &compared {
        let fault = fault(label, value);
        assert_eq!(fault, None, "{label} is compared with {value}");
    }
    for (label, _) in VALUES {
        let is_used = compared.iter().any(|(used, _)| *used == label);
        assert!(is_used, "no expression compares {label}: take it out");
    }
}

#[test]
fn a_value_that_no_metric_has_is_found() {
    let text =
        "sum(a{state=\"gone\",part!=\"\", name=~\"pilotage-.+\"}) > on (x) b{colour!=\"red\"}";
    let found = compared(text);
    assert_eq!(
        found,
        [
            ("state", "gone"),
            ("name", "pilotage-.+"),
            ("colour", "red")
        ]
    );
    let faults: Vec<_> = found
        .into_iter()
        .map(|(label, value)| fault(label, value).is_some())
        .collect();
    assert_eq!(faults, [true, false, true]);
}

/// Fails if one of these processes should have served a metric that is asked for, and none did.
pub(super) fn served(texts: &[String]) {
    let families: BTreeSet<_> = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .map(str::to_owned)
        .collect();
    let asked = asked();
    assert!(asked.len() >= 10, "{asked:?}");
    let sources = rust_files();
    let is_registered = |family: &str| {
        let rare = RARE.iter().find(|(name, _)| *name == family);
        rare.is_some_and(|(_, registered)| {
            let literal = format!("\"{registered}\",");
            let mut texts = sources
                .iter()
                .filter(|(file, _)| file.contains("/src/"))
                .map(|(_, text)| shipped(text));
            texts.any(|text| text.contains(&literal))
        })
    };
    let untold: Vec<_> = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .filter(|(family, kind)| !reference::tells_of(family, kind))
        .collect();
    assert!(untold.is_empty(), "docs/reference.md lacks {untold:?}");
    let missing: Vec<_> = asked
        .difference(&families)
        .filter(|family| !is_registered(family))
        .collect();
    assert!(
        missing.is_empty(),
        "nobody serves {missing:?}; there are {families:#?}"
    );
    by_labels_that_exist(texts);
}
