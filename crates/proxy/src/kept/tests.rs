use pilotage_model::changes::Digest;
use pilotage_model::followed::unfollowed;
use serde_json::json;

use super::*;
use crate::view::ProxyView;

/// As many bytes as its JSON has.
fn weigh(value: &Value) -> usize {
    value.to_string().len()
}

fn pod(more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "p", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": "web" },
            "finalizers": [keys::DELEGATE_GONE, "example.com/keep"],
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "X", "name": "other", "uid": "o" },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true },
            ],
            "annotations": {
                keys::SOURCE_POD_MANIFEST: "spec: {}", keys::RECORDED: "true", keys::REGION: "fra",
                keys::GRANTED_TO: "paris/chaperon/1", keys::ZONES: "a,b", "example.com/note": "x",
            },
        },
        "spec": {
            "schedulerName": keys::PROXY_SCHEDULER, "nodeName": "paris", "priority": 5,
            "tolerations": [{ "key": "k", "operator": "Exists" }],
            "nodeSelector": { "a": "b" },
            "containers": [{
                "name": "app", "image": "i", "args": ["--port=80"],
                "resources": { "requests": { "cpu": "1" } },
                "env": [
                    { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "a" } } },
                    { "name": "B", "value": "plain" },
                ],
                "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 81 }],
            }],
            "ephemeralContainers": [{ "name": "shell", "image": "sh", "command": ["sh"] }],
            "imagePullSecrets": [{ "name": "pull" }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "same", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "code", "image": { "reference": "code:1" } },
                { "name": "keys", "secret": { "secretName": "keys", "items": [{ "key": "k", "path": "p" }] } },
            ],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" }],
            "containerStatuses": [{ "name": "app", "ready": true, "restartCount": 0, "image": "i", "imageID": "" }],
        },
    });
    for (path, value) in more.as_object().into_iter().flatten() {
        *pod.pointer_mut(path).unwrap() = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn view(pod: &Pod) -> ProxyView {
    ProxyView {
        left_out: LeftOut::Nothing,
        ..ProxyView::of(pod).unwrap()
    }
}

fn length(pod: &Pod) -> usize {
    serde_json::to_string(pod).unwrap().len()
}

#[test]
fn what_nobody_reads_goes_and_all_else_says_the_same() {
    let mut volumes: Vec<Value> = (0..3_000)
        .map(|number| json!({ "name": format!("v{number}"), "emptyDir": {} }))
        .collect();
    volumes.extend((0..500).map(|number| {
        json!({ "name": format!("c{number}"), "configMap": { "name": format!("c{}", number % 5) } })
    }));
    for whole in [pod(&json!({})), pod(&json!({ "/spec/volumes": volumes }))] {
        let mut left = whole.clone();
        lean(&mut left);
        assert_eq!(view(&left), view(&whole));
        assert_eq!(Digest::of_pod(&left), Digest::of_pod(&whole));
        let (before, after) = (whole.spec.unwrap(), left.spec.clone().unwrap());
        assert_eq!(needs(&after), needs(&before));
        assert_eq!(required(&after), required(&before));
        assert_ne!(required(&after), needs(&after));
        assert_eq!(unfollowed(&after), unfollowed(&before));
        assert_eq!(after.tolerations, before.tolerations);
        assert_eq!(left.status, whole.status);
        assert_eq!(left.metadata, whole.metadata);
        let container = &after.containers[0];
        assert_eq!(
            (&container.args, &container.env, &container.env_from),
            (&None, &None, &None)
        );
        assert_eq!(container.ports.as_ref().map(Vec::len), Some(1));
        assert!(length(&left) < 3_000, "{}", length(&left));
        let again = left.clone();
        lean(&mut left);
        assert_eq!(left, again);
    }
}

#[test]
fn of_a_heavy_one_the_protocol_reads_the_same_and_its_words_are_gone() {
    let whole = pod(&json!({
        "/metadata/annotations/example.com~1note": "x".repeat(100_000),
        "/metadata/annotations/multicluster.admiralty.io~1sourcepod-manifest": "x".repeat(100_000),
        "/status/containerStatuses/0/imageID": "x".repeat(100_000),
    }));
    let mut left = whole.clone();
    slim(&mut left, weigh);
    assert_eq!(LeftOut::of(&whole), LeftOut::Nothing);
    assert_eq!(LeftOut::of(&left), LeftOut::Words);
    assert_eq!(view(&left), view(&whole));
    assert!(length(&left) < 3_000, "{}", length(&left));
    let (before, after) = (whole.spec.unwrap(), left.spec.clone().unwrap());
    assert_eq!(after.containers, before.containers);
    assert_eq!(after.node_selector, before.node_selector);
    let owners = left.metadata.owner_references.as_ref().unwrap();
    assert_eq!((owners.len(), owners[0].uid.as_str()), (1, "r"));
    let annotations = left.metadata.annotations.clone().unwrap();
    assert_eq!(annotations[keys::SOURCE_POD_MANIFEST], "");
    assert_eq!(annotations[keys::ZONES], "a,b");
    assert!(!annotations.contains_key("example.com/note"));
    let again = left.clone();
    slim(&mut left, weigh);
    assert_eq!(left, again);
}

#[test]
fn what_says_where_it_may_run_is_kept_whole_or_missed() {
    let many = |count: usize| (0..count).map(|it| (it.to_string(), json!(""))).collect();
    let selector = |count| Value::Object(many(count));
    let finalizers = |count: usize| json!(vec!["example.com/keep"; count]);
    for (more, want) in [
        (
            json!({ "/spec/nodeSelector": selector(100) }),
            LeftOut::Words,
        ),
        (
            json!({ "/spec/nodeSelector": selector(10_000) }),
            LeftOut::Rules,
        ),
        (
            json!({ "/metadata/labels": selector(10_000) }),
            LeftOut::Rules,
        ),
        (
            json!({ "/metadata/annotations/multicluster.admiralty.io~1zones": "a,".repeat(50_000) }),
            LeftOut::Rules,
        ),
        (
            json!({ "/metadata/annotations/multicluster.admiralty.io~1region": "a".repeat(50_000) }),
            LeftOut::Words,
        ),
        (
            json!({ "/metadata/finalizers": finalizers(10) }),
            LeftOut::Words,
        ),
        (
            json!({ "/metadata/finalizers": finalizers(50_000) }),
            LeftOut::Finalizers,
        ),
    ] {
        let mut left = pod(&more);
        slim(&mut left, weigh);
        assert_eq!(LeftOut::of(&left), want, "{:.60}", more.to_string());
        assert!(length(&left) < 64 << 10, "{}", length(&left));
        assert_eq!(left.spec.unwrap().node_name.as_deref(), Some("paris"));
    }
}

#[test]
fn of_one_that_was_read_in_outline_what_is_missing_is_known() {
    const CONDITIONS: Field = &["status", "conditions"];
    const VOLUMES: Field = &["spec", "volumes"];
    const AFFINITY: Field = &["spec", "affinity"];
    assert!(
        [CONDITIONS, VOLUMES, AFFINITY]
            .iter()
            .all(|it| OUTLINE.contains(it))
    );
    let read = |left_out: &[Field]| {
        let mut pod = pod(&json!({}));
        pod.metadata.annotations = None;
        outlined(&mut pod, left_out, weigh);
        let has_manifest = ProxyView::of(&pod).unwrap().has_manifest;
        (LeftOut::of(&pod), has_manifest)
    };
    for (left_out, want, has_manifest) in [
        (&[][..], LeftOut::Words, false),
        (&[MANIFEST][..], LeftOut::Words, true),
        (&[CONDITIONS][..], LeftOut::Words, false),
        (&[VOLUMES][..], LeftOut::Words, false),
        (&[MANIFEST, AFFINITY][..], LeftOut::Rules, true),
        (&[KEEPERS, AFFINITY][..], LeftOut::Finalizers, false),
    ] {
        assert_eq!(read(left_out), (want, has_manifest), "{left_out:?}");
    }
    // Nobody can write the mark: it is no annotation's key.
    assert!(!pilotage_api::annotations::is_qualified_name(
        left_out::MARK
    ));
}
