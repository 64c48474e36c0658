//! What `make release` gathers: names, contents and checksums. The image and the optimized program are stand-ins, since
//! building them takes minutes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use pilotage_testkit::{apply, pilotage};
use serde_json::Value;

use crate::chart::{RELEASE, chart, helm};
use crate::workspace::root;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const URL: &str = "https://downloads.example/pilotage";

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("no image is built on {other}"),
    }
}

/// What `make image` leaves: of the image as much as is asked of it, and a program that is the real one.
fn built(dist: &Path) {
    let program = dist.join(architecture()).join("pilotage");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::create_dir_all(dist.join("doc")).unwrap();
    let real = pilotage::binary().unwrap();
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", real.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(program.with_extension("debug"), "symbols").unwrap();
    let image = format!("\"architecture\":\"{}\"", architecture());
    fs::write(dist.join("pilotage.oci.tar"), image).unwrap();
    fs::write(dist.join("doc/sbom.cdx.json"), "{}").unwrap();
    fs::write(dist.join("doc/licences.txt"), "the licence of everything").unwrap();
}

fn gathered(dist: &Path) -> Output {
    Command::new(root().join("image/release.sh"))
        .env("DIST", dist)
        .env("RELEASE_URL", URL)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap()
}

/// Output of a common command in a directory, which has to succeed.
fn said(directory: &Path, words: &[&str]) -> String {
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_release_has_every_file_with_its_checksum() {
    let directory = tempfile::tempdir().unwrap();
    let dist = directory.path();
    built(dist);
    let output = gathered(dist);
    assert!(output.status.success(), "{output:?}");
    let release = dist.join("release");
    let arch = architecture();
    let plugin = format!("kubectl-pilotage-{VERSION}-linux-{arch}.tar.gz");
    let program = format!("pilotage-{VERSION}-linux-{arch}.tar.gz");
    let completions = format!("pilotage-{VERSION}-completions.tar.gz");
    let packed_chart = format!("pilotage-chart-{VERSION}.tar.gz");
    let mut all = vec![
        "SHA256SUMS".to_owned(),
        plugin.clone(),
        program.clone(),
        completions.clone(),
        packed_chart.clone(),
        format!("pilotage-{VERSION}-linux-{arch}-debug.tar.gz"),
    ];
    let plain = [
        "crds.yaml",
        "krew.yaml",
        "licences.txt",
        "oci.tar",
        "sbom.cdx.json",
    ];
    all.extend(plain.map(|end| format!("pilotage-{VERSION}.{end}")));
    all.sort();
    let names = fs::read_dir(&release).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, all);

    let sums = fs::read_to_string(release.join("SHA256SUMS")).unwrap();
    let summed: Vec<&str> = sums
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    let files: Vec<_> = all.iter().filter(|name| *name != "SHA256SUMS").collect();
    assert_eq!(summed, files);
    said(
        &release,
        &["sha256sum", "--check", "--strict", "SHA256SUMS"],
    );

    let listed = |archive: &str| -> Vec<String> {
        let listed = said(&release, &["tar", "--list", "--gzip", "--file", archive]);
        listed.lines().map(str::to_owned).collect()
    };
    let with = |more: &[&'static str]| [&["LICENSE", "licences.txt"][..], more].concat();
    assert_eq!(listed(&program), with(&["pilotage", "kubectl-pilotage"]));
    assert_eq!(listed(&plugin), with(&["kubectl-pilotage"]));
    let shells = [
        "pilotage.bash",
        "pilotage.zsh",
        "pilotage.fish",
        "kubectl_complete-pilotage",
    ];
    assert_eq!(listed(&completions), shells);
    let shown = |archive: &str, file: &str| {
        let words = ["tar", "--extract", "--to-stdout", "--gzip", "--file"];
        said(&release, &[&words[..], &[archive, file]].concat())
    };
    let licence = fs::read_to_string(root().join("LICENSE")).unwrap();
    assert_eq!(shown(&plugin, "LICENSE"), licence);
    assert!(shown(&completions, "pilotage.bash").contains("what-if"));

    // krew loads what the manifest says, and compares it with its checksum.
    let krew = fs::read_to_string(release.join(format!("pilotage-{VERSION}.krew.yaml"))).unwrap();
    let krew: Value = serde_saphyr::from_str(&krew).unwrap();
    let platforms = krew["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 1, "{krew:#}");
    assert_eq!(platforms[0]["uri"], format!("{URL}/{plugin}"));
    assert_eq!(platforms[0]["selector"]["matchLabels"]["arch"], arch);
    assert_eq!(platforms[0]["bin"], "kubectl-pilotage");
    let sum = sums.lines().find(|line| line.ends_with(&plugin)).unwrap();
    assert!(sum.starts_with(platforms[0]["sha256"].as_str().unwrap()));

    let crds = release.join(format!("pilotage-{VERSION}.crds.yaml"));
    let crds = apply::documents(&fs::read_to_string(crds).unwrap()).unwrap();
    assert_eq!(crds.len(), 6);
    let of_archive = release.join(&packed_chart).display().to_string();
    let rendered = |chart: &str| helm(&["template", RELEASE, chart]).unwrap();
    assert!(
        rendered(&of_archive) == rendered(&chart()),
        "the chart isn't whole"
    );

    // Of the same files the same release.
    assert!(gathered(dist).status.success());
    let again = fs::read_to_string(release.join("SHA256SUMS")).unwrap();
    assert_eq!(again, sums);
}
