//! Hostile lines: connections that lead elsewhere, speak another protocol, break off, trickle, or are silent.

use pilotage_e2e::hostile::attacks;
use pilotage_testkit::HostileServer;
use pilotage_testkit::hostile::Lie;

use crate::siege;

siege::attacks! {
    headers_without_end,
    http2_that_resets_each_stream,
    another_protocol,
    continue_without_end,
    answers_that_break_off,
    answers_that_are_reset,
    silence,
    handshakes_without_end,
    connections_that_nobody_reads,
    headers_byte_by_byte,
    an_identity_byte_by_byte,
    lists_without_an_answer,
    lists_that_break_off,
    watches_without_an_answer,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirection() {
    let trap = HostileServer::start("trap").await.unwrap();
    let mut attack = attacks::named("a_redirection").unwrap();
    attack.lie = Lie::Redirect(trap.url().to_owned());
    siege::lost_by(attack).await;
    assert_eq!(trap.accepted(), 0, "somebody came");
}
