//! Who leads, as a metric: named as that of client-go, which kube-scheduler has too.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Leadership;

/// The Leases that this process takes part in, by name. Asks at each scrape.
#[derive(Debug, Default)]
pub struct Leaders(Vec<(String, Leadership)>);

impl Leaders {
    /// It takes part in this one.
    pub fn add(&mut self, lease: &str, leadership: Leadership) {
        self.0.push((lease.to_owned(), leadership));
    }
}

impl Collector for Leaders {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "leader_election_master_status",
            "Whether this process leads, by the name of the Lease",
            None,
            MetricType::Gauge,
        )?;
        for (lease, leadership) in &self.0 {
            let gauge = ConstGauge::new(i64::from(leadership.is_leader()));
            gauge.encode(family.encode_family(&[("name", lease.as_str())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    fn shown(leaders: Leaders) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(leaders));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn each_lease_says_whether_it_is_ours() {
        assert!(!shown(Leaders::default()).contains("leader"), "no election");
        let mut leaders = Leaders::default();
        leaders.add("pilotage", Leadership::always());
        let text = shown(leaders);
        let want = "leader_election_master_status{name=\"pilotage\"} 1\n";
        assert!(text.contains(want), "{text}");
    }
}
