//! Whether a record still binds its pod while the recorded target doesn't answer: *hold*, *replace after T*, *forget*.
//!
//! The only place where *at most one* may be given up, and only because somebody said so: the pod's author, or the
//! Target's operator. The silence of our own heartbeat plays no part.

use pilotage_api::lost::LostPolicy;

use crate::{
    targets::Targets,
    view::{Monotonic, ProxyView, Reach},
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

/// What the record of `proxy` at `node` is worth.
///
/// `stuck_since`: since when the recorded chaperon has been ending although no delegate runs: the target's API server
/// answers, but its Pilotage doesn't, which is as good as lost.
pub(crate) fn worth(
    proxy: &ProxyView,
    node: &str,
    targets: &Targets,
    stuck_since: Option<Monotonic>,
    now: Monotonic,
) -> Worth {
    let Some(target) = targets.get(node) else {
        return Worth::Stands;
    };
    let since = match target.reach {
        Reach::NoSuchTarget => return Worth::GivenUp,
        Reach::Lost if target.terms.forgotten => return Worth::GivenUp,
        Reach::Lost => target.lost_since,
        Reach::Reachable => stuck_since,
    };
    let policy = proxy.lost_policy.or(target.terms.lost_policy);
    let (Some(since), Some(LostPolicy::ReplaceAfter(after))) = (since, policy) else {
        return Worth::Stands;
    };
    match since.checked_add(after) {
        Some(at) if now < at => Worth::Until(at),
        Some(_) => Worth::GivenUp,
        None => Worth::Stands,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
                terms(false, after(5)),
                None,
                Some(Duration::from_secs(97)),
                until(102),
            ),
        ];
        for (name, reach, terms, own, stuck, want) in table {
            let mut targets = Targets::default();
            targets.set_reach("a", reach, Duration::from_secs(90));
            targets.set_terms("a", terms, NOW);
            let proxy = ProxyView {
                lost_policy: own,
                ..proxy()
            };
            assert_eq!(worth(&proxy, "a", &targets, stuck, NOW), want, "{name}");
        }
        let nothing = worth(&proxy(), "a", &Targets::default(), None, NOW);
        assert_eq!(nothing, Worth::Stands, "what nobody knows is held");
    }
}
