//! When a target counts as connected or lost: pure, with one function that asks the API server.
//!
//! One failure is no loss (a restarting load balancer drops connections), two in a row are; refused credentials are at
//! once. A lost target is probed as often as any other, one small request in a period: what waits for its return, holds
//! and orphans, shouldn't wait for a back-off as well. Must not know where the client comes from.

use std::time::Duration;

use kube::Client;
use pilotage_runtime::call::{self, CallError};

use crate::connection::{Connection, LostReason, Since};
use crate::door;

/// Path that every API server answers to every known user; it also says whether its storage works.
const PATH: &str = "/readyz";
/// After a first failure the second attempt comes soon, whatever the period.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Characters of an error: a certificate may hold any number of names.
const MESSAGE: usize = 500;

/// How a target is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Time between two probes.
    pub period: Duration,
    /// Time for an answer.
    pub timeout: Duration,
    /// Failures in a row that make a target lost, at least 1.
    pub failures: u32,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(5),
            timeout: Duration::from_secs(3),
            failures: 2,
        }
    }
}

/// Counts failures of one target.
#[derive(Debug, Default)]
pub(crate) struct Prober {
    failures: u32,
    first_failure: Option<Since>,
}

/// What follows from one probe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The new state, if it changes.
    pub(crate) change: Option<Connection>,
    /// Time to the next probe.
    pub(crate) next: Duration,
}

impl Prober {
    /// Forgets failures, since they were another client's.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Judges one probe that ended at `now`.
    pub(crate) fn judge(
        &mut self,
        outcome: Result<(), LostReason>,
        state: &Connection,
        now: Since,
        options: &ProbeOptions,
    ) -> Verdict {
        let reason = match outcome {
            Ok(()) => {
                self.reset();
                let change =
                    (!state.is_connected()).then_some(Connection::Connected { since: now });
                return Verdict {
                    change,
                    next: options.period,
                };
            }
            Err(reason) => reason,
        };
        self.failures = self.failures.saturating_add(1);
        let first = *self.first_failure.get_or_insert(now);
        let definite = reason.is_strange() || matches!(reason, LostReason::Unauthorized(_));
        match state {
            // The reason may change; the moment of the loss doesn't.
            Connection::Lost { since, reason: old } if old.was_tried() => Verdict {
                change: (*old != reason).then_some(Connection::Lost {
                    since: *since,
                    reason,
                }),
                next: options.period,
            },
            _ if definite || self.failures >= options.failures => Verdict {
                change: Some(Connection::Lost {
                    since: lost_since(state, first),
                    reason,
                }),
                next: options.period,
            },
            _ => Verdict {
                change: None,
                next: RETRY_AFTER.min(options.period),
            },
        }
    }
}

/// A target that was lost for want of a usable secret and now doesn't answer has been lost all along.
fn lost_since(state: &Connection, first_failure: Since) -> Since {
    match state {
        Connection::Lost { since, .. } => *since,
        Connection::Connecting | Connection::Connected { .. } => first_failure,
    }
}

/// Asks the API server behind `client` whether it serves us.
pub(crate) async fn ask(client: &Client, timeout: Duration) -> Result<(), LostReason> {
    let Ok(request) = http::Request::get(PATH).body(Vec::new()) else {
        return Err(LostReason::Unreachable(format!(
            "no request for {PATH} can be built"
        )));
    };
    read(call::within(timeout, client.request_text(request)).await)
}

fn read(answer: Result<String, CallError>) -> Result<(), LostReason> {
    let Err(error) = answer else {
        return Ok(());
    };
    match &error {
        CallError::Api(kube::Error::Api(status)) => match status.code {
            401 => Err(LostReason::Unauthorized(error.message())),
            // Whoever refuses us this path by role, throttles us or doesn't know it is alive and knows us.
            403 | 404 | 429 => Ok(()),
            // Which of its checks fail would be text that isn't a Status, and whose server it is nobody knows.
            code => Err(LostReason::Unreachable(format!("{PATH} answered {code}"))),
        },
        _ => Err(reason(&error)),
    }
}

/// What a call that failed makes of the target, if that is all that is known.
pub(crate) fn reason(error: &CallError) -> LostReason {
    door::offence_of_call(error)
        .unwrap_or_else(|| LostReason::Unreachable(error.message().chars().take(MESSAGE).collect()))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use tokio::time::Instant;

    use super::*;

    fn at(seconds: u64, start: Instant) -> Since {
        Since {
            wall: jiff::Timestamp::from_second(seconds as i64).unwrap(),
            monotonic: start + Duration::from_secs(seconds),
        }
    }

    fn dead(text: &str) -> Result<(), LostReason> {
        Err(LostReason::Unreachable(text.into()))
    }

    #[test]
    fn two_failures_are_a_loss_since_the_first() {
        let (start, options) = (Instant::now(), ProbeOptions::default());
        let mut prober = Prober::default();
        let state = Connection::Connected {
            since: at(0, start),
        };
        let first = prober.judge(dead("a"), &state, at(5, start), &options);
        assert_eq!(
            first,
            Verdict {
                change: None,
                next: Duration::from_secs(1)
            }
        );
        let second = prober.judge(dead("b"), &state, at(6, start), &options);
        let lost = Connection::Lost {
            since: at(5, start),
            reason: LostReason::Unreachable("b".into()),
        };
        assert_eq!(
            second,
            Verdict {
                change: Some(lost.clone()),
                next: options.period
            }
        );
        // Lost on: only the reason moves.
        assert_eq!(
            prober
                .judge(dead("b"), &lost, at(11, start), &options)
                .change,
            None
        );
        let other = prober
            .judge(dead("c"), &lost, at(16, start), &options)
            .change;
        assert_eq!(
            other,
            Some(Connection::Lost {
                since: at(5, start),
                reason: LostReason::Unreachable("c".into())
            })
        );
        let back = prober.judge(Ok(()), &lost, at(20, start), &options).change;
        assert_eq!(
            back,
            Some(Connection::Connected {
                since: at(20, start)
            })
        );
    }

    #[test]
    fn a_success_in_between_forgives() {
        let (start, options) = (Instant::now(), ProbeOptions::default());
        let mut prober = Prober::default();
        let state = Connection::Connected {
            since: at(0, start),
        };
        for second in [1, 3, 5] {
            let failed = prober.judge(dead("a"), &state, at(second, start), &options);
            assert_eq!(failed.change, None);
            let ok = prober.judge(Ok(()), &state, at(second + 1, start), &options);
            assert_eq!(
                ok,
                Verdict {
                    change: None,
                    next: options.period
                }
            );
        }
    }

    #[test]
    fn refused_credentials_are_a_loss_at_once() {
        let (start, options) = (Instant::now(), ProbeOptions::default());
        let refused = Err(LostReason::Unauthorized("Unauthorized".into()));
        let verdict =
            Prober::default().judge(refused, &Connection::Connecting, at(2, start), &options);
        assert!(
            matches!(verdict.change, Some(Connection::Lost { since, .. }) if since == at(2, start))
        );
    }

    #[test]
    fn a_broken_secret_mended_to_a_dead_cluster_is_one_loss() {
        let (start, options) = (
            Instant::now(),
            ProbeOptions {
                failures: 1,
                ..Default::default()
            },
        );
        let state = Connection::Lost {
            since: at(1, start),
            reason: LostReason::InvalidSpec(crate::spec::SpecFault::Neither),
        };
        let verdict = Prober::default().judge(dead("a"), &state, at(9, start), &options);
        assert!(
            matches!(verdict.change, Some(Connection::Lost { since, .. }) if since == at(1, start))
        );
    }

    #[test]
    fn answers_are_told_from_refusals() {
        let api = |code, text: &str| {
            let status = Status::failure(text, "x").with_code(code);
            Err(CallError::from(kube::Error::Api(status.boxed())))
        };
        assert_eq!(read(Ok("ok".into())), Ok(()));
        for code in [403, 404, 429] {
            assert_eq!(read(api(code, "")), Ok(()), "{code}");
        }
        assert_eq!(
            read(api(401, "who?")),
            Err(LostReason::Unauthorized("who?".into()))
        );
        let text = "[-]whatever it is";
        assert_eq!(read(api(500, text)), dead("/readyz answered 500"));
        assert!(read(Err(CallError::TimedOut(Duration::from_secs(3)))).is_err());
    }
}
