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

/// Crates that ship in nothing.
const FOR_DEVELOPMENT: [&str; 5] = ["absurd", "e2e", "sched-diff", "sim", "testkit"];

#[test]
fn no_crate_that_ships_may_overflow() {
    let lint = "#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]";
    let without: Vec<_> = rust_files()
        .into_iter()
        .filter_map(|(name, text)| {
            let of_crate = name.strip_suffix("/src/lib.rs");
            let of_crate = of_crate.or_else(|| name.strip_suffix("/src/main.rs"))?;
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

/// Where lists are read whole, each with the reason.
const WHOLE_LISTS: [(&str, &str); 1] = [(
    "crates/vnode/src/kubelet/usage/mod.rs",
    "metrics.k8s.io has no pages; how much a target's answer may have is bounded with its connection",
)];

#[test]
fn every_list_has_a_limit_or_names_its_object() {
    let mut whole = Vec::new();
    for (name, text) in rust_files() {
        let of_crate = name.strip_prefix("crates/").unwrap_or(&name);
        let of_crate = of_crate.split('/').next().unwrap_or_default();
        let is_source = name.contains("/src/") && !name.ends_with("/tests.rs");
        let is_whole = WHOLE_LISTS.iter().any(|(file, _)| *file == name);
        if !is_source || is_whole || FOR_DEVELOPMENT.contains(&of_crate) {
            continue;
        }
        let lists = unlimited_lists(shipped(&text));
        whole.extend(lists.into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(
        whole.is_empty(),
        "lists without a limit (pilotage_runtime::pages reads pages): {whole:#?}"
    );
}

#[test]
fn a_list_is_judged_by_its_function() {
    let call = "    let found = pods.list(&params).await;\n";
    let of = |body: &str| {
        unlimited_lists(&format!(
            "async fn before() {{ x.limit(1) }}\nasync fn f() {{\n{body}}}\n"
        ))
    };
    assert_eq!(of(call), [3]);
    let some = "    let params = ListParams::default().labels(of);\n";
    assert_eq!(of(&format!("{some}{call}")), [4]);
    for bounded in [
        "params.limit(PAGE);",
        "limit: Some(PAGE),",
        "params.fields(\"metadata.name=a\");",
    ] {
        assert_eq!(of(&format!("    {bounded}\n{call}")), [0; 0], "{bounded}");
    }
    let metadata = "    all.list_metadata(&ListParams::default()).await;\n";
    assert_eq!(of(metadata), [3]);
    let others = "    self.list(&session.client, url).await;\n    watch.list();\n";
    assert_eq!(of(others), [0; 0]);
}

/// Lines of the calls that list by parameters which their function neither limits nor selects by name.
fn unlimited_lists(text: &str) -> Vec<usize> {
    let calls = [".list(&", ".list_metadata(&"];
    let mut lines = Vec::new();
    for (at, call) in calls.iter().flat_map(|call| text.match_indices(call)) {
        let (before, after) = text.split_at(at);
        let argument = after[call.len()..].split(')').next().unwrap_or_default();
        let begin = before.rfind("fn ").unwrap_or_default();
        let end = at + after.find("\n}\n").unwrap_or(after.len());
        let function = &text[begin..end.min(at + after.find("fn ").unwrap_or(after.len()))];
        let bounds = [
            ".limit(",
            "limit: Some(",
            ".limit = Some(",
            "metadata.name=",
        ];
        // With more arguments it lists something else.
        let is_bounded =
            bounds.iter().any(|bound| function.contains(bound)) || argument.contains(',');
        if !is_bounded {
            lines.push(before.lines().count());
        }
    }
    lines.sort_unstable();
    lines
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
