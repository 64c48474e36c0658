//! What has to be common among the pods of a long run, and not merely to occur: in which share of them a plugin takes
//! part, and for which somebody is evicted. Pure.

use std::collections::BTreeMap;
use std::fmt;

use crate::plugins::here;
use crate::verdict::Verdict;

/// Of a thousand pods each plugin takes part in so many decisions, at least: some fifth less than in the first 2,000
/// seeds.
const LEAST: &[(&str, u64)] = &[
    ("NodeResourcesFit", 650),
    ("TaintToleration", 430),
    ("InterPodAffinity", 330),
    ("ImageLocality", 290),
    ("NodeResourcesBalancedAllocation", 260),
    ("NodeAffinity", 240),
    ("PodTopologySpread", 185),
    ("NodeUnschedulable", 180),
    ("NodePorts", 100),
    ("NodeDeclaredFeatures", 50),
    ("NodeName", 10),
];
/// Those that look at other pods: one of them takes part for most pods.
const OTHERS: [&str; 2] = ["PodTopologySpread", "InterPodAffinity"];
const OTHERS_LEAST: u64 = 500;
/// Of a thousand pods somebody is evicted for so many, at least; over half of all fit nowhere.
const EVICTS_LEAST: u64 = 20;

/// Counts of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pods: u64,
    // By plugin.
    parts: BTreeMap<&'static str, u64>,
    others: u64,
    evicts: u64,
}

impl Shares {
    /// Counts a pod.
    pub(super) fn count(&mut self, verdict: &Verdict) {
        self.pods += 1;
        let mut of_others = false;
        for plugin in here().filter(|plugin| takes_part(verdict, plugin.name)) {
            *self.parts.entry(plugin.name).or_default() += 1;
            of_others |= OTHERS.contains(&plugin.name);
        }
        self.others += u64::from(of_others);
        self.evicts += u64::from(!verdict.victims.is_empty());
    }

    /// Adds the counts of other pods.
    pub(super) fn merge(&mut self, other: &Self) {
        self.pods += other.pods;
        for (plugin, more) in &other.parts {
            *self.parts.entry(plugin).or_default() += more;
        }
        self.others += other.others;
        self.evicts += other.evicts;
    }

    /// What, of how many pods, and of how many of a thousand at least.
    fn rows(&self) -> impl Iterator<Item = (String, u64, u64)> {
        let plugin = |(plugin, least): &(&'static str, u64)| {
            let times = self.parts.get(plugin).copied().unwrap_or_default();
            (format!("{plugin} took part"), times, *least)
        };
        let others = format!("{} took part", OTHERS.join(" or "));
        let all = [
            (others, self.others, OTHERS_LEAST),
            ("somebody was evicted".to_owned(), self.evicts, EVICTS_LEAST),
        ];
        LEAST.iter().map(plugin).chain(all)
    }

    /// Names of all that was too seldom.
    pub(super) fn scarce(&self) -> Vec<String> {
        let few = |(_, times, least): &(String, u64, u64)| {
            u128::from(*times) * 1000 < u128::from(self.pods) * u128::from(*least)
        };
        let name = |(what, times, least)| {
            let pods = self.pods;
            format!("{what} for {times} of {pods} pods; {least} of a thousand are the least")
        };
        self.rows().filter(few).map(name).collect()
    }
}

/// Whether a plugin refuses the pod or a node, or scores nodes; those that have nothing to say of a pod do neither.
fn takes_part(verdict: &Verdict, plugin: &str) -> bool {
    let mut refusals = verdict.filter.values().chain(&verdict.pre_filter);
    let mut scores = verdict.scores.values();
    refusals.any(|refusal| refusal.plugin == plugin)
        || scores.any(|scores| scores.contains_key(plugin))
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "of a thousand pods, and how many there are to be at least:"
        )?;
        for (what, times, least) in self.rows() {
            let share = u128::from(times) * 1000 / u128::from(self.pods.max(1));
            writeln!(f, "{share:>10}{least:>10} {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn verdict(value: Value) -> Verdict {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_plugin_takes_part_where_it_refuses_or_scores() {
        let scored = verdict(json!({"scores": {"a": {"NodeAffinity": 0}}}));
        assert!(takes_part(&scored, "NodeAffinity"));
        assert!(!takes_part(&scored, "ImageLocality"));
        let why = json!({"plugin": "NodeName", "code": "Unschedulable", "reasons": ["r"]});
        for refused in [json!({"filter": {"a": why}}), json!({"preFilter": why})] {
            let refused = verdict(refused);
            assert!(takes_part(&refused, "NodeName"));
            assert!(!takes_part(&refused, "NodeAffinity"));
        }
    }

    #[test]
    fn what_is_too_seldom_is_named_and_what_is_common_is_not() {
        let mut shares = Shares::default();
        assert_eq!(shares.scarce(), [""; 0], "no pods, nothing to say");
        let refuses = |(plugin, _): &(&'static str, u64)| {
            let why = json!({"plugin": plugin, "code": "Unschedulable", "reasons": ["r"]});
            (format!("node that {plugin} refuses"), why)
        };
        let refused: serde_json::Map<_, _> = LEAST.iter().map(refuses).collect();
        shares.count(&verdict(json!({"filter": refused, "victims": ["ns/v"]})));
        assert_eq!(shares.scarce(), [""; 0]);
        let mut others = Shares::default();
        for _ in 1..1_000 {
            others.count(&Verdict::default());
        }
        shares.merge(&others);
        let scarce = shares.scarce();
        assert_eq!(scarce.len(), LEAST.len() + 2, "{scarce:?}");
        assert!(scarce[0].contains(LEAST[0].0) && scarce[0].contains("1 of 1000 pods"));
    }
}
