//! Whether a record still binds its pod while the recorded target doesn't answer: *hold*, *replace after T*, *forget*.
//!
//! The only place where *at most one* may be given up, and only because somebody said so: the pod's author, or the
//! Target's operator. The silence of our own heartbeat plays no part.

use std::time::Duration;

use pilotage_api::{bounds, lost::LostPolicy, record::Record};
use serde_json::Value;

use crate::{
    class::Class,
    settings::LONGEST_BUSY,
    targets::Targets,
    view::{ChaperonView, Monotonic, ProxyView, Reach},
};

/// What a record is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It stands, as long as its target is known.
    Stands,
    /// It stands until then, if nothing changes.
    Until(Monotonic),
    /// Its target is given up.
    GivenUp,
}

/// Since when a recorded chaperon has been waiting for its target's Pilotage: it was told to end, or asked to give the grant
/// up, and nothing happens. The target's API server answers; that is as good as lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stuck(Option<((String, String), Wait)>);

/// Such a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    since: Monotonic,
    /// A delegate is known to be bound, which may take this long to end.
    grace: Option<Duration>,
}

impl Stuck {
    /// Takes in the recorded chaperon as it is seen now; `None`: it isn't seen.
    pub(crate) fn see(&mut self, recorded: Option<&ChaperonView>, now: Monotonic) {
        // That it is missing is an answer, and so is a binding to who was asked to give up.
        let waits = |c: &&ChaperonView| match c.class {
            Class::Ending => true,
            Class::Missing => false,
            _ => c.marks.gives_up && !c.says_bound,
        };
        let seen = recorded.filter(waits);
        let grace = seen.filter(|c| c.says_bound).map(grace);
        match (seen, &self.0) {
            (Some(seen), Some(((node, uid), wait)))
                if (&seen.node, &seen.uid) == (node, uid) && grace == wait.grace => {}
            (seen, _) => {
                let wait = Wait { since: now, grace };
                self.0 = seen.map(|c| ((c.node.clone(), c.uid.clone()), wait));
            }
        }
    }

    /// The wait of this recorded chaperon.
    pub(crate) fn of(&self, record: &Record) -> Option<Wait> {
        let ((node, uid), wait) = self.0.as_ref()?;
        record.names(node, uid).then_some(*wait)
    }
}

impl Wait {
    /// Before this, whoever is waited for may merely be busy.
    pub(crate) fn over_at(&self) -> Monotonic {
        self.since.saturating_add(self.least())
    }

    fn least(&self) -> Duration {
        LONGEST_BUSY.saturating_add(self.grace.unwrap_or_default())
    }
}

/// How long the pod of a chaperon may take to end, as its author said; Kubernetes gives it 30 s if he didn't.
fn grace(chaperon: &ChaperonView) -> Duration {
    let said = chaperon.object.spec.0.get("terminationGracePeriodSeconds");
    bounds::seconds(said.and_then(Value::as_i64).unwrap_or(30))
}

/// What the record of `proxy` at `node` is worth; `stuck`: see [`Stuck`].
pub(crate) fn worth(
    proxy: &ProxyView,
    node: &str,
    targets: &Targets,
    stuck: Option<Wait>,
    now: Monotonic,
) -> Worth {
    let Some(target) = targets.get(node) else {
        return Worth::Stands;
    };
    let (since, least, runs) = match target.reach {
        Reach::NoSuchTarget => return Worth::GivenUp,
        Reach::Unseen if target.terms.forgotten => return Worth::GivenUp,
        Reach::Unseen | Reach::Unknown => return Worth::Stands,
        Reach::Lost => (target.lost_since, Duration::ZERO, false),
        Reach::Reachable => match stuck {
            None => return Worth::Stands,
            Some(wait) => (Some(wait.since), wait.least(), wait.grace.is_some()),
        },
    };
    let after = match proxy.lost_policy.or(target.terms.lost_policy) {
        _ if target.terms.forgotten => least,
        // A delegate may take its time to end; only *forget* says that nobody waits for it.
        _ if runs => return Worth::Stands,
        Some(LostPolicy::ReplaceAfter(after)) => after.max(least),
        Some(LostPolicy::Hold) | None => return Worth::Stands,
    };
    let Some(since) = since else {
        return Worth::Stands;
    };
    match since.checked_add(after) {
        Some(at) if now < at => Worth::Until(at),
        Some(_) => Worth::GivenUp,
        None => Worth::Stands,
    }
}

/// A target that serves the pod and whose chaperons of it aren't all known, unless it is given up; and when it will be, if
/// that is known. Where Admiralty granted a pod it wrote down there alone.
pub(crate) fn unlisted<'a>(
    proxy: &ProxyView,
    targets: &'a Targets,
    now: Monotonic,
) -> Option<(&'a str, Option<Monotonic>)> {
    let unseen = targets.serving(&proxy.namespace);
    let mut unseen = unseen.filter(|(_, target)| target.reach != Reach::Reachable);
    unseen.find_map(|(node, _)| match worth(proxy, node, targets, None, now) {
        Worth::GivenUp => None,
        Worth::Until(at) => Some((node, Some(at))),
        Worth::Stands => Some((node, None)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{targets::Terms, testing::proxy};

    const NOW: Monotonic = Duration::from_secs(100);

    #[test]
    fn a_record_is_given_up_only_by_somebodys_word() {
        let after = |seconds| Some(LostPolicy::ReplaceAfter(Duration::from_secs(seconds)));
        let terms = |forgotten, lost_policy| Terms {
            leaving: false,
            forgotten,
            lost_policy,
        };
        let until = |seconds| Worth::Until(Duration::from_secs(seconds));
        let waits = |since, grace: Option<u64>| {
            Some(Wait {
                since: Duration::from_secs(since),
                grace: grace.map(Duration::from_secs),
            })
        };
        // The target is lost since second 90.
        let table = [
            (
                "hold",
                Reach::Lost,
                terms(false, None),
                None,
                None,
                Worth::Stands,
            ),
            (
                "the target's word",
                Reach::Lost,
                terms(false, after(5)),
                None,
                None,
                Worth::GivenUp,
            ),
            (
                "not yet",
                Reach::Lost,
                terms(false, after(15)),
                None,
                None,
                until(105),
            ),
            (
                "the pod's own word",
                Reach::Lost,
                terms(false, after(5)),
                Some(LostPolicy::Hold),
                None,
                Worth::Stands,
            ),
            (
                "the pod alone",
                Reach::Lost,
                terms(false, None),
                after(10),
                None,
                Worth::GivenUp,
            ),
            (
                "forgotten",
                Reach::Lost,
                terms(true, None),
                Some(LostPolicy::Hold),
                None,
                Worth::GivenUp,
            ),
            (
                "no Target",
                Reach::NoSuchTarget,
                terms(false, None),
                None,
                None,
                Worth::GivenUp,
            ),
            (
                "it answers",
                Reach::Reachable,
                terms(true, after(0)),
                None,
                None,
                Worth::Stands,
            ),
            (
                "its Pilotage doesn't",
                Reach::Reachable,
                terms(false, after(40)),
                None,
                waits(97, None),
                until(137),
            ),
            (
                "it may be busy",
                Reach::Reachable,
                terms(false, after(5)),
                None,
                waits(97, None),
                until(127),
            ),
            (
                "a delegate runs",
                Reach::Reachable,
                terms(false, after(5)),
                None,
                waits(1, Some(10)),
                Worth::Stands,
            ),
            (
                "forgotten, but a delegate may take its time to end",
                Reach::Reachable,
                terms(true, None),
                None,
                waits(65, Some(10)),
                until(105),
            ),
            (
                "forgotten, and the delegate doesn't end",
                Reach::Reachable,
                terms(true, None),
                None,
                waits(60, Some(10)),
                Worth::GivenUp,
            ),
            (
                "forgotten, and its Pilotage doesn't answer",
                Reach::Reachable,
                terms(true, None),
                None,
                waits(70, None),
                Worth::GivenUp,
            ),
        ];
        for (name, reach, terms, own, stuck, want) in table {
            let proxy = ProxyView {
                lost_policy: own,
                node_name: Some("a".into()),
                ..proxy()
            };
            let mut targets = Targets::default();
            targets.see(None, Some(&proxy));
            targets.set_terms("a", terms);
            targets.set_reach("a", reach, Duration::from_secs(90));
            assert_eq!(worth(&proxy, "a", &targets, stuck, NOW), want, "{name}");
        }
        let nothing = worth(&proxy(), "a", &Targets::default(), None, NOW);
        assert_eq!(nothing, Worth::Stands, "what nobody knows is held");
    }

    #[test]
    fn what_answers_or_was_not_heard_of_is_not_silent() {
        for (reach, forgotten, want) in [
            (Reach::Unknown, false, Worth::Stands),
            (Reach::Unknown, true, Worth::Stands),
            (Reach::Unseen, false, Worth::Stands),
            (Reach::Unseen, true, Worth::GivenUp),
        ] {
            let mut targets = Targets::default();
            let lost_policy = Some(LostPolicy::ReplaceAfter(Duration::ZERO));
            let terms = Terms {
                leaving: false,
                forgotten,
                lost_policy,
            };
            targets.set_terms("a", terms);
            targets.set_reach("a", reach, Duration::from_secs(1));
            let worth = worth(&proxy(), "a", &targets, None, NOW);
            assert_eq!(worth, want, "{reach:?}, forgotten: {forgotten}");
        }
    }
}
