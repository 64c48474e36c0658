//! What other pods mean for where a pod may go, as its spreading and affinity ask: those that are there, and those that
//! are on their way. Knows no constraints, only two answers of the scheduler: as it is now, and as it will be if they
//! come.

use std::collections::BTreeMap;

/// What other pods make of a target that suits the pod otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They leave it to the pod.
    #[default]
    Leave,
    /// They will take it, if those that are on their way come: others are better.
    WillTake,
    /// They keep the pod away, until those come that are on their way. It isn't asked before that.
    KeepAway,
}

/// Nodes that suit a pod, with their scores.
pub type Scored = Vec<(String, i64)>;

/// All nodes that suit the pod `now` or will, if those come that are `expected`; with what others make of each that
/// they don't leave to it. Scores count who is expected.
pub fn regard(now: Scored, expected: Option<Scored>) -> (Scored, BTreeMap<String, Others>) {
    let Some(expected) = expected else {
        return (now, BTreeMap::new());
    };
    let mut scores: BTreeMap<String, i64> = now.into_iter().collect();
    let mut others: BTreeMap<String, Others> = scores
        .keys()
        .map(|node| (node.clone(), Others::WillTake))
        .collect();
    for (node, score) in expected {
        if scores.insert(node.clone(), score).is_some() {
            others.remove(&node);
        } else {
            others.insert(node, Others::KeepAway);
        }
    }
    (scores.into_iter().collect(), others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(nodes: &[(&str, i64)]) -> Scored {
        let own = |(node, score): &(&str, i64)| ((*node).to_owned(), *score);
        nodes.iter().map(own).collect()
    }

    #[test]
    fn who_suits_now_and_later_is_left_to_the_pod() {
        let now = scored(&[("both", 1), ("now", 2)]);
        let expected = scored(&[("both", 5), ("later", 6)]);
        let (nodes, others) = regard(now.clone(), Some(expected));
        assert_eq!(nodes, scored(&[("both", 5), ("later", 6), ("now", 2)]));
        let want = [("later", Others::KeepAway), ("now", Others::WillTake)];
        let want = want.map(|(node, others)| (node.to_owned(), others));
        assert_eq!(others, want.into());
        assert_eq!(regard(now.clone(), None), (now, BTreeMap::new()));
    }
}
