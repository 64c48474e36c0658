//! What a chaperon's newer spec asks of its bound pod, and what is told of requests that were refused.

use std::time::Duration;

use pilotage_api::PodChaperon;

use super::{
    super::{decide::decide, memory::Memory},
    *,
};

const NOW: Duration = Duration::from_secs(100);

/// In its newest generation amounts were changed, too.
fn chaperon(generation: u64, annotations: &Value, spec: &Value) -> PodChaperon {
    let mut annotations = annotations.clone();
    annotations[keys::AMOUNTS_GENERATION] = generation.to_string().into();
    chaperon_with(generation, &annotations, spec)
}

fn chaperon_with(generation: u64, annotations: &Value, spec: &Value) -> PodChaperon {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "uid": "c1", "resourceVersion": "7", "generation": generation,
            "labels": { keys::PARENT_UID: "u" }, "annotations": annotations,
        },
        "spec": spec,
        "status": { "phase": "Running" },
    }))
    .unwrap()
}

fn pod(spec: &Value) -> RawPod {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "uid": "p1", "ownerReferences": [{
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "name": "web", "uid": "c1", "controller": true }] },
        "spec": spec,
        "status": { "phase": "Running" },
    }))
    .unwrap()
}

fn next(chaperon: &PodChaperon, pod: &RawPod, memory: &Memory) -> Option<Action> {
    decide(&Observed {
        chaperon: Some(chaperon),
        pod: Some(pod),
        memory,
        now: NOW,
        wall: jiff::Timestamp::UNIX_EPOCH,
    })
    .action
}

/// What is asked for until nothing is; each step ends as `outcome` says.
fn all(
    chaperon: &PodChaperon,
    pod: &RawPod,
    outcome: impl Fn(&Step) -> Outcome,
) -> (Vec<Step>, Option<Value>) {
    let mut memory = Memory::default();
    let mut steps = Vec::new();
    loop {
        match next(chaperon, pod, &memory) {
            Some(Action::Change(step)) => {
                let action = Action::Change(step.clone());
                memory.finish(&action, &outcome(&step), NOW);
                steps.push(step);
            }
            Some(Action::Mark(patch)) => return (steps, Some(patch["metadata"].clone())),
            None => return (steps, None),
            other => panic!("{other:?}"),
        }
    }
}

fn changed() -> Value {
    let amounts = json!({ "requests": { "cpu": "2", "memory": "1Gi", "example.com/gpu": "1" } });
    json!({
        "containers": [{ "name": "app", "resources": amounts }, { "name": "same" }],
        "ephemeralContainers": [{ "name": "old" }, { "name": "bad", "image": "x" }, { "name": "new",
        "image": "y" }],
    })
}

fn bound() -> Value {
    let amounts = json!({ "requests": { "cpu": "1", "memory": "1Gi" } });
    json!({
        "nodeName": "n",
        "containers": [{ "name": "app", "resources": amounts }, { "name": "same", "resources": amounts }],
        "ephemeralContainers": [{ "name": "old" }, { "name": "theirs" }],
    })
}

#[test]
fn of_an_endless_list_a_few_are_tried_and_the_rest_is_told() {
    let names = |prefix: &str, count: usize| -> Vec<Value> {
        let all = 0..count;
        all.map(|n| json!({ "name": format!("{prefix}{n}") }))
            .collect()
    };
    let theirs = names("old", 80);
    let spec = json!({ "nodeName": "n", "containers": [], "ephemeralContainers": theirs });
    // Those that are there don't count.
    let all_of = [theirs, names("a", 80_000)].concat();
    let wanted = json!({ "containers": [], "ephemeralContainers": all_of });
    let why = "x".repeat(4096);
    let (steps, mark) = all(&chaperon(2, &json!({}), &wanted), &pod(&spec), |_| {
        Outcome::Refused(why.clone())
    });
    assert_eq!(steps.len(), EPHEMERAL_CONTAINERS);
    assert_eq!(steps[0].what, "ephemeral container a79936");
    let mark = mark.unwrap();
    let told = mark["annotations"][keys::CHANGE_REFUSED].as_str().unwrap();
    assert!(
        told.starts_with("of 80000 new ephemeral containers only the last 64"),
        "{told}"
    );
    assert!(told.len() <= LONGEST.1);
    assert_eq!(mark["annotations"][keys::APPLIED_GENERATION], "2");
}

#[test]
fn amounts_of_any_number_of_containers_are_compared_at_once() {
    let containers = |cpu: &str| -> Vec<Value> {
        let resources = json!({ "requests": { "cpu": cpu } });
        let all = 0..30_000;
        all.map(|n| json!({ "name": format!("c{n}"), "resources": resources }))
            .collect()
    };
    let (wanted, known) = (containers("2"), containers("1"));
    let chaperon = chaperon(2, &json!({}), &json!({ "containers": wanted }));
    let pod = pod(&json!({ "nodeName": "n", "containers": known }));
    let step = pilotage_absurd::bounded(|| resize(Chaperon(&chaperon), &pod));
    assert_eq!(step.unwrap().patch["spec"]["containers"], json!(wanted));
}

#[test]
fn each_debug_container_and_the_amounts_are_a_request_and_refusals_are_told() {
    let (steps, mark) = all(
        &chaperon(2, &json!({}), &changed()),
        &pod(&bound()),
        |step| {
            if step.what.ends_with("bad") {
                Outcome::Refused("privileged".to_owned())
            } else {
                Outcome::Done
            }
        },
    );
    let patches: Vec<_> = steps
        .iter()
        .map(|it| (it.subresource, it.patch["spec"].clone()))
        .collect();
    let resized = json!({ "name": "app", "resources": { "requests": { "cpu": "2" } } });
    assert_eq!(
        patches,
        [
            (
                "ephemeralcontainers",
                json!({ "ephemeralContainers": [{ "name": "bad", "image": "x" }] })
            ),
            (
                "ephemeralcontainers",
                json!({ "ephemeralContainers": [{ "name": "new", "image": "y" }] })
            ),
            ("resize", json!({ "containers": [resized] })),
        ]
    );
    assert!(
        steps
            .iter()
            .all(|step| step.patch["metadata"]["uid"] == "p1")
    );
    let mark = mark.unwrap();
    assert_eq!(
        mark["annotations"],
        json!({
            keys::APPLIED_GENERATION: "2",
            keys::CHANGE_REFUSED: "ephemeral container bad: privileged",
        })
    );
    assert_eq!(
        (&mark["uid"], &mark["resourceVersion"]),
        (&json!("c1"), &json!("7"))
    );
}

#[test]
fn amounts_that_the_target_chose_stay_when_only_a_debug_container_is_new() {
    for annotations in [
        json!({}),
        json!({ keys::AMOUNTS_GENERATION: "2", keys::APPLIED_GENERATION: "2" }),
    ] {
        let chaperon = chaperon_with(3, &annotations, &changed());
        let (steps, mark) = all(&chaperon, &pod(&bound()), |_| Outcome::Done);
        let subresources: Vec<_> = steps.iter().map(|step| step.subresource).collect();
        assert_eq!(subresources, ["ephemeralcontainers"; 2]);
        assert_eq!(mark.unwrap()["annotations"][keys::APPLIED_GENERATION], "3");
    }
    // Nobody has carried out the one before.
    let between = json!({ keys::AMOUNTS_GENERATION: "2" });
    let (steps, _) = all(
        &chaperon_with(3, &between, &changed()),
        &pod(&bound()),
        |_| Outcome::Done,
    );
    assert_eq!(steps.last().unwrap().subresource, "resize");
}

#[test]
fn an_old_refusal_goes_with_the_next_change() {
    let before = json!({ keys::APPLIED_GENERATION: "2", keys::CHANGE_REFUSED: "x" });
    let (_, mark) = all(&chaperon(3, &before, &changed()), &pod(&bound()), |_| {
        Outcome::Done
    });
    let annotations = json!({ keys::APPLIED_GENERATION: "3", keys::CHANGE_REFUSED: null });
    assert_eq!(mark.unwrap()["annotations"], annotations);
}

#[test]
fn without_a_newer_generation_the_pod_is_the_targets_affair() {
    let applied = json!({ keys::APPLIED_GENERATION: "2" });
    for chaperon in [
        chaperon(1, &json!({}), &changed()),
        chaperon(2, &applied, &changed()),
    ] {
        let (steps, mark) = all(&chaperon, &pod(&bound()), |_| Outcome::Done);
        assert_eq!((steps, mark), (Vec::new(), None));
    }
    let (steps, mark) = all(
        &chaperon(2, &json!({}), &changed()),
        &pod(&json!({})),
        |_| Outcome::Done,
    );
    assert_eq!((steps, mark), (Vec::new(), None), "it is bound to no node");
}

#[test]
fn a_step_that_failed_is_sent_again_later() {
    let (chaperon, pod) = (chaperon(2, &json!({}), &changed()), pod(&bound()));
    let mut memory = Memory::default();
    let action = next(&chaperon, &pod, &memory).unwrap();
    memory.finish(&action, &Outcome::Failed("timed out".to_owned()), NOW);
    assert_eq!(next(&chaperon, &pod, &memory), None);
    let later = Observed {
        chaperon: Some(&chaperon),
        pod: Some(&pod),
        memory: &memory,
        now: NOW + Duration::from_secs(1),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    assert_eq!(decide(&later).action, Some(action));
}
