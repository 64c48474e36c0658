//! The keys of `crates/api/src/keys.rs` with their comments, section by section.

use std::fs;

use super::text::{entry, sentence};
use crate::workspace::{root, shipped};

const PREFIX: &str = "multicluster.admiralty.io/";
const SECTION: &str = "// ---- ";

pub(super) fn section() -> String {
    let mut out = String::new();
    for (title, keys) in sections() {
        let mut letters = title.chars();
        let first = letters.next().unwrap().to_uppercase();
        out += &format!("### {first}{}\n\n", letters.as_str());
        for (doc, name) in keys {
            out += &entry(&format!("{name}: {}", sentence(&without_links(&doc))));
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

/// Every key and fixed value, as it is on the wire.
pub(super) fn wire() -> Vec<String> {
    let sections = sections().into_iter();
    let names = sections.flat_map(|(_, keys)| keys).map(|(_, name)| name);
    let names = names.flat_map(|name| {
        let codes = name.split('`').skip(1).step_by(2);
        codes.map(str::to_owned).collect::<Vec<_>>()
    });
    names.collect()
}

/// The sections of the file: title, and of each key its comment and its name.
fn sections() -> Vec<(String, Vec<(String, String)>)> {
    let file = root().join("crates/api/src/keys.rs");
    let text = fs::read_to_string(file).unwrap();
    let (_, text) = shipped(&text).split_once(SECTION).unwrap();
    let (text, _) = text.split_once("\npub fn ").unwrap();
    let sections = text.split(SECTION).map(|section| {
        let (title, items) = section.split_once('\n').unwrap();
        let title = title.trim_end_matches(['-', ' ']).to_owned();
        let items = documented(items).into_iter();
        let keys = items.filter_map(|(doc, item)| Some((doc, name(&item)?)));
        (title, keys.collect::<Vec<_>>())
    });
    let sections: Vec<_> = sections.collect();
    let keys: usize = sections.iter().map(|(_, keys)| keys.len()).sum();
    assert!(keys > 50, "only {keys} keys were found: {sections:#?}");
    sections
}

/// Comments, each with the item behind it.
fn documented(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut doc, mut item) = (String::new(), String::new());
    for line in text.lines() {
        let line = line.trim();
        let comment = line.strip_prefix("key!(").unwrap_or(line);
        if let (Some(comment), true) = (comment.strip_prefix("///"), item.is_empty()) {
            doc += comment;
        } else if !doc.is_empty() {
            item += line;
            if line.ends_with(';') {
                found.push((std::mem::take(&mut doc), std::mem::take(&mut item)));
            }
        }
    }
    found
}

/// What stands on the wire.
fn name(item: &str) -> Option<String> {
    let literals: Vec<&str> = item.split('"').skip(1).step_by(2).collect();
    let Some(constant) = item.strip_prefix("pub const ") else {
        // The macro puts the prefix before it.
        return (item.ends_with(");")).then(|| format!("`{PREFIX}{}`", literals[0]));
    };
    let (declared, _) = constant.split_once('=')?;
    let values: Vec<String> = if declared.contains("(&str, &str)") {
        let pairs = literals.chunks(2);
        pairs.map(|pair| pair.join("=")).collect()
    } else {
        literals
            .iter()
            .map(|literal| (*literal).to_owned())
            .collect()
    };
    let values = values.iter().map(|value| format!("`{value}`"));
    Some(values.collect::<Vec<_>>().join(", "))
}

/// Without references to code, which say nothing to users.
fn without_links(doc: &str) -> String {
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, link)) = rest.split_once(" ([`") {
        let (_, after) = link.split_once("`])").unwrap();
        text += before;
        rest = after;
    }
    text + rest
}

#[test]
fn keys_lose_their_references_and_keep_their_prefix() {
    let text = "key!(/// Annotation: one\n    /// and two ([`crate::x`]).\n    A = \"a-b\");\n\
                /// Labels.\npub const B: [(&str, &str); 1] = [\n    (\"c\", \"d\"),\n];\n";
    let found = documented(text);
    let shown: Vec<_> = found
        .iter()
        .map(|(doc, item)| (name(item).unwrap(), without_links(doc)))
        .collect();
    let want = [
        (
            format!("`{PREFIX}a-b`"),
            " Annotation: one and two.".to_owned(),
        ),
        ("`c=d`".to_owned(), " Labels.".to_owned()),
    ];
    assert_eq!(shown, want);
}
