//! Each line of docs/security.md says which tests show it; they are there, and `make test` runs one of them at least.

use std::fs;

use crate::workspace::{root, rust_files};

/// What begins the names of tests in a line of the document.
const SHOWN: &str = "Shown by ";

/// What the document says that somebody can and can't, each paragraph as one text: all of its lists, and what follows a
/// list. What comes before the first list under a heading introduces it.
fn claims(document: &str) -> Vec<String> {
    let held = document.split("\n## Not held yet").next().unwrap();
    let (_, held) = held.split_once("\n## The author of a pod\n").unwrap();
    let mut claims: Vec<String> = Vec::new();
    let (mut in_list, mut begins) = (false, true);
    for line in held.lines() {
        let item = line.strip_prefix("- ");
        if line.starts_with('#') {
            in_list = false;
        }
        in_list |= item.is_some();
        begins |= item.is_some();
        if !in_list || line.trim().is_empty() {
            begins = true;
            continue;
        }
        let text = item.unwrap_or(line).trim();
        match claims.last_mut().filter(|_| !begins) {
            Some(claim) => {
                claim.push(' ');
                claim.push_str(text);
            }
            None => claims.push(text.to_owned()),
        }
        begins = false;
    }
    claims
}

/// The tests that a claim ends with; nothing else may follow it.
fn shown(claim: &str) -> Option<Vec<&str>> {
    let (_, names) = claim.split_once(SHOWN)?;
    let between: String = names.split('`').step_by(2).collect();
    let ends = between.ends_with('.') && between.trim_end_matches('.').chars().all(is_between);
    let names: Vec<&str> = code(names).collect();
    (ends && !names.is_empty()).then_some(names)
}

const fn is_between(char: char) -> bool {
    matches!(char, ',' | ' ')
}

/// All `code` in a text.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a file has a test of this name that is run with the others: as a function, or as an attack, of which a macro
/// makes one.
fn has_test(text: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let is_test = |(at, _): (usize, &str)| {
        let before: &str = &text[..at];
        let above = before.rsplit('\n').skip(1).map(str::trim_start);
        let attributes: Vec<_> = above.take_while(|line| line.starts_with("#[")).collect();
        let any = |is: fn(&str) -> bool| attributes.iter().any(|it| is(it));
        any(|it| it == "#[test]" || it.starts_with("#[tokio::test"))
            && !any(|it| it.starts_with("#[ignore"))
    };
    let mut attacks = text.split("attacks! {").skip(1);
    let is_attack = attacks.any(|rest| {
        let list = rest.split('}').next().unwrap();
        list.split(',').any(|attack| attack.trim() == name)
    });
    is_attack || text.match_indices(&function).any(is_test)
}

/// Whether `crate::module::test` is a test: a module alone says of none that it is there.
fn is_there(name: &str, files: &[(String, String)]) -> bool {
    let Some((place, rest)) = name.split_once("::") else {
        return false;
    };
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
    let (modules, test) = rest.rsplit_once("::").unwrap_or(("", rest));
    files.iter().any(|(file, text)| {
        let Some(path) = file.strip_prefix(&directory) else {
            return false;
        };
        let mut path = path.trim_end_matches(".rs").split('/');
        let mut modules = modules.split("::").filter(|module| !module.is_empty());
        modules.all(|module| path.any(|part| part == module)) && has_test(text, test)
    })
}

/// The Makefile's targets that `make test` runs.
fn checks(makefile: &str) -> Vec<&str> {
    let mut lines = makefile.lines();
    let targets = lines.find_map(|line| line.strip_prefix("test:")).unwrap();
    let targets = targets.split("##").next().unwrap();
    targets.split_whitespace().collect()
}

/// Whether `make test` runs a test, if it is there.
fn is_checked(name: &str, checks: &[&str]) -> bool {
    match name.strip_prefix("make ") {
        Some(target) => checks.contains(&target),
        // Those are run by `make sim-mutants` alone.
        None => !name.starts_with("mutants::"),
    }
}

#[test]
fn every_line_names_tests_that_are_there_and_run() {
    let document = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let files = rust_files();
    let (claims, checks) = (claims(&document), checks(&makefile));
    assert!(claims.len() > 80, "{claims:#?}");
    let mut wrong = Vec::new();
    for claim in &claims {
        let Some(names) = shown(claim) else {
            wrong.push(format!("doesn't end with its tests: {claim}"));
            continue;
        };
        if !names.iter().any(|name| is_checked(name, &checks)) {
            wrong.push(format!("`make test` shows nothing of it: {claim}"));
        }
        for name in names {
            let is_known = match name.strip_prefix("make ") {
                Some(target) => makefile.contains(&format!("\n{target}:")),
                None => is_there(name, &files),
            };
            if !is_known {
                wrong.push(format!("no such test: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/security.md: {wrong:#?}");
}

#[test]
fn every_paragraph_of_a_list_and_after_it_is_a_claim() {
    let document = "# Who\n\n- before\n\n## The author of a pod\n\nThey are\nmany.\n\n- **Can** do\n  this. Shown by \
        `a::b`,\n  `make\n  c`.\n\n  And that.\n- One.\n\n- Two.\n\nAll of\nit.\n\n## Others\n\nFew.\n\n- \
        Three.\n\n## Not held yet\n\n- Four.\n";
    let want = [
        "**Can** do this. Shown by `a::b`, `make c`.",
        "And that.",
        "One.",
        "Two.",
        "All of it.",
        "Three.",
    ];
    assert_eq!(claims(document), want);
    assert_eq!(shown(want[0]), Some(vec!["a::b", "make c"]));
    for bad in [
        "One.",
        "One. Shown by none.",
        "One. Shown by `a::b`. And more.",
        "One. Shown by `a::b`",
    ] {
        assert_eq!(shown(bad), None, "{bad}");
    }
}

#[test]
fn a_test_is_named_and_no_module() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file(
            "crates/proxy/src/world/tests.rs",
            "#[cfg(test)]\n\nfn world() {}\n\n#[test]\n#[allow(x)]\nfn a_test() {}\n\nfn helper() {}\n\n\
             #[ignore = \"it is slow\"]\n#[test]\nfn ignored() {}\n\n#[test]\n#[ignore]\nfn mute() {}\n",
        ),
        file(
            "e2e/tests/hostile/lines.rs",
            "attacks! {\n    one,\n    two,\n}\n\n#[tokio::test(x)]\nasync fn three() {}\n",
        ),
        file("e2e/tests/hostile/bytes.rs", "attacks! { four }\n"),
    ];
    for (name, is) in [
        ("proxy::world::a_test", true),
        ("proxy::a_test", true),
        ("proxy::tests::world::a_test", false),
        ("proxy::book::a_test", false),
        ("model::world::a_test", false),
        ("proxy::world", false),
        ("proxy::world::helper", false),
        ("proxy::world::ignored", false),
        ("proxy::world::mute", false),
        ("proxy", false),
        ("hostile::lines", false),
        ("hostile::lines::two", true),
        ("hostile::lines::three", true),
        ("hostile::lines::four", false),
        ("hostile::bytes::four", true),
        ("mutants::none", false),
    ] {
        assert_eq!(is_there(name, &files), is, "{name}");
    }
}

#[test]
fn a_line_needs_what_make_test_runs() {
    let makefile = "all: x\n\ntest: unit roles doc ## Run make sim\n\nsim: y\n";
    let checks = checks(makefile);
    assert_eq!(checks, ["unit", "roles", "doc"]);
    for (name, is) in [
        ("make roles", true),
        ("make sim", false),
        ("proxy::a_test", true),
        ("mutants::a_rule", false),
    ] {
        assert_eq!(is_checked(name, &checks), is, "{name}");
    }
}
