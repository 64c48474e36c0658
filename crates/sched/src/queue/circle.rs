//! Owns waiting pods that the same plugins rejected: sorts with equal needs, in each those of one namespace with equal
//! labels together. An index says which sorts another pod may matter to, so that not each of thousands is asked about.
//! Knows nothing of events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::QueuedPod;
use super::hints::{Hints, Rejected};
use super::kindred::{Help, Kept, Kindred};
use super::reads::{AllNodeReads, NodeReads};
use crate::counts::{Anchored, Labelled, PodSet};
use crate::guard::caught;
use crate::names::PodUid;
use crate::plugin::OtherPods;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
use crate::status::PluginName;

/// What the pods of a circle have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CircleKey {
    profile: Arc<str>,
    rejected_by: BTreeSet<PluginName>,
    pending_by: BTreeSet<PluginName>,
    gate: Option<PluginName>,
}

impl CircleKey {
    pub(super) fn of(queued: &QueuedPod) -> Self {
        Self {
            profile: queued.pod.scheduler_name.clone(),
            rejected_by: queued.rejected_by.clone(),
            pending_by: queued.pending_by.clone(),
            gate: queued.gate.as_ref().map(|gate| gate.plugin),
        }
    }

    /// How they were rejected.
    pub(super) const fn rejected(&self) -> Rejected<'_> {
        Rejected {
            profile: &self.profile,
            by: &self.rejected_by,
            pending_by: &self.pending_by,
            gate: self.gate,
        }
    }

    /// Everybody who has a say about them.
    fn asked(&self) -> BTreeSet<PluginName> {
        let rejecting = self.rejected_by.iter().chain(&self.pending_by);
        rejecting.chain(&self.gate).copied().collect()
    }

    /// What the hints about pods with these needs read of a node: of the needs, and of the node's labels.
    fn reads(&self, needs: &PodNeeds, hints: &Hints) -> [Option<Vec<String>>; 2] {
        let asked = self.asked();
        let of_needs = asked.iter();
        let of_needs = of_needs.map(|plugin| hints.reads_for_nodes(&self.profile, plugin, needs));
        let mut tell = asked.clone();
        tell.retain(|plugin| hints.tells_node_labels(&self.profile, plugin));
        let labels = tell.iter();
        let labels = labels.map(|plugin| hints.node_labels(&self.profile, plugin, needs));
        let labels = labels.collect::<Option<Vec<_>>>();
        let labels = labels.and_then(|each| each.into_iter().reduce(|one, other| &one | &other));
        let labels = labels.map(|keys| keys.into_iter().collect());
        [of_needs.collect(), labels]
    }

    /// Those of them who say to whom other pods matter.
    fn with_index<'a>(&self, hints: &'a Hints) -> Vec<(PluginName, &'a dyn OtherPods)> {
        let known = self.asked().into_iter();
        known
            .filter_map(|plugin| Some((plugin, hints.other_pods(&self.profile, plugin)?)))
            .collect()
    }
}

/// What the pods of a sort may differ in and plugins that look at other pods read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kin {
    namespace: Arc<str>,
    // Kept once, as needs are.
    labels: usize,
}

impl Kin {
    fn of(pod: &PodInfo) -> Self {
        Self {
            namespace: pod.key.namespace.clone(),
            labels: std::ptr::from_ref(pod.labels()).addr(),
        }
    }
}

/// Pods with equal needs.
#[derive(Debug)]
pub(super) struct Sort {
    // One of them that is, or was, here, and stands for all in what they need; it keeps the address of the needs taken.
    one: Arc<PodInfo>,
    kin: BTreeMap<Kin, Kindred>,
    reads: NodeReads,
    // Of all kin.
    pods: usize,
    kept: Kept,
}

impl Sort {
    /// What its pods' hints read of a node.
    pub(super) const fn reads(&self) -> &NodeReads {
        &self.reads
    }

    /// One that has the needs of all.
    pub(super) const fn one(&self) -> &Arc<PodInfo> {
        &self.one
    }
}

/// A sort, by number.
pub(super) type SortId = u32;

/// To which sorts other pods matter, by one plugin.
#[derive(Debug, Default)]
struct Sought {
    by_set: Anchored,
    // Any pod may matter to these.
    by_any: BTreeSet<SortId>,
}

/// Pods that the same plugins rejected.
#[derive(Debug, Default)]
pub(super) struct Circle {
    sorts: Vec<Option<Sort>>,
    free: Vec<SortId>,
    // Equal needs are kept once by the scheduler.
    by_needs: HashMap<usize, SortId>,
    sought: BTreeMap<PluginName, Sought>,
    labelled: Labelled,
    reads: AllNodeReads,
    // No sort before this one has help that wasn't told; `None` if none has.
    helped_from: Option<SortId>,
}

fn needs_of(pod: &PodInfo) -> usize {
    Arc::as_ptr(&pod.needs).addr()
}

/// What a plugin seeks; of one that panics, anything.
fn sought(plugin: &dyn OtherPods, sort: &Sort) -> Option<Vec<PodSet>> {
    caught(|| plugin.sought(&sort.one.needs)).ok().flatten()
}

impl Circle {
    pub(super) fn is_empty(&self) -> bool {
        self.by_needs.is_empty()
    }

    pub(super) fn insert(&mut self, queued: &QueuedPod, key: &CircleKey, hints: &Hints) {
        let pod = &queued.pod;
        let indexed = key.with_index(hints);
        let needs = needs_of(pod);
        let known = self.by_needs.get(&needs).copied();
        let id = known.unwrap_or_else(|| {
            let [of_needs, labels] = key.reads(&pod.needs, hints);
            let reads = self.reads.keep(of_needs, labels);
            self.add(needs, pod, reads, &indexed)
        });
        if let Some(Some(sort)) = self.sorts.get_mut(id as usize) {
            if !indexed.is_empty() {
                self.labelled.insert(pod.labels(), id);
            }
            sort.kin.entry(Kin::of(pod)).or_default().insert(queued);
            sort.pods = sort.pods.saturating_add(1);
        }
    }

    fn add(
        &mut self,
        needs: usize,
        pod: &Arc<PodInfo>,
        reads: NodeReads,
        indexed: &[(PluginName, &dyn OtherPods)],
    ) -> SortId {
        let sort = Sort {
            one: pod.clone(),
            kin: BTreeMap::new(),
            reads,
            pods: 0,
            kept: Kept::default(),
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.sorts.push(None);
            u32::try_from(self.sorts.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        for (name, plugin) in indexed {
            let index = self.sought.entry(name).or_default();
            match sought(*plugin, &sort) {
                None => drop(index.by_any.insert(id)),
                Some(sets) => {
                    for set in &sets {
                        let (place, selector) = set.anchor();
                        index.by_set.insert(place, selector, id);
                    }
                }
            }
        }
        self.by_needs.insert(needs, id);
        self.sorts[id as usize] = Some(sort);
        id
    }

    pub(super) fn remove(&mut self, pod: &PodInfo, key: &CircleKey, hints: &Hints) {
        let needs = needs_of(pod);
        let Some(&id) = self.by_needs.get(&needs) else {
            return;
        };
        let Some(Some(sort)) = self.sorts.get_mut(id as usize) else {
            return;
        };
        let indexed = key.with_index(hints);
        let kin = Kin::of(pod);
        if let Some(kindred) = sort.kin.get_mut(&kin) {
            if kindred.remove(&pod.uid) {
                sort.pods = sort.pods.saturating_sub(1);
                if !indexed.is_empty() {
                    self.labelled.remove(pod.labels(), id);
                }
            }
            if kindred.is_empty() {
                sort.kin.remove(&kin);
            }
        }
        if !sort.kin.is_empty() {
            return;
        }
        for (name, plugin) in indexed {
            if let Some(index) = self.sought.get_mut(name) {
                index.by_any.remove(&id);
                for set in sought(plugin, sort).into_iter().flatten() {
                    let (place, selector) = set.anchor();
                    index.by_set.remove(place, selector, id);
                }
            }
        }
        self.by_needs.remove(&needs);
        if let Some(gone) = self.sorts[id as usize].take() {
            self.reads.release(gone.reads);
        }
        self.free.push(id);
    }

    /// The numbers of all sorts.
    pub(super) fn ids(&self) -> Vec<SortId> {
        let all = self.sorts.iter().zip(0..);
        all.filter_map(|(sort, id)| sort.as_ref().map(|_| id))
            .collect()
    }

    pub(super) fn sort(&self, id: SortId) -> Option<&Sort> {
        self.sorts.get(id as usize)?.as_ref()
    }

    /// The sort of a pod that has, or had, these needs.
    pub(super) fn id_of(&self, pod: &PodInfo) -> Option<SortId> {
        self.by_needs.get(&needs_of(pod)).copied()
    }

    /// An event helps all pods of a sort; how many they are.
    pub(super) fn help_sort(&mut self, id: SortId, help: Help) -> usize {
        let Some(Some(sort)) = self.sorts.get_mut(id as usize) else {
            return 0;
        };
        sort.kept.keep(help);
        let helped = sort.pods;
        self.has_help(id);
        helped
    }

    /// The pods of a sort, those that are equal to plugins that look at other pods together. Whoever helps some of
    /// them as a whole says so: [`Circle::has_help`].
    pub(super) fn kin_mut(&mut self, id: SortId) -> impl Iterator<Item = &mut Kindred> {
        let sort = self.sorts.get_mut(id as usize).and_then(Option::as_mut);
        sort.into_iter().flat_map(|sort| sort.kin.values_mut())
    }

    /// Something is kept for some of a sort.
    pub(super) fn has_help(&mut self, id: SortId) {
        self.helped_from = Some(self.helped_from.map_or(id, |from| from.min(id)));
    }

    /// Whether some that are helped may not have been told.
    pub(super) const fn is_helped(&self) -> bool {
        self.helped_from.is_some()
    }

    /// What is kept for a pod.
    pub(super) fn help_for(&self, queued: &QueuedPod) -> Option<&Help> {
        let sort = self.sort(self.id_of(&queued.pod)?)?;
        let kindred = sort.kin.get(&Kin::of(&queued.pod))?;
        kindred.kept.best(&sort.kept, queued.waits_since)
    }

    /// As [`Kindred::tell`], of all.
    pub(super) fn tell(&mut self, most: usize, told: &mut Vec<(PodUid, Help)>) {
        let Some(from) = self.helped_from.take() else {
            return;
        };
        for (sort, id) in self.sorts.iter_mut().zip(0..).skip(from as usize) {
            let Some(Sort { kin, kept, .. }) = sort else {
                continue;
            };
            if !kin
                .values_mut()
                .all(|kindred| kindred.tell(kept, most, told))
            {
                self.helped_from = Some(id);
                return;
            }
            *kept = Kept::default();
        }
    }

    /// The sorts to which a pod may matter that was like this before its event and is like that after it; `None` for
    /// all of them. `itself` is the same pod, should it be one of those that wait.
    pub(super) fn meant(
        &self,
        plugins: &[(PluginName, &dyn OtherPods)],
        (before, after): (Option<&PodInfo>, Option<&PodInfo>),
        itself: Option<&PodInfo>,
    ) -> Option<Vec<SortId>> {
        let mut found: Vec<SortId> = Vec::new();
        let itself = itself.and_then(|pod| self.id_of(pod));
        found.extend(itself);
        for (name, plugin) in plugins {
            let index = self.sought.get(name)?;
            found.extend(&index.by_any);
            for pod in before.into_iter().chain(after) {
                found.append(&mut index.by_set.find(&pod.key.namespace, pod.labels()));
            }
            let kept_away = before.map(|pod| caught(|| plugin.kept_away(pod)));
            for set in kept_away.transpose().ok()?.into_iter().flatten() {
                let (_, selector) = set.anchor();
                if !self.labelled.find(selector, &mut found) {
                    return None;
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use crate::labels::Labels;
    use crate::moment::Moment;
    use crate::plugins::stock_profile;
    use crate::profile::Profiles;
    use crate::queue::hints::Hints;
    use crate::queue::pool::Pool;
    use crate::queue::{Gate, QueuedPod};
    use crate::status::Status;
    use crate::test_objects::{NeverBinds, pod, pods_with, uid};

    fn hints() -> Hints {
        let profile = stock_profile("test", Arc::new(NeverBinds)).build();
        let profiles = Profiles::new([profile.unwrap()]).unwrap();
        Hints::new(&profiles, Arc::default())
    }

    #[test]
    fn pods_that_were_rejected_alike_are_a_circle_and_equal_ones_a_sort() {
        let needs = pod("first").info().needs.clone();
        let queued = |name: &str, by: &'static str| {
            let mut info = (*pod(name).info()).clone();
            info.needs = needs.clone();
            let mut queued = QueuedPod::new(info.into(), Moment::ZERO, 0);
            queued.rejected_by = BTreeSet::from([by]);
            queued
        };
        let (mut pool, hints) = (Pool::default(), hints());
        for (name, by) in [("a", "Fit"), ("b", "Fit"), ("c", "Taints"), ("d", "Fit")] {
            pool.insert(queued(name, by), &hints);
        }
        let mut other = queued("e", "Fit");
        other.pod = pod("e").info();
        pool.insert(other, &hints);
        let mut gated = queued("d", "Fit");
        gated.gate = Some(Gate {
            plugin: "Gates",
            status: Status::unschedulable("gated"),
        });
        pool.insert(gated, &hints);
        let circles = |pool: &mut Pool| {
            let circles = pool.circles_mut().map(|(_, circle)| {
                let sorts = circle.ids().into_iter().map(|id| -> Vec<_> {
                    let pods = circle.kin_mut(id).flat_map(|kindred| kindred.pods());
                    let uids = pods.map(|pod| pod.uid.to_string());
                    uids.collect::<BTreeSet<_>>().into_iter().collect()
                });
                sorts.collect::<Vec<_>>()
            });
            circles.collect::<BTreeSet<_>>()
        };
        let sorts = |sorts: &[&[&str]]| {
            let uids = |sort: &&[&str]| sort.iter().map(|name| uid(name).to_string()).collect();
            sorts.iter().map(uids).collect::<Vec<Vec<_>>>()
        };
        let expected = [
            sorts(&[&["a", "b"], &["e"]]),
            sorts(&[&["c"]]),
            sorts(&[&["d"]]),
        ];
        assert_eq!(circles(&mut pool), expected.into());
        assert_eq!((pool.len(), pool.is_gated(&uid("d"))), ((4, 1), true));
        for name in ["a", "b", "c", "d", "e"] {
            assert!(pool.remove(&uid(name), &hints).is_some());
        }
        assert!(pool.is_empty() && circles(&mut pool).is_empty());
        assert!(pool.remove(&uid("a"), &hints).is_none());
    }

    #[test]
    fn within_a_sort_pods_with_equal_labels_are_together() {
        let (needs, labels) = (pod("first").info().needs.clone(), Arc::new(Labels::new()));
        let (mut pool, hints) = (Pool::default(), hints());
        for (name, namespace, own_labels) in [
            ("a", "m", false),
            ("b", "n", false),
            ("c", "n", false),
            ("d", "n", true),
        ] {
            let mut info = (*pod(name).info()).clone();
            info.needs = needs.clone();
            info.key.namespace = namespace.into();
            if !own_labels {
                info.labels = labels.clone();
            }
            pool.insert(QueuedPod::new(info.into(), Moment::ZERO, 0), &hints);
        }
        let (_, circle) = pool.circles_mut().next().unwrap();
        let ids = circle.ids();
        let mut sizes: Vec<_> = circle
            .kin_mut(ids[0])
            .map(|kindred| kindred.len())
            .collect();
        sizes.sort_unstable();
        assert_eq!((ids.len(), sizes), (1, vec![1, 1, 2]));
    }

    #[test]
    fn the_index_keeps_nothing_of_those_who_went() {
        let (mut pool, hints) = (Pool::default(), hints());
        let wish = |name: &str| pods_with("zone", &[("app", name)]);
        for name in ["a", "b", "stays"] {
            let info = pod(name)
                .label("app", name)
                .near(wish(name))
                .away_from(wish("c"));
            let mut queued = QueuedPod::new(info.info(), Moment::ZERO, 0);
            queued.rejected_by = BTreeSet::from(["InterPodAffinity", "PodTopologySpread"]);
            pool.insert(queued, &hints);
        }
        let meant = |pool: &mut Pool, app: &str| {
            let (key, circle) = pool.circles_mut().next().unwrap();
            let plugins = key.with_index(&hints);
            let other = pod("other")
                .label("app", app)
                .away_from(wish("stays"))
                .info();
            let came = circle.meant(&plugins, (None, Some(&other)), None);
            let went = circle.meant(&plugins, (Some(&other), None), None);
            (came.unwrap().len(), went.unwrap().len())
        };
        let before = (
            meant(&mut pool, "a"),
            meant(&mut pool, "c"),
            meant(&mut pool, "d"),
        );
        assert_eq!(before, ((1, 2), (3, 3), (0, 1)));
        for name in ["a", "b"] {
            pool.remove(&uid(name), &hints);
        }
        let after = (
            meant(&mut pool, "a"),
            meant(&mut pool, "c"),
            meant(&mut pool, "d"),
        );
        assert_eq!(after, ((0, 1), (1, 1), (0, 1)));
    }
}
