//! What one frozen target costs the pods that go elsewhere: all healthy loads of a run against all frozen ones of the
//! same pace. The 99th percentile of one load is the fifth longest of 500 times, which is luck; so they are pooled.
//! Pure.

use std::time::Duration;

use super::figures::{Figures, Frozen, RunReport};
use super::quantiles::Quantiles;

/// Healthy and frozen loads of one pace.
#[derive(Debug)]
pub struct Comparison {
    /// The run's name.
    pub run: &'static str,
    /// The pace.
    pub load: String,
    /// Pods that waited for the frozen target, in all loads.
    pub held: usize,
    /// Seconds that it was frozen, in all loads.
    pub seconds: f64,
    /// From POST to bound, nothing being frozen.
    pub healthy: Quantiles,
    /// The same with a frozen target, of pods that went elsewhere.
    pub elsewhere: Quantiles,
    /// Pods of which more than one delegate was ever bound.
    pub bound_twice: usize,
}

impl Comparison {
    /// All of a run, in the order of its loads.
    pub fn all(run: &RunReport) -> Vec<Self> {
        let mut paces: Vec<&String> = Vec::new();
        for figures in &run.loads {
            if figures.frozen.is_some() && !paces.contains(&&figures.load) {
                paces.push(&figures.load);
            }
        }
        paces
            .into_iter()
            .filter_map(|pace| Self::of(run, pace))
            .collect()
    }

    /// `None` if nothing was bound in one of the two.
    fn of(run: &RunReport, pace: &str) -> Option<Self> {
        let loads = || run.loads.iter().filter(|figures| figures.load == pace);
        let healthy = |figures: &&Figures| figures.frozen.is_none();
        let frozen: Vec<&Frozen> = loads().filter_map(|load| load.frozen.as_ref()).collect();
        let pooled =
            |times: Vec<&Vec<Duration>>| Quantiles::of(times.into_iter().flatten().copied());
        Some(Self {
            run: run.name,
            load: pace.to_owned(),
            held: frozen.iter().map(|one| one.held).sum(),
            seconds: frozen.iter().map(|one| one.seconds).sum(),
            healthy: pooled(loads().filter(healthy).map(|load| &load.times).collect())?,
            elsewhere: pooled(frozen.iter().map(|one| &one.times).collect())?,
            bound_twice: frozen.iter().map(|one| one.bound_twice).sum(),
        })
    }
}
