//! A slice of a thread's time: whoever has many small steps to do lets the others of its thread go on between them.
//! Health, Leases and heartbeats are among those.

use std::time::Duration;

use tokio::{task::yield_now, time::Instant};

/// How long one goes on without a pause; a step that has begun is done first.
const LENGTH: Duration = Duration::from_millis(10);

/// Time that is being used up.
#[derive(Debug)]
pub struct Slice {
    length: Duration,
    begun: Instant,
}

impl Slice {
    /// Begins now.
    pub fn begin() -> Self {
        Self {
            length: LENGTH,
            begun: Instant::now(),
        }
    }

    /// Lets others go on if it is used up, and begins anew.
    pub async fn pause(&mut self) {
        if self.begun.elapsed() >= self.length {
            yield_now().await;
            self.begun = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn others_go_on_between_steps() {
        let other = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&other);
        tokio::spawn(async move {
            loop {
                counter.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let mut slice = Slice {
            length: Duration::ZERO,
            ..Slice::begin()
        };
        for _ in 0..100 {
            slice.pause().await;
        }
        assert!(other.load(Ordering::Relaxed) >= 50);
    }
}
