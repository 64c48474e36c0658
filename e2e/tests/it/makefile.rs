//! The Makefile offers what the documents speak of, and explains it.

use std::fs;
use std::process::Command;

use clap::ValueEnum as _;
use pilotage_e2e::bench::shape::Shape;

use crate::commands::documents;
use crate::workspace::root;

const TARGETS: &[&str] = &[
    "bench-follow",
    "bench-gardener",
    "bench-hostile",
    "bench-multi",
    "bench-placement",
    "bench-sched",
    "bench-steps",
    "bench-streams",
    "chaos",
    "chart",
    "crds",
    "demo",
    "diff-test",
    "doc",
    "e2e",
    "e2e-kind",
    "e2e-readme",
    "e2e-release",
    "fmt",
    "fuzz",
    "help",
    "hostile",
    "image",
    "image-twice",
    "kind-node",
    "lint",
    "page-test",
    "reference",
    "release",
    "roles",
    "sim",
    "sim-mutants",
    "test",
    "test-skew",
    "tools",
    "tools-skew",
];

#[test]
fn help_lists_every_target() {
    let output = Command::new("make")
        .arg("--no-print-directory")
        .current_dir(root())
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{help}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for target in TARGETS {
        let explained = help
            .lines()
            .filter_map(|line| line.trim().split_once(' '))
            .any(|(name, words)| name == *target && words.trim().len() > 10);
        assert!(explained, "make help doesn't explain {target}:\n{help}");
    }
}

#[test]
fn documents_name_only_targets_that_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap()
        + &fs::read_to_string(root().join("e2e/tools/tools.mk")).unwrap();
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    let ci = (".ci/run".to_owned(), ci);
    for (document, text) in documents().into_iter().chain([ci]) {
        for (_, rest) in text
            .match_indices("make ")
            .map(|(at, word)| text.split_at(at + word.len()))
        {
            // Only commands: in code quotes or at the start of a line of code.
            let before = &text[..text.len() - rest.len() - "make ".len()];
            if !(before.ends_with('`') || before.ends_with('\n') || before.ends_with("exec ")) {
                continue;
            }
            let target: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
                .collect();
            let rule = format!("\n{target}:");
            assert!(
                makefile.contains(&rule),
                "{document} speaks of `make {target}`"
            );
        }
    }
}

/// How `make bench-sched` would measure clusters.
fn bench_sched(arguments: &[&str]) -> String {
    let output = Command::new("make")
        .args(["--no-print-directory", "--dry-run", "bench-sched"])
        .args(arguments)
        .current_dir(root())
        // Of whoever runs the tests.
        .env_remove("MAKEFLAGS")
        .env_remove("STRICT")
        .env_remove("ARGS")
        .output()
        .unwrap();
    let commands = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{commands}{error}");
    let mut found = commands.lines().filter_map(|line| {
        let (_, rest) = line.split_once("/e2e bench-sched")?;
        Some(rest.trim().to_owned())
    });
    found.next().unwrap()
}

#[test]
fn a_strict_bench_of_schedulers_has_pods_of_all_shapes_unless_some_are_chosen() {
    let all = Shape::value_variants().iter();
    let all = all.filter_map(|shape| Some(shape.to_possible_value()?.get_name().to_owned()));
    let all = format!("--strict --shape={}", all.collect::<Vec<_>>().join(","));
    assert_eq!(bench_sched(&["STRICT=1"]), all);
    let chosen = bench_sched(&["STRICT=1", "ARGS=--shape=anti"]);
    assert_eq!(chosen, "--strict --shape=anti");
    assert_eq!(bench_sched(&["ARGS=--shape=anti"]), "--shape=anti");
    assert_eq!(bench_sched(&[]), "");
}
