//! What a fault proxy does to clients of a real API server, mode by mode.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use pilotage_testkit::Change::{Added, Deleted};
use pilotage_testkit::fault::{Calls, Error, FaultProxy, Mode, Times, Verb};
use pilotage_testkit::{
    ControlPlane, LIMIT, Part, Recorder, TestNamespace, shared, wait_count, wait_for,
};
use tokio::net::TcpStream;

/// How long nothing must happen where nothing may.
const SILENCE: Duration = Duration::from_millis(300);

type Events = BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

/// One user of the shared plane, who reaches it through a proxy of his own.
struct Fixture {
    plane: Arc<ControlPlane>,
    namespace: TestNamespace,
    proxy: FaultProxy,
    client: Client,
}

/// A plane that only these tests use: none of them breaks it.
async fn plane() -> Arc<ControlPlane> {
    let build = || ControlPlane::builder("faults").no_crds();
    shared::plane("faults", build).await.unwrap()
}

impl Fixture {
    async fn new() -> Self {
        Self::of(plane().await).await
    }

    async fn of(plane: Arc<ControlPlane>) -> Self {
        let namespace = plane.namespace("faults").await.unwrap();
        let ns = namespace.name();
        plane.service_account(ns, "user").await.unwrap();
        let role = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: all, namespace: {ns}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, name: user, namespace: {ns}}}]\n"
        );
        plane.apply_yaml(&role).await.unwrap();
        let proxy = FaultProxy::start(&plane).await.unwrap();
        let user = plane.service_account_access(ns, "user").await.unwrap();
        let client = proxy.access(&user).unwrap().client().unwrap();
        Self {
            plane,
            namespace,
            proxy,
            client,
        }
    }

    /// Through the proxy.
    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    /// Past it.
    fn direct(&self) -> Api<ConfigMap> {
        self.namespace.api()
    }

    async fn watch(&self, version: &str) -> Events {
        let api = self.api();
        let params = WatchParams::default();
        api.watch(&params, version).await.unwrap().boxed()
    }

    /// A version to watch from.
    async fn now(&self) -> String {
        let made = create(&self.direct(), "now").await.unwrap();
        made.resource_version().unwrap()
    }

    fn configmaps(verb: Verb) -> Calls {
        Calls::of(verb, "configmaps")
    }
}

fn config_map(name: &str, data: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.data = Some(BTreeMap::from([("data".to_owned(), data.to_owned())]));
    object
}

async fn create(api: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    api.create(&PostParams::default(), &config_map(name, ""))
        .await
}

async fn next(events: &mut Events) -> Option<WatchEvent<ConfigMap>> {
    let next = tokio::time::timeout(LIMIT, events.try_next());
    next.await.unwrap().unwrap()
}

/// The name of the object that came.
async fn added(events: &mut Events) -> String {
    match next(events).await {
        Some(WatchEvent::Added(object)) => object.name_any(),
        other => panic!("{other:?}"),
    }
}

async fn error(events: &mut Events) -> Box<Status> {
    match next(events).await {
        Some(WatchEvent::Error(status)) => status,
        other => panic!("{other:?}"),
    }
}

/// Whether it stays silent for a while.
async fn is_silent<T>(waiting: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> bool {
    tokio::time::timeout(SILENCE, waiting).await.is_err()
}

#[tokio::test]
async fn what_passes_passes_unchanged_by_both_versions_of_http() {
    let fixture = Fixture::new().await;
    let mut events = fixture.watch(&fixture.now().await).await;
    create(&fixture.api(), "one").await.unwrap();
    assert_eq!(added(&mut events).await, "one");
    // Nothing waits for a buffer to fill: each event came alone.
    create(&fixture.direct(), "two").await.unwrap();
    assert_eq!(added(&mut events).await, "two");
    assert_eq!(fixture.proxy.watches(), 1);
    // An answer that comes in many pieces.
    let long = config_map("long", &"x".repeat(900_000));
    let made = fixture.api().create(&PostParams::default(), &long).await;
    assert_eq!(made.unwrap().data, long.data);
    let refused = create(&fixture.api(), "one").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 409));

    // kubectl speaks HTTP/2 wherever it can, and follows a watch over it.
    let user = fixture
        .plane
        .service_account_access(fixture.namespace.name(), "user")
        .await;
    let file = fixture
        .plane
        .directory()
        .join(format!("{}.kubeconfig", fixture.namespace.name()));
    fixture
        .proxy
        .access(&user.unwrap())
        .unwrap()
        .write(&file)
        .unwrap();
    let file = format!("--kubeconfig={}", file.display());
    let names = fixture
        .plane
        .kubectl(&[&file, "get", "configmaps", "-o", "name"])
        .await
        .unwrap();
    assert!(names.contains("configmap/two\n"), "{names}");
    let wait = [
        &file,
        "wait",
        "configmap/two",
        "--for=jsonpath={.data.data}=done",
        "--timeout=60s",
    ];
    let following = fixture.plane.kubectl(&wait);
    let changing = async {
        // Not before it watches: the proxy sees it come.
        wait_until(|| fixture.proxy.watches() == 2).await;
        let done = serde_json::json!({ "data": { "data": "done" } });
        let patch = kube::api::Patch::Merge(done);
        let params = kube::api::PatchParams::default();
        fixture
            .direct()
            .patch("two", &params, &patch)
            .await
            .unwrap();
    };
    let (followed, ()) = tokio::join!(following, changing);
    assert!(followed.unwrap().contains("condition met"));
}

/// For what the proxy says of itself, which has no watch.
async fn wait_until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, polling).await.unwrap();
}

#[tokio::test]
async fn a_cut_line_refuses_and_ends_what_was_open_and_comes_back() {
    let fixture = Fixture::new().await;
    let mut events = fixture.watch(&fixture.now().await).await;
    let recorder = Recorder::start(fixture.api(), WatchParams::default())
        .await
        .unwrap();
    fixture.proxy.set(Mode::Cut).await.unwrap();
    assert_eq!(fixture.proxy.connections(), 0);
    assert!(!matches!(events.next().await, Some(Ok(_))));
    let address = fixture.proxy.url();
    let address = address.strip_prefix("https://").unwrap();
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(create(&fixture.api(), "lost").await.is_err());
    create(&fixture.direct(), "meanwhile").await.unwrap();
    fixture.proxy.set(Mode::Pass).await.unwrap();
    create(&fixture.api(), "after").await.unwrap();
    // A watch that goes on where it was misses nothing.
    let names = |events: &[pilotage_testkit::Recorded<ConfigMap>]| -> Vec<String> {
        events.iter().map(|event| event.object.name_any()).collect()
    };
    let seen = recorder.wait_until(|events| names(events).contains(&"after".to_owned()), LIMIT);
    assert_eq!(names(&seen.await.unwrap()), ["meanwhile", "after"]);
}

#[tokio::test]
async fn a_black_hole_answers_nobody_and_nothing_lands() {
    let fixture = Fixture::new().await;
    let mut events = fixture.watch(&fixture.now().await).await;
    let api = fixture.api();
    // A connection to send the request on is open.
    create(&api, "before").await.unwrap();
    assert_eq!(added(&mut events).await, "before");
    fixture.proxy.set(Mode::BlackHole).await.unwrap();
    let mut swallowed = create(&api, "swallowed").boxed();
    let fresh = fixture.proxy.access(
        &fixture
            .plane
            .service_account_access(fixture.namespace.name(), "user")
            .await
            .unwrap(),
    );
    let fresh: Api<ConfigMap> =
        Api::namespaced(fresh.unwrap().client().unwrap(), fixture.namespace.name());
    let mut unanswered = create(&fresh, "unanswered").boxed();
    create(&fixture.direct(), "unseen").await.unwrap();
    wait_for(&fixture.direct(), "unseen", |_| true, LIMIT)
        .await
        .unwrap();
    let mut silent = events.next();
    tokio::join!(
        async { assert!(is_silent(swallowed.as_mut()).await) },
        async { assert!(is_silent(unanswered.as_mut()).await) },
        async { assert!(is_silent(Pin::new(&mut silent)).await) },
    );
    fixture.proxy.set(Mode::Pass).await.unwrap();
    // What lost bytes is broken, and says so at once.
    assert!(swallowed.await.is_err());
    assert!(unanswered.await.is_err());
    assert!(!matches!(silent.await, Some(Ok(_))));
    assert!(
        fixture
            .direct()
            .get_opt("swallowed")
            .await
            .unwrap()
            .is_none()
    );
    create(&api, "after").await.unwrap();
}

#[tokio::test]
async fn each_direction_is_late_by_its_delay() {
    let fixture = Fixture::new().await;
    create(&fixture.api(), "warm").await.unwrap();
    let (up, down) = (Duration::from_millis(200), Duration::from_millis(300));
    fixture.proxy.set(Mode::Delay { up, down }).await.unwrap();
    let begin = Instant::now();
    create(&fixture.api(), "late").await.unwrap();
    assert!(begin.elapsed() >= up + down, "{:?}", begin.elapsed());
    // It is there before its sender hears of it.
    let begin = Instant::now();
    let landed = async {
        wait_for(&fixture.direct(), "later", |_| true, LIMIT)
            .await
            .unwrap();
        begin.elapsed()
    };
    let api = fixture.api();
    let answered = async {
        create(&api, "later").await.unwrap();
        begin.elapsed()
    };
    let (landed, answered) = tokio::join!(landed, answered);
    assert!(
        landed >= up && answered >= up + down,
        "{landed:?} {answered:?}"
    );
}

#[tokio::test]
async fn a_throttled_line_is_slow() {
    let fixture = Fixture::new().await;
    let long = config_map("long", &"x".repeat(200_000));
    fixture
        .direct()
        .create(&PostParams::default(), &long)
        .await
        .unwrap();
    fixture
        .proxy
        .set(Mode::Throttle {
            bytes_per_second: 400_000,
        })
        .await
        .unwrap();
    let begin = Instant::now();
    let read = fixture.api().get("long").await.unwrap();
    assert_eq!(read.data, long.data);
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(490), "{took:?}");
}

#[tokio::test]
async fn watches_expire_as_an_api_server_says_it() {
    let fixture = Fixture::new().await;
    let version = fixture.now().await;
    let mut events = fixture.watch(&version).await;
    create(&fixture.api(), "one").await.unwrap();
    assert_eq!(added(&mut events).await, "one");

    // One that is under way is told, and ends.
    let all = Fixture::configmaps(Verb::Watch);
    assert_eq!(
        fixture.proxy.expire_watches(&Calls::any().resource("pods")),
        0
    );
    assert_eq!(fixture.proxy.expire_watches(&all), 1);
    let told = error(&mut events).await;
    assert!(next(&mut events).await.is_none());
    wait_until(|| fixture.proxy.watches() == 0).await;

    assert_eq!((told.code, told.reason.as_str()), (410, "Expired"));

    // A new one that goes on from a version, as often as asked; one that begins anew passes.
    fixture.proxy.refuse_watches(all.clone(), Times::Next(2));
    for _ in 0..2 {
        let mut refused = fixture.watch(&version).await;
        assert_eq!(error(&mut refused).await.code, 410);
        assert!(next(&mut refused).await.is_none());
    }
    assert_eq!(added(&mut fixture.watch(&version).await).await, "one");
    fixture.proxy.refuse_watches(all, Times::Always);
    assert_eq!(error(&mut fixture.watch(&version).await).await.code, 410);
    assert!(matches!(
        next(&mut fixture.watch("0").await).await,
        Some(WatchEvent::Added(_))
    ));
    // The list that follows in every client brings it back.
    wait_count(
        &fixture.direct(),
        kube::runtime::watcher::Config::default(),
        2,
        |o| matches!(o.name_any().as_str(), "one" | "now"),
        LIMIT,
    )
    .await
    .unwrap();
    fixture.proxy.accept_watches();
    assert_eq!(added(&mut fixture.watch(&version).await).await, "one");
}

#[tokio::test]
async fn a_lost_reply_leaves_its_sender_in_doubt() {
    let fixture = Fixture::new().await;
    let lost = fixture.proxy.lose_reply(Fixture::configmaps(Verb::Create));
    // Other requests pass.
    fixture.api().get_opt("doubt").await.unwrap();
    let error = create(&fixture.api(), "doubt").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    assert_eq!(lost.caught().await, Some(201));
    fixture.direct().get("doubt").await.unwrap();
    // It was the one.
    create(&fixture.api(), "sure").await.unwrap();
}

#[tokio::test]
async fn a_held_request_lands_when_it_is_released_and_not_before() {
    let fixture = Fixture::new().await;
    let create_one = || Fixture::configmaps(Verb::Create);
    // Its sender gives up.
    let mut held = fixture.proxy.hold(create_one());
    let api = fixture.api();
    let mut sending = create(&api, "late").boxed();
    tokio::select! {
        _ = &mut sending => panic!("it was answered"),
        caught = held.caught() => assert!(caught),
    }
    drop(sending);
    // The connection is gone, the request isn't.
    assert!(fixture.direct().get_opt("late").await.unwrap().is_none());
    assert_eq!(held.release().await, Some(201));
    fixture.direct().get("late").await.unwrap();

    // Its sender still waits.
    let mut held = fixture
        .proxy
        .hold(create_one().namespace(fixture.namespace.name()));
    let sending = create(&api, "patient");
    let releasing = async {
        assert!(held.caught().await);
        held.release().await
    };
    let (sent, status) = tokio::join!(sending, releasing);
    assert_eq!(
        (sent.unwrap().name_any().as_str(), status),
        ("patient", Some(201))
    );

    // Nobody ever releases it.
    let mut held = fixture.proxy.hold(create_one());
    let forgetting = async {
        assert!(held.caught().await);
        drop(held);
    };
    let (sent, ()) = tokio::join!(create(&api, "never"), forgetting);
    assert!(sent.is_err());
    assert!(fixture.direct().get_opt("never").await.unwrap().is_none());

    // A rule that was withdrawn holds nothing.
    drop(fixture.proxy.hold(create_one()));
    create(&api, "free").await.unwrap();
}

#[tokio::test]
async fn client_certificates_are_refused_and_a_stopped_proxy_leaves_nothing() {
    let fixture = Fixture::new().await;
    let admin = fixture.proxy.access(fixture.plane.admin_access());
    assert!(matches!(admin, Err(Error::ClientCertificate)));
    let nobody = fixture
        .proxy
        .access(&fixture.plane.anonymous_access())
        .unwrap();
    let nobody: Api<ConfigMap> = Api::default_namespaced(nobody.client().unwrap());
    let refused = nobody.get("x").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));

    let mut events = fixture.watch(&fixture.now().await).await;
    let mut held = fixture.proxy.hold(Fixture::configmaps(Verb::Create));
    let api = fixture.api();
    let sending = tokio::spawn(async move { create(&api, "held").await });
    assert!(held.caught().await);
    let address = fixture
        .proxy
        .url()
        .trim_start_matches("https://")
        .to_owned();
    tokio::time::timeout(LIMIT, fixture.proxy.stop())
        .await
        .unwrap();
    assert!(sending.await.unwrap().is_err());
    assert!(!matches!(events.next().await, Some(Ok(_))));
    assert!(TcpStream::connect(&address).await.is_err());
    assert_eq!(held.release().await, None);
}

#[tokio::test]
async fn clients_notice_that_the_api_server_dies_and_history_has_no_gap() {
    let plane = ControlPlane::builder("dying").no_crds().history();
    let plane = Arc::new(plane.start().await.unwrap());
    let fixture = Fixture::of(Arc::clone(&plane)).await;
    let below = format!("configmaps/{}/", fixture.namespace.name());
    let history = plane.history(&[&below]).await.unwrap();
    let mut events = fixture.watch(&fixture.now().await).await;
    create(&fixture.api(), "before").await.unwrap();
    assert_eq!(added(&mut events).await, "before");
    plane.kill(Part::ApiServer).await.unwrap();
    assert!(!matches!(events.next().await, Some(Ok(_))));
    assert!(create(&fixture.api(), "lost").await.is_err());
    plane.restart(Part::ApiServer).await.unwrap();
    create(&fixture.api(), "after").await.unwrap();
    fixture
        .direct()
        .delete("before", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    history.settle().await.unwrap();
    let seen: Vec<_> = history
        .versions()
        .unwrap()
        .iter()
        .map(|version| {
            let object: ConfigMap = version.read().unwrap();
            (version.change, object.name_any())
        })
        .collect();
    let want = [
        (Added, "now"),
        (Added, "before"),
        (Added, "after"),
        (Deleted, "before"),
    ];
    let want: Vec<_> = want.map(|(change, name)| (change, name.to_owned())).into();
    assert_eq!(seen, want);

    // What it has forgotten by its restart it says in the words that the proxy uses.
    let mut forgotten = fixture.watch("1").await;
    let real = error(&mut forgotten).await;
    assert!(next(&mut forgotten).await.is_none());
    fixture.proxy.refuse_watches(Calls::any(), Times::Next(1));
    let told = error(&mut fixture.watch("1").await).await;
    assert_eq!(
        (real.code, &real.reason, &real.status),
        (told.code, &told.reason, &told.status)
    );
    let beginning = |text: &str| text.split(':').next().map(ToOwned::to_owned);
    assert_eq!(beginning(&real.message), beginning(&told.message));

    // Not every plane stores what can be read.
    assert!(self::plane().await.history(&[]).await.is_err());
}
