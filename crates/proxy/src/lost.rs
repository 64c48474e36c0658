//! Whether a record still binds its pod while the recorded target doesn't answer: *hold*, *replace after T*, *forget*.
//!
//! The only place where *at most one* may be given up, and only because somebody said so: the pod's author, or the
//! Target's operator. The silence of our own heartbeat plays no part.
//!
//! A target that answers may say anything, for ever. So where its operator has said *forget*, what it shows is no
//! reason to wait: what we have asked for is waited for by our own clock.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{bounds, keys, lost::LostPolicy, record::Record};
use pilotage_model::manifest::SourcePod;
use serde_json::Value;

use crate::{
    class::Class,
    kept::LeftOut,
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

/// Since when a recorded chaperon has been waiting for its target's Pilotage: it was told to end, or asked to give the
/// grant up, and nothing happens. The target's API server answers; that is as good as lost.
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

/// The same as the pod's author said here, up to an hour; that, if it isn't known.
pub(crate) fn own_grace(pod: &Pod) -> Duration {
    if LeftOut::of(pod) != LeftOut::Nothing {
        return LONGEST_GRACE;
    }
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

/// A target that serves the pod and whose chaperons of it aren't all known, unless it is given up; and when it will be,
/// if that is known. Where Admiralty granted a pod it wrote down there alone.
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
mod tests;
