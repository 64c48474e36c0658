//! `pilotage rbac` prints what a cluster takes.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

fn rbac(args: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .arg("rbac")
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn kinds(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("kind: "))
        .collect()
}

#[test]
fn without_an_account_there_are_roles_only() {
    let (ok, text, _) = rbac(&["--component=webhook"]);
    assert!(ok);
    assert_eq!(kinds(&text), ["ClusterRole", "Role"]);
    assert_eq!(
        text.matches("  name: pilotage-webhook\n").count(),
        2,
        "{text}"
    );
    assert_eq!(text.matches("  namespace: pilotage\n").count(), 1, "{text}");
}

#[test]
fn with_an_account_everything_is_bound_to_it() {
    let (ok, text, _) = rbac(&["--component=webhook", "--service-account=hooks/guard"]);
    assert!(ok);
    let want = [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ];
    assert_eq!(kinds(&text), want);
    // The account itself, its namespaced role and binding, and a subject in each binding.
    assert_eq!(text.matches("namespace: hooks\n").count(), 5, "{text}");
    assert_eq!(text.matches("name: guard\n").count(), 3, "{text}");
}

#[test]
fn only_of_parts_that_write_records_is_the_account_named_as_a_writer() {
    let writer = "--record-writer=system:serviceaccount:hooks:guard\n";
    for (component, writes) in [
        (&["--component=controllers"][..], true),
        (&[], true),
        (&["--component=proxy-scheduler"], true),
        (&["--component=webhook,controllers"], true),
        (&["--component=webhook"], false),
        (&["--component=candidate-scheduler"], false),
        (&["--component=webhook,candidate-scheduler"], false),
        (&["--component=gardener-scheduler"], false),
        (&["--component=scheduler"], false),
    ] {
        let args = [component, &["--service-account=hooks/guard"]].concat();
        let (ok, text, error) = rbac(&args);
        assert!(ok, "{error}");
        assert_eq!(text.contains(writer), writes, "{component:?}: {text}");
        assert_eq!(text.contains("record"), writes, "{component:?}: {text}");
    }
}

#[test]
fn output_is_the_same_every_time() {
    assert_eq!(
        rbac(&["--service-account=a/b"]),
        rbac(&["--service-account=a/b"])
    );
}

#[test]
fn a_bad_account_is_explained() {
    let (ok, _, error) = rbac(&["--service-account=pilotage"]);
    assert!(!ok);
    assert!(error.contains("NAMESPACE/NAME"), "{error}");
}

#[test]
fn the_proxy_scheduler_reads_config_maps_of_its_own_namespace_only() {
    let (ok, text, _) = rbac(&["--component=proxy-scheduler"]);
    assert!(ok);
    let roles: Vec<_> = text.split("---\n").collect();
    let reading: Vec<_> = roles
        .iter()
        .filter(|role| role.contains("- configmaps\n"))
        .collect();
    assert_eq!(reading.len(), 1, "{text}");
    assert!(reading[0].contains("kind: Role\n") && reading[0].contains("namespace: pilotage\n"));
}

#[test]
fn the_scheduler_of_a_garden_is_a_part_of_its_own() {
    let (_, all, _) = rbac(&["--service-account=a/b"]);
    assert!(!all.contains("gardener"), "{all}");
    let (ok, text, _) = rbac(&[
        "--component=gardener-scheduler",
        "--service-account=garden/scheduler",
    ]);
    assert!(ok);
    let want = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    assert_eq!(kinds(&text), want);
    assert!(text.contains("- shoots/binding\n"), "{text}");
    // Its Lease and the tables of distances are in one namespace.
    assert!(!text.contains("namespace: pilotage"), "{text}");
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .args(["all", "--parts=gardener-scheduler"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("expected one of webhook, "), "{error}");
}

#[test]
fn the_scheduler_of_one_cluster_may_place_and_evict_pods_and_nothing_else() {
    let (_, all, _) = rbac(&["--service-account=a/b"]);
    assert!(!all.contains("name: pilotage-scheduler\n"), "{all}");
    let (ok, text, _) = rbac(&[
        "--component=scheduler",
        "--service-account=pilotage/scheduler",
    ]);
    assert!(ok);
    let mut rights: BTreeSet<String> = BTreeSet::new();
    for document in text.split("---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        for rule in object["rules"].as_array().into_iter().flatten() {
            for resource in texts(&rule["resources"]) {
                let kind = object["kind"].as_str().unwrap();
                rights.insert(format!(
                    "{kind} {resource}: {}",
                    texts(&rule["verbs"]).join(", ")
                ));
            }
        }
    }
    let want = [
        "ClusterRole events: create, patch",
        "ClusterRole namespaces: list, watch",
        "ClusterRole nodes: list, watch",
        "ClusterRole pods/binding: create",
        "ClusterRole pods/status: patch",
        "ClusterRole pods: delete",
        "ClusterRole pods: get, list, watch",
        "ClusterRole poddisruptionbudgets: list, watch",
        "ClusterRole replicasets: list, watch",
        "ClusterRole replicationcontrollers: list, watch",
        "ClusterRole services: list, watch",
        "ClusterRole statefulsets: list, watch",
        "Role leases: get, create, patch",
    ];
    assert_eq!(rights, BTreeSet::from(want.map(str::to_owned)), "{text}");
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .args(["all", "--parts=scheduler"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn secrets_may_be_read_in_named_namespaces_only() {
    let reading = |args: &[&str]| {
        let (ok, text, error) = rbac(args);
        assert!(ok, "{error}");
        let objects = text.split("---\n").map(str::to_owned);
        let (roles, bindings): (Vec<_>, Vec<_>) = objects
            .filter(|object| object.contains("- secrets\n") || object.contains("subjects:\n"))
            .partition(|object| object.contains("- secrets\n"));
        (roles, bindings)
    };
    let parts = "--component=controllers,proxy-scheduler";
    let account = "--service-account=pilotage/pilotage";
    for wide in [
        &[parts, account][..],
        &[parts, account, "--target-namespaces="],
    ] {
        let (roles, _) = reading(wide);
        assert_eq!(roles.len(), 2, "{roles:#?}");
        let all = roles.iter().all(|it| it.contains("kind: ClusterRole\n"));
        assert!(all, "{roles:#?}");
    }

    let (roles, bindings) = reading(&[parts, account, "--target-namespaces=shop,bank"]);
    assert_eq!(roles.len(), 4, "{roles:#?}");
    for namespace in ["bank", "shop"] {
        let here = format!("  namespace: {namespace}\n");
        let of = |list: &[String], kind: &str| -> Vec<String> {
            let fits = |it: &&String| it.contains(kind) && it.contains(&here);
            list.iter().filter(fits).cloned().collect()
        };
        let roles = of(&roles, "kind: Role\n");
        assert_eq!(roles.len(), 2, "{roles:#?}");
        // Only virtual nodes have finalizers on Secrets.
        let patching = roles.iter().filter(|role| role.contains("- patch\n"));
        assert_eq!(patching.count(), 1, "{roles:#?}");
        let bound = of(&bindings, "kind: RoleBinding\n");
        assert_eq!(bound.len(), 2, "{bindings:#?}");
        let to_us = |it: &String| it.contains("namespace: pilotage\n");
        assert!(bound.iter().all(to_us), "{bound:#?}");
    }
}

#[test]
fn a_bad_namespace_is_explained() {
    for args in [
        &["rbac", "--target-namespaces=shop,Bank"][..],
        &["controllers", "--target-namespaces=shop,Bank"],
        &["proxy-scheduler", "--target-namespaces=shop,Bank"],
        &["all", "--target-namespaces=shop,Bank"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
            .args(args)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains("\"Bank\" is no name of a namespace"),
            "{error}"
        );
    }
}
