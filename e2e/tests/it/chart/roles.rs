//! What the chart lets each account do is what `pilotage rbac` prints for the same options, no more and no less.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use pilotage_testkit::{apply, pilotage};
use serde_json::{Value, json};

use super::{Case, cases, name, of_kind};

/// Rules by where they hold: `Role NAMESPACE` or `ClusterRole`; for roles that nobody is bound to, by their name.
type Rules = BTreeMap<String, BTreeSet<String>>;

const KINDS: [(&str, &str); 2] = [
    ("Role", "RoleBinding"),
    ("ClusterRole", "ClusterRoleBinding"),
];

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// What the service account `namespace/account` may do.
fn rules_of(objects: &[Value], (home, account): (&str, &str)) -> Rules {
    let mut rules = Rules::new();
    for (kind, binding_kind) in KINDS {
        for binding in of_kind(objects, binding_kind) {
            let subject = &binding["subjects"][0];
            assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
            if subject["name"] != account || subject["namespace"] != home {
                continue;
            }
            assert_eq!(binding["roleRef"]["kind"], kind);
            let role = of_kind(objects, kind).find(|role| {
                binding["roleRef"]["name"] == name(role) && namespace(role) == namespace(binding)
            });
            let role = role.unwrap_or_else(|| panic!("no role for {binding:#}"));
            let place = rules
                .entry(format!("{kind} {}", namespace(role)))
                .or_default();
            place.extend(
                role["rules"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(Value::to_string),
            );
        }
    }
    rules
}

/// Cluster roles that are there to be given to sources.
fn given(objects: &[Value]) -> Rules {
    let bound: BTreeSet<_> = of_kind(objects, "ClusterRoleBinding")
        .map(|binding| binding["roleRef"]["name"].as_str().unwrap())
        .collect();
    of_kind(objects, "ClusterRole")
        .filter(|role| !bound.contains(name(role)))
        .map(|role| {
            let rules = role["rules"].as_array().unwrap();
            let rules = rules.iter().map(Value::to_string).collect();
            (name(role).to_owned(), rules)
        })
        .collect()
}

/// What `pilotage rbac` prints for a part with the options of a values file.
fn printed(case: &Case, part: &str, account: &str) -> Vec<Value> {
    let values = case.values();
    let mut args = vec![
        "rbac".to_owned(),
        format!("--component={part}"),
        format!("--service-account={}/{account}", case.namespace()),
    ];
    for (key, flag) in [
        ("rights", "rights"),
        ("follow", "follow"),
        ("targetNamespaces", "target-namespaces"),
    ] {
        let list = values[key].as_array().into_iter().flatten();
        let list: Vec<_> = list.map(|it| it.as_str().unwrap()).collect();
        if !list.is_empty() {
            args.push(format!("--{flag}={}", list.join(",")));
        }
    }
    if values["controllerManager"]["kubelet"]["enabled"] == true {
        args.push("--kubelet".to_owned());
    }
    let output = Command::new(pilotage::binary().unwrap())
        .args(&args)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    apply::documents(&text).unwrap()
}

#[test]
fn who_cleans_up_may_delete_what_the_webhook_installs_and_nothing_else() {
    let mut seen = 0;
    for case in cases() {
        let objects = case.objects();
        for job in of_kind(&objects, "Job") {
            seen += 1;
            let account = job["spec"]["template"]["spec"]["serviceAccountName"].as_str();
            let rules = rules_of(&objects, (case.namespace(), account.unwrap()));
            let rule = |group: &str, resources: &[&str], names: &[&str]| {
                json!({
                    "apiGroups": [group],
                    "resources": resources,
                    "resourceNames": names,
                    "verbs": ["delete"],
                })
                .to_string()
            };
            let admission = "admissionregistration.k8s.io";
            let policies = [
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
            ];
            let cluster = [
                rule(
                    admission,
                    &["mutatingwebhookconfigurations"],
                    &["zz-pilotage"],
                ),
                rule(
                    admission,
                    &policies,
                    &["pilotage-proxy-pods", "pilotage-targets"],
                ),
            ];
            let own = [rule("", &["secrets"], &["pilotage-webhook-tls"])];
            let expected = Rules::from([
                ("ClusterRole ".to_owned(), cluster.into()),
                (format!("Role {}", case.namespace()), own.into()),
            ]);
            assert_eq!(rules, expected, "{}", case.name);
        }
    }
    assert!(seen > 0);
}

#[test]
fn every_role_is_that_of_the_tables() {
    for case in cases() {
        let objects = case.objects();
        for deployment in of_kind(&objects, "Deployment") {
            let account = name(deployment);
            let part = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
                .as_str()
                .unwrap();
            let accounts = of_kind(&objects, "ServiceAccount");
            assert_eq!(accounts.filter(|it| name(it) == account).count(), 1);
            let whose = (case.namespace(), account);
            let rendered = rules_of(&objects, whose);
            if part == "gardener-scheduler" && case.name == "garden-elsewhere" {
                assert_eq!(rendered, Rules::new(), "its rights are in the garden");
                continue;
            }
            let printed = printed(&case, part, account);
            assert_eq!(
                rendered,
                rules_of(&printed, whose),
                "{part} of {}",
                case.name
            );
            assert!(!rendered.is_empty());
            if part == "controllers" {
                assert_eq!(given(&objects), given(&printed), "{}", case.name);
            }
        }
        let bound = KINDS.map(|(_, kind)| of_kind(&objects, kind).count());
        let accounts = of_kind(&objects, "ServiceAccount").count();
        let jobs = of_kind(&objects, "Job").count();
        assert_eq!(accounts, of_kind(&objects, "Deployment").count() + jobs);
        assert!(bound[0] + bound[1] > 0);
    }
}
