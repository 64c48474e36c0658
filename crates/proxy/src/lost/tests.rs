//! What a record is worth, by whose word, and from when on.

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
