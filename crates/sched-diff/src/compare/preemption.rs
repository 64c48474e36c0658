//! Compares what preemption decided. Of nodes that cost the same either may be taken, and where only some of the nodes
//! are tried any that doesn't break a budget without need: which ones are tried is each side's own chance.

use super::{Aspect, Difference};
use crate::verdict::{Candidate, Verdict};

/// Where the two differ in whom they evict for whom. In both `nominated` is where the pod is expected from now on, if
/// anywhere. `is_going` says who of the victims is being deleted already, so that nobody has to evict it.
pub fn compare_preemption(
    ours: &Verdict,
    theirs: &Verdict,
    is_going: impl Fn(&str) -> bool,
) -> Option<Difference> {
    let same_node = ours.nominated == theirs.nominated;
    let same_cleared = !same_node || ours.victims.is_empty() || ours.cleared == theirs.cleared;
    let agreed = if theirs.candidates.is_empty() {
        same_node && ours.victims == theirs.victims
    } else {
        may_choose(ours, theirs, &is_going) && may_choose(theirs, theirs, &is_going)
    };
    if agreed && same_cleared {
        return None;
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
    Some(Difference::new(Aspect::Preemption, text(ours), theirs_text))
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
        compare_preemption(&ours, &theirs, |pod| pod == "d/going").is_none()
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
    fn without_room_the_nomination_is_compared() {
        assert!(agree(json!({}), &json!({})));
        assert!(!agree(json!({"nominated": "a"}), &json!({})));
        assert!(!agree(
            json!({"nominated": "a", "victims": ["d/x"]}),
            &json!({"nominated": "a"})
        ));
    }
}
