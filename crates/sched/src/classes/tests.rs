use std::sync::Arc;

use super::{Classes, Limits};
use crate::context::Context;
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::{CycleState, PluginMask};
use crate::table::NodeTable;
use crate::test_objects::{NeverBinds, Quiet, node, pod};

/// As small as a test likes.
const FEW: Limits = Limits {
    bytes: usize::MAX,
    classes: 5,
    unused: 100,
};

fn asking(cpu: usize) -> Arc<PodInfo> {
    let milli = format!("{cpu}m");
    pod("p").scheduler("test").request("cpu", &milli).info()
}

/// A cluster, and pods that are tried one after the other.
struct Tried {
    profile: Arc<Profile>,
    table: NodeTable,
    quiet: Quiet,
    classes: Classes,
}

impl Tried {
    fn new(nodes: usize, limits: Limits) -> Self {
        let mut table = NodeTable::default();
        for number in 0..nodes {
            let node = node(&format!("n{number}")).allocatable("cpu", "4");
            table.set_node(node.object());
        }
        Self {
            profile: stock_profile("test", Arc::new(NeverBinds)).build().unwrap(),
            table,
            quiet: Quiet::default(),
            classes: Classes::new(limits),
        }
    }

    /// Whether something was known of its class.
    fn hit(&mut self, pod: &PodInfo) -> bool {
        let cx = Context::new(&self.profile, &self.table, self.quiet.around());
        let state = CycleState::new();
        let mut taken = self.classes.take(pod, state.skipped_filters);
        let hit = !taken.class.is_empty();
        taken.class.follow(&cx, &state, pod).unwrap();
        self.classes.give_back(taken);
        let bytes = self.classes.known.values();
        let bytes: usize = bytes.map(|known| known.class.bytes()).sum();
        assert_eq!(self.classes.bytes, bytes, "the sum is kept");
        hit
    }
}

#[test]
fn there_are_never_more_classes_than_may_be_and_one_in_use_stays() {
    let mut tried = Tried::new(10, FEW);
    let first = asking(1);
    tried.hit(&first);
    // As many pods as a small cluster sees by and by, of which no two ask for the same.
    for cpu in 2..1_000 {
        assert!(!tried.hit(&asking(cpu)));
        assert!(tried.classes.known.len() <= FEW.classes);
        assert!(tried.hit(&first), "after {cpu}");
    }
}

#[test]
fn they_never_take_more_bytes_than_they_may_but_for_one_alone() {
    let pods: Vec<_> = (1..20).map(asking).collect();
    let mut alone = Tried::new(1_000, FEW);
    alone.hit(&pods[0]);
    let bytes = alone.classes.bytes;
    assert!(
        bytes >= 8 * 1_000,
        "an answer, and a place in a list: {bytes}"
    );
    for room in [0, 4] {
        let limits = Limits {
            bytes: room * bytes,
            classes: usize::MAX,
            ..FEW
        };
        let mut tried = Tried::new(1_000, limits);
        for pod in &pods {
            tried.hit(pod);
            assert!(tried.classes.known.len() <= room.max(1));
        }
        assert_eq!(tried.classes.known.len(), room.max(1));
    }
}

#[test]
fn of_more_classes_in_turn_than_there_is_room_for_most_are_known() {
    let mut tried = Tried::new(3, FEW);
    let pods: Vec<_> = (1..=8).map(asking).collect();
    for round in 0..6 {
        let hits = pods.iter().filter(|pod| tried.hit(pod)).count();
        assert_eq!(hits, if round == 0 { 0 } else { FEW.classes - 1 });
    }
}

#[test]
fn what_no_pod_was_of_for_long_is_forgotten() {
    let mut tried = Tried::new(3, FEW);
    let (rare, usual) = (asking(1), asking(2));
    tried.hit(&rare);
    for _ in 0..FEW.unused {
        tried.hit(&usual);
        assert_eq!(tried.classes.known.len(), 2);
    }
    tried.hit(&usual);
    assert_eq!(tried.classes.known.len(), 1);
    assert!(!tried.hit(&rare));
}

#[test]
fn pods_with_equal_needs_are_one_class_and_others_are_not() {
    let mut classes = Classes::default();
    let (a, b) = (asking(1), asking(2));
    let mut same = (*asking(1)).clone();
    same.needs = a.needs.clone();
    let none = PluginMask::default();
    let mut some = none;
    some.insert(3);
    for (pod, mask, known) in [
        (&*a, none, 1),
        (&same, none, 1),
        (&*b, none, 2),
        (&*a, some, 3),
    ] {
        let taken = classes.take(pod, mask);
        classes.give_back(taken);
        assert_eq!(classes.known.len(), known);
    }
}
