//! House rules about files: each says what it owns, none grows too long, no wire key is spelled twice.

use crate::workspace::{rust_files, shipped};

/// From here on a file should be split by concept; reported only.
const LONG: usize = 500;
/// No file may be longer, not counting the tests at its end.
const LIMIT: usize = 700;
/// No line has more columns: neither comments nor long texts are broken by rustfmt.
const COLUMNS: usize = 120;

#[test]
fn every_file_says_what_it_owns() {
    let silent: Vec<_> = rust_files()
        .into_iter()
        // The tests of a module belong to its file, which has said it.
        .filter(|(name, text)| !name.ends_with("/tests.rs") && !text.starts_with("//! "))
        .map(|(name, _)| name)
        .collect();
    assert!(
        silent.is_empty(),
        "files that don't open with //!: {silent:#?}"
    );
}

#[test]
fn no_file_is_too_long() {
    let mut too_long = Vec::new();
    for (name, text) in rust_files() {
        let lines = shipped(&text).lines().count();
        if lines > LIMIT {
            too_long.push(format!("{name}: {lines} lines"));
        } else if lines > LONG {
            eprintln!("{name} has {lines} lines: split it by concept");
        }
    }
    assert!(
        too_long.is_empty(),
        "more than {LIMIT} lines: {too_long:#?}"
    );
}

#[test]
fn every_line_fits_the_page() {
    let mut wide = Vec::new();
    for (name, text) in rust_files() {
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS {
                wide.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "wider than {COLUMNS} columns: {wide:#?}");
}

#[test]
fn no_crate_that_ships_may_overflow() {
    const FOR_DEVELOPMENT: [&str; 5] = ["absurd", "e2e", "sched-diff", "sim", "testkit"];
    let lint = "#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]";
    let without: Vec<_> = rust_files()
        .into_iter()
        .filter_map(|(name, text)| {
            let of_crate = name.strip_suffix("/src/lib.rs")?;
            let of_crate = of_crate.rsplit('/').next()?;
            let ships = !FOR_DEVELOPMENT.contains(&of_crate);
            (ships && !text.contains(lint)).then(|| name.clone())
        })
        .collect();
    assert!(
        without.is_empty(),
        "crates without the lint that sums can't overflow: {without:#?}"
    );
}

#[test]
fn wire_keys_are_spelled_in_one_file() {
    // Spelled in two pieces, or this file would find itself.
    let prefix = concat!("multicluster.admiralty", ".io/");
    let mut elsewhere = Vec::new();
    for (name, text) in rust_files() {
        // Tests may spell what users and other programs write.
        let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
        if name == "crates/api/src/keys.rs" || is_test {
            continue;
        }
        for (number, line) in shipped(&text).lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            // The version of the API follows the group in `apiVersion`; that is no key.
            let keys = line.replace(&format!("{prefix}v1"), "");
            if !comment && keys.contains(prefix) {
                elsewhere.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(
        elsewhere.is_empty(),
        "keys spelled outside crates/api/src/keys.rs: {elsewhere:#?}"
    );
}
