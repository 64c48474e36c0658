//! Lists and watches that come to nothing one after the other, while whoever should answer them answers his probe. What
//! a single one says of the server is [`Interruption::offence`](super::run::Interruption).

use std::time::Duration;

use tokio::time::Instant;

/// So many in a row, and for so long, are no accident. Who is gone fails his probe before.
const MOST: u32 = 3;
const LONGEST: Duration = Duration::from_mins(1);

/// Those since the last answer.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    count: u32,
    since: Option<Instant>,
}

impl Stalls {
    /// One more that was begun at `began`; whether that is too much.
    pub(super) fn add(&mut self, began: Instant) -> bool {
        self.count = self.count.saturating_add(1);
        let since = *self.since.get_or_insert(began);
        self.count >= MOST && since.elapsed() >= LONGEST
    }

    /// Something was answered.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_many_for_long_are_too_much() {
        let mut stalls = Stalls::default();
        let began = Instant::now();
        for _ in 0..10 {
            assert!(!stalls.add(Instant::now()), "it hasn't lasted long");
        }
        advance(LONGEST).await;
        assert!(stalls.add(Instant::now()));
        stalls.end();
        assert!(
            !stalls.add(began),
            "one is an accident, however long it took"
        );
        assert!(!stalls.add(Instant::now()));
        assert!(stalls.add(Instant::now()));
    }
}
