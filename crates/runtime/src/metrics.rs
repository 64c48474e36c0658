//! The root of a process's metrics: who it is and what it uses. Components register their own.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::caught;

/// A registry with `pilotage_build_info`, `pilotage_panics_total` and, on Linux, the `process_*` metrics that
/// Prometheus' other client libraries have too. Its names have no prefix: each component brings its own
/// (`scheduler_…` as kube-scheduler's, else `pilotage_…`).
pub fn root(component: &str) -> Registry {
    let mut registry = Registry::default();
    registry.register(
        "pilotage_build",
        "Version and component of this process",
        Info::new([
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("component", component.to_owned()),
        ]),
    );
    registry.register_collector(Box::new(Panics));
    registry.register_collector(Box::new(Process));
    registry
}

/// `count` bucket bounds from `first`, each `factor` times the one before.
pub fn buckets(first: f64, factor: f64, count: u16) -> impl Iterator<Item = f64> {
    prometheus_client::metrics::histogram::exponential_buckets(first, factor, count)
}

/// Reads the count of panics at each scrape.
#[derive(Debug)]
struct Panics;

impl Collector for Panics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new(caught::count());
        let descriptor = encoder.encode_descriptor(
            "pilotage_panics",
            "Panics about one object or step, which stopped nobody else",
            None,
            counter.metric_type(),
        )?;
        counter.encode(descriptor)
    }
}

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
struct Process;

/// `/proc` counts CPU time in hundredths of a second on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(bytes) = resident_bytes() {
            let gauge = ConstGauge::new(bytes);
            let descriptor = encoder.encode_descriptor(
                "process_resident_memory",
                "Resident memory of this process",
                Some(&Unit::Bytes),
                gauge.metric_type(),
            )?;
            gauge.encode(descriptor)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let descriptor = encoder.encode_descriptor(
                "process_cpu",
                "CPU time that this process has used",
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?;
            counter.encode(descriptor)?;
        }
        if let Some(open) = open_files() {
            let gauge = ConstGauge::new(open);
            let descriptor = encoder.encode_descriptor(
                "process_open_fds",
                "File descriptors that this process has open",
                None,
                gauge.metric_type(),
            )?;
            gauge.encode(descriptor)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_A_SECOND)
}

fn open_files() -> Option<i64> {
    i64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_says_who_it_is_and_what_it_uses() {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &root("webhook")).unwrap();
        for want in [
            "pilotage_build_info{",
            "component=\"webhook\"",
            "pilotage_panics_total ",
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_open_fds ",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
    }

    #[test]
    fn buckets_grow_by_the_factor() {
        assert_eq!(
            buckets(1.0, 2.0, 4).collect::<Vec<_>>(),
            [1.0, 2.0, 4.0, 8.0]
        );
    }
}
