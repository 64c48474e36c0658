//! The whole loop without an API server: what panics for pod `bad` stops no other.

use std::error::Error;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Config;
use pilotage_runtime::client::from_config;
use pilotage_sched::plugins::{Binder, stock_profile};
use pilotage_sched::{
    Context, CycleState, EnqueueExtensions, EventKind, Filter, NodeId, NodeName, NodeView, Permit,
    PermitDecision, Plugin, PluginName, PostBind, PreBind, PreEnqueue, PreFilter, PreFiltered,
    PreScore, PreScored, Preflight, Reserve, Score, Verdict,
};
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::feed::Sink;
use crate::test_server::server;

mod evictions;
mod extensions;

/// Plugin and observer: panics for pod `bad` at one point, and else agrees with everything.
struct Bad {
    at: &'static str,
    bound: mpsc::UnboundedSender<String>,
}

impl Bad {
    fn check(&self, point: &str, pod: &PodInfo) {
        assert!(self.at != point || &*pod.key.name != "bad", "on purpose");
    }
}

impl Plugin for Bad {
    fn name(&self) -> PluginName {
        "Bad"
    }
}

impl EnqueueExtensions for Bad {
    fn events(&self) -> Vec<EventKind> {
        Vec::new()
    }
}

impl PreEnqueue for Bad {
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict {
        self.check("PreEnqueue", pod);
        Ok(())
    }
}

impl PreFilter for Bad {
    fn pre_filter(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        self.check("PreFilter", pod);
        Ok(PreFiltered::AllNodes)
    }
}

impl Filter for Bad {
    fn filter(&self, _: &CycleState, pod: &PodInfo, _: NodeView<'_>) -> Verdict {
        self.check("Filter", pod);
        Ok(())
    }
}

impl PreScore for Bad {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &[NodeId],
    ) -> Verdict<PreScored> {
        self.check("PreScore", pod);
        Ok(PreScored::Proceed)
    }
}

impl Score for Bad {
    fn score(&self, _: &CycleState, pod: &PodInfo, _: NodeView<'_>) -> Verdict<i64> {
        self.check("Score", pod);
        Ok(0)
    }
}

impl Reserve for Bad {
    fn reserve(&self, _: &Context<'_>, _: &mut CycleState, pod: &PodInfo, _: &NodeName) -> Verdict {
        self.check("Reserve", pod);
        Ok(())
    }

    fn unreserve(&self, _: &mut CycleState, _: &PodInfo, _: &NodeName) {}
}

impl Permit for Bad {
    fn permit(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &NodeName,
    ) -> Verdict<PermitDecision> {
        self.check("Permit", pod);
        Ok(PermitDecision::Allow)
    }
}

impl PreBind for Bad {
    fn preflight(&self, _: &CycleState, pod: &PodInfo, _: &NodeName) -> Verdict<Preflight> {
        self.check("Preflight", pod);
        Ok(Preflight::Act { parallel: true })
    }

    fn pre_bind<'a>(
        &'a self,
        _: &'a CycleState,
        pod: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Verdict> {
        Box::pin(async {
            self.check("PreBind", pod);
            Ok(())
        })
    }
}

impl Binder for Bad {
    fn bind<'a>(
        &'a self,
        pod: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        self.check("Bind", pod);
        Box::pin(async { Ok(()) })
    }
}

impl PostBind for Bad {
    fn post_bind(&self, _: &CycleState, pod: &PodInfo, _: &NodeName) {
        self.check("PostBind", pod);
    }
}

impl Observer for Bad {
    fn pod_applied(&self, pod: &Arc<Pod>) {
        let name = pod.metadata.name.as_deref();
        assert!(self.at != "seen" || name != Some("bad"), "on purpose");
    }

    fn assumed(&self, pod: &Arc<PodInfo>, _: &NodeName, _: bool) {
        self.check("assumed", pod);
    }

    fn failed(&self, failure: &Failure) {
        let told = format!("failed {}", failure.pod.key.name);
        self.bound.send(told).unwrap();
        self.check("failed", &failure.pod);
    }

    fn writes_status(&self, _: &Failure) -> bool {
        self.at == "the driver writes"
    }

    fn bound(&self, pod: &Arc<PodInfo>, _: &NodeName) {
        self.bound.send(pod.key.name.to_string()).unwrap();
        self.check("bound", pod);
    }
}

/// A driver whose loop runs without watches.
struct Running {
    inner: Arc<Inner>,
    sink: PodSink,
    events: EventWriter,
    bound: mpsc::UnboundedReceiver<String>,
    registry: Registry,
    token: CancellationToken,
    schedule: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Three nodes with four cores each, and a plugin or observer that panics there.
    fn start(at: &'static str) -> Self {
        Self::start_with(at, Vec::new())
    }

    fn start_with(at: &'static str, extensions: Vec<Extension>) -> Self {
        let (sender, bound) = mpsc::unbounded_channel();
        let bad = Arc::new(Bad { at, bound: sender });
        let profile = stock_profile("test", bad.clone())
            .pre_enqueue(bad.clone())
            .pre_filter(bad.clone())
            .filter(bad.clone())
            .pre_score(bad.clone())
            .score(bad.clone(), 1)
            .reserve(bad.clone())
            .permit(bad.clone())
            .pre_bind(bad.clone())
            .post_bind(bad.clone());
        // Nothing is ever sent there.
        let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = from_config(nowhere, "test").unwrap();
        let profiles = vec![profile.build().unwrap()];
        let mut options = DriverOptions::new(client, profiles, "test".to_owned());
        options.observer = bad;
        options.extensions = extensions;
        options.announce_nominations = false;
        let mut registry = Registry::default();
        let (driver, _) = Driver::new(options, &mut registry).unwrap();
        let Driver {
            inner,
            event_writer: events,
            ..
        } = driver;
        for name in ["a", "b", "c"] {
            let node: Node = serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name},
                "status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "10"}},
            }))
            .unwrap();
            let sink = &mut NodeSink {
                inner: inner.clone(),
            };
            sink.applied(&Arc::new(node));
        }
        let token = CancellationToken::new();
        let (_, unlisted) = watch::channel(0);
        let work = schedule(
            inner.clone(),
            unlisted,
            token.clone(),
            CancellationToken::new(),
        );
        Self {
            sink: PodSink {
                inner: inner.clone(),
            },
            inner,
            events,
            bound,
            registry,
            token,
            schedule: tokio::spawn(work),
        }
    }

    /// As the watch's task does it.
    fn see(&mut self, name: &str, cpu: &str) {
        self.see_asking(name, "cpu", cpu);
    }

    fn see_asking(&mut self, name: &str, resource: &str, amount: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {
                "schedulerName": "test",
                "containers": [{"name": "c", "resources": {"requests": {resource: amount}}}],
            },
        }))
        .unwrap();
        let pod = Arc::new(pod);
        if let Err(panic) = caught(|| self.sink.applied(&pod)) {
            self.sink.panicked(&pod, &panic);
        }
    }

    /// Waits until these pods are bound (or, as `failed p`, weren't), in whatever order.
    async fn bound(&mut self, names: &[&str]) {
        let mut left = names.to_vec();
        while !left.is_empty() {
            let next = tokio::time::timeout(Duration::from_mins(5), self.bound.recv());
            let name = next.await.unwrap_or_else(|_| panic!("{left:?} never came"));
            left.retain(|other| Some(*other) != name.as_deref());
        }
    }

    /// Ends it; what was told of the pod `bad` or of others, as far as it was on purpose.
    async fn stop(mut self) -> Vec<Occurrence> {
        self.token.cancel();
        self.schedule.await.expect("a panic doesn't end the loop");
        let mut told = self.events.taken();
        told.retain(|event| event.note.contains("on purpose"));
        told
    }
}

#[tokio::test(start_paused = true)]
async fn what_panics_for_one_pod_stops_no_other() {
    // Where the panic is, and whether the pod is bound all the same.
    for (point, is_bound) in [
        ("PreEnqueue", false),
        ("PreFilter", false),
        ("Filter", false),
        ("PreScore", false),
        ("Score", false),
        ("Reserve", false),
        ("Permit", false),
        ("Preflight", false),
        ("PreBind", false),
        ("Bind", false),
        ("PostBind", true),
        ("seen", true),
        ("assumed", true),
        ("bound", true),
        ("failed", false),
    ] {
        let mut running = Running::start(point);
        // Whoever can't be placed at all has failed, too.
        let cpu = if point == "failed" { "100" } else { "3" };
        running.see("bad", cpu);
        for name in ["first", "second"] {
            running.see(name, "3");
        }
        if is_bound {
            running.bound(&["bad", "first", "second"]).await;
        } else {
            running.bound(&["first", "second"]).await;
            // Its room is free, whenever it had been taken.
            running.see("third", "3");
            running.bound(&["third"]).await;
        }
        let mut metrics = String::new();
        prometheus_client::encoding::text::encode(&mut metrics, &running.registry).unwrap();
        assert!(
            !metrics.contains("scheduler_panics_total 0"),
            "{point}: {metrics}"
        );
        let size = running.inner.core.ask(|scheduler| scheduler.cache_size());
        assert_eq!(size.assumed_pods, 3, "{point}");
        let told = running.stop().await;
        assert!(!told.is_empty(), "{point}: its author isn't told");
        for event in told {
            assert_eq!(event.regarding.name, "bad", "{point}: {}", event.note);
            assert_eq!(event.type_, EventType::Warning);
            assert_eq!(&*event.controller, "test");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edge_that_writes_conditions_is_spared_the_drivers() {
    for (who, conditions) in [("the driver writes", 1), ("the edge writes", 0)] {
        let mut running = Running::start(who);
        running.see("bad", "100");
        running.bound(&["failed bad"]).await;
        // Its server answers nobody, so that what was to be written stays.
        assert_eq!(running.inner.status.waiting(), conditions, "{who}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_tells_nothing() {
    use pilotage_runtime::lease::{Elector, LeaseConfig};

    let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = from_config(nowhere, "test").unwrap();
    let config = LeaseConfig::with_default_times("ns", "test");
    let (_elector, standby) = Elector::new(client.clone(), config, "me".to_owned());
    let warning = |name: &str| Occurrence {
        regarding: Regarding {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        },
        type_: EventType::Warning,
        reason: "InternalError",
        action: "Scheduling",
        note: "on purpose".to_owned(),
        controller: "test".into(),
    };
    let told = |leadership| {
        let (recorder, mut writer) = Recorder::new(client.clone(), "test".to_owned());
        let warnings = Warnings::new(recorder, leadership);
        for name in ["a", "b", "a"] {
            warnings.warn(warning(name));
        }
        warnings.mended(|| warning("b").regarding);
        warnings.tell();
        writer.taken().len()
    };
    assert_eq!(told(standby), 0);
    assert_eq!(told(Leadership::always()), 3);
}

#[tokio::test]
async fn the_events_of_one_namespace_keep_out_nobody_elses() {
    let (client, _) = server(&[]);
    let (recorder, mut writer) = Recorder::new(client, "test".to_owned());
    let tell = |namespace: &str, name: usize| {
        recorder.record(Occurrence {
            regarding: Regarding {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_string(),
                uid: name.to_string(),
            },
            type_: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: "on purpose".to_owned(),
            controller: "test".into(),
        });
    };
    (0..5_000).for_each(|name| tell("busy", name));
    let dropped = recorder.dropped();
    assert!(dropped > 0, "nobody takes them");
    (0..1_000).for_each(|name| tell("quiet", name));
    assert_eq!(recorder.dropped(), dropped);
    assert_eq!(writer.taken().len() as u64, 6_000 - dropped);
    // There is room again.
    tell("busy", 5_000);
    assert_eq!(recorder.dropped(), dropped);
}

#[tokio::test]
async fn what_is_offered_is_dropped_first_and_takes_nobodys_place() {
    let (client, asked) = server(&[(201, json!({}))]);
    let (recorder, mut writer) = Recorder::new(client, "test".to_owned());
    let occurrence = |name: usize| Occurrence {
        regarding: Regarding {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_string(),
            uid: name.to_string(),
        },
        type_: EventType::Normal,
        reason: "FailedScheduling",
        action: "Scheduling",
        note: "on purpose".to_owned(),
        controller: "test".into(),
    };
    let dropped = Counter::default();
    // One event that waits is no queue.
    recorder.record(occurrence(0));
    (1..=70).for_each(|name| recorder.offer(occurrence(name), &dropped));
    assert_eq!(dropped.get(), 6, "64 may wait");
    assert_eq!((writer.taken().len(), writer.offered().len()), (1, 64));
    // Those that have to be written queue: nothing else is written.
    (100..117).for_each(|name| recorder.record(occurrence(name)));
    recorder.offer(occurrence(200), &dropped);
    assert_eq!(dropped.get(), 7);
    assert_eq!((writer.taken().len(), writer.offered().len()), (17, 0));
    assert_eq!(recorder.dropped(), 0, "no other one is");

    let end = CancellationToken::new();
    let writing = tokio::spawn(writer.run(end.clone()));
    recorder.offer(occurrence(300), &dropped);
    let written = async {
        while asked.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_mins(1);
    tokio::time::timeout(limit, written).await.unwrap();
    end.cancel();
    writing.await.unwrap();
    let asked = asked.lock().unwrap();
    let (what, event) = &asked[0];
    assert_eq!(what, "POST /apis/events.k8s.io/v1/namespaces/ns/events");
    assert_eq!(event["regarding"]["name"], "300");
    assert_eq!(dropped.get(), 7);
}
