//! Ours: the time of each pod of a load, from the pod as the watch brings it to its node being assumed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pilotage_sched::{Attempt, Moment, PodUid, Scheduler, SeededTies};

use crate::cluster::cluster;
use crate::shape::Shape;

/// Of one pod, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU time.
    pub(crate) mean: f64,
    pub(crate) median: f64,
}

/// The cost of all pods after those that warm up.
pub(crate) fn measure(shape: Shape, nodes: usize, percentage: u8) -> Cost {
    let all = (60_000_000 / nodes)
        .clamp(600, 15_000)
        .min(shape.most(nodes));
    // Each sort comes twice, so that what can be known is.
    let warm = (all / 30).max(shape.sorts() * 2);
    let mut scheduler = cluster(nodes, percentage);
    for object in shape.objects() {
        let applied = scheduler.apply(object, Moment::ZERO);
        applied.expect("a name");
    }
    for pod in shape.there(nodes) {
        let applied = scheduler.pod_applied(pod, Moment::ZERO);
        applied.expect("an identity");
    }
    let mut load = Load {
        shape,
        scheduler,
        ties: SeededTies::new(7),
        number: 0,
    };
    load.round(warm);
    let (mut spent, mut tried) = (Duration::ZERO, Vec::new());
    for _ in 0..3 {
        let (round, mut each) = load.round(all / 3);
        spent += round;
        tried.append(&mut each);
    }
    tried.sort_unstable();
    Cost {
        mean: micros(spent) / tried.len().max(1) as f64,
        median: tried.get(tried.len() / 2).copied().map_or(0.0, micros),
    }
}

struct Load {
    shape: Shape,
    scheduler: Scheduler,
    ties: SeededTies,
    number: usize,
}

impl Load {
    /// So many pods come and are tried; the CPU time of all of them, and the time of each. A thread's CPU time can't be
    /// known as finely as it takes for one pod.
    fn round(&mut self, pods: usize) -> (Duration, Vec<Duration>) {
        let told = (self.number..self.number + pods).map(|number| self.shape.pod(number));
        let told = told.collect::<Vec<_>>();
        self.number += pods;
        let mut bound = BTreeMap::new();
        let mut each = Vec::with_capacity(pods);
        let (start, came) = (cpu(), Instant::now());
        for pod in told {
            let applied = self.scheduler.pod_applied(pod, Moment::ZERO);
            applied.expect("an identity");
        }
        let coming = came.elapsed() / u32::try_from(pods.max(1)).unwrap_or(u32::MAX);
        loop {
            let begun = Instant::now();
            let tried = self.scheduler.schedule_next(Moment::ZERO, &mut self.ties);
            let Some(mut attempt) = tried else { break };
            if self.shape == Shape::Preempt {
                attempt = self.after_evictions();
            }
            each.push(begun.elapsed() + coming);
            if let Attempt::Assumed(assumed) = attempt {
                bound.insert(assumed.uid().clone(), assumed);
            } else {
                assert!(self.shape == Shape::Unschedulable, "{attempt:?}");
            }
        }
        let round = cpu().saturating_sub(start);
        for (_, assumed) in bound {
            self.scheduler
                .start_binding(assumed.uid())
                .expect("no wait");
            self.scheduler.bound(*assumed, Moment::ZERO);
        }
        (round, each)
    }

    /// The pods are evicted that the one that was just tried asked for, and it is tried again.
    fn after_evictions(&mut self) -> Attempt {
        let orders = self.scheduler.take_orders();
        assert!(!orders.evictions.is_empty(), "nobody is evicted");
        let mut preemptor: Option<PodUid> = None;
        for order in orders.evictions {
            self.scheduler.evicted(&order.id, true, Moment::ZERO);
            let victim = &order.preempted.pod.uid;
            self.scheduler.pod_deleted(victim, Moment::ZERO);
            preemptor = Some(order.preempted.preemptor.uid.clone());
        }
        // As if its backoff were over.
        preemptor.map(|uid| self.scheduler.activate(&uid));
        let attempt = self.scheduler.schedule_next(Moment::ZERO, &mut self.ties);
        attempt.expect("it is tried again")
    }
}

/// So many microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// CPU time of this thread; where that can't be known, the time on the clock.
pub(crate) fn cpu() -> Duration {
    thread_local!(static START: Instant = Instant::now());
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = known.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| START.with(Instant::elapsed), Duration::from_nanos)
}
