//! `docs/reference.md` names all that users see. What can be is written from the code; the rest is held against it.
//!
//! A generated section stands between `<!-- generated: NAME -->` and `<!-- end -->`. `make reference` writes them anew.
//! What is generated is in `fields`, `flags` and `keys`; what is written by hand is checked in `words`. `admiralty`
//! holds the tables for those who come from Admiralty against the same code.

#![allow(
    clippy::format_push_string,
    reason = "it is short, and nobody waits for a test's texts"
)]

mod admiralty;
mod fields;
mod flags;
mod keys;
mod text;
mod words;

use std::fs;
use std::path::PathBuf;

use crate::workspace::root;

pub(crate) use words::{tells_of, tells_of_label};

/// Set by `make reference`: write what is generated instead of comparing it.
const WRITE: &str = "PILOTAGE_WRITE_REFERENCE";
const END: &str = "<!-- end -->";

fn file() -> PathBuf {
    root().join("docs/reference.md")
}

pub(crate) fn document() -> String {
    fs::read_to_string(file()).unwrap()
}

/// The document with this section in the place of the one that it has.
fn with_section(document: &str, name: &str, section: &str) -> String {
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = document
        .split_once(&begin)
        .unwrap_or_else(|| panic!("docs/reference.md has no line {begin}"));
    let (_, after) = rest
        .split_once(END)
        .unwrap_or_else(|| panic!("docs/reference.md has no {END} after {begin}"));
    format!("{before}{begin}\n{}\n\n{END}{after}", section.trim())
}

#[test]
fn generated_sections_are_of_today() {
    let document = document();
    let sections = [
        ("keys", keys::section()),
        ("fields", fields::section()),
        ("flags", flags::section()),
    ];
    let wanted = sections
        .iter()
        .fold(document.clone(), |text, (name, section)| {
            with_section(&text, name, section)
        });
    if std::env::var_os(WRITE).is_some() {
        fs::write(file(), wanted).unwrap();
        return;
    }
    let mut lines = document.lines().zip(wanted.lines());
    let differs = lines.find(|(old, new)| old != new);
    assert!(
        document == wanted,
        "docs/reference.md is old, run `make reference`; it begins to differ at {differs:#?}"
    );
}
