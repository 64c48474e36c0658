//! README's installation is whole: its commands can be copied as they are, and are those that `make e2e-readme` runs.

use std::fs;
use std::process::Command;

use crate::workspace::root;

/// The commands of each step of README.md, or of a section of another document.
fn steps(section: &[&str]) -> Vec<String> {
    let script = root().join("e2e/kind/readme.sh");
    let mut command = Command::new(script);
    let output = command.arg("print").args(section).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split("# step ")
        .skip(1)
        .map(|step| step.split_once('\n').unwrap().1.to_owned())
        .collect()
}

#[test]
fn five_steps_lead_from_two_clusters_to_a_pod_that_is_delegated() {
    let steps = steps(&[]);
    assert_eq!(steps.len(), 5, "{steps:#?}");
    let order = [
        "make image",
        "kind load image-archive",
        "helm install",
        "kubectl pilotage connect",
        "kubectl pilotage explain",
    ];
    for (step, does) in steps.iter().zip(order) {
        assert!(step.contains(does), "{does}: {step}");
    }
    nothing_is_open(&steps.concat());
}

#[test]
fn a_release_is_installed_by_its_own_commands_and_the_last_steps() {
    let steps = steps(&["docs/install.md", "From a release, without a clone"]);
    let order = [
        "kubectl pilotage install",
        "kubectl pilotage connect",
        "kubectl pilotage explain",
    ];
    assert_eq!(steps.len(), order.len(), "{steps:#?}");
    for (step, does) in steps.iter().zip(order) {
        assert!(step.contains(does), "{does}: {step}");
    }
    let checked = steps[0].replace("SHA256SUMS", "sums");
    nothing_is_open(&(checked + &steps[1..].concat()));
}

/// Nothing has to be put in: words in capitals stand for what a reader knows.
fn nothing_is_open(typed: &str) {
    let words = typed.split(|c: char| !c.is_ascii_alphabetic());
    let open: Vec<_> = words
        .filter(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase()))
        .filter(|word| !["PATH", "HOME"].contains(word))
        .collect();
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_image_that_is_installed_is_the_one_that_is_built() {
    let build = fs::read_to_string(root().join("image/build.sh")).unwrap();
    let name = build.split("${IMAGE:-").nth(1).unwrap();
    let repository = name.split(":$version}").next().unwrap();
    let set = format!("--set image.repository={repository} ");
    let installs = steps(&[]).concat().matches(&set).count();
    assert_eq!(installs, 2, "README.md has to install {repository}");
    let version = env!("CARGO_PKG_VERSION");
    for (file, says) in [
        // The tag, unless one is given.
        (
            "charts/pilotage/Chart.yaml",
            format!("\nappVersion: {version}\n"),
        ),
        // From a release.
        (
            "docs/install.md",
            format!(" --image {repository}:{version}\n"),
        ),
        (
            "docs/install.md",
            format!(" kubectl-pilotage-{version}-linux-amd64.tar.gz "),
        ),
        ("docs/install.md", format!(" pilotage-{version}.oci.tar ")),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(&says), "{file} lacks {says:?}");
    }
}
