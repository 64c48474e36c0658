//! Words before the answer to a request (`100 Continue` and its like): HTTP allows any number of them, an API server
//! says none, and a proxy in front of it hardly more than one.

use std::sync::Arc;

use http::Request;
use hyper::ext::on_informational;
use tokio::sync::watch as cell;
use tokio::time::Instant;

use super::fault::Fault;
use crate::budget::Budget;

/// So many are passed over.
const MOST: usize = 8;

/// Counts them for one request.
pub(super) struct Prelude(cell::Receiver<Words>);

#[derive(Clone, Copy, Default)]
struct Words {
    count: usize,
    last: u16,
}

impl Prelude {
    /// Each is looked at, and counts for `budget`.
    pub(super) fn of<B>(request: &mut Request<B>, budget: &Arc<Budget>) -> Self {
        let (words, told) = cell::channel(Words::default());
        let budget = budget.clone();
        on_informational(request, move |word| {
            budget.spend(0, 1, Instant::now());
            let last = word.status().as_u16();
            // Whoever waits is woken once: many of them come in one go.
            words.send_if_modified(|words| {
                words.last = last;
                words.count = words.count.saturating_add(1);
                words.count == MOST.saturating_add(1)
            });
        });
        Self(told)
    }

    /// What comes of an answer, unless too many words come before it: then it is dropped, and its connection ends.
    pub(super) async fn before<T>(mut self, answer: impl Future<Output = T>) -> Result<T, Fault> {
        let too_many = async {
            let words = self.0.wait_for(|words| words.count > MOST).await;
            let last = words.map(|words| words.last);
            match last {
                Ok(last) => last,
                // The answer's head has come.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            code = too_many => Err(Fault::Strange(code)),
            answer = answer => Ok(answer),
        }
    }
}
