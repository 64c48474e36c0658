//! Hostile watches: events without end, too long, or of things that nobody asked for.

use pilotage_api::conditions::types;
use pilotage_e2e::hostile::attacks;
use pilotage_testkit::fault::Verb;
use pilotage_testkit::{HostileServer, build};
use tokio::time::Instant;

use crate::siege::stage;
use crate::stage::LIMIT;

/// Watches of chaperons that a source has at a target: of its own and of those without a source, by two processes.
pub(crate) const WATCHES: u64 = 4;

crate::siege::attacks! {
    events_without_end,
    a_line_without_end,
    brackets_in_an_event,
    an_event_of_another_kind,
    an_event_without_utf8,
    a_watch_in_html,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_owners() {
    crate::siege::borne("a_million_owners", Verb::Watch, "podchaperons", WATCHES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_again_and_again() {
    crate::siege::borne(
        "the_same_event_again_and_again",
        Verb::Watch,
        "podchaperons",
        WATCHES,
    )
    .await;
}

/// A chunk of one byte is six bytes, and costs as much as 256 and its bytes: of each of two processes the first 650 MiB
/// are 16 MiB here, and each second less than one.
#[tokio::test(flavor = "multi_thread")]
async fn one_byte_chunks() {
    const MIB: u64 = 1 << 20;
    let attack = attacks::named("one_byte_chunks").unwrap();
    let stage = stage(attack.name).await;
    let server = HostileServer::start("liar").await.unwrap();
    server.play(attack.script());
    let began = Instant::now();
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    server
        .counted(Verb::Watch, "podchaperons", WATCHES, LIMIT)
        .await
        .unwrap();
    for name in ["one", "two"] {
        stage.is_well(name).await;
    }
    let (sent, seconds) = (server.sent(), began.elapsed().as_secs());
    // Some MiB more are in buffers.
    assert!(
        sent < (64 + 2 * seconds) * MIB,
        "{sent} bytes in {seconds} s"
    );
}

/// That such a target is lost in the end is shown by paused time, in `clusters::watch`.
#[tokio::test(flavor = "multi_thread")]
async fn watches_without_bookmarks() {
    let attack = attacks::named("watches_without_bookmarks").unwrap();
    let stage = stage(attack.name).await;
    let server = HostileServer::start("liar").await.unwrap();
    server.play(attack.script());
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    server
        .counted(Verb::Watch, "podchaperons", WATCHES, LIMIT)
        .await
        .unwrap();
    for name in ["one", "two"] {
        stage.is_well(name).await;
    }
    // They are waited for, not asked for again and again.
    for verb in [Verb::List, Verb::Watch] {
        let asked = server.count(verb, "podchaperons");
        assert!(asked <= 2 * WATCHES, "{verb:?}: {asked} times");
    }
    // And what they tell is heard.
    let strange = build::chaperon("web").ns(&stage.honest);
    server.put_everywhere(strange.value()).unwrap();
    stage.condition("evil", types::TRUSTWORTHY, "False").await;
}
