//! Control planes that all tests of one binary share, and the runtime that outlives each test's own.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;

use crate::plane::{Builder, ControlPlane, Error};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
type Cell = Arc<OnceCell<Arc<ControlPlane>>>;
static PLANES: LazyLock<Mutex<HashMap<String, Cell>>> = LazyLock::new(Mutex::default);

/// A runtime that lives as long as the process.
pub fn runtime() -> io::Result<&'static Handle> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("testkit-shared")
        .enable_all()
        .build()?;
    Ok(RUNTIME.get_or_init(|| runtime).handle())
}

/// The control plane of this name: started by the first test that asks, used by all, ended with the process (the
/// supervisors see to that). Tests that break a plane, or use cluster-scoped objects, start their own.
///
/// A failed start is tried again by the next test that asks.
pub async fn plane(
    name: &str,
    build: impl FnOnce() -> Builder,
) -> Result<Arc<ControlPlane>, Error> {
    let cell = {
        let mut planes = PLANES.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(planes.entry(name.to_owned()).or_default())
    };
    cell.get_or_try_init(|| async {
        let start = runtime().map_err(Error::Prepare)?.spawn(build().start());
        let plane = start
            .await
            .map_err(|error| Error::Prepare(io::Error::other(error)))??;
        Ok(Arc::new(plane))
    })
    .await
    .cloned()
}
