//! Times of the candidate's side. None is needed for safety: they say *when*, never *whether*.

use std::time::Duration;

use pilotage_api::bounds::doubled;

/// How long the candidate holds, waits and pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a node is held for an answer that nobody grants.
    pub hold: Duration,
    /// The same towards a source that numbers no attempts, as such sources expect.
    pub plain_hold: Duration,
    /// From the grant: when the pod isn't bound by then, the answer is taken back.
    pub bind_timeout: Duration,
    /// How long a granted pod that needs others to stay waits before its node is looked at again.
    pub look_again: Duration,
    /// From the grant, beside the grace of those who have to go: when there is no room by then, the answer is taken
    /// back.
    pub make_room: Duration,
    /// Longest pause between an expired hold and the next one.
    pub longest_pause: Duration,
    /// How long an answer that another leader may back is left alone.
    pub lease_duration: Duration,
    /// First and longest wait before a failed request is sent again.
    pub retry: (Duration, Duration),
    /// After this long in front of a shut gate the pod's owner is told why.
    pub tell_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(10),
            plain_hold: Duration::from_secs(30),
            bind_timeout: Duration::from_secs(10),
            look_again: Duration::from_millis(100),
            make_room: Duration::from_secs(30),
            longest_pause: Duration::from_mins(1),
            lease_duration: Duration::from_secs(15),
            retry: (Duration::from_millis(250), Duration::from_secs(10)),
            tell_after: Duration::from_secs(3),
        }
    }
}

impl Settings {
    /// Wait after the `failures`th failure in a row of one request.
    pub(crate) fn retry_after(&self, failures: u32) -> Duration {
        doubled(self.retry.0, failures.saturating_sub(1), self.retry.1)
    }

    /// Pause after a hold of `hold` expired, as `before` others did in a row before it.
    pub(crate) fn pause_after(&self, hold: Duration, before: u32) -> Duration {
        doubled(hold, before, self.longest_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let settings = Settings::default();
        let pauses: Vec<u64> = (0..7)
            .map(|k| settings.pause_after(settings.hold, k).as_secs())
            .collect();
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60, 60]);
        assert_eq!(
            settings.pause_after(settings.hold, u32::MAX),
            settings.longest_pause
        );
    }
}
