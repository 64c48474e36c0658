//! `docs/admiralty.md` says of every key and every field what becomes of it for who comes from Admiralty.

use std::collections::BTreeSet;
use std::fs;

use super::{fields, keys};
use crate::workspace::root;

const PREFIX: &str = "multicluster.admiralty.io/";
/// The sections in which each row gives a verdict.
const SECTIONS: [&str; 2] = [
    "Kinds and their fields",
    "Annotations, labels, finalizers and fixed names",
];
const VERDICTS: [&str; 5] = ["same", "mended", "added", "left out", "not yet"];
/// Keys of Admiralty that nothing here knows.
const UNKNOWN: [&str; 1] = ["restartedAt"];

/// The rows of a section's tables: what is code in the first cell, and the second cell.
fn rows(document: &str, title: &str) -> Vec<(BTreeSet<String>, String)> {
    let (_, rest) = document.split_once(&format!("\n## {title}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("| ")?.split(" | ").collect();
        let codes = cells[0].split('`').skip(1).step_by(2);
        let codes: BTreeSet<_> = codes.map(str::to_owned).collect();
        (!codes.is_empty()).then(|| (codes, cells[1].to_owned()))
    });
    rows.collect()
}

fn document() -> String {
    fs::read_to_string(root().join("docs/admiralty.md")).unwrap()
}

#[test]
fn each_row_gives_a_verdict() {
    let document = document();
    for (codes, verdict) in SECTIONS.iter().flat_map(|title| rows(&document, title)) {
        let given = VERDICTS.iter().any(|known| verdict.starts_with(known));
        assert!(given, "{codes:?}: {verdict} is none of {VERDICTS:?}");
    }
}

#[test]
fn each_key_has_its_line() {
    let rows = rows(&document(), SECTIONS[1]);
    let codes = rows.iter().flat_map(|(codes, _)| codes);
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for code in codes {
        told.insert(code);
        told.extend(code.split('='));
    }
    let known = keys::wire();
    let names: BTreeSet<&str> = known
        .iter()
        .map(|key| key.strip_prefix(PREFIX).unwrap_or(key))
        .chain(UNKNOWN)
        .collect();
    let untold: BTreeSet<_> = names.difference(&told).collect();
    assert!(
        untold.is_empty(),
        "docs/admiralty.md has no line for {untold:?}"
    );
}

#[test]
fn each_field_has_its_line() {
    let rows = rows(&document(), SECTIONS[0]);
    for (kind, paths) in fields::paths() {
        let fields = paths.iter().filter(|path| {
            // Of these the fields are told.
            kind == "PodChaperon" || !["spec", "status"].contains(&path.as_str())
        });
        for path in fields {
            let told = rows
                .iter()
                .any(|(codes, _)| codes.contains(&kind) && codes.contains(path));
            assert!(told, "docs/admiralty.md has no line for {kind}: {path}");
        }
    }
}
