//! The figures for people: tables, ratios to the yardstick of the same invocation, and the aims. Pure.

use std::collections::BTreeSet;

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
/// Name of the cluster where pods are created, beside targets.
const SOURCE: &str = "source";

/// All tables.
pub fn text(report: &Report) -> String {
    let mut parts = vec![
        format!(
            "times ({} pods each; milliseconds since each POST; ×: to vanilla of the same load; half: of the bound that the \
             burst showed, though a pod costs more at that pace, so that BUSY is more than half)\n{}",
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
    let aims: Vec<_> = aims(report).iter().map(Aim::row).collect();
    if !aims.is_empty() {
        let aims = table(&["AIM", "LIMIT", "IS", ""], &aims);
        parts.push(format!("aims\n{aims}"));
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

fn is_half(figures: &Figures) -> bool {
    figures.load == Pace::HalfOfBound.to_string()
}

/// Loads of all runs whose times mean something.
fn timed(report: &Report) -> impl Iterator<Item = (&RunReport, &Figures)> {
    report
        .runs
        .iter()
        .filter(|run| !run.audited)
        .flat_map(|run| run.loads.iter().map(move |figures| (run, figures)))
}

fn healthy<'a>(report: &'a Report, run: &str, load: &str) -> Option<&'a Figures> {
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
            "AT END",
        ],
        &rows,
    )
}

/// Of all runs whose times mean something.
fn comparisons(report: &Report) -> impl Iterator<Item = Comparison> {
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

/// Requests of a sort for each pod in the cluster where pods are created.
fn in_source(figures: &Figures, sort: &str) -> f64 {
    let source = figures.requests.get(SOURCE);
    source
        .and_then(|sorts| sorts.get(sort))
        .copied()
        .unwrap_or_default()
}

/// Requests of Pilotage itself for each pod where that was recorded, and how many of them ask a target.
fn own_requests(report: &Report, run: &str) -> Option<[f64; 2]> {
    let run = report.runs.iter().find(|its| its.name == run)?;
    let figures = run.loads.last()?;
    let ours = || figures.actors.iter().filter(|row| row.ours);
    let asks = ours().filter(|row| row.sort == "create podchaperons");
    Some([
        ours().map(|row| row.source + row.targets).sum(),
        asks.map(|row| row.targets).sum(),
    ])
}

/// What is aimed at, and what it is.
struct Aim {
    what: String,
    limit: f64,
    at_most: bool,
    value: f64,
}

impl Aim {
    fn is_met(&self) -> bool {
        if self.at_most {
            self.value <= self.limit
        } else {
            self.value >= self.limit
        }
    }

    fn row(&self) -> Vec<String> {
        let sign = if self.at_most { "≤" } else { "≥" };
        vec![
            self.what.clone(),
            format!("{sign} {}", self.limit),
            format!("{:.2}", self.value),
            if self.is_met() { "met" } else { "MISSED" }.to_owned(),
        ]
    }
}

/// How many aims are missed.
pub fn missed(report: &Report) -> usize {
    aims(report).iter().filter(|aim| !aim.is_met()).count()
}

fn aims(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    let mut aim = |what: &str, limit: f64, at_most: bool, value: Option<f64>| {
        let Some(value) = value else {
            return;
        };
        aims.push(Aim {
            what: what.to_owned(),
            limit,
            at_most,
            value,
        });
    };
    // Under load fewer are asked than would be. Without the garbage collector's for those that lose.
    if let Some([all, questions]) = own_requests(report, "audited-three") {
        let what =
            format!("own requests a pod at half, three to be asked ({questions:.2} questions)");
        aim(&what, 18.0, true, Some(all));
    }
    for run in ["one", "two", "four"] {
        let burst = healthy(report, run, "burst");
        let steady = timed(report).map(|(its, figures)| (its.name, figures));
        let fixed = |figures: &Figures| figures.rate.is_some() && figures.frozen.is_none();
        let steady = steady.filter(|(name, figures)| *name == run && fixed(figures));
        let steady = steady.map(|(_, figures)| figures).find(|one| !is_half(one));
        let half = healthy(report, run, "half");
        let title = |what: &str| format!("{run}: {what}");
        aim(
            &title("burst, share of the CPU's bound"),
            0.9,
            false,
            burst.map(|figures| figures.bound_by_cpu.achieved),
        );
        let faster = burst.zip(steady);
        aim(
            &title("pods/s, burst ÷ fixed rate"),
            0.9,
            false,
            faster.map(|(burst, steady)| burst.pods_per_second / steady.pods_per_second),
        );
        for (load, figures) in [("burst", burst), ("fixed rate", steady), ("half", half)] {
            aim(
                &title(&format!("{load}, own CPU a pod, ms")),
                10.0,
                true,
                figures.map(|figures| figures.cpu.pilotage_ms),
            );
            aim(
                &title(&format!("{load}, failed requests a pod")),
                0.05,
                true,
                figures.map(|figures| figures.failed_per_pod),
            );
            aim(
                &title(&format!(
                    "{load}, bindings of a proxy more or less than one"
                )),
                0.0,
                true,
                // A hundredth is rounding.
                figures.map(|figures| {
                    let bindings = in_source(figures, "POST pods/binding");
                    ((bindings - 1.0).abs() * 100.0).round() / 100.0
                }),
            );
        }
        aim(
            &title("half, all requests a pod, one to be asked"),
            12.0,
            true,
            half.map(|figures| figures.requests_per_pod),
        );
        aim(
            &title("half, p50 to bound, ms"),
            100.0,
            true,
            half.map(|figures| figures.bound.p50_ms),
        );
        aim(
            &title("half, p99 to bound, ms"),
            400.0,
            true,
            half.map(|figures| figures.bound.p99_ms),
        );
    }
    for one in comparisons(report) {
        let what = format!("p99 elsewhere, frozen ÷ healthy, {}", one.load);
        let times = one.elsewhere.p99_ms / one.healthy.p99_ms;
        aim(&what, 1.2, true, Some(times));
        let what = format!("pods that ran twice, {}", one.load);
        aim(&what, 0.0, true, Some(one.bound_twice as f64));
    }
    aims
}
