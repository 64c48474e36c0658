//! What a schedule starts with, and its written form.

use std::{fmt, str::FromStr, time::Duration};

use pilotage_api::lost::LostPolicy;
use pilotage_proxy::window::FEW;

use crate::{occupants::Occupants, rng::Rng};

macro_rules! config {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a schedule starts with.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Config { $($(#[$doc])* pub $name: u16),*,
            /** Whether the best target surely fits. */ pub surely: bool,
                /** Whether partitions end. */ pub heals: bool,
                    /** Seed of clocks and of the healing. */ pub seed: u64 }

        impl fmt::Display for Config {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(write!(f, concat!(stringify!($name), "={} "), self.$name)?;)*
                write!(f, "surely={} heals={} seed={}", self.surely, self.heals, self.seed)
            }
        }

        impl FromStr for Config {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let mut config = Self::default();
                for part in text.split_whitespace() {
                    let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is no setting"))?;
                    let bad = || format!("{value:?} is no value of {key}");
                    match key {
                        $(stringify!($name) => config.$name = value.parse().map_err(|_| bad())?,)*
                        "surely" => config.surely = value.parse().map_err(|_| bad())?,
                        "heals" => config.heals = value.parse().map_err(|_| bad())?,
                        "seed" => config.seed = value.parse().map_err(|_| bad())?,
                        _ => return Err(format!("{key:?} is no setting")),
                    }
                }
                Ok(config)
            }
        }
    };
}

config! {
    /// Targets.
    targets,
    /// Names of proxy pods.
    pods,
    /// How often each name may be made.
    lives,
    /// Targets without room, a bit each.
    full,
    /// Targets whose node other pods have that may be evicted, a bit each.
    occupied,
    /// Who these are, by a seed; 0: one of the cheapest.
    company,
    /// Targets that run plain Admiralty, a bit each.
    plain,
    /// The target that is ranked first.
    first,
    /// Pods without reservation, a bit each.
    unreserved,
    /// Seconds after which a lost target's pods are replaced; 0: they are held.
    replace,
    /// Who says so: 0 the pods, 1 the Targets.
    said_by,
    /// Delegates end by themselves.
    jobs,
    /// Pods that may be on their way to any target at a time; 0: as many as in earnest.
    window,
}

impl Config {
    /// Something small with two targets and one pod.
    pub fn small() -> Self {
        Self {
            targets: 2,
            pods: 1,
            lives: 1,
            heals: true,
            ..Self::default()
        }
    }

    /// Drawn by a seed.
    pub fn draw(seed: u64, rng: &mut Rng) -> Self {
        let chance = |rng: &mut Rng, percent| rng.percent(percent);
        let targets = if chance(rng, 60) { 2 } else { 3 };
        let window = u16::from(chance(rng, 50));
        // Alone, a pod never waits for its turn.
        let alone = if window == 0 { 75 } else { 40 };
        let pods = if chance(rng, alone) {
            1
        } else {
            2 + rng.below(2) as u16 * window
        };
        let bit = |rng: &mut Rng, percent, bits: u16| {
            if rng.percent(percent) {
                1 << rng.below(usize::from(bits))
            } else {
                0
            }
        };
        // Plain targets make the pod of an unreserved one unasked: nothing is promised there.
        let plain = bit(rng, 8, targets);
        let unreserved = bit(rng, 6, pods);
        Self {
            targets,
            pods,
            lives: if chance(rng, 40) { 3 } else { 1 },
            full: bit(rng, 15, targets),
            occupied: if chance(rng, 25) {
                1 + rng.below((1 << targets) - 1) as u16
            } else {
                0
            },
            plain,
            first: rng.below(3) as u16,
            unreserved: if plain == 0 { unreserved } else { 0 },
            replace: if chance(rng, 12) {
                [1, 5, 20, 60][rng.below(4)]
            } else {
                0
            },
            said_by: rng.below(2) as u16,
            jobs: u16::from(chance(rng, 10)),
            surely: chance(rng, 50),
            heals: chance(rng, 75),
            seed,
            window,
            company: if chance(rng, 75) {
                1 + rng.below(1000) as u16
            } else {
                0
            },
        }
    }

    /// Who has the room on a target's node.
    pub(crate) fn occupants(&self, target: usize) -> Occupants {
        if self.occupied & (1 << target) == 0 {
            return Occupants::default();
        }
        let seed = u64::from(self.company);
        Occupants::draw(seed.saturating_mul(1 + target as u64))
    }

    /// Speed of the clock of the process with this number, in thousandths.
    pub(crate) fn rate(&self, number: u32) -> u32 {
        let rates = [1000, 1000, 950, 1050, 800, 1250];
        let mut rng = Rng::new(self.seed.wrapping_add(u64::from(number)));
        rates[rng.below(rates.len())]
    }

    /// By how many seconds the wall clock of the process with this number is wrong.
    pub(crate) fn wrong(&self, number: u32) -> i64 {
        let seconds = [0, 0, 300, -300];
        let mut rng = Rng::new(self.seed.wrapping_mul(31).wrapping_add(u64::from(number)));
        seconds[rng.below(seconds.len())]
    }

    /// Whether pods have to be with others on their node.
    pub(crate) const fn gregarious(&self) -> bool {
        self.seed % 2 == 1
    }

    /// Of [`pilotage_proxy::window`].
    pub(crate) fn few(&self) -> usize {
        match self.window {
            0 => FEW,
            few => usize::from(few),
        }
    }

    /// What the Targets say.
    pub(crate) fn lost_policy(&self) -> Option<LostPolicy> {
        let after = Duration::from_secs(u64::from(self.replace));
        (self.replace > 0 && self.said_by == 1).then_some(LostPolicy::ReplaceAfter(after))
    }

    /// What the pods say.
    pub(crate) fn own_policy(&self) -> Option<u32> {
        (self.replace > 0 && self.said_by == 0).then_some(u32::from(self.replace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_survives_its_written_form() {
        for seed in 0..50 {
            let config = Config::draw(seed, &mut Rng::new(seed));
            assert_eq!(config.to_string().parse(), Ok(config));
        }
        assert!("targets=x".parse::<Config>().is_err());
        assert!("colour=1".parse::<Config>().is_err());
    }
}
