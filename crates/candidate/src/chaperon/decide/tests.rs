//! One test a row of the table of the protocol's chaperon controller.

use pilotage_api::PodChaperon;

use super::{
    super::memory::{Memory, Outcome},
    *,
};

const NOW: &str = "2024-02-03T04:05:06Z";

struct Case {
    chaperon: Option<Value>,
    pod: Option<Value>,
    memory: Memory,
    now: Duration,
}

fn chaperon(annotations: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "uid": "c1", "resourceVersion": "7",
            "labels": { keys::PARENT_UID: "u" }, "annotations": annotations },
        "spec": { "schedulerName": "admiralty-candidate" },
    })
}

fn numbered() -> Value {
    chaperon(&json!({ keys::ATTEMPT: "0", keys::ALLOWED_ATTEMPT: "0" }))
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "web", "uid": "p1", "ownerReferences": [{
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "name": "web", "uid": "c1", "controller": true }] },
        "status": { "phase": "Pending" },
    })
}

fn ending(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = NOW.into();
    object
}

impl Case {
    fn new(chaperon: Option<Value>, pod: Option<Value>) -> Self {
        Self {
            chaperon,
            pod,
            memory: Memory::default(),
            now: Duration::from_secs(100),
        }
    }

    fn plan(&mut self) -> Plan {
        let chaperon: Option<PodChaperon> = self
            .chaperon
            .clone()
            .map(|c| serde_json::from_value(c).unwrap());
        let pod: Option<RawPod> = self.pod.clone().map(|p| serde_json::from_value(p).unwrap());
        let plan = decide(&Observed {
            chaperon: chaperon.as_ref(),
            pod: pod.as_ref(),
            memory: &self.memory,
            now: self.now,
            wall: NOW.parse().unwrap(),
        });
        self.memory.begin(&plan, self.now);
        plan
    }

    fn action(&mut self) -> Option<Action> {
        self.plan().action
    }

    /// The action ends so; returns it.
    fn ends(&mut self, outcome: &Outcome) -> Action {
        let action = self.action().expect("an action was due");
        self.memory.finish(&action, outcome, self.now);
        action
    }
}

#[test]
fn a_new_chaperon_gets_its_pod() {
    assert_eq!(
        Case::new(Some(numbered()), None).action(),
        Some(Action::CreatePod)
    );
}

/// What isn't kept of an object.
fn without(mut object: Value, word: &str) -> Value {
    object["metadata"]["annotations"][pilotage_api::left_out::MARK] = word.into();
    object
}

#[test]
fn a_chaperon_without_its_spec_is_read_whole_before_its_pod_is_made() {
    for word in ["spec", "words"] {
        let mut case = Case::new(Some(without(numbered(), word)), None);
        let plan = case.plan();
        assert!(plan.reads && plan.action.is_none(), "{word}: {plan:?}");
        case.chaperon = Some(numbered());
        assert_eq!(
            case.ends(&Outcome::Refused("quota".into())),
            Action::CreatePod
        );
        // It is said first, and read again when it is tried again.
        case.chaperon = Some(without(numbered(), word));
        assert!(matches!(case.action(), Some(Action::SayRefused(_))));
    }
}

#[test]
fn a_chaperon_that_is_too_heavy_to_be_read_is_refused_and_keeps_nothing_else() {
    let mut case = Case::new(Some(without(numbered(), "all")), None);
    let Action::SayRefused(patch) = case.ends(&Outcome::Done) else {
        panic!("it is refused");
    };
    let said = &patch["status"]["conditions"][0];
    assert_eq!(said["reason"], keys::CANDIDATE_REFUSED);
    assert!(said["message"].as_str().unwrap().contains("over 8 MiB"));
    case.chaperon.as_mut().unwrap()["status"] = patch["status"].clone();
    assert_eq!(case.ends(&Outcome::Done), Action::Tell(Note::TooHeavy));
    assert_eq!(case.plan(), Plan::default());

    // One that has its pod goes on, and its changes go nowhere.
    let mut grown = without(numbered(), "all");
    grown["metadata"]["generation"] = 2.into();
    let mut bound = pod();
    bound["spec"] = json!({ "nodeName": "n" });
    let scheduled = json!({ "type": "PodScheduled", "status": "True" });
    bound["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1", "conditions": [scheduled] });
    let mut case = Case::new(Some(grown), Some(bound));
    assert_eq!(case.ends(&Outcome::Done), Action::Tell(Note::TooHeavy));
    case.now += GATHER;
    let Action::CopyStatus(patch) = case.ends(&Outcome::Done) else {
        panic!("that it has a place is told");
    };
    assert_eq!(
        patch["status"],
        json!({ "phase": "Running", "conditions": [scheduled] })
    );
    case.chaperon.as_mut().unwrap()["status"] = patch["status"].clone();
    assert_eq!(case.ends(&Outcome::Done), Action::Tell(Note::Heavy));
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn a_change_of_a_chaperon_without_its_spec_is_read_whole_and_its_status_waits_for_nothing() {
    let mut grown = without(numbered(), "spec");
    grown["metadata"]["generation"] = 2.into();
    let mut bound = pod();
    bound["spec"] = json!({ "nodeName": "n" });
    let scheduled = json!({ "type": "PodScheduled", "status": "True" });
    bound["status"] = json!({ "phase": "Running", "startTime": NOW, "conditions": [scheduled] });
    let mut case = Case::new(Some(grown), Some(bound));
    let plan = case.plan();
    let copies = matches!(plan.action, Some(Action::CopyStatus(_)));
    assert!(plan.reads && copies, "{plan:?}");
}

#[test]
fn finalizers_that_arent_known_are_not_written_over() {
    for (word, goes) in [("all", true), ("finalizers", false)] {
        let mut ends = without(ending(numbered()), word);
        ends["metadata"]["finalizers"] = json!([keys::DELEGATE_GONE]);
        let mut case = Case::new(Some(ends), None);
        case.memory.pod_deleted("p1");
        let action = case.ends(&Outcome::Done);
        assert_eq!(matches!(action, Action::Mark(_)), goes, "{action:?}");
    }
}

#[test]
fn a_pod_that_is_made_only_after_the_choice_waits_for_it() {
    let mut own = numbered();
    own["spec"]["schedulerName"] = "default-scheduler".into();
    assert_eq!(Case::new(Some(own.clone()), None).plan(), Plan::default());
    let mut refused = own.clone();
    refused["status"] = json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "CandidateRefused" }] });
    assert_eq!(
        Case::new(Some(refused), None).action(),
        Some(Action::CopyStatus(
            json!({ "metadata": { "uid": "c1" }, "status": { "conditions": null } })
        )),
        "the reason is over"
    );
    own["metadata"]["annotations"][keys::ALLOWED_ATTEMPT] = "1".into();
    assert_eq!(Case::new(Some(own), None).action(), Some(Action::CreatePod));
    // A source without numbers grants by creating.
    let mut plain = chaperon(&json!({}));
    plain["spec"]["schedulerName"] = "default-scheduler".into();
    assert_eq!(
        Case::new(Some(plain), None).action(),
        Some(Action::CreatePod)
    );
}

#[test]
fn the_gate_of_a_pod_goes_once_the_living_chaperon_names_it() {
    let mut own = numbered();
    own["spec"]["schedulerName"] = "default-scheduler".into();
    own["metadata"]["annotations"][keys::ALLOWED_ATTEMPT] = "1".into();
    let mut gated = pod();
    gated["metadata"]["resourceVersion"] = "4".into();
    gated["spec"]["schedulingGates"] = json!([{ "name": keys::UNNAMED }, { "name": "a/b" }]);
    let mut case = Case::new(Some(own), Some(gated));
    let Action::Mark(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    assert_eq!(
        patch["metadata"],
        json!({ "uid": "c1", "resourceVersion": "7",
            "annotations": { keys::RESERVED_POD_UID: "p1" } })
    );
    // Named before, it was another pod's name.
    let annotations = &mut case.chaperon.as_mut().unwrap()["metadata"]["annotations"];
    annotations[keys::RESERVED_POD_UID] = "p0".into();
    assert!(matches!(case.action(), Some(Action::Mark(_))));
    let annotations = &mut case.chaperon.as_mut().unwrap()["metadata"]["annotations"];
    annotations[keys::RESERVED_POD_UID] = "p1".into();
    assert_eq!(
        case.action(),
        Some(Action::Ungate(json!({
            "metadata": { "uid": "p1", "resourceVersion": "4" },
            "spec": { "schedulingGates": [{ "name": "a/b" }] },
        })))
    );
    // An ending chaperon frees nobody.
    case.chaperon = case.chaperon.map(ending);
    assert!(matches!(case.action(), Some(Action::DeletePod { .. })));
}

#[test]
fn an_ending_chaperon_still_says_that_its_pod_is_bound() {
    let mut ending = numbered();
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    ending["metadata"]["finalizers"] = json!([keys::DELEGATE_GONE]);
    ending["metadata"]["annotations"][keys::RESERVED_POD_UID] = "p1".into();
    let mut leaving = pod();
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut unbound = Case::new(Some(ending.clone()), Some(leaving.clone()));
    assert_eq!(unbound.plan(), Plan::default());
    leaving["spec"]["nodeName"] = "n1".into();
    leaving["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "True" }]);
    let mut bound = Case::new(Some(ending.clone()), Some(leaving.clone()));
    assert!(matches!(bound.action(), Some(Action::CopyStatus(_))));
    ending["status"] = leaving["status"].clone();
    let mut told = Case::new(Some(ending), Some(leaving));
    assert_eq!(told.plan(), Plan::default());
}

#[test]
fn a_chaperon_that_is_given_up_loses_its_pod_unless_it_is_bound_and_gets_no_other() {
    let mut given_up = numbered();
    given_up["metadata"]["annotations"][keys::ALLOWED_ATTEMPT] = "1".into();
    given_up["metadata"]["annotations"][keys::GIVE_UP] = keys::TRUE.into();
    let mut unbound = pod();
    unbound["metadata"]["resourceVersion"] = "4".into();
    let mut case = Case::new(Some(given_up.clone()), Some(unbound.clone()));
    let end = Action::EndUnbound {
        uid: "p1".into(),
        resource_version: "4".into(),
    };
    // The pod moved on: perhaps it was bound.
    assert_eq!(case.ends(&Outcome::Failed("conflict".into())), end);
    assert!(case.plan().wake_at.is_some());
    let mut bound = unbound.clone();
    bound["spec"]["nodeName"] = "n1".into();
    bound["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "True" }]);
    let mut is_bound = Case::new(Some(given_up.clone()), Some(bound));
    assert!(matches!(is_bound.action(), Some(Action::CopyStatus(_))));
    // It went: that it is missing is told once it is proved, whether it was ever seen or not.
    case.now += Duration::from_mins(1);
    assert_eq!(case.ends(&Outcome::Done), end);
    assert_eq!(case.plan(), Plan::default());
    case.pod = None;
    case.memory.pod_deleted("p1");
    assert!(matches!(case.action(), Some(Action::Mark(_))));
    let mut never = Case::new(Some(given_up.clone()), None);
    assert_eq!(
        never.ends(&Outcome::NoPod),
        Action::LookAtPod { expected: None }
    );
    assert!(matches!(never.action(), Some(Action::Mark(_))));
    given_up["metadata"]["annotations"][keys::POD_MISSING_SINCE] = "2020-01-01T00:00:00Z".into();
    assert_eq!(Case::new(Some(given_up), None).plan(), Plan::default());
}

#[test]
fn a_chaperon_without_parent_gets_no_pod_and_says_so() {
    let mut orphan = numbered();
    orphan["metadata"]["labels"] = json!({});
    let mut case = Case::new(Some(orphan), None);
    let Action::SayRefused(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    case.chaperon.as_mut().unwrap()["status"] = patch["status"].clone();
    assert_eq!(case.ends(&Outcome::Done), Action::Tell(Note::NoParent));
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn a_refused_pod_is_an_answer_with_the_servers_words_and_is_tried_again() {
    let mut case = Case::new(Some(numbered()), None);
    assert_eq!(
        case.ends(&Outcome::Refused("no such class".into())),
        Action::CreatePod
    );
    let Action::SayRefused(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    assert_eq!(patch["metadata"]["uid"], "c1");
    assert_eq!(
        patch["status"]["conditions"][0]["reason"],
        "CandidateRefused"
    );
    assert_eq!(patch["status"]["conditions"][0]["message"], "no such class");
    case.chaperon.as_mut().unwrap()["status"] = patch["status"].clone();
    let note = Note::Refused("no such class".into());
    assert_eq!(case.ends(&Outcome::Done), Action::Tell(note));
    let plan = case.plan();
    assert_eq!(
        (plan.action, plan.wake_at),
        (None, Some(case.now + Duration::from_millis(500)))
    );
    case.now += Duration::from_secs(1);
    assert_eq!(case.action(), Some(Action::CreatePod));
}

#[test]
fn refusals_that_differ_each_time_fill_no_memory() {
    let mut memory = Memory::default();
    let note = |number: u32| Note::Refused(number.to_string());
    for number in 0..17 {
        memory.finish(&Action::Tell(note(number)), &Outcome::Done, Duration::ZERO);
    }
    for number in 0..17 {
        let is_known = memory.was_told(&note(number));
        assert_eq!(is_known, number > 0, "{number}: sixteen are remembered");
    }
}

#[test]
fn a_pod_of_somebody_else_is_left_alone_and_said() {
    let mut foreign = pod();
    foreign["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into();
    let mut case = Case::new(Some(numbered()), Some(foreign));
    let Action::SayRefused(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    case.chaperon.as_mut().unwrap()["status"] = patch["status"].clone();
    assert_eq!(case.ends(&Outcome::Done), Action::Tell(Note::NameTaken));
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn the_pod_of_another_chaperon_of_that_name_is_the_garbage_collectors() {
    let mut other = pod();
    other["metadata"]["ownerReferences"][0]["uid"] = "c0".into();
    // Which of the two is old news can't be told from stores.
    assert_eq!(
        Case::new(Some(numbered()), Some(other)).plan(),
        Plan::default()
    );
}

#[test]
fn a_missing_pod_is_marked_only_when_it_is_proved_to_be_missing() {
    let mut had = numbered();
    had["status"] =
        json!({ "phase": "Running", "conditions": [{ "type": "PodScheduled", "status": "True" }] });
    let marked = |case: &mut Case| {
        let Some(Action::Mark(patch)) = case.action() else {
            panic!()
        };
        patch
    };
    // The store lags: a live read comes first.
    let mut case = Case::new(Some(had.clone()), None);
    assert_eq!(
        case.ends(&Outcome::NoPod),
        Action::LookAtPod { expected: None }
    );
    assert_eq!(
        marked(&mut case),
        json!({ "metadata": { "uid": "c1", "resourceVersion": "7", "annotations": {
            keys::POD_MISSING_SINCE: NOW, keys::WAS_BOUND: "true" } } })
    );
    // Its end was seen.
    let mut case = Case::new(Some(had), None);
    case.memory.pod_deleted("p1");
    marked(&mut case);
    // It never was bound; that a scheduler had tried it says that it existed.
    let tried = chaperon(&json!({ keys::ATTEMPT: "1", keys::ALLOWED_ATTEMPT: "0" }));
    let mut case = Case::new(Some(tried), None);
    case.memory.pod_deleted("p1");
    assert_eq!(
        marked(&mut case)["metadata"]["annotations"].get(keys::WAS_BOUND),
        None
    );
}

#[test]
fn a_missing_pod_is_made_again_after_a_minute_if_it_is_to_restart() {
    let missing = |since: &str, policy: &str| {
        let mut chaperon = numbered();
        chaperon["metadata"]["annotations"][keys::POD_MISSING_SINCE] = since.into();
        chaperon["spec"]["restartPolicy"] = policy.into();
        Case::new(Some(chaperon), None)
    };
    let later = |case: &mut Case, seconds: u64| {
        case.now = Duration::from_secs(100 + seconds);
        case.plan()
    };
    // Whatever the clock of the process showed that wrote the mark: five minutes less, or more, than this one's.
    let mut marks = Vec::new();
    for since in ["2024-02-03T03:59:00Z", NOW, "2024-02-03T04:10:00Z"] {
        let mut case = missing(since, "Always");
        for seconds in [0, 1, 59] {
            let plan = later(&mut case, seconds);
            assert_eq!(
                (plan.action, plan.wake_at),
                (None, Some(Duration::from_secs(160))),
                "{since}"
            );
        }
        for seconds in [60, 61] {
            let plan = later(&mut case, seconds);
            let Some(Action::Mark(patch)) = &plan.action else {
                panic!("{plan:?}")
            };
            assert_eq!(
                patch["metadata"]["annotations"],
                json!({ keys::POD_MISSING_SINCE: null })
            );
            marks.extend(plan.action);
        }
    }
    // The source can't take it for missing any more; then another pod is made.
    let mut chaperon = numbered();
    chaperon["status"]["phase"] = "Running".into();
    let mut case = Case::new(Some(chaperon), None);
    case.memory.finish(&marks[0], &Outcome::Done, case.now);
    assert_eq!(case.action(), Some(Action::CreatePod));
    // A restart in between has to find out anew that it is missing.
    case.memory = Memory::default();
    assert!(matches!(case.action(), Some(Action::LookAtPod { .. })));
    assert_eq!(missing(NOW, "Never").plan(), Plan::default());
}

#[test]
fn a_pod_of_its_own_is_copied_soon_when_it_is_bound_and_gathered_otherwise() {
    let mut bound = pod();
    bound["spec"] = json!({ "nodeName": "n" });
    bound["status"] =
        json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "True" }] });
    let mut case = Case::new(Some(numbered()), Some(bound.clone()));
    let plan = case.plan();
    assert_eq!(
        (plan.action, plan.wake_at),
        (None, Some(case.now + FIRST_WORD))
    );
    // The kubelet's word comes before that.
    bound["status"]["startTime"] = json!(NOW);
    case.pod = Some(bound.clone());
    let Action::CopyStatus(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    assert_eq!(
        patch,
        json!({ "metadata": { "uid": "c1" }, "status": bound["status"] })
    );
    case.chaperon.as_mut().unwrap()["status"] = bound["status"].clone();
    assert_eq!(case.plan(), Plan::default());

    case.pod.as_mut().unwrap()["status"]["phase"] = "Running".into();
    let due = case.now + GATHER;
    assert_eq!(
        case.plan(),
        Plan {
            action: None,
            dirty: true,
            wake_at: Some(due),
            ..Plan::default()
        }
    );
    case.now += GATHER / 2;
    case.pod.as_mut().unwrap()["status"]["podIP"] = "10.0.0.1".into();
    assert_eq!(
        case.plan().wake_at,
        Some(due),
        "the first change starts the clock"
    );
    case.now = due;
    let Action::CopyStatus(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    assert_eq!(
        patch["status"],
        json!({ "phase": "Running", "podIP": "10.0.0.1" })
    );
}

#[test]
fn a_pod_that_exists_is_not_missing() {
    let mut case = Case::new(
        Some(chaperon(
            &json!({ keys::ALLOWED_ATTEMPT: "1", keys::POD_MISSING_SINCE: NOW, keys::WAS_BOUND: "true" }),
        )),
        Some(pod()),
    );
    let Action::CopyAnnotations(patch) = case.ends(&Outcome::Done) else {
        panic!()
    };
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({ keys::POD_MISSING_SINCE: null })
    );
}

#[test]
fn an_ending_chaperon_takes_its_pod_along() {
    let mut case = Case::new(Some(ending(numbered())), Some(pod()));
    assert_eq!(
        case.ends(&Outcome::Done),
        Action::DeletePod { uid: "p1".into() }
    );
    case.pod = Some(ending(pod()));
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn our_finalizer_goes_when_the_reserved_pod_is_proved_to_be_gone() {
    let mut granted = ending(chaperon(
        &json!({ keys::RESERVED_POD_UID: "p1", keys::ALLOWED_ATTEMPT: "1" }),
    ));
    granted["metadata"]["finalizers"] = json!(["x/y", keys::DELEGATE_GONE]);
    let lifted = Action::Mark(json!({ "metadata": {
        "uid": "c1", "resourceVersion": "7", "finalizers": ["x/y"] } }));
    // While the store shows it, its end will be an event.
    let mut case = Case::new(Some(granted.clone()), Some(ending(pod())));
    assert_eq!(case.plan(), Plan::default());
    case.pod = None;
    case.memory.pod_deleted("p1");
    assert_eq!(case.action(), Some(lifted.clone()));
    // Without the event: a live read, which says 404…
    let mut case = Case::new(Some(granted.clone()), None);
    assert_eq!(
        case.ends(&Outcome::NoPod),
        Action::LookAtPod {
            expected: Some("p1".into())
        }
    );
    assert_eq!(case.action(), Some(lifted.clone()));
    // (The reply to that has no newer version: the object went with its last finalizer.)
    case.ends(&Outcome::Done);
    assert_eq!(case.plan(), Plan::default());
    // …or another UID…
    let mut case = Case::new(Some(granted.clone()), None);
    case.ends(&Outcome::Pod("p2".into()));
    assert_eq!(case.action(), Some(lifted.clone()));
    // …or that it is there: then nothing is lifted, and it is asked again later.
    let mut case = Case::new(Some(granted), None);
    case.ends(&Outcome::Pod("p1".into()));
    let plan = case.plan();
    assert_eq!((plan.action, plan.wake_at.is_some()), (None, true));
}

#[test]
fn the_unbound_pod_of_a_chaperon_that_was_seen_going_goes_too() {
    let mut case = Case::new(None, Some(pod()));
    assert_eq!(
        case.plan(),
        Plan::default(),
        "not in the store is no evidence"
    );
    case.memory.chaperon_deleted("c1", case.now);
    let plan = case.plan();
    assert_eq!(
        (plan.action, plan.wake_at),
        (None, Some(case.now + COLLECTION)),
        "the garbage collector comes first"
    );
    case.now += COLLECTION;
    assert_eq!(case.action(), Some(Action::DeletePod { uid: "p1".into() }));
    case.pod.as_mut().unwrap()["spec"] = json!({ "nodeName": "n" });
    assert_eq!(case.plan(), Plan::default());
}

#[test]
fn a_pod_that_a_gone_chaperon_left_makes_way_for_the_next_one_at_once() {
    let mut next = numbered();
    next["metadata"]["uid"] = "c2".into();
    let mut case = Case::new(Some(next), Some(pod()));
    assert_eq!(case.plan(), Plan::default(), "c1 may be the newer one");
    case.memory.chaperon_deleted("c1", case.now);
    assert_eq!(case.action(), Some(Action::DeletePod { uid: "p1".into() }));
    case.pod.as_mut().unwrap()["spec"] = json!({ "nodeName": "n" });
    assert_eq!(case.plan(), Plan::default());
}
