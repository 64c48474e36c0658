//! The conditions of a virtual node: whether it takes pods, and whether its target ever answered.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Type of the condition that says whether a node takes pods.
pub const READY: &str = "Ready";
/// Condition that stands since the target answered for the first time.
pub const REACHED: &str = "TargetReached";

/// Whether a virtual node takes pods, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it does.
    pub ready: bool,
    /// One word in camel case.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Readiness {
    /// The condition that says so, given the one that stands: its transition time moves only with the status.
    pub fn condition(&self, current: Option<&NodeCondition>, now: Timestamp) -> NodeCondition {
        let status = if self.ready { "True" } else { "False" };
        let transition = current
            .filter(|current| current.status == status)
            .and_then(|current| current.last_transition_time.clone())
            .unwrap_or(Time(now));
        NodeCondition {
            type_: READY.to_owned(),
            status: status.to_owned(),
            reason: Some(self.reason.clone()),
            message: Some(self.message.clone()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(transition),
        }
    }

    /// Whether `condition` says the same, whenever it was written.
    pub fn is_told_by(&self, condition: &NodeCondition) -> bool {
        (condition.status == "True") == self.ready
            && condition.status != "Unknown"
            && condition.reason.as_deref() == Some(&self.reason)
            && condition.message.as_deref() == Some(&self.message)
    }
}

/// The condition that says that the target answered at least once; the one that stands is kept as it is.
pub fn reached(current: Option<&NodeCondition>, now: Timestamp) -> NodeCondition {
    current.cloned().unwrap_or_else(|| NodeCondition {
        type_: REACHED.to_owned(),
        status: "True".to_owned(),
        reason: Some("Answered".to_owned()),
        message: Some(
            "the target answered at least once, so pods may have been sent there".to_owned(),
        ),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    })
}

/// Whether the target behind `node` answered at least once: before that, nothing can have been asked there.
pub fn was_reached(node: &Node) -> bool {
    condition(node, REACHED).is_some()
}

/// The condition of this type.
pub fn condition<'n>(node: &'n Node, type_: &str) -> Option<&'n NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let lost = |message: &str| Readiness {
            ready: false,
            reason: "Unreachable".into(),
            message: message.into(),
        };
        let first = lost("a").condition(None, at(1));
        assert!(lost("a").is_told_by(&first) && !lost("b").is_told_by(&first));
        let second = lost("b").condition(Some(&first), at(2));
        assert_eq!(second.last_transition_time, Some(Time(at(1))));
        assert_eq!(second.last_heartbeat_time, Some(Time(at(2))));
        let ready = Readiness {
            ready: true,
            ..lost("")
        };
        let third = ready.condition(Some(&second), at(3));
        assert_eq!(
            (third.status.as_str(), third.last_transition_time),
            ("True", Some(Time(at(3))))
        );
        let unknown = NodeCondition {
            status: "Unknown".into(),
            ..first
        };
        assert!(
            !lost("a").is_told_by(&unknown),
            "node lifecycle doubted it: say it again"
        );
    }
}
