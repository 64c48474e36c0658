//! What `make bench-multi` aims at, as far as there are figures. Pure.

use std::collections::BTreeMap;

use super::aim::Aim;
use super::figures::{Figures, Report, SOURCE};
use super::report::{comparisons, healthy, is_half, timed};

/// Requests of a sort for each pod in the cluster where pods are created.
fn in_source(figures: &Figures, sort: &str) -> f64 {
    let source = figures.requests.get(SOURCE);
    source
        .and_then(|sorts| sorts.get(sort))
        .copied()
        .unwrap_or_default()
}

/// How far the target with the most or the fewest pods is from an equal share, as a part of that share.
/// `None`: there is nothing to share.
fn unfairness(requests: &BTreeMap<String, BTreeMap<String, f64>>) -> Option<f64> {
    let targets = requests.iter().filter(|(name, _)| *name != SOURCE);
    let bound: Vec<f64> = targets
        .map(|(_, sorts)| sorts.get("POST pods/binding").copied().unwrap_or_default())
        .collect();
    let equal = bound.iter().sum::<f64>() / bound.len() as f64;
    let off = bound.iter().map(|one| (one / equal - 1.0).abs());
    // What can't be compared is the greatest here.
    off.max_by(f64::total_cmp).filter(|_| bound.len() > 1)
}

/// Requests of Pilotage itself for each pod where that was recorded: all, those that ask a target, and those that
/// failed; then everybody's.
fn own_requests(report: &Report, run: &str) -> Option<[f64; 4]> {
    let run = report.runs.iter().find(|its| its.name == run)?;
    let figures = run.loads.iter().find(|load| is_half(load))?;
    let ours = || figures.actors.iter().filter(|row| row.ours);
    let asks = ours().filter(|row| row.sort == "create podchaperons");
    Some([
        ours().map(|row| row.source + row.targets).sum(),
        asks.map(|row| row.targets).sum(),
        ours().map(|row| row.failed).sum(),
        figures.requests_per_pod,
    ])
}

/// A watch that is opened anew, or a write that comes twice, in some hundred pods: no more requests a pod.
fn tenths(requests: f64) -> f64 {
    (requests * 10.0).round() / 10.0
}

/// All that these runs have figures for.
pub(super) fn aims(report: &Report) -> Vec<Aim> {
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
    // Under load fewer are asked than would be. Not ours: the creator's, kubelets', and the garbage collector's for
    // those that lose.
    for (run, asked, limit) in [
        ("audited-one", "one", 12.0),
        ("audited-three", "three", 18.0),
    ] {
        let Some([own, questions, failed, all]) = own_requests(report, run) else {
            continue;
        };
        let what = format!(
            "own requests a pod at half, {asked} to be asked ({questions:.2} questions; {all:.1} with others')"
        );
        aim(&what, limit, true, Some(tenths(own)));
        let what = format!("own requests that failed a pod at half, {asked} to be asked");
        aim(&what, 0.05, true, Some(failed));
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
            aim(
                &title(&format!("{load}, a target's share, off an equal one by")),
                0.2,
                true,
                figures.and_then(|figures| unfairness(&figures.requests)),
            );
        }
        aim(
            &title("half, all requests a pod, one to be asked"),
            12.0,
            true,
            half.map(|figures| tenths(figures.requests_per_pod)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_compared_with_equal_ones_and_one_target_shares_with_nobody() {
        let bound = |share: f64| BTreeMap::from([("POST pods/binding".to_owned(), share)]);
        let of = |shares: &[f64]| {
            let targets = shares.iter().zip(["a", "b", "c"]);
            let mut requests: BTreeMap<_, _> = targets
                .map(|(share, name)| (name.to_owned(), bound(*share)))
                .collect();
            requests.insert(SOURCE.to_owned(), bound(1.0));
            unfairness(&requests)
        };
        assert_eq!(of(&[1.0]), None);
        assert_eq!(of(&[0.25, 0.25]), Some(0.0));
        assert!((of(&[0.5, 0.4, 0.6]).unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(of(&[0.0, 0.5]), Some(1.0));
        assert!(of(&[0.0, 0.0]).unwrap().is_nan(), "which is no aim met");
    }

    #[test]
    fn requests_are_counted_in_tenths() {
        assert!(tenths(12.04) <= 12.0);
        assert!(tenths(12.06) > 12.0);
    }
}
