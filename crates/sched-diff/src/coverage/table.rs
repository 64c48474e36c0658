//! The counts: how often each field was tried, had an effect, and decided which nodes are best; how often each plugin
//! refused a node, and decided. Knows nothing of how that is found out.

use std::collections::BTreeMap;
use std::fmt;

use super::field::Field;
use super::shares::Shares;
use crate::plugins::here;
use crate::verdict::{Refusal, Verdict};

/// The counts of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often the answer without it was asked for.
    pub tried: u64,
    /// How often the plugin said something else then.
    pub effects: u64,
    /// How often other nodes were best then.
    pub decided: u64,
}

impl Tally {
    fn count(&mut self, effect: bool, decided: bool) {
        self.tried += 1;
        self.effects += u64::from(effect);
        self.decided += u64::from(effect && decided);
    }

    fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.effects += other.effects;
        self.decided += other.decided;
    }
}

/// The name of a row: plugin with its point, object, field.
type Name = (String, &'static str, &'static str);

/// All counts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    fields: Vec<(Name, Tally)>,
    // Pods for which a plugin decided, nodes that it refused; by plugin.
    refusing: BTreeMap<&'static str, Tally>,
    scoring: BTreeMap<&'static str, Tally>,
    nominations: Tally,
    // Pods that fit nowhere, those for which somebody is evicted, and those for which several are.
    preemptions: Tally,
    reasons: BTreeMap<String, u64>,
    shares: Shares,
}

impl Table {
    /// An empty table with these rows.
    pub fn new(rows: &[Field]) -> Self {
        let name = |row: &Field| {
            let plugin = format!("{} {:?}", row.plugin, row.point);
            let on = match row.on {
                super::On::Pod => "Pod",
                super::On::Node => "Node",
                super::On::Running => "Running",
                super::On::Object(kind) => kind,
                super::On::Profile => "Profile",
            };
            (plugin, on, row.name)
        };
        let empty = |row| (name(row), Tally::default());
        let plugins = |which: fn(&crate::plugins::Stock) -> bool| {
            let names = here().filter(|plugin| which(plugin));
            names
                .map(|plugin| (plugin.name, Tally::default()))
                .collect()
        };
        Self {
            fields: rows.iter().map(empty).collect(),
            refusing: plugins(|plugin| plugin.filters),
            scoring: plugins(|plugin| plugin.weight.is_some()),
            nominations: Tally::default(),
            preemptions: Tally::default(),
            reasons: BTreeMap::new(),
            shares: Shares::default(),
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Counts a try of a field.
    pub fn tried(&mut self, row: usize, effect: bool, decided: bool) {
        self.fields[row].1.count(effect, decided);
    }

    /// Counts a try of a nomination.
    pub fn nomination(&mut self, effect: bool, decided: bool) {
        self.nominations.count(effect, decided);
    }

    /// Counts what each plugin said of a pod.
    pub fn verdict(&mut self, verdict: &Verdict) {
        self.shares.count(verdict);
        for (plugin, tally) in &mut self.refusing {
            let refused = verdict.filter.values().chain(&verdict.pre_filter);
            let refused = refused.filter(|refusal| refusal.plugin == **plugin).count();
            tally.count(refused > 0, verdict.scores.is_empty());
        }
        for (plugin, tally) in &mut self.scoring {
            let scored = |parts: &BTreeMap<String, i64>| parts.contains_key(*plugin);
            let scores = verdict.scores.values().any(scored);
            let decided = scores && verdict.best_without(plugin) != verdict.best;
            tally.count(scores, decided);
        }
        if verdict.scores.is_empty() {
            let victims = verdict.victims.len();
            self.preemptions.count(victims > 0, victims > 1);
        }
        let refusals = verdict.filter.values();
        for Refusal { reasons, code, .. } in refusals.chain(&verdict.pre_filter) {
            for reason in reasons {
                *self
                    .reasons
                    .entry(format!("{reason} ({code})"))
                    .or_default() += 1;
            }
        }
    }

    /// The places of rows that have shown no effect yet.
    pub fn idle(&self) -> Vec<usize> {
        let rows = self.fields.iter().enumerate();
        let idle = rows.filter(|(_, (_, tally))| tally.effects == 0);
        idle.map(|(at, _)| at).collect()
    }

    /// The names of all rows that have shown no effect, of plugins that refused nothing, or never decided.
    pub fn idle_names(&self) -> Vec<String> {
        let mut idle: Vec<String> = Vec::new();
        for (plugin, tally) in &self.refusing {
            if tally.effects == 0 {
                idle.push(format!("{plugin} refused no node"));
            }
        }
        for (plugin, tally) in &self.scoring {
            if tally.decided == 0 {
                idle.push(format!("{plugin} never decided which nodes are best"));
            }
        }
        if self.nominations.effects == 0 {
            idle.push("no nomination kept a pod off a node".to_owned());
        }
        if self.preemptions.decided == 0 {
            idle.push("no two pods were evicted".to_owned());
        }
        for ((plugin, on, field), tally) in &self.fields {
            if tally.effects == 0 {
                idle.push(format!(
                    "{plugin}: {field} ({on}), tried {} times",
                    tally.tried
                ));
            }
        }
        idle
    }

    /// What had an effect, and on too few pods.
    pub fn scarce(&self) -> Vec<String> {
        self.shares.scarce()
    }

    /// The counts of a field, at the first point that has it.
    pub fn tally(&self, plugin: &str, on: &str, field: &str) -> Option<Tally> {
        let is_it = |(name, _): &&(Name, Tally)| {
            name.0.starts_with(plugin) && name.1 == on && name.2 == field
        };
        self.fields.iter().find(is_it).map(|(_, tally)| *tally)
    }

    /// Adds the counts of a table with the same rows.
    pub fn merge(&mut self, other: &Self) {
        for ((_, tally), (_, more)) in self.fields.iter_mut().zip(&other.fields) {
            tally.add(*more);
        }
        for (mine, others) in [
            (&mut self.refusing, &other.refusing),
            (&mut self.scoring, &other.scoring),
        ] {
            for (plugin, more) in others {
                mine.entry(plugin).or_default().add(*more);
            }
        }
        self.nominations.add(other.nominations);
        self.preemptions.add(other.preemptions);
        self.shares.merge(&other.shares);
        for (reason, more) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += more;
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["tried", "effect", "decided"];
        writeln!(
            f,
            "{:74}{:>10}{:>10}{:>10}",
            "", heads[0], heads[1], heads[2]
        )?;
        let mut line = |name: String, tally: &Tally| {
            let Tally {
                tried,
                effects,
                decided,
            } = tally;
            writeln!(f, "{name:74}{tried:>10}{effects:>10}{decided:>10}")
        };
        for (plugin, tally) in &self.refusing {
            line(
                format!("{plugin} Filter: refused (decided: no node was left)"),
                tally,
            )?;
        }
        for (plugin, tally) in &self.scoring {
            line(
                format!("{plugin} Score: scored (decided: which nodes are best)"),
                tally,
            )?;
        }
        line(
            "framework Filter: nominated pods".to_owned(),
            &self.nominations,
        )?;
        line(
            "DefaultPreemption: evicted somebody (decided: more than one)".to_owned(),
            &self.preemptions,
        )?;
        for ((plugin, on, field), tally) in &self.fields {
            line(format!("{plugin}: {field} ({on})"), tally)?;
        }
        writeln!(f, "\nreasons, by nodes:")?;
        for (reason, count) in &self.reasons {
            writeln!(f, "{count:>10} {reason}")?;
        }
        write!(f, "\n{}", self.shares)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Table;
    use crate::coverage::rows;
    use crate::verdict::Verdict;

    #[test]
    fn verdicts_and_tries_are_counted_and_merged() {
        let mut table = Table::new(&rows());
        let all = table.idle_names().len();
        let mut verdict: Verdict = serde_json::from_value(json!({
            "filter": {"c": {"plugin": "NodeName", "code": "Unschedulable", "reasons": ["r"]}},
            "scores": {"a": {"TaintToleration": 3, "NodeAffinity": 0}, "b": {"NodeAffinity": 0}},
        }))
        .unwrap();
        verdict.sum();
        table.verdict(&verdict);
        table.tried(0, true, false);
        table.nomination(true, true);
        assert_eq!(
            table.idle_names().len(),
            all - 4,
            "{:?}",
            table.idle_names()
        );
        let mut sum = Table::new(&rows());
        sum.merge(&table);
        sum.merge(&table);
        assert_eq!(sum.idle_names(), table.idle_names());
        assert!(
            sum.to_string().contains("         2 r (Unschedulable)"),
            "{sum}"
        );
        assert!(!sum.idle().contains(&0));
    }
}
