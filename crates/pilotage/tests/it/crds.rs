//! `crds/*.yaml` are what `pilotage crds` prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

fn files(directory: &Path) -> BTreeMap<String, String> {
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(&path).unwrap())
    };
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| read(entry.unwrap().path()))
        .collect()
}

/// The lines where two texts differ, between what they begin and end with in common.
fn difference(committed: &str, generated: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (committed.lines().collect(), generated.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..]
        .iter()
        .rev()
        .zip(new[start..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let show = |sign: char, lines: &[&str]| {
        let signed: Vec<_> = lines.iter().map(|line| format!("{sign} {line}")).collect();
        signed.join("\n")
    };
    format!(
        "from line {}:\n{}\n{}",
        start + 1,
        show('-', &old[start..old.len() - end]),
        show('+', &new[start..new.len() - end])
    )
}

#[test]
fn committed_definitions_are_the_generated_ones() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crds");
    let _ = fs::remove_dir_all(&directory);
    let status = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .args(["crds", "--out"])
        .arg(&directory)
        .status()
        .unwrap();
    assert!(status.success());
    let generated = files(&directory);
    let committed = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds"));
    assert_eq!(generated.len(), 6);
    let names: Vec<_> = committed.keys().collect();
    assert_eq!(
        names,
        generated.keys().collect::<Vec<_>>(),
        "crds/: run `make crds`"
    );
    for (name, text) in &generated {
        let old = &committed[name];
        assert!(
            old == text,
            "crds/{name} is old, run `make crds`; {}",
            difference(old, text)
        );
    }
}

#[test]
fn printed_and_written_definitions_are_the_same() {
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .arg("crds")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let committed = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds"));
    for (name, text) in committed {
        assert!(printed.contains(&text), "{name}");
    }
    let kinds = printed
        .matches("\nkind: CustomResourceDefinition\n")
        .count();
    assert_eq!(kinds, 6);
}
