//! One trace a pod: spans of both clusters, each under the right one. Pods are placed whatever the collector does.

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::watcher;
use pilotage_api::trace::TraceId;
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::collector::{Answer, Collector, Taken};
use pilotage_testkit::{wait_count, wait_for};

use super::{LIMIT, Shop, elected, small_nodes, started};

/// The names of the services.
const SOURCE: &str = "pilotage-proxy-scheduler";
const TARGET: &str = "pilotage-candidate-scheduler";
/// The other pod asks for more than a node of the target has.
const GIANT: &str = "640";

async fn fleet(collector: &Collector) -> Arc<Fleet> {
    let endpoint = format!("--otlp-endpoint={}", collector.url());
    let spec = Spec::new()
        .target("near", small_nodes("near"))
        .part_flag("proxy-scheduler", &endpoint)
        .part_flag("candidate-scheduler", &endpoint);
    started(spec).await
}

fn trace_of(pod: &impl ResourceExt) -> String {
    TraceId::of_pod(&pod.uid().unwrap()).to_string()
}

/// The spans of a trace that a part has sent under a name.
fn named<'a>(spans: &'a [Taken], trace: &str, service: &str, name: &str) -> Vec<&'a Taken> {
    let is_it = |span: &&Taken| {
        let words = (
            span.service.as_str(),
            span.text("traceId"),
            span.text("name"),
        );
        words == (service, trace, name)
    };
    spans.iter().filter(is_it).collect()
}

/// The only span of that name.
fn only<'a>(spans: &'a [Taken], trace: &str, service: &str, name: &str) -> &'a Taken {
    let found = named(spans, trace, service, name);
    assert_eq!(found.len(), 1, "{service} {name} in {spans:#?}");
    found[0]
}

/// What spans say of pods: names and words of ours, neither labels nor images nor messages.
const ATTRIBUTES: [&str; 8] = [
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "pilotage.answer",
    "pilotage.attempt",
    "pilotage.outcome",
    "pilotage.target",
];

fn say_no_more(spans: &[Taken]) {
    for Taken { span, .. } in spans {
        let attributes = span["attributes"].as_array().unwrap();
        let mut keys = attributes.iter().map(|it| it["key"].as_str().unwrap());
        assert!(keys.all(|key| ATTRIBUTES.contains(&key)), "{span:#}");
        let failed = span["status"]["message"].as_str().unwrap_or_default();
        assert!(!failed.contains(' '), "a word: {span:#}");
        assert_eq!(span["events"].as_array(), None, "{span:#}");
    }
}

fn time(span: &Taken, field: &str) -> u64 {
    span.text(field).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_has_one_trace_across_both_clusters_and_a_dead_collector_keeps_no_pod_waiting() {
    let collector = Collector::start().await.unwrap();
    let shop = Shop::connected(fleet(&collector).await, "traced").await;
    one_trace(&collector, &shop).await;
    a_refusal(&collector, &shop).await;
    nobody_waits(collector, &shop).await;
}

async fn one_trace(collector: &Collector, shop: &Shop) {
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let trace = trace_of(&proxy);
    let whole = |spans: &[Taken], _| {
        [(SOURCE, "pod"), (TARGET, "candidate")]
            .iter()
            .all(|(service, name)| !named(spans, &trace, service, name).is_empty())
    };
    let spans = collector.wait(whole, LIMIT).await;
    let spans = spans.unwrap_or_else(|spans| panic!("{spans:#?}\nlogs: {:#?}", shop.fleet.logs()));

    say_no_more(&spans);
    let root = only(&spans, &trace, SOURCE, "pod");
    assert_eq!(root.text("parentSpanId"), "");
    for (key, value) in [
        ("k8s.pod.name", "web"),
        ("k8s.namespace.name", shop.name.as_str()),
        ("pilotage.target", &shop.virtual_node("near")),
        ("pilotage.outcome", "running"),
    ] {
        assert_eq!(root.attribute(key), Some(value), "{key}");
    }
    for name in ["queue", "ask", "choose", "grant", "bind", "start"] {
        let span = only(&spans, &trace, SOURCE, name);
        assert_eq!(span.text("parentSpanId"), root.text("spanId"), "{name}");
        assert!(time(span, "startTimeUnixNano") >= time(root, "startTimeUnixNano"));
        assert!(time(span, "endTimeUnixNano") <= time(root, "endTimeUnixNano"));
    }
    let ask = only(&spans, &trace, SOURCE, "ask");
    assert_eq!(ask.attribute("pilotage.answer"), Some("reserved"));
    let candidate = only(&spans, &trace, TARGET, "candidate");
    assert_eq!(candidate.text("parentSpanId"), ask.text("spanId"));
    assert_eq!(candidate.attribute("pilotage.outcome"), Some("bound"));
    for name in ["schedule", "hold", "bind"] {
        let span = only(&spans, &trace, TARGET, name);
        assert_eq!(
            span.text("parentSpanId"),
            candidate.text("spanId"),
            "{name}"
        );
    }
    let schedule = only(&spans, &trace, TARGET, "schedule");
    let (_, delegate) = shop.delegate(&proxy).await;
    assert_eq!(
        schedule.attribute("k8s.node.name"),
        super::node_of(&delegate)
    );

    // The context is on the chaperon, and not on the pod.
    let name = delegate.name_any();
    let chaperon = shop.chaperons_in("near").get(&name).await.unwrap();
    let context = format!("00-{trace}-{}-01", ask.text("spanId"));
    assert_eq!(
        chaperon.annotations().get(keys::TRACEPARENT),
        Some(&context)
    );
    assert_eq!(delegate.annotations().get(keys::TRACEPARENT), None);
}

async fn a_refusal(collector: &Collector, shop: &Shop) {
    let giant = shop.create(&elected("giant", GIANT)).await;
    let trace = trace_of(&giant);
    let refused = |spans: &[Taken], _| {
        let asks = named(spans, &trace, SOURCE, "ask");
        asks.iter()
            .any(|ask| ask.attribute("pilotage.answer") == Some("unschedulable"))
    };
    let spans = collector.wait(refused, LIMIT).await;
    let spans = spans.unwrap_or_else(|spans| panic!("{spans:#?}\nlogs: {:#?}", shop.fleet.logs()));
    let asks = named(&spans, &trace, SOURCE, "ask");
    assert_eq!(asks[0].span["status"]["message"], "unschedulable");
    let uid = giant.uid().unwrap();
    let its = watcher::Config::default().labels(&format!("{}={uid}", keys::PARENT_UID));
    let has_context =
        |chaperon: &PodChaperon| chaperon.annotations().contains_key(keys::TRACEPARENT);
    let chaperons = shop.chaperons_in("near");
    shop.seen(wait_count(&chaperons, its, 1, has_context, LIMIT).await);

    shop.delete("giant").await;
    let told = |spans: &[Taken], _| {
        let refused = named(spans, &trace, TARGET, "candidate").len();
        refused > 0 && !named(spans, &trace, SOURCE, "pod").is_empty()
    };
    let spans = collector.wait(told, LIMIT).await.unwrap();
    say_no_more(&spans);
    let root = only(&spans, &trace, SOURCE, "pod");
    assert_eq!(root.attribute("pilotage.outcome"), Some("deleted"));
}

async fn nobody_waits(collector: Collector, shop: &Shop) {
    collector.answer(Answer::Silence);
    let before = collector.requests();
    shop.create(&elected("patient", "100m")).await;
    wait_for(&shop.pods(), "patient", super::is_running, LIMIT)
        .await
        .unwrap();
    let silent = |_: &[Taken], requests| requests > before;
    collector.wait(silent, LIMIT).await.unwrap();
    drop(collector);
    shop.create(&elected("hasty", "100m")).await;
    wait_for(&shop.pods(), "hasty", super::is_running, LIMIT)
        .await
        .unwrap();
}
