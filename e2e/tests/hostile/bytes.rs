//! Bodies that trickle: a byte a second keeps a request alive for ever, and no Target connected.

use std::time::Duration;

use pilotage_api::conditions::types;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Lie, Script};
use pilotage_testkit::{HostileServer, build};

use crate::siege::stage;
use crate::stage::LIMIT;
use crate::watches::WATCHES;

crate::siege::attacks! { a_list_byte_by_byte }

#[tokio::test(flavor = "multi_thread")]
async fn an_event_byte_by_byte() {
    let stage = stage("an_event_byte_by_byte").await;
    let server = HostileServer::start("liar").await.unwrap();
    let watches = Calls::of(Verb::Watch, "podchaperons");
    let slow = Lie::SlowBody(Duration::from_secs(1));
    server.play(Script::new().always(watches, slow));
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    server
        .counted(Verb::Watch, "podchaperons", WATCHES, LIMIT)
        .await
        .unwrap();
    // Only now is there something to tell.
    let chaperon = build::chaperon("web").ns(&stage.own);
    server.put_everywhere(chaperon.value()).unwrap();
    let words = "an event isn't complete after 30 s";
    let lost = stage.lost("evil", "Misbehaving", words);
    tokio::join!(lost, stage.is_well("beside"));
}
