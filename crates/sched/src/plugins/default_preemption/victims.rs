//! Owns the choice of victims on one node: all pods of lower priority leave, and as many as possible come back. As in
//! kube-scheduler 1.36.3 (`SelectVictimsOnNode`). Knows nothing of how it is tried.

use std::sync::Arc;

use super::budgets::Budgets;
use super::importance::{self, Lower};
use crate::pod_info::PodInfo;
use crate::status::{Status, Verdict};

/// A node that is tried with some of its pods gone.
pub(super) trait Ground {
    /// A pod leaves.
    fn leave(&mut self, pod: &Arc<PodInfo>) -> Verdict;

    /// A pod that left comes back.
    fn come_back(&mut self, pod: &Arc<PodInfo>) -> Verdict;

    /// Whether the preemptor would do there now.
    fn takes_preemptor(&mut self) -> Verdict;
}

/// Who has to go.
#[derive(Clone, Debug, Default)]
pub(super) struct Victims {
    /// The dearest first.
    pub(super) pods: Vec<Arc<PodInfo>>,
    /// How many of them break a budget.
    pub(super) violations: usize,
}

/// Chooses among `lower`, the pods of lower priority, or says why the node doesn't even do without them.
pub(super) fn choose(
    ground: &mut impl Ground,
    mut lower: Vec<Lower>,
    budgets: &Budgets,
) -> Verdict<Victims> {
    for Lower { pod, .. } in &lower {
        ground.leave(pod).map_err(as_error)?;
    }
    ground.takes_preemptor()?;
    importance::sort(&mut lower);
    let (breaking, others) = budgets.split(lower);
    let mixed = !breaking.is_empty() && !others.is_empty();
    let mut victims = Vec::new();
    spare(ground, breaking, &mut victims)?;
    let violations = victims.len();
    spare(ground, others, &mut victims)?;
    if mixed {
        importance::sort(&mut victims);
    }
    Ok(Victims {
        pods: victims.into_iter().map(|it| it.pod).collect(),
        violations,
    })
}

/// Lets each pod come back that leaves room enough; the others are victims.
fn spare(ground: &mut impl Ground, pods: Vec<Lower>, victims: &mut Vec<Lower>) -> Verdict {
    for lower in pods {
        ground.come_back(&lower.pod).map_err(as_error)?;
        if ground.takes_preemptor().is_err() {
            ground.leave(&lower.pod).map_err(as_error)?;
            victims.push(lower);
        }
    }
    Ok(())
}

/// Whatever goes wrong when pods come and go isn't the node's fault.
fn as_error(status: Status) -> Status {
    match status {
        Status::Rejected(rejection) => Status::error(rejection.to_string()),
        Status::Error(_) => status,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Ground, choose};
    use crate::plugins::default_preemption::budgets::Budgets;
    use crate::plugins::default_preemption::importance::Lower;
    use crate::pod_info::PodInfo;
    use crate::status::{Status, Verdict};
    use crate::test_objects::pod;

    /// Has room for so many pods beside the preemptor; pods named `stuck` can't leave.
    struct Berths {
        free: i32,
        asked: usize,
    }

    impl Ground for Berths {
        fn leave(&mut self, pod: &Arc<PodInfo>) -> Verdict {
            if &*pod.key.name == "stuck" {
                return Err(Status::unschedulable("it can't leave"));
            }
            self.free += 1;
            Ok(())
        }

        fn come_back(&mut self, _pod: &Arc<PodInfo>) -> Verdict {
            self.free -= 1;
            Ok(())
        }

        fn takes_preemptor(&mut self) -> Verdict {
            self.asked += 1;
            if self.free < 1 {
                return Err(Status::unschedulable("no berth"));
            }
            Ok(())
        }
    }

    fn lower(names: &[&str]) -> Vec<Lower> {
        let named = names.iter().enumerate();
        let lower = named.map(|(at, name)| Lower {
            pod: pod(name).started(at as i64 + 1).info(),
            at,
        });
        lower.collect()
    }

    #[test]
    fn the_dearest_come_back_as_long_as_there_is_room() {
        let mut ground = Berths { free: -1, asked: 0 };
        let victims = choose(&mut ground, lower(&["a", "b", "c"]), &Budgets::default()).unwrap();
        let names: Vec<_> = victims.pods.iter().map(|pod| &*pod.key.name).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!((victims.violations, ground.free, ground.asked), (0, 1, 4));
    }

    #[test]
    fn a_node_that_does_not_do_without_them_says_why() {
        let mut ground = Berths { free: -3, asked: 0 };
        let status = choose(&mut ground, lower(&["a", "b"]), &Budgets::default()).unwrap_err();
        assert!(matches!(status, Status::Rejected(_)), "{status}");
        assert_eq!((status.to_string().as_str(), ground.asked), ("no berth", 1));
    }

    #[test]
    fn what_goes_wrong_on_the_way_is_an_error() {
        let mut ground = Berths { free: 0, asked: 0 };
        let status = choose(&mut ground, lower(&["stuck"]), &Budgets::default()).unwrap_err();
        assert!(matches!(status, Status::Error(_)), "{status}");
    }
}
