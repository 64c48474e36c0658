use pilotage_api::parent::ClusterUid;

use super::*;

fn link() -> ParentLink {
    ParentLink {
        cluster_uid: Some(ClusterUid("source-1".into())),
        cluster_name: None,
        uid: "proxy-uid".into(),
        namespace: "shop".into(),
        name: "web-1".into(),
    }
}

fn made(source: &Value) -> Value {
    chaperon(source, &link()).unwrap()
}

/// A pod as admission in the source leaves it.
fn admitted() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "generateName": "web-",
            "namespace": "shop",
            "uid": "never-used",
            "labels": { "app": "web", "app.kubernetes.io/part-of": "shop" },
            "annotations": { "multicluster.admiralty.io/elect": "", "prometheus.io/scrape": "true" },
            "finalizers": ["example.com/x"],
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "web", "uid": "rs" }],
        },
        "spec": {
            "containers": [{
                "name": "web",
                "image": "web",
                "futureField": { "kept": true },
                "volumeMounts": [
                    { "name": "data", "mountPath": "/data" },
                    { "name": "kube-api-access-x2x4z", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
                ],
                "env": [
                    { "name": "APP", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app']" } } },
                    { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                ],
            }],
            "initContainers": [{
                "name": "init",
                "image": "init",
                "volumeMounts": [
                    { "name": "kube-api-access-x2x4z", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
                ],
            }],
            "ephemeralContainers": [{ "name": "debug" }],
            "volumes": [
                { "name": "data", "emptyDir": {} },
                { "name": "kube-api-access-x2x4z",
                "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
            ],
            "priorityClassName": "high",
            "priority": 1000,
            "preemptionPolicy": "PreemptLowerPriority",
            "runtimeClassName": "kata",
            "overhead": { "cpu": "250m" },
            "schedulingGates": [{ "name": "example.com/wait" }],
            "nodeName": "n1",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "web",
            "serviceAccount": "web",
            "hostname": "web-1",
            "subdomain": "web",
            "nodeSelector": { "disk": "ssd" },
            "tolerations": [{ "key": "gpu", "operator": "Exists" }],
        },
        "status": { "phase": "Pending" },
    })
}

#[test]
fn a_chaperon_carries_what_the_target_must_know_and_nothing_that_it_must_set_itself() {
    assert_eq!(
        made(&admitted()),
        json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": {
                "name": names::chaperon("shop", "web-1", "proxy-uid"),
                "namespace": "shop",
                "labels": {
                    "multicluster.admiralty.io/app": "web",
                    "multicluster.admiralty.io/part-of": "shop",
                    "multicluster.admiralty.io/parent-uid": "proxy-uid",
                    "multicluster.admiralty.io/parent-cluster-uid": "source-1",
                },
                "annotations": {
                    "prometheus.io/scrape": "true",
                    "multicluster.admiralty.io/parent-name": "web-1",
                    "multicluster.admiralty.io/parent-namespace": "shop",
                    "multicluster.admiralty.io/attempt": "0",
                    "multicluster.admiralty.io/allowed-attempt": "0",
                },
            },
            "spec": {
                "containers": [{
                    "name": "web",
                    "image": "web",
                    "futureField": { "kept": true },
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                    "env": [
                        { "name": "APP", "valueFrom": { "fieldRef": {
                            "fieldPath": "metadata.labels['multicluster.admiralty.io/app']" } } },
                        { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                    ],
                }],
                "initContainers": [{ "name": "init", "image": "init" }],
                "volumes": [{ "name": "data", "emptyDir": {} }],
                "priorityClassName": "high",
                "runtimeClassName": "kata",
                "schedulerName": "admiralty-candidate",
                "serviceAccountName": "web",
                "hostname": "web-1",
                "subdomain": "web",
                "nodeSelector": { "disk": "ssd" },
                "tolerations": [{ "key": "gpu", "operator": "Exists" }],
            },
        })
    );
}

#[test]
fn switches_of_the_author() {
    let with = |annotations: &[&str]| {
        let mut source = admitted();
        source["spec"]["affinity"] = json!({ "nodeAffinity": {} });
        source["spec"]["topologySpreadConstraints"] = json!([{}]);
        for key in annotations {
            source["metadata"]["annotations"][*key] = "".into();
        }
        let spec = made(&source)["spec"].take();
        let constrained = [
            "nodeSelector",
            "tolerations",
            "affinity",
            "topologySpreadConstraints",
        ]
        .map(|key| spec.get(key).is_some());
        (
            spec["schedulerName"].as_str().unwrap().to_owned(),
            constrained,
        )
    };
    let candidate = keys::CANDIDATE_SCHEDULER.to_owned();
    for (annotations, want) in [
        (&[][..], (candidate.clone(), [true; 4])),
        (
            &[keys::NO_RESERVATION][..],
            ("default-scheduler".to_owned(), [true; 4]),
        ),
        (
            &[keys::USE_OWN_CONSTRAINTS][..],
            (candidate.clone(), [false; 4]),
        ),
        (
            &[keys::USE_OWN_CONSTRAINTS, keys::PROXY_CONSTRAINTS][..],
            (candidate.clone(), [true; 4]),
        ),
    ] {
        assert_eq!(with(annotations), want, "{annotations:?}");
    }
}

#[test]
fn selectors_for_pods_follow_the_labels_and_selectors_for_others_stay() {
    let mut source = admitted();
    source["metadata"]["annotations"][keys::NO_PREFIX_LABEL_REGEXP] = "^keep=".into();
    let term = |key: &str, second: &str, third: &str| {
        json!({
            "topologyKey": "zone",
            "labelSelector": {
                "matchLabels": { key: "web", "keep": "x" },
                "matchExpressions": [{ "key": second, "operator": "In", "values": ["a"] }],
            },
            "namespaceSelector": { "matchLabels": { "team": "a" } },
            "matchLabelKeys": [third],
            "mismatchLabelKeys": ["keep"],
        })
    };
    let spec = |term: &Value| {
        json!({
            "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] },
            "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 1, "podAffinityTerm": term }] },
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "disk", "operator": "Exists" }] }] } },
        })
    };
    let written = term("app", "tier", "pod-template-hash");
    source["spec"]["affinity"] = spec(&written);
    source["spec"]["topologySpreadConstraints"] = json!([written]);
    let wanted = term(
        "multicluster.admiralty.io/app",
        "multicluster.admiralty.io/tier",
        "multicluster.admiralty.io/pod-template-hash",
    );
    let made = made(&source);
    assert_eq!(made["spec"]["affinity"], spec(&wanted));
    assert_eq!(made["spec"]["topologySpreadConstraints"], json!([wanted]));
}

#[test]
fn more_labels_than_an_expression_is_compared_with_are_told() {
    let labels: Map<String, Value> = (0..300)
        .map(|number| (format!("{number:030}"), json!("v")))
        .collect();
    let mut source = json!({
        "metadata": { "labels": labels, "annotations": { keys::NO_PREFIX_LABEL_REGEXP: "^0" } },
        "spec": { "containers": [] },
    });
    let error = chaperon(&source, &link()).unwrap_err().to_string();
    assert!(
        error.contains("no-prefix-label-regexp: there are more labels"),
        "{error}"
    );
    source["metadata"]["annotations"] = json!({});
    assert!(chaperon(&source, &link()).is_ok());
}

#[test]
fn a_volume_of_the_author_with_such_a_name_stays() {
    let mut source = admitted();
    source["spec"]["containers"][0]["volumeMounts"][1]["mountPath"] = "/tokens".into();
    let spec = made(&source)["spec"].take();
    assert_eq!(spec["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(
        spec["initContainers"][0]["volumeMounts"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_forged_link_is_overwritten_or_dropped() {
    let mut source = admitted();
    source["metadata"]["labels"][keys::PARENT_UID] = "x".into();
    source["metadata"]["labels"][keys::PARENT_CLUSTER_NAME] = "x".into();
    source["metadata"]["annotations"][keys::IS_ALLOWED] = "true".into();
    let made = made(&source);
    assert_eq!(made["metadata"]["labels"][keys::PARENT_UID], "proxy-uid");
    assert_eq!(
        made["metadata"]["labels"].get(keys::PARENT_CLUSTER_NAME),
        None
    );
    assert_eq!(made["metadata"]["annotations"].get(keys::IS_ALLOWED), None);
}

#[test]
fn labels_are_kept_beside_those_that_selectors_speak_of() {
    let source = json!({
        "metadata": { "labels": { "app": "web", "example.com/team": "a", keys::PARENT_UID: "forged" } },
        "spec": {},
    });
    let mut chaperon = made(&source);
    let before = chaperon["metadata"]["labels"].clone();
    keep_labels(&mut chaperon, &source);
    let mut wanted = before.clone();
    wanted["app"] = "web".into();
    wanted["example.com/team"] = "a".into();
    assert_eq!(chaperon["metadata"]["labels"], wanted);
    assert_eq!(wanted[format!("{}team", keys::PREFIX)], "a");
    assert_ne!(wanted[keys::PARENT_UID], "forged");
    for source in [json!({}), json!({ "metadata": { "labels": 7 } })] {
        let mut none = json!({ "metadata": { "labels": before } });
        keep_labels(&mut none, &source);
        assert_eq!(none["metadata"]["labels"], before);
    }
}

#[test]
fn what_is_malformed_is_named() {
    for (source, error) in [
        (json!({}), ChaperonError::NotAnObject("spec")),
        (
            json!({ "metadata": [], "spec": {} }),
            ChaperonError::NotAnObject("metadata"),
        ),
        (
            json!({ "metadata": { "labels": { "a": 1 } }, "spec": {} }),
            ChaperonError::NotAString {
                map: "labels",
                key: "a".into(),
            },
        ),
    ] {
        assert_eq!(chaperon(&source, &link()), Err(error), "{source}");
    }
    let source = json!({
        "metadata": { "annotations": { keys::NO_PREFIX_LABEL_REGEXP: "(" } }, "spec": {},
    });
    let error = chaperon(&source, &link()).unwrap_err().to_string();
    assert!(
        error.contains("no-prefix-label-regexp, line 1, column 1: unclosed"),
        "{error}"
    );
}

#[test]
fn the_candidate_pod_is_the_chaperons_own_and_says_nothing_of_the_protocol() {
    let mut chaperon = made(&admitted());
    chaperon["metadata"]["uid"] = "chaperon-uid".into();
    chaperon["metadata"]["annotations"][keys::IS_RESERVED] = "true".into();
    let pod = candidate_pod(&chaperon).unwrap();
    assert_eq!(pod["spec"], chaperon["spec"]);
    assert_eq!(pod["metadata"]["name"], chaperon["metadata"]["name"]);
    assert_eq!(pod["metadata"]["labels"], chaperon["metadata"]["labels"]);
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({
            "prometheus.io/scrape": "true",
            "multicluster.admiralty.io/parent-name": "web-1",
            "multicluster.admiralty.io/parent-namespace": "shop",
        })
    );
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "name": chaperon["metadata"]["name"],
            "uid": "chaperon-uid",
            "controller": true,
            "blockOwnerDeletion": true,
        }])
    );
    assert_eq!(candidate_pod(&made(&admitted())), Err(PodError("uid")));
}

/// Gone through by the square of their number, they would take minutes.
#[test]
fn thousands_of_token_volumes_go_and_one_that_is_used_otherwise_stays() {
    let name = |number: usize| format!("kube-api-access-{number}");
    let volumes: Vec<_> = (0..30_000)
        .map(|number| json!({ "name": name(number), "projected": {} }))
        .collect();
    let mounts: Vec<_> = (0..30_000)
        .map(|number| {
            let token = "/var/run/secrets/kubernetes.io/serviceaccount";
            let path = if number == 7 { "/own" } else { token };
            json!({ "name": name(number), "mountPath": path })
        })
        .collect();
    let source = json!({
        "metadata": {},
        "spec": { "containers": [{ "name": "c", "volumeMounts": mounts }], "volumes": volumes },
    });
    let made = made(&source);
    assert_eq!(
        made["spec"]["volumes"],
        json!([{ "name": name(7), "projected": {} }])
    );
    let mounts = &made["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(*mounts, json!([{ "name": name(7), "mountPath": "/own" }]));
}

#[test]
fn a_context_stands_on_the_chaperon_alone() {
    let mut traced = made(&admitted());
    let plain = traced.clone();
    assert_eq!(
        plain["metadata"]["annotations"][keys::TRACEPARENT],
        Value::Null
    );
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    trace(&mut traced, text.parse().unwrap());
    assert_eq!(traced["metadata"]["annotations"][keys::TRACEPARENT], text);
    let stored = |chaperon: &Value| {
        let mut chaperon = chaperon.clone();
        chaperon["metadata"]["uid"] = "chaperon-uid".into();
        candidate_pod(&chaperon).unwrap()
    };
    assert_eq!(stored(&traced), stored(&plain));

    // Whoever writes a pod doesn't choose its trace.
    let mut source = admitted();
    source["metadata"]["annotations"][keys::TRACEPARENT] = text.into();
    assert_eq!(made(&source), plain);
}
