//! Targets that go dark, come back, or whose Pilotage is down.

use pilotage_proxy::feedback;

use super::{about_to_record, is_grant, is_proxy_binding};
use crate::{
    config::Config,
    play::{ASK, Ended, FEEDBACK, Play, candidate},
    request::Request,
    server::Object,
    step::Word,
};

pub(super) fn dark_after_ask() -> Ended {
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

pub(super) fn dark_after_record() -> Ended {
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

pub(super) fn replaced() -> Ended {
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

pub(super) fn deaf_target() -> Ended {
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

pub(super) fn unmoved_target() -> Ended {
    let mut play = Play::new(Config::small());
    play.step(Word::Create, 0, 0, 0);
    play.settle_choosing(1);
    play.check(play.placed_at() == Some(1), "it runs in the second target")?;
    play.hold(|_, request| {
        matches!(
            request,
            Request::Feedback {
                action: feedback::Action::DeleteChaperon { .. },
                ..
            }
        )
    });
    play.step(Word::Delete, 0, 0, 0);
    play.wait(120);
    play.check(play.proxy().is_some(), "without a word it waits for ever")?;
    play.step(Word::Crash, FEEDBACK, 0, 0);
    play.step(Word::Forget, 1, 0, 0);
    play.wait(40);
    play.check(
        play.proxy().is_some(),
        "a process that has just asked waits for half a minute, and the pod's grace",
    )?;
    play.wait(40);
    play.check(play.proxy().is_none(), "and no longer")?;
    play.end()
}
