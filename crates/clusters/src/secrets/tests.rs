use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::content::kubeconfig;
use super::*;
use crate::testing::{Answer, Piece, Server, failure, head, json as good};

const LIMIT: Duration = Duration::from_secs(30);

fn reference(key: &str) -> SecretRef {
    SecretRef {
        namespace: "ns".into(),
        name: "far".into(),
        key: key.into(),
        context: None,
    }
}

/// An API server with these Secrets.
fn source(line: &str, items: &[Value]) -> Answer {
    if line.contains("watch=true") {
        return vec![head("200 OK", "application/json"), Piece::Silence];
    }
    good(&json!({
        "apiVersion": "v1", "kind": "SecretList", "metadata": { "resourceVersion": "1" },
        "items": items,
    }))
}

fn secret() -> Value {
    let data = |text: &str| STANDARD.encode(text);
    json!({
        "metadata": { "name": "far", "namespace": "ns", "uid": "u", "resourceVersion": "1" },
        "data": { "config": data("one"), "other": data("two"), "third": data("three") },
    })
}

/// What is known, once there is something at this key.
async fn there(held: &mut Held, key: &str) -> Seen {
    let wait = async {
        loop {
            let seen = held.seen();
            if let Look::There(_) = seen.at(key) {
                return seen;
            }
            held.changed().await;
        }
    };
    timeout(LIMIT, wait).await.expect("is read")
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, wait).await.expect(what);
}

#[tokio::test]
async fn who_name_one_secret_share_its_watch_until_the_last_one_goes() {
    let server = Server::start(|line| source(line, &[secret()])).await;
    let secrets = Secrets::of(server.client());
    let follow = || secrets.follow(&reference("config"));
    let mut all: Vec<Held> = (0..100).map(|_| follow()).collect();
    let mut same: Option<Arc<Secret>> = None;
    for held in &mut all {
        let seen = there(held, "config").await;
        let secret = seen.secret().unwrap();
        let known = same.get_or_insert_with(|| secret.clone());
        assert!(Arc::ptr_eq(known, secret), "it is kept once");
    }
    until("a list and a watch", || server.asked().len() == 2).await;

    let task = Arc::downgrade(&all[0].shared.core);
    let last = all.pop().unwrap();
    drop(all);
    assert!(task.upgrade().is_some() && lock(&secrets.0.followed).len() == 1);
    drop(last);
    assert!(lock(&secrets.0.followed).is_empty());
    until("its end", || task.strong_count() == 0).await;
    assert_eq!(server.asked().len(), 2, "{:?}", server.asked());

    there(&mut follow(), "config").await;
    assert!(server.asked().len() > 2, "it is read anew");
}

#[tokio::test]
async fn another_key_is_read_too_and_takes_nothing_from_who_names_the_first() {
    let server = Server::start(|line| source(line, &[secret()])).await;
    let secrets = Secrets::of(server.client());
    let mut one = secrets.follow(&reference("config"));
    let seen = there(&mut one, "config").await;
    assert!(matches!(seen.at("other"), Look::Unknown), "nobody named it");
    let empty = Some(&[][..]);
    assert_eq!(kubeconfig(seen.secret().unwrap(), "other"), empty);
    until("a watch", || server.asked().len() == 2).await;

    let mut two = secrets.follow(&reference("other"));
    let mut seen = one.seen();
    while !matches!(seen.at("other"), Look::There(_)) {
        assert!(matches!(seen.at("config"), Look::There(_)));
        let changed = timeout(LIMIT, one.changed());
        changed.await.expect("is read anew");
        seen = one.seen();
    }
    let seen = there(&mut two, "other").await;
    let secret = seen.secret().unwrap();
    for (key, want) in [("config", "one"), ("other", "two"), ("third", "")] {
        assert_eq!(kubeconfig(secret, key), Some(want.as_bytes()), "{key}");
    }
    until("another watch", || server.asked().len() == 4).await;
    // One that is named already is there at once.
    let mut three = secrets.follow(&reference("other"));
    assert!(matches!(three.seen().at("other"), Look::There(_)));
}

#[tokio::test]
async fn who_cannot_be_read_is_told_apart_from_who_is_not_there() {
    static FAILS: AtomicBool = AtomicBool::new(true);
    let server = Server::start(|line| {
        if FAILS.load(Ordering::SeqCst) {
            return failure("500 Oh", "");
        }
        source(line, &[])
    })
    .await;
    let secrets = Secrets::of(server.client());
    let mut held = secrets.follow(&reference("config"));
    assert!(matches!(held.seen().at("config"), Look::Unknown));
    let changed = timeout(LIMIT, held.changed());
    changed.await.expect("fails");
    let seen = held.seen();
    let Look::Unreadable(why) = seen.at("config") else {
        panic!("{seen:?}")
    };
    assert!(!why.is_empty() && seen.secret().is_none());

    FAILS.store(false, Ordering::SeqCst);
    let missing = async {
        while !matches!(held.seen().at("config"), Look::Missing) {
            held.changed().await;
        }
    };
    timeout(LIMIT, missing).await.expect("is read at last");
}

#[tokio::test]
async fn what_changes_too_often_is_told_at_a_pace() {
    let server = Server::start(|line| source(line, &[secret()])).await;
    let secrets = Secrets::of(server.client());
    let mut held = secrets.follow(&reference("config"));
    // As if it had changed ten times four seconds ago.
    let begin = Instant::now();
    let earlier = begin.checked_sub(Duration::from_secs(4)).unwrap();
    while lock(&held.shared.core.pace).take(earlier).is_ok() {}
    there(&mut held, "config").await;
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn few_secrets_are_listed_at_once() {
    let server = Server::start(|_| vec![Piece::Silence]).await;
    let secrets = Secrets::of(server.client());
    let follow = |number: usize| {
        secrets.follow(&SecretRef {
            name: format!("s{number}"),
            ..reference("config")
        })
    };
    let mut all: Vec<Held> = (0..40).map(follow).collect();
    until("lists", || server.asked().len() >= LISTS).await;
    assert_eq!(secrets.0.lists.available_permits(), 0);
    assert_eq!(server.asked().len(), LISTS);
    // Whoever waits for them has no turn any more.
    all.drain(..LISTS).for_each(drop);
    until("the next ones", || server.asked().len() >= 2 * LISTS).await;
}
