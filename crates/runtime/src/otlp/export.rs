//! Sends spans in batches, one request at a time and at a bounded pace, with a back-off while the collector refuses.

use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::counts::{Counts, Fate};
use super::post::{Refused, post};
use super::span::body;
use super::{Endpoint, Service, Span};
use crate::backoff::{Backoff, dice};
use crate::moment::from_now;

/// Spans of one request.
const BATCH: usize = 1024;
/// A batch is sent so often at most.
const TRIES: u32 = 5;
/// That spans are lost is logged once in this time.
const TELL: Duration = Duration::from_mins(1);

/// When requests are sent, and how long they may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// How long a batch is gathered.
    pub(super) gather: Duration,
    /// From the beginning of one request to that of the next.
    pub(super) pace: Duration,
    /// Limit of one request.
    pub(super) request: Duration,
    /// Between requests, while they fail in a row.
    pub(super) backoff: Backoff,
    /// How long the end may take, in which what is left is sent.
    pub(super) flush: Duration,
}

/// No more than 2048 spans a second leave, whoever causes them.
const TIMING: Timing = Timing {
    gather: Duration::from_secs(1),
    pace: Duration::from_millis(500),
    request: Duration::from_secs(5),
    backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)).spread(0.2),
    flush: Duration::from_secs(2),
};

/// What sends a tracer's spans.
#[derive(Debug)]
pub struct Exporter {
    endpoint: Endpoint,
    service: Service,
    waiting: mpsc::Receiver<Span>,
    counts: Counts,
    pub(super) timing: Timing,
    /// What is being sent.
    batch: Vec<Span>,
    /// Requests that failed in a row.
    failures: u32,
    /// How many times this batch was sent.
    tries: u32,
    told: Option<Instant>,
    /// Spans of whose loss the log knows.
    told_lost: u64,
}

impl Exporter {
    pub(super) fn new(
        endpoint: Endpoint,
        service: Service,
        waiting: mpsc::Receiver<Span>,
        counts: Counts,
    ) -> Self {
        Self {
            endpoint,
            service,
            waiting,
            counts,
            timing: TIMING,
            batch: Vec::new(),
            failures: 0,
            tries: 0,
            told: None,
            told_lost: 0,
        }
    }

    /// Sends spans until `shutdown`; what is left then, within two seconds.
    pub async fn run(mut self, shutdown: CancellationToken) {
        tracing::info!(endpoint = self.endpoint.authority(), "pods are traced");
        let sending = async {
            while self.gather().await {
                let next = self.send().await;
                sleep_until(next).await;
            }
        };
        // Without tracers there is nothing to send, but its end isn't ours to choose.
        if shutdown.run_until_cancelled(sending).await.is_some() {
            shutdown.cancelled().await;
        }
        self.flush().await;
    }

    /// Waits for spans, and gathers more for a while. `false`: there will be none.
    async fn gather(&mut self) -> bool {
        if !self.batch.is_empty() {
            return true;
        }
        if self.waiting.recv_many(&mut self.batch, BATCH).await == 0 {
            return false;
        }
        let gather = self.timing.gather;
        let gathering = async {
            while self.batch.len() < BATCH {
                let room = BATCH.saturating_sub(self.batch.len());
                if self.waiting.recv_many(&mut self.batch, room).await == 0 {
                    return;
                }
            }
        };
        // Whoever wants them sees them after a second anyway.
        let _ = timeout(gather, gathering).await;
        true
    }

    /// Sends the batch once; when the next request may begin.
    async fn send(&mut self) -> Instant {
        let paced = from_now(self.timing.pace);
        self.tries = self.tries.saturating_add(1);
        let Err(refused) = self.post().await else {
            if self.counts.lost() > self.told_lost {
                self.tell("there are more than it gets, or it refused some");
            }
            return paced;
        };
        self.failures = self.failures.saturating_add(1);
        if !refused.again || self.tries >= TRIES {
            self.settle(Fate::Failed);
        }
        self.tell(&refused.why);
        let Timing { backoff, .. } = self.timing;
        let delay = backoff.delay(self.failures, dice());
        from_now(delay.max(refused.after.min(backoff.max)))
    }

    /// One request with the batch, which is settled if it was taken.
    async fn post(&mut self) -> Result<(), Refused> {
        let body = Bytes::from(body(&self.service, &self.batch));
        let rejected = post(&self.endpoint, body, self.timing.request).await?;
        self.failures = 0;
        let all = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        let rejected = rejected.min(all);
        self.counts.add(Fate::Failed, rejected);
        self.counts
            .add(Fate::Exported, all.saturating_sub(rejected));
        self.clear();
        Ok(())
    }

    fn settle(&mut self, fate: Fate) {
        let spans = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        self.counts.add(fate, spans);
        self.clear();
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.tries = 0;
    }

    /// Logs that spans are lost, or will be, now and then.
    fn tell(&mut self, why: &str) {
        let now = Instant::now();
        if self
            .told
            .is_some_and(|told| now.duration_since(told) < TELL)
        {
            return;
        }
        self.told = Some(now);
        let lost = self.counts.lost();
        let since = lost.saturating_sub(self.told_lost);
        self.told_lost = lost;
        let endpoint = self.endpoint.authority();
        tracing::warn!(
            endpoint,
            why,
            lost = since,
            "spans of traces are lost, or late"
        );
    }

    /// The last requests: no pace, no second try.
    async fn flush(&mut self) {
        self.waiting.close();
        let end = from_now(self.timing.flush);
        loop {
            if self.batch.is_empty() && self.waiting.recv_many(&mut self.batch, BATCH).await == 0 {
                break;
            }
            if !matches!(timeout_at(end, self.post()).await, Ok(Ok(()))) {
                break;
            }
        }
        self.settle(Fate::Failed);
        while let Ok(span) = self.waiting.try_recv() {
            drop(span);
            self.counts.add(Fate::Failed, 1);
        }
        let lost = self.counts.lost().saturating_sub(self.told_lost);
        if lost > 0 {
            tracing::warn!(lost, "spans of traces were lost");
        }
    }
}
