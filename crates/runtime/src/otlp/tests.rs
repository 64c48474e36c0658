//! The exporter against a real HTTP server that takes, refuses, is slow, or isn't there.

use std::time::Duration;

use pilotage_testkit::collector::{Answer, Collector};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::counts::Fate;
use super::export::Timing;
use super::*;
use crate::backoff::Backoff;

const LIMIT: Duration = Duration::from_secs(20);

struct Exporting {
    tracer: Tracer,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
    registry: Registry,
}

fn span(number: u64) -> Span {
    let id = number.saturating_add(1).to_be_bytes();
    Span {
        trace: [1; 16],
        id,
        parent: None,
        name: "pod",
        kind: Kind::Internal,
        start: 1,
        end: 2,
        attributes: Vec::new(),
        failed: None,
    }
}

/// An exporter in a hurry.
fn start(url: &str) -> Exporting {
    let mut registry = Registry::default();
    let service = Service {
        name: "test".into(),
        instance: "one".into(),
    };
    let endpoint = url.parse().unwrap();
    let (tracer, mut exporter) = Tracer::new(endpoint, Ratio::default(), service, &mut registry);
    let millis = Duration::from_millis;
    exporter.timing = Timing {
        gather: millis(20),
        pace: millis(10),
        request: millis(300),
        backoff: Backoff::new(millis(20), millis(100)),
        flush: millis(500),
    };
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(exporter.run(shutdown.clone()));
    Exporting {
        tracer,
        shutdown,
        task,
        registry,
    }
}

impl Exporting {
    fn send(&self, spans: u64) {
        (0..spans).for_each(|number| self.tracer.send(span(number)));
    }

    fn count(&self, fate: Fate) -> u64 {
        self.tracer.counts.of(fate)
    }

    /// Ends it, in a bounded time.
    async fn end(self) -> Counts {
        let began = Instant::now();
        self.shutdown.cancel();
        timeout(LIMIT, self.task).await.unwrap().unwrap();
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        self.tracer.counts
    }
}

#[tokio::test]
async fn spans_arrive_in_batches_and_are_counted() {
    let collector = Collector::start().await.unwrap();
    let exporting = start(&collector.url());
    exporting.send(3000);
    let all = |taken: &[_], _| taken.len() == 3000;
    let taken = collector.wait(all, LIMIT).await.unwrap();
    assert_eq!(taken[0].service, "test");
    assert!(
        (3..=10).contains(&collector.requests()),
        "{}",
        collector.requests()
    );
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &exporting.registry).unwrap();
    for want in ["dropped\"} 0\n", "failed\"} 0\n"] {
        let want = format!("pilotage_trace_spans_total{{fate=\"{want}");
        assert!(text.contains(&want), "{want} in\n{text}");
    }
    let counts = exporting.end().await;
    assert_eq!(counts.of(Fate::Exported), 3000);
}

#[tokio::test]
async fn what_is_left_is_sent_at_the_end() {
    let collector = Collector::start().await.unwrap();
    let exporting = start(&collector.url());
    exporting.send(5);
    let counts = exporting.end().await;
    assert_eq!(collector.taken().len(), 5);
    assert_eq!((counts.of(Fate::Exported), counts.lost()), (5, 0));
}

#[tokio::test]
async fn who_asks_for_patience_gets_the_spans_later() {
    let collector = Collector::start().await.unwrap();
    collector.answer(Answer::Status(429, 3600));
    let exporting = start(&collector.url());
    exporting.send(5);
    let refused = |_: &[_], requests| requests >= 2;
    collector.wait(refused, LIMIT).await.unwrap();
    collector.answer(Answer::Take);
    let all = |taken: &[_], _| taken.len() == 5;
    collector.wait(all, LIMIT).await.unwrap();
    assert_eq!(exporting.end().await.of(Fate::Exported), 5);
}

#[tokio::test]
async fn who_always_refuses_is_asked_a_few_times_and_the_spans_are_lost() {
    for (answer, requests) in [(Answer::Status(503, 0), 5), (Answer::Status(400, 0), 1)] {
        let collector = Collector::start().await.unwrap();
        collector.answer(answer);
        let exporting = start(&collector.url());
        exporting.send(5);
        let refused = |_: &[_], seen| seen >= requests;
        collector.wait(refused, LIMIT).await.unwrap();
        let counts = exporting.end().await;
        assert_eq!(counts.of(Fate::Failed), 5, "{answer:?}");
        // The end tries once more what isn't settled.
        assert!(
            collector.requests() <= requests + 1,
            "{}",
            collector.requests()
        );
    }
}

#[tokio::test]
async fn what_a_collector_rejects_of_a_batch_is_lost() {
    let collector = Collector::start().await.unwrap();
    collector.answer(Answer::Reject(2));
    let exporting = start(&collector.url());
    exporting.send(5);
    let some = |taken: &[_], _| taken.len() == 3;
    collector.wait(some, LIMIT).await.unwrap();
    let counts = exporting.end().await;
    assert_eq!((counts.of(Fate::Exported), counts.of(Fate::Failed)), (3, 2));
}

#[tokio::test]
async fn a_silent_collector_fills_the_queue_and_no_more() {
    let collector = Collector::start().await.unwrap();
    collector.answer(Answer::Silence);
    let exporting = start(&collector.url());
    exporting.send(1);
    let asked = |_: &[_], requests| requests >= 1;
    collector.wait(asked, LIMIT).await.unwrap();
    // Nobody takes from the queue while a request waits: what is more than fits is dropped at once.
    let queue = u64::try_from(QUEUE).unwrap();
    exporting.send(queue + 10);
    assert_eq!(exporting.count(Fate::Dropped), 10);
    let counts = exporting.end().await;
    assert_eq!(counts.of(Fate::Failed), queue + 1);
    assert_eq!(counts.of(Fate::Exported), 0);
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_nothing_but_the_spans() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let exporting = start(&url);
    exporting.send(5);
    let counts = exporting.end().await;
    assert_eq!(counts.of(Fate::Failed), 5);
}
