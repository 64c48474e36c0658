//! Owns an attempt that waits for extenders: what they are asked, one after the other, and how the attempt goes on with
//! their answers. Between question and answer nothing is held: the cluster may change, so that the nodes they agreed to
//! are looked at again. After `findNodesThatPassExtenders` and `prioritizeNodes` of kube-scheduler 1.36.3.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use thiserror::Error;

use super::Scheduler;
use super::attempt::{Attempt, SkipReason, Skipped};
use crate::context::{Cycle, Surroundings};
use crate::cycle::{self, Cause, Offer, Offered};
use crate::extender::{Extender, Filtered, weighted};
use crate::guard::caught;
use crate::moment::Moment;
use crate::names::NodeName;
use crate::plugin::Nomination;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::queue::QueuedPod;
use crate::state::CycleState;
use crate::status::PluginError;
use crate::tie::TieBreaker;

/// An attempt that waits for extenders. Ask what [`Paused::question`] says until it is [`Question::None`], then give it
/// back to [`Scheduler::resume`]: its pod isn't tried again before.
#[derive(Debug)]
pub struct Paused {
    pub(super) queued: QueuedPod,
    pub(super) profile: Arc<Profile>,
    offer: Offer,
    // Those still to be asked, last first.
    to_filter: Vec<Arc<Extender>>,
    to_prioritize: Vec<Arc<Extender>>,
    totals: HashMap<NodeName, i64>,
    failed: Option<PluginError>,
}

/// What to ask next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Which of these nodes will do: for [`Paused::filtered`].
    Filter(&'a Arc<Extender>, &'a [NodeName]),
    /// How good these nodes are: for [`Paused::prioritized`].
    Prioritize(&'a Arc<Extender>, &'a [NodeName]),
    /// Nothing any more.
    None,
}

/// An extender's answer that isn't one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// It agrees to a node that it wasn't asked about.
    #[error("extender {extender} names node {node:?}, which it wasn't asked about")]
    UnknownNode {
        /// The extender.
        extender: Arc<str>,
        /// The node.
        node: NodeName,
    },
    /// It gives a priority that isn't one.
    #[error(
        "extender {extender} gives node {node:?} the priority {priority}, which isn't within 0..=10"
    )]
    Priority {
        /// The extender.
        extender: Arc<str>,
        /// The node.
        node: NodeName,
        /// What it said.
        priority: i64,
    },
    /// It can't be reached, or says that it failed.
    #[error("extender {extender}: {why}")]
    Failed {
        /// The extender.
        extender: Arc<str>,
        /// Why.
        why: String,
    },
}

impl Paused {
    /// The pod.
    pub const fn pod(&self) -> &Arc<PodInfo> {
        &self.queued.pod
    }

    /// Its profile.
    pub const fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// What to ask next.
    pub fn question(&self) -> Question<'_> {
        let nodes = &*self.offer.nodes;
        if self.failed.is_some() {
            return Question::None;
        }
        match (nodes, self.to_filter.last(), self.to_prioritize.last()) {
            ([], ..) => Question::None,
            (_, Some(extender), _) => Question::Filter(extender, nodes),
            // A single node is simply taken.
            ([_, _, ..], None, Some(extender)) => Question::Prioritize(extender, nodes),
            _ => Question::None,
        }
    }

    /// The answer to [`Question::Filter`], or why there is none. What is wrong with it is returned, to be logged: it
    /// fails the attempt, unless the extender can be ignored.
    pub fn filtered(&mut self, answer: Result<Filtered, String>) -> Result<(), AnswerError> {
        let Some(extender) = self.to_filter.pop() else {
            return Ok(());
        };
        let checked = answer
            .map_err(|why| failed(&extender, why))
            .and_then(|answer| self.checked(answer, &extender));
        match checked {
            Ok(answer) => {
                self.narrow(&answer, &extender);
                Ok(())
            }
            Err(error) => {
                if !extender.ignorable {
                    self.failed = Some(PluginError::new(error.clone()));
                }
                Err(error)
            }
        }
    }

    fn checked(&self, answer: Filtered, extender: &Extender) -> Result<Filtered, AnswerError> {
        let asked = self.offer.nodes.iter().collect::<BTreeSet<_>>();
        let foreign = answer.nodes.iter().find(|node| !asked.contains(node));
        match foreign.cloned() {
            Some(node) => Err(AnswerError::UnknownNode {
                extender: extender.name.clone(),
                node,
            }),
            None => Ok(answer),
        }
    }

    fn narrow(&mut self, answer: &Filtered, extender: &Extender) {
        let Offer {
            nodes, diagnosis, ..
        } = &mut self.offer;
        nodes.retain(|node| {
            let stays = answer.nodes.contains(node);
            if !stays {
                let rejection = answer.rejection(node, extender);
                diagnosis.note(&rejection);
                diagnosis.statuses.push(node.clone(), rejection);
            }
            stays
        });
    }

    /// The answer to [`Question::Prioritize`], or why there is none. What is wrong with it is returned, to be logged:
    /// the extender then has no say. Priorities of other nodes don't count.
    pub fn prioritized(
        &mut self,
        answer: Result<BTreeMap<NodeName, i64>, String>,
    ) -> Result<(), AnswerError> {
        let Some(extender) = self.to_prioritize.pop() else {
            return Ok(());
        };
        let answer = answer.map_err(|why| failed(&extender, why))?;
        let weight = extender.weight.unwrap_or_default();
        let worth = |(node, priority): (&NodeName, &i64)| {
            let wrong = || AnswerError::Priority {
                extender: extender.name.clone(),
                node: node.clone(),
                priority: *priority,
            };
            let worth = weighted(*priority, weight).ok_or_else(wrong)?;
            Ok((node.clone(), worth))
        };
        let worths = answer.iter().map(worth).collect::<Result<Vec<_>, _>>()?;
        for (node, worth) in worths {
            let total = self.totals.entry(node).or_default();
            *total = total.saturating_add(worth);
        }
        Ok(())
    }
}

fn failed(extender: &Extender, why: String) -> AnswerError {
    AnswerError::Failed {
        extender: extender.name.clone(),
        why,
    }
}

impl Scheduler {
    /// Has these services asked about the nodes for each pod that concerns them, in this order, before one is chosen.
    /// Neither [`Scheduler::evaluate`] nor [`Scheduler::recheck`] asks them.
    #[must_use]
    pub fn extended_by(mut self, extenders: impl IntoIterator<Item = Extender>) -> Self {
        self.extenders = extenders.into_iter().map(Arc::new).collect();
        self
    }

    /// Those that are asked about this pod.
    pub(super) fn extenders_of(&self, pod: &PodInfo) -> Vec<Arc<Extender>> {
        let interested = |extender: &&Arc<Extender>| extender.is_interested(pod);
        self.extenders.iter().filter(interested).cloned().collect()
    }

    /// An attempt has to wait for extenders.
    pub(super) fn pause(
        &mut self,
        queued: QueuedPod,
        profile: Arc<Profile>,
        offer: Offer,
    ) -> Paused {
        let mut to_filter = self.extenders_of(&queued.pod);
        to_filter.reverse();
        let mut to_prioritize = to_filter.clone();
        to_filter.retain(|extender| extender.filters);
        to_prioritize.retain(|extender| extender.weight.is_some());
        self.paused.insert(queued.pod.uid.clone());
        Paused {
            queued,
            profile,
            offer,
            to_filter,
            to_prioritize,
            totals: HashMap::new(),
            failed: None,
        }
    }

    /// Goes on with an attempt, with what extenders answered. It may end as any other, or wait once more. A panic fails
    /// it.
    pub fn resume(&mut self, paused: Paused, now: Moment, ties: &mut dyn TieBreaker) -> Attempt {
        let queued = paused.queued.clone();
        caught(|| self.go_on(paused, now, ties)).unwrap_or_else(|panic| {
            self.paused.remove(&queued.pod.uid);
            Attempt::Failed(Box::new(self.undo_attempt(queued, panic, now)))
        })
    }

    fn go_on(&mut self, paused: Paused, now: Moment, ties: &mut dyn TieBreaker) -> Attempt {
        let uid = paused.queued.pod.uid.clone();
        let was_paused = self.paused.remove(&uid);
        if let Some(why) = self.overtaken(&paused, was_paused) {
            if was_paused {
                self.queue.done(&uid);
            }
            let pod = paused.queued.pod;
            let event = None;
            return Attempt::Skipped(Skipped { pod, why, event });
        }
        let Paused {
            queued,
            profile,
            offer,
            totals,
            failed,
            ..
        } = paused;
        if let Some(error) = failed {
            let nomination = Nomination::Clear;
            let failure = self.failure(queued, Cause::Error(error), &nomination, None, now);
            return Attempt::Failed(Box::new(failure));
        }
        if offer.nominated && offer.nodes.is_empty() {
            // They don't agree to the node that the pod was to have: look everywhere.
            return self.schedule(queued, profile, false, now, ties);
        }
        let pod = queued.pod.clone();
        let size = self.search_size(&profile, true);
        let mut state = CycleState::new();
        let nodes = self.cache.nodes_mut();
        let around = Surroundings {
            nominator: &self.nominator,
            waiting: &self.waiting,
            objects: &self.objects,
        };
        let mut cycle = Cycle::new(&profile, nodes, around);
        let offered = Offered { offer, totals };
        let classes = &mut self.classes;
        let chosen =
            cycle::choose_offered(&mut cycle, &mut state, &pod, offered, size, classes, ties);
        self.conclude(queued, profile, state, chosen, now)
    }

    /// Why the attempt needn't go on: the pod went, or found its place, while extenders were asked.
    fn overtaken(&self, paused: &Paused, was_paused: bool) -> Option<SkipReason> {
        let uid = &paused.queued.pod.uid;
        if self.cache.pod(uid).is_some() {
            return Some(SkipReason::Placed);
        }
        match self.pending.get(uid) {
            Some(pod) if pod.deleting => Some(SkipReason::Deleting),
            Some(_) if was_paused => None,
            _ => Some(SkipReason::Gone),
        }
    }
}
