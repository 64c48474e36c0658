//! The port through which a scheduling cycle hands its choice to the edge, and waits.

use futures::{FutureExt, future::BoxFuture};
use pilotage_proxy::plugins::{GrantFailure, Grants};
use tokio::sync::{mpsc, oneshot};

/// A choice that a cycle made, and where it waits for the end.
pub(super) struct Choice {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) done: oneshot::Sender<Result<(), GrantFailure>>,
}

/// Hands choices to the edge.
pub struct Port {
    choices: mpsc::UnboundedSender<Choice>,
}

/// A port, and the queue behind it.
pub(super) fn port() -> (Port, mpsc::UnboundedReceiver<Choice>) {
    let (choices, queue) = mpsc::unbounded_channel();
    (Port { choices }, queue)
}

impl Grants for Port {
    fn grant<'a>(&'a self, uid: &'a str, node: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
        async move {
            let (done, end) = oneshot::channel();
            let choice = Choice {
                uid: uid.to_owned(),
                node: node.to_owned(),
                done,
            };
            self.choices
                .send(choice)
                .map_err(|_| GrantFailure::Ending)?;
            end.await.unwrap_or(Err(GrantFailure::Ending))
        }
        .boxed()
    }
}
