//! Numbers that decide *when* the source acts, never *whether* it may: none is needed for safety.

use std::time::Duration;

/// An answer costs a target a pod, a cycle and two writes, so with many questions open nobody is silent yet…
const SILENCE_FOR_EACH: Duration = Duration::from_millis(40);
/// …but a target that never answers mustn't hold up the pods that were asked there alone.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// A target that answers others is busy, not silent, but for one pod no longer than this.
pub(crate) const LONGEST_BUSY: Duration = Duration::from_secs(30);

/// How many targets are asked at once, and how long the source waits for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ask every suitable target at once instead of in waves.
    pub ask_all: bool,
    /// Targets in a wave, unless the best one's free room surely fits.
    pub wave: usize,
    /// After this long without a reservation the wave is widened; doubles with each wave.
    pub silence: Duration,
    /// After the first reservation, how long the rest of its wave may still answer.
    pub settle: Duration,
    /// After this long without an answer a target counts as silent in what we tell the user, and nobody else's
    /// evictions wait for it any more.
    pub patience: Duration,
    /// A grant that hasn't led to a bound delegate by then is given up; later, while its target answers others. Must
    /// exceed the candidate's bind time-out.
    pub give_up: Duration,
    /// A grant that evicts others may take so much longer, beside their grace. Must exceed what the candidate waits for
    /// room.
    pub make_room: Duration,
    /// A pod that has waited this long for the same thing is told so by event and condition; later, while the target
    /// that it waits for answers others.
    pub tell_after: Duration,
    /// First and longest wait before a failed request is sent again.
    pub retry: (Duration, Duration),
}

impl Default for Settings {
    /// None is needed for safety; giving up later than the candidate binds saves work.
    fn default() -> Self {
        Self {
            ask_all: false,
            wave: 3,
            silence: Duration::from_millis(250),
            settle: Duration::from_millis(50),
            patience: Duration::from_secs(5),
            give_up: Duration::from_secs(15),
            make_room: Duration::from_secs(35),
            tell_after: Duration::from_secs(5),
            retry: (Duration::from_millis(250), Duration::from_secs(30)),
        }
    }
}

impl Settings {
    /// The same, with the silence that fits this many open questions.
    #[must_use]
    pub fn under_load(&self, open: usize) -> Self {
        let open = u32::try_from(open).unwrap_or(u32::MAX);
        let silence = self
            .silence
            .saturating_add(SILENCE_FOR_EACH.saturating_mul(open));
        Self {
            silence: silence.min(LONGEST_SILENCE.max(self.silence)),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_grows_with_the_open_questions_up_to_a_limit_that_never_lowers_it() {
        let silence = |usual, open| {
            let silence = Duration::from_millis(usual);
            let settings = Settings {
                silence,
                ..Settings::default()
            };
            settings.under_load(open).silence.as_millis()
        };
        assert_eq!(silence(250, 0), 250);
        assert_eq!(silence(250, 10), 650);
        assert_eq!(silence(250, 1_000_000), 5_000);
        assert_eq!(silence(9_000, 10), 9_000);
    }
}
