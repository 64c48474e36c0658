//! Whether a record still binds its pod while the recorded target doesn't answer: *hold*, *replace after T*, *forget*.
//!
//! The only place where *at most one* may be given up, and only because somebody said so: the pod's author, or the
//! Target's operator. The silence of our own heartbeat plays no part.
//!
//! A target that answers may say anything, for ever. So where its operator has said *forget*, what it shows is no reason to
//! wait: what we have asked for is waited for by our own clock.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{bounds, keys, lost::LostPolicy, record::Record};
use pilotage_model::manifest::SourcePod;
use serde_json::Value;

use crate::{
    class::Class,
    settings::LONGEST_BUSY,
    slim::GRACE,
    targets::{TargetView, Targets},
    view::{ChaperonView, Monotonic, ProxyView, Reach},
};

/// Kubernetes gives a pod so much to end if its author said nothing.
const USUAL_GRACE: i64 = 30;
/// Nobody waits longer for what may run in a forgotten target, whatever its author said.
const LONGEST_GRACE: Duration = Duration::from_hours(1);

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

/// What a record's target is waited for, and since when or until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// For what it shows, see [`Stuck`].
    pub(crate) stuck: Option<Wait>,
    /// For what we have asked for: by then, by our own clock, and whatever it shows. Counts only where it is forgotten.
    pub(crate) due: Option<Monotonic>,
}

/// When what this process asked for at `asked` is waited for no longer in a forgotten target.
pub(crate) fn due(asked: Monotonic, grace: Duration) -> Monotonic {
    asked.saturating_add(LONGEST_BUSY).saturating_add(grace)
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

/// How long the pod of a chaperon may take to end, as its target tells it.
fn grace(chaperon: &ChaperonView) -> Duration {
    let said = chaperon.object.spec.0.get(GRACE);
    seconds(said)
}

/// The same as the pod's author said here, up to an hour.
pub(crate) fn own_grace(pod: &Pod) -> Duration {
    let annotations = pod.metadata.annotations.as_ref();
    let manifest = annotations.and_then(|all| all.get(keys::SOURCE_POD_MANIFEST));
    let source = manifest.and_then(|text| SourcePod::parse(text).ok());
    let said = source.as_ref().map(|source| &source.value()["spec"][GRACE]);
    seconds(said).min(LONGEST_GRACE)
}

fn seconds(said: Option<&Value>) -> Duration {
    bounds::seconds(said.and_then(Value::as_i64).unwrap_or(USUAL_GRACE))
}

/// What the record of `proxy` at `node` is worth.
pub(crate) fn worth(
    proxy: &ProxyView,
    node: &str,
    targets: &Targets,
    waits: Waits,
    now: Monotonic,
) -> Worth {
    let Some(target) = targets.get(node) else {
        return Worth::Stands;
    };
    let shown = as_shown(proxy, target, waits.stuck, now);
    let answers = matches!(target.reach, Reach::Reachable | Reach::Unknown);
    match waits.due {
        Some(at) if answers && target.terms.forgotten => shown.or_at(at, now),
        _ => shown,
    }
}

/// The same, by what its target shows.
fn as_shown(proxy: &ProxyView, target: &TargetView, stuck: Option<Wait>, now: Monotonic) -> Worth {
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

impl Worth {
    /// The same, but given up at `at` if not before.
    fn or_at(self, at: Monotonic, now: Monotonic) -> Self {
        match self {
            Worth::GivenUp => Worth::GivenUp,
            _ if now >= at => Worth::GivenUp,
            Worth::Stands => Worth::Until(at),
            Worth::Until(other) => Worth::Until(other.min(at)),
        }
    }
}

/// A target that serves the pod and whose chaperons of it aren't all known, unless it is given up; and when it will be, if
/// that is known. Where Admiralty granted a pod it wrote down there alone.
pub(crate) fn unlisted<'a>(
    proxy: &ProxyView,
    targets: &'a Targets,
    waits: impl Fn(&str) -> Waits,
    now: Monotonic,
) -> Option<(&'a str, Option<Monotonic>)> {
    let unseen = targets.serving(&proxy.namespace);
    let mut unseen = unseen.filter(|(_, target)| target.reach != Reach::Reachable);
    unseen.find_map(
        |(node, _)| match worth(proxy, node, targets, waits(node), now) {
            Worth::GivenUp => None,
            Worth::Until(at) => Some((node, Some(at))),
            Worth::Stands => Some((node, None)),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{targets::Terms, testing::proxy};

    const NOW: Monotonic = Duration::from_secs(100);
    const S: Duration = Duration::from_secs(1);

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
            let waits = Waits { stuck, due: None };
            assert_eq!(worth(&proxy, "a", &targets, waits, NOW), want, "{name}");
        }
        let nothing = worth(&proxy(), "a", &Targets::default(), Waits::default(), NOW);
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
            let worth = worth(&proxy(), "a", &targets, Waits::default(), NOW);
            assert_eq!(worth, want, "{reach:?}, forgotten: {forgotten}");
        }
    }

    #[test]
    fn what_we_asked_of_a_forgotten_target_is_waited_for_by_our_own_clock() {
        let due = |seconds| Some(Duration::from_secs(seconds));
        let shown = Wait {
            since: Duration::from_secs(75),
            grace: None,
        };
        let (own, replace) = (
            Some(LostPolicy::Hold),
            Some(LostPolicy::ReplaceAfter(Duration::ZERO)),
        );
        for (name, reach, forgotten, policy, stuck, due, want) in [
            (
                "not yet",
                Reach::Reachable,
                true,
                own,
                None,
                due(101),
                Worth::Until(NOW + S),
            ),
            (
                "it shows nothing new",
                Reach::Reachable,
                true,
                own,
                None,
                due(100),
                Worth::GivenUp,
            ),
            (
                "nothing is listed",
                Reach::Unknown,
                true,
                own,
                None,
                due(100),
                Worth::GivenUp,
            ),
            (
                "nothing was asked for",
                Reach::Reachable,
                true,
                own,
                None,
                None,
                Worth::Stands,
            ),
            (
                "what it shows may be earlier",
                Reach::Reachable,
                true,
                own,
                Some(shown),
                due(106),
                Worth::Until(Duration::from_secs(105)),
            ),
            (
                "or later",
                Reach::Reachable,
                true,
                own,
                Some(shown),
                due(102),
                Worth::Until(Duration::from_secs(102)),
            ),
            (
                "nobody's word",
                Reach::Reachable,
                false,
                own,
                None,
                due(1),
                Worth::Stands,
            ),
            (
                "another word",
                Reach::Reachable,
                false,
                replace,
                None,
                due(1),
                Worth::Stands,
            ),
            (
                "nobody's word, and nothing listed",
                Reach::Unknown,
                false,
                replace,
                None,
                due(1),
                Worth::Stands,
            ),
        ] {
            let proxy = ProxyView {
                lost_policy: policy,
                ..proxy()
            };
            let mut targets = Targets::default();
            let terms = Terms {
                forgotten,
                ..Terms::default()
            };
            targets.set_terms("a", terms);
            targets.set_reach("a", reach, Duration::from_secs(1));
            let waits = Waits { stuck, due };
            assert_eq!(worth(&proxy, "a", &targets, waits, NOW), want, "{name}");
        }
    }

    #[test]
    fn the_grace_is_what_the_pods_author_said_and_an_hour_at_most() {
        for (said, want) in [("5", 5), ("0", 0), ("86400", 3600), ("x", 30)] {
            let manifest = format!(
                "metadata: {{}}\nspec:\n  terminationGracePeriodSeconds: {said}\n  containers: []\n"
            );
            let mut pod = Pod::default();
            let text = (keys::SOURCE_POD_MANIFEST.to_owned(), manifest);
            pod.metadata.annotations = Some([text].into());
            assert_eq!(own_grace(&pod), Duration::from_secs(want), "{said}");
        }
        assert_eq!(own_grace(&Pod::default()), Duration::from_secs(30));
    }
}
