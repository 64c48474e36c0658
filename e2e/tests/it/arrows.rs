//! Which crate of ours may use which, checked against the manifests and against ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::workspace::{self, root};

/// Crates and what each may use. A new arrow is a design change: it comes with its line in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("sched", &[]),
    ("model", &["api"]),
    ("placement", &["api"]),
    ("proxy", &["api", "model", "placement", "sched"]),
    ("candidate", &["api", "model", "sched"]),
    ("runtime", &[]),
    ("clusters", &["api", "runtime"]),
    ("dashboard", &[]),
    ("sched-driver", &["runtime", "sched"]),
    (
        "controllers",
        &[
            "api",
            "candidate",
            "clusters",
            "dashboard",
            "model",
            "proxy",
            "runtime",
            "sched",
            "sched-driver",
        ],
    ),
    ("vnode", &["api", "clusters", "model", "runtime", "sched"]),
    ("webhook", &["api", "model", "runtime"]),
    ("gardener", &["api", "placement", "runtime", "sched"]),
    (
        "gardener-scheduler",
        &[
            "clusters",
            "gardener",
            "placement",
            "runtime",
            "sched-driver",
        ],
    ),
    ("plugin", &["api", "runtime"]),
    (
        "pilotage",
        &[
            "api",
            "candidate",
            "clusters",
            "controllers",
            "dashboard",
            "gardener",
            "gardener-scheduler",
            "model",
            "placement",
            "plugin",
            "proxy",
            "runtime",
            "sched",
            "sched-driver",
            "vnode",
            "webhook",
        ],
    ),
    ("sim", &["api", "candidate", "model", "proxy"]),
    ("sched-diff", &["sched"]),
    ("testkit", &["api"]),
    ("absurd", &[]),
    ("e2e", &["api", "pilotage", "testkit"]),
];

/// Crates without I/O, clock and randomness. Their tests need no control plane either.
pub(crate) const PURE: &[&str] = &[
    "api",
    "model",
    "sched",
    "placement",
    "proxy",
    "candidate",
    "sim",
];

/// May be used in tests by every crate that isn't pure.
const FOR_TESTS: &str = "testkit";

/// May be used in tests by every crate: it has no client and no runtime.
const FOR_ALL_TESTS: &str = "absurd";

fn table() -> BTreeMap<String, BTreeSet<String>> {
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    ARROWS
        .iter()
        .map(|(name, uses)| ((*name).to_owned(), set(uses)))
        .collect()
}

#[test]
fn no_arrow_that_is_not_in_the_table() {
    let table = table();
    let packages = workspace::packages();
    let mut wrong = Vec::new();
    for package in &packages {
        let Some(may) = table.get(&package.name) else {
            wrong.push(format!("crate {} is not in the table", package.name));
            continue;
        };
        for arrow in &package.uses {
            let pure = PURE.contains(&package.name.as_str());
            let helps = (arrow.to == FOR_TESTS && !pure) || arrow.to == FOR_ALL_TESTS;
            let test_help = arrow.dev && helps;
            if !may.contains(&arrow.to) && !test_help {
                let kind = if arrow.dev { " (in tests)" } else { "" };
                wrong.push(format!("{} → {}{kind}", package.name, arrow.to));
            }
        }
    }
    let there: BTreeSet<_> = packages.into_iter().map(|package| package.name).collect();
    wrong.extend(
        table
            .keys()
            .filter(|name| !there.contains(*name))
            .map(|name| format!("no crate {name}")),
    );
    assert!(
        wrong.is_empty(),
        "arrows that the table in {} forbids: {wrong:#?}",
        file!()
    );
}

#[test]
fn architecture_shows_the_same_table() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let shown: BTreeMap<String, BTreeSet<String>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let uses = cells.last().copied().unwrap_or_default();
            let uses = uses
                .split(", ")
                .filter(|name| *name != "–")
                .map(ToOwned::to_owned);
            (cells[0].trim_matches('`').to_owned(), uses.collect())
        })
        .collect();
    assert_eq!(
        shown,
        table(),
        "the table of crates in ARCHITECTURE.md (left) against {}",
        file!()
    );
}
