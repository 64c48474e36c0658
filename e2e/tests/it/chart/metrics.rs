//! Alerts and dashboard ask for metrics that there are, and the reference tells of each.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::reference;
use crate::workspace::{root, rust_files, shipped};

/// Ends of names that a histogram, a counter or an info has in Prometheus beside that of its family.
const ENDS: [&str; 5] = ["_bucket", "_count", "_sum", "_total", "_info"];
/// Of our metrics, with their first words.
const OURS: [&str; 5] = [
    "pilotage_",
    "scheduler_",
    "chaperons_",
    "kubelet_",
    "process_",
];

/// Families that are served only once something rare has happened: by the names that code registers them by.
const RARE: [(&str, &str); 4] = [
    ("chaperons_turned_away", "chaperons_turned_away"),
    ("kubelet_requests_refused", "kubelet_requests_refused"),
    ("kubelet_streams_open", "kubelet_streams_open"),
    ("scheduler_preemption_attempts", "preemption_attempts"),
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

/// The families that are asked for.
fn asked() -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expressions()
        .iter()
        .flat_map(|text| text.split(|c| !is_word(c)))
        .filter(|word| OURS.iter().any(|start| word.starts_with(start)))
        .map(|word| {
            let end = ENDS.iter().find_map(|end| word.strip_suffix(end));
            end.unwrap_or(word).to_owned()
        })
        .collect()
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
}
