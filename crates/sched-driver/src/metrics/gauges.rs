//! What is measured at each scrape instead of being kept up to date: the sizes of queue and cache, who rejected the
//! pods that wait, and how pods came to their places.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pilotage_sched::cache::CacheSize;
use pilotage_sched::{Place, PluginName, QueueSize, Scheduler};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// What a scheduler holds at one moment.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) queue: QueueSize,
    pub(crate) cache: CacheSize,
    /// Waiting pods by who rejected or gates them, and by profile. A pod counts for each plugin.
    pub(crate) unschedulable: BTreeMap<(PluginName, Arc<str>), usize>,
    /// By place and event.
    pub(crate) arrivals: Vec<(&'static str, String, u64)>,
}

impl Measured {
    pub(crate) fn of(scheduler: &Scheduler) -> Self {
        let mut unschedulable = BTreeMap::<(PluginName, Arc<str>), usize>::new();
        for queued in scheduler.unschedulable_pods() {
            let gate = queued.gate().map(|gate| gate.plugin);
            let own_gate = gate.filter(|plugin| !queued.rejected_by.contains(plugin));
            for plugin in queued.rejected_by.iter().copied().chain(own_gate) {
                let profile = Arc::clone(&queued.pod.scheduler_name);
                let count = unschedulable.entry((plugin, profile)).or_default();
                *count = count.saturating_add(1);
            }
        }
        let arrivals = scheduler.arrivals().iter();
        let arrivals = arrivals.map(|(place, event, count)| (word(place), event.to_owned(), count));
        Self {
            queue: scheduler.queue_size(),
            cache: scheduler.cache_size(),
            unschedulable,
            arrivals: arrivals.collect(),
        }
    }
}

/// As kube-scheduler calls it.
fn word(place: Place) -> &'static str {
    match place {
        Place::Active => "active",
        Place::Backoff => "backoff",
        Place::Unschedulable => "unschedulable",
        Place::Gated => "gated",
        Place::InFlight => "inflight",
    }
}

/// `None` once the scheduler is gone.
type Measure = Box<dyn Fn() -> Option<Measured> + Send + Sync>;

/// Gauges that are read at each scrape.
pub(crate) struct Gauges {
    measure: Measure,
}

impl Gauges {
    /// Registers them; `registry` is the process's root.
    pub(crate) fn register(
        registry: &mut Registry,
        measure: impl Fn() -> Option<Measured> + Send + Sync + 'static,
    ) {
        registry.register_collector(Box::new(Self {
            measure: Box::new(measure),
        }));
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(measured) = (self.measure)() else {
            return Ok(());
        };
        let Measured {
            queue,
            cache,
            unschedulable,
            arrivals,
        } = measured;
        let pending = [
            ("active", queue.active),
            ("backoff", queue.backoff),
            ("unschedulable", queue.unschedulable),
            ("gated", queue.gated),
        ];
        gauges(
            &mut encoder,
            "scheduler_pending_pods",
            "Pods without a node",
            "queue",
            &pending,
        )?;
        let held = [
            ("nodes", cache.nodes),
            ("pods", cache.pods),
            ("assumed_pods", cache.assumed_pods),
        ];
        gauges(
            &mut encoder,
            "scheduler_cache_size",
            "What the cache holds",
            "type",
            &held,
        )?;
        let kept = [("all", queue.in_flight_events)];
        let help = "Events kept for pods that are being tried";
        gauges(
            &mut encoder,
            "scheduler_inflight_events",
            help,
            "event",
            &kept,
        )?;
        let mut family = encoder.encode_descriptor(
            "scheduler_unschedulable_pods",
            "Waiting pods by the plugins that rejected them",
            None,
            MetricType::Gauge,
        )?;
        for ((plugin, profile), count) in &unschedulable {
            let labels = [("plugin", *plugin), ("profile", &**profile)];
            gauge(*count).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "scheduler_queue_incoming_pods",
            "Pods that came to a queue, by the event that brought them there",
            None,
            MetricType::Counter,
        )?;
        for (queue, event, count) in &arrivals {
            let labels = [("queue", *queue), ("event", event.as_str())];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn gauge(value: usize) -> ConstGauge {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, usize)],
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (key, value) in values {
        let labels = [(label, *key)];
        gauge(*value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_kube_schedulers() {
        let mut registry = Registry::default();
        Gauges::register(&mut registry, || {
            Some(Measured {
                queue: QueueSize {
                    gated: 3,
                    ..QueueSize::default()
                },
                cache: CacheSize {
                    nodes: 2,
                    ..CacheSize::default()
                },
                unschedulable: [(("NodeAffinity", "p".into()), 4)].into(),
                arrivals: vec![(word(Place::Backoff), "NodeAdd".to_owned(), 5)],
            })
        });
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for want in [
            "scheduler_pending_pods{queue=\"gated\"} 3\n",
            "scheduler_cache_size{type=\"nodes\"} 2\n",
            "scheduler_unschedulable_pods{plugin=\"NodeAffinity\",profile=\"p\"} 4\n",
            "scheduler_queue_incoming_pods_total{queue=\"backoff\",event=\"NodeAdd\"} 5\n",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
    }
}
