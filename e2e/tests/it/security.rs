//! Each line of docs/security.md says which test shows it, and that test is there.

use std::fs;

use crate::workspace::{root, rust_files};

/// What begins the names of tests in a line of the document.
const SHOWN: &str = "Shown by ";

/// The lists of what somebody can and can't, each line as one text.
fn lines(document: &str) -> Vec<String> {
    let held = document.split("\n## Not held yet").next().unwrap();
    let (_, held) = held.split_once("\n## The author of a pod").unwrap();
    held.split("\n- ")
        .skip(1)
        .map(|line| line.split("\n\n").next().unwrap().replace("\n  ", " "))
        .collect()
}

/// All `code` in a text.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a file has a test of this name: as a function, or as an attack, of which a macro makes one.
fn has_test(text: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let is_test = |(at, _): (usize, &str)| {
        let before: &str = &text[..at];
        let mut near = before.lines().rev().take(4).map(str::trim_start);
        near.any(|line| line.starts_with("#[") && line.contains("test"))
    };
    let attack = format!("{name},");
    let is_attack = text.contains("attacks! {") && text.lines().any(|line| line.trim() == attack);
    is_attack || text.match_indices(&function).any(is_test)
}

/// Whether `crate::module::test` is a test, or `crate::module` has any.
fn is_there(name: &str, files: &[(String, String)]) -> bool {
    let (place, rest) = name.split_once("::").unwrap();
    let directory = match place {
        "hostile" => "e2e/tests/hostile/".to_owned(),
        "e2e" => "e2e/tests/it/".to_owned(),
        "scenario" => "e2e/tests/it/scenario/".to_owned(),
        "webhook" => "webhook/".to_owned(),
        "mutants" => {
            let patch = format!("crates/sim/mutants/{rest}.patch");
            return root().join(patch).exists();
        }
        place => format!("crates/{place}/"),
    };
    let (modules, last) = rest.rsplit_once("::").unwrap_or(("", rest));
    files.iter().any(|(file, text)| {
        let Some(path) = file.strip_prefix(&directory) else {
            return false;
        };
        let path: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        let mut modules = modules.split("::").filter(|module| !module.is_empty());
        let has_any = || {
            ["test]", "test(", "attacks! {"]
                .iter()
                .any(|it| text.contains(it))
        };
        modules.all(|module| path.contains(&module))
            && (has_test(text, last) || (path.contains(&last) && has_any()))
    })
}

#[test]
fn every_line_names_tests_that_are_there() {
    let document = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let files = rust_files();
    let lines = lines(&document);
    assert!(lines.len() > 20, "{lines:#?}");
    let mut wrong = Vec::new();
    for line in lines {
        let Some((_, shown)) = line.split_once(SHOWN) else {
            wrong.push(format!("without a test: {line}"));
            continue;
        };
        assert!(code(shown).next().is_some(), "{line}");
        for name in code(shown) {
            let is_known = match name.strip_prefix("make ") {
                Some(target) => makefile.contains(&format!("\n{target}:")),
                None => name.contains("::") && is_there(name, &files),
            };
            if !is_known {
                wrong.push(format!("no such test: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/security.md: {wrong:#?}");
}
