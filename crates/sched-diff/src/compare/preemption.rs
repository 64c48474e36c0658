//! Compares what preemption decided. Of nodes that cost the same either may be taken, and where only some of the nodes
//! are tried any that doesn't break a budget without need: which ones are tried is each side's own chance.
//!
//! Room is made on one node, by what plugins say of that node; so a difference names the nodes of which the two must
//! think differently. Where there is none, it names none.

use std::collections::BTreeSet;

use super::{Aspect, Difference};
use crate::verdict::{Candidate, Verdict};

/// Where the two differ in whom they evict for whom: a difference for each node that they must disagree on, or one
/// without a node. In both `nominated` is where the pod is expected from now on, if anywhere. `is_going` says who of
/// the victims is being deleted already, so that nobody has to evict it.
pub fn compare_preemption(
    ours: &Verdict,
    theirs: &Verdict,
    is_going: impl Fn(&str) -> bool,
) -> Vec<Difference> {
    let same_node = ours.nominated == theirs.nominated;
    let same_cleared = if ours.victims.is_empty() {
        // Where nobody has to be evicted, ours lets the others wait for the same room.
        ours.cleared.is_empty()
    } else {
        !same_node || ours.cleared == theirs.cleared
    };
    let agreed = if theirs.candidates.is_empty() {
        same_node && ours.victims == theirs.victims
    } else {
        may_choose(ours, theirs, &is_going) && may_choose(theirs, theirs, &is_going)
    };
    if agreed && same_cleared {
        return Vec::new();
    }
    let text = |verdict: &Verdict| {
        let Verdict {
            nominated,
            victims,
            cleared,
            ..
        } = verdict;
        format!("{nominated:?} without {victims:?}, not for {cleared:?}")
    };
    let theirs_text = if theirs.candidates.is_empty() {
        text(theirs)
    } else {
        format!("{} of {:?}", text(theirs), theirs.candidates)
    };
    let difference = || Difference::new(Aspect::Preemption, text(ours), theirs_text.clone());
    let on = |node: &String| Difference {
        node: Some(node.clone()),
        ..difference()
    };
    let disputed = disputed(ours, theirs, &is_going);
    if disputed.is_empty() {
        return vec![difference()];
    }
    disputed.into_iter().map(on).collect()
}

/// The nodes of which two that decided differently must think differently.
fn disputed<'a>(
    ours: &'a Verdict,
    theirs: &'a Verdict,
    is_going: impl Fn(&str) -> bool,
) -> BTreeSet<&'a String> {
    let candidates = &theirs.candidates;
    let nominated = [&ours.nominated, &theirs.nominated];
    let nominated = || nominated.into_iter().flatten().collect();
    if candidates.is_empty() {
        return nominated();
    }
    let Some(node) = &ours.nominated else {
        // Ours takes none of them.
        return candidates.keys().collect();
    };
    let same_victims = candidates.get(node).is_some_and(|candidate| {
        let evicted = candidate.victims.iter().filter(|victim| !is_going(victim));
        evicted.eq(&ours.victims)
    });
    if !same_victims {
        return [node].into();
    }
    if may_choose(ours, theirs, &is_going) {
        return nominated();
    }
    // Ours passes over those that are better.
    let is_better = |candidate: &Candidate| {
        if theirs.limited {
            candidate.violations == 0
        } else {
            candidate.best
        }
    };
    let better = candidates
        .iter()
        .filter(|(_, candidate)| is_better(candidate));
    better.map(|(node, _)| node).collect()
}

/// Whether what was decided is what the oracle may decide.
fn may_choose(decided: &Verdict, oracle: &Verdict, is_going: impl Fn(&str) -> bool) -> bool {
    let Some(node) = &decided.nominated else {
        return false;
    };
    let Some(candidate) = oracle.candidates.get(node) else {
        return false;
    };
    let evicted = candidate.victims.iter().filter(|victim| !is_going(victim));
    let needless = |candidate: &Candidate| candidate.violations > 0;
    let may_be = if oracle.limited {
        !needless(candidate) || oracle.candidates.values().all(needless)
    } else {
        candidate.best
    };
    may_be && evicted.eq(&decided.victims)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::compare_preemption;
    use crate::verdict::Verdict;

    fn verdict(text: Value) -> Verdict {
        serde_json::from_value(text).unwrap()
    }

    fn agree(ours: Value, theirs: &Value) -> bool {
        let (ours, theirs) = (verdict(ours), verdict(theirs.clone()));
        compare_preemption(&ours, &theirs, |pod| pod == "d/going").is_empty()
    }

    /// The nodes that a difference names.
    fn disputed(ours: Value, theirs: &Value) -> Vec<String> {
        let (ours, theirs) = (verdict(ours), verdict(theirs.clone()));
        let found = compare_preemption(&ours, &theirs, |pod| pod == "d/going");
        found.into_iter().filter_map(|it| it.node).collect()
    }

    fn theirs() -> Value {
        json!({"nominated": "a", "victims": ["d/x"], "candidates": {
            "a": {"victims": ["d/x"], "best": true},
            "b": {"victims": ["d/going", "d/y"], "best": true},
            "c": {"victims": ["d/z"], "violations": 1, "best": false},
            "d": {"victims": ["d/v", "d/w"], "best": false},
        }})
    }

    #[test]
    fn any_of_the_cheapest_nodes_will_do_with_its_victims() {
        let theirs = theirs();
        let ours = |node: &str, victims: Value| json!({"nominated": node, "victims": victims});
        assert!(agree(ours("a", json!(["d/x"])), &theirs));
        assert!(agree(ours("b", json!(["d/y"])), &theirs));
        assert!(!agree(ours("a", json!(["d/y"])), &theirs));
        assert!(!agree(ours("b", json!(["d/going", "d/y"])), &theirs));
        assert!(!agree(ours("c", json!(["d/z"])), &theirs));
        assert!(!agree(ours("e", json!([])), &theirs));
        assert!(!agree(json!({}), &theirs));
    }

    #[test]
    fn where_some_nodes_are_tried_each_that_breaks_no_budget_will_do() {
        let mut theirs = theirs();
        theirs["limited"] = true.into();
        assert!(agree(
            json!({"nominated": "d", "victims": ["d/v", "d/w"]}),
            &theirs
        ));
        assert!(!agree(
            json!({"nominated": "c", "victims": ["d/z"]}),
            &theirs
        ));
    }

    #[test]
    fn who_loses_a_nomination_is_compared_on_one_node() {
        let mut theirs = theirs();
        theirs["cleared"] = json!(["d/low"]);
        let ours = json!({"nominated": "a", "victims": ["d/x"]});
        assert!(!agree(ours, &theirs));
        let ours = json!({"nominated": "a", "victims": ["d/x"], "cleared": ["d/low"]});
        assert!(agree(ours, &theirs));
        assert!(agree(
            json!({"nominated": "b", "victims": ["d/y"]}),
            &theirs
        ));
    }

    #[test]
    fn a_difference_names_the_nodes_that_it_is_about() {
        let theirs = theirs();
        let ours = |node: &str, victims: Value| json!({"nominated": node, "victims": victims});
        let others = ours("a", json!(["d/y"]));
        assert_eq!(disputed(others, &theirs), ["a"], "others go there");
        assert_eq!(
            disputed(ours("e", json!(["d/x"])), &theirs),
            ["e"],
            "no room there"
        );
        let dear = ours("c", json!(["d/z"]));
        assert_eq!(disputed(dear, &theirs), ["a", "b"], "these are better");
        assert_eq!(disputed(json!({}), &theirs), ["a", "b", "c", "d"]);
        assert_eq!(disputed(ours("a", json!(["d/x"])), &json!({})), ["a"]);
        let mut limited = theirs.clone();
        limited["limited"] = true.into();
        let dear = ours("c", json!(["d/z"]));
        assert_eq!(disputed(dear, &limited), ["a", "b", "d"]);
        let mut cleared = theirs;
        cleared["cleared"] = json!(["d/low"]);
        assert_eq!(disputed(ours("a", json!(["d/x"])), &cleared), ["a"]);
    }

    #[test]
    fn without_room_the_nomination_is_compared() {
        assert!(agree(json!({}), &json!({})));
        assert!(!agree(json!({"nominated": "a"}), &json!({})));
        assert!(!agree(
            json!({"nominated": "a", "victims": ["d/x"]}),
            &json!({"nominated": "a"})
        ));
    }

    #[test]
    fn nobody_is_evicted_or_loses_a_nomination_for_nothing() {
        for ours in [json!({"victims": ["d/x"]}), json!({"cleared": ["d/low"]})] {
            assert!(!agree(ours.clone(), &json!({})), "{ours}");
            assert!(disputed(ours, &json!({})).is_empty(), "there is no node");
        }
        let ours = json!({"nominated": "a", "cleared": ["d/low"]});
        assert!(!agree(ours, &json!({"nominated": "a"})));
        let theirs = json!({"nominated": "a", "cleared": ["d/low"]});
        assert!(agree(json!({"nominated": "a"}), &theirs));
    }
}
