//! Free room in a few shapes, so that a source can tell what surely fits: pure.
//!
//! Rounded down, so that many nodes share a shape and a shape changes seldom; never rounded up, so that what fits a
//! shape fits the node. If there are too many shapes the steps get coarser; what is then too much is left out, the
//! smallest first, but never the last node with some special resource.

use std::collections::{BTreeMap, BTreeSet};

use pilotage_api::summary::FreeShape;
use pilotage_sched::resources::{ResourceName, Resources};

use super::amounts;

/// Most shapes that are told.
pub(crate) const LIMIT: usize = 16;

/// Steps that amounts are rounded down to: CPU in thousandths, bytes, pods.
const STEPS: [(i64, i64, i64); 4] = [
    (100, 64 << 20, 10),
    (500, 512 << 20, 10),
    (2000, 4 << 30, 20),
    (8000, 32 << 30, 50),
];
/// Step for local storage.
const STORAGE_STEP: i64 = 1 << 30;

/// Free room of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Room {
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    pods: i64,
    scalars: BTreeMap<String, i64>,
}

impl Room {
    /// What is free; `None` if not one pod fits.
    pub(crate) fn of(free: &Resources) -> Option<Self> {
        let room = Self {
            milli_cpu: free.milli_cpu.max(0),
            memory: free.memory.max(0),
            ephemeral_storage: free.ephemeral_storage.max(0),
            pods: free.pods,
            scalars: free
                .scalars()
                .filter(|(_, amount)| *amount > 0)
                .map(|(name, amount)| (name.to_string(), amount))
                .collect(),
        };
        (room.pods > 0).then_some(room)
    }

    /// In thousandths.
    pub(super) fn milli_cpu(&self) -> i64 {
        self.milli_cpu
    }

    /// In bytes.
    pub(super) fn memory(&self) -> i64 {
        self.memory
    }

    fn rounded(&self, (milli_cpu, bytes, pods): (i64, i64, i64)) -> Self {
        // A node with room for a few pods only has just that.
        let pods = if self.pods < pods {
            self.pods
        } else {
            down(self.pods, pods)
        };
        Self {
            milli_cpu: down(self.milli_cpu, milli_cpu),
            memory: down(self.memory, bytes),
            ephemeral_storage: down(self.ephemeral_storage, STORAGE_STEP),
            pods,
            scalars: self.scalars.clone(),
        }
    }

    fn resources(&self) -> Resources {
        let mut resources = Resources::default();
        resources.milli_cpu = self.milli_cpu;
        resources.memory = self.memory;
        resources.ephemeral_storage = self.ephemeral_storage;
        resources.pods = self.pods;
        for (name, amount) in &self.scalars {
            resources.set(&ResourceName::parse(name), *amount);
        }
        resources
    }

    /// CPU and memory as parts of the largest there are.
    fn size(&self, largest: (i64, i64)) -> f64 {
        let part = |amount: i64, of: i64| amount as f64 / of.max(1) as f64;
        part(self.milli_cpu, largest.0) + part(self.memory, largest.1)
    }
}

fn down(amount: i64, step: i64) -> i64 {
    amount.saturating_sub(amount.checked_rem(step).unwrap_or_default())
}

/// The shapes of these rooms, the roomiest first.
pub(crate) fn of(rooms: &[Room]) -> Vec<FreeShape> {
    let mut groups = BTreeMap::new();
    for steps in STEPS {
        groups = BTreeMap::new();
        for room in rooms {
            let nodes = groups.entry(room.rounded(steps)).or_insert(0_i64);
            *nodes = nodes.saturating_add(1);
        }
        if groups.len() <= LIMIT {
            break;
        }
    }
    let largest = groups.keys().fold((0, 0), |(cpu, memory), room| {
        (cpu.max(room.milli_cpu), memory.max(room.memory))
    });
    let mut sorted: Vec<(Room, i64)> = groups.into_iter().collect();
    sorted.sort_by(|(one, _), (two, _)| {
        two.size(largest)
            .total_cmp(&one.size(largest))
            .then_with(|| two.cmp(one))
    });
    keep(sorted)
        .into_iter()
        .map(|(room, nodes)| FreeShape {
            nodes,
            free: amounts::list(&room.resources()),
        })
        .collect()
}

/// The first [`LIMIT`], but with at least one for each special resource as far as that goes.
fn keep(sorted: Vec<(Room, i64)>) -> Vec<(Room, i64)> {
    if sorted.len() <= LIMIT {
        return sorted;
    }
    let mut known = BTreeSet::new();
    let mut chosen = BTreeSet::new();
    for (index, (room, _)) in sorted.iter().enumerate() {
        let new = room
            .scalars
            .keys()
            .filter(|name| known.insert((*name).clone()))
            .count()
            > 0;
        if new && chosen.len() < LIMIT {
            chosen.insert(index);
        }
    }
    let others: Vec<usize> = (0..sorted.len())
        .filter(|index| !chosen.contains(index))
        .collect();
    let free = LIMIT.saturating_sub(chosen.len());
    chosen.extend(others.into_iter().take(free));
    sorted
        .into_iter()
        .enumerate()
        .filter(|(index, _)| chosen.contains(index))
        .map(|(_, kept)| kept)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(cpu: i64, memory_mi: i64, pods: i64) -> Resources {
        let mut resources = Resources::default();
        resources.milli_cpu = cpu;
        resources.memory = memory_mi << 20;
        resources.pods = pods;
        resources
    }

    fn room(cpu: i64, memory_mi: i64, pods: i64, gpus: i64) -> Room {
        let mut resources = free(cpu, memory_mi, pods);
        resources.set(&ResourceName::parse("a.b/gpu"), gpus);
        Room::of(&resources).unwrap()
    }

    fn told(rooms: &[Room]) -> Vec<String> {
        of(rooms)
            .into_iter()
            .map(|shape| {
                let free: Vec<String> = shape
                    .free
                    .iter()
                    .map(|(name, amount)| format!("{name}={}", amount.0))
                    .collect();
                format!("{} x {}", shape.nodes, free.join(" "))
            })
            .collect()
    }

    #[test]
    fn nodes_that_are_alike_share_a_shape_that_is_rounded_down() {
        let rooms = vec![
            room(3950, 1080, 108, 0),
            room(3999, 1030, 101, 0),
            room(16_000, 65_536, 7, 0),
        ];
        assert_eq!(
            told(&rooms),
            [
                "1 x cpu=16 memory=64Gi pods=7",
                "2 x cpu=3900m memory=1Gi pods=100"
            ]
        );
    }

    #[test]
    fn a_full_node_has_no_shape_and_overcommitment_is_no_room() {
        assert_eq!(Room::of(&free(4000, 1024, 0)), None);
        assert_eq!(Room::of(&free(-5, 1024, 3)).unwrap().milli_cpu, 0);
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn many_shapes_get_coarser_first() {
        // 40 nodes in steps of 100m: 40 shapes, but 8 in steps of 500m.
        let rooms: Vec<Room> = (0..40)
            .map(|n| room(4000 + n * 100, 4096, 110, 0))
            .collect();
        let shapes = of(&rooms);
        assert_eq!(shapes.len(), 8);
        assert_eq!(shapes.iter().map(|shape| shape.nodes).sum::<i64>(), 40);
    }

    #[test]
    fn what_is_left_out_is_the_smallest_but_not_the_last_special_one() {
        let mut rooms: Vec<Room> = (1..=40)
            .map(|n| room(n * 8000, n * 32_768, 110, 0))
            .collect();
        rooms.push(room(8000, 32_768, 110, 4));
        let shapes = told(&rooms);
        assert_eq!(shapes.len(), LIMIT);
        assert!(shapes[0].contains("cpu=320 "), "{shapes:?}");
        assert!(
            shapes.iter().any(|shape| shape.contains("a.b/gpu=4")),
            "{shapes:?}"
        );
    }
}
