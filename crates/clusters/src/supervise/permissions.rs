//! The task that asks a target what its source may do there, for as long as it is connected.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::access;
use crate::args::Options;
use crate::connection::Connection;
use crate::target::Target;

/// Pause before permissions are asked for again when the target couldn't say.
const REVIEW_UNANSWERED: Duration = Duration::from_secs(5);

/// Asks for permissions after each connection and new client, and again from time to time.
pub(super) async fn review(target: Arc<Target>, options: Options) {
    if options.needs.is_empty() {
        return;
    }
    let (mut state, mut sessions) = (target.state(), target.sessions());
    loop {
        // The senders live in the target.
        let _ = state.wait_for(Connection::is_connected).await;
        let session = sessions.borrow_and_update().clone();
        let Some(session) = session else {
            let _ = sessions.changed().await;
            continue;
        };
        let namespace = target.key().namespace.as_deref();
        let found = access::review(&session.client, namespace, &options.needs).await;
        let pause = match &found {
            access::Authorization::Complete => options.review_complete,
            access::Authorization::Missing(_) => options.review_missing,
            access::Authorization::Unknown | access::Authorization::Unanswered(_) => {
                REVIEW_UNANSWERED
            }
        };
        target.set_authorization(found);
        // A role may have been taken away; but who calls, or watches, is refused again and again then.
        let refused = async {
            sleep(pause.min(options.review_missing)).await;
            target.refused.notified().await;
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = refused => {}
            _ = sessions.changed() => {}
        }
    }
}
