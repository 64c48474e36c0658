//! Numbers that decide *when* the source acts, never *whether* it may: none is needed for safety.

use std::time::Duration;

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
    /// After this long without an answer a target counts as silent in what we tell the user.
    pub patience: Duration,
    /// A grant that hasn't led to a bound delegate by then is given up. Must exceed the candidate's bind time-out.
    pub give_up: Duration,
    /// A pod that has waited this long for the same thing is told so by event and condition.
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
            tell_after: Duration::from_secs(5),
            retry: (Duration::from_millis(250), Duration::from_secs(30)),
        }
    }
}
