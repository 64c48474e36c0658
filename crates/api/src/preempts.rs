//! What a target would have to do to run a pod that fits nowhere there: whom it would evict, once it is granted.
//!
//! It lives in the annotation [`crate::keys::PREEMPTS`] of a chaperon, beside the reservation that it belongs to, as
//! `budgets=0,highest=100,sum=2147483748,pods=1,oldest=1767225600,grace=30`. Which targets are asked, and which is
//! taken, is the proxy state machine's affair.

use std::{cmp::Reverse, fmt, str::FromStr, time::Duration};

use thiserror::Error;

use crate::bounds::cut;

/// So much of a damaged text is shown.
const SHOWN: usize = 100;
/// Longer than this nobody waits for somebody who has to go.
pub const LONGEST_GRACE: Duration = Duration::from_hours(1);

/// Whom a reservation evicts when it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preempts {
    /// How many of them no `PodDisruptionBudget` spares.
    pub budgets: u32,
    /// The highest priority of one of them.
    pub highest: i32,
    /// The sum of their priorities, each counted from the lowest that there is.
    pub sum: i64,
    /// How many they are; one at least.
    pub pods: u32,
    /// When the oldest of those with the highest priority began, in seconds since 1970; `None` if none has.
    pub oldest: Option<i64>,
    /// How long one of them may take to go; at most [`LONGEST_GRACE`].
    pub grace: Duration,
}

/// Why a text doesn't say whom a reservation evicts.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not of the form budgets=<n>,highest=<priority>,sum=<n>,pods=<n>,oldest=<seconds or ->,grace=<seconds>"
)]
pub struct PreemptsError(String);

impl Preempts {
    /// What it costs: what is less is better. The order is that of kube-scheduler 1.36.3 among nodes
    /// (`pickOneNodeForPreemption`), here among clusters.
    pub fn cost(&self) -> impl Ord + use<> {
        let Self {
            budgets,
            highest,
            sum,
            pods,
            oldest,
            grace: _,
        } = *self;
        let oldest = Reverse(oldest.unwrap_or(i64::MAX));
        (budgets, highest, sum, pods, oldest)
    }

    /// Whether this may be done with leave for `told`: it costs no more, and takes no longer. When victims began isn't
    /// asked: it is the last of what costs are compared by, and pods that are offered room at once are told of the same
    /// youngest victim.
    pub fn is_within(&self, told: &Self) -> bool {
        let essence = |it: &Self| (it.budgets, it.highest, it.sum, it.pods);
        essence(self) <= essence(told) && self.grace <= told.grace
    }
}

impl fmt::Display for Preempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            budgets,
            highest,
            sum,
            pods,
            oldest,
            grace,
        } = self;
        write!(
            f,
            "budgets={budgets},highest={highest},sum={sum},pods={pods},oldest="
        )?;
        match oldest {
            Some(oldest) => write!(f, "{oldest}")?,
            None => f.write_str("-")?,
        }
        write!(f, ",grace={}", grace.as_secs())
    }
}

impl FromStr for Preempts {
    type Err = PreemptsError;

    fn from_str(text: &str) -> Result<Self, PreemptsError> {
        read(text).ok_or_else(|| PreemptsError(cut(text, SHOWN).to_owned()))
    }
}

fn read(text: &str) -> Option<Preempts> {
    let mut parts = text.split(',');
    let mut value = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
    let budgets = value("budgets")?.parse().ok()?;
    let highest = value("highest")?.parse().ok()?;
    let sum = value("sum")?.parse().ok().filter(|sum| *sum >= 0)?;
    let pods = value("pods")?.parse().ok().filter(|pods| *pods > 0)?;
    let oldest = match value("oldest")? {
        "-" => None,
        seconds => Some(seconds.parse().ok()?),
    };
    let grace = value("grace")?.parse().ok().map(Duration::from_secs)?;
    parts.next().is_none().then_some(Preempts {
        budgets,
        highest,
        sum,
        pods,
        oldest,
        grace: grace.min(LONGEST_GRACE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "budgets=0,highest=100,sum=2147483748,pods=1,oldest=1767225600,grace=30";

    fn of(text: &str) -> Preempts {
        text.parse().unwrap()
    }

    #[test]
    fn it_survives_the_wire() {
        let young = TEXT
            .replace("1767225600", "-")
            .replace("100", "-2147483648");
        for text in [TEXT, &young] {
            assert_eq!(of(text).to_string(), text);
        }
    }

    #[test]
    fn damaged_texts_are_shown() {
        let long = "x".repeat(200_000);
        for text in [
            "",
            "budgets=0",
            &TEXT.replace("pods=1", "pods=0"),
            &TEXT.replace("sum=", "sum=-"),
            &TEXT.replace("highest=100", "highest=99999999999"),
            &format!("{TEXT},more=1"),
            &long,
        ] {
            let error = text.parse::<Preempts>().unwrap_err();
            assert_eq!(error.0, cut(text, SHOWN), "{text:?}");
        }
    }

    #[test]
    fn nobody_waits_for_ever() {
        let text = TEXT.replace("grace=30", "grace=18446744073709551615");
        assert_eq!(of(&text).grace, LONGEST_GRACE);
    }

    #[test]
    fn the_first_difference_decides() {
        let with = |from: &str, to: &str| of(&TEXT.replace(from, to));
        let base = of(TEXT);
        let oldest = "oldest=1767225600";
        for (what, cheap, dear) in [
            (
                "budgets",
                base,
                with("budgets=0,highest=100", "budgets=1,highest=1"),
            ),
            (
                "the highest priority",
                base,
                with("highest=100,sum=2", "highest=101,sum=1"),
            ),
            (
                "the sum",
                base,
                with("sum=2147483748,pods=1", "sum=2147483749,pods=1"),
            ),
            ("how many", base, with("pods=1", "pods=2")),
            ("age", with(oldest, "oldest=1767225601"), base),
            ("not begun", with(oldest, "oldest=-"), base),
        ] {
            assert!(cheap.cost() < dear.cost(), "{what}: {cheap} {dear}");
        }
        let slow = with("grace=30", "grace=3000");
        assert!(
            slow.cost() == base.cost(),
            "how long they take costs nothing"
        );
    }
}
