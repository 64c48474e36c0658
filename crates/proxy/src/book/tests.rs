//! Pods that compete for one target: who is asked for, who waits, and who is called when.

use std::{sync::Arc, time::Duration};

use pilotage_api::{PodChaperon, keys, names};
use serde_json::{Value, json};

use super::*;
use crate::plan::{Gate, Note};
use crate::reaction::RefusalKind;

const NOW: Monotonic = Duration::from_secs(1000);

/// One target, which may be asked for one pod at a time.
struct Scene {
    book: Book,
    now: Monotonic,
}

impl Scene {
    fn new() -> Self {
        let mut book = Book::with_window(1);
        book.set_serves("a", Serves::Everybody);
        book.set_reach("a", Reach::Reachable, NOW);
        Self { book, now: NOW }
    }

    fn pod(&mut self, uid: &str, annotations: &Value) {
        self.pod_in("shop", uid, annotations);
    }

    fn pod_in(&mut self, namespace: &str, uid: &str, annotations: &Value) {
        let mut pod = json!({
            "metadata": {
                "namespace": namespace, "name": uid, "uid": uid, "resourceVersion": "1",
                "annotations": { keys::SOURCE_POD_MANIFEST: "{}" },
            },
            "spec": { "containers": [] },
        });
        let all = pod["metadata"]["annotations"].as_object_mut().unwrap();
        all.extend(annotations.as_object().unwrap().clone());
        let pod = serde_json::from_value(pod).unwrap();
        assert!(self.book.proxy_applied(&pod).is_some());
    }

    /// What would be sent.
    fn decide(&mut self, uid: &str) -> Plan {
        let ranking = [Ranked {
            node: "a".to_owned(),
            surely_fits: true,
            class: 0,
            kept_away: false,
        }];
        let turn = Turn {
            ranking: &ranking,
            choice: None,
            settings: &Settings::default(),
            now: self.now,
        };
        self.book.plan(uid, turn).unwrap()
    }

    /// What is sent.
    fn plan(&mut self, uid: &str) -> Plan {
        let plan = self.decide(uid);
        for action in &plan.actions {
            self.book.begin(uid, action, self.now);
        }
        plan
    }

    fn is_silent(&self, node: &str) -> bool {
        self.book.is_silent(node, self.now)
    }

    fn asks(&mut self, uid: &str) -> bool {
        let asks = |action: &Action| matches!(action, Action::Ask { .. });
        self.plan(uid).actions.iter().any(asks)
    }

    fn waits(&mut self, uid: &str) -> bool {
        let plan = self.plan(uid);
        plan.actions.is_empty() && plan.gate == Gate::Closed(Note::Queued) && plan.queue == ["a"]
    }

    /// The question about a pod ends.
    fn answer(&mut self, uid: &str, outcome: Outcome) {
        let reply = Reply {
            outcome,
            chaperon: None,
            proxy: None,
        };
        let action = Action::Ask {
            node: "a".to_owned(),
        };
        let settings = Settings::default();
        let admitted = self.book.answered(uid, &action, reply, &settings, self.now);
        assert_eq!(admitted, Ok(()));
    }

    /// What it answers.
    fn chaperon(&mut self, uid: &str, version: u64, annotations: &Value) -> Option<Reaction> {
        let news = ChaperonNews::Applied(chaperon(uid, version, annotations));
        let mut heard = self.book.chaperon("a", news, self.now);
        let answer = heard.answer.take();
        assert_eq!(heard, news_of(uid));
        answer
    }
}

/// It was news for this parent.
fn news_of(uid: &str) -> Heard {
    Heard {
        parents: vec![uid.to_owned()],
        ..Heard::default()
    }
}

fn chaperon(uid: &str, version: u64, annotations: &Value) -> Arc<PodChaperon> {
    let mut chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": {
            "namespace": "shop", "name": names::chaperon("shop", uid, uid), "uid": format!("c{uid}"),
            "resourceVersion": version.to_string(),
            "labels": { keys::PARENT_UID: uid, keys::PARENT_CLUSTER_UID: "source" },
            "annotations": { keys::PARENT_NAME: uid, keys::PARENT_NAMESPACE: "shop" },
        },
        "spec": { "containers": [] },
    });
    let all = chaperon["metadata"]["annotations"].as_object_mut().unwrap();
    all.extend(annotations.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(chaperon).unwrap())
}

#[test]
fn the_first_in_the_queue_is_called_when_a_pod_is_settled() {
    let mut scene = Scene::new();
    for uid in ["1", "2", "3", "4"] {
        scene.pod(uid, &json!({}));
    }
    assert!(scene.asks("1"));
    assert!(scene.waits("4") && scene.waits("3") && scene.waits("2"));
    scene.answer("1", Outcome::Done);
    scene.chaperon("1", 1, &json!({}));
    scene.plan("1");
    let holds = json!({ keys::ATTEMPT: "1", keys::IS_RESERVED: "true" });
    scene.chaperon("1", 2, &holds);
    scene.plan("1");
    assert!(scene.book.call(NOW).is_empty(), "1 may be granted yet");
    let refuses = json!({ keys::ATTEMPT: "2", keys::REFUSAL: "full" });
    scene.chaperon("1", 3, &refuses);
    scene.plan("1");
    assert_eq!(scene.book.call(NOW), ["2", "3"], "twice what left of late");
    assert!(scene.book.call(NOW).is_empty());
    assert!(scene.waits("4") && scene.asks("3") && scene.asks("2"));
}

#[test]
fn whoever_goes_makes_room_when_nothing_of_it_is_left() {
    let mut scene = Scene::new();
    for uid in ["1", "2", "3", "4"] {
        scene.pod(uid, &json!({}));
    }
    assert!(scene.asks("1"));
    assert!(scene.waits("2") && scene.waits("3") && scene.waits("4"));
    scene.answer("1", Outcome::Done);
    scene.chaperon("1", 1, &json!({}));
    scene.plan("1");
    // A pod in the queue, and the one that was asked for.
    scene.book.proxy_gone("2", NOW);
    scene.book.proxy_gone("1", NOW);
    assert!(
        scene.book.call(NOW).is_empty(),
        "its question is still there"
    );
    let gone = ChaperonNews::Deleted(chaperon("1", 2, &json!({})));
    assert_eq!(scene.book.chaperon("a", gone, NOW), news_of("1"));
    assert_eq!(scene.book.call(NOW), ["3"]);
    assert!(scene.asks("3"));
    // A question that comes to nothing, refused or not.
    scene.answer("3", Outcome::Refused("no such namespace".into()));
    assert_eq!(scene.book.call(NOW), ["4"]);
    scene.book.set_reach("a", Reach::NoSuchTarget, NOW);
    assert!(scene.book.call(NOW).is_empty() && scene.book.wake_at().is_none());
}

#[test]
fn pods_without_reservation_take_nobodys_turn() {
    let mut scene = Scene::new();
    scene.pod("1", &json!({ keys::NO_RESERVATION: "" }));
    scene.pod("2", &json!({}));
    scene.chaperon("1", 1, &json!({}));
    scene.plan("1");
    assert!(scene.asks("2"));
}

#[test]
fn whoever_waits_long_enough_is_woken_though_nothing_happens() {
    let mut scene = Scene::new();
    scene.pod("1", &json!({}));
    scene.pod("2", &json!({}));
    assert!(scene.asks("1"));
    assert!(scene.waits("2"));
    let mut called = Vec::new();
    while let Some(at) = scene.book.wake_at().filter(|_| called.len() < 9) {
        assert!(at > scene.now, "time goes on");
        scene.now = at;
        called.push(scene.book.call(at));
        if scene.asks("2") {
            break;
        }
    }
    let still = NOW + Duration::from_secs(10);
    assert_eq!(scene.now, still, "1 stands still: {called:?}");
}

#[test]
fn nobody_speaks_for_anothers_pod_nor_for_anothers_chaperon() {
    let mut scene = Scene::new();
    let mut own = |uid: &str, serves| {
        let book = &mut scene.book;
        book.set_serves(uid, serves);
        book.set_reach(uid, Reach::Reachable, NOW);
    };
    own("tenant", Serves::Namespace("tenant".into()));
    own("twin", Serves::Namespace("shop".into()));
    scene.pod("1", &json!({ keys::GRANTED_TO: "a/c1/1" }));
    let granted =
        json!({ keys::ATTEMPT: "1", keys::ALLOWED_ATTEMPT: "1", keys::IS_RESERVED: "true" });
    let forged = || ChaperonNews::Applied(chaperon("1", 9, &granted));
    let away = Heard {
        turned_away: Some(TurnedAway::Namespace),
        ..Heard::default()
    };
    assert_eq!(scene.book.chaperon("tenant", forged(), NOW), away);
    let deleted = ChaperonNews::Deleted(chaperon("1", 9, &granted));
    assert_eq!(scene.book.chaperon("tenant", deleted.clone(), NOW), away);
    assert!(scene.book.chaperons("1").is_empty());
    // A second target of the same namespace: what it says of that UID says nothing of a's.
    scene.chaperon("1", 3, &granted);
    assert_eq!(scene.book.chaperon("twin", forged(), NOW), news_of("1"));
    assert_eq!(scene.book.chaperon("twin", deleted, NOW), news_of("1"));
    let record = "a/c1/1".parse().unwrap();
    assert!(!scene.book.proxies["1"].memory.is_over(&record));
    assert!(scene.asks("1") || scene.plan("1").gate == Gate::Closed(Note::Granted("a".into())));
    // What was said of a UID before its pod was known goes when the pod turns out to be another one.
    let early = ChaperonNews::Applied(chaperon("2", 9, &granted));
    assert_eq!(scene.book.chaperon("a", early, NOW), news_of("2"));
    let mut elsewhere = serde_json::from_value::<Pod>(json!({
        "metadata": { "namespace": "other", "name": "2", "uid": "2", "resourceVersion": "1" },
        "spec": { "containers": [] },
    }));
    scene.book.proxy_applied(elsewhere.as_mut().unwrap());
    assert!(scene.book.chaperons("2").is_empty());
}

fn words() -> Words {
    Words {
        reason: "Waiting",
        message: "for a turn".to_owned(),
    }
}

#[test]
fn few_conditions_are_written_at_once() {
    let mut scene = Scene::new();
    let says = |plan: &Plan| {
        let mut says = plan.actions.iter();
        says.find(|action| matches!(action, Action::Say { .. }))
            .cloned()
    };
    let mut said = Vec::new();
    for uid in ["1", "2", "3", "4", "5"] {
        scene.pod(uid, &json!({ keys::GRANTED_TO: "nowhere/u/1" }));
        scene.book.say(uid, Some(words()));
        said.extend(says(&scene.plan(uid)));
    }
    assert_eq!(said.len(), SAYS_AT_ONCE);
    assert!(says(&scene.plan("5")).is_none());
    assert!(scene.book.call(NOW).is_empty());
    let reply = Reply::from(Outcome::Done);
    let settled = scene
        .book
        .answered("1", &said[0], reply, &Settings::default(), NOW);
    assert_eq!(settled, Ok(()));
    assert_eq!(scene.book.call(NOW), ["5"]);
    assert!(says(&scene.plan("5")).is_some());
}

#[test]
fn who_has_words_first_says_them_first() {
    let mut scene = Scene::new();
    let says = |plan: &Plan| {
        let mut says = plan.actions.iter();
        says.find(|action| matches!(action, Action::Say { .. }))
            .cloned()
    };
    let mut said = Vec::new();
    for uid in ["1", "2", "3", "4", "9", "8"] {
        scene.pod(uid, &json!({ keys::GRANTED_TO: "nowhere/u/1" }));
        scene.book.say(uid, Some(words()));
        said.extend(says(&scene.plan(uid)).map(|say| (uid, say)));
    }
    assert_eq!(said.len(), SAYS_AT_ONCE);
    let mut end = |scene: &mut Scene| {
        let (uid, say) = said.pop().unwrap();
        let reply = Reply::from(Outcome::Done);
        let settings = Settings::default();
        let settled = scene.book.answered(uid, &say, reply, &settings, NOW);
        assert_eq!(settled, Ok(()));
        // It has said what it had to.
        scene.book.say(uid, None);
    };
    end(&mut scene);
    // One that comes now waits as well, however early its UID is.
    scene.pod("0", &json!({ keys::GRANTED_TO: "nowhere/u/1" }));
    scene.book.say("0", Some(words()));
    assert!(says(&scene.plan("0")).is_none());
    assert_eq!(scene.book.call(NOW), ["9"]);
    assert!(says(&scene.plan("9")).is_some());
    assert!(scene.book.call(NOW).is_empty());
    end(&mut scene);
    assert_eq!(scene.book.call(NOW), ["8"]);
    // It couldn't decide.
    scene.book.pass("8");
    assert_eq!(scene.book.call(NOW), ["0"]);
    assert!(says(&scene.plan("0")).is_some());
}

#[test]
fn words_of_another_namespace_wait_for_one_of_each() {
    let mut scene = Scene::new();
    let mut said = Vec::new();
    let all = ["1", "2", "3", "4", "5", "6", "7"].map(|uid| ("shop", uid));
    for (namespace, uid) in all.into_iter().chain([("garden", "g")]) {
        scene.pod_in(namespace, uid, &json!({ keys::GRANTED_TO: "nowhere/u/1" }));
        scene.book.say(uid, Some(words()));
        let mut actions = scene.plan(uid).actions.into_iter();
        let says = actions.find(|action| matches!(action, Action::Say { .. }));
        said.extend(says.map(|say| (uid, say)));
    }
    assert_eq!(said.len(), SAYS_AT_ONCE);
    for (uid, say) in &said[..2] {
        let (reply, settings) = (Reply::from(Outcome::Done), Settings::default());
        let settled = scene.book.answered(uid, say, reply, &settings, NOW);
        assert_eq!(settled, Ok(()));
    }
    assert_eq!(scene.book.call(NOW), ["5", "g"]);
}

#[test]
fn what_was_never_sent_is_decided_again() {
    let mut scene = Scene::new();
    for uid in ["1", "2"] {
        scene.pod(uid, &json!({}));
    }
    // The step that was to send it panicked.
    let lost = scene.decide("1");
    let again = scene.decide("1");
    assert!(lost.asks() && again.asks());
    // It takes nobody's turn, either.
    assert!(scene.asks("2"));
}

#[test]
fn words_that_were_never_sent_take_no_turn() {
    let mut scene = Scene::new();
    let says = |plan: &Plan| {
        let says = |action: &Action| matches!(action, Action::Say { .. });
        plan.actions.iter().any(says)
    };
    let uids: Vec<String> = (0..=SAYS_AT_ONCE).map(|n| n.to_string()).collect();
    for uid in &uids {
        scene.pod(uid, &json!({}));
        scene.book.say(uid, Some(words()));
    }
    for uid in &uids {
        assert!(says(&scene.decide(uid)));
    }
    for uid in &uids[1..] {
        assert!(says(&scene.plan(uid)));
    }
    assert!(!says(&scene.plan(&uids[0])), "enough are on their way");
}

#[test]
fn who_drops_a_question_is_silent_until_it_answers_one() {
    let mut scene = Scene::new();
    scene.pod("1", &json!({}));
    assert!(scene.asks("1"));
    assert!(!scene.is_silent("a"));
    scene.answer("1", Outcome::Unknown("no answer".to_owned()));
    assert!(scene.is_silent("a"));
    scene.chaperon(
        "1",
        1,
        &json!({ keys::ATTEMPT: "1", keys::IS_RESERVED: "true" }),
    );
    assert!(!scene.is_silent("a"));
    // One that answers others just now has merely lost this one.
    scene.pod("2", &json!({}));
    scene.plan("1");
    scene.answer("2", Outcome::Unknown("no answer".to_owned()));
    assert!(!scene.is_silent("a"));
    scene.now += Settings::default().silence;
    scene.answer("2", Outcome::Unknown("no answer".to_owned()));
    assert!(scene.is_silent("a"));
    scene.book.set_reach("a", Reach::Reachable, scene.now);
    assert!(!scene.is_silent("a"), "it was lost, and is back");
}

#[test]
fn who_owes_an_answer_while_others_are_asked_is_silent() {
    let mut scene = Scene::new();
    scene.book.set_serves("b", Serves::Everybody);
    scene.book.set_reach("b", Reach::Reachable, NOW);
    scene.pod("1", &json!({}));
    assert!(scene.asks("1"));
    let settings = Settings::default();
    for wait in [settings.silence, settings.patience] {
        scene.book.set_reach("a", Reach::Reachable, scene.now);
        scene.now += wait;
        let ranking = ["a", "b"].map(|node| Ranked {
            node: node.to_owned(),
            surely_fits: true,
            class: 0,
            kept_away: false,
        });
        let turn = Turn {
            ranking: &ranking,
            choice: None,
            settings: &settings,
            now: scene.now,
        };
        let plan = scene.book.plan("1", turn).unwrap();
        assert!(plan.asks() && scene.is_silent("a"), "{plan:?}");
        assert!(!scene.is_silent("b"));
    }
}

#[test]
fn who_was_silent_stays_so_whatever_silence_is_later_and_not_for_ever() {
    let mut scene = Scene::new();
    scene.book.targets.answered("a", scene.now);
    scene.now += Duration::from_millis(300);
    let now = scene.now;
    scene
        .book
        .targets
        .let_pass("a", Duration::from_millis(250), now);
    assert!(scene.is_silent("a"));
    scene.now += Duration::from_secs(1);
    let now = scene.now;
    scene
        .book
        .targets
        .let_pass("a", Duration::from_secs(5), now);
    assert!(scene.is_silent("a"), "under load silence is longer");
    scene.now += Duration::from_mins(1);
    assert!(!scene.is_silent("a"), "somebody has to ask it again");
}

#[test]
fn who_is_answered_by_somebody_elses_chaperon_was_not_answered() {
    let mut scene = Scene::new();
    scene.pod("1", &json!({}));
    scene.pod("2", &json!({}));
    assert!(scene.asks("1"));
    let mut other = (*chaperon("2", 1, &json!({}))).clone();
    other.metadata.name = Some("anything".to_owned());
    let reply = Reply {
        chaperon: Some(Arc::new(other)),
        ..Outcome::Done.into()
    };
    let ask = Action::Ask {
        node: "a".to_owned(),
    };
    let settings = Settings::default();
    let admitted = scene.book.answered("1", &ask, reply, &settings, scene.now);
    assert!(admitted.is_err());
    assert!(scene.is_silent("a"));
    assert!(!scene.asks("1"), "not at once");
}

#[test]
fn a_pod_that_cannot_decide_gives_its_turn_back() {
    let mut scene = Scene::new();
    for uid in ["1", "2", "3"] {
        scene.pod(uid, &json!({}));
    }
    assert!(scene.asks("1") && scene.waits("2") && scene.waits("3"));
    scene.answer("1", Outcome::Refused("full".to_owned()));
    scene.now += Duration::from_secs(10);
    let called = scene.book.call(scene.now);
    assert_eq!(called, ["2"]);
    assert!(scene.book.call(scene.now).is_empty());
    scene.book.pass("2");
    assert_eq!(scene.book.call(scene.now), ["3"]);
}

#[test]
fn who_only_stands_by_keeps_few_proofs_and_the_one_that_a_record_needs() {
    let mut scene = Scene::new();
    scene.pod("1", &json!({ keys::GRANTED_TO: "a/c0/1" }));
    for number in 0..100 {
        let mut last = chaperon("1", 1, &json!({}));
        Arc::make_mut(&mut last).metadata.uid = Some(format!("c{number}"));
        let heard = scene.book.chaperon("a", ChaperonNews::Deleted(last), NOW);
        assert_eq!(heard, news_of("1"));
    }
    let memory = &scene.book.proxies["1"].memory;
    let known = |number: &u32| memory.is_gone("a", &format!("c{number}"));
    assert!((0..100).filter(known).count() <= 33 && known(&0));
}

#[test]
fn a_target_that_comes_and_goes_concerns_only_whom_it_serves_or_who_names_it() {
    let mut scene = Scene::new();
    let (own, all) = (Serves::Namespace("shop".into()), Serves::Everybody);
    scene
        .book
        .set_serves("tenant", Serves::Namespace("tenant".into()));
    scene.book.set_serves("a", own);
    scene.book.set_serves("everybodys", all);
    scene.pod("1", &json!({}));
    scene.pod("2", &json!({ keys::GRANTED_TO: "nowhere/u/1" }));
    let concerned = |node| -> Vec<String> {
        let mut uids = scene.book.concerned(node);
        uids.sort();
        uids
    };
    assert_eq!(concerned("tenant"), [""; 0]);
    assert_eq!(concerned("a"), ["1", "2"]);
    assert_eq!(concerned("everybodys"), ["1", "2"]);
    assert_eq!(concerned("nowhere"), ["2"], "its record names it");
}

#[test]
fn an_answer_after_its_targets_end_does_not_bring_it_back() {
    for outcome in [Outcome::Unknown("too late".into()), Outcome::Done] {
        let mut scene = Scene::new();
        scene.pod("one", &json!({}));
        assert!(scene.asks("one"));
        scene.book.set_reach("a", Reach::NoSuchTarget, scene.now);
        scene.answer("one", outcome);
        assert!(scene.book.targets.get("a").is_none());
        assert_eq!(scene.book.targets.serving("bank").count(), 0);
    }
}

#[test]
fn only_what_is_answered_to_this_process_is_told_as_an_answer() {
    let mut scene = Scene::new();
    scene.pod("1", &json!({}));
    let reserved = json!({ keys::ATTEMPT: "1", keys::IS_RESERVED: keys::TRUE });
    let granted = json!({
        keys::ATTEMPT: "1", keys::IS_RESERVED: keys::TRUE, keys::ALLOWED_ATTEMPT: "1",
    });
    let expired = json!({ keys::ATTEMPT: "2", keys::REFUSAL: "Expired" });
    // It stood there when this process began.
    assert_eq!(scene.chaperon("1", 1, &reserved), None);
    scene.plan("1");
    assert_eq!(scene.chaperon("1", 2, &granted), None, "our own word");
    let why = RefusalKind::Expired;
    assert_eq!(
        scene.chaperon("1", 3, &expired),
        Some(Reaction::Refused(why))
    );
    // It makes room for the next one.
    scene.plan("1");

    scene.pod("2", &json!({}));
    assert!(scene.asks("2"));
    scene.answer("2", Outcome::Done);
    assert_eq!(scene.chaperon("2", 1, &json!({})), None);
    assert_eq!(scene.chaperon("2", 2, &reserved), Some(Reaction::Reserved));
    assert_eq!(scene.chaperon("2", 3, &reserved), None, "said already");
}
