//! How pods and chaperons end: deleted, collected, given up, made again, orphaned.

use pilotage_api::keys;

use super::{is_grant, is_record};
use crate::{
    config::Config,
    liar::LIES,
    play::{ASK, Ended, FEEDBACK, Play, candidate},
    server::Object,
    step::Word,
};

/// A proxy that is bound to the target with this number.
fn placed(target: usize) -> Play {
    let mut play = Play::usual();
    play.settle_choosing(target);
    play
}

pub(super) fn chaperon_deleted() -> Ended {
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

pub(super) fn chaperon_deleted_unseen() -> Ended {
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

pub(super) fn blind_collector() -> Ended {
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

pub(super) fn unseen_binding() -> Ended {
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

pub(super) fn made_again() -> Ended {
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

pub(super) fn answer_without_pod() -> Ended {
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

pub(super) fn unbacked_answer() -> Ended {
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

pub(super) fn unseen_parent() -> Ended {
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

pub(super) fn every_lie() -> Ended {
    for process in [ASK, FEEDBACK] {
        for how in 0..LIES {
            let mut play = placed(0);
            let first = play.delegate(0).map(|pod| pod.uid().to_owned());
            play.hold_word(Word::Kubelet);
            play.step(Word::Lie, process, 0, how);
            play.wait(90);
            let same = play.delegate(0).map(|pod| pod.uid().to_owned()) == first;
            play.check(
                same && play.is_bound(0) && play.is_guarded(0),
                "the delegate stays",
            )?;
            play.check(
                play.recorded_at() == Some(0) && !play.is_bound(1),
                "nobody else is chosen",
            )?;
            play.end()?;
        }
    }
    Ok(())
}
