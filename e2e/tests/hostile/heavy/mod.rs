//! Heavy objects, each test in a fleet of its own: what others keep of them is bounded.

mod own;
mod shared;

use tokio::sync::{Mutex, MutexGuard};

/// A test with a fleet of its own keeps a core busy. Two of them at once would be what all the others wait for.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}
