//! Owns the question which waiting pods an event may help: of pods that are equal to all who are asked, one is asked
//! about, and so it is of those that hear the same of a node; of those that another pod's coming, changing or going
//! can't matter to, none is.

use std::collections::HashMap;

use super::Queue;
use super::circle::{Circle, Sort};
use super::hints::{Asked, Worth};
use crate::event::{Event, EventObject, EventResource};
use crate::names::PodUid;
use crate::plugin::HintReads;

/// Pods, each with what the event is worth to it.
type Helped = Vec<(PodUid, Worth)>;

impl Queue {
    /// The waiting pods that an event may help, in a repeatable order.
    pub(super) fn helped(&self, event: &Event, not: Option<&PodUid>) -> Helped {
        let mut helped = Helped::new();
        if event.kind.resource == EventResource::TargetPod {
            // It is nobody else's.
            let waiting = event.subject().and_then(|pod| self.pool.get(&pod.uid));
            if let Some(queued) = waiting {
                helped.push((queued.pod.uid.clone(), self.hints.worth(queued, event)));
            }
        } else {
            for (key, circle) in self.pool.circles() {
                let asked = self.hints.asked(key.rejected(), event);
                if !asked.is_nobody() {
                    self.helped_of(circle, &asked, event, &mut helped);
                }
            }
        }
        helped.retain(|(uid, worth)| *worth != Worth::Nothing && Some(uid) != not);
        helped.sort_by_cached_key(|(uid, _)| (self.pool.is_gated(uid), uid.clone()));
        helped
    }

    fn helped_of(&self, circle: &Circle, asked: &Asked<'_>, event: &Event, helped: &mut Helped) {
        let reads = asked.reads();
        if let EventObject::Pod { old, new } = &event.object
            && let Some(subject) = event.subject()
            && let Some(plugins) = asked.by_other_pods()
        {
            let itself = self.pool.get(&subject.uid).map(|queued| &*queued.pod);
            let versions = (old.as_deref(), new.as_deref());
            if let Some(sorts) = circle.meant(&plugins, versions, itself) {
                return sorts.for_each(|sort| {
                    let of_all = reads == HintReads::Needs;
                    let of_all = of_all.then(|| asked.worth(sort.one(), event));
                    of_sort(sort, of_all, reads, asked, event, helped);
                });
            }
        }
        let is_of_node = matches!(event.object, EventObject::Node { .. });
        let mut known = HashMap::new();
        for sort in circle.sorts() {
            let ask = || asked.worth(sort.one(), event);
            let of_all = match sort.for_nodes().filter(|_| is_of_node) {
                _ if reads != HintReads::Needs => None,
                Some(alike) => Some(*known.entry(alike).or_insert_with(ask)),
                None => Some(ask()),
            };
            of_sort(sort, of_all, reads, asked, event, helped);
        }
    }
}

/// Those of a sort; `of_all` is what the event is worth to each of them, if it is the same.
fn of_sort(
    sort: &Sort,
    of_all: Option<Worth>,
    reads: HintReads,
    asked: &Asked<'_>,
    event: &Event,
    helped: &mut Helped,
) {
    if of_all == Some(Worth::Nothing) {
        return;
    }
    for kindred in sort.kin() {
        let one = kindred
            .values()
            .next()
            .filter(|_| reads == HintReads::Labels);
        let of_kin = of_all.or_else(|| Some(asked.worth(one?, event)));
        if of_kin == Some(Worth::Nothing) {
            continue;
        }
        let worth = |pod| of_kin.unwrap_or_else(|| asked.worth(pod, event));
        let may_be_helped = kindred.iter().filter(|(_, pod)| event.may_help(pod));
        helped.extend(may_be_helped.map(|(uid, pod)| (uid.clone(), worth(pod))));
    }
}

#[cfg(test)]
mod tests;
