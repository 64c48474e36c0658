//! Connections that lead elsewhere, speak another protocol, break off, trickle, or are silent.

use std::time::Duration;

use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::Lie;

use super::attacks::{Attack, losing};

const SECOND: Duration = Duration::from_secs(1);
/// Nobody listens there.
const NOWHERE: &str = "https://127.0.0.1:1";

fn ssh() -> Lie {
    Lie::Raw(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec().into())
}

/// All of them.
pub(super) fn all() -> Vec<Attack> {
    let any = Calls::any;
    let lists = |resource| Calls::of(Verb::List, resource);
    let unreadable = "its answers can't be read";
    vec![
        losing(
            "headers_without_end",
            any(),
            Lie::EndlessHeaders,
            "Misbehaving",
            unreadable,
        ),
        losing(
            "http2_that_resets_each_stream",
            any(),
            Lie::http2_reset(),
            "Misbehaving",
            unreadable,
        ),
        losing(
            "continue_without_end",
            any(),
            Lie::EndlessContinue,
            "Misbehaving",
            "it answers 100, which is no answer of an API server",
        ),
        losing("another_protocol", any(), ssh(), "Misbehaving", unreadable),
        losing(
            "a_redirection",
            any(),
            Lie::Redirect(NOWHERE.to_owned()),
            "Misbehaving",
            "it answers 307, a redirection, which is never followed",
        ),
        losing(
            "answers_that_break_off",
            any(),
            Lie::Cut(1),
            "Unreachable",
            "",
        ),
        losing(
            "answers_that_are_reset",
            any(),
            Lie::Reset(1),
            "Unreachable",
            "",
        ),
        losing("silence", any(), Lie::Silence, "Unreachable", "within 3s"),
        losing(
            "handshakes_without_end",
            any(),
            Lie::MuteHandshake,
            "Unreachable",
            "within 3s",
        ),
        losing(
            "connections_that_nobody_reads",
            any(),
            Lie::ReadsNothing,
            "Unreachable",
            "within 3s",
        ),
        losing(
            "headers_byte_by_byte",
            any(),
            Lie::SlowHead(SECOND),
            "Unreachable",
            "within 3s",
        ),
        losing(
            "an_identity_byte_by_byte",
            lists("clustersummaries"),
            Lie::SlowBody(SECOND),
            "Unreachable",
            "within 3s",
        ),
        losing(
            "a_list_byte_by_byte",
            lists("podchaperons"),
            Lie::SlowBody(SECOND),
            "Misbehaving",
            "a list isn't complete after 20 s",
        ),
        // The probe is well.
        losing(
            "lists_without_an_answer",
            lists("podchaperons"),
            Lie::Silence,
            "Misbehaving",
            "it says nothing of podchaperons: failed to list",
        ),
        losing(
            "lists_that_break_off",
            lists("podchaperons"),
            Lie::Cut(1),
            "Misbehaving",
            "it says nothing of podchaperons: failed to list",
        ),
        losing(
            "watches_without_an_answer",
            Calls::of(Verb::Watch, "podchaperons"),
            Lie::Silence,
            "Misbehaving",
            "it says nothing of podchaperons: failed to open the watch",
        ),
    ]
}
