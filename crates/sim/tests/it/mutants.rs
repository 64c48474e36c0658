//! Each mutant still fits the code: a rule that was rewritten takes its patch along.

use std::{fs, path::Path};

/// The lines of a hunk that have to stand in the file: its context, and what it takes out.
fn old_lines(hunk: &str) -> String {
    let lines = hunk.lines().skip(1);
    let old = lines.filter_map(|line| line.strip_prefix([' ', '-']));
    old.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_patch_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut hunks = 0;
    for entry in fs::read_dir(root.join("crates/sim/mutants")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "patch")
        {
            continue;
        }
        let patch = fs::read_to_string(&path).unwrap();
        for file in patch.split("\n--- a/").skip(1) {
            let (name, rest) = file.split_once('\n').unwrap();
            let text = fs::read_to_string(root.join(name)).unwrap();
            for hunk in rest.split("\n@@ ").skip(1) {
                let old = old_lines(hunk);
                assert!(text.contains(&old), "{}: {name}:\n{old}", path.display());
                hunks += 1;
            }
        }
    }
    assert!(hunks > 30, "{hunks}");
}
