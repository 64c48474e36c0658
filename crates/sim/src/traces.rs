//! The sixteen traces by which the first design of the protocol was broken, against the code as it is: each leads to the
//! point where the wrong step would be taken, and sees that it isn't.

use pilotage_api::keys;
use pilotage_proxy::Action;

use crate::{
    config::Config,
    play::{ASK, ASK2, Ended, FEEDBACK, Play, candidate},
    request::Request,
    server::Object,
    step::Word,
};

/// A trace: its name, and how it is played.
pub type Trace = (&'static str, fn() -> Result<(), String>);

/// All of them.
pub const TRACES: &[Trace] = &[
    ("1: two leaders choose two targets", two_leaders),
    ("1: a grant times out and lands later", late_grant),
    (
        "2: a grant in flight, and the proxy is deleted",
        grant_and_deletion,
    ),
    (
        "3: a chaperon is deleted while its delegate runs",
        chaperon_deleted,
    ),
    (
        "3: the same, and the controller's store lags",
        chaperon_deleted_unseen,
    ),
    ("4: the collector's graph lacks the pod", blind_collector),
    (
        "4: a grant is given up by who doesn't see that it led to a binding",
        unseen_binding,
    ),
    ("5: a store that is older than the record", old_store),
    (
        "6: a binding on the wire while the attempt is void",
        void_but_landed,
    ),
    ("7: a later attempt that was never granted", void_twice),
    (
        "8: a chaperon of the same name, and another attempt",
        same_name,
    ),
    ("9: an old view of the recorded chaperon", never_lowered),
    ("10: a target goes dark after it was asked", dark_after_ask),
    (
        "10: a target goes dark after it was recorded",
        dark_after_record,
    ),
    ("11: a proxy's binding in flight", late_proxy_binding),
    ("12: a delegate that was made again", made_again),
    ("13: an answer that survives its pod", answer_without_pod),
    ("14: an answer that nobody backs", unbacked_answer),
    ("15: a replaced target comes back", replaced),
    ("16: a parent that the store doesn't show", unseen_parent),
    ("a target whose Pilotage is down", deaf_target),
];

fn is_record(request: &Request) -> bool {
    matches!(
        request,
        Request::Ask {
            action: Action::Record { .. },
            ..
        }
    )
}

fn is_grant(request: &Request) -> bool {
    matches!(
        request,
        Request::Ask {
            action: Action::Grant { .. },
            ..
        }
    )
}

fn is_proxy_binding(request: &Request) -> bool {
    matches!(
        request,
        Request::Ask {
            action: Action::BindProxy { .. },
            ..
        }
    )
}

/// Both reserved, and a leader about to record the target with this number.
fn about_to_record(play: &mut Play, target: usize) {
    play.hold(|_, request| is_record(request));
    play.settle_choosing(target);
}

fn two_leaders() -> Ended {
    let mut play = Play::usual();
    about_to_record(&mut play, 0);
    play.step(Word::Second, ASK2, 0, 0);
    play.settle_choosing(1);
    let both = play.find(|slot, r| slot == ASK && is_record(r)).is_some()
        && play.find(|slot, r| slot == ASK2 && is_record(r)).is_some();
    play.check(both, "both leaders are about to record their choices")?;
    play.release();
    play.settle();
    play.check(
        play.told(&["hears Conflict", "Record"]) == 1,
        "one of them is refused",
    )?;
    play.check(
        play.is_bound(0) != play.is_bound(1),
        "one delegate is bound",
    )?;
    play.end()
}

fn late_grant() -> Ended {
    let mut play = Play::usual();
    play.hold(|_, request| is_grant(request));
    play.settle();
    play.delay(|_, request| is_grant(request))?;
    let chosen = play.recorded_at();
    for _ in 0..20 {
        play.wait(1);
        let marks = play.marks(chosen.unwrap_or(0));
        let past = marks.attempt > 1 && marks.allowed == 0;
        let stays = play.recorded_at() == chosen || past;
        play.check(stays, "the record stays where the grant may still land")?;
    }
    play.release();
    if !play.world.late.is_empty() {
        play.step(Word::Late, 0, 0, 0);
    }
    play.end()
}

fn grant_and_deletion() -> Ended {
    let mut play = Play::new(Config {
        lives: 2,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    play.hold(|_, request| is_grant(request));
    play.settle();
    play.delay(|_, request| is_grant(request))?;
    let at = play.recorded_at().unwrap_or(0);
    let first = play.proxy().map(|pod| pod.uid().to_owned());
    // The feedback controller's store doesn't show the chaperon any more, or not yet.
    let watch = at + 1;
    play.step(Word::Crash, FEEDBACK, 0, 0);
    play.step(Word::Start, FEEDBACK, 0, 0);
    play.step(Word::List, FEEDBACK, 0, 0);
    play.step(Word::Notice, FEEDBACK, at, 100);
    play.step(Word::Freeze, FEEDBACK, watch, 0);
    play.step(Word::Delete, 0, 0, 0);
    play.hold_word(Word::Create);
    play.settle();
    let there = play.proxy().map(|pod| pod.uid().to_owned()) == first;
    play.check(
        there && play.chaperon(at).is_some(),
        "the proxy waits for the recorded chaperon",
    )?;
    play.check(
        play.told(&["ConfirmGone", "hears StillThere"]) > 0,
        "which was read live",
    )?;
    play.step(Word::Late, 0, 0, 0);
    play.settle();
    play.check(play.is_bound(at), "the late grant has landed")?;
    play.check(play.proxy().is_some(), "the proxy still waits")?;
    play.step(Word::Thaw, FEEDBACK, watch, 0);
    play.wait(40);
    play.check(play.proxy().is_none(), "it goes after its delegate")?;
    play.end()
}

/// A proxy that is bound to the target with this number.
fn placed(target: usize) -> Play {
    let mut play = Play::usual();
    play.settle_choosing(target);
    play
}

fn chaperon_deleted() -> Ended {
    let mut play = placed(0);
    play.check(
        play.placed_at() == Some(0) && play.is_guarded(0),
        "placed and guarded",
    )?;
    play.hold_word(Word::Kubelet);
    play.step(Word::Unask, 0, 0, 0);
    play.wait(30);
    play.check(
        play.is_bound(0) && play.chaperon(0).is_some(),
        "the chaperon waits for its pod",
    )?;
    play.check(
        play.proxy().is_some() && !play.is_bound(1),
        "and the proxy for the chaperon",
    )?;
    play.end()
}

fn chaperon_deleted_unseen() -> Ended {
    let mut play = placed(0);
    play.hold_word(Word::Kubelet);
    play.step(Word::Unask, 0, 0, 0);
    // A controller that starts reads a list of pods that is older than the pod.
    let controller = candidate(0) + 2;
    play.step(Word::Crash, controller, 0, 0);
    play.step(Word::Start, controller, 0, 0);
    play.step(Word::List, controller, 1, 100);
    play.step(Word::Freeze, controller, 1, 0);
    play.wait(10);
    play.check(
        play.is_bound(0) && play.is_guarded(0),
        "the chaperon waits for its pod",
    )?;
    play.step(Word::Thaw, controller, 1, 0);
    play.end()
}

fn blind_collector() -> Ended {
    let mut play = placed(0);
    play.hold_word(Word::Kubelet);
    play.hold_word(Word::Collect);
    play.step(Word::Unask, 0, 0, 1);
    play.step(Word::Blind, 0, 0, 0);
    play.wait(30);
    let foreground = play
        .chaperon(0)
        .is_some_and(|c| crate::surroundings::is_foreground(&c));
    play.check(!foreground, "the collector is done")?;
    play.check(
        play.is_bound(0) && play.is_guarded(0),
        "our finalizer keeps the chaperon",
    )?;
    play.check(!play.is_bound(1), "nobody else is chosen")?;
    play.end()
}

fn unseen_binding() -> Ended {
    let mut play = Play::usual();
    play.hold(|_, request| is_grant(request));
    play.settle();
    let at = play.recorded_at().unwrap_or(0);
    play.step(Word::Freeze, ASK, at + 1, 0);
    play.release();
    play.settle();
    play.check(
        play.is_bound(at),
        "the delegate is bound, unseen by the proxy scheduler",
    )?;
    play.hold_word(Word::Kubelet);
    play.wait(60);
    play.check(play.told(&["sends", "GiveUp"]) > 0, "the grant is given up")?;
    let kept = play.is_bound(at)
        && play
            .chaperon(at)
            .is_some_and(|chaperon| !chaperon.is_ending());
    play.check(
        kept,
        "it was judged on an older version, and changes nothing",
    )?;
    play.check(!play.is_bound(1 - at), "nobody else is chosen")?;
    play.end()
}

fn old_store() -> Ended {
    let mut play = Play::new(Config::small());
    play.step(Word::Second, ASK2, 0, 0);
    play.hold_word(Word::Create);
    play.settle();
    play.release();
    play.step(Word::Create, 0, 0, 0);
    // Leader 1 never hears of the chaperon in the second target.
    play.step(Word::Freeze, ASK, 2, 0);
    play.hold(|slot, request| slot == ASK && is_record(request));
    play.hold(|slot, _| slot == ASK);
    play.settle_choosing(1);
    play.release();
    play.hold(|slot, request| slot == ASK && is_record(request));
    play.hold(|_, request| is_proxy_binding(request));
    play.settle_choosing(1);
    play.check(
        play.recorded_at() == Some(1),
        "leader 2 has recorded the second target",
    )?;
    play.wait(5);
    play.release();
    play.settle();
    play.check(
        play.recorded_at() == Some(1),
        "what leader 1 doesn't see isn't gone",
    )?;
    play.check(!play.is_bound(0), "and nobody else is granted")?;
    play.end()
}

/// Bound on the wire: the candidate scheduler of the first target doesn't hear what became of its binding, and restarts.
fn binding_on_the_wire() -> Result<Play, String> {
    let mut play = Play::usual();
    play.hold(|_, request| matches!(request, Request::Bind { .. }));
    play.settle();
    play.check(play.marks(0).allowed == 1, "the first attempt is granted")?;
    play.delay(|_, request| matches!(request, Request::Bind { .. }))?;
    play.step(Word::Crash, candidate(0), 0, 0);
    Ok(play)
}

fn stays_until_gone(play: &Play, uid: &str) -> Ended {
    let recorded = play
        .record()
        .is_some_and(|record| record.chaperon_uid == uid);
    let there = play
        .chaperon(0)
        .is_some_and(|chaperon| chaperon.uid() == uid);
    play.check(
        recorded || !there,
        "the record stays until the chaperon is gone",
    )
}

fn void_but_landed() -> Ended {
    let mut play = binding_on_the_wire()?;
    let uid = play
        .chaperon(0)
        .map(|c| c.uid().to_owned())
        .unwrap_or_default();
    // There is no room any more: the next attempt is a refusal, the grant is void.
    play.step(Word::Room, 0, 0, 0);
    play.hold_word(Word::Kubelet);
    play.hold(|_, request| matches!(request, Request::Bind { .. }));
    play.hold(|_, request| {
        matches!(
            request,
            Request::Control {
                action: pilotage_candidate::chaperon::Action::EndUnbound { .. },
                ..
            }
        )
    });
    play.settle();
    play.wait(1);
    stays_until_gone(&play, &uid)?;
    let landed = play
        .world
        .late
        .iter()
        .position(|late| matches!(late.request, Request::Bind { .. }));
    play.step(Word::Late, landed.unwrap_or(99), 0, 0);
    play.check(play.is_bound(0), "the late binding has landed")?;
    play.release();
    play.hold_word(Word::Kubelet);
    for _ in 0..30 {
        play.wait(1);
        stays_until_gone(&play, &uid)?;
    }
    let kept = play.is_bound(0) && !play.is_bound(1);
    play.check(kept, "who ends an unbound pod comes too late: it stays")?;
    play.end()
}

fn void_twice() -> Ended {
    let mut play = binding_on_the_wire()?;
    let uid = play
        .chaperon(0)
        .map(|c| c.uid().to_owned())
        .unwrap_or_default();
    play.hold(|_, request| is_grant(request));
    play.hold(|_, request| {
        matches!(
            request,
            Request::Ask {
                action: Action::DeleteChaperon { .. },
                ..
            }
        )
    });
    // The second attempt is recorded, not granted, and expires.
    for _ in 0..50 {
        play.wait(1);
        stays_until_gone(&play, &uid)?;
    }
    play.check(play.marks(0).attempt > 2, "the second attempt is over")?;
    play.check(play.marks(0).allowed == 1, "only the first was granted")?;
    play.check(
        play.record().is_some_and(|r| r.attempt > Some(1)),
        "the record rose",
    )?;
    play.end()
}

fn same_name() -> Ended {
    let mut play = Play::usual();
    play.hold(|_, request| is_grant(request));
    play.settle();
    let at = play.recorded_at().unwrap_or(0);
    let first = play.record();
    // Another chaperon of the same name: the check of each grant against the records sees the rest.
    play.step(Word::Unask, at, 0, 0);
    play.wait(2);
    play.release();
    play.wait(30);
    play.check(play.record() != first, "another chaperon is recorded anew")?;
    play.check(play.placed_at().is_some(), "the pod is placed")?;
    play.end()
}

fn never_lowered() -> Ended {
    let mut play = Play::usual();
    play.step(Word::Second, ASK2, 0, 0);
    about_to_record(&mut play, 0);
    // The second leader's view of the first target stands still at attempt 1.
    play.step(Word::Freeze, ASK2, 1, 0);
    play.wait(22);
    play.check(
        play.marks(0).attempt > 1,
        "the candidate is at a later attempt",
    )?;
    play.release();
    play.hold(|slot, _| slot == ASK2);
    play.hold(|_, request| is_grant(request));
    play.settle_choosing(0);
    let risen = play.record().and_then(|record| record.attempt);
    play.check(risen > Some(1), "which the first leader has recorded")?;
    play.release();
    play.hold(|_, request| is_grant(request));
    play.settle_choosing(0);
    let now = play.record().and_then(|record| record.attempt);
    play.check(now >= risen, "and the second leader doesn't lower")?;
    play.end()
}

fn dark_after_ask() -> Ended {
    let mut play = Play::new(Config {
        surely: true,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    about_to_record(&mut play, 0);
    play.check(
        play.marks(0).reserved && play.chaperon(1).is_none(),
        "only the first was asked",
    )?;
    play.step(Word::Part, 0, 0, 0);
    play.step(Word::Crash, ASK, 0, 0);
    play.world.late.clear();
    play.release();
    play.wait(5);
    play.check(
        play.placed_at() == Some(1),
        "without a record nobody waits for it",
    )?;
    play.end()
}

fn dark_after_record() -> Ended {
    let mut play = Play::new(Config {
        heals: true,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    play.hold(|_, request| is_grant(request));
    play.settle();
    let at = play.recorded_at().unwrap_or(0);
    play.step(Word::Part, at, 0, 0);
    play.step(Word::Crash, ASK, 0, 0);
    play.release();
    play.wait(120);
    play.check(
        play.recorded_at() == Some(at),
        "what is recorded there is held",
    )?;
    play.check(!play.is_bound(1 - at), "nobody else is granted")?;
    play.end()
}

fn late_proxy_binding() -> Ended {
    let mut play = Play::usual();
    play.hold(|_, request| is_proxy_binding(request));
    play.settle();
    let at = play.recorded_at().unwrap_or(0);
    play.check(play.is_bound(at), "the delegate is bound")?;
    play.delay(|_, request| is_proxy_binding(request))?;
    play.step(Word::Room, at, 0, 0);
    play.step(Word::Evict, at, 0, 0);
    play.hold(|_, request| is_grant(request));
    play.wait(3);
    play.check(
        play.recorded_at() == Some(1 - at),
        "another choice was made",
    )?;
    let late = play
        .world
        .late
        .iter()
        .position(|late| is_proxy_binding(&late.request));
    play.step(Word::Late, late.unwrap_or(99), 0, 0);
    play.check(play.placed_at().is_none(), "the late binding is refused")?;
    play.end()
}

fn made_again() -> Ended {
    let mut play = placed(0);
    let first = play.delegate(0).map(|pod| pod.uid().to_owned());
    play.step(Word::Part, 0, 0, 0);
    play.step(Word::Evict, 0, 0, 0);
    play.wait(90);
    let second = play.delegate(0).map(|pod| pod.uid().to_owned());
    play.check(
        play.is_bound(0) && second != first,
        "another delegate is bound",
    )?;
    let annotations = play
        .chaperon(0)
        .and_then(|c| c.metadata.annotations.clone());
    let reserved = annotations.and_then(|all| all.get(keys::RESERVED_POD_UID).cloned());
    play.check(reserved == second, "under a reservation that names it")?;
    play.hold_word(Word::Kubelet);
    play.step(Word::Unask, 0, 0, 0);
    play.step(Word::Part, 0, 0, 0);
    play.wait(30);
    play.check(
        play.is_bound(0) && play.is_guarded(0),
        "the finalizer waits for it, too",
    )?;
    play.check(!play.is_bound(1), "nobody else is granted")?;
    play.end()
}

fn answer_without_pod() -> Ended {
    let mut play = Play::usual();
    play.hold(|_, request| is_grant(request));
    play.settle();
    let at = play.recorded_at().unwrap_or(0);
    // The pod goes, and its successor finds no room; the grant lands on the answer for the first.
    play.step(Word::Freeze, candidate(at), 0, 0);
    play.step(Word::Freeze, candidate(at), 1, 0);
    play.step(Word::Evict, at, 0, 0);
    play.step(Word::Room, at, 0, 0);
    play.release();
    play.settle();
    play.step(Word::Crash, candidate(at), 0, 0);
    play.wait(60);
    play.check(
        play.placed_at() == Some(1 - at),
        "the answer is taken back, and another target chosen",
    )?;
    play.end()
}

fn unbacked_answer() -> Ended {
    let mut play = Play::new(Config {
        surely: true,
        full: 2,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    play.hold(|slot, _| slot == ASK);
    play.step(Word::Second, candidate(0) + 1, 0, 0);
    // The source asks; the first leader stands still meanwhile, the second one answers.
    play.settle();
    play.release();
    play.step(Word::Stop, candidate(0), 0, 0);
    play.hold(|_, request| is_record(request));
    play.settle();
    let answered = play.marks(0);
    play.check(
        answered.reserved && answered.attempt == 1,
        "the second leader has answered",
    )?;
    play.step(Word::Stop, candidate(0), 0, 0);
    play.settle();
    play.step(Word::Crash, candidate(0) + 1, 0, 0);
    play.wait(6);
    play.check(
        play.marks(0).attempt == 1,
        "the first leaves the answer alone for a while",
    )?;
    play.wait(20);
    play.check(
        play.marks(0).attempt > 1,
        "then it backs it by one of its own",
    )?;
    play.release();
    play.wait(60);
    play.check(play.placed_at() == Some(0), "and the pod is placed")?;
    play.end()
}

fn replaced() -> Ended {
    let mut play = Play::new(Config {
        replace: 5,
        said_by: 1,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    play.hold(|_, request| is_proxy_binding(request));
    play.settle_choosing(1);
    play.check(play.is_bound(1), "the second target's delegate is bound")?;
    play.delay(|_, request| is_proxy_binding(request))?;
    play.world.late.clear();
    let before = play.chaperon(1).map(|chaperon| chaperon.uid().to_owned());
    play.step(Word::Part, 1, 0, 0);
    play.hold(|_, request| is_grant(request));
    play.wait(12);
    play.check(play.recorded_at() == Some(0), "it is replaced by the first")?;
    // It comes back, and the first goes dark.
    play.step(Word::Part, 0, 0, 0);
    play.step(Word::Part, 1, 0, 0);
    play.wait(4);
    let leaves = play
        .chaperon(1)
        .is_none_or(|chaperon| Some(chaperon.uid()) != before.as_deref());
    play.check(leaves, "what the record doesn't name is deleted")?;
    play.check(
        play.told(&["sends", "DeleteUnlessRecorded"]) > 0,
        "after a live read of the record",
    )?;
    play.end()
}

fn deaf_target() -> Ended {
    let mut play = Play::new(Config {
        replace: 40,
        said_by: 1,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    play.hold(|slot, request| slot == candidate(1) && matches!(request, Request::Bind { .. }));
    play.settle_choosing(1);
    play.check(
        play.recorded_at() == Some(1),
        "the second target is granted",
    )?;
    play.hold_word(Word::Start);
    play.step(Word::Crash, candidate(1), 0, 0);
    play.step(Word::Crash, candidate(1) + 2, 0, 0);
    play.wait(30);
    play.check(
        play.marks(1).gives_up,
        "its Pilotage is asked to end the pod",
    )?;
    play.check(play.recorded_at() == Some(1), "the grant stands")?;
    play.wait(120);
    play.check(
        play.placed_at() == Some(0),
        "after the time that was said it is replaced by the first",
    )?;
    play.end()
}

fn unseen_parent() -> Ended {
    let mut play = Play::new(Config {
        lives: 2,
        ..Config::small()
    });
    play.step(Word::Create, 0, 0, 0);
    play.settle();
    play.step(Word::Delete, 0, 0, 0);
    play.hold_word(Word::Create);
    play.settle();
    play.check(play.proxy().is_none(), "the first pod is gone")?;
    play.step(Word::Freeze, FEEDBACK, 0, 0);
    play.release();
    play.settle();
    let at = play.placed_at().unwrap_or(0);
    play.check(
        play.is_bound(at),
        "its successor is placed, unseen by the feedback controller",
    )?;
    play.wait(20);
    play.check(
        play.told(&["sends", "DeleteIfOrphan"]) > 0,
        "to which the chaperon looks parentless",
    )?;
    let stays = play
        .chaperon(at)
        .is_some_and(|chaperon| !chaperon.is_ending());
    play.check(
        stays && play.is_bound(at),
        "it stays, for its parent was read live",
    )?;
    play.end()
}
