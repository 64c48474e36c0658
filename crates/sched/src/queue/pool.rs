//! Owns the pods that wait for an event, in groups of pods of one class that the same plugins rejected, and within each by
//! namespace and labels. Knows nothing of events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::QueuedPod;
use crate::names::PodUid;
use crate::status::PluginName;

/// What the pods of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Group {
    profile: Arc<str>,
    // Equal needs are kept once by the scheduler, and as long as a pod has them.
    needs: usize,
    rejected_by: BTreeSet<PluginName>,
    pending_by: BTreeSet<PluginName>,
    gate: Option<PluginName>,
}

impl Group {
    fn of(queued: &QueuedPod) -> Self {
        Self {
            profile: queued.pod.scheduler_name.clone(),
            needs: Arc::as_ptr(&queued.pod.needs).addr(),
            rejected_by: queued.rejected_by.clone(),
            pending_by: queued.pending_by.clone(),
            gate: queued.gate.as_ref().map(|gate| gate.plugin),
        }
    }
}

/// What the pods of a group may differ in and plugins that look at other pods read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kin {
    namespace: Arc<str>,
    // Kept once, as needs are.
    labels: usize,
}

impl Kin {
    fn of(queued: &QueuedPod) -> Self {
        Self {
            namespace: queued.pod.key.namespace.clone(),
            labels: std::ptr::from_ref(queued.pod.labels()).addr(),
        }
    }
}

/// UIDs of the pods of a group.
type Members = BTreeMap<Kin, BTreeSet<PodUid>>;

/// Pods that wait for an event: those that no node would take, and gated ones.
#[derive(Debug, Default)]
pub(super) struct Pool {
    // Ordered, so that they are told in a repeatable order.
    unschedulable: BTreeMap<PodUid, QueuedPod>,
    gated: BTreeMap<PodUid, QueuedPod>,
    groups: HashMap<Group, Members>,
}

impl Pool {
    /// Keeps a pod; a gate makes it a gated one.
    pub(super) fn insert(&mut self, queued: QueuedPod) {
        let uid = queued.pod.uid.clone();
        self.remove(&uid);
        let group = self.groups.entry(Group::of(&queued)).or_default();
        let kin = group.entry(Kin::of(&queued)).or_default();
        kin.insert(uid.clone());
        if queued.gate.is_some() {
            self.gated.insert(uid, queued);
        } else {
            self.unschedulable.insert(uid, queued);
        }
    }

    pub(super) fn remove(&mut self, uid: &PodUid) -> Option<QueuedPod> {
        let removed = self.unschedulable.remove(uid);
        let queued = removed.or_else(|| self.gated.remove(uid))?;
        let group = Group::of(&queued);
        if let Some(members) = self.groups.get_mut(&group) {
            let kin = Kin::of(&queued);
            if let Some(uids) = members.get_mut(&kin) {
                uids.remove(uid);
                if uids.is_empty() {
                    members.remove(&kin);
                }
            }
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(queued)
    }

    pub(super) fn get(&self, uid: &PodUid) -> Option<&QueuedPod> {
        self.unschedulable.get(uid).or_else(|| self.gated.get(uid))
    }

    pub(super) fn is_gated(&self, uid: &PodUid) -> bool {
        self.gated.contains_key(uid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unschedulable.is_empty() && self.gated.is_empty()
    }

    /// Those that no node would take, then the gated ones, each by UID.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.unschedulable.values().chain(self.gated.values())
    }

    /// The groups in no particular order, each with its pods, those of one namespace with equal labels together.
    pub(super) fn groups(
        &self,
    ) -> impl Iterator<Item = impl Iterator<Item = impl Iterator<Item = &QueuedPod> + Clone> + Clone>
    {
        let groups = self.groups.values();
        groups.map(move |members| {
            let kins = members.values();
            kins.map(move |uids| uids.iter().filter_map(move |uid| self.get(uid)))
        })
    }

    /// How many there are that no node would take, and how many gated ones.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.unschedulable.len(), self.gated.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::Pool;
    use crate::labels::Labels;
    use crate::moment::Moment;
    use crate::queue::{Gate, QueuedPod};
    use crate::status::Status;
    use crate::test_objects::{pod, uid};

    #[test]
    fn equal_pods_that_were_rejected_alike_are_one_group() {
        let needs = pod("first").info().needs.clone();
        let queued = |name: &str, by: &'static str| {
            let mut info = (*pod(name).info()).clone();
            info.needs = needs.clone();
            let mut queued = QueuedPod::new(info.into(), Moment::ZERO, 0);
            queued.rejected_by = BTreeSet::from([by]);
            queued
        };
        let mut pool = Pool::default();
        for (name, by) in [("a", "Fit"), ("b", "Fit"), ("c", "Taints"), ("d", "Fit")] {
            pool.insert(queued(name, by));
        }
        let mut other = queued("e", "Fit");
        other.pod = pod("e").info();
        pool.insert(other);
        let mut gated = queued("d", "Fit");
        gated.gate = Some(Gate {
            plugin: "Gates",
            status: Status::unschedulable("gated"),
        });
        pool.insert(gated);
        let groups = |pool: &Pool| {
            let groups = pool.groups();
            let name = |queued: &QueuedPod| queued.pod.key.name.to_string();
            let mut names: Vec<Vec<String>> = groups
                .map(|kins| {
                    let mut names: Vec<_> = kins.flatten().map(name).collect();
                    names.sort();
                    names
                })
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            groups(&pool),
            [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]
        );
        assert_eq!((pool.len(), pool.is_gated(&uid("d"))), ((4, 1), true));
        for name in ["a", "b", "c", "d", "e"] {
            assert!(pool.remove(&uid(name)).is_some());
        }
        assert!(pool.is_empty() && groups(&pool).is_empty());
        assert!(pool.remove(&uid("a")).is_none());
    }

    #[test]
    fn within_a_group_pods_with_equal_labels_are_together() {
        let (needs, labels) = (pod("first").info().needs.clone(), Arc::new(Labels::new()));
        let mut pool = Pool::default();
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
            pool.insert(QueuedPod::new(info.into(), Moment::ZERO, 0));
        }
        let group = pool.groups().next().unwrap();
        let mut sizes: Vec<_> = group.map(Iterator::count).collect();
        sizes.sort_unstable();
        assert_eq!((pool.groups().count(), sizes), (1, vec![1, 1, 2]));
    }
}
