//! What its author or operator wants done with a pod whose target is lost.
//!
//! Written on a pod or on a Target ([`crate::keys::REPLACE_AFTER`]). When the time has come is decided elsewhere.

use std::{fmt, str::FromStr, time::Duration};

use jiff::SignedDuration;
use thiserror::Error;

use crate::bounds::{LONGEST_TIME, cut};

/// Value of the annotation that says *hold*.
const NEVER: &str = "never";
/// So much of what is no policy is told.
const TOLD: usize = 100;

/// What becomes of a pod that is recorded at a target which can't be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostPolicy {
    /// It waits for its target: the delegate may be running there.
    #[default]
    Hold,
    /// After the target was lost for this long, the pod is placed elsewhere; the old delegate may still run then.
    ReplaceAfter(Duration),
}

/// The annotation's value is no policy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is neither \"never\" nor a duration such as \"90s\", \"5m\" or \"1h30m\"")]
pub struct LostPolicyError(String);

impl FromStr for LostPolicy {
    type Err = LostPolicyError;

    fn from_str(text: &str) -> Result<Self, LostPolicyError> {
        if text == NEVER {
            return Ok(Self::Hold);
        }
        let duration = text.parse::<SignedDuration>().ok();
        duration
            .and_then(|duration| Duration::try_from(duration).ok())
            .map(|after| Self::ReplaceAfter(after.min(LONGEST_TIME)))
            .ok_or_else(|| LostPolicyError(cut(text, TOLD).to_owned()))
    }
}

impl fmt::Display for LostPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold => f.write_str(NEVER),
            Self::ReplaceAfter(after) => write!(f, "{}s", after.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_never_or_a_duration() {
        let after = |seconds| Ok(LostPolicy::ReplaceAfter(Duration::from_secs(seconds)));
        let wrong = |text: &str| Err(LostPolicyError(text.to_owned()));
        for (text, want) in [
            ("never", Ok(LostPolicy::Hold)),
            ("0s", after(0)),
            ("90s", after(90)),
            ("5m", after(300)),
            ("1h30m", after(5400)),
            (
                "9223372036854775807s",
                Ok(LostPolicy::ReplaceAfter(LONGEST_TIME)),
            ),
            ("-5m", wrong("-5m")),
            ("300", wrong("300")),
            ("", wrong("")),
            ("soon", wrong("soon")),
        ] {
            assert_eq!(text.parse(), want, "{text:?}");
        }
        let long = "x".repeat(200_000).parse::<LostPolicy>().unwrap_err();
        assert!(long.to_string().len() < 256, "it is told in few words");
        for policy in [
            LostPolicy::Hold,
            LostPolicy::ReplaceAfter(Duration::from_secs(45)),
        ] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }
}
