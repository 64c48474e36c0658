//! Which targets had no node for a pod without reservation, and until when these aren't chosen again.
//!
//! Such a pod is made only once a target is granted, and its own scheduler takes as long as it takes. That this one
//! found no node is read from the chaperon's status. It counts as the target's refusal only while another target may
//! take the pod.

use std::{collections::BTreeMap, time::Duration};

use pilotage_api::bounds::doubled;

use crate::view::{ChaperonView, Monotonic};

/// How long a target isn't chosen again after it was left, the first time and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(10));

/// What a target's scheduler found.
#[derive(Clone, Debug)]
struct Found {
    /// UID of the chaperon that said so.
    chaperon: String,
    why: String,
    /// How many chaperons before it did.
    before: u32,
    until: Monotonic,
}

/// What targets' schedulers found, by virtual node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfit(BTreeMap<String, Found>);

impl Unfit {
    /// Takes in the granted chaperon as it is seen now.
    pub(crate) fn see(&mut self, chaperon: &ChaperonView, now: Monotonic) {
        let Some(why) = says(chaperon) else { return };
        let before = match self.0.get(&chaperon.node) {
            Some(known) if known.chaperon == chaperon.uid => known.before,
            Some(known) => known.before.saturating_add(1),
            None => 0,
        };
        let found = Found {
            chaperon: chaperon.uid.clone(),
            why: why.to_owned(),
            before,
            until: now.saturating_add(doubled(PAUSE.0, before, PAUSE.1)),
        };
        self.0.insert(chaperon.node.clone(), found);
    }

    /// Why a target isn't chosen now, and until when.
    pub(crate) fn of(&self, node: &str, now: Monotonic) -> Option<(&str, Monotonic)> {
        let found = self.0.get(node).filter(|found| now < found.until)?;
        Some((&found.why, found.until))
    }

    /// Forgets targets that aren't there any more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|node, _| is_there(node));
    }
}

/// Why the pod's own scheduler has no node for it; `None`: it hasn't said so, or makes room.
pub(crate) fn says(chaperon: &ChaperonView) -> Option<&str> {
    let why = chaperon.unschedulable.as_deref()?;
    (chaperon.names_its_pod() && !chaperon.is_nominated).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chaperon;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_grow_with_each_chaperon_that_found_none_and_end() {
        let mut unfit = Unfit::default();
        let mut now = secs(0);
        for (uid, pause) in [("u1", 30), ("u2", 60), ("u3", 120)] {
            let view = chaperon("a", uid).unschedulable("0/1 nodes").build();
            unfit.see(&view, now);
            unfit.see(&view, now);
            assert_eq!(unfit.of("a", now), Some(("0/1 nodes", now + secs(pause))));
            assert_eq!(unfit.of("b", now), None);
            now += secs(pause);
            assert_eq!(unfit.of("a", now), None);
        }
        unfit.retain(|node| node != "a");
        unfit.see(&chaperon("a", "u4").unschedulable("x").build(), now);
        assert_eq!(unfit.of("a", now), Some(("x", now + secs(30))));
    }

    #[test]
    fn who_makes_room_or_has_no_pod_yet_has_not_refused() {
        let mut view = chaperon("a", "u").unschedulable("full").build();
        assert_eq!(says(&view), Some("full"));
        view.is_nominated = true;
        assert_eq!(says(&view), None);
        let mut unnamed = chaperon("a", "u").build();
        unnamed.unschedulable = Some("full".into());
        assert_eq!(says(&unnamed), None);
    }
}
