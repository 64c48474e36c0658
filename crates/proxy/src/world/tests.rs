//! What is known of chaperons, and what of it goes.

use serde_json::{Value, json};

use super::*;

fn chaperon(uid: &str, version: &str) -> Arc<PodChaperon> {
    Arc::new(
        serde_json::from_value(json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": {
                "namespace": "shop", "name": "web-1", "uid": uid, "resourceVersion": version,
                "labels": { keys::PARENT_UID: "p" },
            },
            "spec": {},
        }))
        .unwrap(),
    )
}

#[test]
fn an_older_version_is_no_news() {
    let mut world = World::default();
    assert!(world.fold("a", chaperon("u", "9")).is_some());
    assert_eq!(world.fold("a", chaperon("u", "9")), None);
    assert_eq!(world.fold("a", chaperon("u", "8")), None);
    assert!(world.fold("a", chaperon("u", "10")).is_some());
    assert_eq!(world.of("p").len(), 1);
}

#[test]
fn a_successor_of_the_same_name_proves_that_its_predecessor_is_gone() {
    let mut world = World::default();
    world.fold("a", chaperon("u1", "1"));
    let change = world.fold("a", chaperon("u2", "5")).unwrap();
    assert_eq!(change.gone.as_deref(), Some("u1"));
    assert_eq!(world.of("p")[0].uid, "u2");
}

#[test]
fn only_what_the_target_says_is_an_answer() {
    let mut world = World::default();
    let mut version = 0;
    let mut answered = |annotations: &Value, status: Value, ending: bool| {
        let mut object = serde_json::to_value(&*chaperon("u", "0")).unwrap();
        version += 1;
        let meta = &mut object["metadata"];
        meta["resourceVersion"] = json!(version.to_string());
        meta["annotations"] = annotations.clone();
        if ending {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        object["status"] = status;
        let object = Arc::new(serde_json::from_value(object).unwrap());
        world.fold("a", object).unwrap().answered
    };
    let bound = json!({ "conditions": [{ "type": "PodScheduled", "status": "True" }] });
    let mut runs = bound.clone();
    runs["phase"] = json!("Running");
    let holds = json!({ keys::ATTEMPT: "1", keys::IS_RESERVED: "true" });
    let mut granted = holds.clone();
    granted[keys::ALLOWED_ATTEMPT] = json!("1");
    granted[keys::IS_ALLOWED] = json!("true");
    assert!(!answered(&json!({}), json!({}), false), "it was asked");
    assert!(answered(&holds, json!({}), false), "it holds a node");
    assert!(!answered(&granted, json!({}), false), "a grant is ours");
    assert!(answered(&granted, bound, false), "it is bound");
    assert!(!answered(&granted, runs.clone(), false), "and fares");
    assert!(!answered(&granted, runs, true), "a deletion is ours");
}

#[test]
fn absence_is_no_proof_but_a_deleted_event_is() {
    let mut world = World::default();
    world.fold("a", chaperon("u", "1"));
    let gone = |world: &mut World, news| world.take_in("a", news).pop().unwrap().gone;
    let vanished = ChaperonNews::Vanished(chaperon("u", "1"));
    assert_eq!(gone(&mut world, vanished), None);
    assert!(world.of("p").is_empty());
    world.fold("a", chaperon("u", "1"));
    let deleted = ChaperonNews::Deleted(chaperon("u", "2"));
    assert_eq!(gone(&mut world, deleted).as_deref(), Some("u"));
}

#[test]
fn a_dropped_target_names_the_pods_it_concerns() {
    let mut world = World::default();
    world.fold("a", chaperon("u", "1"));
    world.fold("b", chaperon("u", "1"));
    let (parents, dropped) = world.drop_target("a");
    assert_eq!((parents, dropped.0.len()), (vec!["p".to_owned()], 1));
    assert_eq!(world.of("p").len(), 1);
    let (parents, dropped) = world.drop_target("a");
    assert!(parents.is_empty() && dropped.is_empty());
}

/// The same object with other labels.
fn relabelled(uid: &str, version: &str, labels: &Value) -> Arc<PodChaperon> {
    let mut object = serde_json::to_value(&*chaperon(uid, version)).unwrap();
    object["metadata"]["labels"] = labels.clone();
    Arc::new(serde_json::from_value(object).unwrap())
}

#[test]
fn what_goes_from_the_store_goes_here_whatever_its_labels_say() {
    let mut world = World::default();
    for labels in [json!({}), json!({ keys::PARENT_UID: "q" })] {
        for proves in [true, false] {
            world.fold("a", chaperon("u", "1"));
            let last = relabelled("u", "2", &labels);
            let news = if proves {
                ChaperonNews::Deleted(last)
            } else {
                ChaperonNews::Vanished(last)
            };
            let changes = world.take_in("a", news);
            let left = Change {
                gone: proves.then(|| "u".to_owned()),
                ..Change::of("p".to_owned())
            };
            assert_eq!(changes, [left], "the pod that it stood under hears of it");
            assert!(world.places().is_empty());
        }
    }
}

#[test]
fn another_object_of_its_name_takes_nothing_along() {
    let mut world = World::default();
    world.fold("a", chaperon("u", "1"));
    world.take_in("a", ChaperonNews::Deleted(chaperon("old", "2")));
    world.take_in("b", ChaperonNews::Deleted(chaperon("u", "2")));
    assert_eq!(world.places().len(), 1);
}

#[test]
fn a_chaperon_that_names_another_parent_moves_there() {
    let mut world = World::default();
    world.fold("a", chaperon("u", "1"));
    let moved = |version, uid| relabelled(uid, version, &json!({ keys::PARENT_UID: "q" }));
    assert_eq!(world.fold("a", moved("2", "u")), None, "a reply moves none");
    let parents = |changes: Vec<Change>| -> Vec<_> {
        changes.into_iter().map(|it| (it.parent, it.gone)).collect()
    };
    let changes = world.take_in("a", ChaperonNews::Applied(moved("2", "u")));
    assert_eq!(parents(changes), [("p".into(), None), ("q".into(), None)]);
    assert!(world.of("p").is_empty() && world.of("q").len() == 1);
    assert_eq!(world.places().len(), 1);
    let back = ChaperonNews::Applied(chaperon("u2", "3"));
    let changes = parents(world.take_in("a", back));
    assert_eq!(
        changes,
        [("q".into(), Some("u".into())), ("p".into(), None)]
    );
    assert_eq!(world.places().len(), 1);
}

#[test]
fn what_is_turned_away_is_not_known_as_it_was_before_either() {
    let mut world = World::default();
    world.fold("a", chaperon("u", "1"));
    let unknown = |uid| relabelled(uid, "2", &json!({}));
    let other = ChaperonNews::Deleted(unknown("v"));
    assert_eq!(world.turn_away("a", &other), None);
    let left = Some(Change::of("p".to_owned()));
    assert_eq!(
        world.turn_away("a", &ChaperonNews::Deleted(unknown("u"))),
        left
    );
    world.fold("a", chaperon("u", "1"));
    // The store has that one now.
    assert_eq!(
        world.turn_away("a", &ChaperonNews::Applied(unknown("v"))),
        left
    );
    assert!(world.places().is_empty());
}
