//! Whatever a target writes, what comes of it is bounded, and the API server takes it.

use proptest::prelude::*;

use super::*;

const CONTAINERS: &[&str] = &["main", "first", "shell", "x"];

/// Names of fields, so that what is drawn is looked at.
fn field() -> impl Strategy<Value = String> {
    const NAMES: &[&str] = &[
        "name",
        "state",
        "lastState",
        "terminated",
        "running",
        "waiting",
        "exitCode",
        "signal",
        "reason",
        "message",
        "startedAt",
        "finishedAt",
        "restartCount",
        "ready",
        "started",
        "image",
        "imageID",
        "containerID",
        "resources",
        "limits",
        "requests",
        "claims",
        "allocatedResources",
        "allocatedResourcesStatus",
        "resourceID",
        "health",
        "volumeMounts",
        "mountPath",
        "readOnly",
        "recursiveReadOnly",
        "volumeStatus",
        "imageRef",
        "user",
        "linux",
        "uid",
        "gid",
        "supplementalGroups",
        "type",
        "status",
        "lastProbeTime",
        "lastTransitionTime",
        "ip",
        "cpu",
        "stopSignal",
        "request",
    ];
    prop_oneof![
        8 => prop::sample::select(NAMES).prop_map(str::to_owned),
        8 => prop::sample::select([&FIELDS[..], &LOCAL_FIELDS[..]].concat()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "main",
        "first",
        "shell",
        "Running",
        "Succeeded",
        "True",
        "False",
        "Healthy",
        "Ready",
        "10.0.0.1",
        "fd00::1",
        "::1",
        "2026-01-02T03:04:05.6Z",
        "1Gi",
        "-7",
        "cpu",
        "",
    ];
    prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => (any::<char>(), 0usize..3000).prop_map(|(c, n)| c.to_string().repeat(n)),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 96, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(field(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Statuses whose lists hold objects, with the names that count.
fn status() -> impl Strategy<Value = Value> {
    let object = |name: &'static str, of: &'static [&'static str]| {
        let named = prop::sample::select(of);
        (
            named,
            prop::collection::btree_map(field(), anything(), 0..8),
        )
            .prop_map(move |(of, rest)| {
                let mut object: Map<String, Value> = rest.into_iter().collect();
                object.insert(name.to_owned(), of.into());
                Value::Object(object)
            })
    };
    let list = |field: &'static str, name: &'static str, of: &'static [&'static str]| {
        prop::collection::vec(object(name, of), 0..4)
            .prop_map(move |list| (field.to_owned(), Value::from(list)))
    };
    let known = (
        list("containerStatuses", "name", CONTAINERS),
        list("initContainerStatuses", "name", CONTAINERS),
        list("ephemeralContainerStatuses", "name", CONTAINERS),
        list("conditions", "type", &["Ready", "example.com/gate", "a b"]),
        list("podIPs", "ip", &["10.0.0.1", "10.0.0.2", "fd00::1", "x"]),
        list("hostIPs", "ip", &["10.0.0.1", "10.0.0.2", "fd00::1", "x"]),
    );
    let known = known.prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f]);
    (
        known,
        prop::collection::btree_map(field(), anything(), 0..8),
    )
        .prop_map(|(known, rest)| Value::Object(known.into_iter().chain(rest).collect()))
}

pilotage_absurd::properties! {
    #[test]
    fn whatever_a_target_says_the_api_server_takes_what_is_copied(
        first in prop_oneof![status(), anything()],
        second in prop_oneof![status(), anything()],
    ) {
        let mut pod = proxy(&json!({ "phase": "Pending", "qosClass": "BestEffort" }));
        for said in [first, second] {
            let Value::Object(said) = said else { continue };
            pod = settled(&pod, &chaperon(&Value::Object(said)));
            prop_assert!(serde_json::to_string(&pod).unwrap().len() < 512 * 1024);
        }
    }
}
