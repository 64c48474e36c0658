//! Configuration files are read before anything else: a bad one ends the process with its path and the place of the
//! mistake.

use std::{fs, process::Command};

/// Exit code and standard error.
fn run(words: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .args(words)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), error)
}

#[test]
fn a_bad_file_is_told_with_its_path_and_the_place_of_the_mistake() {
    let head = "apiVersion: config.multicluster.admiralty.io/v1alpha1\nkind: ProxySchedulerConfiguration\n";
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, text, message) in [
        (
            "unknown",
            "placement: {strategy: SameRegion, tables: []}",
            "placement: unknown field `tables`",
        ),
        (
            "negative",
            "placement: {rules: [LeastUsed: {}, Cost: {label: a, weight: -1}]}",
            "placement.rules[1]: weight must be 0 to 1000000, and is -1",
        ),
        ("yaml", "placement: {", "it is no YAML"),
    ] {
        let path = directory.join(format!("{name}.yaml"));
        fs::write(&path, format!("{head}{text}")).unwrap();
        for command in ["proxy-scheduler", "all"] {
            let path = path.to_str().unwrap();
            let (code, error) = run(&[command, "--config", path]);
            assert_eq!(code, 4, "{error}");
            assert!(error.contains(path) && error.contains(message), "{error}");
        }
    }
    let (code, error) = run(&["proxy-scheduler", "--config", "/nonexistent.yaml"]);
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("can't read /nonexistent.yaml"), "{error}");
}

#[test]
fn the_example_for_a_garden_holds_a_configuration_that_is_read() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/placement/gardener-scheduler.yaml"
    );
    let text = fs::read_to_string(example).unwrap();
    let objects = text.split("\n---\n").map(|text| {
        let object: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        object
    });
    let mut of_kind: std::collections::BTreeMap<_, _> = objects
        .map(|object| (object["kind"].as_str().unwrap().to_owned(), object))
        .collect();
    let config = of_kind.remove("ConfigMap").unwrap();
    let (file, text) = config["data"].as_object().unwrap().iter().next().unwrap();
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join("of-the-example.yaml");
    fs::write(&path, text.as_str().unwrap()).unwrap();
    // It comes as far as to look for a cluster.
    let (code, error) = run(&["gardener-scheduler", "--config", path.to_str().unwrap()]);
    assert_eq!(code, 1, "{error}");
    let deployment = of_kind.remove("Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let path = format!(
        "{}/{file}",
        container["volumeMounts"][0]["mountPath"].as_str().unwrap()
    );
    let command = container["command"].as_array().unwrap();
    assert_eq!(
        command.last().unwrap().as_str(),
        Some(&*format!("--config={path}"))
    );
    assert_eq!(
        pod["serviceAccountName"],
        of_kind["ServiceAccount"]["metadata"]["name"]
    );
    assert_eq!(
        of_kind["Service"]["spec"]["selector"],
        deployment["spec"]["template"]["metadata"]["labels"]
    );
}

#[test]
fn the_example_of_the_page_is_read() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/placement/proxy-scheduler.yaml"
    );
    // It comes as far as to look for a cluster.
    let (code, error) = run(&["proxy-scheduler", "--config", path]);
    assert_eq!(code, 1, "{error}");
    let page = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/placement.md"
    ));
    let example = fs::read_to_string(path).unwrap();
    assert!(
        page.unwrap().contains(&example),
        "the page shows another file"
    );
}
