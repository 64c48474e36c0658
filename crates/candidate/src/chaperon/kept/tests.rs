use super::{super::observe::Chaperon, *};
use crate::view::ChaperonView;

fn weigh(value: &Value) -> usize {
    value.to_string().len()
}

fn chaperon(spec: &Value, annotations: usize) -> PodChaperon {
    let others = (0..annotations).map(|it| (format!("example.com/{it}"), json!("")));
    let mut annotations: Map<String, Value> = others.collect();
    annotations.insert(keys::ATTEMPT.to_owned(), "2".into());
    annotations.insert(keys::ALLOWED_ATTEMPT.to_owned(), "2".into());
    annotations.insert(keys::IS_RESERVED.to_owned(), "true".into());
    annotations.insert(keys::RESERVED_POD_UID.to_owned(), "p".into());
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "c", "resourceVersion": "7", "generation": 3,
            "labels": { keys::PARENT_UID: "u", "app": "web" },
            "annotations": annotations,
            "finalizers": [keys::DELEGATE_GONE, "example.com/keep"],
        },
        "spec": spec,
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ],
        },
    }))
    .unwrap()
}

fn spec(volumes: usize) -> Value {
    json!({
        "schedulerName": "own", "restartPolicy": "Never",
        "volumes": vec![json!({ "name": "v", "emptyDir": {} }); volumes],
    })
}

fn left_out(chaperon: &PodChaperon) -> LeftOut {
    LeftOut::of(&chaperon.metadata)
}

fn length(object: &impl serde::Serialize) -> usize {
    serde_json::to_string(object).unwrap().len()
}

#[test]
fn a_light_spec_is_kept_and_of_a_heavy_one_what_decides_whether_there_is_a_pod() {
    let mut light = chaperon(&spec(10), 0);
    let whole = light.clone();
    lean(&mut light, weigh);
    assert_eq!((&light, left_out(&light)), (&whole, LeftOut::Nothing));

    let whole = chaperon(&spec(10_000), 0);
    let mut heavy = whole.clone();
    lean(&mut heavy, weigh);
    assert_eq!(left_out(&heavy), LeftOut::Spec);
    assert_eq!(heavy.status, whole.status);
    assert_eq!(ChaperonView::of(&heavy), ChaperonView::of(&whole));
    let (before, after) = (Chaperon(&whole), Chaperon(&heavy));
    assert_eq!(after.waits_for_choice(), before.waits_for_choice());
    assert_eq!((after.restarts(), before.restarts()), (false, false));
    assert!(length(&heavy) < 2_000, "{}", length(&heavy));
    let again = heavy.clone();
    lean(&mut heavy, weigh);
    assert_eq!(heavy, again);
}

#[test]
fn of_a_heavy_chaperon_the_protocol_reads_the_same() {
    let whole = chaperon(&spec(10_000), 10_000);
    let mut left = whole.clone();
    slim(&mut left);
    assert_eq!(left_out(&left), LeftOut::Words);
    assert!(length(&left) < 2_000, "{}", length(&left));
    let view = |chaperon: &PodChaperon| {
        let view = ChaperonView::of(chaperon).unwrap();
        // Labels of its pod's author are among it.
        ChaperonView {
            source_side: 0,
            ..view
        }
    };
    assert_eq!(view(&left), view(&whole));
    let (before, after) = (Chaperon(&whole), Chaperon(&left));
    let read = |chaperon: Chaperon<'_>| {
        let marks = (
            chaperon.has_parent(),
            chaperon.reserved_pod().map(str::to_owned),
            chaperon.has_our_finalizer(),
            chaperon.had_pod(),
        );
        (chaperon.generation(), chaperon.applied(), marks)
    };
    assert_eq!(read(after), read(before));
    assert_eq!(left.metadata.finalizers, whole.metadata.finalizers);
    let again = left.clone();
    slim(&mut left);
    assert_eq!(left, again);
}

#[test]
fn what_was_read_in_outline_says_so_and_who_keeps_it_may_be_missing() {
    for (missing, want) in [
        (&[][..], LeftOut::All),
        (&[KEEPERS][..], LeftOut::Finalizers),
    ] {
        let mut left = chaperon(&json!({}), 0);
        outlined(&mut left, missing);
        assert_eq!(left_out(&left), want);
        // What is kept of it again is the same.
        lean(&mut left, weigh);
        assert_eq!(left_out(&left), want);
    }
    let mut many = chaperon(&json!({}), 0);
    many.metadata.finalizers = Some(vec!["example.com/keep".to_owned(); 10_000]);
    slim(&mut many);
    assert_eq!(left_out(&many), LeftOut::Finalizers);
    // Nobody can write the mark: it is no annotation's key.
    assert!(!pilotage_api::annotations::is_qualified_name(
        left_out::MARK
    ));
}

#[test]
fn of_a_heavy_pod_it_is_known_whose_it_is_and_whether_it_has_a_place() {
    let pod = json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "p",
            "labels": { "a": "x".repeat(100_000) }, "annotations": { "a": "x".repeat(100_000) },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x" },
                {
                    "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon", "name": "web",
                    "uid": "c", "controller": true,
                },
            ],
        },
        "spec": { "nodeName": "n", "schedulingGates": [{ "name": "g" }], "volumes": vec![json!({}); 10_000] },
        "status": {
            "phase": "Running", "containerStatuses": vec![json!({ "name": "a" }); 10_000],
            "conditions": [{ "type": "PodScheduled", "status": "True" }],
        },
    });
    let mut pod: RawPod = serde_json::from_value(pod).unwrap();
    slim_pod(&mut pod);
    assert_eq!(LeftOut::of(&pod.metadata), LeftOut::Words);
    assert_eq!(
        super::super::owner(&pod),
        super::super::Owner::Chaperon("c")
    );
    assert_eq!(pod.node(), Some("n"));
    assert_eq!(pod.status["phase"], "Running");
    assert!(scheduled(&pod.status).is_some());
    assert!(length(&pod) < 2_000, "{}", length(&pod));
}
