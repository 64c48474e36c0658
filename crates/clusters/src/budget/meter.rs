//! How fast is taken in what servers say. To read it costs time of a core, which all targets share.
//!
//! A meter belongs to a target, or to all Targets of a namespace, and not to a connection: who closes a watch, or has a
//! list read anew, is no better off. The clock is the caller's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::common::SHARES;

/// Bytes a second that are taken from one target on the long run. A thousand pods that start in half a minute come to a
/// quarter of that; more than that would only keep a core busy.
const RATE: u64 = 16 << 20;
/// Bytes that may come at once: a first list of as many objects as a target may show, of 8 KiB each, and some events.
const BURST: u64 = 650 << 20;
/// So much more may come before connections themselves are slowed: what was asked for before that was spent, such as
/// some pages of lists at the same time.
const BEGUN: u64 = 64 << 20;
/// So many times that rate all Targets of a namespace have together: one that floods leaves some to the others, and all
/// of them leave some of a core to other namespaces.
const RATES: u64 = 4;
/// What an answer, an event or an object of a list costs besides its bytes: looking at it.
const LOOK: u64 = 4 << 10;

/// Counts what comes, and says when that was too much.
#[derive(Debug)]
pub(crate) struct Meter {
    rate: u64,
    burst: u64,
    begun: u64,
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    owed: u64,
    at: Option<Instant>,
}

impl Default for Meter {
    fn default() -> Self {
        Self::new(RATE, BURST, BEGUN)
    }
}

impl Meter {
    fn new(rate: u64, burst: u64, begun: u64) -> Self {
        Self {
            rate,
            burst,
            begun,
            account: Mutex::default(),
        }
    }

    /// That of all Targets of a namespace.
    pub(super) fn common() -> Self {
        let shares = u64::try_from(SHARES).unwrap_or_default();
        Self::new(
            RATE.saturating_mul(RATES),
            BURST.saturating_mul(shares),
            BEGUN.saturating_mul(shares),
        )
    }

    /// So many bytes have come, and so many things to look at.
    pub(super) fn spend(&self, bytes: usize, looks: usize, now: Instant) {
        let wide = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        let cost = wide(bytes).saturating_add(LOOK.saturating_mul(wide(looks)));
        let mut account = self.settle(now);
        account.owed = account.owed.saturating_add(cost);
    }

    /// How long to wait before more is taken in.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        let over = self.settle(now).owed.saturating_sub(self.burst);
        let pause = over.saturating_mul(1000).checked_div(self.rate);
        (over > 0).then(|| Duration::from_millis(pause.unwrap_or_default().max(1)))
    }

    /// Whether more has come than what can have begun before anybody had to wait.
    pub(super) fn is_far_over(&self, now: Instant) -> bool {
        self.settle(now).owed > self.burst.saturating_add(self.begun)
    }

    /// Whether anything isn't paid yet by time that has passed.
    pub(super) fn owes(&self, now: Instant) -> bool {
        self.settle(now).owed > 0
    }

    fn settle(&self, now: Instant) -> MutexGuard<'_, Account> {
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        let at = account.at.unwrap_or(now);
        let since = now.saturating_duration_since(at).as_nanos();
        let paid = since.saturating_mul(self.rate.into()) / 1_000_000_000;
        let paid = u64::try_from(paid).unwrap_or(u64::MAX);
        account.owed = account.owed.saturating_sub(paid);
        account.at = Some(at.max(now));
        account
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Budget, Commons, OBJECTS};
    use super::*;

    const RATE_BYTES: usize = RATE as usize;
    const BURST_BYTES: usize = BURST as usize;

    fn seconds(pause: Option<Duration>) -> Option<u64> {
        pause.map(|pause| pause.as_secs())
    }

    /// The budgets of so many Targets of one namespace.
    fn shared(commons: &mut Commons, namespace: &str, count: usize, now: Instant) -> Vec<Budget> {
        let budgets = (0..count).map(|_| Budget::of(Some(commons.at(namespace, now))));
        budgets.collect()
    }

    /// A list of as many objects as a target may show, none of them unusual, as fast as it can come.
    fn list(budget: &Budget, now: Instant) {
        for _ in 0..OBJECTS / 500 {
            assert_eq!(budget.pause(now), None);
            budget.spend(500 * (8 << 10), 1 + 500, now);
        }
    }

    #[test]
    fn a_flood_is_slowed_to_the_rate() {
        let start = Instant::now();
        let meter = Meter::default();
        meter.spend(BURST_BYTES, 0, start);
        assert_eq!(meter.pause(start), None);
        meter.spend(RATE_BYTES, 0, start);
        assert_eq!(seconds(meter.pause(start)), Some(1));
        let later = start + Duration::from_secs(2);
        assert_eq!(meter.pause(later), None);
        meter.spend(RATE_BYTES, 0, later);
        assert_eq!(meter.pause(later), None);
        meter.spend(0, 1, later);
        assert_eq!(meter.pause(later), Some(Duration::from_millis(1)));
        // Nobody's clock is ahead for good.
        assert!(meter.pause(start).is_some());
        assert!(meter.owes(start + Duration::from_secs(42)));
        assert!(!meter.owes(start + Duration::from_secs(44)));
        meter.spend(usize::MAX, usize::MAX, later);
        assert!(meter.pause(later).is_some());
    }

    #[test]
    fn what_has_begun_is_not_far_over() {
        let now = Instant::now();
        let mut commons = Commons::default();
        let budgets = shared(&mut commons, "evil", 100, now);
        let far = |budget: &Budget| budget.is_far_over(now);
        budgets[0].spend(BURST_BYTES + BEGUN as usize, 0, now);
        assert!(budgets[0].pause(now).is_some() && !far(&budgets[0]));
        budgets[0].spend(1, 0, now);
        assert!(far(&budgets[0]) && !far(&budgets[1]));
        for budget in &budgets[1..SHARES] {
            budget.spend(BURST_BYTES + BEGUN as usize, 0, now);
        }
        assert!(far(&budgets[99]), "all of them together are");
        let later = now + Duration::from_secs(1);
        assert!(!budgets[0].is_far_over(later) && !budgets[99].is_far_over(later));
    }

    #[test]
    fn a_first_list_never_waits() {
        let now = Instant::now();
        let budgets = shared(&mut Commons::default(), "honest", SHARES, now);
        for budget in &budgets {
            list(budget, now);
            assert_eq!(budget.pause(now), None);
        }
        // The next one comes when the first is paid.
        let later = now + Duration::from_mins(5);
        for budget in &budgets {
            list(budget, later);
        }
    }

    #[test]
    fn all_targets_of_a_namespace_are_slowed_together() {
        let now = Instant::now();
        let mut commons = Commons::default();
        let budgets = shared(&mut commons, "evil", 100, now);
        for budget in &budgets[..SHARES] {
            budget.spend(BURST_BYTES, 0, now);
            assert_eq!(budget.pause(now), None);
        }
        budgets[50].spend(20 * RATE_BYTES, 0, now);
        for budget in &budgets {
            assert_eq!(seconds(budget.pause(now)), Some(5));
        }
        // Others don't notice, nor do ClusterTargets.
        let honest = shared(&mut commons, "honest", 1, now).remove(0);
        assert_eq!(honest.pause(now), None);
        assert_eq!(Budget::of(None).pause(now), None);
        let later = now + Duration::from_secs(5);
        assert_eq!(budgets[99].pause(later), None);
    }

    #[test]
    fn what_a_namespace_owes_outlasts_its_targets() {
        let start = Instant::now();
        let mut commons = Commons::default();
        let again = |commons: &mut Commons, now| {
            let budget = Arc::new(Budget::of(Some(commons.at("evil", now))));
            let pause = budget.pause(now);
            budget.spend(BURST_BYTES, 0, now);
            // Somebody else's comes meanwhile.
            drop(budget);
            commons.at("honest", now);
            pause
        };
        for _ in 0..SHARES {
            assert_eq!(again(&mut commons, start), None);
        }
        assert_eq!(again(&mut commons, start), None);
        assert_eq!(seconds(again(&mut commons, start)), Some(10));
        let later = start + Duration::from_hours(1);
        commons.at("honest", later);
        assert_eq!(commons.len(), 1);
        assert_eq!(again(&mut commons, later), None);
    }
}
