//! Owns which resources of a node count for a score, and how much of each is taken with and without the pod.
//! After `calculateNodeAllocatableRequest` of kube-scheduler 1.36.3. Plain numbers; knows nothing of pods and nodes.

use crate::resources::{ResourceName, cap};

/// One resource of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResourceLoad {
    /// What the node has; above 0.
    pub(super) allocatable: i64,
    /// What is taken without the pod.
    pub(super) before: i64,
    /// What is taken with it.
    pub(super) after: i64,
}

impl ResourceLoad {
    /// `None` if the resource says nothing of this node for this pod: the node hasn't got it, the pod doesn't ask for
    /// it (of CPU, memory and ephemeral storage everybody takes some), or it is the number of pods.
    pub(super) fn of(
        name: &ResourceName,
        allocatable: i64,
        taken: i128,
        wanted: i64,
    ) -> Option<Self> {
        let counts = match name {
            ResourceName::Cpu | ResourceName::Memory | ResourceName::EphemeralStorage => true,
            ResourceName::Scalar(_) => wanted != 0,
            ResourceName::Pods => false,
        };
        (counts && allocatable > 0).then(|| Self {
            allocatable,
            before: cap(taken),
            after: cap(taken.saturating_add(wanted.into())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ResourceLoad;
    use crate::resources::ResourceName;

    #[test]
    fn what_counts() {
        for (name, allocatable, wanted, counts) in [
            ("cpu", 4, 1, true),
            ("cpu", 4, 0, true),
            ("cpu", 0, 1, false),
            ("memory", 4, 0, true),
            ("ephemeral-storage", 4, 0, true),
            ("a.b/gpu", 4, 1, true),
            ("a.b/gpu", 4, 0, false),
            ("a.b/gpu", 0, 1, false),
            ("pods", 110, 1, false),
        ] {
            let load = ResourceLoad::of(&ResourceName::parse(name), allocatable, 3, wanted);
            let expected = ResourceLoad {
                allocatable,
                before: 3,
                after: 3 + wanted,
            };
            assert_eq!(
                load,
                counts.then_some(expected),
                "{name} {allocatable} {wanted}"
            );
        }
        let most = ResourceLoad::of(&ResourceName::Cpu, 1, i64::MAX.into(), i64::MAX);
        assert_eq!(most.map(|load| load.after), Some(i64::MAX));
    }
}
