//! The figures for people: tables, ratios to the yardstick of the same invocation, and the aims. Pure.

use std::collections::BTreeSet;

use super::aim;
use super::aims::aims;
use super::comparison::Comparison;
use super::figures::{Figures, Report, RunReport};
use super::quantiles::Quantiles;
use super::requests::is_about_pods;
use super::runs::Pace;
use super::table::table;

/// What a cell shows that doesn't apply.
const NOTHING: &str = "–";
/// Name of the run that others are compared with.
const YARDSTICK: &str = "vanilla";

/// All tables.
pub fn text(report: &Report) -> String {
    let mut parts = vec![
        format!(
            "times ({} pods each; milliseconds since each POST; ×: to vanilla of the same load; half: of the bound \
             that the burst showed, though a pod costs more at that pace, so that BUSY is more than half)\n{}",
            report.pods,
            times(report)
        ),
        format!(
            "costs (for each pod, less what the clusters use when idle)\n{}",
            costs(report)
        ),
    ];
    let frozen = frozen(report);
    if !frozen.is_empty() {
        parts.push(format!(
            "one target frozen (all loads of one pace together)\n{frozen}"
        ));
    }
    for run in &report.runs {
        for figures in &run.loads {
            let title = format!("{}, {}", run.name, label(figures));
            parts.push(format!(
                "requests for each pod: {title}\n{}",
                requests(figures)
            ));
            if run.audited {
                parts.push(format!("who sent them: {title}\n{}", actors(figures)));
            }
        }
    }
    let aims = aims(report);
    if !aims.is_empty() {
        parts.push(format!("aims\n{}", aim::text(&aims)));
    }
    for run in &report.runs {
        if let Some(error) = &run.error {
            parts.push(format!("{} failed: {error}", run.name));
        }
    }
    parts.join("\n\n")
}

fn label(figures: &Figures) -> String {
    let load = &figures.load;
    // How much half of the bound is depends on the burst before.
    let rate = figures.rate.filter(|_| is_half(figures));
    let load = rate.map_or_else(|| load.clone(), |rate| format!("{load} ({rate:.1}/s)"));
    match figures.frozen {
        Some(_) => format!("{load}, frozen"),
        None => load,
    }
}

pub(super) fn is_half(figures: &Figures) -> bool {
    figures.load == Pace::HalfOfBound.to_string()
}

/// Loads of all runs whose times mean something.
pub(super) fn timed(report: &Report) -> impl Iterator<Item = (&RunReport, &Figures)> {
    report
        .runs
        .iter()
        .filter(|run| !run.audited)
        .flat_map(|run| run.loads.iter().map(move |figures| (run, figures)))
}

pub(super) fn healthy<'a>(report: &'a Report, run: &str, load: &str) -> Option<&'a Figures> {
    timed(report)
        .find(|(its, figures)| its.name == run && figures.load == load && figures.frozen.is_none())
        .map(|(_, figures)| figures)
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

fn milliseconds(value: f64) -> String {
    format!("{value:.0}")
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.2}×"))
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn pair(quantiles: Option<&Quantiles>) -> String {
    quantiles.map_or_else(
        || NOTHING.to_owned(),
        |q| format!("{} / {}", milliseconds(q.p50_ms), milliseconds(q.p99_ms)),
    )
}

fn times(report: &Report) -> String {
    let row = |(run, figures): (&RunReport, &Figures)| {
        let yardstick = healthy(report, YARDSTICK, &figures.load).filter(|_| run.name != YARDSTICK);
        let seconds = &figures.seconds;
        vec![
            format!("{}, {}", run.name, label(figures)),
            number(seconds.created),
            seconds
                .delegates_bound
                .map_or_else(|| NOTHING.to_owned(), number),
            number(seconds.bound),
            number(seconds.running),
            number(seconds.settled),
            number(figures.pods_per_second),
            ratio(yardstick.map(|vanilla| figures.pods_per_second / vanilla.pods_per_second)),
            pair(figures.delegate_bound.as_ref()),
            pair(Some(&figures.bound)),
            ratio(yardstick.map(|vanilla| figures.bound.p50_ms / vanilla.bound.p50_ms)),
            pair(Some(&figures.running)),
        ]
    };
    let rows: Vec<_> = timed(report).map(row).collect();
    table(
        &[
            "RUN",
            "CREATED s",
            "DELEGATES s",
            "BOUND s",
            "RUN s",
            "SETTLED s",
            "PODS/S",
            "×",
            "DELEGATE p50/p99",
            "BOUND p50/p99",
            "× p50",
            "RUNNING p50/p99",
        ],
        &rows,
    )
}

fn costs(report: &Report) -> String {
    let row = |(run, figures): (&RunReport, &Figures)| {
        let yardstick = healthy(report, YARDSTICK, &figures.load).filter(|_| run.name != YARDSTICK);
        let cpu = &figures.cpu;
        let group = |name| {
            cpu.by_group_ms
                .get(name)
                .map_or_else(|| NOTHING.to_owned(), |ms| number(*ms))
        };
        vec![
            format!("{}, {}", run.name, label(figures)),
            number(cpu.pilotage_ms),
            group("kube-apiserver"),
            group("etcd"),
            group("kube-controller-manager"),
            group("kube-scheduler"),
            group("kwok"),
            group("load"),
            number(cpu.all_ms),
            ratio(yardstick.map(|vanilla| cpu.all_ms / vanilla.cpu.all_ms)),
            number(cpu.after_ms),
            format!("{:.2}", run.idle_cores),
            format!("{:.2}", cpu.busy_cores),
            format!("{:.2}", cpu.others_cores),
            number(figures.bound_by_cpu.pods_per_second),
            percent(figures.bound_by_cpu.achieved),
            milliseconds(figures.pilotage_peak_mib),
            number(figures.requests_per_pod),
            format!("{:.2}", figures.failed_per_pod),
            format!("{:.2}", figures.failed_of_kubelets_per_pod),
            number(figures.requests_at_end_per_pod),
        ]
    };
    let rows: Vec<_> = timed(report).map(row).collect();
    table(
        &[
            "RUN",
            "PILOTAGE ms",
            "API ms",
            "ETCD ms",
            "KCM ms",
            "SCHED ms",
            "KWOK ms",
            "LOAD ms",
            "ALL ms",
            "×",
            "AFTER ms",
            "IDLE cores",
            "BUSY",
            "OTHERS",
            "LIMIT/S",
            "ACHIEVED",
            "PEAK MiB",
            "REQUESTS",
            "FAILED",
            "KUBELETS'",
            "AT END",
        ],
        &rows,
    )
}

/// Of all runs whose times mean something.
pub(super) fn comparisons(report: &Report) -> impl Iterator<Item = Comparison> {
    let runs = report.runs.iter().filter(|run| !run.audited);
    runs.flat_map(Comparison::all)
}

fn frozen(report: &Report) -> String {
    let row = |one: Comparison| {
        let times = |of: fn(&Quantiles) -> f64| ratio(Some(of(&one.elsewhere) / of(&one.healthy)));
        vec![
            format!("{}, {}", one.run, one.load),
            one.held.to_string(),
            number(one.seconds),
            pair(Some(&one.healthy)),
            pair(Some(&one.elsewhere)),
            times(|q| q.p50_ms),
            times(|q| q.p99_ms),
            one.bound_twice.to_string(),
        ]
    };
    let rows: Vec<_> = comparisons(report).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    table(
        &[
            "RUN",
            "HELD",
            "FROZEN s",
            "HEALTHY p50/p99",
            "ELSEWHERE p50/p99",
            "× p50",
            "× p99",
            "BOUND TWICE",
        ],
        &rows,
    )
}

/// Requests about pods, one column a cluster.
fn requests(figures: &Figures) -> String {
    let sorts: BTreeSet<&String> = figures
        .requests
        .values()
        .flat_map(|sorts| sorts.keys())
        .filter(|sort| is_about_pods(sort))
        .collect();
    let cell =
        |value: Option<&f64>| value.map_or_else(|| NOTHING.to_owned(), |v| format!("{v:.2}"));
    let mut rows: Vec<Vec<String>> = sorts
        .iter()
        .map(|sort| {
            let cells = figures
                .requests
                .values()
                .map(|sorts| cell(sorts.get(*sort)));
            std::iter::once((*sort).clone()).chain(cells).collect()
        })
        .collect();
    let sums = figures.requests.values().map(|its| {
        let shown = its.iter().filter(|(sort, _)| sorts.contains(sort));
        cell(Some(&shown.map(|(_, value)| value).sum::<f64>()))
    });
    rows.push(std::iter::once("TOTAL".to_owned()).chain(sums).collect());
    let titles: Vec<&str> = std::iter::once("REQUEST")
        .chain(figures.requests.keys().map(String::as_str))
        .collect();
    table(&titles, &rows)
}

fn actors(figures: &Figures) -> String {
    let cell = |value: f64| format!("{value:.2}");
    let mut rows: Vec<Vec<String>> = figures
        .actors
        .iter()
        .filter(|row| row.source + row.targets >= 0.005)
        .map(|row| {
            let whose = if row.ours { "pilotage " } else { "" };
            vec![
                format!("{whose}{}: {}", row.actor, row.sort),
                cell(row.source),
                cell(row.targets),
                cell(row.failed),
            ]
        })
        .collect();
    let sum = |ours: bool| {
        let rows = figures.actors.iter().filter(move |row| row.ours == ours);
        rows.fold([0.0; 3], |[a, b, c], row| {
            [a + row.source, b + row.targets, c + row.failed]
        })
    };
    for (title, ours) in [("PILOTAGE", true), ("OTHERS", false)] {
        let sums = sum(ours).map(cell);
        rows.push(std::iter::once(title.to_owned()).chain(sums).collect());
    }
    table(&["WHO: WHAT", "SOURCE", "TARGETS", "FAILED"], &rows)
}
