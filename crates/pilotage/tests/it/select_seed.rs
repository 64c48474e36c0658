//! `pilotage select-seed`: the examples of its page are what it prints, bad files are told, exit codes are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Where the example files are.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/placement")
}

/// Exit code, standard output, standard error.
fn run(directory: &Path, words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

const BASE: [&str; 7] = [
    "select-seed",
    "--shoot",
    "shoot.yaml",
    "--seeds",
    "seeds.yaml",
    "--cloudprofile",
    "cloudprofile.yaml",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BASE.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = fs::read_to_string(examples().join("../placement.md")).unwrap();
    let blocks: Vec<_> = page
        .split("```console\n$ pilotage ")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        // A command may go on in the next line.
        let block = block.replace("\\\n", " ");
        let (command, expected) = block.split_once('\n').unwrap();
        let words: Vec<_> = command.split_whitespace().collect();
        let (code, out, err) = run(&examples(), &words);
        assert_eq!(out, expected, "{command}\n{err}");
        assert_eq!(code, 0, "{command}\n{err}");
    }
}

#[test]
fn programs_get_json_or_yaml() {
    let more = ["--shoots", "shoots.yaml", "--settings", "cost.yaml"];
    let (code, text, err) = run(&examples(), &with(&[&more[..], &["-o", "json"]].concat()));
    assert_eq!((code, &*err), (0, ""));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["shoot"], "garden-shop/web");
    assert_eq!(json["winner"], json["seeds"][0]["name"]);
    let settings = r#"{"strategy": null, "gardenerCompatible": true, "overriddenByPurpose": false,
        "rules": [{"rule": "Cost", "weight": 2}, {"rule": "MinimalDistance", "weight": 1}]}"#;
    let settings: Value = serde_json::from_str(settings).unwrap();
    assert_eq!(json["settings"], settings);
    assert_eq!(json["seeds"].as_array().unwrap().len(), 6);
    assert_eq!(json["seeds"][0]["scores"][0]["rule"], "Cost");
    let (code, text, _) = run(&examples(), &with(&[&more[..], &["-o", "yaml"]].concat()));
    assert_eq!(code, 0);
    let yaml: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn no_seed_is_exit_code_3() {
    let (code, out, err) = run(&examples(), &with(&[]));
    assert_eq!(code, 3);
    assert!(
        out.starts_with("garden-shop/web gets no seed: no matching seed candidate found"),
        "{out}"
    );
    for reason in [
        "Usable: is not ready: GardenletReady is Unknown",
        "ProfileSelector: its labels don't match",
        "Taints: its taint example.com/vip is not tolerated",
        "Strategy: is in region \"eu-central-1\"",
        "Strategy: is of provider \"gcp\"",
    ] {
        assert!(out.contains(reason), "{reason} in\n{out}");
    }
    assert!(
        out.contains("\nsettings: strategy SameRegion; gardenerCompatible: true\n"),
        "{out}"
    );
    assert_eq!(
        err,
        "note: strategy SameRegion, since neither --config nor --settings is given\n\
         pilotage: no seed for garden-shop/web\n"
    );
}

/// A directory of its own with the example files, and this one in place of `name`.
fn changed(test: &str, name: &str, text: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("select-seed-{test}"));
    fs::create_dir_all(&directory).unwrap();
    for entry in fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
    }
    fs::write(directory.join(name), text).unwrap();
    directory
}

#[test]
fn bad_files_are_told_by_file_object_and_field() {
    let seeds = fs::read_to_string(examples().join("seeds.yaml")).unwrap();
    let shoot = fs::read_to_string(examples().join("shoot.yaml")).unwrap();
    let profile = fs::read_to_string(examples().join("cloudprofile.yaml")).unwrap();
    let regions = fs::read_to_string(examples().join("regions.yaml")).unwrap();
    let operator = "matchExpressions: [{key: a, operator: Equals, values: [b]}]";
    let scheduler =
        "apiVersion: scheduler.config.gardener.cloud/v1alpha1\nkind: SchedulerConfiguration\n";
    let cases: &[(&str, &str, String, &[&str], &str)] = &[
        (
            "field",
            "seeds.yaml",
            seeds.replace("region: eu-west-2", "region: 2"),
            &[],
            "seeds.yaml, Seed aws-lon: spec.provider.region: expected a string, found the number 2",
        ),
        (
            "missing",
            "seeds.yaml",
            seeds.replace("{type: gcp, region: europe-west1}", "{type: gcp}"),
            &[],
            "seeds.yaml, Seed gcp-bel: spec.provider.region: expected a string that isn't empty, found nothing",
        ),
        (
            "kind",
            "shoot.yaml",
            shoot.replace("kind: Shoot", "kind: Pod"),
            &[],
            "shoot.yaml, Pod web: kind: expected Shoot, found \"Pod\"",
        ),
        (
            "scalar",
            "shoot.yaml",
            "just a text".to_owned(),
            &[],
            "shoot.yaml, object 1: the document: expected a mapping, found \"just a text\"",
        ),
        (
            "two",
            "shoot.yaml",
            format!("{shoot}---\n{shoot}"),
            &[],
            "shoot.yaml: expected one Shoot, found 2",
        ),
        (
            "yaml",
            "shoot.yaml",
            "kind: Shoot\nspec: [\n".to_owned(),
            &[],
            "shoot.yaml, line ",
        ),
        (
            "profile",
            "shoot.yaml",
            shoot.replace("cloudProfileName: aws", "cloudProfileName: gcp"),
            &[],
            "shoot.yaml, Shoot web: spec.cloudProfile or spec.cloudProfileName: the CloudProfile \"gcp\" isn't in \
             cloudprofile.yaml",
        ),
        (
            "no-profile",
            "shoot.yaml",
            shoot.replace("cloudProfileName: aws", "purpose: testing"),
            &[],
            "shoot.yaml, Shoot web: spec.cloudProfile or spec.cloudProfileName: expected the name of a CloudProfile, \
             found nothing",
        ),
        (
            "project",
            "project.yaml",
            "kind: Project\nmetadata: {name: other}\nspec: {namespace: garden-other}\n".to_owned(),
            &["--project", "project.yaml"],
            "shoot.yaml, Shoot web: metadata.namespace: no Project in project.yaml has the spec.namespace \
             \"garden-shop\"",
        ),
        (
            "no-seeds",
            "seeds.yaml",
            "apiVersion: v1\nkind: List\nitems: []\n".to_owned(),
            &[],
            "seeds.yaml: expected one Seed or more, found none",
        ),
        (
            "domain",
            "shoot.yaml",
            shoot.replace("spec:", "spec:\n  dns: {domain: web.example.com}"),
            &[],
            "shoot.yaml, Shoot web: has the domain \"web.example.com\", so its project is needed: --project FILE",
        ),
        (
            "config",
            "scheduler.yaml",
            format!("{scheduler}schedulers: {{shoot: {{candidateDeterminationStrategy: Best}}}}"),
            &["--config", "scheduler.yaml"],
            "scheduler.yaml: schedulers.shoot.strategy: Unsupported value: \"Best\": supported values: SameRegion, \
             MinimalDistance",
        ),
        (
            "weight",
            "cost.yaml",
            "rules:\n- LeastUsed: {weight: -3}\n".to_owned(),
            &["--settings", "cost.yaml"],
            "weight must be 0 to 1000000, and is -3",
        ),
        (
            "row",
            "regions.yaml",
            regions.replace("europe-west1: 17", "europe-west1: near"),
            &["--region-config", "regions.yaml"],
            "regions.yaml, ConfigMap distances: data[\"eu-west-1\"]: expected a mapping of regions to whole numbers, \
             found ",
        ),
        (
            "own-selector",
            "shoot.yaml",
            shoot.replace("spec:", &format!("spec:\n  seedSelector: {{{operator}}}")),
            &[],
            "shoot.yaml, Shoot web: spec.seedSelector.matchExpressions[0].operator: expected In, NotIn, Exists or \
             DoesNotExist, found \"Equals\"",
        ),
        (
            "profile-selector",
            "cloudprofile.yaml",
            profile.replace("matchLabels: {environment: prod}", operator),
            &[],
            "cloudprofile.yaml, CloudProfile aws: spec.seedSelector.matchExpressions[0].operator: expected In, ",
        ),
        (
            "own-range",
            "shoot.yaml",
            shoot.replace("10.1.0.0/16", "10.1.0.0/33"),
            &[],
            "shoot.yaml, Shoot web: spec.networking.pods: expected a range of addresses such as 10.0.0.0/16, found \
             \"10.1.0.0/33\"",
        ),
        (
            "range",
            "seeds.yaml",
            seeds.replacen(
                "pods: 100.64.0.0/13",
                "shootDefaults: {pods: 100.64.0.0}",
                1,
            ),
            &[],
            "seeds.yaml, Seed aws-fra: spec.networks.shootDefaults.pods: expected a range of addresses",
        ),
    ];
    for (test, name, text, more, expected) in cases {
        let directory = changed(test, name, text);
        let (code, out, err) = run(&directory, &with(more));
        assert!(err.contains(expected), "{test}: {err}");
        assert!(
            err.starts_with("pilotage: ") && err.lines().count() <= 2,
            "{err}"
        );
        assert_eq!((code, &*out), (4, ""), "{test}");
    }
    let (code, _, err) = run(&examples(), &with(&["--shoots", "nowhere.yaml"]));
    assert_eq!(code, 4);
    assert!(
        err.starts_with("pilotage: can't read nowhere.yaml: "),
        "{err}"
    );
}

#[test]
fn wrong_command_lines_are_exit_code_2() {
    let (code, _, _) = run(&examples(), &BASE[..5]);
    assert_eq!(code, 2);
    let both = with(&["--config", "a.yaml", "--settings", "b.yaml"]);
    assert_eq!(run(&examples(), &both).0, 2);
}

#[test]
fn what_changes_nothing_is_noted() {
    let text = fs::read_to_string(examples().join("regions.yaml")).unwrap();
    let text = text.replace("cloudprofiles: aws", "cloudprofiles: gcp");
    let directory = changed("notes", "regions.yaml", &text);
    let shoot = fs::read_to_string(examples().join("shoot.yaml")).unwrap();
    let assigned = shoot.replace("spec:", "spec:\n  seedName: aws-fra");
    fs::write(directory.join("shoot.yaml"), assigned).unwrap();
    let more = [
        "--settings",
        "proximity.yaml",
        "--region-config",
        "regions.yaml",
    ];
    let (code, out, err) = run(&directory, &with(&more));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(" by name"), "{out}");
    let notes = [
        "note: no scheduler would touch garden-shop/web: it is assigned to seed \"aws-fra\"\n",
        "note: the region ConfigMap garden/distances isn't used for cloud profile aws\n",
    ];
    assert_eq!(err, notes.concat());
}

#[test]
fn what_admission_would_add_is_noted() {
    let note = "note: the Shoot is taken as it stands: what Gardener's admission adds when one is created isn't there \
                (tolerations by its project, selector and tolerations of its exposure class)\n";
    let shoot = fs::read_to_string(examples().join("shoot.yaml")).unwrap();
    let exposed = shoot.replace("spec:", "spec:\n  exposureClassName: internal");
    let settings = ["--settings", "proximity.yaml"];
    let directory = changed("exposed", "shoot.yaml", &exposed);
    let (code, _, err) = run(&directory, &with(&settings));
    assert_eq!((code, &*err), (0, note));

    let project = "kind: Project\nmetadata: {name: shop}\nspec:\n  namespace: garden-shop\n  \
                   tolerations: {defaults: [{key: example.com/vip}]}\n";
    let more = [&settings[..], &["--project", "project.yaml"]].concat();
    let directory = changed("tolerant", "project.yaml", project);
    let (code, _, err) = run(&directory, &with(&more));
    assert_eq!((code, &*err), (0, note));
    let tolerant = shoot.replace("spec:", "spec:\n  tolerations: [{key: example.com/vip}]");
    fs::write(directory.join("shoot.yaml"), tolerant).unwrap();
    let (code, _, err) = run(&directory, &with(&more));
    assert_eq!((code, &*err), (0, ""));
}
