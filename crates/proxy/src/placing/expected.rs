//! Where a pod that isn't placed will probably be. A guess for spreading; no rule rests on it.

use pilotage_api::record::Record;

use crate::{
    plan::Action,
    view::{ChaperonView, ProxyView},
    wave::Ranked,
};

/// Where the pod is recorded, else the best of those that are asked, or are about to be by `actions`.
pub fn expected_at<'a>(
    proxy: &'a ProxyView,
    chaperons: &[ChaperonView],
    ranking: &'a [Ranked],
    actions: &[Action],
) -> Option<&'a str> {
    let is_there = |record: &&Record| chaperons.iter().any(|c| record.names(&c.node, &c.uid));
    if let Some(record) = proxy.record.record().filter(is_there) {
        return Some(&record.node);
    }
    let is_asked = |ranked: &&Ranked| {
        let asks = |action: &Action| matches!(action, Action::Ask { node } if *node == ranked.node);
        let takes_room = |c: &ChaperonView| c.node == ranked.node && c.is_outstanding();
        chaperons.iter().any(takes_room) || actions.iter().any(asks)
    };
    Some(&ranking.iter().find(is_asked)?.node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{chaperon, proxy},
        view::RecordState,
    };

    #[test]
    fn a_record_counts_before_what_was_asked_and_that_before_nothing() {
        let ranking = ["a", "b", "c"].map(|node| Ranked {
            node: node.to_owned(),
            surely_fits: false,
            class: 0,
            kept_away: false,
        });
        let mut pod = proxy();
        let ask = [Action::Ask { node: "b".into() }];
        assert_eq!(expected_at(&pod, &[], &ranking, &[]), None);
        assert_eq!(expected_at(&pod, &[], &ranking, &ask), Some("b"));
        let refused = chaperon("a", "ua").refused(1).build();
        let holds = chaperon("c", "uc").reserved(1).build();
        let chaperons = [refused, holds];
        assert_eq!(expected_at(&pod, &chaperons, &ranking, &[]), Some("c"));
        assert_eq!(expected_at(&pod, &chaperons, &ranking, &ask), Some("b"));
        pod.record = RecordState::Is("c/uc/1".parse().unwrap());
        assert_eq!(expected_at(&pod, &chaperons, &ranking, &ask), Some("c"));
        pod.record = RecordState::Is("c/gone/1".parse().unwrap());
        assert_eq!(expected_at(&pod, &chaperons, &ranking, &ask), Some("b"));
    }
}
