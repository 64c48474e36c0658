//! Any history: what a scheduler keeps about the classes of its pods is what the plugins would say now.

use std::sync::Arc;

use proptest::prelude::*;

use super::at;
use crate::classes::{Classes, Limits};
use crate::cycle::{Cause, Evaluation};
use crate::names::NodeName;
use crate::scheduler::{Assumed, Attempt, Failure, Scheduler, SchedulerConfig};
use crate::status::Status;
use crate::test_draws::{LOOKS, drawn_namespace, drawn_node, drawn_pod, drawn_profile, needs};
use crate::test_objects::{PodBuilder, uid};
use crate::tie::SeededTies;

const NODES: u8 = 6;

/// Something that happens to a scheduler. Places of pods are among those that are there.
#[derive(Clone, Debug)]
enum Op {
    /// A node comes, or changes.
    Node { name: u8, look: u8, cpu: u8 },
    /// A node goes; its pods stay known.
    Gone { name: u8 },
    /// Somebody else's pod comes to a node, which may not be there.
    Come { node: u8, needs: u8 },
    /// A pod on a node gets another annotation, which plugins don't read.
    Refresh { pod: u8 },
    /// A pod on a node asks for something else, or is told otherwise.
    Resize { pod: u8, needs: u8 },
    /// A pod on a node begins to end.
    Ends { pod: u8 },
    /// A pod on a node is finished, or gone.
    Over { pod: u8, finished: bool },
    /// A pod is expected on a node.
    Expect { node: u8, needs: u8 },
    /// A node has a pod that nobody could take in; or has it no more.
    Unread { node: u8, is: bool },
    /// A namespace becomes a team's, or is one no more.
    Namespace { is_team: bool },
    /// The table of nodes is made anew.
    Mend,
    /// A pod is tried.
    Try { needs: u8, seed: u8 },
    /// A pod that has a node is bound, and the watch confirms it.
    Bound { pod: u8 },
    /// It couldn't be bound.
    Fails { pod: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let (name, pod) = (0..NODES, any::<u8>());
    let needs = needs();
    prop_oneof![
        3 => (name.clone(), 0..LOOKS, 0..5_u8).prop_map(|(name, look, cpu)| Op::Node { name, look, cpu }),
        1 => name.clone().prop_map(|name| Op::Gone { name }),
        3 => (name.clone(), needs.clone()).prop_map(|(node, needs)| Op::Come { node, needs }),
        1 => pod.prop_map(|pod| Op::Refresh { pod }),
        2 => (pod, needs.clone()).prop_map(|(pod, needs)| Op::Resize { pod, needs }),
        1 => pod.prop_map(|pod| Op::Ends { pod }),
        2 => (pod, any::<bool>()).prop_map(|(pod, finished)| Op::Over { pod, finished }),
        1 => (name.clone(), needs.clone()).prop_map(|(node, needs)| Op::Expect { node, needs }),
        1 => (name, any::<bool>()).prop_map(|(node, is)| Op::Unread { node, is }),
        2 => any::<bool>().prop_map(|is_team| Op::Namespace { is_team }),
        1 => Just(Op::Mend),
        8 => (needs, any::<u8>()).prop_map(|(needs, seed)| Op::Try { needs, seed }),
        2 => pod.prop_map(|pod| Op::Bound { pod }),
        1 => pod.prop_map(|pod| Op::Fails { pod }),
    ]
}

/// A pod on a node.
#[derive(Clone, Debug)]
struct Placed {
    name: String,
    needs: u8,
    node: String,
    version: u8,
    ends: bool,
}

impl Placed {
    fn pod(&self) -> PodBuilder {
        let pod = drawn_pod(&self.name, self.needs).on(&self.node);
        let pod = pod.annotation("version", &self.version.to_string());
        if self.ends { pod.deleting() } else { pod }
    }
}

/// A scheduler, and who is where.
struct World {
    scheduler: Scheduler,
    placed: Vec<Placed>,
    // With what they asked for.
    assumed: Vec<(Assumed, u8)>,
    pods: usize,
}

impl World {
    fn new() -> Self {
        let config = SchedulerConfig::default();
        let mut scheduler = Scheduler::new([drawn_profile()], config).unwrap();
        // So few that they are forgotten. The table's log is as short in tests.
        scheduler.classes = Classes::new(Limits {
            bytes: usize::MAX,
            classes: 6,
            unused: 40,
        });
        Self {
            scheduler,
            placed: Vec::new(),
            assumed: Vec::new(),
            pods: 0,
        }
    }

    fn name(&mut self) -> String {
        self.pods += 1;
        format!("p{}", self.pods)
    }

    fn apply(&mut self, pod: PodBuilder) {
        self.scheduler.pod_applied(pod.object(), at(0)).unwrap();
    }

    /// Changes a pod on a node.
    fn change(&mut self, pod: u8, with: impl FnOnce(&mut Placed)) {
        let len = self.placed.len();
        if let Some(placed) = self.placed.get_mut(usize::from(pod) % len.max(1)) {
            with(placed);
            let pod = placed.pod();
            self.apply(pod);
        }
    }

    fn take_assumed(&mut self, pod: u8) -> Option<(Assumed, u8)> {
        let len = self.assumed.len();
        (len > 0).then(|| self.assumed.swap_remove(usize::from(pod) % len))
    }

    fn happen(&mut self, op: &Op) {
        match *op {
            Op::Node { name, look, cpu } => {
                let node = drawn_node(name, look, cpu).build();
                self.scheduler.node_applied(&node, at(0)).unwrap();
            }
            Op::Gone { name } => {
                let name = NodeName::from(format!("n{name}"));
                self.scheduler.node_deleted(&name, at(0));
            }
            Op::Come { node, needs } => {
                let placed = Placed {
                    name: self.name(),
                    needs,
                    node: format!("n{node}"),
                    version: 0,
                    ends: false,
                };
                self.apply(placed.pod());
                self.placed.push(placed);
            }
            Op::Refresh { pod } => {
                self.change(pod, |placed| {
                    placed.version = placed.version.wrapping_add(1);
                });
            }
            Op::Resize { pod, needs } => self.change(pod, |placed| placed.needs = needs),
            Op::Ends { pod } => self.change(pod, |placed| placed.ends = true),
            Op::Over { pod, finished } => {
                let len = self.placed.len();
                if len == 0 {
                    return;
                }
                let placed = self.placed.swap_remove(usize::from(pod) % len);
                if finished {
                    self.apply(placed.pod().phase("Succeeded"));
                } else {
                    self.scheduler.pod_deleted(&uid(&placed.name), at(0));
                }
            }
            Op::Expect { node, needs } => {
                // It is never tried itself.
                let pod = drawn_pod(&self.name(), needs).gate("later");
                self.apply(pod.nominated(&format!("n{node}")));
            }
            Op::Unread { node, is } => {
                let node = NodeName::from(format!("n{node}"));
                let pod = is.then(|| uid("unread"));
                self.scheduler.cache.set_unread(&node, pod);
            }
            Op::Namespace { is_team } => {
                let namespace = drawn_namespace(is_team);
                self.scheduler.apply(namespace, at(0)).unwrap();
            }
            Op::Mend => self.scheduler.mend(at(0)),
            Op::Try { needs, seed } => self.compare(needs, seed),
            Op::Bound { pod } => {
                let Some((assumed, needs)) = self.take_assumed(pod) else {
                    return;
                };
                let placed = Placed {
                    name: assumed.pod().key.name.to_string(),
                    needs,
                    node: assumed.node().to_string(),
                    version: 0,
                    ends: false,
                };
                self.scheduler.start_binding(assumed.uid()).unwrap();
                self.scheduler.bound(assumed, at(0));
                self.apply(placed.pod());
                self.placed.push(placed);
            }
            Op::Fails { pod } => {
                let Some((assumed, _)) = self.take_assumed(pod) else {
                    return;
                };
                let uid = assumed.uid().clone();
                let why = Status::error("cut off");
                self.scheduler.binding_failed(assumed, why, at(0));
                // One pod at a time is tried.
                self.scheduler.pod_deleted(&uid, at(0));
            }
        }
    }

    fn compare(&mut self, needs: u8, seed: u8) {
        let name = self.name();
        self.apply(drawn_pod(&name, needs));
        let uid = uid(&name);
        let pod = self.scheduler.pending_pod(&uid).unwrap().clone();
        let asked = self
            .scheduler
            .evaluate("test", &pod, Arc::default())
            .unwrap();
        let mut ties = SeededTies::new(seed.into());
        match self.scheduler.schedule_next(at(0), &mut ties) {
            Some(Attempt::Assumed(assumed)) => {
                assert_eq!(*assumed.uid(), uid);
                is_best(&assumed, &asked);
                self.assumed.push((*assumed, needs));
            }
            Some(Attempt::Failed(failure)) => {
                assert_eq!(failure.pod.uid, uid);
                is_refused(&failure, &asked);
                self.scheduler.pod_deleted(&uid, at(0));
            }
            other => panic!("not tried: {other:?}"),
        }
        assert!(self.scheduler.take_mishaps().is_empty());
    }
}

fn is_best(assumed: &Assumed, asked: &Evaluation) {
    let (evaluated, feasible) = assumed.evaluated_and_feasible();
    assert_eq!(evaluated, asked.diagnosis.evaluated);
    assert_eq!(feasible, asked.feasible.len());
    let best = &asked.feasible[0];
    let mut all = asked.feasible.iter();
    let chosen = all.find(|node| node.node == *assumed.node());
    assert_eq!(chosen.map(|node| node.total), Some(best.total), "{asked:?}");
}

fn is_refused(failure: &Failure, asked: &Evaluation) {
    assert!(asked.feasible.is_empty(), "{asked:?}");
    match &failure.cause {
        Cause::Unfit(unfit) => {
            assert_eq!(unfit.to_string(), asked.diagnosis.to_string());
            assert_eq!(unfit.rejected_by, asked.diagnosis.rejected_by);
            assert_eq!(unfit.evaluated, asked.diagnosis.evaluated);
        }
        Cause::NoNodes => assert!(asked.rejected.is_empty()),
        Cause::Error(error) => panic!("{error}"),
    }
}

proptest! {
    #[test]
    fn a_scheduler_chooses_as_if_it_kept_nothing(ops in proptest::collection::vec(op(), 0..160)) {
        let mut world = World::new();
        for name in 0..3 {
            world.happen(&Op::Node { name, look: name, cpu: 3 });
        }
        for op in &ops {
            world.happen(op);
        }
        for (assumed, _) in world.assumed {
            world.scheduler.binding_failed(assumed, Status::error("cut off"), at(0));
        }
    }
}
