//! Which targets suit a pod, best first: asked of the scheduler, as it is now and as it will be when those pods have
//! come that are on their way. And who is ranked again when other pods come or go.

use std::{sync::Arc, time::Duration};

use pilotage_proxy::{
    kept::LeftOut,
    others::{Scored, regard},
    profile::RANKING,
    rank::{Seen, rank},
};
use pilotage_runtime::slice::Slice;
use pilotage_sched::{
    EvaluateError, Evaluation, PodInfo,
    plugins::{INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD},
};

use super::{super::expected::minds_others, Edge};

/// A ranking is made anew after this, so that a wave is widened by what is known then.
const RANKING_LASTS: Duration = Duration::from_millis(500);
/// The same of a pod that says something of other pods, which come and go all the time in a burst.
const OTHERS_LAST: Duration = Duration::from_millis(10);

/// Pods that others keep away are looked at once in so long, however many come and go.
pub(super) const OTHERS_PACE: Duration = Duration::from_millis(100);
/// What that is noted under.
const OTHERS: &str = "";

fn scored(evaluation: Evaluation) -> Scored {
    let feasible = evaluation.feasible.into_iter();
    let scored = feasible.map(|scored| (scored.node.to_string(), scored.total));
    scored.collect()
}

/// Whether other pods keep the pod away from a node.
fn is_kept_away(evaluation: &Evaluation) -> bool {
    let by_others = |plugin| [POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY].contains(&plugin);
    let rejected = evaluation.rejected.iter();
    let mut plugins = rejected.filter_map(|node| node.rejection.plugin());
    plugins.any(by_others)
}

impl Edge {
    /// Makes the pod's ranking anew, if it needs one and has none of late. Its author may make it large: others go on
    /// between its parts.
    pub(super) async fn rank(&mut self, uid: &str, now: Duration, slice: &mut Slice) {
        let Some(info) = self.unranked(uid, now) else {
            return;
        };
        let evaluated = self.evaluate(uid, &info, slice).await;
        slice.pause().await;
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        proxy.ranked_at = Some(now);
        let (evaluation, expected) = match evaluated {
            Ok(evaluated) => evaluated,
            Err(error) => {
                tracing::error!(pod = %uid, %error, "can't rank targets");
                (proxy.order, proxy.ranking) = (None, Vec::new());
                return;
            }
        };
        proxy.kept_away = is_kept_away(&evaluation);
        let (feasible, others) = regard(scored(evaluation), expected.map(scored));
        let (policy, want) = (proxy.policy, &proxy.want);
        proxy.order = (self.ranker).order(uid, policy, want, &feasible, &self.places);
        slice.pause().await;
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let (ranker, places, book) = (&self.ranker, &self.places, &self.book);
        let (request, order) = (&info.needs.requests.total, proxy.order.as_ref());
        let seen = |node: &str| Seen {
            room: places.room(node),
            used: (ranker.placed_at(node)).saturating_add(places.others_at(node, uid)),
            silent: book.is_silent(node, now),
            others: others.get(node).copied().unwrap_or_default(),
        };
        proxy.ranking = rank(uid, request, &feasible, seen, order);
    }

    /// What a pod is that needs a ranking.
    fn unranked(&self, uid: &str, now: Duration) -> Option<Arc<PodInfo>> {
        let (proxy, view) = (self.proxies.get(uid)?, self.book.proxy(uid)?);
        let info = proxy.info.clone()?;
        let unplaced = view.node_name.is_none() && !view.ending && !view.gated && view.has_manifest;
        // Of a heavy one it may not be known whom it suits.
        let unplaced = unplaced && view.left_out < LeftOut::Rules;
        let lasts = if minds_others(&info) {
            OTHERS_LAST
        } else {
            RANKING_LASTS
        };
        let fresh = proxy
            .ranked_at
            .is_some_and(|at| now < at.saturating_add(lasts));
        (unplaced && !fresh && proxy.choice.is_none()).then_some(info)
    }

    async fn evaluate(
        &mut self,
        uid: &str,
        info: &PodInfo,
        slice: &mut Slice,
    ) -> Result<(Evaluation, Option<Evaluation>), EvaluateError> {
        let coming = self.places.coming_beside(uid);
        let now = (self.parts.scheduling).evaluate(RANKING, info, coming)?;
        slice.pause().await;
        let expected = self.expected.beside(info);
        let expected = (self.parts.scheduling).evaluate_expecting(RANKING, info, expected)?;
        Ok((now, expected))
    }

    /// A pod has come to a node in the scheduler's eyes, or left it: those that others keep away may go somewhere else
    /// now.
    pub(super) fn others_moved(&mut self) {
        if self.moved.note(OTHERS, self.clock.now()) {
            self.rank_kept_away();
        }
    }

    /// Those that others keep away are ranked again.
    pub(super) fn rank_kept_away(&mut self) {
        let kept = self.proxies.iter().filter(|(_, proxy)| proxy.kept_away);
        for uid in kept.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            self.rank_again(uid);
        }
    }
}
