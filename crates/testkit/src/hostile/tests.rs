use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::{Api, ResourceExt};
use pilotage_api::{ClusterSummary, PodChaperon};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;
use crate::build;
use crate::fault::Calls;

const LIMIT: Duration = Duration::from_secs(30);

async fn server() -> HostileServer {
    HostileServer::start("evil").await.unwrap()
}

/// Without any patience of its own.
fn client(server: &HostileServer) -> Client {
    let mut config = server.access().config().unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn chaperons(server: &HostileServer, namespace: &str) -> Api<PodChaperon> {
    Api::namespaced(client(server), namespace)
}

/// A chaperon of the pod `name` in `shop`, as the source `s` asks for it.
fn question(name: &str) -> PodChaperon {
    let pod = build::pod(name).ns("shop");
    let mut pod = pod.scheduler(keys::CANDIDATE_SCHEDULER).build();
    pod.metadata.uid = Some(format!("uid-of-{name}"));
    build::chaperon_of(&pod, Some("s")).build()
}

fn ours() -> String {
    format!("{}=s", keys::PARENT_CLUSTER_UID)
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

fn code(error: &kube::Error) -> Option<(u16, &str)> {
    match error {
        kube::Error::Api(status) => Some((status.code, &status.reason)),
        _ => None,
    }
}

#[tokio::test]
async fn without_a_script_it_is_a_healthy_empty_cluster_that_says_who_it_is() {
    let server = server().await;
    let client = client(&server);
    assert_eq!(client.request_text(get("/readyz")).await.unwrap(), "ok");
    let summaries: Api<ClusterSummary> = Api::all(client.clone());
    let own = ListParams::default().fields("metadata.name=singleton");
    let uid = |listed: &kube::core::ObjectList<ClusterSummary>| listed.items[0].cluster_uid.clone();
    let told = uid(&summaries.list(&own).await.unwrap()).unwrap();
    assert_eq!(told.0, server.cluster_uid());
    server.identify(None).unwrap();
    assert_eq!(uid(&summaries.list(&own).await.unwrap()), None);
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let asked = SelfSubjectAccessReview::default();
    let review = reviews
        .create(&PostParams::default(), &asked)
        .await
        .unwrap();
    assert!(review.status.unwrap().allowed);
    let all = Api::<PodChaperon>::all(client);
    let listed = all
        .list(&ListParams::default().labels(&ours()))
        .await
        .unwrap();
    assert!(listed.items.is_empty() && listed.metadata.resource_version.is_some());
    assert_eq!(server.count(Verb::List, "clustersummaries"), 2);
    assert_eq!(server.count(Verb::Other, "/readyz"), 1);

    let stranger = server.access().with(Credential::Token("guess".to_owned()));
    let stranger: Api<PodChaperon> = Api::all(stranger.client().unwrap());
    let refused = stranger.list(&ListParams::default()).await.unwrap_err();
    assert_eq!(code(&refused), Some((401, "Unauthorized")));
}

#[tokio::test]
async fn chaperons_are_made_granted_and_ended_as_on_a_real_api_server() {
    let server = server().await;
    let api = chaperons(&server, "shop");
    let (post, params) = (PostParams::default(), PatchParams::default());
    let made = api.create(&post, &question("web")).await.unwrap();
    let (name, uid) = (made.name_any(), made.uid().unwrap());
    let again = api.create(&post, &question("web")).await.unwrap_err();
    assert_eq!(code(&again), Some((409, "AlreadyExists")));
    let listed = api
        .list_metadata(&ListParams::default().labels(&ours()))
        .await
        .unwrap();
    assert_eq!(listed.items[0].metadata.uid.as_ref(), Some(&uid));
    assert!(
        chaperons(&server, "bank")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );

    let version = made.resource_version().unwrap();
    let watching = WatchParams::default().labels(&ours());
    let mut events = api.watch(&watching, &version).await.unwrap().boxed();
    let test = |value: &str| {
        json!([
            { "op": "test", "path": "/metadata/uid", "value": value },
            { "op": "add", "path": "/metadata/finalizers", "value": [keys::DELEGATE_GONE] },
        ])
    };
    let grant = |value: &str| Patch::<()>::Json(serde_json::from_value(test(value)).unwrap());
    let refused = api
        .patch(&name, &params, &grant("another"))
        .await
        .unwrap_err();
    assert_eq!(code(&refused), Some((422, "Invalid")));
    let granted = api.patch(&name, &params, &grant(&uid)).await.unwrap();
    assert_eq!(granted.finalizers(), [keys::DELEGATE_GONE]);
    let Some(WatchEvent::Modified(seen)) = events.try_next().await.unwrap() else {
        panic!("the grant must be seen");
    };
    assert_eq!(seen.resource_version(), granted.resource_version());
    let merge = |version: &str, finalizers: Value| {
        Patch::Merge(
            json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } }),
        )
    };
    let refused = api
        .patch(&name, &params, &merge(&version, json!(null)))
        .await
        .unwrap_err();
    assert_eq!(code(&refused), Some((409, "Conflict")));

    let of = |uid: &str| {
        DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        })
    };
    let refused = api.delete(&name, &of("another")).await.unwrap_err();
    assert_eq!(code(&refused), Some((409, "Conflict")));
    let kept = api.delete(&name, &of(&uid)).await.unwrap().left().unwrap();
    assert!(kept.metadata.deletion_timestamp.is_some());
    let version = kept.resource_version().unwrap();
    api.patch(&name, &params, &merge(&version, json!(null)))
        .await
        .unwrap();
    let gone = api.get(&name).await.unwrap_err();
    let kube::Error::Api(status) = gone else {
        panic!("{gone}");
    };
    let details = status.details.unwrap();
    assert_eq!(
        (&*status.reason, &*details.kind, &*details.name),
        ("NotFound", "podchaperons", &*name)
    );
    let rest: Vec<_> = events.take(2).try_collect().await.unwrap();
    assert!(
        matches!(&rest[..], [WatchEvent::Modified(_), WatchEvent::Deleted(_)]),
        "{rest:?}"
    );
    assert_eq!(server.count(Verb::Patch, "podchaperons"), 4);
}

#[tokio::test]
async fn questions_are_dropped_until_the_test_says_otherwise() {
    let server = server().await;
    let api = chaperons(&server, "shop");
    let made = api
        .create(&PostParams::default(), &question("web"))
        .await
        .unwrap();
    server
        .counted(Verb::Create, "podchaperons", 1, LIMIT)
        .await
        .unwrap();
    assert_eq!(server.objects("podchaperons").unwrap().len(), 1);
    assert_eq!(made.annotations()[keys::ATTEMPT], "0");
    server.answer_questions(Questions::Run(json!({ "status": { "podIP": "nonsense" } })));
    let allowed = json!({ "metadata": { "annotations": { keys::IS_ALLOWED: keys::TRUE } } });
    let (granting, running) = tokio::join!(
        async {
            let reserved = |object: &Value| object["metadata"]["annotations"][keys::ATTEMPT] == "1";
            server.holds("podchaperons", reserved, LIMIT).await.unwrap();
            let params = PatchParams::default();
            api.patch(&made.name_any(), &params, &Patch::Merge(&allowed))
                .await
        },
        server.holds(
            "podchaperons",
            |object| object["status"]["podIP"] == "nonsense",
            LIMIT
        ),
    );
    granting.unwrap();
    assert_eq!(running.unwrap()["status"]["phase"], "Running");
    let version = made.resource_version().unwrap();
    let events = api.watch(&WatchParams::default(), &version).await.unwrap();
    let events: Vec<_> = events.take(3).try_collect().await.unwrap();
    assert!(
        events
            .iter()
            .all(|event| matches!(event, WatchEvent::Modified(_))),
        "{events:?}"
    );
}

#[tokio::test]
async fn forged_chaperons_are_shown_to_those_who_asked_for_others() {
    let server = server().await;
    let tenant = chaperons(&server, "tenant");
    let forged = build::chaperon("forged")
        .ns("shop")
        .granted(1)
        .running("10.0.0.1")
        .value();
    server.put(forged.clone()).unwrap();
    let asked = ListParams::default().labels(&ours());
    let listed = tenant.list(&asked).await.unwrap();
    assert!(listed.items.is_empty(), "only where it was put");
    let version = listed.metadata.resource_version.unwrap();
    let watching = WatchParams::default().labels(&ours());
    let mut events = tenant.watch(&watching, &version).await.unwrap().boxed();
    server.put_everywhere(forged.clone()).unwrap();
    let Some(WatchEvent::Modified(seen)) = events.try_next().await.unwrap() else {
        panic!("the forged one must be seen");
    };
    assert_eq!(seen.namespace().as_deref(), Some("shop"));
    assert_eq!(tenant.list(&asked).await.unwrap().items.len(), 1);
    server.forge("podchaperons", "DELETED", forged).unwrap();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Deleted(_))
    ));
    assert_eq!(
        tenant.list(&asked).await.unwrap().items.len(),
        1,
        "it is still there"
    );
    let expired = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
    });
    server.forge("podchaperons", "ERROR", expired).unwrap();
    let event = events.try_next().await.unwrap();
    assert!(matches!(event, Some(WatchEvent::Error(status)) if status.code == 410));
    assert!(server.remove("podchaperons", "shop", "forged").unwrap());
    assert!(matches!(server.objects("secrets"), Err(Error::Resource(_))));
    assert!(server.put(json!({ "kind": "Secret" })).is_err());
}

#[tokio::test]
async fn lies_reach_a_client_and_the_truth_comes_back() {
    let (server, trap) = (server().await, server().await);
    let api = chaperons(&server, "shop");
    let deep = Lie::Deep {
        field: "items".to_owned(),
        depth: 10_000,
    };
    for lie in [
        Lie::Failure(404),
        Lie::Failure(500),
        Lie::Redirect(trap.url().to_owned()),
        Lie::http2_reset(),
        Lie::Raw(Bytes::from_static(b"\x00\xff")),
        Lie::EndlessHeaders,
        Lie::Cut(5),
        Lie::Reset(5),
        Lie::InvalidUtf8,
        deep,
    ] {
        let text = format!("{lie:?}");
        server.play(Script::new().always(Calls::of(Verb::List, "podchaperons"), lie));
        let params = ListParams::default();
        let listed = tokio::time::timeout(LIMIT, api.list(&params))
            .await
            .unwrap();
        assert!(listed.is_err(), "{text}");
        server.tell_truth();
        assert!(api.list(&params).await.is_ok(), "after {text}");
    }
    assert!(
        trap.counts().borrow().is_empty(),
        "nobody followed the redirect"
    );
    assert!(server.lies() > 0);
    let told = server.lies();
    assert!(api.list(&ListParams::default()).await.is_ok());
    assert_eq!(server.lies(), told, "that was the truth");
    // What a creation that is answered badly has made is there.
    let creations = Calls::of(Verb::Create, "podchaperons");
    server.play(Script::new().next(1, creations, Lie::Cut(0)));
    let post = PostParams::default();
    assert!(api.create(&post, &question("web")).await.is_err());
    assert_eq!(server.objects("podchaperons").unwrap().len(), 1);
    server.tell_truth();
    // Redirects lead where they say.
    server.play(Script::new().always(Calls::any(), Lie::Redirect(trap.url().to_owned())));
    let redirected = client(&server)
        .send(get("/readyz").map(kube::client::Body::from))
        .await;
    let redirected = redirected.unwrap();
    let location = redirected.headers()["location"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(location, format!("{}/readyz", trap.url()));
}

#[tokio::test]
async fn what_is_said_to_be_done_may_not_be() {
    let server = server().await;
    let api = chaperons(&server, "shop");
    let (post, params) = (PostParams::default(), PatchParams::default());
    let any = |lie| server.play(Script::new().always(Calls::any().resource("podchaperons"), lie));
    any(Lie::Undone);
    let made = api.create(&post, &question("web")).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some());
    assert!(server.objects("podchaperons").unwrap().is_empty());

    server.tell_truth();
    let made = api.create(&post, &question("web")).await.unwrap();
    let (name, uid) = (made.name_any(), made.uid().unwrap());
    let before = server.objects("podchaperons").unwrap();
    let granted = json!({ "metadata": { "annotations": { keys::IS_ALLOWED: keys::TRUE } } });
    let granted = Patch::Merge(granted);
    any(Lie::Undone);
    let told = api.patch(&name, &params, &granted).await.unwrap();
    assert_eq!(told.annotations()[keys::IS_ALLOWED], keys::TRUE);
    assert_ne!(told.resource_version(), made.resource_version());
    let status = api.delete(&name, &DeleteParams::default()).await.unwrap();
    let status = status.right().unwrap();
    let details = status.details.clone().unwrap();
    assert!(status.is_success());
    assert_eq!(
        (&details.name, &details.uid, &*details.kind),
        (&name, &uid, "podchaperons")
    );

    any(Lie::Shown);
    let told = api.patch(&name, &params, &granted).await.unwrap();
    assert_eq!(told.resource_version(), made.resource_version());
    let told = api.delete(&name, &DeleteParams::default()).await.unwrap();
    assert_eq!(told.left().unwrap().uid(), Some(uid));
    assert_eq!(server.objects("podchaperons").unwrap(), before);
}

#[tokio::test]
async fn a_quiet_watch_outlives_the_time_that_it_was_given() {
    let server = server().await;
    let api = chaperons(&server, "shop");
    let at_once = WatchParams::default().timeout(0);
    let honest = api.watch(&at_once, "0").await.unwrap();
    assert!(honest.boxed().next().await.is_none());
    let watches = Calls::any().verb(Verb::Watch);
    server.play(Script::new().always(watches, Lie::QuietWatch));
    let mut events = api.watch(&at_once, "0").await.unwrap().boxed();
    server
        .put(build::chaperon("late").ns("shop").value())
        .unwrap();
    let Some(Ok(WatchEvent::Added(seen))) = events.next().await else {
        panic!("it must go on");
    };
    assert_eq!(seen.name_any(), "late");
}

#[tokio::test]
async fn silence_ends_with_its_connection() {
    let server = server().await;
    server.play(Script::new().always(Calls::any().path("/readyz"), Lie::Silence));
    let client = client(&server);
    let (answer, asked) = tokio::join!(client.request_text(get("/readyz")), async {
        let asked = server.counted(Verb::Other, "/readyz", 1, LIMIT).await;
        server.cut_connections();
        asked
    });
    assert!(answer.is_err());
    assert_eq!(asked.unwrap(), 1);
    server.tell_truth();
    assert_eq!(client.request_text(get("/readyz")).await.unwrap(), "ok");
}

#[tokio::test]
async fn what_never_ends_ends_with_its_client_or_its_server() {
    const ENOUGH: usize = 3 << 20;
    let server = server().await;
    let object = question("web-{number}");
    let object = serde_json::to_value(object).unwrap();
    let line = json!({ "type": "ADDED", "object": { "metadata": { "name": PADDING } } });
    let events = json!({ "type": "ADDED", "object": object });
    for answer in [
        Answer::text(None),
        Answer::list(&object, None),
        Answer::padded(&line, None),
        Answer::events(&events, None),
    ] {
        server.play(Script::new().always(Calls::any(), Lie::Answer(answer)));
        let before = server.sent();
        let client = client(&server);
        let request = get("/readyz").map(kube::client::Body::from);
        let mut body = client.send(request).await.unwrap().into_body();
        let mut read = 0;
        while read < ENOUGH {
            let frame = body.frame().await.unwrap().unwrap();
            read += frame.into_data().unwrap().len();
        }
        // What is counted last may have been read already.
        assert!(server.sent() - before >= ENOUGH as u64 / 2);
        drop((body, client));
        // The tracker is closed, so this waits until there is none.
        let gone = server.shared.connections.wait();
        tokio::time::timeout(LIMIT, gone).await.unwrap();
    }
    let (connections, listening) = (server.shared.connections.clone(), server.listening.clone());
    let request = get("/readyz").map(kube::client::Body::from);
    let mut body = client(&server).send(request).await.unwrap().into_body();
    assert_eq!(server.connections(), 1);
    drop(server);
    let ended = async {
        connections.wait().await;
        listening.wait().await;
        while let Some(Ok(_)) = body.frame().await {}
    };
    tokio::time::timeout(LIMIT, ended).await.unwrap();
}

/// Asks for `/readyz` on a connection of its own; all that comes, and how it ends.
async fn raw(server: &HostileServer) -> (String, io::Result<usize>) {
    let mut roots = rustls::RootCertStore::empty();
    let ca = server.access().config().unwrap().root_cert.unwrap();
    roots.add(CertificateDer::from(ca[0].clone())).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address: SocketAddr = server
        .url()
        .strip_prefix("https://")
        .unwrap()
        .parse()
        .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::IpAddress(address.ip().into());
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.unwrap();
    let token = &server.shared.honest.token;
    let request = format!("GET /readyz HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    let ended = stream.read_to_end(&mut text).await;
    (String::from_utf8(text).unwrap(), ended)
}

#[tokio::test]
async fn connections_end_as_the_script_says() {
    let server = server().await;
    let readyz = || Calls::any().path("/readyz");
    let play = |lie| server.play(Script::new().always(readyz(), lie));
    play(Lie::Raw(Bytes::from_static(b"not HTTP")));
    let (text, ended) = raw(&server).await;
    assert_eq!((&*text, ended.unwrap()), ("not HTTP", 8));
    play(Lie::Cut(1));
    let (text, ended) = raw(&server).await;
    assert!(text.ends_with("Content-Length: 2\r\n\r\no"), "{text}");
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    play(Lie::Reset(1));
    let (_, ended) = raw(&server).await;
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(server.accepted(), 3);
    server.stop().await;
}
