//! What lies below HTTP: the handshake, and what it agrees on.

use pilotage_testkit::HostileServer;
use pilotage_testkit::fault::Calls;
use pilotage_testkit::hostile::{Lie, Script};

use super::*;

/// A client of such a server through the door.
fn of(server: &HostileServer) -> Client {
    client::install_crypto_provider();
    let config = server.access().config().unwrap();
    client(config, "test", &Allowed::default(), &Arc::default()).unwrap()
}

#[tokio::test]
async fn who_would_rather_speak_http2_is_spoken_to_in_http1() {
    let server = HostileServer::preferring_http2("far").await.unwrap();
    assert_eq!(health(&of(&server)).await.unwrap(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_ends_is_given_up() {
    let server = HostileServer::start("far").await.unwrap();
    server.play(Script::new().always(Calls::any(), Lie::MuteHandshake));
    let client = of(&server);
    let began = Instant::now();
    let error = CallError::from(health(&client).await.unwrap_err());
    let text = error.message();
    assert!(text.contains("no connection within 5 s"), "{text}");
    assert!(offence_of_call(&error).is_none());
    assert!(began.elapsed() < Duration::from_secs(6));
}
