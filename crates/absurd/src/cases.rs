//! How cases are run: how many there are, and how long one may take.

use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

/// How many cases each property has in every run of the tests: few, since there are many properties.
const CASES: u32 = 32;

/// How much processor time a case may take. It is far more than any needs in a debug build, and far less than what a
/// text of 200 kB costs an algorithm that is worse than linear.
const LONGEST: Duration = Duration::from_secs(2);

/// How long a smaller case that fails is looked for.
const SHRINKING: Duration = Duration::from_mins(1);

/// How many cases a property has: as many as `PROPTEST_CASES` says (`make fuzz` does), or few. What failed once is kept
/// in `proptest-regressions` and tried first.
pub fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if asked { default.cases } else { CASES },
        max_shrink_time: u32::try_from(SHRINKING.as_millis()).unwrap_or(u32::MAX),
        ..default
    }
}

/// Properties in the form of `proptest!`. A case that panics fails, and so does one that takes too long ([`bounded`]).
#[macro_export]
macro_rules! properties {
    (
        #![proptest_config($config:expr)]
        $($(#[$meta:meta])* fn $name:ident($($args:tt)*) $body:block)*
    ) => {
        $crate::proptest::proptest! {
            #![proptest_config($config)]
            $(
                $(#[$meta])*
                fn $name($($args)*) {
                    $crate::bounded(|| -> $crate::proptest::test_runner::TestCaseResult {
                        $body
                        Ok(())
                    })?;
                }
            )*
        }
    };
    ($($(#[$meta:meta])* fn $name:ident($($args:tt)*) $body:block)*) => {
        $crate::properties! {
            #![proptest_config($crate::config())]
            $($(#[$meta])* fn $name($($args)*) $body)*
        }
    };
}

/// Does a case's work. Only what its thread works counts: on a busy machine a case waits, and takes no longer.
///
/// # Panics
///
/// If it took too long.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    within(LONGEST, work)
}

fn within<T>(longest: Duration, work: impl FnOnce() -> T) -> T {
    let begin = worked();
    let outcome = work();
    let took = worked().saturating_sub(begin);
    assert!(
        took <= longest,
        "a case took {took:?} of processor time, and may take {longest:?}"
    );
    outcome
}

/// How long this thread has worked.
pub(crate) fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(time: Duration) {
        let begin = worked();
        while worked().saturating_sub(begin) < time {}
    }

    #[test]
    #[should_panic(expected = "may take 1ms")]
    fn a_case_that_takes_too_long_fails() {
        within(Duration::from_millis(1), || work(Duration::from_millis(2)));
    }

    #[test]
    fn who_waits_takes_no_time() {
        within(Duration::from_millis(50), || {
            std::thread::scope(|threads| {
                threads.spawn(|| work(Duration::from_millis(100)));
            });
        });
    }

    properties! {
        // What fails on purpose isn't kept.
        #![proptest_config(ProptestConfig { failure_persistence: None, ..config() })]

        #[test]
        #[should_panic(expected = "too long for nothing")]
        fn a_property_fails_as_any_test(it in 0..9_u8, mut other in 0..9_u8) {
            other = other.saturating_add(it);
            if other == it {
                return Ok(());
            }
            prop_assert!(other < it, "too long for nothing");
        }
    }
}
