//! Owns what was said of all rows for pods with some needs where only the Node objects count, so that the next cycle
//! needn't ask again. Knows nothing of what was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::pod_needs::PodNeeds;
use crate::taints::Comparison;

/// What is asked of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asks {
    /// Whether its labels, the hostname apart, pass the pod's node selector and required node affinity.
    Labels,
    /// Whether its name and all its labels do.
    Labelled,
    /// Whether the pod tolerates its hard taints, with this comparison of numbers.
    Taints(Comparison),
}

/// Answers by row.
pub(crate) type RowVerdicts = Arc<[bool]>;

/// How much is kept, in bytes.
const MAX_BYTES: usize = 8 << 20;

#[derive(Debug)]
struct Known {
    // Equal needs are kept once, and their address stands for them as long as somebody has them.
    _needs: Arc<PodNeeds>,
    rows: RowVerdicts,
}

#[derive(Debug, Default)]
struct All {
    known: HashMap<(usize, Asks), Known>,
    bytes: usize,
}

/// Answers by needs.
#[derive(Debug, Default)]
pub(super) struct Verdicts(Mutex<All>);

impl Verdicts {
    /// What is known, or is said now.
    pub(super) fn of(
        &self,
        needs: &Arc<PodNeeds>,
        asks: Asks,
        ask: impl FnOnce() -> Vec<bool>,
    ) -> RowVerdicts {
        let key = (Arc::as_ptr(needs).addr(), asks);
        let known = |all: &All| Some(all.known.get(&key)?.rows.clone());
        if let Some(rows) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return rows;
        }
        // A plugin that panics leaves nothing behind.
        let rows: RowVerdicts = ask().into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.bytes > MAX_BYTES {
            *all = All::default();
        }
        all.bytes = all.bytes.saturating_add(rows.len());
        let kept = Known {
            _needs: needs.clone(),
            rows: rows.clone(),
        };
        all.known.insert(key, kept);
        rows
    }

    /// A node came, went or isn't what it was.
    pub(super) fn forget(&mut self) {
        let all = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !all.known.is_empty() {
            *all = All::default();
        }
    }
}
