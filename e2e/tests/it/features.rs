//! Demo and tests share one build: what tests add must not change the features of what the binaries are made of,
//! or every crate above would be built twice.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::cargo;

/// Package and version → its features.
fn features(edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    // A package may occur with two sets of features, one of them for build scripts.
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let tree = cargo(&[
        "tree",
        "--workspace",
        "-e",
        edges,
        "--prefix",
        "none",
        "-f",
        "{p}|{f}",
        "--locked",
    ]);
    for line in tree.lines() {
        let line = line.trim_end_matches(" (*)");
        if let Some((package, features)) = line.split_once('|') {
            all.entry(package.to_owned())
                .or_default()
                .insert(features.to_owned());
        }
    }
    all
}

/// Packages that the binaries are made of.
fn shipped() -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "-p",
        "pilotage",
        "-p",
        "pilotage-testkit",
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "-f",
        "{p}",
        "--locked",
    ]);
    tree.lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}

#[test]
fn tests_need_no_other_build_of_what_ships() {
    let with_tests = features("normal,build,dev");
    let shipped = shipped();
    let differing: Vec<_> = features("normal,build")
        .into_iter()
        .filter(|(package, features)| {
            shipped.contains(package) && with_tests.get(package) != Some(features)
        })
        .map(|(package, features)| {
            format!("{package}: {features:?} ≠ {:?}", with_tests.get(&package))
        })
        .collect();
    assert!(
        differing.is_empty(),
        "features that only tests ask for; name them in e2e/Cargo.toml as well:\n{differing:#?}"
    );
}
