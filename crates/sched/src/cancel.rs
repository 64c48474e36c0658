//! Owns how far a binding has come, shared by the scheduler and by the task that binds: until Bind begins it can be
//! cancelled, in favour of another pod. Knows nothing of why.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures::task::AtomicWaker;

use crate::status::{Status, Verdict};

/// One binding. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    stage: Mutex<Stage>,
    task: AtomicWaker,
}

#[derive(Debug, Default)]
enum Stage {
    /// Nobody else has heard of the node.
    #[default]
    Preparing,
    Cancelled(Status),
    /// The API server may know.
    Binding,
}

impl Cancellation {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the binding with this status. `false` if it is too late.
    pub(crate) fn cancel(&self, status: Status) -> bool {
        let mut stage = self.stage();
        match *stage {
            Stage::Preparing => *stage = Stage::Cancelled(status),
            Stage::Cancelled(_) => {}
            Stage::Binding => return false,
        }
        drop(stage);
        self.0.task.wake();
        true
    }

    /// Bind begins, unless the binding was cancelled.
    pub(crate) fn begin_bind(&self) -> Verdict {
        let mut stage = self.stage();
        if let Stage::Cancelled(status) = &*stage {
            return Err(status.clone());
        }
        *stage = Stage::Binding;
        Ok(())
    }

    /// Completes when the binding is cancelled.
    pub(crate) async fn cancelled(&self) -> Status {
        poll_fn(|context| {
            self.0.task.register(context.waker());
            match &*self.stage() {
                Stage::Cancelled(status) => Poll::Ready(status.clone()),
                Stage::Preparing | Stage::Binding => Poll::Pending,
            }
        })
        .await
    }
}
