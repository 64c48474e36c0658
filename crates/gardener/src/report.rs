//! Owns how a selection is shown to people and to programs: who wins, and of each other Seed why it lost or fell out.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use pilotage_placement::{Candidate, Ranked, Ranking, Selection, Settings};
use serde::Serialize;

use crate::kinds::Shoot;
use crate::usage::SHOOTS;

/// A selection, ready to be written down.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Namespace and name of the Shoot.
    shoot: String,
    /// Name of the Seed that it gets.
    winner: Option<String>,
    /// Why it gets none, in the words of Gardener's scheduler.
    message: Option<String>,
    /// By what it is decided.
    settings: Decider,
    /// All Seeds: the winner, those that lost, best first, then those that fell out, by step and name.
    seeds: Vec<Row>,
}

/// By what a selection is decided: a strategy or rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Decider {
    strategy: Option<&'static str>,
    rules: Vec<Weighted>,
    gardener_compatible: bool,
    /// The Shoot is for tests, so that neither strategy nor rules count.
    overridden_by_purpose: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Weighted {
    rule: &'static str,
    weight: u32,
}

impl Decider {
    fn new(settings: &Settings, testing: bool) -> Self {
        let (strategy, rules) = match &settings.ranking {
            Ranking::Strategy(strategy) => (Some(strategy.name()), &[][..]),
            Ranking::Weighted(rules) => (None, &rules[..]),
        };
        let rules = rules.iter().map(|rule| Weighted {
            rule: rule.name(),
            weight: rule.weight().get(),
        });
        Self {
            strategy,
            rules: rules.collect(),
            gardener_compatible: settings.gardener_compatible,
            overridden_by_purpose: testing,
        }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            Some(strategy) => write!(f, "strategy {strategy}")?,
            None => f.write_str("rules")?,
        }
        for (number, Weighted { rule, weight }) in self.rules.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma} {rule} x{weight}")?;
        }
        if self.overridden_by_purpose {
            f.write_str(" (overridden by purpose testing)")?;
        }
        write!(f, "; gardenerCompatible: {}", self.gardener_compatible)
    }
}

/// One Seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    provider: String,
    region: String,
    used: u64,
    /// None is without end.
    allocatable: Option<i64>,
    result: Outcome,
    /// The step that rejected it.
    step: Option<&'static str>,
    /// Why it doesn't win.
    reason: Option<String>,
    distance: Option<Distance>,
    /// Weighted sum of its scores, if rules decide.
    score: Option<f64>,
    scores: Vec<Score>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Outcome {
    Wins,
    Loses,
    FallsOut,
    /// The selection ended before it came to this one.
    Undecided,
}

impl Outcome {
    const fn text(self) -> &'static str {
        match self {
            Self::Wins => "wins",
            Self::Loses => "loses",
            Self::FallsOut => "falls out",
            Self::Undecided => "undecided",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Distance {
    value: i64,
    by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Score {
    rule: &'static str,
    weight: u32,
    points: f64,
    measured: String,
}

impl Report {
    /// What came of a selection among `candidates`. `message` is for a Shoot that gets no Seed.
    pub fn new(
        shoot: &Shoot,
        candidates: &[Candidate],
        settings: &Settings,
        selection: &Selection,
        message: Option<String>,
    ) -> Self {
        let mut undecided: BTreeMap<usize, &Candidate> = candidates.iter().enumerate().collect();
        let mut seeds = Vec::with_capacity(candidates.len());
        for ranked in &selection.ranking {
            undecided.remove(&ranked.index);
            let better = selection.winner().filter(|best| best.index != ranked.index);
            seeds.push(Row::ranked(&candidates[ranked.index], ranked, better));
        }
        let mut rejected: Vec<_> = selection.rejected.iter().collect();
        rejected.sort_by_key(|rejection| (rejection.step(), &rejection.name));
        for rejection in rejected {
            undecided.remove(&rejection.index);
            seeds.push(Row {
                step: Some(rejection.step().name()),
                reason: Some(rejection.reason.to_string()),
                ..Row::new(&candidates[rejection.index], Outcome::FallsOut)
            });
        }
        let undecided = undecided.into_values();
        seeds.extend(undecided.map(|candidate| Row::new(candidate, Outcome::Undecided)));
        Self {
            shoot: shoot.full_name(),
            winner: selection.winner().map(|one| one.name.to_string()),
            message,
            settings: Decider::new(settings, shoot.testing),
            seeds,
        }
    }

    /// A line on the outcome, one on what decides, and a table of all Seeds.
    pub fn table(&self) -> String {
        let mut text = match (&self.winner, &self.message) {
            (Some(winner), _) => format!("{} gets seed {winner}\n", self.shoot),
            (None, Some(message)) => format!("{} gets no seed: {message}\n", self.shoot),
            (None, None) => format!("{} gets no seed\n", self.shoot),
        };
        // Writing into a String can't fail.
        let _ = writeln!(text, "settings: {}", self.settings);
        if self.seeds.is_empty() {
            return text;
        }
        text.push('\n');
        let by_distance = self.seeds.iter().any(|row| row.distance.is_some());
        let rules = self.seeds.iter().map(|row| &row.scores);
        let rules = rules
            .max_by_key(|scores| scores.len())
            .filter(|scores| !scores.is_empty());
        let mut header = vec![
            "SEED".to_owned(),
            "PROVIDER".to_owned(),
            "REGION".to_owned(),
        ];
        header.push("USED".to_owned());
        if by_distance {
            header.push("DISTANCE".to_owned());
        }
        if let Some(rules) = rules {
            header.push("SCORE".to_owned());
            header.extend(
                rules
                    .iter()
                    .map(|score| format!("{} x{}", score.rule, score.weight)),
            );
        }
        header.extend(["RESULT".to_owned(), "WHY".to_owned()]);
        let mut lines = vec![header];
        for row in &self.seeds {
            let dash = || "-".to_owned();
            let mut line = vec![row.name.clone(), row.provider.clone(), row.region.clone()];
            line.push(match row.allocatable {
                Some(allocatable) => format!("{}/{allocatable}", row.used),
                None => row.used.to_string(),
            });
            if by_distance {
                let distance = row.distance.as_ref();
                line.push(distance.map_or_else(dash, |one| format!("{} by {}", one.value, one.by)));
            }
            if let Some(rules) = rules {
                line.push(row.score.map_or_else(dash, |score| score.to_string()));
                for number in 0..rules.len() {
                    let score = row.scores.get(number);
                    line.push(score.map_or_else(dash, |score| {
                        format!("{} ({})", score.points, score.measured)
                    }));
                }
            }
            line.push(row.result.text().to_owned());
            line.push(match (&row.step, &row.reason) {
                (Some(step), Some(reason)) => format!("{step}: {reason}"),
                (_, reason) => reason.clone().unwrap_or_default(),
            });
            lines.push(line);
        }
        align(&lines, &mut text);
        text
    }
}

impl Row {
    fn new(candidate: &Candidate, result: Outcome) -> Self {
        let mut resources = candidate.resources.iter();
        let shoots = resources.find(|resource| &*resource.name == SHOOTS);
        Self {
            name: candidate.name.to_string(),
            provider: candidate.provider.to_string(),
            region: candidate.region.name().to_owned(),
            used: candidate.used,
            allocatable: shoots.and_then(|shoots| shoots.allocatable),
            result,
            step: None,
            reason: None,
            distance: None,
            score: None,
            scores: Vec::new(),
        }
    }

    fn ranked(candidate: &Candidate, ranked: &Ranked, better: Option<&Ranked>) -> Self {
        let points = |points: pilotage_placement::Points| points.milli() as f64 / 1000.0;
        let scores: Vec<_> = ranked
            .scores
            .iter()
            .map(|score| Score {
                rule: score.rule,
                weight: score.weight,
                points: points(score.points),
                measured: score.measure.to_string(),
            })
            .collect();
        let by = |distance: pilotage_placement::Distance| match distance {
            pilotage_placement::Distance::Table(_) => "table",
            pilotage_placement::Distance::Name(_) => "name",
        };
        let result = if better.is_some() {
            Outcome::Loses
        } else {
            Outcome::Wins
        };
        Self {
            reason: better.map(|better| ranked.loss_to(better).to_string()),
            distance: ranked.distance.map(|distance| Distance {
                value: distance.value(),
                by: by(distance),
            }),
            score: (!scores.is_empty()).then(|| points(ranked.total)),
            scores,
            ..Self::new(candidate, result)
        }
    }
}

/// Columns that stand below each other, three blanks apart; the last one ends where it ends.
fn align(lines: &[Vec<String>], text: &mut String) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    for line in lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            // Writing into a String can't fail.
            let _ = write!(row, "{cell:width$}   ");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use pilotage_placement::{
        Ranking, Region, Request, Resource, Rule, Selector, Settings, Strategy, Weight, select,
    };

    use super::*;

    fn seed(name: &str, region: &str, used: u64) -> Candidate {
        Candidate {
            name: name.into(),
            provider: "aws".into(),
            region: Region::new(region),
            used,
            resources: vec![Resource {
                name: SHOOTS.into(),
                allocatable: Some(10),
                used: used as i64,
            }],
            ..Candidate::default()
        }
    }

    fn shoot(purpose: &str) -> Shoot {
        let shoot = serde_json::json!({
            "metadata": {"namespace": "ns", "name": "shoot"},
            "spec": {"provider": {"type": "aws"}, "region": "eu", "purpose": purpose},
        });
        Shoot::read(&shoot).unwrap()
    }

    fn report(ranking: Ranking) -> Report {
        let request = Request {
            region: Some(Region::new("eu")),
            demand: vec![(SHOOTS.into(), 1)],
            ..Request::default()
        };
        let seeds = [seed("a", "eu", 10), seed("b", "us", 4), seed("c", "eu", 9)];
        let settings = Settings {
            ranking,
            ..Settings::default()
        };
        let selection = select(&request, &seeds, &settings);
        Report::new(&shoot(""), &seeds, &settings, &selection, None)
    }

    #[test]
    fn a_strategy() {
        let expected = "\
ns/shoot gets seed c
settings: strategy MinimalDistance; gardenerCompatible: true

SEED   PROVIDER   REGION   USED    DISTANCE    RESULT      WHY
c      aws        eu       9/10    0 by name   wins
b      aws        us       4/10    4 by name   loses       farther: 4 by name against 0 by name
a      aws        eu       10/10   -           falls out   Capacity: is full: 10 of 10 shoots are used
";
        let report = report(Ranking::Strategy(Strategy::MinimalDistance));
        assert_eq!(report.table(), expected);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["winner"], "c");
        assert_eq!(
            json["settings"],
            serde_json::json!({
                "strategy": "MinimalDistance", "rules": [],
                "gardenerCompatible": true, "overriddenByPurpose": false,
            })
        );
        assert_eq!(json["seeds"][1]["distance"]["value"], 4);
        assert_eq!(json["seeds"][2]["step"], "Capacity");
        assert_eq!(json["seeds"][2]["result"], "FallsOut");
    }

    #[test]
    fn rules() {
        let weight = |weight| Weight::new(weight).unwrap();
        let report = report(Ranking::Weighted(vec![
            Rule::minimal_distance(weight(1)),
            Rule::least_allocated(weight(3)),
        ]));
        let expected = "\
ns/shoot gets seed b
settings: rules MinimalDistance x1, SeedResourcesLeastAllocated x3; gardenerCompatible: true

SEED   PROVIDER   REGION   USED    SCORE   MinimalDistance x1   SeedResourcesLeastAllocated x3   RESULT      WHY
b      aws        us       4/10    180     0 (4 by name)        60 (60% free)                    wins
c      aws        eu       9/10    130     100 (0 by name)      10 (10% free)                    loses       \
scored 130 against 180
a      aws        eu       10/10   -       -                    -                                falls out   \
Capacity: is full: 10 of 10 shoots are used
";
        assert_eq!(report.table(), expected);
    }

    #[test]
    fn nobody() {
        let seeds = [seed("a", "eu", 10)];
        let request = Request {
            demand: vec![(SHOOTS.into(), 1)],
            own_selector: Some(Selector::new(&[(String::new(), String::new())].into(), &[])),
            ..Request::default()
        };
        let mended = Settings {
            gardener_compatible: false,
            ..Settings::default()
        };
        let selection = select(&request, &seeds, &mended);
        let why = Some("why".to_owned());
        let report = Report::new(&shoot("testing"), &seeds, &mended, &selection, why);
        let expected = "\
ns/shoot gets no seed: why
settings: strategy SameRegion (overridden by purpose testing); gardenerCompatible: false

SEED   PROVIDER   REGION   USED    RESULT      WHY
a      aws        eu       10/10   undecided
";
        assert_eq!(report.table(), expected);
        let nothing = select::<Candidate>(&request, &[], &Settings::default());
        let report = Report::new(&shoot(""), &[], &Settings::default(), &nothing, None);
        let expected = "\
ns/shoot gets no seed
settings: strategy SameRegion; gardenerCompatible: true
";
        assert_eq!(report.table(), expected);
    }
}
