use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures::stream::{self, BoxStream};
use kube::core::Status;
use pilotage_runtime::ready::Health;
use serde_json::json;

use super::*;

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Sink<Pod> for Told {
    fn applied(&mut self, pod: &Arc<Pod>) {
        let name = pod.metadata.name.as_deref().unwrap();
        assert_ne!(name, "bad", "on purpose");
        self.0.lock().unwrap().push(format!("+{name}"));
    }

    fn panicked(&mut self, pod: &Arc<Pod>, panic: &str) {
        assert!(panic.contains("on purpose"), "{panic}");
        let name = pod.metadata.name.as_deref().unwrap();
        self.0.lock().unwrap().push(format!("!{name}"));
    }

    fn deleted(&mut self, namespace: &str, name: &str, uid: &str) {
        assert_ne!(name, "worse", "on purpose");
        self.0
            .lock()
            .unwrap()
            .push(format!("-{namespace}/{name}/{uid}"));
    }
}

fn guard(pod: serde_json::Value) -> Guarded<Pod> {
    serde_json::from_value(pod).unwrap()
}

fn pod(name: &str) -> Guarded<Pod> {
    guard(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid")},
        "spec": {"containers": []},
    }))
}

fn broken(name: &str) -> Guarded<Pod> {
    guard(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid")},
        "spec": {"containers": "none"},
    }))
}

fn refused() -> watcher::Error {
    let status = Status::failure("no", "Forbidden").with_code(403);
    watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
}

/// Each time a watch is opened, the next script is played; then it is silent.
async fn play(scripts: Vec<Vec<Item<Pod>>>, run: Duration) -> (Told, Health) {
    let (told, health) = (Told::default(), Health::new());
    let scripts = Mutex::new(VecDeque::from(scripts));
    let open = move || -> BoxStream<'static, Item<Pod>> {
        match scripts.lock().unwrap().pop_front() {
            Some(script) => stream::iter(script).chain(stream::pending()).boxed(),
            None => stream::pending().boxed(),
        }
    };
    let token = CancellationToken::new();
    let gate = health.gate("pods listed");
    let following = follow("pods", open, told.clone(), || gate.release(), token.clone());
    let ended = tokio::time::timeout(run, following).await;
    assert!(ended.is_err(), "a watch doesn't end by itself");
    (told, health)
}

#[tokio::test(start_paused = true)]
async fn the_gate_opens_after_the_first_whole_list() {
    let half = vec![Ok(Event::Init), Ok(Event::InitApply(pod("a")))];
    let (told, health) = play(vec![half], Duration::from_secs(1)).await;
    assert_eq!(told.lines(), ["+a"]);
    assert_eq!(health.missing(), ["pods listed"]);

    let whole = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(pod("a"))),
        Ok(Event::InitDone),
    ];
    let (_, health) = play(vec![whole], Duration::from_secs(1)).await;
    assert!(health.missing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_unreadable_object_stops_nobody_and_forgets_nothing() {
    let script = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(pod("a"))),
        Ok(Event::InitApply(broken("b"))),
        Ok(Event::InitDone),
        Ok(Event::Apply(broken("a"))),
        Ok(Event::Apply(pod("c"))),
        Ok(Event::Init),
        Ok(Event::InitApply(broken("a"))),
        Ok(Event::InitApply(pod("c"))),
        Ok(Event::InitDone),
        Ok(Event::Delete(broken("a"))),
    ];
    let (told, health) = play(vec![script], Duration::from_secs(1)).await;
    assert_eq!(
        told.lines(),
        ["+a", "+c", "+c", "-ns/b/b-uid", "-ns/a/a-uid"]
    );
    assert!(health.missing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn errors_back_off_and_never_end_the_watch() {
    let script = || {
        let mut script: Vec<Item<Pod>> = (0..5).map(|_| Err(refused())).collect();
        script.extend([
            Ok(Event::Init),
            Ok(Event::InitApply(pod("a"))),
            Ok(Event::InitDone),
        ]);
        script
    };
    // 0.2 + 0.4 + 0.8 + 1.6 + 3.2 = 6.2 s, each delay by up to a fifth longer.
    let early = play(vec![script()], Duration::from_secs(6)).await;
    assert!(early.0.lines().is_empty());
    let (told, health) = play(vec![script()], Duration::from_secs(8)).await;
    assert_eq!(told.lines(), ["+a"]);
    assert!(health.missing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_is_asked_for_again() {
    let hanging = vec![Ok(Event::Init)];
    let whole = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(pod("a"))),
        Ok(Event::InitDone),
    ];
    let (told, health) = play(vec![hanging, whole], PAGE_LIMIT * 2).await;
    assert_eq!(told.lines(), ["+a"]);
    assert!(health.missing().is_empty());
}

#[tokio::test]
async fn what_another_watch_tells_is_handed_on_in_order_until_it_ends() {
    let named = |name: &str| Arc::new(pod(name).0.unwrap());
    let news = [
        PodNews::Applied(named("a")),
        PodNews::Listed,
        PodNews::Gone(named("a")),
        PodNews::Listed,
        PodNews::Applied(named("b")),
    ];
    let (heard, health) = (Told::default(), Health::new());
    let gate = health.gate("pods listed");
    let stream = stream::iter(news).boxed();
    told(
        stream,
        heard.clone(),
        move || gate.release(),
        CancellationToken::new(),
    )
    .await;
    assert_eq!(heard.lines(), ["+a", "-ns/a/a-uid", "+b"]);
    health.ready().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_intake_panics_stops_no_other() {
    let script = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(pod("bad"))),
        Ok(Event::InitApply(pod("worse"))),
        Ok(Event::InitDone),
        Ok(Event::Delete(pod("worse"))),
        Ok(Event::Apply(pod("bad"))),
        Ok(Event::Apply(pod("a"))),
        Ok(Event::Delete(pod("bad"))),
    ];
    let (told, health) = play(vec![script], Duration::from_secs(1)).await;
    let want = ["!bad", "+worse", "!bad", "+a", "-ns/bad/bad-uid"];
    assert_eq!(told.lines(), want);
    assert!(health.missing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_is_made_anew() {
    let (told, gate) = (Told::default(), Health::new().gate("pods listed"));
    let opened = Mutex::new(0);
    let open = || -> BoxStream<'static, Item<Pod>> {
        let mut opened = opened.lock().unwrap();
        *opened += 1;
        let begun = stream::iter([Ok(Event::Init), Ok(Event::InitApply(pod("a")))]);
        if *opened == 1 {
            let panics = stream::poll_fn(|_| -> Poll<Option<Item<Pod>>> { panic!("on purpose") });
            return begun.chain(panics).boxed();
        }
        let rest = stream::iter([Ok(Event::InitApply(pod("b"))), Ok(Event::InitDone)]);
        begun.chain(rest).chain(stream::pending()).boxed()
    };
    let token = CancellationToken::new();
    let following = follow("pods", open, told.clone(), || gate.release(), token);
    let ended = tokio::time::timeout(Duration::from_secs(1), following).await;
    assert!(ended.is_err(), "a watch doesn't end by itself");
    assert_eq!(told.lines(), ["+a", "+a", "+b"]);
}
