//! What a scheduler says of a pod: why not, how good, which nodes are best. Of both schedulers in one form, that of the
//! oracle's answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Why a pod or a node won't do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The plugin; empty for the framework itself.
    #[serde(default)]
    pub plugin: String,
    /// The status code by name.
    pub code: String,
    /// Why.
    #[serde(default, deserialize_with = "or_default")]
    pub reasons: Vec<String>,
}

/// Go writes nothing as null.
fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A node where room can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Candidate {
    /// Who has to go there, also if it is going already; by namespace and name.
    pub victims: Vec<String>,
    /// How many of them break a budget.
    pub violations: u64,
    /// Whether no other one costs less.
    pub best: bool,
}

/// What a scheduler says of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verdict {
    /// Why the pod isn't tried at all.
    pub pre_enqueue: Option<Refusal>,
    /// Why `PreFilter` refused it.
    pub pre_filter: Option<Refusal>,
    /// The nodes that `PreFilter` narrowed the search to.
    pub nodes: Option<Vec<String>>,
    /// Refusals by node.
    #[serde(deserialize_with = "or_default")]
    pub filter: BTreeMap<String, Refusal>,
    /// Weighted normalized scores by node and plugin.
    #[serde(deserialize_with = "or_default")]
    pub scores: BTreeMap<String, BTreeMap<String, i64>>,
    /// Scores before normalization by node and plugin; only some say them.
    #[serde(deserialize_with = "or_default")]
    pub raw: BTreeMap<String, BTreeMap<String, i64>>,
    /// Sums of the scores by node.
    #[serde(deserialize_with = "or_default")]
    pub totals: BTreeMap<String, i64>,
    /// The nodes with the highest sum.
    #[serde(deserialize_with = "or_default")]
    pub best: Vec<String>,
    /// What users read of a pod without a node.
    pub message: Option<String>,
    /// The node that the pod is nominated for; empty if its nomination is taken away, absent if that stays as it is.
    pub nominated: Option<String>,
    /// The pods that preemption evicts, by namespace and name.
    #[serde(deserialize_with = "or_default")]
    pub victims: Vec<String>,
    /// The pods whose nomination it takes away.
    #[serde(deserialize_with = "or_default")]
    pub cleared: Vec<String>,
    /// Where room can be made, by node; only the oracle says them, and only if it makes room.
    #[serde(deserialize_with = "or_default")]
    pub candidates: BTreeMap<String, Candidate>,
    /// Whether it looked for some of them only.
    pub limited: bool,
    /// A failure in place of an answer.
    pub error: Option<String>,
}

impl Verdict {
    /// That of a scheduler that failed.
    pub fn failed(error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::default()
        }
    }

    /// Fills in sums and best nodes from the scores.
    pub fn sum(&mut self) {
        self.totals = totals(&self.scores, None);
        self.best = best(&self.totals);
    }

    /// The best nodes if one plugin said nothing.
    pub fn best_without(&self, plugin: &str) -> Vec<String> {
        best(&totals(&self.scores, Some(plugin)))
    }
}

fn totals(
    scores: &BTreeMap<String, BTreeMap<String, i64>>,
    without: Option<&str>,
) -> BTreeMap<String, i64> {
    let sum = |parts: &BTreeMap<String, i64>| {
        let counts = |plugin: &str| without != Some(plugin);
        let parts = parts.iter().filter(|(plugin, _)| counts(plugin));
        parts.map(|(_, score)| score).sum()
    };
    let nodes = scores.iter();
    nodes
        .map(|(node, parts)| (node.clone(), sum(parts)))
        .collect()
}

fn best(totals: &BTreeMap<String, i64>) -> Vec<String> {
    let highest = totals.values().max();
    let nodes = totals.iter().filter(|(_, total)| Some(*total) == highest);
    nodes.map(|(node, _)| node.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Verdict;

    #[test]
    fn absent_and_null_parts_are_empty() {
        let verdict: Verdict = serde_json::from_value(json!({
            "pod": "default/a", "filter": null, "scores": null, "best": null,
            "preFilter": {"plugin": "P", "code": "Unschedulable", "reasons": null},
        }))
        .unwrap();
        assert!(verdict.filter.is_empty() && verdict.best.is_empty());
        assert_eq!(
            verdict.pre_filter.map(|refusal| refusal.plugin),
            Some("P".into())
        );
    }

    #[test]
    fn sums_and_best_nodes_follow_from_scores() {
        let mut verdict: Verdict = serde_json::from_value(json!({
            "scores": {"a": {"P": 1, "Q": 2}, "b": {"P": 3}, "c": {"P": 0, "Q": 0}},
        }))
        .unwrap();
        verdict.sum();
        assert_eq!(verdict.best, ["a", "b"]);
        assert_eq!(verdict.totals["c"], 0);
        assert_eq!(verdict.best_without("P"), ["a"]);
    }
}
