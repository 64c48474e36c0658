//! Links between documents lead to files, and to headings, that are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::commands::documents;
use crate::workspace::root;

/// The text without blocks of code, where brackets mean something else.
fn prose(text: &str) -> String {
    let parts = text.split("\n```").enumerate();
    let outside = parts.filter(|(index, _)| index % 2 == 0);
    outside.map(|(_, part)| part).collect::<Vec<_>>().join("\n")
}

/// What links of a text lead to.
fn targets(text: &str) -> Vec<String> {
    let links = text.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split(')').next());
    links.map(str::to_owned).collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    });
    anchors.collect()
}

/// What is wrong with a link in a document.
fn fault(document: &str, text: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = root().join(document).parent().unwrap().join(file);
    if !path.exists() {
        return Some(format!("{document}: {link} leads to no file"));
    }
    let other = match file {
        "" => text.to_owned(),
        _ if anchor.is_empty() => return None,
        _ => fs::read_to_string(Path::new(&path)).unwrap(),
    };
    let is_there = anchors(&prose(&other)).contains(anchor);
    (!is_there).then(|| format!("{document}: {link} leads to no heading"))
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (document, text) in documents() {
        for link in targets(&prose(&text)) {
            count += 1;
            wrong.extend(fault(&document, &text, &link));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 80, "only {count} links were found");
}

#[test]
fn a_link_to_nowhere_is_found() {
    let text = "# A\n\n## What it's for\n\n[a](#what-its-for) [b](#nowhere) [c](nosuch.md) \
        [d](docs/security.md#nowhere)\n[e](docs/security.md#assets)\n```\n[f](nosuch.md)\n```\n";
    let links = targets(&prose(text));
    let faults: Vec<bool> = links
        .iter()
        .map(|link| fault("README.md", text, link).is_some())
        .collect();
    assert_eq!(faults, [false, true, true, true, false], "{links:?}");
}
