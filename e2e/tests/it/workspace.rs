//! What the checks know about the workspace: its root, its files, its packages. It judges nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// A package of ours, without the prefix of its name.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) uses: Vec<Arrow>,
}

/// A dependency on another package of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) to: String,
    /// Only in tests.
    pub(crate) dev: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    dependencies: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// Root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// `pilotage-api` → `api`; the binary keeps its name.
pub(crate) fn short(name: &str) -> String {
    name.strip_prefix("pilotage-").unwrap_or(name).to_owned()
}

/// Output of a cargo command that must succeed.
pub(crate) fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo {} failed:\n{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// All packages of the workspace with the arrows between them.
pub(crate) fn packages() -> Vec<Package> {
    let text = cargo(&["metadata", "--no-deps", "--format-version=1", "--locked"]);
    let metadata: Metadata = serde_json::from_str(&text).unwrap();
    metadata
        .packages
        .into_iter()
        .map(|package| Package {
            name: short(&package.name),
            uses: package
                .dependencies
                .into_iter()
                .filter(|dependency| dependency.path.is_some())
                .map(|dependency| Arrow {
                    to: short(&dependency.name),
                    dev: dependency.kind.as_deref() == Some("dev"),
                })
                .collect(),
        })
        .collect()
}

/// All Rust files of ours, as path below the root and text, in order.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let root = root();
    let mut files = Vec::new();
    let mut directories: Vec<PathBuf> = ["crates", "webhook", "e2e"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// The text up to the first module of tests: what ships.
pub(crate) fn shipped(text: &str) -> &str {
    let cut = text.find("\n#[cfg(test)]\nmod ").unwrap_or(text.len());
    &text[..cut]
}
