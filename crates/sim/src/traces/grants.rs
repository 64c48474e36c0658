//! Which grant counts: two leaders, late grants, attempts that are past, names that were used before.

use pilotage_proxy::Action;

use super::{about_to_record, is_grant, is_proxy_binding, is_record};
use crate::{
    config::Config,
    play::{ASK, ASK2, Ended, FEEDBACK, Play, candidate},
    request::Request,
    server::Object,
    step::Word,
};

pub(super) fn two_leaders() -> Ended {
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

pub(super) fn late_grant() -> Ended {
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

pub(super) fn grant_and_deletion() -> Ended {
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

pub(super) fn old_store() -> Ended {
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

/// Bound on the wire: the candidate scheduler of the first target doesn't hear what became of its binding, and
/// restarts.
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

pub(super) fn void_but_landed() -> Ended {
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

pub(super) fn void_twice() -> Ended {
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

pub(super) fn same_name() -> Ended {
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

pub(super) fn grant_of_another() -> Ended {
    let mut play = Play::new(Config::small());
    play.step(Word::Room, 1, 0, 0);
    play.step(Word::Create, 0, 0, 0);
    play.hold(|_, request| is_grant(request));
    play.settle();
    play.delay(|_, request| is_grant(request))?;
    let first = play.chaperon(0).map(|c| c.uid().to_owned());
    // The chaperon goes before the grant lands, and another one gets its name, and holds a node at the same attempt.
    play.step(Word::Unask, 0, 0, 0);
    play.hold(|_, request| is_record(request));
    play.wait(2);
    let second = play.chaperon(0).map(|c| c.uid().to_owned());
    let marks = play.marks(0);
    play.check(
        second.is_some() && second != first && marks.reserved && marks.attempt == 1,
        "the name is used again",
    )?;
    play.step(Word::Late, 0, 0, 0);
    play.check(play.marks(0).allowed == 0, "nobody has granted the new one")?;
    play.release();
    play.wait(5);
    play.check(play.placed_at() == Some(0), "until it is recorded")?;
    play.end()
}

pub(super) fn never_lowered() -> Ended {
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

pub(super) fn late_proxy_binding() -> Ended {
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
