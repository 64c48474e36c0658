use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pilotage_runtime::throttle::Rate;
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::allow::Allowed;
use crate::testing::{Answer, Piece, Server, failure, head, json as good, target};

const LIMIT: Duration = Duration::from_secs(30);

/// An API server without anything in it.
fn empty(line: &str) -> Answer {
    match line {
        "GET /readyz" => vec![head("200 OK", "text/plain"), Piece::Bytes(b"ok".to_vec())],
        _ => good(&json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "ClusterSummaryList",
            "metadata": { "resourceVersion": "1" }, "items": [],
        })),
    }
}

fn supervisor(target: &Arc<Target>, server: &Server) -> (Supervisor, Source) {
    let options = Options::new("test");
    let secrets = Secrets::of(server.client());
    let supervisor = Supervisor::new(target.clone(), server.client(), secrets, options);
    (supervisor, Source::Remote(Box::new(server.config())))
}

async fn probe(supervisor: &mut Supervisor, source: &Source) -> Connection {
    let probe = supervisor.probe(Some(source), Instant::now());
    timeout(LIMIT, probe).await.expect("a probe ends");
    supervisor.target.connection()
}

#[tokio::test]
async fn who_answers_his_probe_and_nothing_else_is_lost_until_he_does() {
    let server = Server::start(empty).await;
    let target = target();
    let (mut supervisor, source) = supervisor(&target, &server);
    assert!(probe(&mut supervisor, &source).await.is_connected());
    let witness = target.offences.witness();
    let reason = LostReason::TooMuch("a list without end".into());
    witness.accuse(reason.clone());
    assert!(probe(&mut supervisor, &source).await.is_connected());
    let state = probe(&mut supervisor, &source).await;
    assert_eq!(state.lost(), Some(&reason));
    assert!(witness.acquit());
    assert!(probe(&mut supervisor, &source).await.is_connected());
}

#[tokio::test]
async fn a_probe_that_no_api_server_answers_like_this_loses_the_target() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n";
    let long = vec![
        head("200 OK", "text/plain"),
        Piece::Endless(b"ok ".repeat(4096)),
    ];
    for (answer, want) in [
        (vec![Piece::Bytes(redirect.into())], "Misbehaving"),
        (vec![Piece::Bytes(b"SSH-2.0-x\r\n".to_vec())], "Misbehaving"),
        (long, "TooMuch"),
        (failure("500 Oh", "hunter2"), "Unreachable"),
        (failure("401 Who", "hunter2"), "Unauthorized"),
        (vec![], "Unreachable"),
    ] {
        let server = Server::start(move |_| answer.clone()).await;
        let target = target();
        let (mut supervisor, source) = supervisor(&target, &server);
        probe(&mut supervisor, &source).await;
        let state = probe(&mut supervisor, &source).await;
        let reason = state.lost().unwrap();
        assert_eq!(reason.word(), want, "{reason}");
        assert!(!reason.to_string().contains("hunter2"), "{reason}");
    }
}

#[tokio::test]
async fn who_cannot_be_asked_who_he_is_is_lost_as_well() {
    let server = Server::start(|line| match line {
        "GET /readyz" => empty(line),
        _ => vec![
            head("200 OK", "text/html"),
            Piece::Bytes(b"<html>".to_vec()),
        ],
    })
    .await;
    let target = target();
    let (mut supervisor, source) = supervisor(&target, &server);
    probe(&mut supervisor, &source).await;
    let state = probe(&mut supervisor, &source).await;
    assert_eq!(state.lost().map(LostReason::word), Some("Misbehaving"));
}

#[tokio::test]
async fn what_tells_whether_a_target_is_there_waits_for_no_turn() {
    for is_local in [false, true] {
        let server = Server::start(empty).await;
        let target = target();
        let rate = Rate { qps: 0.1, burst: 1 };
        let throttle = Throttle::new(rate, "--test");
        let (mut supervisor, source) = if is_local {
            let mut options = Options::new("test");
            options.unthrottled = Some(Unthrottled(server.client()));
            let local = throttle.client(server.client());
            let secrets = Secrets::of(server.client());
            let supervisor = Supervisor::new(target.clone(), local, secrets, options);
            (supervisor, Source::Local)
        } else {
            let (mut supervisor, source) = supervisor(&target, &server);
            supervisor.throttle = Some(throttle.clone());
            (supervisor, source)
        };
        // As with every Secret that is read.
        supervisor.unproved = true;
        assert!(probe(&mut supervisor, &source).await.is_connected());
        let client = target.client().unwrap();
        let ask = || {
            let request = http::Request::get("/version").body(Vec::new()).unwrap();
            timeout(LIMIT, client.request_text(request))
        };
        // Whatever it answers, that was the one request of these ten seconds.
        let _ = ask().await.expect("it is sent at once");
        let before = server.asked().len();
        for _ in 0..5 {
            supervisor.identified = None;
            assert!(probe(&mut supervisor, &source).await.is_connected());
        }
        let refused = ask().await.expect("it isn't sent").unwrap_err();
        assert_eq!(Failure::of(&refused), Failure::Throttled, "{refused}");
        let asked = server.asked().split_off(before);
        assert!(asked.len() >= 10, "{asked:?}");
        assert!(!asked.iter().any(|it| it == "GET /version"), "{asked:?}");
    }
}

/// A source whose only Secret `ns/far` has this at the key `config`.
async fn holding(text: Option<String>) -> Server {
    let key = if text.is_some() { "config" } else { "password" };
    let data = STANDARD.encode(text.unwrap_or_default());
    let secret = json!({ "metadata": {
        "name": "far", "namespace": "ns", "uid": "u", "resourceVersion": "1",
    }, "data": { key: data } });
    Server::start(move |line| match line {
        line if line.contains("watch=true") => {
            vec![head("200 OK", "application/json"), Piece::Silence]
        }
        _ => good(&json!({
            "apiVersion": "v1", "kind": "SecretList", "metadata": { "resourceVersion": "1" },
            "items": [secret],
        })),
    })
    .await
}

/// What becomes of the Target whose Secret has this.
async fn lost_with(text: Option<String>, options: Options) -> (Option<&'static str>, Option<bool>) {
    let source = holding(text).await;
    let target = target();
    let mut state = target.state();
    let secrets = Secrets::of(source.client());
    let task = tokio::spawn(run(target.clone(), source.client(), secrets, options));
    let known = state.wait_for(|state| *state != Connection::Connecting);
    let known = timeout(LIMIT, known).await.expect("is tried").unwrap();
    let word = known.lost().map(LostReason::word);
    let holds = async {
        while target.has_kubeconfig().is_none() {
            tokio::task::yield_now().await;
        }
        target.has_kubeconfig()
    };
    let holds = timeout(LIMIT, holds).await.expect("is looked at");
    task.abort();
    (word, holds)
}

#[tokio::test]
async fn a_secret_is_used_as_far_as_its_target_may_lead() {
    let far = Server::start(empty).await;
    let file = |url: &str, more: &str| {
        let kubeconfig = json!({
            "current-context": "a", "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
            "clusters": [{ "name": "a", "cluster": { "server": url, "insecure-skip-tls-verify": more == "skip" } }],
            "users": [{ "name": "a", "user": { "token": "t" } }],
        });
        Some(kubeconfig.to_string())
    };
    let loose = || Options {
        allowed: Allowed {
            insecure: true,
            ..Allowed::default()
        },
        ..Options::new("test")
    };
    let elsewhere = || {
        let mut options = loose();
        options.allowed.places = ["10.0.0.0/8".parse().unwrap()].into();
        options
    };
    let strict = || Options::new("test");
    let url = format!("http://{}", far.address);
    let known = url.replace("http", "https");
    for (what, text, options, want) in [
        (
            "another key",
            None,
            strict(),
            (Some("KeyMissing"), Some(false)),
        ),
        (
            "a password",
            Some("hunter2".to_owned()),
            strict(),
            (Some("KubeconfigUnreadable"), Some(false)),
        ),
        (
            "http",
            file(&url, ""),
            strict(),
            (Some("InsecureServer"), Some(true)),
        ),
        (
            "an unknown certificate",
            file(&known, "skip"),
            strict(),
            (Some("InsecureServer"), Some(true)),
        ),
        ("http by flag", file(&url, ""), loose(), (None, Some(true))),
        (
            "elsewhere",
            file(&url, ""),
            elsewhere(),
            (Some("ServerNotAllowed"), Some(true)),
        ),
    ] {
        assert_eq!(lost_with(text, options).await, want, "{what}");
    }
}

#[tokio::test]
async fn a_secret_that_was_read_too_often_of_late_is_read_later() {
    let source = holding(Some("hunter2".to_owned())).await;
    let target = target();
    let secrets = Secrets::of(source.client());
    let options = Options::new("test");
    let mut supervisor = Supervisor::new(target.clone(), source.client(), secrets, options);
    let begin = Instant::now();
    let earlier = begin.checked_sub(Duration::from_secs(4)).unwrap();
    while supervisor.pace.take(earlier).is_ok() {}
    let task = tokio::spawn(supervisor.run());
    let mut state = target.state();
    let known = state.wait_for(|state| *state != Connection::Connecting);
    let known = timeout(LIMIT, known).await.expect("is read").unwrap();
    assert_eq!(
        known.lost().map(LostReason::word),
        Some("KubeconfigUnreadable")
    );
    assert!(begin.elapsed() >= Duration::from_secs(1));
    task.abort();
}

#[tokio::test]
async fn a_secret_elsewhere_is_not_even_asked_for() {
    let source = Server::start(empty).await;
    let options = Options {
        namespaces: "other,third".parse().unwrap(),
        ..Options::new("test")
    };
    let target = target();
    target.set_kubeconfig(Some(true));
    let mut state = target.state();
    let secrets = Secrets::of(source.client());
    let task = tokio::spawn(run(target.clone(), source.client(), secrets, options));
    let lost = state.wait_for(|state| state.lost().is_some());
    let lost = timeout(LIMIT, lost).await.expect("is lost").unwrap();
    let reason = lost.lost().unwrap();
    assert_eq!(reason.word(), "NamespaceNotAllowed");
    let text = reason.to_string();
    assert!(
        text.contains("secret ns/far") && text.contains("--target-namespaces"),
        "{text}"
    );
    assert!(!reason.was_tried() && target.client().is_none());
    // Nobody may look any more.
    assert_eq!(target.has_kubeconfig(), None);
    task.abort();
    assert_eq!(source.asked(), [""; 0]);
}

#[tokio::test]
async fn a_target_whose_supervisor_panics_is_lost_until_the_next_one_has_reached_it() {
    let server = Server::start(empty).await;
    let target = target();
    let (mut first, source) = supervisor(&target, &server);
    // As with every Secret that is read.
    first.unproved = true;
    assert!(probe(&mut first, &source).await.is_connected());
    let session = || target.sessions().borrow().clone();
    let before = session().unwrap();
    let panics = tokio::spawn(guard(target.clone(), async { panic!("of hunter2") }));
    assert!(
        panics.await.unwrap_err().is_panic(),
        "it goes on to who restarts it"
    );
    let state = target.connection();
    let reason = state.lost().unwrap();
    assert_eq!(reason.word(), "InternalError");
    assert!(!reason.to_string().contains("hunter2") && !reason.was_tried());
    assert!(session().is_none());

    let (mut second, source) = supervisor(&target, &server);
    assert!(probe(&mut second, &source).await.is_connected());
    let after = session().unwrap();
    assert!(after.generation > before.generation);
    assert_ne!(after.realm, before.realm, "it may be another cluster's");
}

#[tokio::test]
async fn a_version_of_the_secret_counts_once_its_kubeconfig_was_tried() {
    let server = Server::start(empty).await;
    let silent = Server::start(|_| failure("500 Oh", "")).await;
    let target = target();
    let tried = || target.tried().borrow().clone();
    let (mut supervisor, source) = supervisor(&target, &server);
    supervisor.version = Some("7".to_owned());
    supervisor.tell_tried();
    assert_eq!(tried(), None);
    assert!(probe(&mut supervisor, &source).await.is_connected());
    assert_eq!(tried().as_deref(), Some("7"));
    // Only a finalizer was put on it.
    supervisor.version = Some("8".to_owned());
    supervisor.tell_tried();
    assert_eq!(tried().as_deref(), Some("8"));

    let other = Source::Remote(Box::new(silent.config()));
    (supervisor.version, supervisor.tried) = (Some("9".to_owned()), false);
    supervisor.unproved = true;
    assert!(probe(&mut supervisor, &other).await.is_connected());
    assert_eq!(
        tried().as_deref(),
        Some("8"),
        "it is connected by the older one"
    );
    assert!(probe(&mut supervisor, &other).await.lost().is_some());
    assert_eq!(tried().as_deref(), Some("9"));
}
