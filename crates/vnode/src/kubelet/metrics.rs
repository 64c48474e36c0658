//! What is counted of streams.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::route::Action;

type Labels = Vec<(&'static str, &'static str)>;

/// Counts of streams, by what they are for. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct KubeletMetrics {
    open: Family<Labels, Gauge<i64, AtomicI64>>,
    opened: Family<Labels, Counter>,
    refused: Family<Vec<(&'static str, String)>, Counter>,
}

/// A stream that counts as open until it is dropped.
#[derive(Debug)]
pub(crate) struct Open(Gauge<i64, AtomicI64>);

impl KubeletMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("pilotage");
        registry.register(
            "kubelet_streams_open",
            "Streams of pods on virtual nodes that are open",
            metrics.open.clone(),
        );
        registry.register(
            "kubelet_streams_opened",
            "Streams of pods on virtual nodes that were opened",
            metrics.opened.clone(),
        );
        registry.register(
            "kubelet_requests_refused",
            "Requests to the kubelet of virtual nodes that were refused, by status",
            metrics.refused.clone(),
        );
        metrics
    }

    pub(crate) fn open(&self, action: Action) -> Open {
        let labels = vec![("for", action.subresource())];
        self.opened.get_or_create(&labels).inc();
        let gauge = self.open.get_or_create(&labels).clone();
        gauge.inc();
        Open(gauge)
    }

    pub(crate) fn refuse(&self, status: u16) {
        let labels = vec![("status", status.to_string())];
        self.refused.get_or_create(&labels).inc();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
