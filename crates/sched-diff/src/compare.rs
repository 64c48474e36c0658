//! Finds where two verdicts on one pod differ. Knows nothing of who gave them, and excuses nothing.

mod preemption;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::preemption::compare_preemption;
use crate::verdict::{Refusal, Verdict};

/// What two verdicts differ in, in the order in which one follows from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Aspect {
    /// Whether there is an answer at all.
    Answer,
    /// What `PreEnqueue` said.
    PreEnqueue,
    /// What `PreFilter` said.
    PreFilter,
    /// The nodes that `PreFilter` narrowed the search to.
    Offered,
    /// What Filter said of a node.
    Filter,
    /// The score of a node by one plugin.
    Score,
    /// The sum of a node's scores.
    Total,
    /// The best nodes.
    Best,
    /// The node that was chosen.
    Choice,
    /// What users read.
    Message,
    /// What preemption decided.
    Preemption,
    /// Whether a pod that waits for an event has a node by now.
    Waiting,
}

impl Aspect {
    /// Whether such a difference may follow from any that came before, rather than stand for itself.
    pub const fn follows(self) -> bool {
        matches!(
            self,
            Self::Total | Self::Best | Self::Choice | Self::Message
        )
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// In what.
    pub aspect: Aspect,
    /// On which node, if on one.
    pub node: Option<String>,
    /// Of which plugin, if of one; for refusals by two, both.
    pub plugin: Option<String>,
    /// What ours says.
    pub ours: String,
    /// What the oracle says.
    pub theirs: String,
}

/// What makes differences the same: while a case is made smaller it must keep it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Signature {
    /// In what.
    pub aspect: Aspect,
    /// Of which plugin.
    pub plugin: Option<String>,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.plugin {
            Some(plugin) => write!(f, "{:?} of {plugin}", self.aspect),
            None => write!(f, "{:?}", self.aspect),
        }
    }
}

impl Difference {
    /// A difference that concerns no node and no plugin.
    pub fn new(aspect: Aspect, ours: impl Into<String>, theirs: impl Into<String>) -> Self {
        Self {
            aspect,
            node: None,
            plugin: None,
            ours: ours.into(),
            theirs: theirs.into(),
        }
    }

    /// What makes it the same as others.
    pub fn signature(&self) -> Signature {
        Signature {
            aspect: self.aspect,
            plugin: self.plugin.clone(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.signature())?;
        if let Some(node) = &self.node {
            write!(f, " on {node}")?;
        }
        write!(f, ": ours {}, theirs {}", self.ours, self.theirs)
    }
}

/// Where the verdicts differ, in the order of [`Aspect`]. `exists` says which nodes there are: `PreFilter` may name
/// others.
pub fn compare(ours: &Verdict, theirs: &Verdict, exists: impl Fn(&str) -> bool) -> Vec<Difference> {
    if ours.error.is_some() || theirs.error.is_some() {
        // That both fail is enough: the words are each side's own.
        let same = ours.error.is_some() && theirs.error.is_some();
        let said = |verdict: &Verdict| verdict.error.clone().unwrap_or("an answer".to_owned());
        let answer = || Difference::new(Aspect::Answer, said(ours), said(theirs));
        return if same { Vec::new() } else { vec![answer()] };
    }
    let mut found = Vec::new();
    let pre_filters = (ours.pre_filter.as_ref(), theirs.pre_filter.as_ref());
    found.extend(refusals(Aspect::PreFilter, None, pre_filters));
    let offered = |verdict: &Verdict| -> Option<BTreeSet<String>> {
        let there = |node: &&String| exists(node);
        let nodes = verdict.nodes.as_ref()?.iter().filter(there);
        Some(nodes.cloned().collect())
    };
    if ours.pre_filter.is_none() && theirs.pre_filter.is_none() {
        let (ours, theirs) = (offered(ours), offered(theirs));
        if ours != theirs {
            let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
            found.push(Difference::new(Aspect::Offered, ours, theirs));
        }
    }
    for node in union(&ours.filter, &theirs.filter) {
        let both = (ours.filter.get(node), theirs.filter.get(node));
        found.extend(refusals(Aspect::Filter, Some(node), both));
    }
    scores(ours, theirs, &mut found);
    for node in union(&ours.totals, &theirs.totals) {
        let both = (ours.totals.get(node), theirs.totals.get(node));
        found.extend(numbers(Aspect::Total, node, None, both));
    }
    if ours.best != theirs.best {
        let (ours, theirs) = (format!("{:?}", ours.best), format!("{:?}", theirs.best));
        found.push(Difference::new(Aspect::Best, ours, theirs));
    }
    found
}

/// Whether the oracle wouldn't choose this node: it takes the one that the pod is nominated for without a look at
/// others, if that one will do, else one of the best.
pub fn compare_choice(
    ours: &str,
    theirs: &Verdict,
    nominated: Option<&String>,
) -> Option<Difference> {
    let taken = nominated.filter(|node| theirs.scores.contains_key(*node));
    let allowed = taken.map_or(theirs.best.as_slice(), std::slice::from_ref);
    let is_allowed = allowed.iter().any(|node| node == ours);
    let choice = || Difference::new(Aspect::Choice, ours, format!("one of {allowed:?}"));
    (!is_allowed).then(choice)
}

/// Where the texts differ that users read, if only theirs may say of preemption.
pub fn compare_report(ours: Option<&str>, theirs: Option<&str>) -> Option<Difference> {
    let before = theirs.map(|said| match said.split_once(" preemption: ") {
        Some((before, _)) => before,
        None => said,
    });
    compare_message(ours, before)
}

/// Where the texts differ that users read.
pub fn compare_message(ours: Option<&str>, theirs: Option<&str>) -> Option<Difference> {
    let text = |said: Option<&str>| said.map_or("nothing".to_owned(), |said| format!("{said:?}"));
    (ours != theirs).then(|| Difference::new(Aspect::Message, text(ours), text(theirs)))
}

/// Where what is said before a pod is tried at all differs.
pub fn compare_gate(ours: Option<&Refusal>, theirs: Option<&Refusal>) -> Option<Difference> {
    refusals(Aspect::PreEnqueue, None, (ours, theirs))
}

fn union<'a, A, B>(
    one: &'a BTreeMap<String, A>,
    two: &'a BTreeMap<String, B>,
) -> BTreeSet<&'a String> {
    one.keys().chain(two.keys()).collect()
}

fn refusals(
    aspect: Aspect,
    node: Option<&str>,
    (ours, theirs): (Option<&Refusal>, Option<&Refusal>),
) -> Option<Difference> {
    let (ours, theirs) = (ours.map(sorted), theirs.map(sorted));
    if ours == theirs {
        return None;
    }
    let plugins: BTreeSet<_> = [&ours, &theirs]
        .into_iter()
        .flatten()
        .map(|refusal| refusal.plugin.as_str())
        .filter(|plugin| !plugin.is_empty())
        .collect();
    let plugins = plugins.into_iter().collect::<Vec<_>>().join(" and ");
    let text = |refusal: &Option<Refusal>| match refusal {
        None => "nothing".to_owned(),
        Some(refusal) => format!(
            "{} by {} for {:?}",
            refusal.code, refusal.plugin, refusal.reasons
        ),
    };
    Some(Difference {
        aspect,
        node: node.map(str::to_owned),
        plugin: Some(plugins).filter(|plugins| !plugins.is_empty()),
        ours: text(&ours),
        theirs: text(&theirs),
    })
}

/// Reasons in one order: the oracle's comes from a map.
fn sorted(refusal: &Refusal) -> Refusal {
    let mut refusal = refusal.clone();
    refusal.reasons.sort();
    refusal
}

fn scores(ours: &Verdict, theirs: &Verdict, found: &mut Vec<Difference>) {
    let none = BTreeMap::new();
    for node in union(&ours.scores, &theirs.scores) {
        let parts = |verdict: &'_ Verdict| verdict.scores.get(node).cloned();
        let (ours, theirs) = (parts(ours), parts(theirs));
        let (ours, theirs) = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            // That one refused the node has been told.
            _ => (&none, &none),
        };
        for plugin in union(ours, theirs) {
            let both = (ours.get(plugin), theirs.get(plugin));
            found.extend(numbers(Aspect::Score, node, Some(plugin), both));
        }
    }
}

fn numbers(
    aspect: Aspect,
    node: &str,
    plugin: Option<&str>,
    (ours, theirs): (Option<&i64>, Option<&i64>),
) -> Option<Difference> {
    let text = |number: Option<&i64>| number.map_or("nothing".to_owned(), ToString::to_string);
    (ours != theirs).then(|| Difference {
        aspect,
        node: Some(node.to_owned()),
        plugin: plugin.map(str::to_owned),
        ours: text(ours),
        theirs: text(theirs),
    })
}

#[cfg(test)]
mod tests;
