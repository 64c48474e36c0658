use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilotage_absurd::bounded;

use super::super::limits::Bound;
use super::*;
use crate::budget::Budget;

fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("ns".into());
    object.metadata.name = Some(name.into());
    object.metadata.uid = Some(uid.into());
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn ending(name: &str, uid: &str, version: u64, grace: i64) -> ConfigMap {
    let mut object = object(name, uid, version);
    object.metadata.deletion_grace_period_seconds = Some(grace);
    object.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    object
}

/// What was told since the last call, as `A<uid>@<version>`, `D…`, `G…` and `S`.
fn told(feed: &mut Feed<ConfigMap>) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(event) = feed.try_recv() {
        let (letter, object) = match event {
            Event::Applied(object) => ("A", object),
            Event::Deleted(object) => ("D", object),
            Event::Gone(object) => ("G", object),
            Event::Synced => {
                words.push("S".to_owned());
                continue;
            }
        };
        words.push(format!(
            "{letter}{}@{}",
            object.metadata.uid.as_ref().unwrap(),
            version(&*object)
        ));
    }
    words.sort();
    words
}

#[test]
fn a_list_then_events() {
    let store = Store::new(false, None);
    let mut feed = store.subscribe();
    assert!(!store.is_synced());
    store.replace(
        vec![object("a", "1", 3), object("b", "2", 4)],
        &[],
        "10",
        Room::default(),
    );
    assert_eq!(told(&mut feed), ["A1@3", "A2@4", "S"]);
    store.apply(object("a", "1", 11));
    store.delete(object("b", "2", 12));
    assert_eq!(told(&mut feed), ["A1@11", "D2@12"]);
    assert!(store.is_synced() && store.get(Some("ns"), "b").is_none() && store.len() == 1);
    assert!(store.get(Some("other"), "a").is_none());
}

#[test]
fn a_late_subscriber_is_told_what_there_is() {
    let store = Store::new(false, None);
    store.replace(vec![object("a", "1", 3)], &[], "10", Room::default());
    assert_eq!(told(&mut store.subscribe()), ["A1@3", "S"]);
}

#[test]
fn of_a_flood_nothing_is_kept_for_who_only_looks_at_the_outcome() {
    let store = Store::new(false, None);
    let mut changes = store.changes();
    assert!(changes.has_changed().unwrap(), "there may be something");
    changes.mark_unchanged();
    for version in 1..=1_000 {
        store.apply(object("a", "1", version));
    }
    assert_eq!(
        store.get(Some("ns"), "a").map(|it| version(&*it)),
        Some(1_000)
    );
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert!(!changes.has_changed().unwrap(), "one word stands for all");
    assert_eq!(store.queues(), 0);
}

#[test]
fn absence_from_a_list_is_no_evidence() {
    let store = Store::new(false, None);
    store.replace(
        vec![object("a", "1", 3), object("b", "2", 4)],
        &[],
        "10",
        Room::default(),
    );
    let mut feed = store.subscribe();
    told(&mut feed);
    store.replace(vec![object("b", "3", 15)], &[], "20", Room::default());
    assert_eq!(told(&mut feed), ["A3@15", "G1@3", "G2@4", "S"]);
}

#[test]
fn an_unparsable_object_is_not_missing() {
    let store = Store::new(false, None);
    store.replace(vec![object("a", "1", 3)], &[], "10", Room::default());
    let mut feed = store.subscribe();
    told(&mut feed);
    store.replace(vec![], &[("ns".into(), "a".into())], "20", Room::default());
    assert_eq!(told(&mut feed), ["S"]);
    assert!(store.get(Some("ns"), "a").is_some());
}

#[test]
fn what_is_missing_is_found_among_many_that_cannot_be_read() {
    const MANY: u64 = 40_000;
    let store = Store::new(false, None);
    let known = (0..MANY).map(|it| object(&format!("known-{it}"), "1", 3));
    store.replace(known.collect(), &[], "10", Room::default());
    let mut unread: Vec<_> = (0..MANY)
        .map(|it| ("ns".to_owned(), format!("other-{it}")))
        .collect();
    unread.push(("ns".into(), "known-7".into()));
    // To compare each with each takes half a minute of a core, and two seconds are allowed.
    bounded(|| store.replace(vec![], &unread, "20", Room::default()));
    assert_eq!(store.len(), 1);
}

#[test]
fn leaving_a_selector_is_no_evidence_but_being_deleted_is() {
    let store = Store::new(true, None);
    store.replace(
        vec![object("a", "1", 3), object("b", "2", 3)],
        &[],
        "10",
        Room::default(),
    );
    let mut feed = store.subscribe();
    told(&mut feed);
    store.delete(object("a", "1", 11));
    store.delete(ending("b", "2", 12, 0));
    assert_eq!(told(&mut feed), ["D2@12", "G1@11"]);
    assert!(store.is_empty());
    // Its grace hasn't ended: somebody took the label off.
    store.apply(ending("c", "3", 13, 30));
    store.delete(ending("c", "3", 14, 30));
    assert_eq!(told(&mut feed), ["A3@13", "G3@14"]);
}

#[test]
fn an_own_write_is_seen_at_once_and_not_undone_by_older_events() {
    let store = Store::new(false, None);
    store.replace(vec![object("a", "1", 3)], &[], "10", Room::default());
    let mut feed = store.subscribe();
    told(&mut feed);
    store.fold(object("a", "1", 15));
    assert_eq!(told(&mut feed), ["A1@15"]);
    // The watch brings an older change, then the same one.
    store.apply(object("a", "1", 12));
    store.apply(object("a", "1", 15));
    assert_eq!(told(&mut feed), [""; 0]);
    assert_eq!(version(&*store.get(Some("ns"), "a").unwrap()), 15);
}

#[test]
fn a_late_reply_does_not_raise_the_dead() {
    let store = Store::new(false, None);
    store.replace(vec![object("a", "1", 3)], &[], "10", Room::default());
    store.delete(object("a", "1", 20));
    store.fold(object("a", "1", 15));
    assert!(store.is_empty());
    // Nor does it after a bookmark that is past it.
    store.bookmark("30");
    store.fold(object("c", "9", 25));
    assert!(store.is_empty());
}

#[test]
fn a_folded_object_survives_an_older_list_and_an_older_deletion() {
    let store = Store::new(false, None);
    store.replace(vec![], &[], "10", Room::default());
    store.fold(object("a", "2", 25));
    store.replace(vec![], &[], "20", Room::default());
    assert_eq!(store.len(), 1);
    let mut feed = store.subscribe();
    told(&mut feed);
    store.delete(object("a", "1", 22));
    assert_eq!(told(&mut feed), ["D1@22"]);
    assert_eq!(store.len(), 1, "another UID lives under the name");
}

#[test]
fn another_cluster_counts_anew() {
    let store = Store::new(false, None);
    store.replace(vec![object("a", "1", 900)], &[], "1000", Room::default());
    let mut feed = store.subscribe();
    told(&mut feed);
    store.forget_versions();
    store.replace(
        vec![object("a", "6", 4), object("b", "7", 5)],
        &[],
        "6",
        Room::default(),
    );
    assert_eq!(told(&mut feed), ["A6@4", "A7@5", "G1@900", "S"]);
    store.fold(object("b", "7", 8));
    assert_eq!(version(&*store.get(Some("ns"), "b").unwrap()), 8);
}

#[test]
fn what_is_kept_is_counted_until_it_goes() {
    let budget = Arc::new(Budget::default());
    let limits = Limits {
        bound: Bound::Target(budget.clone()),
        weigh: |object: &ConfigMap| name(object).len() << 20,
        slim: None,
    };
    let store = Store::new(false, Some(limits));
    let longest = "a".repeat(24);
    store.replace(
        vec![object(&longest[..9], "1", 1)],
        &[],
        "1",
        Room::default(),
    );
    assert!(store.check_one(&object(&longest[..7], "2", 2)).is_ok());
    assert!(store.check_one(&object(&longest[..8], "2", 2)).is_err());
    // In its own place there is that much more.
    store.apply(object(&longest[..7], "2", 2));
    assert!(store.check_one(&object("b", "3", 3)).is_err());
    assert!(store.check_one(&object(&longest[..7], "2", 3)).is_ok());
    store.apply(object(&longest[..7], "2", 3));
    store.delete(object(&longest[..9], "1", 4));
    assert!(store.check_one(&object("b", "3", 5)).is_ok());
    assert_eq!((store.count_in(Some("ns")), store.count_in(None)), (1, 1));
    assert_eq!(store.count_in(Some("other")), 0);
    let whole = || budget.check(Amount::new(0, 16 << 20));
    assert!(whole().is_err());
    drop(store);
    assert_eq!(whole(), Ok(()));
}

#[test]
fn a_reply_is_kept_and_counted_or_it_is_not_there() {
    let limits = Limits {
        bound: Bound::Target(Arc::default()),
        weigh: |object: &ConfigMap| name(object).len() << 20,
        slim: None,
    };
    let store = Store::new(false, Some(limits));
    let (fits, not) = (object(&"a".repeat(16), "1", 7), object("b", "2", 8));
    for reply in [&fits, &not] {
        store.fold(reply.clone());
    }
    assert!(store.keeps(&fits) && !store.keeps(&not));
    assert_eq!(store.kept(), Amount::new(1, 16 << 20));
    let mut successor = fits.clone();
    successor.metadata.uid = Some("3".into());
    assert!(!store.keeps(&successor));
    // It is old once the watch brings a newer version, or its end.
    let mut newer = fits.clone();
    newer.metadata.resource_version = Some("9".into());
    store.apply(newer.clone());
    assert!(store.keeps(&newer) && !store.keeps(&fits));
    store.delete(newer.clone());
    assert!(!store.keeps(&newer) && store.is_empty());
}

#[test]
fn the_room_of_a_list_is_counted_once() {
    let budget = Arc::new(Budget::default());
    let limits = Limits {
        bound: Bound::Target(budget.clone()),
        weigh: |object: &ConfigMap| name(object).len() << 20,
        slim: None,
    };
    let store = Store::new(false, Some(limits));
    let left = |mib: usize| {
        let check = |mib: usize| budget.check(Amount::new(0, mib << 20)).is_ok();
        assert!(check(mib) && !check(mib + 1), "{mib} MiB are left");
    };
    let mut room = store.room();
    room.raise(Amount::new(1, 9 << 20)).unwrap();
    left(7);
    store.replace(vec![object("nine-long", "1", 1)], &[], "1", room);
    left(7);
    // Beside what it replaces nothing is missing.
    store.replace(vec![object("seven-7", "1", 2)], &[], "2", store.room());
    left(9);
    // A list that is given up leaves what is there.
    let mut room = store.room();
    room.raise(Amount::new(1, 9 << 20)).unwrap();
    left(0);
    drop(room);
    left(9);
    assert_eq!(store.len(), 1);
}

#[test]
fn an_object_that_cannot_be_weighed_counts_for_the_most() {
    let limits = Limits {
        bound: Bound::Target(Arc::default()),
        weigh: |object: &ConfigMap| {
            assert_ne!(object.metadata.name.as_deref(), Some("bad"), "on purpose");
            1
        },
        slim: None,
    };
    let store = Store::new(false, Some(limits));
    store.apply(object("good", "1", 1));
    store.apply(object("bad", "2", 2));
    assert_eq!(store.kept(), Amount::new(2, 1 + OBJECT_WEIGHT));
    store.delete(object("bad", "2", 3));
    assert_eq!(store.kept(), Amount::new(1, 1));
}

#[test]
fn what_is_heavier_than_a_pods_share_is_slimmed_and_takes_no_room_from_others() {
    let budget = Arc::new(Budget::default());
    budget.expect(|| 20);
    let limits = || Limits {
        bound: Bound::Target(budget.clone()),
        weigh: |object: &ConfigMap| object.data.iter().flatten().count() << 20,
        slim: Some(|object: &mut ConfigMap| object.data = None),
    };
    let heavy = |name: &str, uid: &str, version, mib: usize| {
        let data = (0..mib).map(|number| (number.to_string(), String::new()));
        ConfigMap {
            data: Some(data.collect()),
            ..object(name, uid, version)
        }
    };
    let store = Store::new(false, Some(limits()));
    store.replace(
        vec![heavy("a", "1", 3, 50), heavy("b", "2", 3, 1)],
        &[],
        "10",
        Room::default(),
    );
    let mut feed = store.subscribe();
    for version in 11..100 {
        let object = heavy("a", "1", version, 50);
        assert_eq!(store.check_one(&object), Ok(()));
        store.apply(object);
        told(&mut feed);
    }
    assert_eq!(store.kept(), Amount::new(2, 1 << 20));
    let known = |name| store.get(Some("ns"), name).unwrap().data.is_some();
    assert!(!known("a") && known("b"));
    // It is the same object: its end is a proof, and nothing else is.
    store.delete(heavy("a", "1", 100, 50));
    assert_eq!(told(&mut feed), ["D1@100"]);
    store.fold(heavy("c", "3", 101, 50));
    assert!(!known("c") && store.len() == 2);
}

#[test]
fn of_this_very_cluster_nothing_is_refused_and_heavy_objects_are_slimmed_among_many() {
    const KIB: usize = 1 << 10;
    // A KiB for each entry.
    let limits = Limits {
        bound: Bound::Own,
        weigh: |object: &ConfigMap| object.data.iter().flatten().count() * KIB,
        slim: Some(|object: &mut ConfigMap| object.data = None),
    };
    let heavy = |namespace: &str, number: u64, kib: usize| {
        let data = (0..kib).map(|number| (number.to_string(), String::new()));
        let mut object = object(&number.to_string(), &number.to_string(), number);
        object.metadata.namespace = Some(namespace.into());
        object.data = Some(data.collect());
        object
    };
    let store = Store::new(false, Some(limits));
    let whole = |namespace: &'static str| {
        let there = store.filter(move |object| {
            object.metadata.namespace.as_deref() == Some(namespace) && object.data.is_some()
        });
        there.len()
    };
    let mut feed = store.subscribe();
    for number in 1..=300 {
        let object = heavy("one", number, 1024);
        assert_eq!(store.check_one(&object), Ok(()));
        store.apply(object);
    }
    // 64 MiB more than is usual, and what crossed it.
    let kept = whole("one");
    assert!((64..=90).contains(&kept), "{kept}");
    assert_eq!((store.len(), store.queues()), (300, 1));
    assert_eq!(told(&mut feed).len(), 300);
    // What is usual is kept, and what is heavy in another namespace.
    store.apply(heavy("one", 301, 64));
    store.apply(heavy("two", 302, 1024));
    assert_eq!((whole("one"), whole("two")), (kept + 1, 1));
    // Many namespaces together have a bound, too.
    for (namespace, number) in [("two", 400), ("three", 500), ("four", 600)] {
        for number in number..number + 70 {
            store.apply(heavy(namespace, number, 1024));
        }
    }
    assert!(whole("four") < 64, "{}", whole("four"));
    assert!(store.kept().weight < 200 << 20, "{:?}", store.kept());
    // Who makes room is kept whole again.
    for number in 1..=300 {
        store.delete(heavy("one", number, 0));
    }
    store.apply(heavy("four", 699, 1024));
    let object = store.get(Some("four"), "699").unwrap();
    assert!(object.data.is_some());
}

#[test]
fn what_nobody_has_read_is_bounded_and_counts_until_it_is_read() {
    let budget = Arc::new(Budget::default());
    let limits = Limits {
        bound: Bound::Target(budget.clone()),
        weigh: |object: &ConfigMap| name(object).len() << 20,
        slim: None,
    };
    let store = Store::new(false, Some(limits));
    // Nobody listens: nothing waits.
    for version in 1..100 {
        store.delete(object("four", "0", version));
    }
    let (mut feed, mut other) = (store.subscribe(), store.subscribe());
    let tell = |from: u64, deleted: bool| -> Vec<u64> {
        let told = (from..from + 10).take_while(|version| {
            let object = object("four", "1", *version);
            let room = store.check_unread(&object).is_ok();
            match deleted {
                _ if !room => {}
                true => store.delete(object),
                false => store.apply(object),
            }
            room
        });
        told.collect()
    };
    // Of objects that never were, or of versions that replaced each other.
    for (from, deleted) in [(100, true), (200, false)] {
        assert_eq!(tell(from, deleted).len(), 3);
        let next = object("four", "1", from + 50);
        assert!(store.check_one(&next).is_err());
        assert!(store.kept().weight <= 4 << 20);
        let letter = if deleted { "D" } else { "A" };
        let all: Vec<_> = (from..from + 3)
            .map(|at| format!("{letter}1@{at}"))
            .collect();
        // Whoever reads on has read all, and in order; it is one share for both.
        assert_eq!(told(&mut feed), all);
        assert!(store.check_one(&next).is_err());
        assert_eq!(told(&mut other), all);
        assert!(store.check_one(&next).is_ok());
    }
    // What goes into another queue counts there, whatever becomes of the store.
    assert_eq!(tell(300, true).len(), 3);
    drop(other);
    let shares: Vec<_> = std::iter::from_fn(|| Some(feed.try_take().ok()?.1)).collect();
    drop((store, feed));
    assert!(budget.check_queue(4 << 20).is_err());
    drop(shares);
    assert_eq!(budget.check_queue(16 << 20), Ok(()));
}
