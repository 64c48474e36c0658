//! Owns what a panic counts as: a failure of the plugin that ran, about the pod that it ran for, and of nobody else.
//! Knows nothing of extension points.
//!
//! Plugins change nothing but their cycle's state, so a panic in one leaves nothing half done. Where their answer is
//! needed, it is an error; where it isn't, it is a [`Mishap`], which the driver tells.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use thiserror::Error;

use crate::pod_info::PodInfo;
use crate::status::{PluginError, PluginName, Status, Verdict};

/// How much of a panic's words is told, in bytes: they may quote anybody.
const TOLD: usize = 512;

/// Mishaps that are kept until somebody takes them.
const KEPT: usize = 1000;

/// A panic, as the pod's author is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a mistake in Pilotage, please report it: {0}")]
pub struct Panicked(String);

impl Panicked {
    /// With the panic's own words.
    pub fn new(words: &str) -> Self {
        Self(words[..words.floor_char_boundary(TOLD)].to_owned())
    }

    fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::new(text.unwrap_or("no words"))
    }

    /// The panic as a plugin's error.
    pub(crate) fn by(self, plugin: PluginName) -> PluginError {
        PluginError::new(self).by(plugin)
    }
}

/// Runs something that may panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked::of(&*panic))
}

/// Runs a plugin, whose panic is an error.
pub(crate) fn guarded<T>(plugin: PluginName, work: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
    caught(work).unwrap_or_else(|panic| Err(panic.by(plugin).into()))
}

/// As [`guarded`], for a plugin that does I/O.
pub(crate) async fn guarded_async<T>(
    plugin: PluginName,
    work: impl Future<Output = Verdict<T>>,
) -> Verdict<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|panic| Err(Status::Error(Panicked::of(&*panic).by(plugin))))
}

/// A plugin failed where nobody needed its answer, or where there was another way to go on.
#[derive(Clone, Debug)]
pub struct Mishap {
    /// The pod that it was about.
    pub pod: Arc<PodInfo>,
    /// What happened.
    pub error: PluginError,
}

/// Mishaps that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Mishaps(Mutex<Vec<Mishap>>);

impl Mishaps {
    pub(crate) fn note(&self, pod: &Arc<PodInfo>, error: PluginError) {
        let mut kept = self.lock();
        // A driver takes them at once; who doesn't, doesn't want them.
        if kept.len() < KEPT {
            let pod = pod.clone();
            kept.push(Mishap { pod, error });
        }
    }

    pub(crate) fn take(&self) -> Vec<Mishap> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Mishap>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Mishaps, Panicked, TOLD, guarded, guarded_async};
    use crate::status::Verdict;
    use crate::test_objects::pod;
    use crate::test_plugins::block_on;

    #[test]
    fn a_panic_is_an_error_of_its_plugin() {
        let verdict: Verdict = guarded("Fit", || panic!("on {}", "purpose"));
        let text = "plugin \"Fit\" failed: a mistake in Pilotage, please report it: on purpose";
        assert_eq!(verdict.unwrap_err().to_string(), text);
        let verdict: Verdict = block_on(guarded_async("Fit", async { panic!("on purpose") }));
        assert_eq!(verdict.unwrap_err().to_string(), text);
        assert_eq!(guarded("Fit", || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn words_and_mishaps_are_bounded() {
        let Panicked(words) = Panicked::new(&"é".repeat(TOLD));
        assert!(words.len() <= TOLD && words.ends_with('é'), "{words}");
        let (mishaps, pod) = (Mishaps::default(), pod("a").info());
        for _ in 0..=KEPT {
            mishaps.note(&pod, Panicked::new("again").by("Fit"));
        }
        assert_eq!(mishaps.take().len(), KEPT);
        assert!(mishaps.take().is_empty());
    }
}
