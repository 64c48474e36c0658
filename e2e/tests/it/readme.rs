//! README's installation is whole: its commands can be copied as they are, and are those that `make e2e-readme` runs.

use std::fs;
use std::process::Command;

use crate::workspace::root;

/// The commands of each step.
fn steps() -> Vec<String> {
    let script = root().join("e2e/kind/readme.sh");
    let output = Command::new(script).arg("print").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split("# step ")
        .skip(1)
        .map(|step| step.split_once('\n').unwrap().1.to_owned())
        .collect()
}

#[test]
fn five_steps_lead_from_two_clusters_to_a_pod_that_is_delegated() {
    let steps = steps();
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
    let typed = steps.concat();
    // Nothing has to be put in: words in capitals stand for what a reader knows.
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
    let installs = steps().concat().matches(&set).count();
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
