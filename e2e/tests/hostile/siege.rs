//! One attack of one tenant's server: the Target that leads to it is lost, for the right reason, and nobody else
//! notices.

use std::collections::BTreeSet;

use pilotage_api::conditions::types;
use pilotage_e2e::hostile::attacks::{Attack, PRIVATE, all, named};
use pilotage_testkit::HostileServer;
use pilotage_testkit::fault::Verb;

use crate::stage::{LIMIT, Stage};

/// What a namespace's name has room for, besides what makes it unique.
const PREFIX: usize = 40;

/// Attacks from the first request on.
pub(crate) async fn lost_by(attack: Attack) {
    let (reason, words) = attack.lost.unwrap();
    let stage = stage(attack.name).await;
    let server = HostileServer::start("liar").await.unwrap();
    server.play(attack.script());
    stage.lead_to(&server, "evil").await;
    let told = stage.lost("evil", reason, words).await;
    assert!(!told.contains(PRIVATE), "{told}");
    // It goes on.
    stage.is_well("beside").await;
}

/// An attack by which the Target isn't lost, or not soon. Once it was asked so often for what is lied about, nobody
/// else has noticed.
pub(crate) async fn borne(attack: &str, verb: Verb, resource: &str, least: u64) {
    let attack = named(attack).unwrap();
    let stage = stage(attack.name).await;
    let server = HostileServer::start("liar").await.unwrap();
    server.play(attack.script());
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    let counted = server.counted(verb, resource, least, LIMIT).await;
    counted.unwrap();
    for name in ["one", "two"] {
        stage.is_well(name).await;
    }
}

/// A stage called as the test is.
pub(crate) async fn stage(test: &str) -> Stage {
    let prefix = test.replace('_', "-");
    let end = prefix.floor_char_boundary(PREFIX);
    Stage::beside(prefix[..end].trim_end_matches('-')).await
}

/// A test for each of these attacks, and their names as `TESTED`.
macro_rules! attacks {
    ($($attack:ident),+ $(,)?) => {
        pub(crate) const TESTED: &[&str] = &[$(stringify!($attack)),+];
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $attack() {
                let attack = pilotage_e2e::hostile::attacks::named(stringify!($attack));
                crate::siege::lost_by(attack.unwrap()).await;
            }
        )+
    };
}
pub(crate) use attacks;

#[test]
fn every_attack_has_a_test_of_its_name() {
    let alone = [
        "a_copy_that_changes_all_the_time",
        "a_million_managers_of_fields",
        "a_million_owners",
        "a_redirection",
        "one_byte_chunks",
        "the_same_event_again_and_again",
        "watches_without_bookmarks",
    ];
    let tested = [
        &alone[..],
        crate::bodies::TESTED,
        crate::copies::TESTED,
        crate::lines::TESTED,
        crate::bytes::TESTED,
        crate::watches::TESTED,
    ];
    let tested: BTreeSet<_> = tested.concat().into_iter().collect();
    let known: BTreeSet<_> = all().iter().map(|attack| attack.name).collect();
    assert_eq!(tested, known);
}
