//! Owns the strategies by which `NodeResourcesFit` ranks nodes: least allocated, most allocated, or a shape over
//! utilization. Integers throughout. Knows nothing of pods and nodes.

use thiserror::Error;

use crate::plugin::MAX_NODE_SCORE;
use crate::resources::ResourceName;

/// Why a strategy can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StrategyError {
    /// A weight outside 1..=100.
    #[error("weight {weight} of resource {resource:?} isn't within 1..=100")]
    Weight {
        /// The resource.
        resource: String,
        /// Its weight.
        weight: i64,
    },
    /// A shape without points.
    #[error("the shape has no points")]
    NoPoints,
    /// A utilization outside 0..=100, or not above the one before.
    #[error("utilization {0} isn't within 0..=100 or doesn't increase")]
    Utilization(i64),
    /// A score outside 0..=10.
    #[error("shape score {0} isn't within 0..=10")]
    Score(i64),
}

/// A resource that counts for the score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoringResource {
    /// Which.
    pub name: ResourceName,
    /// 1..=100.
    pub weight: i64,
}

/// A point of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapePoint {
    /// In percent, 0..=100.
    pub utilization: i64,
    /// 0..=10.
    pub score: i64,
}

/// What is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyKind {
    /// Much room left: spreads.
    LeastAllocated,
    /// Little room left: packs.
    MostAllocated,
    /// What the shape says of the utilization; straight lines between points, flat outside.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

/// A strategy with the resources that it looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoringStrategy {
    kind: StrategyKind,
    resources: Vec<ScoringResource>,
}

impl Default for ScoringStrategy {
    /// Least allocated, by CPU and memory with equal weights.
    fn default() -> Self {
        let resource = |name| ScoringResource { name, weight: 1 };
        Self {
            kind: StrategyKind::LeastAllocated,
            resources: vec![resource(ResourceName::Cpu), resource(ResourceName::Memory)],
        }
    }
}

/// One resource of a node, with the pod on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) requested: i64,
    pub(super) allocatable: i64,
    pub(super) weight: i64,
}

impl ScoringStrategy {
    /// Checks and makes a strategy.
    pub fn new(kind: StrategyKind, resources: Vec<ScoringResource>) -> Result<Self, StrategyError> {
        for ScoringResource { name, weight } in &resources {
            if !(1..=100).contains(weight) {
                let resource = name.as_str().to_owned();
                return Err(StrategyError::Weight {
                    resource,
                    weight: *weight,
                });
            }
        }
        if let StrategyKind::RequestedToCapacityRatio(shape) = &kind {
            check_shape(shape)?;
        }
        Ok(Self { kind, resources })
    }

    /// The resources that it looks at.
    pub(super) fn resources(&self) -> &[ScoringResource] {
        &self.resources
    }

    /// The score of a node, 0..=100. Resources that the node doesn't have must be left out by the caller.
    pub(super) fn score(&self, loads: impl Iterator<Item = Load>) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for Load {
            requested,
            allocatable,
            weight,
        } in loads
        {
            let score = match &self.kind {
                StrategyKind::LeastAllocated => {
                    ratio(allocatable.saturating_sub(requested), allocatable)
                }
                StrategyKind::MostAllocated => ratio(requested.min(allocatable), allocatable),
                StrategyKind::RequestedToCapacityRatio(shape) => {
                    let score = on_shape(shape, ratio(requested.min(allocatable), allocatable));
                    // A resource that adds nothing doesn't dilute the others either.
                    if score <= 0 {
                        continue;
                    }
                    score
                }
            };
            sum = sum.saturating_add(score.saturating_mul(weight));
            weights = weights.saturating_add(weight);
        }
        let (sum, weights) = match &self.kind {
            // Rounded half up; the others cut.
            StrategyKind::RequestedToCapacityRatio(_) => (
                sum.saturating_mul(2).saturating_add(weights),
                weights.saturating_mul(2),
            ),
            _ => (sum, weights),
        };
        sum.checked_div(weights).unwrap_or(0)
    }
}

fn check_shape(shape: &[ShapePoint]) -> Result<(), StrategyError> {
    if shape.is_empty() {
        return Err(StrategyError::NoPoints);
    }
    let mut last = -1;
    for &ShapePoint { utilization, score } in shape {
        if utilization <= last || utilization > 100 {
            return Err(StrategyError::Utilization(utilization));
        }
        if !(0..=10).contains(&score) {
            return Err(StrategyError::Score(score));
        }
        last = utilization;
    }
    Ok(())
}

/// `part * 100 / whole`, 0..=100, in wide integers, since bytes times a hundred may not fit.
fn ratio(part: i64, whole: i64) -> i64 {
    let all = i128::from(MAX_NODE_SCORE);
    let share = i128::from(part.max(0)).saturating_mul(all);
    let share = share.checked_div(i128::from(whole)).unwrap_or(0);
    share.clamp(0, all) as i64
}

/// The shape's value at a utilization, scaled from 0..=10 to 0..=100.
fn on_shape(shape: &[ShapePoint], utilization: i64) -> i64 {
    let scaled = |point: &ShapePoint| point.score.saturating_mul(MAX_NODE_SCORE / 10);
    let next = shape
        .iter()
        .position(|point| utilization <= point.utilization);
    match next {
        None => shape.last().map_or(0, scaled),
        Some(0) => scaled(&shape[0]),
        Some(at) => {
            let (from, to) = (&shape[at.saturating_sub(1)], &shape[at]);
            let rise = scaled(to).saturating_sub(scaled(from));
            let run = to.utilization.saturating_sub(from.utilization);
            let way = utilization.saturating_sub(from.utilization);
            let risen = rise.saturating_mul(way).checked_div(run);
            scaled(from).saturating_add(risen.unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Load, ScoringResource, ScoringStrategy, ShapePoint, StrategyError, StrategyKind, on_shape,
    };
    use crate::resources::ResourceName;

    fn shape(points: &[(i64, i64)]) -> Vec<ShapePoint> {
        points
            .iter()
            .map(|&(utilization, score)| ShapePoint { utilization, score })
            .collect()
    }

    fn score(kind: StrategyKind, loads: &[(i64, i64, i64)]) -> i64 {
        let strategy = ScoringStrategy::new(kind, Vec::new()).unwrap();
        let load = |&(requested, allocatable, weight)| Load {
            requested,
            allocatable,
            weight,
        };
        strategy.score(loads.iter().map(load))
    }

    #[test]
    fn worked_examples() {
        use StrategyKind::{LeastAllocated, MostAllocated, RequestedToCapacityRatio};
        // 1000m/2000 beside 2000m/4000 on 4000m/10000, and beside 1000m/2000 on 6000m/10000.
        let one = [(3000, 4000, 1), (6000, 10_000, 1)];
        let two = [(2000, 6000, 1), (4000, 10_000, 1)];
        let up = || RequestedToCapacityRatio(shape(&[(0, 0), (100, 10)]));
        let down = || RequestedToCapacityRatio(shape(&[(0, 10), (100, 0)]));
        for (kind, loads, expected) in [
            (LeastAllocated, &one, 32),
            (LeastAllocated, &two, 63),
            (MostAllocated, &one, 67),
            (MostAllocated, &two, 36),
            (up(), &one, 68),
            (up(), &two, 37),
            (down(), &one, 33),
        ] {
            assert_eq!(score(kind.clone(), loads), expected, "{kind:?} {loads:?}");
        }
        assert_eq!(
            score(LeastAllocated, &[(3000, 4000, 3), (6000, 10_000, 1)]),
            28
        );
        assert_eq!(score(LeastAllocated, &[(5, 4, 1), (0, 4, 1)]), 50);
        assert_eq!(score(MostAllocated, &[(5, 4, 1)]), 100);
        assert_eq!(score(LeastAllocated, &[]), 0);
        assert_eq!(
            score(LeastAllocated, &[(0, i64::MAX, 1)]),
            100,
            "no overflow"
        );
        assert_eq!(
            score(LeastAllocated, &[(i64::MIN, 1, 1)]),
            100,
            "all is the most"
        );
        assert_eq!(score(MostAllocated, &[(i64::MIN, 1, 1)]), 0);
        assert_eq!(
            score(up(), &[(0, 4, 1), (2, 4, 1)]),
            50,
            "zero scores don't count"
        );
    }

    #[test]
    fn shapes_are_straight_between_points_and_flat_outside() {
        let points = shape(&[(20, 2), (60, 10), (80, 0)]);
        for (utilization, value) in [
            (0, 20),
            (20, 20),
            (40, 60),
            (60, 100),
            (70, 50),
            (80, 0),
            (100, 0),
        ] {
            assert_eq!(on_shape(&points, utilization), value, "at {utilization}");
        }
    }

    #[test]
    fn what_a_strategy_must_not_be() {
        let ratio = |points: &[(i64, i64)]| {
            ScoringStrategy::new(
                StrategyKind::RequestedToCapacityRatio(shape(points)),
                Vec::new(),
            )
        };
        assert_eq!(ratio(&[]), Err(StrategyError::NoPoints));
        assert_eq!(ratio(&[(0, 1), (0, 2)]), Err(StrategyError::Utilization(0)));
        assert_eq!(ratio(&[(101, 1)]), Err(StrategyError::Utilization(101)));
        assert_eq!(ratio(&[(10, 11)]), Err(StrategyError::Score(11)));
        let heavy = vec![ScoringResource {
            name: ResourceName::Cpu,
            weight: 101,
        }];
        let error = ScoringStrategy::new(StrategyKind::MostAllocated, heavy).unwrap_err();
        assert_eq!(
            error,
            StrategyError::Weight {
                resource: "cpu".into(),
                weight: 101
            }
        );
    }
}
