//! How many streams there may be: in all, and of one namespace half of that, so that nobody's pods take all. Pure but
//! for its lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use super::refusal::Refusal;

/// Places for streams. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_namespace: HashMap<String, usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    namespace: String,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        let taken = Arc::default();
        Self { most, taken }
    }

    pub(crate) fn take(&self, namespace: &str) -> Result<Slot, Refusal> {
        let mut taken = self.taken();
        let own = taken.by_namespace.get(namespace).copied();
        let own = own.unwrap_or_default();
        let full = |whose: &str, most| {
            let text =
                format!("{whose} has {most} streams open, which is the most (--kubelet-streams)");
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, text)
        };
        if taken.all >= self.most {
            return Err(full("the kubelet of virtual nodes", self.most));
        }
        let half = self.most.div_ceil(2);
        if own >= half {
            return Err(full(&format!("namespace {namespace}"), half));
        }
        taken.all = taken.all.saturating_add(1);
        let own = own.saturating_add(1);
        taken.by_namespace.insert(namespace.to_owned(), own);
        Ok(Slot {
            slots: self.clone(),
            namespace: namespace.to_owned(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by_namespace.get_mut(&self.namespace) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_namespace.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_leaves_half_to_the_others() {
        let slots = Slots::new(4);
        let mut held = vec![slots.take("a").unwrap(), slots.take("a").unwrap()];
        let refusal = slots.take("a").unwrap_err();
        assert_eq!(refusal.status, 429);
        assert!(
            refusal.text.contains("namespace a has 2"),
            "{}",
            refusal.text
        );
        held.push(slots.take("b").unwrap());
        held.push(slots.take("c").unwrap());
        assert!(slots.take("d").unwrap_err().text.contains("has 4 streams"));
        held.remove(0);
        assert!(slots.take("a").is_ok());
        drop(held);
        assert!(slots.taken().by_namespace.is_empty() && slots.taken().all == 0);
    }
}
