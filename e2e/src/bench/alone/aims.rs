//! What `make bench-sched` aims at, end to end: by how many times our scheduler is to be better than the real one.
//! Pure.

use super::Figures;
use crate::bench::aim::Aim;
use crate::bench::shape::Shape;

/// How many times better in pods a second, and in the scheduler's CPU.
const fn limits(shape: Shape) -> [f64; 2] {
    match shape {
        Shape::Plain => [1.6, 6.0],
        // The real one's CPU is the limit there.
        Shape::Spread | Shape::Anti | Shape::NamespaceAffinity => [2.0, 8.0],
    }
}

/// All of them: how fast it is at most is what the burst shows.
pub(super) fn aims(shape: Shape, real: &[Figures; 2], ours: &[Figures; 2]) -> Vec<Aim> {
    let [rate, cpu] = limits(shape);
    let aim = |what: &str, limit: f64, value: f64| Aim {
        what: format!("{}: {what}, times better", shape.name()),
        limit,
        at_most: false,
        value,
    };
    let [burst, half] = [0, 1].map(|load| (&real[load], &ours[load]));
    let mut aims = vec![aim("burst, pods/s", rate, burst.1.rate / burst.0.rate)];
    for (load, (real, ours)) in [("burst", burst), ("half", half)] {
        let what = |what: &str| format!("{load}, {what}");
        let times = real.scheduler / ours.scheduler;
        aims.push(aim(&what("scheduler's CPU"), cpu, times));
        aims.push(aim(&what("peak memory"), 1.0, real.memory / ours.memory));
    }
    aims
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::aim::insist;
    use crate::bench::quantiles::Quantiles;

    fn figures(rate: f64, scheduler: f64, memory: f64) -> Figures {
        Figures {
            rate,
            scheduler,
            api_server: 1.0,
            bound: Quantiles::of([Duration::from_millis(5)]).unwrap(),
            memory,
        }
    }

    #[test]
    fn what_is_just_good_enough_for_plain_pods_is_not_for_others() {
        let real = [figures(100.0, 6.0, 200.0), figures(50.0, 6.0, 200.0)];
        let ours = [figures(160.0, 1.0, 200.0), figures(50.0, 1.0, 200.0)];
        let met = |shape, ours: &[Figures; 2]| insist(&aims(shape, &real, ours)).is_ok();
        assert!(met(Shape::Plain, &ours), "half its pace is the real one's");
        for worse in [
            figures(159.0, 1.0, 200.0),
            figures(160.0, 1.01, 200.0),
            figures(160.0, 1.0, 201.0),
        ] {
            assert!(!met(Shape::Plain, &[worse, ours[1]]));
        }
        for shape in [Shape::Spread, Shape::Anti, Shape::NamespaceAffinity] {
            assert!(!met(shape, &ours));
            let better = [figures(200.0, 0.75, 200.0), figures(50.0, 0.75, 200.0)];
            assert!(met(shape, &better), "{}", shape.name());
            assert!(!met(shape, &[better[0], ours[1]]), "half counts, too");
        }
    }
}
