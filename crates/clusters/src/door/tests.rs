use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use pilotage_runtime::call::CallError;
use serde_json::json;

use super::*;
use crate::budget::Commons;
use crate::connection::LostReason;
use crate::names::Names;
use crate::testing::{Answer, Piece, Server, failure, head, json as good};

mod floods;
mod lines;

const MIB: usize = 1 << 20;

async fn list(client: &Client) -> Result<usize, kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    let listed = maps.list(&ListParams::default().limit(500)).await?;
    Ok(listed.items.len())
}

async fn get(client: &Client) -> Result<ConfigMap, kube::Error> {
    Api::namespaced(client.clone(), "a").get("b").await
}

async fn watch(client: &Client) -> Result<usize, kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    let events = maps.watch(&WatchParams::default(), "1").await?;
    Ok(events.try_collect::<Vec<_>>().await?.len())
}

async fn health(client: &Client) -> Result<String, kube::Error> {
    let request = Request::get("/readyz").body(Vec::new()).unwrap();
    client.request_text(request).await
}

fn word<T>(result: Result<T, kube::Error>) -> Option<&'static str> {
    offence(&result.err()?).map(|reason: LostReason| reason.word())
}

fn fault<T>(result: Result<T, kube::Error>) -> Option<Fault> {
    Fault::of(&result.err()?).cloned()
}

fn endless(content_type: &str, first: &str, again: &str) -> Answer {
    let block = again.repeat(64 * 1024 / again.len());
    vec![
        head("200 OK", content_type),
        Piece::Bytes(first.into()),
        Piece::Endless(block.into()),
    ]
}

fn map() -> serde_json::Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b", "namespace": "a" } })
}

#[tokio::test]
async fn what_an_api_server_says_passes() {
    let server = Server::start(|line| match line {
        "GET /readyz" => vec![head("200 OK", "text/plain"), Piece::Bytes(b"ok".to_vec())],
        line if line.contains("watch=true") => {
            good(&format!("{}\n", json!({ "type": "ADDED", "object": map() })).repeat(3))
        }
        line if line.contains("limit=500") => good(&json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "1" },
            "items": [map(), map()],
        })),
        _ => good(&map()),
    })
    .await;
    let client = server.client();
    assert_eq!(health(&client).await.unwrap(), "ok");
    assert_eq!(list(&client).await.unwrap(), 2);
    assert_eq!(watch(&client).await.unwrap(), 3);
    let map = get(&client).await.unwrap();
    assert_eq!(map.metadata.name.as_deref(), Some("b"));
}

#[tokio::test]
async fn endless_bodies_are_cut_at_their_limits() {
    let text = r#"{"apiVersion":"v1","kind":"ConfigMapList","items":["#;
    let server = Server::start(move |line| match line {
        "GET /readyz" => endless("text/plain", "", "ok "),
        line if line.contains("watch=true") => endless("application/json", "{", " "),
        line if line.contains("limit=500") => endless("application/json", text, r#""x","#),
        line if line.contains("fails") => {
            let mut answer = endless("text/plain", "", "no ");
            answer[0] = head("500 Oh", "text/plain");
            answer
        }
        _ => endless("application/json", "{", " "),
    })
    .await;
    let client = server.client();
    for (what, result) in [
        ("readyz", word(health(&client).await)),
        ("list", word(list(&client).await)),
        ("object", word(get(&client).await)),
        ("event", word(watch(&client).await)),
    ] {
        assert_eq!(result, Some("TooMuch"), "{what}");
    }
    // 10 MiB of them are read; the sockets' own buffers take some, too.
    let before = server.sent();
    assert!(before < 40 * MIB, "{before}");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "fails");
    let Err(kube::Error::Api(status)) = maps.get("b").await else {
        panic!("a failure stays one, however long its text is");
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (500, "status 500, without a reason")
    );
    assert!(server.sent() - before < 16 * MIB);
}

#[tokio::test]
async fn what_is_on_its_way_counts_for_the_whole_namespace() {
    let server = Server::start(|line| match line {
        "GET /readyz" => vec![head("200 OK", "text/plain"), Piece::Bytes(b"ok".to_vec())],
        line if line.contains("watch=true") => vec![
            head("200 OK", "application/json"),
            Piece::Bytes(b"{\"type\":".to_vec()),
            Piece::Silence,
        ],
        line if line.contains("limit=500") => good(&json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "1" },
            "items": [map(), map()],
        })),
        _ => good(&map()),
    })
    .await;
    let mut commons = Commons::default();
    let [mine, others] = [(); 2].map(|()| Arc::new(Budget::of(Some(commons.of("evil")))));
    let client = server.client_of(&mine);
    let mut answers = UnderWay::new(others);
    answers.add(128 * MIB).unwrap();
    for (what, result) in [
        ("list", fault(list(&client).await)),
        ("object", fault(get(&client).await)),
        ("event", fault(watch(&client).await)),
    ] {
        let fault = result.unwrap();
        assert!(matches!(fault, Fault::NoRoom(_)), "{what}: {fault}");
        assert!(fault.to_string().contains("namespace evil"), "{fault}");
    }
    assert_eq!(health(&client).await.unwrap(), "ok");
    drop(answers);
    assert_eq!(list(&client).await.unwrap(), 2);
    assert!(get(&client).await.is_ok());
}

/// A budget of which nothing is left for so many seconds.
fn spent(seconds: usize) -> Arc<Budget> {
    let budget = Arc::new(Budget::default());
    budget.spend((650 + 16 * seconds) * MIB, 0, Instant::now());
    budget
}

#[tokio::test(start_paused = true)]
async fn who_sent_too_much_is_asked_again_when_that_is_paid() {
    let server = Server::start(|line| match line {
        "GET /readyz" => vec![head("200 OK", "text/plain"), Piece::Bytes(b"ok".to_vec())],
        line if line.contains("watch=true") => good(""),
        _ => good(&map()),
    })
    .await;
    let client = server.client_of(&spent(10));
    let soon = Duration::from_secs(9);
    assert!(timeout(soon, watch(&client)).await.is_err());
    assert!(timeout(Duration::ZERO, get(&client)).await.is_err());
    assert_eq!(server.asked(), Vec::<String>::new());
    // How it is may be asked at any time.
    assert_eq!(health(&client).await.unwrap(), "ok");
    let began = Instant::now();
    assert_eq!(watch(&client).await.unwrap(), 0);
    assert!(get(&client).await.is_ok());
    assert!(began.elapsed() <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_server_gets_no_more_time_by_closing_its_watches_or_by_other_answers() {
    let mut large = map();
    large["data"] = json!({ "a": "x".repeat(2 * MIB) });
    let events = format!("{}\n", json!({ "type": "ADDED", "object": &large }));
    let page = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [], "x": "x".repeat(2 * MIB),
    });
    let server = Server::start(move |line| match line {
        line if line.contains("fails") => failure("500 Oh", &"x".repeat(60 << 10)),
        line if line.contains("watch=true") && line.contains("half") => good(&"x".repeat(2 * MIB)),
        line if line.contains("watch=true") => good(&events),
        line if line.contains("limit=500") => good(&page),
        _ => good(&large),
    })
    .await;
    for what in [
        "watches",
        "halves of events",
        "lists",
        "objects",
        "failures",
    ] {
        let client = server.client_of(&spent(0));
        let named = |name: &str| -> Api<ConfigMap> { Api::namespaced(client.clone(), name) };
        let began = Instant::now();
        // The last one isn't paid before the next is asked for.
        for _ in 0..9 {
            match what {
                "watches" => assert_eq!(watch(&client).await.unwrap(), 1),
                "halves of events" => {
                    let half = named("half").watch(&WatchParams::default(), "1").await;
                    let events: Vec<_> = half.unwrap().try_collect().await.unwrap();
                    assert!(events.is_empty());
                }
                "lists" => assert_eq!(list(&client).await.unwrap(), 0),
                "objects" => assert!(get(&client).await.is_ok()),
                _ => {
                    for _ in 0..32 {
                        assert!(named("fails").get("b").await.is_err());
                    }
                }
            }
        }
        // Eight times 2 MiB, or a little less.
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(900), "{what}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_byte_a_second_is_too_slow() {
    let server = Server::start(|line| match line {
        line if line.contains("fails") => vec![head("403 No", "a/b"), Piece::Trickle(b'x')],
        _ => vec![head("200 OK", "application/json"), Piece::Trickle(b' ')],
    })
    .await;
    let client = server.client();
    for result in [
        fault(list(&client).await),
        fault(get(&client).await),
        fault(watch(&client).await),
        fault(health(&client).await),
    ] {
        assert!(matches!(result, Some(Fault::TooSlow { .. })), "{result:?}");
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "fails");
    let error = maps.get("b").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 403));
}

#[tokio::test]
async fn what_is_no_answer_of_an_api_server_is_told_apart() {
    let deep = |opening: &str, closing: &str| {
        let (opening, closing) = (opening.repeat(10_000), closing.repeat(10_000));
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{}},"x":{opening}{closing},"items":[]}}"#
        )
    };
    let heavy = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","x":[{}0]}}"#,
        r#"{"":0},"#.repeat(100_000)
    );
    let pods = json!({ "apiVersion": "v1", "kind": "PodList", "items": [] });
    let mut utf8 = good(r#"{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"x":""#);
    utf8.push(Piece::Bytes(b"\xff\xfe\",\"items\":[]}".to_vec()));
    let gzip =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n{}";
    let html = vec![head("200 OK", "text/html"), Piece::Bytes(b"{}".to_vec())];
    let table: Vec<(&str, Answer, &str)> = vec![
        ("html", html, "Misbehaving"),
        ("gzip", vec![Piece::Bytes(gzip.into())], "Misbehaving"),
        ("another kind", good(&pods), "Misbehaving"),
        (
            "a Status",
            good(&json!({ "apiVersion": "v1", "kind": "Status" })),
            "Misbehaving",
        ),
        ("no JSON", good("<html>"), "Misbehaving"),
        ("half of it", good("{\"apiVersion\":\"v1\""), "Misbehaving"),
        ("deep arrays", good(&deep("[", "]")), "Misbehaving"),
        (
            "deep objects",
            good(&deep("{\"a\":", "}").replace(":}", ":1}")),
            "Misbehaving",
        ),
        ("no UTF-8", utf8, "Misbehaving"),
        (
            "no content",
            vec![head("204 No Content", "application/json")],
            "Misbehaving",
        ),
        (
            "another type",
            good(&json!({
                "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": 5,
            })),
            "Misbehaving",
        ),
        ("heavy", good(&heavy), "TooMuch"),
        (
            "a head without end",
            vec![
                Piece::Bytes(b"HTTP/1.1 200 OK\r\n".to_vec()),
                Piece::Endless(b"X-More: xxxxxxxxxxxxxxxx\r\n".repeat(100)),
            ],
            "Misbehaving",
        ),
        (
            "a line of a head without end",
            vec![
                Piece::Bytes(b"HTTP/1.1 200 OK\r\nX: ".to_vec()),
                Piece::Endless(vec![b'x'; 4096]),
            ],
            "Misbehaving",
        ),
        // SETTINGS, then RST_STREAM of the first stream.
        (
            "HTTP/2",
            vec![Piece::Bytes(
                b"\0\0\0\x04\0\0\0\0\0\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08".to_vec(),
            )],
            "Misbehaving",
        ),
    ];
    for (what, answer, want) in table {
        let server = Server::start(move |_| answer.clone()).await;
        let client = server.client();
        let result = match what {
            "heavy" => word(get(&client).await),
            _ => word(list(&client).await),
        };
        assert_eq!(result, Some(want), "{what}");
    }
}

#[tokio::test]
async fn a_redirection_is_never_followed() {
    let elsewhere = Server::start(|_| good(&map())).await;
    let url = format!("http://{}", elsewhere.address);
    for code in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {code} Over There\r\nLocation: {url}\r\n\r\n");
        let server = Server::start(move |_| vec![Piece::Bytes(answer.clone().into())]).await;
        let client = server.client();
        assert_eq!(fault(get(&client).await), Some(Fault::Redirect(code)));
        assert_eq!(fault(health(&client).await), Some(Fault::Redirect(code)));
    }
    assert_eq!(elsewhere.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn the_text_of_a_failure_is_a_status_or_nothing() {
    let html = "<html>the wiki of another department</html>";
    let refused = json!({
        "apiVersion": "v1", "kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you",
    });
    let said = refused.to_string();
    let server = Server::start(move |line| match line {
        line if line.contains("limit=500") => failure("403 No", &said),
        _ => failure("403 No", html),
    })
    .await;
    let client = server.client();
    let message = |error: kube::Error| CallError::from(error).message();
    assert_eq!(message(list(&client).await.unwrap_err()), "not for you");
    for error in [
        get(&client).await.unwrap_err(),
        health(&client).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(message(error), "status 403, without a reason");
    }
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_is_not_even_connected_to() {
    let server = Server::start(|_| good(&map())).await;
    let url = format!("http://localhost:{}", server.address.port());
    let asks = |places: &[&str]| {
        let allowed = Allowed {
            insecure: true,
            places: places.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let config = Config::new(url.parse().unwrap());
        let client = client(config, "test", &allowed, &Arc::default()).unwrap();
        async move { get(&client).await }
    };
    assert_eq!(word(asks(&["10.0.0.0/8"]).await), Some("ServerNotAllowed"));
    assert_eq!(server.asked(), Vec::<String>::new());
    for places in [&["127.0.0.0/8"][..], &["localhost"]] {
        assert!(asks(places).await.is_ok(), "{places:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_connections_of_a_target_ask_for_its_name_together() {
    let server = Server::start(|_| good(&map())).await;
    let address = std::net::SocketAddr::new(server.address.ip(), 0);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let budget = Arc::new(Budget::with_names(Names::of(move |name| {
        // The first question fails.
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        assert_eq!(name.as_str(), "far.test");
        Box::pin(async move {
            if first {
                Err(io::Error::other("no such name"))
            } else {
                Ok(vec![address])
            }
        })
    })));
    let url = format!("http://far.test:{}", server.address.port());
    let client = || {
        let config = Config::new(url.parse().unwrap());
        client(config, "test", &Allowed::default(), &budget).unwrap()
    };
    for _ in 0..5 {
        let error = CallError::from(get(&client()).await.unwrap_err());
        assert!(error.message().contains("no such name"), "{error}");
        assert!(offence_of_call(&error).is_none());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(get(&client()).await.is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_silent_or_gone_has_done_nothing_wrong() {
    let server = Server::start(|_| vec![]).await;
    let client = server.client();
    assert_eq!(word(list(&client).await), None);
    drop(server);
    assert_eq!(word(list(&client).await), None);
    let silent = Server::start(|_| vec![Piece::Silence]).await;
    let client = silent.client();
    let limit = Duration::from_millis(50);
    let error = pilotage_runtime::call::within(limit, list(&client)).await;
    assert!(offence_of_call(&error.unwrap_err()).is_none());
}
