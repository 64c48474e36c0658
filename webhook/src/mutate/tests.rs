use serde_json::json;

use super::*;

mod fuzz;

/// A pod as the API server shows it to the webhook: defaulted, with the client's managed fields.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "labels": { "app": "web" },
            "annotations": { keys::ELECT: "", "team": "a" },
            "finalizers": ["example.com/keep"],
            "managedFields": [{
                "manager": "kubectl",
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:annotations": { ".": {}, format!("f:{}", keys::ELECT): {} } } },
            }],
        },
        "spec": {
            "containers": [{ "name": "app", "image": "web:1", "resources": { "requests": { "cpu": "100m" } } }],
            "nodeSelector": { "disk": "ssd" },
            "tolerations": [
                { "key": "gpu", "operator": "Exists", "effect": "NoSchedule" },
                { "key": keys::NOT_READY_TAINT, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": keys::UNREACHABLE_TAINT, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300 },
            ],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }],
            } } },
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            }],
            "schedulerName": "default-scheduler",
            "schedulingGates": [{ "name": "example.com/wait" }],
            "terminationGracePeriodSeconds": 30,
            "priority": 7,
            "hostNetwork": true,
        },
        "status": {},
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = pod();
    change(&mut pod);
    pod
}

fn apply(pod: &Value) -> Value {
    let mutation = mutate(pod).unwrap_or_else(|denial| panic!("denied: {denial}"));
    let mut after = pod.clone();
    json_patch::patch(&mut after, &mutation.patch()).unwrap();
    after
}

fn source_of(proxy: &Value) -> Value {
    manifest::from_proxy(proxy).unwrap().into_value()
}

fn annotate(pod: &mut Value, key: &str, value: &str) {
    pod["metadata"]["annotations"][key] = value.into();
}

const FIXED_TOLERATIONS: usize = 4;

#[test]
fn what_the_author_says_of_a_lost_target_stays_when_the_tolerations_go() {
    let impatient = changed(|pod| pod["spec"]["tolerations"][2]["tolerationSeconds"] = 45.into());
    let said = |pod: &Value| pod["metadata"]["annotations"][keys::REPLACE_AFTER].clone();
    let proxy = apply(&impatient);
    assert_eq!(said(&proxy), "45s");
    assert_eq!(
        mutate(&proxy).unwrap().patch(),
        Patch::default(),
        "called again"
    );
    let own = changed(|pod| {
        pod["spec"]["tolerations"][2]["tolerationSeconds"] = 45.into();
        annotate(pod, keys::REPLACE_AFTER, "never");
    });
    assert_eq!(said(&apply(&own)), "never");
    assert_eq!(said(&apply(&pod())), Value::Null);
}

#[test]
fn an_elected_pod_becomes_a_proxy() {
    let mut proxy = apply(&pod());
    let manifest = proxy["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::SOURCE_POD_MANIFEST)
        .unwrap();
    insta::assert_yaml_snapshot!("proxy", proxy);
    insta::assert_snapshot!("manifest", manifest.as_str().unwrap());
}

#[test]
fn the_manifest_is_the_pod_as_admitted() {
    let mut want = pod();
    want.as_object_mut().unwrap().remove("status");
    want["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    assert_eq!(source_of(&apply(&pod())), want);
}

#[test]
fn a_pod_that_is_not_elected_stays_as_it_is() {
    for (case, pod) in [
        (
            "no annotations",
            changed(|pod| pod["metadata"]["annotations"] = Value::Null),
        ),
        (
            "other annotations",
            changed(|pod| pod["metadata"]["annotations"] = json!({ "a": "b" })),
        ),
        (
            "our scheduler",
            changed(|pod| {
                pod["metadata"]["annotations"] = json!({});
                pod["spec"]["schedulerName"] = keys::PROXY_SCHEDULER.into();
            }),
        ),
        (
            "a node",
            changed(|pod| {
                pod["metadata"]["annotations"] = json!({});
                pod["spec"]["nodeName"] = "n1".into();
            }),
        ),
        ("nothing at all", json!({})),
        ("no object", json!("pod")),
    ] {
        assert_eq!(mutate(&pod), Ok(Mutation::None), "{case}");
    }
}

/// Says that the controller of a DaemonSet made the pod.
fn make_daemon(pod: &mut Value) {
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "u", "controller": true,
    }]);
}

#[test]
fn a_pod_of_a_daemon_set_stays_as_it_is_unless_it_passes_for_a_proxy() {
    let left = mutate(&changed(make_daemon)).unwrap();
    assert!(matches!(&left, Mutation::Local(owner) if owner.name == "logs"));
    assert_eq!(left.patch(), Patch::default());
    for (change, denial) in [
        (
            (|pod| annotate(pod, keys::GRANTED_TO, "b")) as fn(&mut Value),
            Denial::RecordForged,
        ),
        (
            |pod| annotate(pod, keys::SOURCE_POD_MANIFEST, "{}"),
            Denial::ManifestForged,
        ),
        (
            |pod| pod["spec"]["schedulerName"] = keys::PROXY_SCHEDULER.into(),
            Denial::SchedulerTaken,
        ),
    ] {
        let pod = changed(|pod| {
            make_daemon(pod);
            change(pod);
        });
        assert_eq!(mutate(&pod), Err(denial));
    }
}

#[test]
fn constraints_of_the_proxy() {
    let selector = |proxy: &Value| proxy["spec"]["nodeSelector"].clone();
    let added = |proxy: &Value| {
        proxy["spec"]["tolerations"].as_array().unwrap()[FIXED_TOLERATIONS..].to_vec()
    };

    let own = apply(&changed(|pod| annotate(pod, keys::USE_OWN_CONSTRAINTS, "")));
    assert_eq!(
        selector(&own),
        json!({ keys::PROVIDER: keys::PROVIDER_VALUE, "disk": "ssd" })
    );
    assert_eq!(
        added(&own),
        [json!({ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" })],
        "the default times would evict proxies of a lost target"
    );
    assert_eq!(own["spec"]["affinity"], pod()["spec"]["affinity"]);
    assert_eq!(
        own["spec"]["topologySpreadConstraints"],
        pod()["spec"]["topologySpreadConstraints"]
    );

    let fragment = "nodeSelector: {region: eu}\ntolerations: [{operator: Exists, tolerationSeconds: 9, effect: \
        NoExecute}]";
    let by_fragment = apply(&changed(|pod| {
        annotate(pod, keys::USE_OWN_CONSTRAINTS, "");
        annotate(pod, keys::PROXY_CONSTRAINTS, fragment);
    }));
    assert_eq!(
        selector(&by_fragment),
        json!({ keys::PROVIDER: keys::PROVIDER_VALUE, "region": "eu" })
    );
    assert_eq!(
        added(&by_fragment),
        [json!({ "operator": "Exists", "effect": "NoExecute" })],
        "a toleration of everything stays, without its time"
    );
    assert_eq!(by_fragment["spec"].get("affinity"), None);
    assert_eq!(
        source_of(&by_fragment)["spec"]["nodeSelector"],
        json!({ "disk": "ssd" })
    );
}

#[test]
fn what_the_author_left_out_comes_back_left_out() {
    let bare = json!({
        "metadata": {
            "annotations": { keys::ELECT: "" },
            "managedFields": pod()["metadata"]["managedFields"],
        },
        "spec": { "containers": [] },
    });
    let proxy = apply(&bare);
    let again = changed_proxy(&proxy, |proxy| {
        proxy["spec"]["containers"] = json!([{ "name": "injected" }]);
    });
    let source = source_of(&apply(&again));
    assert_eq!(
        source,
        json!({
            "metadata": { "annotations": { keys::ELECT: "" } },
            "spec": { "containers": [{ "name": "injected" }] },
        })
    );
}

fn changed_proxy(proxy: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut proxy = proxy.clone();
    change(&mut proxy);
    proxy
}

#[test]
fn called_again_it_saves_what_others_injected_and_repairs_what_it_owns() {
    let proxy = apply(&pod());
    let meddled = changed_proxy(&proxy, |proxy| {
        proxy["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "sidecar", "image": "mesh:1" }));
        proxy["metadata"]["labels"]["mesh"] = "on".into();
        proxy["metadata"]["finalizers"] =
            json!([keys::DELEGATE_GONE, "example.com/keep", "mesh.io/wait"]);
        annotate(proxy, "mesh.io/status", "injected");
        proxy["spec"]["schedulerName"] = "other".into();
        proxy["spec"]["nodeSelector"] = json!({ "a": "b" });
        proxy["spec"]["affinity"] = json!({});
        proxy["spec"]["terminationGracePeriodSeconds"] = 5.into();
        proxy["metadata"]["labels"][keys::HAS_FINALIZER] = "no".into();
    });
    let repaired = apply(&meddled);
    let mut want_source = source_of(&proxy);
    want_source["spec"]["containers"] = meddled["spec"]["containers"].clone();
    want_source["metadata"]["labels"]["mesh"] = "on".into();
    want_source["metadata"]["annotations"]["mesh.io/status"] = "injected".into();
    want_source["metadata"]["finalizers"] = json!(["example.com/keep", "mesh.io/wait"]);
    assert_eq!(source_of(&repaired), want_source);
    for field in owned::SPEC_FIELDS {
        assert_eq!(
            repaired["spec"].get(field),
            proxy["spec"].get(field),
            "{field}"
        );
    }
    assert_eq!(
        repaired["metadata"]["finalizers"],
        json!(["example.com/keep", "mesh.io/wait"])
    );
    assert_eq!(repaired["metadata"]["labels"][keys::HAS_FINALIZER], "true");
}

#[test]
fn finalizers_of_plain_admiralty_are_taken_off_and_saved() {
    let theirs = format!("{}default-c1", keys::PREFIX);
    let proxy = apply(&changed(|pod| {
        pod["metadata"]["finalizers"] = json!([theirs, "example.com/keep"]);
    }));
    assert_eq!(proxy["metadata"]["finalizers"], json!(["example.com/keep"]));
    assert_eq!(
        source_of(&proxy)["metadata"]["finalizers"],
        json!([theirs, "example.com/keep"])
    );
    assert_eq!(apply(&proxy), proxy);
}

#[test]
fn bad_pods_are_refused_for_the_right_reason() {
    let proxy = apply(&pod());
    let manifest_in_request = |pod: &mut Value| {
        let field = format!("f:{}", keys::SOURCE_POD_MANIFEST);
        pod["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"][field] =
            json!({});
    };
    for (case, pod, reason, text) in [
        (
            "a node",
            changed(|pod| pod["spec"]["nodeName"] = "n1".into()),
            "NodeName",
            "\"n1\"",
        ),
        (
            "a ready-made proxy",
            changed_proxy(&proxy, manifest_in_request),
            "ManifestForged",
            keys::SOURCE_POD_MANIFEST,
        ),
        (
            "a manifest on an ordinary pod",
            changed(|pod| {
                annotate(pod, keys::SOURCE_POD_MANIFEST, "spec: {}");
                manifest_in_request(pod);
            }),
            "ManifestForged",
            "written by Pilotage alone",
        ),
        (
            "a manifest and no managed fields to tell whose it is",
            changed_proxy(&proxy, |pod| pod["metadata"]["managedFields"] = json!([])),
            "ManifestForged",
            "",
        ),
        (
            "two managers, the second owns the manifest",
            changed_proxy(&proxy, |pod| {
                let first = json!({ "manager": "m", "fieldsV1": {} });
                manifest_in_request(pod);
                pod["metadata"]["managedFields"]
                    .as_array_mut()
                    .unwrap()
                    .insert(0, first);
            }),
            "ManifestForged",
            "",
        ),
        (
            "somebody's record",
            changed(|pod| annotate(pod, keys::GRANTED_TO, "n/u/1")),
            "RecordForged",
            keys::GRANTED_TO,
        ),
        (
            "a manifest that another webhook cut",
            changed_proxy(&proxy, |pod| {
                annotate(pod, keys::SOURCE_POD_MANIFEST, "spec: [");
            }),
            "ManifestDamaged",
            "line 1",
        ),
        (
            "a manifest that another webhook removed",
            changed_proxy(&proxy, |pod| {
                pod["metadata"]["annotations"]
                    .as_object_mut()
                    .unwrap()
                    .remove(keys::SOURCE_POD_MANIFEST);
            }),
            "SchedulerTaken",
            keys::PROXY_SCHEDULER,
        ),
        (
            "a misspelt fragment",
            changed(|pod| {
                annotate(
                    pod,
                    keys::PROXY_CONSTRAINTS,
                    "nodeSelector: {}\ntolerationz: []",
                );
            }),
            "Constraints",
            "line 2, column 1",
        ),
        (
            "labels that keep their key by a broken rule",
            changed(|pod| annotate(pod, keys::NO_PREFIX_LABEL_REGEXP, "^app=(web")),
            "LabelRegexp",
            "no-prefix-label-regexp, line 1, column 6: unclosed group",
        ),
        (
            "an unreadable word on lost targets",
            changed(|pod| annotate(pod, keys::REPLACE_AFTER, "soon")),
            "LostPolicy",
            "replace-after: \"soon\" is neither",
        ),
        (
            "a region that is none",
            changed(|pod| annotate(pod, keys::REGION, &"r".repeat(90_000))),
            "Annotation",
            "region: \"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\"… has 90000 bytes, and may have 63",
        ),
        (
            "more zones than a list may have",
            changed(|pod| annotate(pod, keys::ZONES, &"z,".repeat(65))),
            "Annotation",
            "zones: it has more than 64 entries",
        ),
        (
            "a question that would be an order",
            changed(|pod| {
                annotate(pod, keys::WHAT_IF, "");
                annotate(pod, keys::NO_RESERVATION, "");
            }),
            "WhatIf",
            "exclude each other",
        ),
        (
            "a long expression",
            changed(|pod| annotate(pod, keys::NO_PREFIX_LABEL_REGEXP, &"a?".repeat(600))),
            "Annotation",
            "no-prefix-label-regexp: ",
        ),
        (
            "tolerations for each taint of the world",
            changed(|pod| {
                let toleration = json!({ "operator": "Exists" });
                pod["spec"]["tolerations"] = vec![toleration; 5000].into();
                annotate(pod, keys::USE_OWN_CONSTRAINTS, "");
            }),
            "Constraints",
            "spec has too many constraints",
        ),
        (
            "a manifest that no annotation can hold",
            changed(|pod| pod["spec"]["containers"][0]["args"] = vec!["x"; 60_000].into()),
            "TooLarge",
            "262144",
        ),
        (
            "too long",
            changed(|pod| annotate(pod, "big", &"x".repeat(140_000))),
            "TooLarge",
            "262144",
        ),
        (
            "a status that would be too much",
            changed(|pod| {
                pod["spec"]["containers"] = vec![json!({ "name": "a", "image": "b" }); 1000].into();
            }),
            "TooLarge",
            "the status of 1000 containers",
        ),
        (
            "labels that would be too much",
            changed(|pod| {
                for number in 0..8000 {
                    pod["metadata"]["labels"][format!("a{number}")] = json!("b");
                }
            }),
            "TooLarge",
            "and may take 1024",
        ),
        (
            "a spec that couldn't be read back",
            changed(|pod| {
                let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                    /nodeSelectorTerms";
                *pod.pointer_mut(terms).unwrap() = vec![json!({}); 12_500].into();
            }),
            "TooLarge",
            "and may take 6144",
        ),
        (
            "no spec",
            changed(|pod| pod["spec"] = Value::Null),
            "NoPod",
            "spec is missing",
        ),
    ] {
        let denial = mutate(&pod).expect_err(case);
        assert_eq!(denial.reason(), reason, "{case}: {denial}");
        let message = denial.to_string();
        assert!(message.contains(text), "{case}: {message}");
        assert!(
            !message.contains('\n') && !message.contains("  "),
            "{case}: {message:?}"
        );
    }
}
