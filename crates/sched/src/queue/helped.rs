//! Owns the question which waiting pods an event may help: of pods that are equal to all who are asked, one is asked
//! about, and so it is of those that hear the same of a node; of those that another pod's coming, changing or going
//! can't matter to, none is.

use std::collections::HashMap;
use std::sync::Arc;

use super::Queue;
use super::circle::{Circle, SortId};
use super::hints::{Asked, Worth};
use super::kindred::{Help, Kindred, Turn};
use super::reads::Address;
use crate::event::{Actions, Event, EventObject, EventResource};
use crate::labels::Labels;
use crate::names::PodUid;
use crate::node_object::NodeObject;
use crate::plugin::HintReads;
use crate::pod_info::PodInfo;

/// Whom an event helps.
struct Helping<'a> {
    event: &'a Event,
    not: Option<&'a PodInfo>,
    why: Arc<str>,
    up_to: Turn,
    // Those of whom it isn't kept as of a whole.
    each: Vec<(PodUid, Worth)>,
    // How many others.
    of_wholes: usize,
}

impl Queue {
    /// Remembers which waiting pods an event may help, and how much; how many they are.
    pub(super) fn help(&mut self, event: &Event, not: Option<&PodUid>) -> usize {
        if self.pool.is_empty() {
            return 0;
        }
        let not = not.and_then(|uid| self.pool.get(uid));
        let not = not.map(|queued| queued.pod.clone());
        let mut helping = Helping {
            event,
            not: not.as_deref(),
            why: event.to_string().into(),
            up_to: self.pool.turn(),
            each: Vec::new(),
            of_wholes: 0,
        };
        let subject = event.subject().and_then(|pod| self.pool.get(&pod.uid));
        if event.kind.resource == EventResource::TargetPod {
            // It is nobody else's.
            let worth = subject.map(|queued| (&queued.pod, self.hints.worth(queued, event)));
            helping.each(worth);
        } else {
            let itself = subject.map(|queued| queued.pod.clone());
            for (key, circle) in self.pool.circles_mut() {
                let asked = self.hints.asked(key.rejected(), event);
                if !asked.is_nobody() {
                    helping.circle(circle, &asked, itself.as_deref());
                }
            }
        }
        let Helping {
            each, of_wholes, ..
        } = helping;
        let helped = of_wholes.saturating_add(each.len());
        for (uid, worth) in each {
            let (why, up_to) = (helping.why.clone(), helping.up_to);
            self.help_later(uid, Help { worth, why, up_to });
        }
        helped
    }
}

impl Helping<'_> {
    fn circle(&mut self, circle: &mut Circle, asked: &Asked<'_>, itself: Option<&PodInfo>) {
        let reads = asked.reads();
        let is_of_node = matches!(self.event.object, EventObject::Node { .. });
        let mut known = HashMap::new();
        let mut changed = Changed::of(self.event).filter(|_| asked.tell_node_labels());
        let not = self.not.and_then(|pod| circle.id_of(pod));
        let meant = self.meant(circle, asked, itself);
        for id in meant.unwrap_or_else(|| circle.ids()) {
            let Some(sort) = circle.sort(id) else {
                continue;
            };
            if let (Some(changed), Some((at, keys))) = (&mut changed, sort.reads().labels())
                && !changed.is_any_of(at, keys)
            {
                continue;
            }
            let ask = || asked.worth(sort.one(), self.event);
            let of_all = match sort.reads().needs().filter(|_| is_of_node) {
                _ if reads != HintReads::Needs => None,
                Some(alike) => Some(*known.entry(alike).or_insert_with(ask)),
                None => Some(ask()),
            };
            if of_all == Some(Worth::Nothing) {
                continue;
            }
            if let Some(worth) = of_all
                && self.event.may_help_all()
                && not != Some(id)
            {
                let helped = circle.help_sort(id, self.of(worth));
                self.of_wholes = self.of_wholes.saturating_add(helped);
                continue;
            }
            let of_wholes = self.of_wholes;
            for kindred in circle.kin_mut(id) {
                let one = kindred.pods().next();
                let one = one.filter(|_| reads == HintReads::Labels);
                let of_kin = of_all.or_else(|| Some(asked.worth(one?, self.event)));
                self.kindred(kindred, of_kin, asked);
            }
            if self.of_wholes > of_wholes {
                circle.has_help(id);
            }
        }
    }

    fn of(&self, worth: Worth) -> Help {
        let (why, up_to) = (self.why.clone(), self.up_to);
        Help { worth, why, up_to }
    }

    /// The sorts to which the event's pod may matter; `None` for all.
    fn meant(
        &self,
        circle: &Circle,
        asked: &Asked<'_>,
        itself: Option<&PodInfo>,
    ) -> Option<Vec<SortId>> {
        let EventObject::Pod { old, new } = &self.event.object else {
            return None;
        };
        let plugins = asked.by_other_pods()?;
        circle.meant(&plugins, (old.as_deref(), new.as_deref()), itself)
    }

    /// `of_kin` is what the event is worth to each of them, if it is the same.
    fn kindred(&mut self, kindred: &mut Kindred, of_kin: Option<Worth>, asked: &Asked<'_>) {
        let one_is_not = |not: &PodInfo| kindred.contains(&not.uid);
        match of_kin {
            Some(Worth::Nothing) => {}
            Some(worth) if self.event.may_help_all() && !self.not.is_some_and(one_is_not) => {
                kindred.kept.keep(self.of(worth));
                self.of_wholes = self.of_wholes.saturating_add(kindred.len());
            }
            _ => {
                let event = self.event;
                let worth = |pod| of_kin.unwrap_or_else(|| asked.worth(pod, event));
                self.each(kindred.pods().map(|pod| (pod, worth(pod))));
            }
        }
    }

    fn each<'p>(&mut self, pods: impl IntoIterator<Item = (&'p Arc<PodInfo>, Worth)>) {
        let (event, not) = (self.event, self.not);
        let helped = pods.into_iter().filter(|(pod, worth)| {
            *worth != Worth::Nothing
                && event.may_help(pod)
                && not.is_none_or(|not| pod.uid != not.uid)
        });
        self.each
            .extend(helped.map(|(pod, worth)| (pod.uid.clone(), worth)));
    }
}

/// The labels of a node before and after its event, and whether any of these keys differ.
struct Changed<'a> {
    labels: [&'a Labels; 2],
    known: HashMap<Address, bool>,
}

impl<'a> Changed<'a> {
    fn of(event: &'a Event) -> Option<Self> {
        let EventObject::Node { old, new } = &event.object else {
            return None;
        };
        if event.kind.actions != Actions::UPDATE_NODE_LABEL {
            return None;
        }
        let [old, new] = [old, new].map(|node| node.as_deref().map(NodeObject::labels));
        Some(Self {
            labels: [old?, new?],
            known: HashMap::new(),
        })
    }

    /// `at` stands for the keys.
    fn is_any_of(&mut self, at: Address, keys: &[String]) -> bool {
        let [old, new] = self.labels;
        let differ = || keys.iter().any(|key| old.get(key) != new.get(key));
        *self.known.entry(at).or_insert_with(differ)
    }
}

#[cfg(test)]
mod tests;
