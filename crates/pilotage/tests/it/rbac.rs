//! `pilotage rbac` prints what a cluster takes.

use std::process::Command;

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
    let writer = "--record-writer=system:serviceaccount:hooks:guard\n";
    assert!(text.contains(writer), "{text}");
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
