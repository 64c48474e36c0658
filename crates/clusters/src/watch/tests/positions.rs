//! What servers give to go on from: it is a number, or nothing that is kept.

use super::*;
use crate::testing::failure;

/// The last version that there can be: a sound server has nothing to tell after it.
const LAST: &str = "18446744073709551615";

fn bookmark(version: &str) -> String {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": version } });
    format!("{{\"type\":\"BOOKMARK\",\"object\":{map}}}\n")
}

fn of_version(version: &str) -> Value {
    let mut map = map("a", 1, "");
    map["metadata"]["resourceVersion"] = json!(version);
    map
}

fn list_at(version: &str, more: Option<&str>) -> Answer {
    let meta = json!({ "resourceVersion": version, "continue": more });
    good(&json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": meta, "items": [] }))
}

#[tokio::test(start_paused = true)]
async fn what_is_no_position_is_never_kept_and_the_server_may_mend() {
    let long = "1".repeat(2 << 20);
    let version = "a resource version is no number of 64 bits";
    let deleted = |text: &str| text.replace("ADDED", "DELETED");
    let list = |version: &str, more| (Some(list_at(version, more)), None);
    let watch = |text: String| (None, Some(watching(&text)));
    for ((listed, watched), want) in [
        (list(&long, None), version),
        (list("now", None), version),
        (list("1", Some(&long)), "the token of a list's next page"),
        (watch(bookmark(&long)), version),
        (watch(bookmark("")), version),
        (watch(bookmark("18446744073709551616")), version),
        (watch(event(&of_version(&long))), version),
        (watch(event(&of_version("latest"))), version),
        (watch(deleted(&event(&of_version(&long)))), version),
    ] {
        let sane = Arc::new(AtomicBool::new(false));
        let sound = sane.clone();
        let server = Server::start(move |line| {
            let watches = line.contains("watch=true");
            let lie = if watches { &watched } else { &listed };
            match lie {
                Some(lie) if !sound.load(Ordering::Relaxed) => lie.clone(),
                _ if watches => watching(&event(&map("b", 8, ""))),
                _ => list_at("7", None),
            }
        })
        .await;
        let target = target();
        let watch = target.watch::<ConfigMap>(WatchConfig::all());
        server.is(&target);
        let reason = offence(&target).await;
        assert_eq!(reason.word(), "Misbehaving");
        assert!(reason.to_string().contains(want), "{want}: {reason}");
        assert!(watch.get(Some("ns"), "a").is_none(), "{want}");
        sane.store(true, Ordering::Relaxed);
        no_offence(&target).await;
        assert!(watch.get(Some("ns"), "b").is_some(), "{want}");
        // Nobody was asked to go on from there.
        let asked = server.asked();
        assert!(asked.iter().all(|line| line.len() < 300), "{want}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_mute_is_listed_anew_and_believed_when_a_watch_says_something() {
    let sane = Arc::new(AtomicBool::new(false));
    let sound = sane.clone();
    let told = AtomicBool::new(false);
    let server = Server::start(move |line| {
        let sound = sound.load(Ordering::Relaxed);
        match line {
            line if !line.contains("watch=true") => list_at("7", None),
            _ if !told.swap(true, Ordering::Relaxed) => watching(&bookmark(LAST)),
            line if sound && !line.contains(LAST) => watching(&event(&map("b", 8, ""))),
            _ => watching(""),
        }
    })
    .await;
    let target = target();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    let reason = offence(&target).await;
    assert!(
        reason.to_string().contains("not even a bookmark"),
        "{reason}"
    );
    // That it can be listed proves nothing.
    let lists = || {
        server
            .asked()
            .iter()
            .filter(|it| !it.contains("watch=true"))
            .count()
    };
    while lists() < 3 {
        sleep(Duration::from_millis(20)).await;
        assert_eq!(
            target.offences.worst().map(|it| it.word()),
            Some("Misbehaving")
        );
    }
    sane.store(true, Ordering::Relaxed);
    no_offence(&target).await;
    assert!(watch.get(Some("ns"), "b").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_position_that_is_refused_is_given_up() {
    let server = Server::start(|line| match line {
        line if !line.contains("watch=true") => list_at("7", None),
        line if line.contains("resourceVersion=9") => failure("400 Bad Request", ""),
        _ => good(&bookmark("9")),
    })
    .await;
    let target = target();
    let watch = target.watch::<ConfigMap>(WatchConfig::all());
    server.is(&target);
    watch.synced().await;
    let lists = || {
        server
            .asked()
            .iter()
            .filter(|it| !it.contains("watch=true"))
            .count()
    };
    let again = async {
        while lists() < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_mins(20), again)
        .await
        .expect("it is listed again");
}
