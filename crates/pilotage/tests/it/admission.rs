//! `pilotage admission` prints what the webhook would install.

use std::process::Command;

use serde_json::Value;

fn admission(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pilotage"))
        .arg("admission")
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The objects that it prints, and the kind and name of each.
fn objects(args: &[&str]) -> Vec<(String, Value)> {
    let (code, text, error) = admission(args);
    assert_eq!(code, Some(0), "{error}");
    let parse = |document: &str| {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let kind = object["kind"].as_str().unwrap();
        (format!("{kind} {name}"), object)
    };
    text.split("---\n").map(parse).collect()
}

fn expression(objects: &[(String, Value)]) -> &str {
    let policy = "ValidatingAdmissionPolicy pilotage-proxy-pods";
    let (_, policy) = objects.iter().find(|(name, _)| name == policy).unwrap();
    let conditions = policy["spec"]["matchConditions"].as_array().unwrap();
    let named = |it: &&Value| it["name"] == "isnt-pilotages-own";
    let own = conditions.iter().find(named).unwrap();
    own["expression"].as_str().unwrap()
}

#[test]
fn policies_bindings_and_the_configuration_are_printed() {
    let objects = objects(&["--namespace=hooks"]);
    let names: Vec<&str> = objects.iter().map(|(name, _)| name.as_str()).collect();
    let want = [
        "ValidatingAdmissionPolicy pilotage-targets",
        "ValidatingAdmissionPolicyBinding pilotage-targets",
        "ValidatingAdmissionPolicy pilotage-proxy-pods",
        "ValidatingAdmissionPolicyBinding pilotage-proxy-pods",
        "MutatingWebhookConfiguration zz-pilotage",
    ];
    assert_eq!(names, want);
    let client = &objects[4].1["webhooks"][0]["clientConfig"];
    assert_eq!(client["service"]["namespace"], "hooks");
    assert_eq!(client.get("caBundle"), None, "the webhook adds it");
    let own = expression(&objects);
    assert!(
        own.contains("startsWith('system:serviceaccount:hooks:')"),
        "{own}"
    );
}

#[test]
fn the_policy_has_the_writers_that_are_given() {
    let writer = |name: &str| format!("--record-writer=system:serviceaccount:pilotage:{name}");
    let objects = objects(&[
        &writer("controllers"),
        &writer("proxy-scheduler"),
        "--webhook-url=https://192.0.2.7:9443",
    ]);
    let own = expression(&objects);
    let list = "request.userInfo.username in ['system:serviceaccount:pilotage:controllers', \
                'system:serviceaccount:pilotage:proxy-scheduler']";
    assert!(own.contains(list), "{own}");
    let client = &objects[4].1["webhooks"][0]["clientConfig"];
    assert_eq!(client["url"], "https://192.0.2.7:9443/mutate--v1-pod");
}

#[test]
fn an_address_that_nobody_can_call_is_a_wrong_command_line() {
    for (url, word) in [
        ("http://192.0.2.7", "https://HOST"),
        ("https://192.0.2.7:0", "name that port"),
    ] {
        let (code, text, error) = admission(&[&format!("--webhook-url={url}")]);
        assert_eq!((code, &*text), (Some(2), ""), "{error}");
        assert!(error.contains(word), "{error}");
    }
}
