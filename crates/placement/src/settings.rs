//! Owns how a selection is made, and how that is written in a configuration file.

use serde::Deserialize;

use crate::limits::RULES;
use crate::rules::{Cost, Rule};

/// How a selection is made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "File")]
pub struct Settings {
    /// What decides between those that no step has rejected.
    pub ranking: Ranking,
    /// Quirks of Gardener's scheduler are replicated (see `docs/placement.md`), instead of mended.
    pub gardener_compatible: bool,
}

impl Default for Settings {
    /// As Gardener's: `SameRegion`, with its quirks.
    fn default() -> Self {
        Self {
            ranking: Ranking::default(),
            gardener_compatible: true,
        }
    }
}

/// What decides between candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// A strategy of Gardener's scheduler.
    Strategy(Strategy),
    /// Rules, each of which gives 0 to 100 points; their weighted sum decides.
    Weighted(Vec<Rule>),
}

impl Default for Ranking {
    fn default() -> Self {
        Self::Strategy(Strategy::default())
    }
}

impl Ranking {
    /// What a file says that may have one of both; `SameRegion` if it has neither.
    pub fn new(
        strategy: Option<Strategy>,
        rules: Option<Vec<Rule>>,
    ) -> Result<Self, SettingsError> {
        let rules = match (strategy, rules) {
            (Some(_), Some(_)) => return Err(SettingsError::Both),
            (strategy, None) => return Ok(Self::Strategy(strategy.unwrap_or_default())),
            (None, Some(rules)) if rules.is_empty() => return Err(SettingsError::NoRules),
            (None, Some(rules)) => rules,
        };
        if rules.len() > RULES {
            return Err(SettingsError::TooMany);
        }
        for (number, rule) in rules.iter().enumerate() {
            if rules[..number].iter().any(|other| other.same_as(rule)) {
                return Err(SettingsError::Twice(rule.name()));
            }
        }
        Ok(Self::Weighted(rules))
    }

    /// Where its rules find candidates' costs.
    pub fn costs(&self) -> impl Iterator<Item = &Cost> {
        let rules = match self {
            Self::Weighted(rules) => rules.as_slice(),
            Self::Strategy(_) => &[],
        };
        rules.iter().filter_map(Rule::cost_from)
    }

    /// Whether a rule asks how many of the request's peers are where; if none does, nobody has to count them.
    pub fn counts_peers(&self) -> bool {
        match self {
            Self::Weighted(rules) => rules.iter().any(|rule| matches!(rule, Rule::Spread(_))),
            Self::Strategy(_) => false,
        }
    }
}

/// The strategies of Gardener's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Strategy {
    /// Only the same provider and region.
    #[default]
    SameRegion,
    /// The nearest, by a table of regions or by their names.
    MinimalDistance,
}

impl Strategy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::SameRegion, Self::MinimalDistance];

    /// Its name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameRegion => "SameRegion",
            Self::MinimalDistance => "MinimalDistance",
        }
    }
}

/// Settings as they are written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    strategy: Option<Strategy>,
    rules: Option<Vec<Rule>>,
    #[serde(default = "yes")]
    gardener_compatible: bool,
}

const fn yes() -> bool {
    true
}

/// Settings that contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Both a strategy and rules.
    #[error("strategy and rules exclude each other: give one of them")]
    Both,
    /// A list of rules without rules.
    #[error("rules must have at least one rule")]
    NoRules,
    /// More rules than anybody can weigh.
    #[error("there may be {RULES} rules")]
    TooMany,
    /// One kind of rule is there twice with the same arguments.
    #[error("rule {0} is there twice: add up the weights")]
    Twice(&'static str),
}

impl TryFrom<File> for Settings {
    type Error = SettingsError;

    fn try_from(file: File) -> Result<Self, SettingsError> {
        let ranking = Ranking::new(file.strategy, file.rules)?;
        Ok(Self {
            ranking,
            gardener_compatible: file.gardener_compatible,
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::rules::{Cost, Over, Weight};

    fn parse(text: &str) -> Result<Settings, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_can_be_written() {
        assert_eq!(parse("{}"), Ok(Settings::default()));
        assert_eq!(
            parse("strategy: MinimalDistance\ngardenerCompatible: false"),
            Ok(Settings {
                ranking: Ranking::Strategy(Strategy::MinimalDistance),
                gardener_compatible: false,
            })
        );
        let text = "
rules:
- MinimalDistance: {weight: 2}
- Cost: {weight: 3, label: example.com/cost}
- Spread: {weight: 1, over: Region}
- Spread: {weight: 1, over: Provider}
- SeedResourcesLeastAllocated: {weight: 0}
- LeastUsed: {}
";
        let weight = |n| Weight::new(n).unwrap();
        assert_eq!(
            parse(text).unwrap().ranking,
            Ranking::Weighted(vec![
                Rule::minimal_distance(weight(2)),
                Rule::cost(weight(3), Cost::Label("example.com/cost".to_owned())),
                Rule::spread(weight(1), Over::Region),
                Rule::spread(weight(1), Over::Provider),
                Rule::least_allocated(weight(0)),
                Rule::least_used(weight(1)),
            ])
        );
    }

    #[test]
    fn what_is_refused() {
        for (text, message) in [
            ("strategy: Nearest", "unknown variant"),
            ("strateg: SameRegion", "unknown field"),
            ("rules: []", "at least one rule"),
            (
                "{strategy: SameRegion, rules: [LeastUsed: {}]}",
                "exclude each other",
            ),
            (
                "rules: [LeastUsed: {}, LeastUsed: {weight: 2}]",
                "LeastUsed is there twice",
            ),
            ("rules: [LeastUsed: {weight: -1}]", "0 to 1000000"),
            ("rules: [LeastUsed: {weight: 1000001}]", "0 to 1000000"),
            ("rules: [LeastUsed: {weigth: 1}]", "unknown field"),
            ("rules: [Cheapest: {}]", "unknown variant"),
            ("rules: [Cost: {weight: 1}]", "label or annotation"),
            (
                "rules: [Cost: {label: a, annotation: b}]",
                "label or annotation",
            ),
            ("rules: [Spread: {over: Zone}]", "unknown variant"),
            ("rules: [Spread: {}]", "missing field"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(text in "(rules:|strategy:|gardenerCompatible:)?[ \\[{]{0,3}(Cost|Spread|LeastUsed)?[:{ \
                ]{0,3}(weight: )?\\PC{0,12}[}\\]]{0,3}") {
                let _ = parse(&text);
            }
        }
    }
}
