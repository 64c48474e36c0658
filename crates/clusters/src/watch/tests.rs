//! Watches of servers that behave as no API server does: they are told apart, cost little, and recover.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use pilotage_runtime::thin::thin;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::budget::{Amount, Budget, Commons};
use crate::target::Target;
use crate::testing::{Answer, Piece, Server, head, json as good, target, target_of};

mod positions;

fn map(name: &str, version: u64, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": data },
        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": version.to_string() },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "each is made for its list")]
fn list(items: Vec<Value>, more: Option<&str>) -> Answer {
    let meta = json!({ "resourceVersion": "1", "continue": more });
    good(&json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": meta, "items": items }))
}

/// A watch that says this and then nothing more.
fn watching(text: &str) -> Answer {
    let mut answer = good(text);
    answer.push(Piece::Silence);
    answer
}

fn event(object: &Value) -> String {
    // The type first, as API servers write it.
    format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")
}

/// The first offence of a target, after any time by the test's clock.
async fn offence(target: &Target) -> LostReason {
    let seen = async {
        loop {
            if let Some(reason) = target.offences.worst() {
                return reason;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let limit = Duration::from_mins(20);
    timeout(limit, seen).await.expect("an offence")
}

async fn no_offence(target: &Target) {
    let none = async {
        while target.offences.worst().is_some() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_mins(20), none).await.expect("none");
}

#[tokio::test]
async fn a_list_that_never_ends_is_too_much() {
    let large = "x".repeat(1 << 20);
    let many: Vec<Value> = (0..500).map(|it| map(&it.to_string(), 1, "")).collect();
    for (page, want) in [
        (
            list(vec![map("a", 1, &large)], Some("more")),
            "16 MiB of memory",
        ),
        (list(many, Some("more")), "more than 50000 objects"),
        (list(Vec::new(), Some("more")), "after 101 pages"),
        (list(vec![map("a", 1, "")], Some("more")), "after 126 pages"),
    ] {
        let server = Server::start(move |_| page.clone()).await;
        let target = target();
        // Small objects would fill the memory for nobody first.
        let pods = if want.contains("objects") { 1000 } else { 0 };
        target.expect(move || pods);
        let watch = target.watch::<ConfigMap>(WatchConfig::all());
        server.is(&target);
        let reason = offence(&target).await;
        assert_eq!(reason.word(), "TooMuch");
        assert!(reason.to_string().contains(want), "{reason}");
        assert!(!watch.is_synced() && watch.is_empty());
    }
}

#[tokio::test]
async fn objects_that_cannot_be_read_take_room_by_their_names() {
    let name = "x".repeat(1000);
    let unread = json!({ "metadata": { "name": name, "namespace": name }, "data": 5 });
    let page = list(vec![unread; 500], Some("more"));
    let server = Server::start(move |_| page.clone()).await;
    let target = target();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    let reason = offence(&target).await;
    assert!(reason.to_string().contains("16 MiB of memory"), "{reason}");
    assert!(!watch.is_synced() && watch.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_object_of_a_list_costs_a_look() {
    let maps: Vec<Value> = (0..500).map(|it| map(&it.to_string(), 1, "")).collect();
    let server = Server::start(move |line| match line {
        line if line.contains("watch=true") => watching(""),
        _ => list(maps.clone(), None),
    })
    .await;
    let target = target();
    let began = Instant::now();
    target.budget().spend(2000 << 20, 0, began);
    let before = target.budget().pause(began).unwrap();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    // What its bytes cost counts for another budget here.
    server.is(&target);
    watch.synced().await;
    let now = Instant::now();
    let left = target.budget().pause(now).unwrap() + now.duration_since(began);
    // 2 MiB, which are an eighth of what is read in a second.
    let cost = left.saturating_sub(before).as_millis();
    assert!((120..=124).contains(&cost), "{cost}");
}

#[tokio::test]
async fn as_many_pods_as_may_run_there_have_room() {
    let large = "x".repeat(200 << 10);
    let items: Vec<Value> = (0..20).map(|it| map(&it.to_string(), 1, &large)).collect();
    let pages = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |line| {
        if line.contains("watch=true") {
            return watching("");
        }
        let last = pages.fetch_add(1, Ordering::Relaxed) == 9;
        list(items.clone(), (!last).then_some("more"))
    })
    .await;
    let target = target();
    // 40 MiB, for pods that may have 75.
    target.expect(|| 200);
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    let limit = Duration::from_mins(1);
    timeout(limit, watch.synced()).await.expect("is synced");
    assert_eq!(target.offences.worst(), None);
}

#[tokio::test]
async fn large_objects_come_in_smaller_pages() {
    let large = "x".repeat(1 << 20);
    let server = Server::start(move |line| {
        let limit = line
            .split("limit=")
            .nth(1)
            .and_then(|it| it.split('&').next());
        let items = |count: usize| vec![map("a", 1, &large); count];
        match limit.and_then(|it| it.parse::<usize>().ok()) {
            None => watching(""),
            Some(limit) => list(items(limit.min(9)), (limit > 1).then_some("more")),
        }
    })
    .await;
    let target = target();
    target.expect(|| 1000);
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    let limit = Duration::from_mins(1);
    timeout(limit, watch.synced()).await.expect("is synced");
    let sizes: Vec<_> = server
        .asked()
        .iter()
        .filter_map(|line| line.split("limit=").nth(1)?.split('&').next()?.parse().ok())
        .collect::<Vec<usize>>();
    // 500 and 62 would be nine objects of a MiB, 7 would be seven; 1 is the last one here.
    assert_eq!(sizes, [500, 62, 7, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_mends_itself_is_believed_again() {
    let sane = Arc::new(AtomicBool::new(false));
    let sound = sane.clone();
    let server = Server::start(move |line| {
        match (line.contains("watch=true"), sound.load(Ordering::Relaxed)) {
            (false, _) => list(vec![map("a", 1, "")], None),
            (true, true) => watching(&event(&map("b", 2, ""))),
            (true, false) => watching("<html>\n"),
        }
    })
    .await;
    let target = target();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    let reason = offence(&target).await;
    assert_eq!(
        reason,
        LostReason::Misbehaving("an event is no JSON".into())
    );
    // Opening the watch again proves nothing.
    let tries = server.asked().len();
    while server.asked().len() < tries + 3 {
        sleep(Duration::from_millis(20)).await;
        assert_eq!(target.offences.worst(), Some(reason.clone()));
    }
    sane.store(true, Ordering::Relaxed);
    no_offence(&target).await;
    assert!(watch.get(Some("ns"), "b").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_word_or_bookmark_is_an_offence_when_it_comes_again() {
    let server = Server::start(|line| match line {
        line if line.contains("watch=true") => watching(""),
        _ => list(vec![], None),
    })
    .await;
    let target = target();
    let _watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    let reason = offence(&target).await;
    assert!(
        reason.to_string().contains("not even a bookmark"),
        "{reason}"
    );
    assert_eq!(reason.word(), "Misbehaving");
    let watches = server
        .asked()
        .iter()
        .filter(|it| it.contains("watch=true"))
        .count();
    assert_eq!(watches, 2);
}

#[tokio::test(start_paused = true)]
async fn who_answers_no_list_for_long_while_connected_has_offended_until_one_is_answered() {
    for answer in [
        vec![Piece::Silence],
        // Broken off, in the head and in the body.
        Vec::new(),
        vec![Piece::Bytes(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
                .to_vec(),
        )],
    ] {
        let sane = Arc::new(AtomicBool::new(false));
        let answers = Arc::clone(&sane);
        let server = Server::start(move |line| match line {
            line if line.contains("watch=true") => watching(""),
            _ if answers.load(Ordering::Relaxed) => list(vec![map("b", 1, "")], None),
            _ => answer.clone(),
        })
        .await;
        let target = target();
        let watch = target.watch::<ConfigMap>(WatchConfig::all());
        let began = Instant::now();
        server.is(&target);
        let reason = offence(&target).await;
        assert!(
            began.elapsed() >= Duration::from_mins(1),
            "one is an accident"
        );
        assert_eq!(reason.word(), "Misbehaving");
        assert!(
            reason
                .to_string()
                .contains("it says nothing of configmaps: failed to list"),
            "{reason}"
        );
        sane.store(true, Ordering::Relaxed);
        no_offence(&target).await;
        assert!(watch.get(Some("ns"), "b").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn who_fails_his_probe_is_gone_and_has_not_offended() {
    let server = Server::start(|_| vec![Piece::Silence]).await;
    let target = target();
    target.lose(LostReason::Unreachable("no answer".to_owned()));
    let _watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    while server.asked().len() < 12 {
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(target.offences.worst(), None);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_room_is_not_kept_and_a_shorter_list_mends_it() {
    let large = "x".repeat(2 << 20);
    let shrunk = Arc::new(AtomicBool::new(false));
    let small = shrunk.clone();
    let server = Server::start(move |line| {
        let maps = |names: &str| -> Vec<Value> {
            names
                .chars()
                .map(|it| map(&it.to_string(), 1, &large))
                .collect()
        };
        match (line.contains("watch=true"), small.load(Ordering::Relaxed)) {
            (false, false) if line.contains("continue=more") => list(maps("b"), None),
            (false, false) => list(maps("a"), Some("more")),
            (false, true) => list(maps("z"), None),
            (true, false) => {
                let events: String = "cdefghijklm"
                    .chars()
                    .map(|it| event(&map(&it.to_string(), 1, &large)))
                    .collect();
                watching(&events)
            }
            (true, true) => watching(""),
        }
    })
    .await;
    let target = target();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    assert_eq!(offence(&target).await.word(), "TooMuch");
    assert!(watch.is_synced() && watch.len() < 12, "{}", watch.len());
    shrunk.store(true, Ordering::Relaxed);
    no_offence(&target).await;
    let names: Vec<_> = watch
        .list()
        .iter()
        .filter_map(|it| it.metadata.name.clone())
        .collect();
    assert_eq!(names, ["z"]);
}

#[tokio::test(start_paused = true)]
async fn objects_heavier_than_a_pods_share_cost_themselves_alone() {
    let large = "x".repeat(2 << 20);
    let server = Server::start(move |line| {
        if line.contains("watch=true") {
            let maps = "bcdefghijklm"
                .chars()
                .map(|it| event(&map(&it.to_string(), 2, &large)));
            let light = [event(&map("light", 3, "here"))];
            watching(&maps.chain(light).collect::<String>())
        } else {
            list(vec![map("a", 1, &large)], None)
        }
    })
    .await;
    let target = target();
    let config = WatchConfig::<ConfigMap>::all().slim(|map| map.data = None);
    let watch = target.watch::<ConfigMap>(config);
    server.is(&target);
    let light = async {
        while watch.get(Some("ns"), "light").is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_mins(20), light).await.unwrap();
    assert_eq!((watch.len(), target.offences.worst()), (14, None));
    let whole = watch.filter(|map| map.data.is_some());
    assert_eq!(whole.len(), 1);
}

/// What is left of a map that is too heavy: its identity, and a mark.
fn outline(text: &str) -> serde_json::Result<ConfigMap> {
    let left = thin(text, &[&["metadata"]], 4096)?;
    let map: ConfigMap = serde_json::from_str(&left.text)?;
    Ok(ConfigMap {
        immutable: Some(true),
        ..map
    })
}

#[tokio::test]
async fn of_this_very_cluster_a_heavy_object_is_never_read_whole_and_the_others_are() {
    let heavy = |name: &str, version| {
        let mut heavy = map(name, version, "");
        let entries = (0..70_000).map(|it| (it.to_string(), "".into()));
        heavy["data"] = Value::Object(entries.collect());
        heavy
    };
    for (config, passed_over) in [
        (WatchConfig::all().heavy(outline), false),
        (WatchConfig::all(), true),
    ] {
        let server = Server::start(move |line| {
            if line.contains("watch=true") {
                let maps = [heavy("heavy-2", 2), map("light-2", 3, "x")];
                watching(&maps.iter().map(event).collect::<String>())
            } else {
                list(vec![heavy("heavy-1", 1), map("light-1", 1, "x")], None)
            }
        })
        .await;
        let stop = CancellationToken::new();
        let config = config.slim(|map: &mut ConfigMap| map.data = None);
        let watch = Watch::of_client(server.own_client(), config, &stop);
        let last = async {
            while watch.get(Some("ns"), "light-2").is_none() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_mins(1), last).await.unwrap();
        for name in ["light-1", "light-2"] {
            let map = watch.get(Some("ns"), name).unwrap();
            assert!(map.data.is_some() && map.immutable.is_none(), "{name}");
        }
        for name in ["heavy-1", "heavy-2"] {
            let map = watch.get(Some("ns"), name);
            assert_eq!(map.is_none(), passed_over, "{name}");
            if let Some(map) = map {
                assert_eq!((&map.data, map.immutable), (&None, Some(true)), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn of_this_very_cluster_a_long_page_is_asked_for_again_with_fewer_objects() {
    let server = Server::start(move |line| {
        if line.contains("watch=true") {
            watching("")
        } else if line.contains("limit=1&") || line.ends_with("limit=1") {
            // One object is as long as it is.
            list(vec![map("a", 1, &"x".repeat(9 << 20))], None)
        } else {
            let json = head("200 OK", "application/json");
            vec![json, Piece::Endless(b" ".repeat(4096))]
        }
    })
    .await;
    let stop = CancellationToken::new();
    let watch = Watch::<ConfigMap>::of_client(server.own_client(), WatchConfig::all(), &stop);
    let listed = timeout(Duration::from_mins(1), watch.synced()).await;
    listed.expect("it is listed");
    assert_eq!(watch.len(), 1);
    let asked = server.asked();
    let lists = asked.iter().filter(|line| line.contains("limit="));
    assert_eq!(lists.count(), 4, "{asked:?}");
}

#[tokio::test]
async fn what_comes_back_of_a_write_is_kept_as_the_watch_keeps_it() {
    let server = Server::start(|line| match line {
        line if line.contains("watch=true") => watching(""),
        _ => list(Vec::new(), None),
    })
    .await;
    let stop = CancellationToken::new();
    let config = WatchConfig::all()
        .trim(|map: &mut ConfigMap| map.binary_data = None)
        .slim(|map| map.data = None);
    let watch = Watch::of_client(server.own_client(), config, &stop);
    let map = |entries: usize| {
        let entries = (0..entries).map(|it| (it.to_string(), String::new()));
        let mut map = ConfigMap {
            data: Some(entries.collect()),
            binary_data: Some([].into()),
            ..ConfigMap::default()
        };
        map.metadata.managed_fields = Some(Vec::new());
        watch.as_kept(map)
    };
    let (light, heavy) = (map(10), map(100_000));
    assert!(light.data.is_some() && heavy.data.is_none());
    for map in [light, heavy] {
        assert_eq!((map.binary_data, map.metadata.managed_fields), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn ends_of_what_never_was_are_too_much_until_they_are_read() {
    let large = "x".repeat(2 << 20);
    let server = Server::start(move |line| {
        if line.contains("watch=true") {
            let ends = (2..20).map(|version| event(&map("ghost", version, &large)));
            watching(&ends.collect::<String>().replace("ADDED", "DELETED"))
        } else {
            list(Vec::new(), None)
        }
    })
    .await;
    let target = target();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    let mut feed = watch.subscribe();
    server.is(&target);
    let LostReason::TooMuch(why) = offence(&target).await else {
        panic!("it is too much");
    };
    assert!(
        why.starts_with("what it tells faster than it is read"),
        "{why}"
    );
    assert!((2..10).contains(&feed.len()), "{}", feed.len());
    while feed.try_recv().is_ok() {}
    tokio::spawn(async move { while feed.recv().await.is_some() {} });
    no_offence(&target).await;
}

#[tokio::test(start_paused = true)]
async fn an_odd_target_leaves_the_others_alone() {
    let odd = Server::start(|_| {
        vec![
            head("200 OK", "text/html"),
            Piece::Endless(b"x".repeat(4096)),
        ]
    })
    .await;
    let fine = Server::start(|line| match line {
        line if line.contains("watch=true") => watching(""),
        _ => list(vec![map("a", 1, "")], None),
    })
    .await;
    let (bad, good) = (target(), target());
    let one = bad.watch::<ConfigMap>(WatchConfig::all());
    let two = good.watch::<ConfigMap>(WatchConfig::all());
    odd.is(&bad);
    fine.is(&good);
    two.synced().await;
    assert_eq!(offence(&bad).await.word(), "Misbehaving");
    assert!(good.offences.worst().is_none() && two.len() == 1);
    drop(one);
    no_offence(&bad).await;
}

#[tokio::test(start_paused = true)]
async fn who_goes_beyond_the_bound_of_a_namespace_is_lost_until_there_is_room() {
    let large = "x".repeat(1 << 20);
    let server = Server::start(move |line| match line {
        line if line.contains("watch=true") => watching(""),
        _ => list(vec![map("a", 1, &large)], None),
    })
    .await;
    let mut commons = Commons::default();
    let mut budget = |namespace| Budget::of(Some(commons.of(namespace)));
    let others = budget("evil");
    let nearly_all = Amount::new(0, (128 << 20) - 1024);
    others.change(Amount::default(), nearly_all);
    let (evil, honest) = (target_of(budget("evil")), target_of(budget("honest")));
    let one = evil.watch::<ConfigMap>(WatchConfig::all());
    let two = honest.watch::<ConfigMap>(WatchConfig::all());
    server.is(&evil);
    server.is(&honest);
    let reason = offence(&evil).await;
    assert_eq!(reason.word(), "TooMuch");
    let text = reason.to_string();
    assert!(
        text.contains("all Targets of namespace evil") && text.contains("128 MiB"),
        "{text}"
    );
    assert!(!one.is_synced() && one.is_empty());
    two.synced().await;
    assert_eq!(honest.offences.worst(), None);

    others.change(nearly_all, Amount::default());
    no_offence(&evil).await;
    assert_eq!(one.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_or_told_of_objects_that_are_of_no_use() {
    let server = Server::start(|line| match line {
        line if line.contains("watch=true") => {
            let events = [map("no-2", 2, ""), map("yes-2", 3, "")];
            watching(&events.iter().map(event).collect::<String>())
        }
        _ => list(vec![map("no-1", 1, ""), map("yes-1", 1, "")], None),
    })
    .await;
    let useful = |map: &ConfigMap| map.metadata.name.as_deref().unwrap().starts_with("yes");
    let stop = CancellationToken::new();
    // Whether it is kept is asked first.
    let config = WatchConfig::all()
        .keep(useful)
        .trim(|map: &mut ConfigMap| map.data = None);
    let watch = Watch::of_client(server.client(), config, &stop);
    let mut feed = watch.subscribe();
    let told = async {
        let mut told = Vec::new();
        while told.len() < 2 {
            if let Event::Applied(map) = feed.recv().await.expect("the watch lives") {
                assert_eq!(map.data, None);
                told.extend(map.metadata.name.clone());
            }
        }
        told
    };
    let told = timeout(Duration::from_mins(20), told).await;
    assert_eq!(told.expect("they come"), ["yes-1", "yes-2"]);
    assert_eq!(watch.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_says_so_and_goes_on_after_a_pause() {
    let server = Server::start(|line| match line {
        line if line.contains("watch=true") => watching(""),
        _ => list(vec![map("a", 1, "")], None),
    })
    .await;
    let calls = AtomicUsize::new(0);
    let api: ApiOf<ConfigMap> = Arc::new(move |client| {
        assert_ne!(calls.fetch_add(1, Ordering::SeqCst), 0, "of hunter2");
        Api::all(client)
    });
    let (sessions, stop) = (Session::fixed(server.client()), CancellationToken::new());
    let watch = Watch::start(sessions, api, WatchConfig::all(), &stop, None, |_| {});
    let mut health = watch.health();
    let fails = health.wait_for(|health| matches!(health, WatchHealth::Failing { .. }));
    let fails = timeout(Duration::from_mins(20), fails)
        .await
        .expect("it fails");
    let WatchHealth::Failing { error, .. } = fails.unwrap().clone() else {
        panic!("it doesn't fail")
    };
    assert!(
        error.contains("please report it") && !error.contains("hunter2"),
        "{error}"
    );
    let synced = timeout(Duration::from_mins(20), watch.synced()).await;
    synced.expect("it is listed after all");
    assert_eq!(watch.len(), 1);
}
