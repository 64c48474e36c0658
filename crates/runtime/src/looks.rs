//! Live reads that many wait for: each waiter gets an answer that was asked for after it came, and reads of one kind
//! take no more than a tenth of the time.
//!
//! It must not know what is read.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::moment::from_now;

/// Between two reads there are so many times the time that the last one took.
const REST: u32 = 9;
/// No rest is longer.
const LONGEST_REST: Duration = Duration::from_mins(1);
/// The rest after a read that failed, or that its caller gave up.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// One kind of read, shared by all who need its answer.
#[derive(Debug)]
pub struct Looks<T>(Mutex<Last<T>>);

#[derive(Debug)]
struct Last<T> {
    /// When the read began, and what it found.
    answer: Option<(Instant, Arc<T>)>,
    /// When the next one may begin.
    next: Option<Instant>,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self(Mutex::new(Last {
            answer: None,
            next: None,
        }))
    }
}

impl<T> Looks<T> {
    /// What a read says that begins after this call: its own, or that of somebody who waits as well.
    ///
    /// # Errors
    /// Those of the own read. Another one's failure isn't shared.
    pub async fn join<E>(&self, read: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        let came = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((began, found)) = &last.answer
            && *began >= came
        {
            return Ok(found.clone());
        }
        if let Some(next) = last.next {
            sleep_until(next).await;
        }
        let began = Instant::now();
        // It counts from the end of a read that has one.
        last.next = Some(from_now(AFTER_FAILURE));
        let found = read.await;
        last.next = Some(from_now(AFTER_FAILURE));
        // Who waits for an answer that failed mustn't wait for long: each of them reads for itself.
        let found = Arc::new(found?);
        let rest = began.elapsed().saturating_mul(REST).min(LONGEST_REST);
        last.next = Some(from_now(rest));
        last.answer = Some((began, found.clone()));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    const READ: Duration = Duration::from_secs(2);

    /// Reads that are counted from one.
    #[derive(Default)]
    struct Reads {
        looks: Looks<u32>,
        count: AtomicU32,
    }

    impl Reads {
        async fn join(&self) -> u32 {
            let read = async {
                let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
                sleep(READ).await;
                Ok::<_, Infallible>(count)
            };
            let Ok(found) = self.looks.join(read).await;
            *found
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_during_a_read_gets_the_next_one_and_all_of_them_the_same() {
        let reads = Reads::default();
        let late = async {
            sleep(READ / 2).await;
            join_all((0..100).map(|_| reads.join())).await
        };
        let (first, late) = tokio::join!(reads.join(), late);
        assert_eq!(first, 1);
        assert_eq!(late, [2; 100]);
        assert_eq!(reads.count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_take_a_tenth_of_the_time() {
        let reads = Reads::default();
        let began = Instant::now();
        for _ in 0..10 {
            reads.join().await;
        }
        assert_eq!(began.elapsed(), READ * 10 + READ * REST * 9);
    }

    #[tokio::test(start_paused = true)]
    async fn no_rest_is_longer_than_a_minute() {
        let looks = Looks::default();
        let slow = || async {
            sleep(Duration::from_mins(10)).await;
            Ok::<_, Infallible>(())
        };
        let Ok(_) = looks.join(slow()).await;
        let began = Instant::now();
        let Ok(_) = looks.join(async { Ok::<_, Infallible>(()) }).await;
        assert_eq!(began.elapsed(), LONGEST_REST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_and_a_read_that_was_given_up_leave_the_others_alone() {
        let looks = Looks::default();
        let failed = looks.join(async { Err::<u32, _>("refused") }).await;
        assert_eq!(failed.unwrap_err(), "refused");
        let endless = looks.join(std::future::pending::<Result<u32, &str>>());
        assert!(timeout(READ, endless).await.is_err());
        let began = Instant::now();
        assert_eq!(*looks.join(async { Ok::<_, &str>(3) }).await.unwrap(), 3);
        assert!(began.elapsed() <= AFTER_FAILURE);
    }
}
