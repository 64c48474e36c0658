//! Owns whether somebody has said of a pod that it has to go (condition `DisruptionTarget`). Knows nothing of who
//! evicts.

use k8s_openapi::api::core::v1::PodStatus;

/// Type of the condition.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Its reason when a scheduler needs the room.
pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// What the condition `DisruptionTarget` of a pod says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Disruption {
    /// That it may stay, or nothing.
    #[default]
    None,
    /// That it has to go, for a reason of others.
    Other,
    /// That it has to go, since a scheduler needs its room.
    Preemption,
}

impl Disruption {
    /// By the first condition of the type, as kube-scheduler 1.36.3 reads it (`podTerminatingByPreemption`).
    pub(crate) fn of(status: Option<&PodStatus>) -> Self {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let known = conditions.find(|condition| condition.type_ == DISRUPTION_TARGET);
        match known.filter(|condition| condition.status == "True") {
            None => Self::None,
            Some(target) if target.reason.as_deref() == Some(PREEMPTION_BY_SCHEDULER) => {
                Self::Preemption
            }
            Some(_) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodCondition;

    use super::Disruption;
    use crate::test_objects::{PodBuilder, pod};

    #[test]
    fn the_first_condition_of_the_type_counts() {
        let condition = |type_: &str, status: &str, reason: &str| PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            ..PodCondition::default()
        };
        let preempted = || condition("DisruptionTarget", "True", "PreemptionByScheduler");
        for (conditions, expected) in [
            (vec![], Disruption::None),
            (vec![preempted()], Disruption::Preemption),
            (
                vec![
                    condition("Ready", "True", "PreemptionByScheduler"),
                    preempted(),
                ],
                Disruption::Preemption,
            ),
            (
                vec![
                    condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
                    preempted(),
                ],
                Disruption::Other,
            ),
            (
                vec![condition(
                    "DisruptionTarget",
                    "False",
                    "PreemptionByScheduler",
                )],
                Disruption::None,
            ),
        ] {
            let pod = conditions.into_iter().fold(pod("a"), PodBuilder::condition);
            assert_eq!(pod.info().disruption, expected);
        }
    }
}
