//! A panic in one pod's step, which must stop nobody else's.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::FutureExt;
use pilotage_proxy::{Outcome, Reply};

/// A pod whose step panicked is looked at again after this, if nothing happens to it before.
pub(crate) const AFTER_PANIC: Duration = Duration::from_mins(1);

/// Reason of the event that its author gets.
pub(crate) const PANICKED: &str = "InternalError";

/// What the author is told.
pub(crate) fn note(panic: &str) -> String {
    format!(
        "a mistake in Pilotage, please report it: {panic}; it looks at the pod again in a minute"
    )
}

/// Runs a step; the panic's own words if there was one. What the step was changing may be half changed: each decision reads
/// what is there, and its requests carry their preconditions.
pub(crate) fn caught(step: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| words(&*panic))
}

/// Sends a request; that its sending panicked is no answer.
pub(crate) async fn replied(request: impl Future<Output = Reply>) -> Reply {
    let ended = AssertUnwindSafe(request).catch_unwind().await;
    ended.unwrap_or_else(|panic| {
        let why = words(&*panic);
        tracing::error!(panic = %why, "a request panicked");
        Outcome::Unknown(note(&why)).into()
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_step_and_tells_why() {
        assert_eq!(caught(|| {}), Ok(()));
        let number = std::hint::black_box(0_u8);
        let panics = caught(|| {
            std::hint::black_box([1][usize::from(number) + 1]);
        });
        assert!(panics.unwrap_err().contains("out of bounds"));
        assert_eq!(caught(|| panic!("fixed")), Err("fixed".to_owned()));
    }

    #[tokio::test]
    async fn a_request_that_panics_is_answered_by_its_panic() {
        let reply = replied(async { panic!("fixed") }).await;
        let Outcome::Unknown(why) = reply.outcome else {
            panic!("{reply:?}");
        };
        assert!(why.contains("fixed"), "{why}");
        assert_eq!(
            replied(async { Outcome::Gone.into() }).await.outcome,
            Outcome::Gone
        );
    }
}
