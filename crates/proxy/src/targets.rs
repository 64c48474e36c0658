//! Every target by its virtual node: whether it answers, since when it doesn't, and what its operator wants.

use std::{collections::BTreeMap, time::Duration};

use pilotage_api::lost::LostPolicy;

use crate::{
    door::Serves,
    view::{Monotonic, ProxyView, Reach},
};

/// After this a target that was silent may be asked first again: nobody else might ever hear that it is well.
const SILENT_FOR: Duration = Duration::from_mins(1);

/// What the operator says of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its Target is being deleted: no new pods, and those that aren't bound there leave.
    pub leaving: bool,
    /// Whatever runs there is given up as long as it can't be reached, and while it can, some time after its end was
    /// asked for.
    pub forgotten: bool,
    /// What becomes of its pods while it can't be reached, unless they say so themselves.
    pub lost_policy: Option<LostPolicy>,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// Whether it can be reached.
    pub reach: Reach,
    /// Since when it can't, by our own clock.
    pub lost_since: Option<Monotonic>,
    /// Since when it can.
    pub reachable_since: Option<Monotonic>,
    /// What its operator says.
    pub terms: Terms,
    /// When it last answered a question, whichever pod's.
    pub answered_at: Option<Monotonic>,
    /// When it last let a question pass without an answer, if it hasn't answered any since: it isn't asked first.
    pub silent_since: Option<Monotonic>,
    /// Whose pods it may be asked for; `None`: its Target isn't known.
    pub serves: Option<Serves>,
}

/// All targets.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    by_node: BTreeMap<String, TargetView>,
    /// How often the pods name each virtual node. What doesn't exist is forgotten when nobody does any more.
    named: BTreeMap<String, usize>,
}

impl Targets {
    /// A target can, or can't, be reached from now on.
    pub fn set_reach(&mut self, node: &str, reach: Reach, now: Monotonic) {
        let target = self.entry(node);
        target.lost_since = (reach == Reach::Lost).then(|| target.lost_since.unwrap_or(now));
        let reachable = reach == Reach::Reachable;
        target.reachable_since = reachable.then(|| target.reachable_since.unwrap_or(now));
        target.reach = reach;
        if reach == Reach::Reachable {
            // What it didn't answer before says nothing now.
            target.silent_since = None;
        }
        self.forget_missing(node);
    }

    /// Its operator says something else from now on.
    pub fn set_terms(&mut self, node: &str, terms: Terms) {
        self.entry(node).terms = terms;
    }

    /// Its Target is one for these pods.
    pub fn set_serves(&mut self, node: &str, serves: Serves) {
        self.entry(node).serves = Some(serves);
    }

    /// Whose pods it may be asked for, if that is known.
    pub(crate) fn serves(&self, node: &str) -> Option<&Serves> {
        self.get(node)?.serves.as_ref()
    }

    /// The targets that serve pods of this namespace, and those of which that isn't known.
    pub(crate) fn serving(&self, namespace: &str) -> impl Iterator<Item = (&str, &TargetView)> {
        let all = self.by_node.iter().map(|(node, it)| (node.as_str(), it));
        all.filter(move |(_, target)| {
            let serves = target.serves.as_ref();
            serves.is_none_or(|serves| serves.serves(namespace))
        })
    }

    /// Whether it matters to this pod what becomes of the target: it serves the pod, or the pod names it.
    pub(crate) fn concerns(&self, node: &str, proxy: &ProxyView) -> bool {
        let serves = self.serves(node);
        serves.is_some_and(|serves| serves.serves(&proxy.namespace))
            || proxy.named_nodes().any(|named| named == node)
    }

    /// A pod was like this, and is like that now.
    pub(crate) fn see(&mut self, before: Option<&ProxyView>, after: Option<&ProxyView>) {
        for node in after.into_iter().flat_map(ProxyView::named_nodes) {
            let times = self.named.entry(node.to_owned()).or_default();
            *times = times.saturating_add(1);
        }
        for node in before.into_iter().flat_map(ProxyView::named_nodes) {
            if let Some(times) = self.named.get_mut(node) {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    self.named.remove(node);
                    self.forget_missing(node);
                }
            }
        }
    }

    /// Since when it can be reached, if it can.
    pub(crate) fn reachable_since(&self, node: &str) -> Option<Monotonic> {
        self.get(node)?.reachable_since
    }

    fn forget_missing(&mut self, node: &str) {
        if self.reach(node) == Reach::NoSuchTarget && !self.named.contains_key(node) {
            self.by_node.remove(node);
        }
    }

    fn entry(&mut self, node: &str) -> &mut TargetView {
        self.by_node
            .entry(node.to_owned())
            .or_insert_with(|| TargetView {
                reach: Reach::Unknown,
                lost_since: None,
                reachable_since: None,
                terms: Terms::default(),
                answered_at: None,
                silent_since: None,
                serves: None,
            })
    }

    /// It has answered a question. An answer may come after the target's end, and doesn't bring it back.
    pub fn answered(&mut self, node: &str, now: Monotonic) {
        if let Some(target) = self.by_node.get_mut(node) {
            target.answered_at = Some(now);
            target.silent_since = None;
        }
    }

    /// It let a question pass: whoever has answered another one within `silence` isn't silent.
    pub(crate) fn let_pass(&mut self, node: &str, silence: Duration, now: Monotonic) {
        let Some(target) = self.by_node.get_mut(node) else {
            return;
        };
        let heard = target.answered_at;
        if heard.is_none_or(|heard| now >= heard.saturating_add(silence)) {
            target.silent_since = Some(now);
        }
    }

    /// Since when it owes an answer to what it was asked at `asked`: who answers others meanwhile is busy, not silent.
    /// But nobody is believed to be busy for longer than `limit`.
    pub fn silent_since(&self, node: &str, asked: Monotonic, limit: Duration) -> Monotonic {
        let heard = self.get(node).and_then(|target| target.answered_at);
        heard.map_or(asked, |heard| {
            heard.clamp(asked, asked.saturating_add(limit))
        })
    }

    /// Whether it let a question pass of late, and hasn't answered any since.
    pub(crate) fn is_silent(&self, node: &str, now: Monotonic) -> bool {
        let since = self.get(node).and_then(|target| target.silent_since);
        since.is_some_and(|since| now < since.saturating_add(SILENT_FOR))
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

    /// Nobody is to wait for it for ever.
    pub(crate) fn is_forgotten(&self, node: &str) -> bool {
        self.get(node).is_some_and(|target| target.terms.forgotten)
    }

    /// Its Target is being deleted.
    pub(crate) fn is_leaving(&self, node: &str) -> bool {
        self.get(node).is_some_and(|target| target.terms.leaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::RecordState;

    #[test]
    fn who_answers_others_is_busy_for_a_while() {
        let at = Duration::from_secs;
        let mut targets = Targets::default();
        targets.set_reach("a", Reach::Reachable, at(0));
        let since = |targets: &Targets| targets.silent_since("a", at(10), at(30)).as_secs();
        assert_eq!(since(&targets), 10);
        for (heard, want) in [(5, 10), (12, 12), (39, 39), (50, 40)] {
            targets.answered("a", at(heard));
            assert_eq!(since(&targets), want, "heard at {heard}");
        }
    }

    #[test]
    fn what_does_not_exist_is_forgotten_when_no_pod_names_it() {
        let mut targets = Targets::default();
        let now = Duration::ZERO;
        let mut recorded = crate::testing::proxy();
        recorded.record = RecordState::Is("a/u/1".parse().unwrap());
        let mut placed = recorded.clone();
        placed.node_name = Some("a".into());
        targets.see(None, Some(&recorded));
        targets.see(Some(&recorded), Some(&placed));
        targets.set_reach("a", Reach::NoSuchTarget, now);
        targets.set_reach("b", Reach::NoSuchTarget, now);
        targets.set_reach("c", Reach::Lost, now);
        assert!(targets.get("a").is_some() && targets.get("b").is_none());
        targets.see(Some(&placed), None);
        assert!(targets.get("a").is_none() && targets.get("c").is_some());
        assert!(targets.named.is_empty());
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
