//! Keeps pods off nodes without room for them, and ranks nodes by the room that is left. Reasons, formulas and their
//! order are those of kube-scheduler 1.36.3 (`plugins/noderesources`).
//!
//! Its hint honours ignored resources, as its Filter does; upstream's counts them, so that pods miss nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::resource_load::ResourceLoad;
use super::scoring_strategy::{Load, ScoringStrategy};
use crate::coming::Coming;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::names::PodUid;
use crate::node_object::NodeObject;
use crate::plugin::{EnqueueExtensions, Filter, FilterBySums, HintReads, Plugin, PodSums, Score};
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, RejectionId};
use crate::resources::{ResourceName, ResourceSum, Resources, is_extended};
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Reason, Rejection, RejectionKind, Verdict};
use crate::table::{Column, NodeId, NodeTable, NodeView, Reads};

/// What `NodeResourcesFit` can be told.
#[derive(Clone, Debug, Default)]
pub struct FitArgs {
    /// Extended resources that Filter leaves to others, by name.
    pub ignored_resources: BTreeSet<String>,
    /// Extended resources that Filter leaves to others, by the domain before the slash.
    pub ignored_resource_groups: BTreeSet<String>,
    /// How nodes are ranked.
    pub scoring_strategy: ScoringStrategy,
}

/// Resource requests against what a node has.
#[derive(Clone, Debug, Default)]
pub struct NodeResourcesFit {
    args: FitArgs,
}

/// Why a node has no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitReason {
    /// Every pod slot is taken.
    TooManyPods,
    /// Not enough of this resource is left.
    Insufficient(ResourceName),
    /// What this pod takes there isn't known. Its name is no business of whoever reads this.
    Unread(PodUid),
}

impl From<FitReason> for Reason {
    fn from(reason: FitReason) -> Self {
        match reason {
            FitReason::TooManyPods => Self::fixed("Too many pods"),
            FitReason::Insufficient(ResourceName::Cpu) => Self::fixed("Insufficient cpu"),
            FitReason::Insufficient(ResourceName::Memory) => Self::fixed("Insufficient memory"),
            FitReason::Insufficient(ResourceName::EphemeralStorage) => {
                Self::fixed("Insufficient ephemeral-storage")
            }
            FitReason::Insufficient(name) => Self::from(format!("Insufficient {}", name.as_str())),
            FitReason::Unread(uid) => Self::from(format!(
                "node(s) had a pod that could not be taken in (UID {uid})"
            )),
        }
    }
}

/// What a node lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    PodSlot,
    Cpu,
    Memory,
    EphemeralStorage,
    /// The scalar at this place of what the pod asks for.
    Scalar(usize),
}

impl Lack {
    fn reason(self, wanted: &Resources) -> FitReason {
        FitReason::Insufficient(match self {
            Self::PodSlot => return FitReason::TooManyPods,
            Self::Cpu => ResourceName::Cpu,
            Self::Memory => ResourceName::Memory,
            Self::EphemeralStorage => ResourceName::EphemeralStorage,
            Self::Scalar(at) => {
                let name = wanted.scalars().nth(at).map(|(name, _)| name.clone());
                ResourceName::Scalar(name.unwrap_or_default())
            }
        })
    }
}

/// All that a node lacks for a pod. Thousands of nodes lack the same, so that it is put in words once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shortage {
    lacks: Vec<Lack>,
    /// Whether the whole node wouldn't do.
    hopeless: bool,
}

impl Shortage {
    fn add(&mut self, lack: Lack, too_large: bool) {
        self.lacks.push(lack);
        self.hopeless |= too_large;
    }

    /// `None` if nothing is lacking.
    fn rejection(&self, wanted: &Resources) -> Option<Rejection> {
        let kind = if self.hopeless {
            RejectionKind::UnschedulableAndUnresolvable
        } else {
            RejectionKind::Unschedulable
        };
        let mut reasons = self.lacks.iter().map(|lack| lack.reason(wanted));
        let first = Rejection::new(kind, reasons.next()?);
        Some(reasons.fold(first, Rejection::and))
    }
}

/// Room on a node: what it has, and what is taken.
#[derive(Clone, Copy)]
struct Room<'a> {
    allocatable: &'a Resources,
    requested: &'a ResourceSum,
    pods: i64,
}

impl<'a> Room<'a> {
    fn on(node: &'a NodeView<'_>) -> Self {
        Self {
            allocatable: node.allocatable(),
            requested: node.requested(),
            pods: pods_on(*node),
        }
    }
}

impl NodeResourcesFit {
    /// With arguments.
    pub const fn new(args: FitArgs) -> Self {
        Self { args }
    }

    fn ignores(&self, name: &str) -> bool {
        let group = |(group, _)| self.args.ignored_resource_groups.contains(group);
        let named = self.args.ignored_resources.contains(name);
        (named || name.split_once('/').is_some_and(group)) && is_extended(name)
    }

    /// Every reason why `wanted` doesn't fit, and whether it is more than the whole node has.
    fn shortages(&self, wanted: &Resources, room: Room<'_>, mut tell: impl FnMut(Lack, bool)) {
        let Room {
            allocatable: has,
            requested: used,
            pods,
        } = room;
        if pods >= has.pods {
            tell(Lack::PodSlot, false);
        }
        let mut check = |lack: Lack, wanted: i64, has: i64, used: i128| {
            if wanted > 0 && i128::from(wanted) > i128::from(has).saturating_sub(used) {
                tell(lack, wanted > has);
            }
        };
        check(Lack::Cpu, wanted.milli_cpu, has.milli_cpu, used.milli_cpu);
        check(Lack::Memory, wanted.memory, has.memory, used.memory);
        check(
            Lack::EphemeralStorage,
            wanted.ephemeral_storage,
            has.ephemeral_storage,
            used.ephemeral_storage,
        );
        for (at, (name, wanted)) in wanted.scalars().enumerate() {
            if !self.ignores(name) {
                let (has, used) = (has.scalar(name), used.scalar(name));
                check(Lack::Scalar(at), wanted, has, used);
            }
        }
    }

    /// Whether the pod would fit if nothing else were on the node.
    fn fits_empty(&self, pod: &PodInfo, node: &NodeObject) -> bool {
        let room = Room {
            allocatable: &node.allocatable,
            requested: &ResourceSum::default(),
            pods: 0,
        };
        let mut fits = true;
        self.shortages(&pod.needs.requests.asked, room, |_, _| fits = false);
        fits
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> PluginName {
        "NodeResourcesFit"
    }
}

impl EnqueueExtensions for NodeResourcesFit {
    fn events(&self) -> Vec<EventKind> {
        let shrink = Actions::UPDATE_POD_SCALE_DOWN;
        vec![
            EventKind::new(EventResource::AssignedPod, Actions::DELETE | shrink),
            EventKind::new(EventResource::TargetPod, shrink),
            EventKind::new(
                EventResource::Node,
                Actions::ADD | Actions::UPDATE_NODE_ALLOCATABLE,
            ),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        match &event.object {
            EventObject::Pod {
                old: Some(old),
                new: Some(new),
            } if old.uid != pod.uid => {
                let (before, after) = (&old.needs.requests.total, &new.needs.requests.total);
                let less = |name: &_| after.get(name) < before.get(name);
                Hint::queue_if(any_of(&pod.needs.requests.total, less))
            }
            EventObject::Node {
                old,
                new: Some(new),
            } => {
                let grew = old.as_ref().is_none_or(|old| {
                    let (before, after) = (&old.allocatable, &new.allocatable);
                    after.pods > before.pods
                        || any_of(&pod.needs.requests.asked, |name| {
                            after.get(name) > before.get(name)
                        })
                });
                Hint::queue_if(grew && self.fits_empty(pod, new))
            }
            _ => Hint::Queue,
        }
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

/// Whether one of the wanted resources passes the test.
fn any_of(wanted: &Resources, test: impl Fn(&ResourceName) -> bool) -> bool {
    [
        ResourceName::Cpu,
        ResourceName::Memory,
        ResourceName::EphemeralStorage,
    ]
    .into_iter()
    .chain(
        wanted
            .scalars()
            .map(|(name, _)| ResourceName::Scalar(name.clone())),
    )
    .any(|name| wanted.get(&name) > 0 && test(&name))
}

/// How many pods are on a node.
fn pods_on(node: NodeView<'_>) -> i64 {
    i64::try_from(node.pods().len()).unwrap_or(i64::MAX)
}

impl NodeResourcesFit {
    fn judge(&self, pod: &PodInfo, node: NodeView<'_>, room: Room<'_>) -> Verdict {
        if let Some(unread) = node.unread_pod() {
            let kind = RejectionKind::UnschedulableAndUnresolvable;
            return Err(Rejection::new(kind, FitReason::Unread(unread.clone())).into());
        }
        let (mut shortage, wanted) = (Shortage::default(), &pod.needs.requests.asked);
        self.shortages(wanted, room, |lack, too_large| {
            shortage.add(lack, too_large);
        });
        match shortage.rejection(wanted) {
            None => Ok(()),
            Some(rejection) => Err(rejection.into()),
        }
    }
}

/// What was said of nodes, by what they lack.
#[derive(Debug, Default)]
struct Told {
    shortage: Shortage,
    by_shortage: BTreeMap<Shortage, RejectionId>,
}

impl Told {
    /// Refuses the node at this place of the list, unless it lacks nothing.
    fn refuse(
        &mut self,
        fit: &NodeResourcesFit,
        wanted: &Resources,
        room: Room<'_>,
        at: usize,
        refusals: &mut Refusals<'_>,
    ) {
        self.shortage.lacks.clear();
        self.shortage.hopeless = false;
        fit.shortages(wanted, room, |lack, too_large| {
            self.shortage.add(lack, too_large);
        });
        let known = self.by_shortage.get(&self.shortage).copied();
        let id = known.or_else(|| {
            let id = refusals.keep(self.shortage.rejection(wanted)?);
            self.by_shortage.insert(self.shortage.clone(), id);
            Some(id)
        });
        if let Some(id) = id {
            refusals.refuse(at, id);
        }
    }
}

impl FilterBySums for NodeResourcesFit {
    fn filter_without(&self, pod: &PodInfo, node: NodeView<'_>, gone: &PodSums) -> Verdict {
        let room = Room {
            allocatable: node.allocatable(),
            requested: &node.requested().without(&gone.requests),
            pods: pods_on(node).saturating_sub(gone.pods),
        };
        self.judge(pod, node, room)
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        self.judge(pod, node, Room::on(&node))
    }

    fn by_sums(&self) -> Option<&dyn FilterBySums> {
        Some(self)
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT | Reads::PODS
    }

    fn filter_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        refusals: &mut Refusals<'_>,
    ) -> Result<(), PluginError> {
        let asked = &pod.needs.requests.asked;
        let columns_suffice = asked.scalars().len() == 0;
        let wanted = Column::ALL.map(|column| (column, column.amount(asked)));
        let mut told = Told::default();
        let numbers = table.numbers();
        for (at, &id) in nodes.iter().enumerate() {
            let fits = |(column, wanted): (Column, i64)| {
                let has = numbers.allocatable(column, id);
                wanted <= 0 || wanted <= has.saturating_sub(numbers.requested(column, id))
            };
            let fits = columns_suffice
                && numbers.free_pods(id) > 0
                && !numbers.is_closed(id)
                && wanted.into_iter().all(fits);
            // Who doesn't fit is told why.
            let Some(node) = table.get(id).filter(|_| !fits) else {
                continue;
            };
            if node.unread_pod().is_some() {
                refusals.note(at, self.filter(state, pod, node))?;
            } else {
                told.refuse(self, asked, Room::on(&node), at, refusals);
            }
        }
        Ok(())
    }
}

impl Score for NodeResourcesFit {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        let (taken, own) = (node.non_zero_requested(), &pod.needs.requests.ranked);
        let coming = state.get::<Arc<Coming>>();
        let coming = coming.and_then(|all| all.at(node.name()));
        let strategy = &self.args.scoring_strategy;
        let loads = strategy.resources().iter().filter_map(|resource| {
            let name = &resource.name;
            let coming = coming.map_or(0, |coming| coming.non_zero.get(name));
            let taken = taken.get(name).saturating_add(coming);
            let load = ResourceLoad::of(name, node.allocatable().get(name), taken, own.get(name))?;
            Some(Load {
                requested: load.after,
                allocatable: load.allocatable,
                weight: resource.weight,
            })
        });
        Ok(strategy.score(loads))
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT | Reads::PODS
    }

    fn score_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let strategy = &self.args.scoring_strategy;
        let own = &pod.needs.requests.ranked;
        let columns = strategy.resources().iter().map(|resource| {
            let column = Column::of(&resource.name)?;
            Some((column, column.amount(own), resource.weight))
        });
        let columns = columns.collect::<Option<Vec<_>>>();
        let (Some(columns), None) = (columns, state.get::<Arc<Coming>>()) else {
            for &id in nodes {
                let node = table.get(id);
                scores.push(node.map_or(Ok(0), |node| self.score(state, pod, node))?);
            }
            return Ok(());
        };
        let numbers = table.numbers();
        scores.extend(nodes.iter().map(|&id| {
            strategy.score(columns.iter().filter_map(|&(column, wanted, weight)| {
                let allocatable = numbers.allocatable(column, id);
                let taken = numbers.non_zero_requested(column, id);
                (allocatable > 0).then(|| Load {
                    requested: taken.saturating_add(wanted),
                    allocatable,
                    weight,
                })
            }))
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
