mod accepted;
mod fuzz;

use super::*;
use accepted::refusal;

fn proxy(status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "uid": "u" },
        "spec": {
            "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }],
            "initContainers": [{ "name": "first" }],
            "ephemeralContainers": [{ "name": "shell" }],
            "readinessGates": [{ "conditionType": "example.com/gate" }],
            "restartPolicy": "OnFailure",
        },
        "status": status,
    }))
    .unwrap()
}

fn chaperon(status: &Value) -> PodChaperon {
    serde_json::from_value(json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": {},
        "spec": {},
        "status": status,
    }))
    .unwrap()
}

/// The status in the patch, if there is one.
fn patched(before: &Value, said: &Value) -> Option<Value> {
    let change = change(&proxy(before), &chaperon(said))?;
    assert_eq!(change.patch["metadata"]["uid"], "u");
    Some(change.patch["status"].clone())
}

/// The proxy after the change, which the API server takes, and after which nothing is left to do.
fn settled(before: &Pod, delegate: &PodChaperon) -> Pod {
    let Some(Change { patch, .. }) = change(before, delegate) else {
        return before.clone();
    };
    let mut merged = serde_json::to_value(before).unwrap();
    json_merge(&mut merged, &patch);
    let after: Pod = serde_json::from_value(merged).unwrap();
    assert_eq!(refusal(before, &after), None, "{patch}");
    assert_eq!(change(&after, delegate), None, "nothing is left to do");
    after
}

/// RFC 7396, enough for the test.
fn json_merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            json_merge(&mut target[key.as_str()], value);
        }
    }
}

fn container(name: &str) -> Value {
    json!({ "name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0 })
}

fn ended(name: &str, code: i32) -> Value {
    let mut status = container(name);
    status["state"] = json!({ "terminated": { "exitCode": code } });
    status
}

#[test]
fn a_delegates_status_reaches_the_proxy_once() {
    let delegate = chaperon(&json!({
        "phase": "Running",
        "qosClass": "Burstable",
        "futureField": 1,
        "conditions": [{ "type": "Ready", "status": "True", "observedGeneration": 7 }],
        "containerStatuses": [container("main"), container("injected-there")],
    }));
    let before = proxy(&json!({
        "phase": "Pending",
        "message": "old",
        "qosClass": "BestEffort",
        "conditions": [{ "type": "example.com/gate", "status": "True" }],
    }));
    let Change { patch, withheld } = change(&before, &delegate).unwrap();
    let status = &patch["status"];
    assert_eq!(patch["metadata"]["uid"], "u");
    assert_eq!(status["phase"], "Running");
    assert_eq!(
        status["message"],
        Value::Null,
        "what the delegate lacks goes"
    );
    assert!(status.get("qosClass").is_none(), "belongs to the source");
    assert!(
        status.get("futureField").is_none(),
        "nobody knows whether the API server takes it"
    );
    assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 1);
    assert_eq!(status["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(withheld, ["unknown fields", "containerStatuses"]);
    settled(&before, &delegate);
}

#[test]
fn a_chaperon_without_status_changes_nothing() {
    let mut bare = chaperon(&json!({}));
    bare.status = None;
    assert_eq!(change(&proxy(&json!({})), &bare), None);
}

#[test]
fn all_that_a_kubelet_says_is_copied_as_it_is() {
    let time = "2026-01-02T03:04:05Z";
    let said = json!({
        "phase": "Running",
        "reason": "r",
        "message": "m",
        "startTime": time,
        "podIP": "10.0.0.1",
        "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }],
        "hostIP": "192.168.0.1",
        "hostIPs": [{ "ip": "192.168.0.1" }],
        "resources": { "requests": { "cpu": "1" } },
        "allocatedResources": { "cpu": "1" },
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "unready",
            "lastTransitionTime": time,
        }],
        "initContainerStatuses": [{
            "name": "first", "ready": true, "restartCount": 1, "image": "i", "imageID": "i@sha256:0",
            "containerID": "containerd://0", "started": false,
            "state": { "terminated": {
                "exitCode": 1, "signal": 9, "reason": "Error", "message": "oops",
                "startedAt": time, "finishedAt": time, "containerID": "containerd://0",
            } },
            "lastState": {},
        }],
        "containerStatuses": [{
            "name": "main", "ready": true, "restartCount": 7, "image": "i", "imageID": "", "started": true,
            "stopSignal": "SIGTERM",
            "state": { "running": { "startedAt": time } },
            "lastState": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } },
            "resources": { "limits": { "memory": "1Gi" }, "requests": { "cpu": "250m" } },
            "allocatedResources": { "cpu": "250m", "example.com/gpu": "2" },
            "allocatedResourcesStatus": [{
                "name": "cpu", "resources": [{ "resourceID": "0", "health": "Healthy", "message": "m" }],
            }],
            "volumeMounts": [{
                "name": "data", "mountPath": "/data", "readOnly": true, "recursiveReadOnly": "Disabled",
                "volumeStatus": { "image": { "imageRef": "r" } },
            }],
            "user": { "linux": { "uid": 0, "gid": 1, "supplementalGroups": [2] } },
        }],
        "ephemeralContainerStatuses": [{
            "name": "shell", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
            "state": {}, "lastState": {}, "resources": {},
        }],
    });
    let change = change(&proxy(&json!({})), &chaperon(&said)).unwrap();
    assert_eq!(change.patch["status"], said);
    assert_eq!(change.withheld, [""; 0]);
    settled(&proxy(&json!({})), &chaperon(&said));
}

#[test]
fn a_bad_field_is_left_out_and_the_others_stay() {
    let long = "ä".repeat(MESSAGE);
    let many: Vec<_> = (0..100)
        .map(|n| json!({ "type": format!("t{n}"), "status": "True" }))
        .collect();
    // What is said, and which part of the patch shows it.
    for (said, path, want) in [
        (json!({ "phase": "Ended" }), "/phase", json!("Pending")),
        (json!({ "phase": 1 }), "/phase", json!("Pending")),
        (json!({ "reason": ["r"] }), "/reason", Value::Null),
        (
            json!({ "message": long }),
            "/message",
            json!(long[..MESSAGE]),
        ),
        (json!({ "startTime": "soon" }), "/startTime", Value::Null),
        (
            json!({ "startTime": "-000001-01-01T00:00:00Z" }),
            "/startTime",
            Value::Null,
        ),
        (
            json!({ "startTime": "2026-01-02T03:04:05.678+01:00" }),
            "/startTime",
            json!("2026-01-02T02:04:05Z"),
        ),
        (json!({ "podIP": "10.0.0.1.evil" }), "/podIPs", Value::Null),
        (json!({ "podIP": "127.0.0.1" }), "/podIPs", Value::Null),
        (
            json!({ "podIP": "::ffff:10.0.0.1" }),
            "/podIPs",
            Value::Null,
        ),
        (json!({ "podIP": "010.0.0.1" }), "/podIPs", Value::Null),
        (
            json!({ "podIP": "10.0.0.1" }),
            "/podIPs",
            json!([{ "ip": "10.0.0.1" }]),
        ),
        (
            json!({ "podIPs": [{ "ip": "x" }, { "ip": "10.0.0.2" }, { "ip": "10.0.0.3" }, { "ip": "fd00::1" }] }),
            "/podIPs",
            json!([{ "ip": "10.0.0.2" }, { "ip": "fd00::1" }]),
        ),
        (
            json!({ "hostIP": "10.0.0.9", "hostIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }] }),
            "/hostIPs",
            json!([{ "ip": "10.0.0.9" }, { "ip": "fd00::1" }]),
        ),
        (
            json!({ "hostIPs": [{ "ip": "127.0.0.1" }] }),
            "/hostIP",
            json!("127.0.0.1"),
        ),
        (
            json!({ "conditions": [
                { "type": "not a name", "status": "True" },
                { "type": "a", "status": "Maybe" },
                { "type": "b", "status": "True", "reason": "", "lastTransitionTime": 1 },
                { "type": "b", "status": "False" },
                "c",
            ] }),
            "/conditions",
            json!([{ "type": "b", "status": "True" }]),
        ),
        (
            json!({ "conditions": many }),
            "/conditions",
            json!(many[..32]),
        ),
        (
            json!({ "containerStatuses": [ended("main", 0), container("main"), container("x")] }),
            "/containerStatuses/0/state/terminated/exitCode",
            json!(0),
        ),
        (
            json!({ "containerStatuses": [container("main"), container("main")] }),
            "/containerStatuses/1",
            Value::Null,
        ),
        (
            json!({ "containerStatuses": [{ "name": "main", "restartCount": -5 }] }),
            "/containerStatuses/0/restartCount",
            json!(0),
        ),
        (
            json!({ "containerStatuses": [{ "name": "main", "restartCount": u64::MAX }] }),
            "/containerStatuses/0/restartCount",
            json!(i32::MAX),
        ),
        (
            json!({ "containerStatuses": [{ "name": "main", "restartCount": 1.5 }] }),
            "/containerStatuses/0/restartCount",
            json!(0),
        ),
        (
            json!({ "containerStatuses": [{ "name": "main", "allocatedResources": {
                "cpu": "much", "memory": "1e999999999", "a b": "1", "pods": "3",
            } }] }),
            "/containerStatuses/0/allocatedResources",
            json!({ "pods": "3" }),
        ),
        (
            json!({ "containerStatuses": [{ "name": "main", "allocatedResourcesStatus": [
                { "name": "example.com/gpu" },
                { "name": "cpu", "resources": [
                    { "resourceID": "0", "health": "Fine" }, { "resourceID": "1", "health": "Unknown" },
                    { "resourceID": "1", "health": "Healthy" },
                ] },
            ] }] }),
            "/containerStatuses/0/allocatedResourcesStatus",
            json!([{ "name": "cpu", "resources": [{ "resourceID": "1", "health": "Unknown" }] }]),
        ),
        (
            json!({ "containerStatuses": [{ "name": "main", "user": { "linux": { "uid": -1, "gid": 0 } } }] }),
            "/containerStatuses/0/user",
            json!({}),
        ),
        (
            json!({ "resourceClaimStatuses": [{ "name": "x" }], "extendedResourceClaimStatus": {},
                "resize": "Proposed" }),
            "",
            json!(null),
        ),
    ] {
        let before = json!({ "phase": "Pending", "podIP": "10.9.9.9", "hostIP": "10.9.9.9" });
        let got = patched(&before, &said);
        let shown = got.as_ref().and_then(|status| status.pointer(path));
        let shown = shown.filter(|_| !path.is_empty()).unwrap_or(&Value::Null);
        assert_eq!(*shown, want, "{said}");
        settled(&proxy(&before), &chaperon(&said));
    }
}

#[test]
fn what_belongs_to_the_source_is_neither_taken_nor_removed() {
    let own = json!({
        "phase": "Pending", "qosClass": "BestEffort", "nominatedNodeName": "n", "resize": "Proposed",
        "resourceClaimStatuses": [{ "name": "x" }],
    });
    let said = json!({
        "phase": "Running", "qosClass": "Burstable", "nominatedNodeName": "evil", "resize": "Infeasible",
        "resourceClaimStatuses": [{ "name": "y" }],
    });
    assert_eq!(patched(&own, &said), Some(json!({ "phase": "Running" })));
}

#[test]
fn what_the_delegate_has_no_more_goes_from_within_an_object_too() {
    let before = json!({ "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } });
    let said = json!({ "resources": { "limits": { "cpu": "1" } } });
    assert_eq!(
        patched(&before, &said),
        Some(json!({ "resources": { "limits": { "cpu": "1", "memory": null } } }))
    );
    settled(&proxy(&before), &chaperon(&said));
}

#[test]
fn a_container_that_has_ended_and_must_not_run_again_stays_ended() {
    let runs = || json!({ "phase": "Running", "containerStatuses": [container("main")] });
    let over = |code| json!({ "phase": "Running", "containerStatuses": [ended("main", code)] });
    let settled = |before: &Pod| settled(before, &chaperon(&runs())).status.unwrap();
    let has_ended = |status: PodStatus| {
        let status = &status.container_statuses.unwrap()[0];
        status.state.as_ref().unwrap().terminated.is_some()
    };
    // It is restarted on failure.
    assert!(has_ended(settled(&proxy(&over(0)))));
    assert!(!has_ended(settled(&proxy(&over(1)))));
    for (policy, rules, code, stays) in [
        (json!("Always"), json!([]), 0, false),
        (json!("Never"), json!([]), 1, true),
        (
            json!("Never"),
            json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } }]),
            42,
            false,
        ),
        (
            json!("Never"),
            json!([{ "action": "Restart", "exitCodes": { "operator": "NotIn", "values": [42] } }]),
            42,
            true,
        ),
        (
            json!("Never"),
            json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } }]),
            1,
            false,
        ),
    ] {
        let mut before = serde_json::to_value(proxy(&over(code))).unwrap();
        before["spec"]["containers"][0]["restartPolicy"] = policy;
        before["spec"]["containers"][0]["restartPolicyRules"] = rules.clone();
        let before = serde_json::from_value(before).unwrap();
        assert_eq!(has_ended(settled(&before)), stays, "{rules} {code}");
    }
}

#[test]
fn all_texts_together_are_bounded_and_no_container_is_forgotten_for_that() {
    let names: Vec<_> = (0..300).map(|n| format!("c{n}")).collect();
    let mut pod = serde_json::to_value(proxy(&json!({}))).unwrap();
    pod["spec"]["containers"] = names.iter().map(|name| json!({ "name": name })).collect();
    let pod = serde_json::from_value(pod).unwrap();
    let entries = |entry: Value| Value::from(vec![entry; 1000]);
    let said: Value = names
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "restartCount": 1,
                "image": "i".repeat(9000),
                "state": { "waiting": { "message": "m".repeat(9000) } },
                "volumeMounts": entries(json!({ "name": "v", "mountPath": "/" })),
                "resources": { "claims": entries(json!({ "name": "c" })) },
                "user": { "linux": { "uid": 0, "gid": 0, "supplementalGroups": entries(json!(7)) } },
            })
        })
        .collect();
    let after = settled(&pod, &chaperon(&json!({ "containerStatuses": said })));
    assert!(serde_json::to_string(&after).unwrap().len() < 512 * 1024);
    let statuses = after.status.unwrap().container_statuses.unwrap();
    assert_eq!(statuses.len(), names.len());
    assert!(statuses.iter().all(|status| status.restart_count == 1));
}

#[test]
fn what_a_kubelet_said_of_a_resize_goes_when_it_says_so_no_more() {
    let of = |types: &[&str]| {
        let all: Vec<_> = types
            .iter()
            .map(|it| json!({ "type": it, "status": "True" }))
            .collect();
        json!({ "conditions": all })
    };
    let types = |pod: &Pod| -> Vec<String> {
        let conditions = pod.status.as_ref().unwrap().conditions.clone();
        conditions
            .into_iter()
            .flatten()
            .map(|it| it.type_)
            .collect()
    };
    let said = ["PodResizePending", "PodResizeInProgress"];
    let pod = settled(&proxy(&of(&["example.com/own"])), &chaperon(&of(&said)));
    assert_eq!(types(&pod), [said[0], said[1], "example.com/own"]);
    let pod = settled(&pod, &chaperon(&of(&["Ready"])));
    assert_eq!(types(&pod), ["Ready", "example.com/own"]);
}

#[test]
fn conditions_that_a_target_had_once_dont_gather_and_gates_stay() {
    let gate = json!({ "type": "example.com/gate", "status": "True" });
    let mut pod = proxy(&json!({ "conditions": [gate] }));
    for round in 0..10 {
        let many: Vec<_> = (0..100)
            .map(|n| json!({ "type": format!("r{round}-{n}"), "status": "True", "message": "m".repeat(9000) }))
            .collect();
        pod = settled(&pod, &chaperon(&json!({ "conditions": many })));
        let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
        assert!(conditions.len() <= 64);
        assert!(conditions.iter().any(|c| c.type_ == "example.com/gate"));
    }
    assert!(serde_json::to_string(&pod).unwrap().len() < 512 * 1024);
}

#[test]
fn of_a_condition_that_both_sides_tell_the_targets_word_counts() {
    let gate =
        |status: &str| json!({ "conditions": [{ "type": "example.com/gate", "status": status }] });
    let pod = settled(&proxy(&gate("False")), &chaperon(&gate("True")));
    let conditions = pod.status.unwrap().conditions.unwrap();
    let told: Vec<_> = conditions.iter().map(|c| (&*c.type_, &*c.status)).collect();
    assert_eq!(told, [("example.com/gate", "True")]);
}
