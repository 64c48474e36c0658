//! The list of runs: what is started for each, and how pods are created in it. Pure.

use std::fmt;
use std::time::Duration;

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One cluster with the stock kube-scheduler and no Pilotage.
    Vanilla,
    /// A source and this many targets, with Pilotage in each.
    Pilotage {
        /// Number of targets.
        targets: usize,
        /// Every target is asked for every pod.
        ask_all: bool,
    },
}

/// How fast pods are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the API server takes them, this many requests at once.
    Burst(usize),
    /// One after this long, whatever became of those before.
    Every(Duration),
    /// Half as many a second as the machine could do at most, by the cost of a pod in the burst before.
    HalfOfBound,
}

impl Pace {
    /// What it comes to, given the bound in pods a second that was found so far; `None` if it needs one and none was.
    pub fn given(self, bound: Option<f64>) -> Option<Tempo> {
        match self {
            Self::Burst(at_once) => Some(Tempo::Burst(at_once)),
            Self::Every(period) => Some(Tempo::Every(period)),
            Self::HalfOfBound => {
                let period = Duration::try_from_secs_f64(2.0 / bound?).ok()?;
                Some(Tempo::Every(period))
            }
        }
    }
}

/// A pace in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tempo {
    /// This many requests at once.
    Burst(usize),
    /// One after this long.
    Every(Duration),
}

impl Tempo {
    /// Pods a second, if that is fixed.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Every(period) => Some(1.0 / period.as_secs_f64()),
            Self::Burst(_) => None,
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Burst(_) => f.write_str("burst"),
            Self::Every(period) => write!(f, "{}/s", (1.0 / period.as_secs_f64()).round()),
            Self::HalfOfBound => f.write_str("half"),
        }
    }
}

/// One measurement of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// How fast.
    pub pace: Pace,
    /// The last target is frozen when a fifth of the pods is created, and goes on when all others have their place.
    pub frozen: bool,
}

impl Load {
    /// The same with so many pods a second, if it has a fixed rate.
    #[must_use]
    pub fn at_rate(self, rate: u32) -> Self {
        let pace = match self.pace {
            Pace::Every(_) => Pace::Every(Duration::from_secs(1) / rate.max(1)),
            other => other,
        };
        Self { pace, ..self }
    }
}

/// Clusters and what is measured with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// What is started.
    pub kind: Kind,
    /// API servers keep audit logs, to tell who asks for what. It costs time, so no other figures are quoted.
    pub audited: bool,
    /// What is measured, in this order.
    pub loads: &'static [Load],
}

/// Requests at once of a burst.
const AT_ONCE: usize = 32;
const BURST: Load = Load {
    pace: Pace::Burst(AT_ONCE),
    frozen: false,
};
const STEADY: Load = Load {
    pace: Pace::Every(Duration::from_millis(50)),
    frozen: false,
};
const HALF: Load = Load {
    pace: Pace::HalfOfBound,
    frozen: false,
};
/// Aims for requests are for the last one: in the others, writes that are gathered come apart.
const EACH: [Load; 3] = [STEADY, BURST, HALF];
const FROZEN_BURST: Load = Load {
    frozen: true,
    ..BURST
};
const FROZEN_STEADY: Load = Load {
    frozen: true,
    ..STEADY
};

const fn pilotage(targets: usize) -> Kind {
    Kind::Pilotage {
        targets,
        ask_all: false,
    }
}

const fn asking_all(targets: usize) -> Kind {
    Kind::Pilotage {
        targets,
        ask_all: true,
    }
}

/// All runs, in their order.
pub const RUNS: &[Run] = &[
    Run {
        name: "vanilla",
        what: "kube-scheduler in one cluster, the yardstick",
        kind: Kind::Vanilla,
        audited: false,
        loads: &EACH,
    },
    Run {
        name: "one",
        what: "one target",
        kind: pilotage(1),
        audited: false,
        loads: &EACH,
    },
    Run {
        name: "two",
        what: "two targets",
        kind: pilotage(2),
        audited: false,
        loads: &EACH,
    },
    Run {
        name: "four",
        what: "four targets",
        kind: pilotage(4),
        audited: false,
        loads: &EACH,
    },
    Run {
        name: "ask-all",
        what: "four targets, all asked for every pod",
        kind: asking_all(4),
        audited: false,
        loads: &EACH,
    },
    Run {
        name: "frozen",
        what: "four targets, healthy and with one frozen",
        kind: pilotage(4),
        audited: false,
        // In turns, since the machine is not the same from one minute to the next.
        loads: &[
            STEADY,
            FROZEN_STEADY,
            STEADY,
            FROZEN_STEADY,
            STEADY,
            FROZEN_STEADY,
            BURST,
            FROZEN_BURST,
            BURST,
            FROZEN_BURST,
            BURST,
            FROZEN_BURST,
        ],
    },
    Run {
        name: "audited-one",
        what: "who asks for what: one target",
        kind: pilotage(1),
        audited: true,
        loads: &EACH,
    },
    Run {
        name: "audited",
        what: "who asks for what: four targets, one asked",
        kind: pilotage(4),
        audited: true,
        loads: &EACH,
    },
    Run {
        name: "audited-three",
        what: "who asks for what: three targets, all asked",
        kind: asking_all(3),
        audited: true,
        loads: &EACH,
    },
];

/// The runs of these names, in the list's order; all if none is named; the first name that doesn't exist.
pub fn select(names: &[String]) -> Result<Vec<&'static Run>, String> {
    if let Some(unknown) = names
        .iter()
        .find(|name| RUNS.iter().all(|run| run.name != name.as_str()))
    {
        return Err(unknown.clone());
    }
    let wanted = |run: &&Run| names.is_empty() || names.iter().any(|name| name == run.name);
    Ok(RUNS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_selected_by_name_and_keep_their_order() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            select(&wanted).map(|runs| runs.iter().map(|run| run.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["four", "vanilla"]), Ok(vec!["vanilla", "four"]));
        assert_eq!(names(&[]).unwrap().len(), RUNS.len());
        assert_eq!(names(&["four", "five"]), Err("five".to_owned()));
    }

    #[test]
    fn half_of_the_bound_is_measured_after_a_burst_has_shown_it() {
        for run in RUNS {
            for (index, load) in run.loads.iter().enumerate() {
                let bursts = &run.loads[..index];
                assert!(load.pace != Pace::HalfOfBound || bursts.contains(&BURST));
            }
        }
        assert_eq!(Pace::HalfOfBound.given(None), None);
        let half = Pace::HalfOfBound.given(Some(25.0)).unwrap();
        assert_eq!(half, Tempo::Every(Duration::from_millis(80)));
        assert_eq!(half.rate(), Some(12.5));
        let steady = STEADY.pace.given(Some(25.0)).unwrap();
        assert_eq!(steady, Tempo::Every(Duration::from_millis(50)));
        assert_eq!(HALF.at_rate(7), HALF);
    }

    #[test]
    fn a_frozen_load_follows_the_healthy_one_that_it_is_compared_with() {
        for run in RUNS {
            for (index, load) in run.loads.iter().enumerate() {
                let healthy = Load {
                    frozen: false,
                    ..*load
                };
                assert!(!load.frozen || run.loads[..index].contains(&healthy));
            }
        }
        assert_eq!(STEADY.pace.to_string(), "20/s");
        assert_eq!(STEADY.at_rate(7).pace.to_string(), "7/s");
        assert_eq!(BURST.at_rate(7), BURST);
    }
}
