//! Every target by its virtual node: whether it answers, since when it doesn't, and what its operator wants.

use std::{collections::BTreeMap, time::Duration};

use pilotage_api::lost::LostPolicy;

use crate::view::{Monotonic, Reach};

/// What the operator says of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its Target is being deleted: no new pods, and those that aren't bound there leave.
    pub leaving: bool,
    /// As long as it can't be reached, whatever runs there is given up.
    pub forgotten: bool,
    /// What becomes of its pods while it can't be reached, unless they say so themselves.
    pub lost_policy: Option<LostPolicy>,
}

/// One target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// Whether it can be reached.
    pub reach: Reach,
    /// Since when it can't, by our own clock.
    pub lost_since: Option<Monotonic>,
    /// What its operator says.
    pub terms: Terms,
    /// When it last answered a question, whichever pod's.
    pub answered_at: Option<Monotonic>,
}

/// All targets.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    by_node: BTreeMap<String, TargetView>,
}

impl Targets {
    /// A target can, or can't, be reached from now on.
    pub fn set_reach(&mut self, node: &str, reach: Reach, now: Monotonic) {
        let target = self.entry(node);
        target.lost_since = (reach == Reach::Lost).then(|| target.lost_since.unwrap_or(now));
        target.reach = reach;
    }

    /// Its operator says something else from now on.
    pub fn set_terms(&mut self, node: &str, terms: Terms) {
        self.entry(node).terms = terms;
    }

    fn entry(&mut self, node: &str) -> &mut TargetView {
        self.by_node
            .entry(node.to_owned())
            .or_insert_with(|| TargetView {
                reach: Reach::Unknown,
                lost_since: None,
                terms: Terms::default(),
                answered_at: None,
            })
    }

    /// It has answered a question.
    pub fn answered(&mut self, node: &str, now: Monotonic) {
        self.entry(node).answered_at = Some(now);
    }

    /// Since when it owes an answer to what it was asked at `asked`: who answers others meanwhile is busy, not silent. But
    /// nobody is believed to be busy for longer than `limit`.
    pub fn silent_since(&self, node: &str, asked: Monotonic, limit: Duration) -> Monotonic {
        let heard = self.get(node).and_then(|target| target.answered_at);
        heard.map_or(asked, |heard| heard.clamp(asked, asked + limit))
    }

    /// Whether it has answered nothing for this long.
    pub(crate) fn is_silent(&self, node: &str, silence: Duration, now: Monotonic) -> bool {
        let heard = self.get(node).and_then(|target| target.answered_at);
        heard.is_none_or(|heard| now >= heard + silence)
    }

    /// One target, if anything is known of it.
    pub fn get(&self, node: &str) -> Option<&TargetView> {
        self.by_node.get(node)
    }

    /// Whether it can be reached.
    pub fn reach(&self, node: &str) -> Reach {
        self.get(node).map_or(Reach::Unknown, |target| target.reach)
    }

    /// It can be reached.
    pub(crate) fn is_reachable(&self, node: &str) -> bool {
        self.reach(node) == Reach::Reachable
    }

    /// Its Target is being deleted.
    pub(crate) fn is_leaving(&self, node: &str) -> bool {
        self.get(node).is_some_and(|target| target.terms.leaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_others_is_busy_for_a_while() {
        let at = Duration::from_secs;
        let mut targets = Targets::default();
        let since = |targets: &Targets| targets.silent_since("a", at(10), at(30)).as_secs();
        assert_eq!(since(&targets), 10);
        for (heard, want) in [(5, 10), (12, 12), (39, 39), (50, 40)] {
            targets.answered("a", at(heard));
            assert_eq!(since(&targets), want, "heard at {heard}");
        }
    }

    #[test]
    fn a_loss_counts_from_its_first_news_and_ends_with_any_sign_of_life() {
        let at = Duration::from_secs;
        let mut targets = Targets::default();
        assert_eq!(targets.reach("a"), Reach::Unknown);
        targets.set_terms("a", Terms::default());
        assert_eq!(targets.get("a").unwrap().lost_since, None);
        targets.set_reach("a", Reach::Lost, at(4));
        targets.set_reach("a", Reach::Lost, at(5));
        assert_eq!(targets.get("a").unwrap().lost_since, Some(at(4)));
        targets.set_reach("a", Reach::Reachable, at(6));
        assert_eq!(targets.get("a").unwrap().lost_since, None);
        targets.set_reach("a", Reach::Lost, at(7));
        assert_eq!(targets.get("a").unwrap().lost_since, Some(at(7)));
        targets.set_reach("a", Reach::Unseen, at(8));
        assert_eq!(targets.get("a").unwrap().lost_since, None);
    }
}
