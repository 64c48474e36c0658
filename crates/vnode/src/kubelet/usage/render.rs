//! What pods use, in the words of a kubelet: the series of `/metrics/resource` and the JSON of `/stats/summary`. Pure.
//!
//! Names of namespaces, pods and containers are of this cluster's own API server, so nothing in them needs an escape.

use std::fmt::{Display, Write};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::Report;
use super::books::{Meter, PodUsage};

/// Content type of [`metrics`].
pub(crate) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Content type of [`summary`].
pub(crate) const SUMMARY: &str = "application/json";
/// Bytes that the series of a container take, roughly.
const A_CONTAINER: usize = 600;

/// A family of series, as kubelets have it.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

const fn family(name: &'static str, kind: &'static str, help: &'static str) -> Family {
    Family { name, kind, help }
}

const CONTAINER_CPU: Family = family(
    "container_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
);
const CONTAINER_MEMORY: Family = family(
    "container_memory_working_set_bytes",
    "gauge",
    "[STABLE] Current working set of the container in bytes",
);
const CONTAINER_START: Family = family(
    "container_start_time_seconds",
    "gauge",
    "[STABLE] Start time of the container since unix epoch in seconds",
);
const NODE_CPU: Family = family(
    "node_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
);
const NODE_MEMORY: Family = family(
    "node_memory_working_set_bytes",
    "gauge",
    "[STABLE] Current working set of the node in bytes",
);
const POD_CPU: Family = family(
    "pod_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
);
const POD_MEMORY: Family = family(
    "pod_memory_working_set_bytes",
    "gauge",
    "[STABLE] Current working set of the pod in bytes",
);
const SCRAPE_ERROR: [Family; 2] = [
    family(
        "resource_scrape_error",
        "gauge",
        "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
    ),
    family(
        "scrape_error",
        "gauge",
        "[ALPHA] (Deprecated since 1.29.0) 1 if there was an error while getting container metrics, 0 otherwise",
    ),
];

/// Text that grows.
struct Text(String);

impl Text {
    fn begin(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        // A String takes whatever is written.
        let _ = writeln!(self.0, "{line}");
    }
}

/// Core-seconds, exactly.
struct Seconds(u128);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = self.0.checked_div(1_000_000_000).unwrap_or_default();
        let rest = self.0.checked_rem(1_000_000_000).unwrap_or_default();
        write!(f, "{whole}.{rest:09}")
    }
}

/// A family without series isn't mentioned.
fn has_pods(reports: &[Report]) -> bool {
    reports.iter().any(|report| !report.pods.is_empty())
}

fn names(pod: &Pod) -> (&str, &str) {
    let meta = &pod.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Lines of one family, for each container.
fn containers(
    text: &mut Text,
    reports: &[Report],
    family: &Family,
    value: impl Fn(&Meter) -> (String, Option<Timestamp>),
) {
    if !has_pods(reports) {
        return;
    }
    text.begin(family);
    let name = family.name;
    for known in reports.iter().flat_map(|report| &report.pods) {
        let (namespace, pod) = names(&known.pod);
        for (container, meter) in &known.containers {
            let (value, at) = value(meter);
            let at = at.map_or_else(String::new, |at| format!(" {}", at.as_millisecond()));
            text.line(format_args!(
                "{name}{{container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\"}} {value}{at}"
            ));
        }
    }
}

/// Lines of one family, for each pod.
fn pods(text: &mut Text, reports: &[Report], family: &Family, value: impl Fn(&Meter) -> String) {
    if !has_pods(reports) {
        return;
    }
    text.begin(family);
    let name = family.name;
    for known in reports.iter().flat_map(|report| &report.pods) {
        let (namespace, pod) = names(&known.pod);
        let (value, at) = (value(&known.meter), known.meter.seen.as_millisecond());
        text.line(format_args!(
            "{name}{{namespace=\"{namespace}\",pod=\"{pod}\"}} {value} {at}"
        ));
    }
}

/// `/metrics/resource`. Of a node there are series only if `one` node is asked for: they don't say which one.
pub(crate) fn metrics(reports: &[Report], one: bool, error: bool) -> String {
    let all = reports.iter().flat_map(|report| &report.pods);
    let count: usize = all.map(|known| known.containers.len()).sum();
    let size = count.saturating_mul(A_CONTAINER).saturating_add(2048);
    let mut text = Text(String::with_capacity(size));
    let (cpu, memory) = (
        |meter: &Meter| Seconds(meter.total).to_string(),
        |meter: &Meter| meter.memory.to_string(),
    );
    let at = |meter: &Meter| Some(meter.seen);
    containers(&mut text, reports, &CONTAINER_CPU, |it| (cpu(it), at(it)));
    containers(&mut text, reports, &CONTAINER_MEMORY, |it| {
        (memory(it), at(it))
    });
    // When the counter began, so that its start and its value fit: of what was used before nobody knows.
    containers(&mut text, reports, &CONTAINER_START, |it| {
        let nanos = u128::try_from(it.since.as_nanosecond()).unwrap_or_default();
        (Seconds(nanos).to_string(), None)
    });
    let node = reports
        .first()
        .and_then(|report| report.node)
        .filter(|_| one);
    if let Some(node) = &node {
        let at = node.seen.as_millisecond();
        for (family, value) in [(&NODE_CPU, cpu(node)), (&NODE_MEMORY, memory(node))] {
            text.begin(family);
            text.line(format_args!("{} {value} {at}", family.name));
        }
    }
    pods(&mut text, reports, &POD_CPU, cpu);
    pods(&mut text, reports, &POD_MEMORY, memory);
    for family in &SCRAPE_ERROR {
        text.begin(family);
        text.line(format_args!("{} {}", family.name, u8::from(error)));
    }
    text.0
}

/// `/stats/summary`, of one node or of all that there are.
pub(crate) fn summary(reports: &[Report], node: Option<&str>) -> String {
    let mut stats = json!({ "nodeName": node.unwrap_or_default() });
    let report = reports.first().filter(|_| node.is_some());
    if let Some(meter) = report.and_then(|report| report.node) {
        put(&mut stats, &meter);
        stats["startTime"] = second(meter.since).into();
    }
    let pods = reports.iter().flat_map(|report| &report.pods).map(pod);
    json!({ "node": stats, "pods": pods.collect::<Vec<_>>() }).to_string()
}

fn pod(known: &PodUsage) -> Value {
    let (namespace, name) = names(&known.pod);
    let containers = known.containers.iter().map(|(name, meter)| {
        let mut stats = json!({ "name": name, "startTime": second(meter.since) });
        put(&mut stats, meter);
        stats
    });
    let mut stats = json!({
        "podRef": { "name": name, "namespace": namespace, "uid": known.pod.metadata.uid },
        "startTime": second(known.meter.since),
        "containers": containers.collect::<Vec<_>>(),
    });
    put(&mut stats, &known.meter);
    stats
}

fn put(stats: &mut Value, meter: &Meter) {
    let time = second(meter.seen);
    let total = u64::try_from(meter.total).unwrap_or(u64::MAX);
    stats["cpu"] =
        json!({ "time": time, "usageNanoCores": meter.rate, "usageCoreNanoSeconds": total });
    stats["memory"] = json!({ "time": time, "workingSetBytes": meter.memory });
}

/// A time as Kubernetes writes it.
fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::books::Books;
    use super::super::reading::tests::{NODE, item, ours, proxy, read};
    use super::*;

    fn reports() -> Vec<Report> {
        let ours = ours(&[proxy("web", "3"), proxy("db", "3")]);
        let mut books = Books::default();
        let items = [
            item("web", "t", "250m", "64Mi"),
            item("db", "t", "12345n", "1Ki"),
        ];
        let now = Timestamp::from_millisecond(1_800_000_000_123).unwrap();
        books.take(read(&items, &ours), &ours, now);
        let (pods, node) = books.told(&ours, now);
        vec![Report {
            pods,
            node,
            failed: false,
        }]
    }

    #[test]
    fn series_are_those_of_a_kubelet() {
        let text = metrics(&reports(), true, false);
        for line in [
            "# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in \
             core-seconds",
            "# TYPE container_cpu_usage_seconds_total counter",
            "container_cpu_usage_seconds_total{container=\"app\",namespace=\"shop\",pod=\"web\"} 5.000000000 \
             1800000000123",
            "container_cpu_usage_seconds_total{container=\"app\",namespace=\"shop\",pod=\"db\"} 0.000246900 \
             1800000000123",
            "container_memory_working_set_bytes{container=\"app\",namespace=\"shop\",pod=\"web\"} 67108864 \
             1800000000123",
            "container_start_time_seconds{container=\"app\",namespace=\"shop\",pod=\"web\"} 1799999980.123000000",
            "node_cpu_usage_seconds_total 5.000246900 1800000000123",
            "node_memory_working_set_bytes 67109888 1800000000123",
            "pod_cpu_usage_seconds_total{namespace=\"shop\",pod=\"web\"} 5.000000000 1800000000123",
            "pod_memory_working_set_bytes{namespace=\"shop\",pod=\"db\"} 1024 1800000000123",
            "resource_scrape_error 0",
            "scrape_error 0",
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{line}\nisn't in\n{text}"
            );
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE "));
        let families: Vec<_> = families
            .map(|line| line.split(' ').nth(2).unwrap())
            .collect();
        assert!(families.is_sorted(), "{families:?}");
        // Of all nodes there is no one node to tell of.
        let all = metrics(&reports(), false, true);
        assert!(
            !all.contains("node_") && all.ends_with("\nscrape_error 1\n"),
            "{all}"
        );
    }

    #[test]
    fn a_summary_has_what_can_be_known() {
        let all = reports();
        let told: Value = serde_json::from_str(&summary(&all, Some(NODE))).unwrap();
        let node = &told["node"];
        assert_eq!(
            (&node["nodeName"], &node["cpu"]["usageNanoCores"]),
            (&json!(NODE), &json!(250_012_345))
        );
        let web = &told["pods"][1];
        assert_eq!(
            web["podRef"],
            json!({ "name": "web", "namespace": "shop", "uid": "uid-web" })
        );
        let want = json!({
            "name": "app", "startTime": "2027-01-15T07:59:40Z",
            "cpu": {
                "time": "2027-01-15T08:00:00Z", "usageNanoCores": 250_000_000,
                "usageCoreNanoSeconds": 5_000_000_000_u64,
            },
            "memory": { "time": "2027-01-15T08:00:00Z", "workingSetBytes": 64 << 20 },
        });
        assert_eq!(web["containers"], json!([want]));
        let told: Value = serde_json::from_str(&summary(&all, None)).unwrap();
        assert_eq!(told["node"], json!({ "nodeName": "" }));
        assert_eq!(told["pods"].as_array().unwrap().len(), 2);
    }
}
