//! Alerts and dashboard ask for metrics that there are, by labels that they have, and the reference tells of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::promql::{self, Asked, List, Selector};
use crate::reference;
use crate::workspace::{root, rust_files, shipped};

/// Ends of names that a histogram, a counter or an info has in Prometheus beside that of its family.
const ENDS: [&str; 5] = ["_bucket", "_count", "_sum", "_total", "_info"];
/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["namespace", "pod"];

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
    ("end", "crates/candidate/src/plan.rs"),
    // Of Leases.
    ("name", "crates/pilotage/src/part.rs"),
    ("name", "crates/gardener/src/config/read.rs"),
    ("result", "crates/sched-driver/src/metrics.rs"),
    ("state", "crates/controllers/src/fleet/metrics.rs"),
];

fn file(name: &str) -> String {
    fs::read_to_string(root().join("charts/pilotage/files").join(name)).unwrap()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap()
}

/// All alerts.
fn rules() -> impl Iterator<Item = Value> {
    let alerts: Value = serde_saphyr::from_str(&file("alerts.yaml")).unwrap();
    let groups = list(&alerts["groups"]).into_iter();
    groups.flat_map(|group| list(&group["rules"]))
}

fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    let targets = list(&dashboard["panels"])
        .into_iter()
        .flat_map(|panel| list(&panel["targets"]));
    rules()
        .chain(targets)
        .map(|one| one["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// What alerts and dashboard ask for, each with its text.
fn asked() -> Vec<(String, Asked)> {
    let texts = expressions();
    let borrowed: Vec<_> = texts.iter().map(String::as_str).collect();
    let answers = promql::parse(&borrowed);
    let all = texts.into_iter().zip(answers);
    all.map(|(text, answer)| match answer {
        Ok(asked) => (text, asked),
        Err(error) => panic!("{error} in {text}"),
    })
    .collect()
}

#[test]
fn prometheus_understands_every_expression() {
    let asked = asked();
    let metrics: BTreeSet<_> = asked
        .iter()
        .flat_map(|(_, asked)| &asked.selectors)
        .map(|selector| &selector.metric)
        .collect();
    assert!(metrics.len() >= 20, "{metrics:?}");
}

#[test]
fn each_alert_has_its_line_in_the_guide() {
    let alerts = file("alerts.yaml");
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

#[test]
fn each_part_is_missed_for_itself() {
    let missing = rules().find(|rule| rule["alert"] == "PilotagePartMissing");
    let missing = missing.unwrap();
    let asked = promql::parse(&[missing["expr"].as_str().unwrap()]).remove(0);
    let Asked { selectors, lists } = asked.unwrap();
    // Of what was there and of what is there, no part is left out and none stands for another.
    let of_all = |it: &Selector| it.metric == "pilotage_build_info" && it.matchers.is_empty();
    assert_eq!(selectors.iter().filter(|it| of_all(it)).count(), 2);
    assert_eq!(selectors.len(), 2);
    let by_part = |it: &List| it.labels.iter().any(|label| label == "component");
    assert!(lists.len() == 4 && lists.iter().all(by_part), "{lists:?}");
    let text = missing["annotations"]["summary"].as_str().unwrap();
    assert!(text.contains("{{ $labels.component }}"), "{text}");
}

/// The family of one of our metrics.
fn family(name: &str) -> &str {
    let end = ENDS.iter().find_map(|end| name.strip_suffix(end));
    end.unwrap_or(name)
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

/// What processes show at one moment.
struct Shown<'a> {
    /// Each family with its type.
    families: BTreeMap<&'a str, &'a str>,
    /// The labels of each series, by its name.
    labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Families that code registers, and of which nothing need have been served.
    rare: BTreeSet<&'static str>,
}

impl<'a> Shown<'a> {
    fn of(texts: &'a [String]) -> Self {
        let lines = texts.iter().flat_map(|text| text.lines());
        let families = lines.filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let mut labels = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (name, has, _) in series(texts) {
            labels.entry(name).or_default().extend(has.keys());
        }
        let sources = rust_files();
        let is_registered = |name: &str| {
            let literal = format!("\"{name}\",");
            let mut files = sources.iter().filter(|(file, _)| file.contains("/src/"));
            files.any(|(_, text)| shipped(text).contains(&literal))
        };
        let rare = RARE.into_iter().filter(|&(_, name)| is_registered(name));
        Self {
            families: families.collect(),
            labels,
            rare: rare.map(|(family, _)| family).collect(),
        }
    }

    /// Whether there is, or can be, such a series: of its type a family has only some ends of names.
    fn has(&self, metric: &str) -> bool {
        let family = family(metric);
        let ends: &[&str] = match self.families.get(family) {
            Some(&"counter") => &["_total"],
            Some(&"histogram") => &["_bucket", "_count", "_sum"],
            Some(&"info") => &["_info"],
            Some(_) => &[""],
            None => return self.rare.contains(family),
        };
        ends.iter()
            .any(|end| metric.strip_suffix(end) == Some(family))
    }

    /// Whether series of this name have this label.
    fn has_label(&self, metric: &str, label: &str) -> bool {
        let is_there = match self.labels.get(metric) {
            Some(labels) => labels.contains(label),
            // Nothing happened here that it counts.
            None => match label {
                "part" => true,
                "le" => metric.ends_with("_bucket"),
                _ => reference::tells_of_label(family(metric), label),
            },
        };
        is_there || ADDED.contains(&label)
    }

    /// What an expression asks for that nobody shows.
    fn lacks(&self, asked: &Asked) -> Vec<String> {
        let mut lacks = Vec::new();
        for selector in &asked.selectors {
            let metric = &selector.metric;
            if !self.has(metric) {
                lacks.push(metric.clone());
            }
            for matcher in &selector.matchers {
                if !self.has_label(metric, &matcher.label) {
                    lacks.push(format!("{metric}{{{}}}", matcher.label));
                }
            }
        }
        for list in &asked.lists {
            for label in &list.labels {
                let mut metrics = list.metrics.iter();
                if !metrics.any(|metric| self.has_label(metric, label)) {
                    lacks.push(format!("{}{{{label}}}", list.metrics.join("|")));
                }
            }
        }
        lacks
    }
}

#[test]
fn what_nobody_shows_is_found() {
    let text = "# TYPE a counter\na_total{b=\"x\"} 1\n# TYPE c histogram\nc_bucket{le=\"1\"} 0\n\
                # TYPE d gauge\nd 1\n# TYPE e info\ne_info{f=\"x\"} 1\n";
    let texts = [text.to_owned()];
    let shown = Shown::of(&texts);
    let cases: [(&str, &[&str]); 10] = [
        ("sum by (b, pod) (a_total)", &[]),
        ("sum by (f) (d * on (namespace) group_left (f) e_info)", &[]),
        (
            "histogram_quantile(0.5, sum by (le) (rate(c_bucket[5m])))",
            &[],
        ),
        (
            "pilotage_candidate_refusals_total{plugin=\"x\",part=\"y\"}",
            &[],
        ),
        ("rate(a[5m]) + c + d_total + e", &["a", "c", "d_total", "e"]),
        ("g", &["g"]),
        ("a_total{f=\"x\"}", &["a_total{f}"]),
        ("sum by (f) (a_total)", &["a_total{f}"]),
        ("a_total > on (b) e_info", &["e_info{b}"]),
        (
            "pilotage_candidate_refusals_total{why=\"x\"}",
            &["pilotage_candidate_refusals_total{why}"],
        ),
    ];
    for (text, lacks) in cases {
        let asked = promql::parse(&[text]).remove(0).unwrap();
        assert_eq!(shown.lacks(&asked), lacks, "{text}");
    }
}

/// Label and value of each comparison in an expression, but for those with nothing.
fn compared(asked: &Asked) -> impl Iterator<Item = (&str, &str)> {
    let matchers = asked.selectors.iter().flat_map(|it| &it.matchers);
    let pairs = matchers.map(|it| (it.label.as_str(), it.value.as_str()));
    pairs.filter(|(_, value)| !value.is_empty())
}

/// Why a label never has such a value, if so. Of an expression `NAME.+` the beginning counts, of `ONE|OTHER` both do.
fn fault(label: &str, value: &str) -> Option<String> {
    let files = VALUES.iter().filter(|(known, _)| *known == label);
    let files: Vec<_> = files.map(|(_, file)| *file).collect();
    if files.is_empty() {
        return Some(format!("say in VALUES which file has those of {label}"));
    }
    let texts = files.iter().map(|file| root().join(file));
    let texts: Vec<_> = texts
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    value.split('|').find_map(|value| {
        let literal = match value.strip_suffix(".+") {
            Some(start) => format!("\"{start}"),
            None => format!("\"{value}\""),
        };
        let is_there = texts.iter().any(|text| shipped(text).contains(&literal));
        (!is_there).then(|| format!("{} has no {literal}", files.join(", ")))
    })
}

#[test]
fn alerts_and_dashboard_compare_with_values_that_the_code_gives() {
    let all = asked();
    let compared: BTreeSet<_> = all.iter().flat_map(|(_, asked)| compared(asked)).collect();
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
    let text = "sum(a{state=\"gone\",part!=\"\",name=~\"pilotage-.+|x-.+\"}) \
                > on (x) b{name=~\"pilotage-.+\",colour!=\"red\"}";
    let asked = promql::parse(&[text]).remove(0).unwrap();
    let found: Vec<_> = compared(&asked).collect();
    assert_eq!(
        found,
        [
            ("state", "gone"),
            ("name", "pilotage-.+|x-.+"),
            ("name", "pilotage-.+"),
            ("colour", "red")
        ]
    );
    let faults: Vec<_> = found
        .into_iter()
        .map(|(label, value)| fault(label, value).is_some())
        .collect();
    assert_eq!(faults, [true, true, false, true]);
}

/// Fails if one of these processes should have served a metric or a label that is asked for, and none did.
pub(super) fn served(texts: &[String]) {
    let shown = Shown::of(texts);
    let untold: Vec<_> = shown
        .families
        .iter()
        .filter(|(family, kind)| !reference::tells_of(family, kind))
        .collect();
    assert!(untold.is_empty(), "docs/reference.md lacks {untold:?}");
    for (text, asked) in asked() {
        let lacks = shown.lacks(&asked);
        assert!(
            lacks.is_empty(),
            "nobody shows {lacks:?} of {text}; there are {:#?} with {:#?}",
            shown.families,
            shown.labels
        );
    }
}
