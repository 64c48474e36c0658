use serde_json::{Value, json};

use super::*;

fn story(change: impl Fn(&mut Value), places: &[Place]) -> Story {
    let mut pod = json!({
        "metadata": {
            "name": "web", "namespace": "shop",
            "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "x" },
        },
        "spec": { "containers": [] },
        "status": { "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 1 n-a refused [1 Insufficient cpu, 2 full (x, y)], 1 n-b can't \
                be reached, 1 node(s) had untolerated taint(s).",
        }] },
    });
    change(&mut pod);
    Story::of(&serde_json::from_value(pod).unwrap(), &[], places, true)
}

fn places() -> [Place; 3] {
    let place = |target: &str, lost: Option<&str>| Place {
        target: target.to_owned(),
        node: format!("n-{target}"),
        lost: lost.map(str::to_owned),
    };
    [
        place("a", None),
        place("b", Some("TimedOut")),
        place("c", Some("SecretMissing")),
    ]
}

#[test]
fn a_waiting_pod_has_each_targets_answer() {
    let it = story(|_| {}, &places());
    let answers: Vec<_> = it.targets.iter().map(|it| &*it.answer).collect();
    let refused = "refused [1 Insufficient cpu, 2 full (x, y)]";
    assert_eq!(
        answers,
        [
            refused,
            "can't be reached",
            "can't be reached: SecretMissing"
        ]
    );
    assert_eq!(it.others, ["node(s) had untolerated taint(s)"]);
    let want = "\
shop/web (Pending): it waits: 0/3 nodes are available: 1 n-a refused [1 Insufficient cpu, 2 full (x, y)], 1 n-b can't \
be reached, 1 node(s) had untolerated taint(s).

TARGET   ANSWER
a        refused [1 Insufficient cpu, 2 full (x, y)]
b        can't be reached
c        can't be reached: SecretMissing
beside these: node(s) had untolerated taint(s)
";
    assert_eq!(it.table(Timestamp::UNIX_EPOCH), want);
}

#[test]
fn a_pod_that_no_scheduler_has_seen_is_told_why_its_target_is_lost() {
    let lost = Place {
        target: "paris".to_owned(),
        node: "n-paris".to_owned(),
        lost: Some("Unauthorized: the API server refuses our credentials".to_owned()),
    };
    let it = story(|pod| pod["status"]["conditions"] = json!([]), &[lost]);
    let want = "\
shop/web (Pending): it waits: no scheduler has said anything of it; see whether \"pilotage proxy-scheduler\" runs

TARGET   ANSWER
paris    can't be reached: Unauthorized: the API server refuses our credentials
";
    assert_eq!(it.table(Timestamp::UNIX_EPOCH), want);
}

#[test]
fn a_pod_that_runs_is_told_with_all_its_stages() {
    let condition = |type_: &str, second: u8| {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        json!({ "type": type_, "status": "True", "lastTransitionTime": time })
    };
    let pod = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "x", keys::GRANTED_TO: "n-b/u/1" },
        },
        "spec": { "containers": [], "nodeName": "n-b" },
        "status": { "phase": "Running", "conditions": [condition("Ready", 10)] },
    });
    let event = json!({
        "metadata": {},
        "involvedObject": {},
        "reason": "Scheduled",
        "message": "Successfully assigned shop/web to n-b: asked after 12 ms, bound after 2000 ms; n-a refused [1 \
            full]",
        "eventTime": "2026-01-01T00:00:02.000000Z",
    });
    let (pod, event) = (serde_json::from_value(pod), serde_json::from_value(event));
    let it = Story::of(&pod.unwrap(), &[event.unwrap()], &places(), true);
    let want = "\
shop/web (Running): it went to target b (virtual node n-b), and is Running there

TARGET   ANSWER
a        refused [1 full]
b        runs it
c        can't be reached: SecretMissing

AGO   WHAT HAPPENED
60s   created
60s   asked after 12 ms
58s   bound after 2000 ms
58s   Scheduled: Successfully assigned shop/web to n-b
50s   Ready became true
";
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    assert_eq!(it.table(now), want);
}

#[test]
fn a_pod_that_has_gone_to_a_target_keeps_what_the_others_had_said() {
    let event = |minute: u8, reason: &str, message: &str| {
        let time = format!("2026-01-01T00:{minute:02}:00Z");
        json!({
            "metadata": { "name": format!("{reason}-{minute}") },
            "involvedObject": {},
            "reason": reason,
            "message": message,
            "lastTimestamp": time,
        })
    };
    let refused = "0/3 nodes are available: 1 n-a refused [1 full], 1 n-c refused [2 Insufficient memory]. \
        preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.";
    let scheduled = "Successfully assigned shop/web to n-b: asked after 12 ms, bound after 1 s; n-a refused [2 \
        Insufficient cpu; 1 full (x; y)]";
    let events = [
        event(1, "FailedScheduling", refused),
        event(2, "Scheduled", scheduled),
        event(3, "Pulled", "n-a could be asked"),
    ];
    let answers = |events: &[Value], places: &[Place]| -> Vec<String> {
        let pod = json!({
            "metadata": { "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "x" } },
            "spec": { "containers": [], "nodeName": "n-b" },
        });
        let events = events.iter().cloned().map(serde_json::from_value);
        let events: Result<Vec<Event>, _> = events.collect();
        let pod = serde_json::from_value(pod).unwrap();
        let story = Story::of(&pod, &events.unwrap(), places, true);
        story.targets.into_iter().map(|it| it.answer).collect()
    };
    let said = answers(&events, &places());
    assert_eq!(
        said,
        [
            "refused [2 Insufficient cpu; 1 full (x; y)]",
            "runs it",
            "refused [2 Insufficient memory]"
        ]
    );
    let other = "n-a is in region \"us\"; n-c could take the pod, too; and 3 more";
    let said = answers(&[event(1, "PassedOver", other)], &places());
    assert_eq!(said[0], "is in region \"us\"");
    assert_eq!(said[2], "could take the pod, too");
    // When events are gone, nothing is made up.
    let said = answers(&[], &places());
    assert_eq!(
        said,
        ["wasn't taken", "runs it", "can't be reached: SecretMissing"]
    );
}

#[test]
fn a_binding_tells_the_stages_before_it() {
    let bound: Timestamp = "2026-01-01T00:00:20Z".parse().unwrap();
    let told = |message: &str| -> Vec<(String, String)> {
        let way = way(message, bound).into_iter();
        way.map(|it| (it.time.to_string(), it.what)).collect()
    };
    let message = "Successfully assigned shop/web to n-b: asked after 12 ms, granted after 9800 ms, bound after 12 \
        s; n-a said nothing after 3 s";
    let want = [
        ("2026-01-01T00:00:08.012Z", "asked after 12 ms"),
        ("2026-01-01T00:00:17.8Z", "granted after 9800 ms"),
        ("2026-01-01T00:00:20Z", "bound after 12 s"),
    ];
    let want = want.map(|(time, what)| (time.to_owned(), what.to_owned()));
    assert_eq!(told(message), want);
    for other in [
        "",
        "Successfully assigned shop/web to node-1",
        "a: soon after 1 h, after x s",
    ] {
        assert!(told(other).is_empty(), "{other}");
    }
}

#[test]
fn a_stage_with_an_event_of_its_own_is_told_by_that() {
    let event = |time: &str, reason: &str, message: &str| -> Event {
        let event = json!({
            "metadata": {},
            "involvedObject": {},
            "reason": reason,
            "message": message,
            "eventTime": format!("2026-01-01T00:00:{time}Z"),
        });
        serde_json::from_value(event).unwrap()
    };
    let told = |events: &[Event]| -> Vec<String> {
        let stages = stages(&Pod::default(), events).into_iter();
        stages.map(|it| it.what).collect()
    };
    let scheduled = "Successfully assigned shop/web to n-b: asked after 12 ms, reserved after 900 ms, \
        granted after 1500 ms, bound after 2000 ms; n-a refused [1 full]";
    let asked = "n-a is asked whether it takes the pod";
    let events = [
        event("02.000000", "Scheduled", scheduled),
        event("00.010000", "Asked", asked),
        event("00.500000", "Refused", "n-a refused [1 full; 2 busy]"),
        event("01.501000", "Granted", "n-b is granted the pod"),
    ];
    let want = [
        "Asked: n-a is asked whether it takes the pod",
        "Refused: n-a refused [1 full; 2 busy]",
        "reserved after 900 ms",
        "Granted: n-b is granted the pod",
        "bound after 2000 ms",
        "Scheduled: Successfully assigned shop/web to n-b",
    ];
    assert_eq!(told(&events), want);
    assert_eq!(
        answered(&events),
        [
            "asked after 12 ms, reserved after 900 ms, granted after 1500 ms, bound after 2000 ms",
            "n-a refused [1 full]",
            "n-a refused [1 full; 2 busy]"
        ]
    );
    // What is told of a later attempt says nothing of the first one.
    let events = [
        event("02.000000", "Scheduled", scheduled),
        event("09.000000", "Asked", asked),
    ];
    assert_eq!(told(&events)[0], "asked after 12 ms");
    assert_eq!(told(&events).len(), 6);
}

#[test]
fn verdicts() {
    let at = |key: &str, value: Value| {
        let (key, value) = (key.to_owned(), value);
        story(
            move |pod| {
                if let Some(it) = pod.pointer_mut(&key) {
                    *it = value.clone();
                }
            },
            &places(),
        )
        .verdict
    };
    assert_eq!(
        at("/metadata/annotations", json!({})),
        "it stays in this cluster: it has no annotation multicluster.admiralty.io/elect"
    );
    assert_eq!(
        at("/metadata/annotations", json!({ keys::ELECT: "" })),
        "it stays in this cluster: the webhook didn't see it when it was created; label its namespace \
         multicluster-scheduler=enabled, see whether \"pilotage webhook\" runs, and create the pod again"
    );
    let of_daemons = |version: &str| {
        let owner = json!({
            "apiVersion": version, "kind": "DaemonSet", "name": "logs", "uid": "u", "controller": true,
        });
        let metadata = json!({ "annotations": { keys::ELECT: "" }, "ownerReferences": [owner] });
        at("/metadata", metadata)
    };
    assert_eq!(
        of_daemons("apps/v1"),
        "it stays in this cluster: DaemonSet \"logs\" places its own pods, so they are not delegated: annotation \
         multicluster.admiralty.io/elect has no effect in its template"
    );
    let others = of_daemons("example.com/v1");
    assert!(others.contains("label its namespace"), "{others}");
    let granted =
        json!({ keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "x", keys::GRANTED_TO: "n-a/u/1" });
    assert_eq!(
        at("/metadata/annotations", granted),
        "target a was granted the pod, and hasn't bound it yet"
    );
    let damaged = json!({ keys::SOURCE_POD_MANIFEST: "x", keys::GRANTED_TO: "?" });
    assert!(at("/metadata/annotations", damaged).contains("damaged"));
    let bound = at("/spec", json!({ "containers": [], "nodeName": "n-b" }));
    assert_eq!(
        bound,
        "it went to target b (virtual node n-b), and is Pending there"
    );
    assert_eq!(
        story(|_| {}, &[]).verdict,
        "it waits: no Target of its namespace and no ClusterTarget is there; \"pilotage connect\" makes one"
    );
    let deleted = |record: Option<&str>| {
        let change = |pod: &mut Value| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            if let Some(record) = record {
                pod["metadata"]["annotations"][keys::GRANTED_TO] = json!(record);
            }
        };
        story(change, &places()).verdict
    };
    assert_eq!(deleted(None), "it is being deleted");
    assert_eq!(
        deleted(Some("n-a/u/1")),
        "it is being deleted, and waits until its delegate behind n-a is gone"
    );
}

#[test]
fn who_may_not_see_all_targets_is_not_told_that_there_is_none() {
    let pod = |node: Option<&str>| -> Pod {
        let annotations = json!({ keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "x" });
        let metadata = json!({ "name": "web", "namespace": "shop", "annotations": annotations });
        let spec = json!({ "containers": [], "nodeName": node });
        let status = json!({ "phase": "Running" });
        let pod = json!({ "metadata": metadata, "spec": spec, "status": status });
        serde_json::from_value(pod).unwrap()
    };
    let verdict = |node, complete| Story::of(&pod(node), &[], &[], complete).verdict;
    assert!(verdict(Some("n-x"), true).contains("no Target here"));
    assert_eq!(
        verdict(Some("n-x"), false),
        "it is bound to virtual node n-x, and is Running there; no Target that you may see stands behind it"
    );
    assert!(verdict(None, true).contains("pilotage connect"));
    let waits = verdict(None, false);
    assert!(waits.contains("no Target that you may see"), "{waits}");
}

#[test]
fn other_words_have_no_reasons() {
    for words in ["no target was asked yet", "1/2 nodes are available: x", ""] {
        assert!(reasons(words).is_empty(), "{words}");
    }
}
