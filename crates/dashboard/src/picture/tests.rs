use std::collections::BTreeMap;

use pilotage_absurd::proptest::{self, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::rows::Amount;

/// What a page has that takes in each change, by the same rules as `page.js`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Page {
    head: Value,
    targets: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    losses: Value,
}

impl Page {
    fn take(&mut self, change: &Change) {
        for part in change.clone().in_parts() {
            let message = part.message().unwrap();
            let json = message.strip_prefix("data: ").unwrap();
            assert_eq!(json.find('\n'), Some(json.len() - 2), "one line of data");
            let part: Value = serde_json::from_str(json).unwrap();
            let rows = |key: &str| part[key].as_array().cloned().unwrap_or_default();
            assert!(rows("pods").len() <= crate::change::ROWS);
            if part["reset"] == json!(true) {
                *self = Self::default();
            }
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            for node in rows("targetsGone") {
                self.targets.remove(&text(&node));
            }
            for uid in rows("podsGone") {
                self.pods.remove(&text(&uid));
            }
            for row in rows("targets") {
                self.targets.insert(text(&row["node"]), row);
            }
            for row in rows("pods") {
                self.pods.insert(text(&row["uid"]), row);
            }
            for (key, own) in [("head", &mut self.head), ("losses", &mut self.losses)] {
                if !part[key].is_null() {
                    *own = part[key].clone();
                }
            }
        }
    }

    fn of(picture: &Picture) -> Self {
        let mut page = Self::default();
        page.take(&picture.whole(0));
        page
    }

    /// Each count is that of the rows, if all are listed.
    fn counts_fit(&self) {
        let count = |of: &dyn Fn(&Value) -> bool| -> Value {
            let count = |stage: Stage| {
                let stage = serde_json::to_value(stage).unwrap();
                let pods = self.pods.values();
                pods.filter(|pod| pod["stage"] == stage && of(pod)).count()
            };
            json!(Stage::ALL.map(count))
        };
        assert_eq!(self.head["counts"], count(&|_| true));
        for (node, target) in &self.targets {
            assert_eq!(target["counts"], count(&|pod| pod["at"] == json!(node)));
        }
    }
}

fn pod<'a>(uid: &'a str, stage: Stage, at: &'a str) -> PodSeen<'a> {
    PodSeen {
        uid,
        namespace: "shop",
        name: uid,
        stage,
        at,
        why: "",
        since: None,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pod(u8, Stage, Option<u8>, String),
    PodGone(u8),
    Reach(u8, State),
    ReachGone(u8),
    Node(u8, i64, String),
    NodeGone(u8),
    Lose(u8, String),
    Lead(bool),
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let states = [
        State::Connected,
        State::Connecting,
        State::Unseen,
        State::Lost,
    ];
    let pod = (
        0..9_u8,
        proptest::sample::select(Stage::ALL.to_vec()),
        prop::option::of(0..3_u8),
        any::<String>(),
    );
    prop_oneof![
        8 => pod.prop_map(|(uid, stage, at, why)| Step::Pod(uid, stage, at, why)),
        2 => (0..9_u8).prop_map(Step::PodGone),
        2 => (0..3_u8, proptest::sample::select(states.to_vec())).prop_map(|(n, s)| Step::Reach(n, s)),
        1 => (0..3_u8).prop_map(Step::ReachGone),
        2 => (0..3_u8, any::<i64>(), any::<String>()).prop_map(|(n, free, why)| Step::Node(n, free, why)),
        1 => (0..3_u8).prop_map(Step::NodeGone),
        1 => (0..9_u8, any::<String>()).prop_map(|(uid, why)| Step::Lose(uid, why)),
        1 => prop::bool::weighted(0.7).prop_map(Step::Lead),
        3 => Just(Step::Look),
    ]
}

fn play(picture: &mut Picture, step: &Step, now: i64) {
    let node = |n: u8| format!("node-{n}");
    match step {
        Step::Pod(uid, stage, at, why) => {
            let (uid, at) = (format!("uid-{uid}"), at.map(node).unwrap_or_default());
            let seen = PodSeen {
                why,
                ..pod(&uid, *stage, &at)
            };
            picture.see_pod(&seen, now);
        }
        Step::PodGone(uid) => picture.forget_pod(&format!("uid-{uid}")),
        Step::Reach(n, state) => picture.see_reach(&node(*n), *state, now),
        Step::ReachGone(n) => picture.forget_reach(&node(*n), now),
        Step::Node(n, free, why) => {
            let seen = NodeSeen {
                why: why.clone(),
                cpu: Amount {
                    free: Some(*free),
                    all: None,
                },
                ..NodeSeen::default()
            };
            picture.see_node(&node(*n), seen);
        }
        Step::NodeGone(n) => picture.forget_node(&node(*n)),
        Step::Lose(uid, why) => picture.lose("shop", &format!("uid-{uid}"), why, now),
        Step::Lead(leads) => picture.lead(*leads),
        Step::Look => {}
    }
}

proptest! {
    #[test]
    fn what_was_there_and_its_changes_are_what_is_there(
        before in prop::collection::vec(step(), 0..30),
        after in prop::collection::vec(step(), 0..60),
    ) {
        let mut picture = Picture::default();
        for (step, now) in before.iter().zip(0..) {
            play(&mut picture, step, now);
        }
        picture.watch(true);
        let mut page = Page::of(&picture);
        for (step, now) in after.iter().zip(100..) {
            play(&mut picture, step, now);
            if matches!(step, Step::Look) && let Some(change) = picture.news(now) {
                page.take(&change);
            }
        }
        if let Some(change) = picture.news(1000) {
            page.take(&change);
        }
        page.counts_fit();
        prop_assert_eq!(&page, &Page::of(&picture));
        prop_assert_eq!(picture.news(1001), None, "it is told once");
    }
}

#[test]
fn a_pod_moves_and_its_targets_count_it() {
    let mut picture = Picture::default();
    picture.lead(true);
    picture.see_reach("paris", State::Connected, 5);
    let first = PodSeen {
        since: Some(3),
        why: "waiting for an answer of paris",
        ..pod("a", Stage::Asked, "")
    };
    picture.see_pod(&first, 10);
    let page = Page::of(&picture);
    assert_eq!(page.pods["a"]["since"], 3);
    assert_eq!(page.pods["a"]["why"], "waiting for an answer of paris");
    picture.watch(true);
    picture.see_pod(&pod("a", Stage::Granted, "paris"), 11);
    picture.see_pod(&pod("a", Stage::Running, "paris"), 12);
    // The same again is no news, and it came there when it came there.
    let again = PodSeen {
        since: Some(1),
        ..pod("a", Stage::Running, "paris")
    };
    picture.see_pod(&again, 13);
    let change = picture.news(14).unwrap();
    assert_eq!((change.pods.len(), change.pods[0].since), (1, 12));
    assert_eq!(change.targets.len(), 1);
    let counts = serde_json::to_value(change.targets[0].counts).unwrap();
    assert_eq!(counts, json!([0, 0, 0, 0, 0, 1, 0]));
    picture.see_pod(&again, 15);
    assert_eq!(picture.news(15), None);
}

#[test]
fn who_does_not_lead_knows_of_no_pod() {
    let mut picture = Picture::default();
    picture.lead(true);
    picture.see_reach("paris", State::Connected, 5);
    picture.see_pod(&pod("a", Stage::Running, "paris"), 10);
    picture.lead(false);
    picture.lose("shop", "a", "paris doesn't run it any more", 11);
    let page = Page::of(&picture);
    assert_eq!(page.head["leads"], false);
    assert!(page.pods.is_empty() && page.targets.len() == 1);
    assert_eq!(page.losses, json!([]));
    page.counts_fit();
}

#[test]
fn a_target_tells_since_when_and_why_it_is_lost() {
    let mut picture = Picture::default();
    let node = |why: &str| NodeSeen {
        since: Some(50),
        why: why.to_owned(),
        ..NodeSeen::default()
    };
    let row = |picture: &Picture| Page::of(picture).targets["paris"].clone();
    picture.see_node("paris", node(""));
    assert_eq!(row(&picture)["state"], "connecting");
    picture.see_reach("paris", State::Connected, 90);
    assert_eq!(row(&picture)["since"], 50);
    // The virtual node doesn't say so yet.
    picture.see_reach("paris", State::Lost, 100);
    assert_eq!(row(&picture)["since"], 100);
    picture.see_node("paris", node("Silent: it doesn't answer"));
    assert_eq!(row(&picture)["why"], "Silent: it doesn't answer");
    assert_eq!(row(&picture)["since"], 50);
    // Its pods keep it in the picture.
    picture.see_pod(&pod("a", Stage::Lost, "paris"), 100);
    picture.forget_reach("paris", 101);
    picture.forget_node("paris");
    assert_eq!(row(&picture)["state"], "gone");
    picture.forget_pod("a");
    assert!(Page::of(&picture).targets.is_empty());
}

#[test]
fn a_target_that_is_deleted_is_gone_until_its_virtual_node_is() {
    let mut picture = Picture::default();
    picture.see_node("paris", NodeSeen::default());
    picture.see_reach("paris", State::Connected, 5);
    picture.forget_reach("paris", 9);
    let row = |picture: &Picture| Page::of(picture).targets["paris"].clone();
    assert_eq!(
        (&row(&picture)["state"], &row(&picture)["since"]),
        (&json!("gone"), &json!(9))
    );
    // The virtual node is still written to.
    picture.see_node("paris", NodeSeen::default());
    assert_eq!(row(&picture)["state"], "gone");
    picture.forget_node("paris");
    assert!(Page::of(&picture).targets.is_empty());
    picture.see_node("paris", NodeSeen::default());
    assert_eq!(row(&picture)["state"], "connecting");
}

#[test]
fn what_is_too_many_is_counted() {
    let mut picture = Picture::default();
    picture.lead(true);
    let uid = |n: usize| format!("{n:06}");
    for n in 0..MOST_PODS + 5 {
        picture.see_pod(&pod(&uid(n), Stage::Running, "paris"), 0);
    }
    assert_eq!(picture.head().hidden_pods, 5);
    // Who waits isn't hidden by them, up to a number.
    for n in 0..MOST_RESTLESS + 3 {
        let uid = format!("waits-{n}");
        picture.see_pod(&pod(&uid, Stage::Waiting, ""), 0);
    }
    assert_eq!(picture.head().hidden_pods, 8);
    let whole = picture.whole(0);
    assert_eq!(whole.pods.len(), MOST_PODS + MOST_RESTLESS);
    let counts = serde_json::to_value(whole.head.unwrap().counts).unwrap();
    assert_eq!(
        counts,
        json!([0, MOST_RESTLESS + 3, 0, 0, 0, MOST_PODS + 5, 0])
    );
    for n in 0..MOST_PODS {
        picture.forget_pod(&uid(n));
    }
    // There is room again for those that change.
    picture.see_pod(&pod(&uid(MOST_PODS), Stage::Ended, "paris"), 1);
    assert_eq!(picture.head().hidden_pods, 7);

    for n in 0..MOST_TARGETS + 2 {
        picture.see_reach(&format!("target-{n}"), State::Connected, 0);
    }
    assert_eq!(picture.head().hidden_targets, 3, "paris is one, too");
    for n in 0..MOST_LOSSES + 2 {
        picture.lose("shop", &uid(n), "it doesn't run there any more", 0);
    }
    let losses = picture.whole(0).losses.unwrap();
    assert_eq!(losses.len(), MOST_LOSSES);
    assert_eq!(losses[0].pod, format!("shop/{}", uid(MOST_LOSSES + 1)));
}

#[test]
fn nothing_is_remembered_for_nobody() {
    let mut picture = Picture::default();
    picture.see_pod(&pod("a", Stage::Waiting, ""), 0);
    assert!(picture.news.is_none() && picture.news(0).is_none());
    picture.watch(true);
    picture.forget_pod("a");
    assert_eq!(&*picture.news(0).unwrap().pods_gone[0], "a");
    picture.watch(false);
    picture.see_pod(&pod("b", Stage::Waiting, ""), 0);
    picture.watch(true);
    assert_eq!(picture.news(0), None);
}
