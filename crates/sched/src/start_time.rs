//! Owns when a pod's node began to run it, as far as preemption compares it. Knows no clock.

use std::fmt;

use k8s_openapi::api::core::v1::PodStatus;

/// `status.startTime` of a pod, in seconds since 1970, which is as exact as the API is. A pod that hasn't started
/// counts as younger than any other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StartTime(i64);

impl StartTime {
    /// Of a pod that hasn't started.
    pub const NONE: Self = Self(i64::MAX);

    pub(crate) fn of(status: Option<&PodStatus>) -> Self {
        let time = status.and_then(|status| status.start_time.as_ref());
        time.map_or(Self::NONE, |time| Self(time.0.as_second()))
    }

    /// Seconds since 1970; `None` if the pod hasn't started.
    pub fn seconds(self) -> Option<i64> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl fmt::Debug for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds() {
            Some(seconds) => write!(f, "StartTime({seconds})"),
            None => f.write_str("StartTime(none)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StartTime;
    use crate::test_objects::pod;

    #[test]
    fn a_pod_that_has_not_started_is_the_youngest() {
        let (old, young) = (pod("a").started(5).info(), pod("b").started(7).info());
        let none = pod("c").info();
        assert!(old.started < young.started && young.started < none.started);
        assert_eq!(
            (old.started.seconds(), none.started),
            (Some(5), StartTime::NONE)
        );
    }
}
