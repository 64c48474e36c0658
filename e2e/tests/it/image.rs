//! The image and what a release tells of it: written by `image-tool`, read here by other means. A program of Go stands
//! in for ours, since it is static, too, and there anyway.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::workspace::{cargo, root};

const NAME: &str = "registry.test/pilotage:1.2.3";

fn tool() -> PathBuf {
    let tool = root().join("target/tools/image-tool");
    assert!(tool.exists(), "`make tools` builds image-tool");
    tool
}

fn run(args: &[&str]) -> Output {
    Command::new(tool()).args(args).output().unwrap()
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("no image is built on {other}"),
    }
}

fn build(program: &Path, out: &Path, more: &[&str]) -> Output {
    let program = format!("{}={}", architecture(), program.display());
    let mut args = vec!["build", "--program", &program, "--name", NAME];
    args.extend(["--created", "1700000000", "--out", out.to_str().unwrap()]);
    args.extend(["--label", "org.opencontainers.image.version=1.2.3"]);
    args.extend(more);
    run(&args)
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", words(output));
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Output of a common command that has to succeed.
fn command(directory: &Path, words: &[&str]) -> String {
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap();
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The blob that a descriptor names, after its size was compared.
fn blob(directory: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap();
    let path = directory.join("blobs").join(digest.replace(':', "/"));
    assert_eq!(
        Some(fs::metadata(&path).unwrap().len()),
        descriptor["size"].as_u64(),
        "{digest}"
    );
    path
}

#[test]
fn the_archive_is_an_image_that_runs_as_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (archive, files) = (directory.path().join("a.tar"), directory.path().join("doc"));
    fs::create_dir(&files).unwrap();
    fs::write(files.join("licences.txt"), "free").unwrap();
    succeeded(&build(
        &tool(),
        &archive,
        &["--files", files.to_str().unwrap()],
    ));
    succeeded(&run(&["verify", archive.to_str().unwrap()]));
    let content = fs::read(&archive).unwrap();
    assert!(
        content.ends_with(&[0; 1024]),
        "programs wait for an archive's end"
    );

    let unpacked = directory.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    command(&unpacked, &["tar", "xf", archive.to_str().unwrap()]);
    let sums = command(&unpacked, &["sh", "-c", "sha256sum blobs/sha256/*"]);
    for line in sums.lines() {
        let (sum, path) = line.split_once("  ").unwrap();
        assert_eq!(path, format!("blobs/sha256/{sum}"));
    }
    assert_eq!(
        json(&unpacked.join("oci-layout"))["imageLayoutVersion"],
        "1.0.0"
    );
    let outer = json(&unpacked.join("index.json"));
    let named = &outer["manifests"][0];
    assert_eq!(named["annotations"]["io.containerd.image.name"], NAME);
    let index = json(&blob(&unpacked, named));
    let of_platform = &index["manifests"][0];
    assert_eq!(of_platform["platform"]["architecture"], architecture());
    let manifest = json(&blob(&unpacked, of_platform));
    let config = json(&blob(&unpacked, &manifest["config"]));
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    assert_eq!(config["architecture"], architecture());
    let config = &config["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(
        config["Entrypoint"],
        serde_json::json!(["/usr/bin/pilotage"])
    );
    let labels = &config["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], "1.2.3");
    assert_eq!(
        labels["org.opencontainers.image.created"],
        "2023-11-14T22:13:20Z"
    );

    let disk = directory.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let layers = directory.path().join("layers");
    let (to, from) = (layers.to_str().unwrap(), archive.to_str().unwrap());
    succeeded(&run(&["verify", "--layers", to, from]));
    for (number, layer) in manifest["layers"].as_array().unwrap().iter().enumerate() {
        let zstd = "application/vnd.oci.image.layer.v1.tar+zstd";
        assert_eq!(layer["mediaType"], zstd);
        blob(&unpacked, layer);
        let plain = layers.join(format!("{number}.tar"));
        command(&disk, &["tar", "xf", plain.to_str().unwrap()]);
    }
    let found = command(&disk, &["sh", "-c", "find . -type f | sort"]);
    let expected = "./etc/group\n./etc/nsswitch.conf\n./etc/passwd\n./etc/ssl/certs/ca-certificates.crt\n\
                    ./usr/bin/pilotage\n./usr/share/doc/pilotage/licences.txt\n";
    assert_eq!(found, expected, "nothing else is in the image");
    assert_eq!(
        fs::read(disk.join("usr/bin/pilotage")).unwrap(),
        fs::read(tool()).unwrap()
    );
    let roots = fs::read_to_string(disk.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert!(
        roots.matches("BEGIN CERTIFICATE").count() > 80,
        "the roots that all trust"
    );
}

#[test]
fn equal_files_make_equal_archives() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (
        directory.path().join("a.tar"),
        directory.path().join("b.tar"),
    );
    // Neither its place nor its own time matters.
    let copy = directory.path().join("elsewhere");
    fs::copy(tool(), &copy).unwrap();
    succeeded(&build(&tool(), &first, &[]));
    succeeded(&build(&copy, &second, &[]));
    assert!(
        fs::read(first).unwrap() == fs::read(second).unwrap(),
        "they differ"
    );
}

#[test]
fn what_cannot_run_in_the_image_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("a.tar");
    let text = directory.path().join("text");
    fs::write(&text, "#!/bin/sh\n").unwrap();
    let dynamic = std::env::current_exe().unwrap();
    let other = if architecture() == "amd64" {
        "arm64"
    } else {
        "amd64"
    };
    let other = format!("{other}={}", tool().display());
    for (program, more, why) in [
        (dynamic.as_path(), vec![], "link it statically"),
        (text.as_path(), vec![], "is no program of Linux"),
        (&tool(), vec!["--limit", "1000"], "and may have 1000"),
        (&tool(), vec!["--program", &other], "is a program for"),
    ] {
        let output = build(program, &out, &more);
        assert!(
            !output.status.success() && words(&output).contains(why),
            "{why}: {}",
            words(&output)
        );
        assert!(!out.exists(), "{why}: half an image was left");
    }
}

#[test]
fn a_changed_archive_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("a.tar");
    succeeded(&build(&tool(), &archive, &[]));
    let mut content = fs::read(&archive).unwrap();
    // In the middle is the program's layer, which is nearly all of it.
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&archive, content).unwrap();
    let output = run(&["verify", archive.to_str().unwrap()]);
    assert!(
        !output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn every_crate_of_the_program_is_listed_with_its_licence() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let text = cargo(&[
        "metadata",
        "--locked",
        "--offline",
        "--format-version=1",
        "--filter-platform",
        &triple,
    ]);
    fs::write(at("metadata"), text).unwrap();
    let (metadata, lock) = (at("metadata"), root().join("Cargo.lock"));
    let (sbom, licences) = (at("sbom"), at("licences"));
    succeeded(&run(&[
        "sbom",
        "--metadata",
        &metadata,
        "--lock",
        lock.to_str().unwrap(),
        "--out",
        &sbom,
    ]));
    succeeded(&run(&[
        "licences",
        "--metadata",
        &metadata,
        "--out",
        &licences,
    ]));

    let sbom = json(Path::new(&sbom));
    assert_eq!(sbom["metadata"]["component"]["name"], "pilotage");
    let components = sbom["components"].as_array().unwrap();
    let of = |name: &str| {
        components
            .iter()
            .find(|component| component["name"] == name)
    };
    let tokio = of("tokio").expect("it is linked in");
    assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert_eq!(tokio["licenses"][0]["expression"], "MIT");
    assert!(
        of("insta").is_none() && of("pilotage-testkit").is_none(),
        "only tests need them"
    );
    assert!(
        of("golang.org/x/crypto/x509roots/fallback").is_some(),
        "it is in the image"
    );
    let licences = fs::read_to_string(licences).unwrap();
    for component in components.iter().filter(|component| {
        component["purl"]
            .as_str()
            .unwrap()
            .starts_with("pkg:cargo/")
    }) {
        let line = format!(
            "  {} {}: ",
            component["name"].as_str().unwrap(),
            component["version"].as_str().unwrap()
        );
        assert!(licences.contains(&line), "{line}");
    }
    assert!(licences.contains("Permission is hereby granted"));
}
