//! The protocol's candidate side and the chaperon controller: what they read, decide and write of each of 10,000
//! names, with words that a source may write.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use pilotage_absurd::specs::full;
use pilotage_absurd::steps::Times;
use pilotage_api::{PodChaperon, keys};
use pilotage_candidate::chaperon::{self, Action, RawPod};
use pilotage_candidate::seat::{BindOutcome, Fit, Outcome};
use pilotage_candidate::view::{ChaperonView, PodView};
use pilotage_candidate::{Board, Memory, Observed, Refusal, Settings, Step, decide};
use serde_json::{Value, json};

use crate::CHAPERONS;

/// As many steps are asked of each name.
const STEPS: usize = 12;

/// Words of one sort: annotations, spec and status of a chaperon, spec and status of its pod.
struct Words {
    name: &'static str,
    annotations: Value,
    spec: Value,
    status: Value,
    pod: Value,
    /// How many chaperons have them.
    of: usize,
}

pub(crate) fn play(times: &mut Times) {
    let board = Board::new();
    for words in all() {
        for number in 0..words.of {
            let chaperon = chaperon(number, &words);
            let pod = pod(number, &words);
            reserve(times, &words, number, &chaperon, &pod, &board);
            keep(times, &words, &chaperon, &pod);
        }
    }
}

fn all() -> Vec<Words> {
    let plain = Words {
        name: "nothing special",
        annotations: json!({ keys::ALLOWED_ATTEMPT: "0" }),
        spec: json!({}),
        status: json!({}),
        pod: json!({}),
        of: CHAPERONS,
    };
    let with = |name, annotations: Value| Words {
        name,
        annotations,
        of: 10,
        ..empty()
    };
    let long = |text: &str| text.repeat(200_000 / text.len());
    let all_keys = [
        keys::ATTEMPT,
        keys::ALLOWED_ATTEMPT,
        keys::IS_RESERVED,
        keys::IS_ALLOWED,
        keys::REFUSAL,
        keys::RESERVED_POD_UID,
        keys::GIVE_UP,
        keys::POD_MISSING_SINCE,
        keys::WAS_BOUND,
        keys::PREEMPTS,
        keys::APPLIED_GENERATION,
        keys::AMOUNTS_GENERATION,
        keys::CHANGE_REFUSED,
    ];
    let each = |text: String| -> Value {
        let told = all_keys
            .iter()
            .map(|key| ((*key).to_owned(), Value::from(text.clone())));
        told.collect::<serde_json::Map<_, _>>().into()
    };
    let most = "9223372036854775807";
    let many: Value = (0..10_000)
        .map(|n| (format!("admiralty.example/k{n}"), json!("")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let amounts = |cpu: &str| {
        full(|n| json!({ "name": format!("c{n}"), "resources": { "requests": { "cpu": cpu } } }))
    };
    vec![
        plain,
        with("numbers that are too large", each("9".repeat(15_000))),
        with("odd texts", each("\u{202e}\"é\n".repeat(2_000))),
        with(
            "a refusal of 200 kB",
            json!({ keys::ATTEMPT: "1", keys::REFUSAL: long("full é") }),
        ),
        with(
            "a reserved pod of 200 kB",
            json!({
                keys::ATTEMPT: "1", keys::IS_RESERVED: "true", keys::RESERVED_POD_UID: long("u"),
            }),
        ),
        with(
            "evictions of 200 kB",
            json!({
                keys::ATTEMPT: "1", keys::IS_RESERVED: "true", keys::PREEMPTS: long("budgets=0,"),
            }),
        ),
        with(
            "an attempt of 200 kB",
            json!({ keys::ATTEMPT: long("1"), keys::ALLOWED_ATTEMPT: long("1") }),
        ),
        with("10,000 annotations", many.clone()),
        Words {
            name: "a pod with 10,000 annotations",
            pod: json!({ "metadata": { "annotations": many } }),
            of: 10,
            ..empty()
        },
        Words {
            name: "amounts of many containers",
            annotations: json!({ keys::AMOUNTS_GENERATION: "2" }),
            spec: json!({ "containers": amounts(most) }),
            pod: json!({ "spec": { "nodeName": "n", "containers": amounts("1") } }),
            of: 3,
            ..empty()
        },
        Words {
            name: "many ephemeral containers",
            spec: json!({ "ephemeralContainers": full(|n| json!({ "name": format!("c{n}") })) }),
            pod: json!({ "spec": { "nodeName": "n",
                "ephemeralContainers": full(|n| json!({ "name": format!("d{n}") })) } }),
            of: 3,
            ..empty()
        },
        Words {
            name: "many gates",
            pod: json!({ "spec": { "schedulingGates":
                full(|n| json!({ "name": if n == 0 { keys::UNNAMED.to_owned() } else { format!("g{n}") } })) } }),
            of: 3,
            ..empty()
        },
        Words {
            name: "a large status",
            status: json!({ "conditions": full(|n| json!({ "type": format!("t{n}") })) }),
            pod: json!({ "status": { "conditions": full(|n| json!({ "type": format!("u{n}"), "message": null })) } }),
            of: 3,
            ..empty()
        },
    ]
}

fn empty() -> Words {
    Words {
        name: "",
        annotations: json!({}),
        spec: json!({}),
        status: json!({}),
        pod: json!({}),
        of: 1,
    }
}

fn chaperon(number: usize, words: &Words) -> PodChaperon {
    let chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "uid": format!("c-{number}"), "resourceVersion": "7",
            "generation": 2, "labels": { keys::PARENT_UID: format!("u-{number}") }, "annotations": words.annotations,
            "finalizers": [keys::DELEGATE_GONE],
        },
        "spec": words.spec, "status": words.status,
    });
    serde_json::from_value(chaperon).expect("a chaperon")
}

fn pod(number: usize, words: &Words) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "uid": format!("p-{number}"), "resourceVersion": "8",
            "annotations": words.pod["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
                "name": format!("web-{number}"), "uid": format!("c-{number}"), "controller": true,
            }],
        },
        "spec": { "containers": [] },
        "status": words.pod["status"],
    });
    if pod["status"].is_null() {
        pod["status"] = json!({ "phase": "Pending" });
    }
    for (key, value) in words.pod["spec"].as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

/// From the first look to a hold, and on: it is granted, looked at again and bound, as far as its words allow.
fn reserve(
    times: &mut Times,
    words: &Words,
    number: usize,
    chaperon: &PodChaperon,
    pod: &Value,
    board: &Board,
) {
    let name = words.name;
    let mut bare = pod.clone();
    bare["spec"] = json!({ "containers": [] });
    let pod: Pod = serde_json::from_value(bare).expect("a pod");
    let read = || (ChaperonView::of(chaperon), PodView::of(&pod));
    let (view, pod) = times.step(&format!("{name}: reading chaperon and pod"), read);
    let (Some(mut view), Some(pod)) = (view, pod) else {
        unreachable!("{name}")
    };
    let settings = Settings::default();
    let mut memory = Memory::new(number.is_multiple_of(2));
    let mut now = Duration::from_secs(100);
    for step in 0..STEPS {
        times.step(&format!("{name}: taking a view in"), || {
            memory.see(Some(&view), now);
        });
        let plan = times.step(&format!("{name}: deciding"), || {
            decide(&Observed {
                pod: Some(&pod),
                chaperon: Some(&view),
                memory: &memory,
                settings: &settings,
                now,
            })
        });
        times.step(&format!("{name}: the board and what is told"), || {
            memory.begin(&plan, now);
            let opens = board.set(&pod.uid, plan.gate.clone(), plan.leave);
            (
                opens,
                board.shut(&pod.uid).map(|note| note.to_string()),
                plan.tell.as_ref().map(ToString::to_string),
            )
        });
        let done = |memory: &mut Memory| match &plan.step {
            Step::Rest if step == 2 => {
                let why = "é".repeat(100_000);
                memory.found_none(&pod.uid, Refusal::Unschedulable(why));
            }
            Step::Rest => memory.taken(&pod.uid, "n", now),
            Step::Write(write) => {
                _ = write.patch();
                memory.wrote(write, Outcome::Done, true, &settings, now);
            }
            Step::Recheck { attempt } => memory.rechecked(*attempt, Fit::Fits, &settings, now),
            Step::MakeRoom {
                pod_uid,
                attempt,
                preempts,
            } => {
                memory.make_room(pod_uid, *attempt, *preempts, &settings, now);
            }
            Step::Permit => {
                memory.permitted();
                _ = memory.bind_called(&pod.uid, "n", now);
            }
            Step::Bind { .. } => memory.bind_replied(BindOutcome::Done, &settings, now),
            Step::Confirm => memory.confirmed(),
            Step::Drop { why, debt, pause } => {
                _ = why.to_string();
                memory.dropped(why, debt.clone(), *pause, &settings, now);
            }
        };
        times.step(&format!("{name}: how a step ends"), || done(&mut memory));
        if let Step::Write(write) = &plan.step {
            // The source grants what is reserved.
            view.attempt = write.attempt;
            if let pilotage_candidate::plan::Answer::Reserved { pod, .. } = &write.answer {
                view.reserved = true;
                view.reserved_pod_uid = Some(pod.clone());
                view.grant = pilotage_candidate::view::Grant::Attempt(write.attempt);
            }
        }
        now += Duration::from_secs(2);
    }
}

/// The chaperon controller: what flows from a chaperon to its pod, and back.
fn keep(times: &mut Times, words: &Words, chaperon: &PodChaperon, pod: &Value) {
    let name = words.name;
    let mut pod: RawPod = serde_json::from_value(pod.clone()).expect("a pod");
    times.step(&format!("{name}: trimming a pod"), || pod.trim());
    let mut memory = chaperon::Memory::default();
    let mut now = Duration::from_secs(100);
    for pod in [None, Some(&pod), Some(&pod), Some(&pod), None] {
        for _ in 0..3 {
            let seen = chaperon::Observed {
                chaperon: Some(chaperon),
                pod,
                memory: &memory,
                now,
                wall: Timestamp::UNIX_EPOCH,
            };
            let plan = times.step(&format!("{name}: deciding about a chaperon"), || {
                chaperon::decide(&seen)
            });
            times.step(&format!("{name}: how its request ends"), || {
                memory.begin(&plan, now);
                if let Some(action) = &plan.action {
                    let outcome = match action {
                        Action::LookAtPod { .. } => chaperon::Outcome::NoPod,
                        Action::Change(_) => chaperon::Outcome::Refused("no ".repeat(100_000)),
                        _ => chaperon::Outcome::Done,
                    };
                    memory.finish(action, &outcome, now);
                }
            });
            now += Duration::from_secs(20);
        }
    }
}
