//! Watches whose events are too long, too many, of other things, or don't come. The lists before them are true.

use pilotage_testkit::build;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Answer, Lie, NUMBER, PADDING};
use serde_json::{Value, json};

use super::attacks::{Attack, losing};
use super::bodies::{DEPTH, JSON, another, crowded};

fn watches() -> Calls {
    Calls::of(Verb::Watch, "podchaperons")
}

fn event(what: &str, object: &Value) -> Value {
    json!({ "type": what, "object": object })
}

/// An event whose line doesn't end.
fn endless_line() -> Answer {
    let chaperon = build::chaperon("web").annotation("a", PADDING);
    Answer::padded(&event("ADDED", &chaperon.value()), None)
}

fn deep() -> Answer {
    let (open, close) = ("[".repeat(DEPTH), "]".repeat(DEPTH));
    let line = format!(r#"{{"type":"ADDED","object":{open}{close}}}"#);
    Answer::bytes(JSON, line + "\n")
}

fn secret() -> Answer {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    Answer::events(&event("ADDED", &secret), Some(1))
}

fn no_utf8() -> Answer {
    Answer::bytes(JSON, b"{\"type\":\"\xff\"}\n".to_vec())
}

/// One chaperon that changes all the time.
fn flood() -> Answer {
    let mut chaperon = build::chaperon("web").ns("anywhere").uid("u").value();
    chaperon["metadata"]["resourceVersion"] = json!(NUMBER);
    Answer::events(&event("MODIFIED", &chaperon), None)
}

/// One chaperon that has as many owners as an event has room for.
fn owned_by_many() -> Answer {
    let object = crowded(build::chaperon("crowd").value(), "ownerReferences");
    let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    Answer::bytes(JSON, line)
}

/// All of them.
pub(super) fn all() -> Vec<Attack> {
    vec![
        Attack {
            name: "a_million_owners",
            calls: watches(),
            lie: Lie::Answer(owned_by_many()),
            lost: None,
        },
        losing(
            "events_without_end",
            watches(),
            Lie::Answer(Answer::events(&event("ADDED", &another()), None)),
            "TooMuch",
            "would take more than 16 MiB of memory, for 0 pods",
        ),
        losing(
            "a_line_without_end",
            watches(),
            Lie::Answer(endless_line()),
            "TooMuch",
            "an event has more than 3145728 bytes",
        ),
        losing(
            "brackets_in_an_event",
            watches(),
            Lie::Answer(deep()),
            "Misbehaving",
            "an event is nested more than 100 levels deep",
        ),
        losing(
            "an_event_of_another_kind",
            watches(),
            Lie::Answer(secret()),
            "Misbehaving",
            "an event is of another kind than what was asked for",
        ),
        losing(
            "an_event_without_utf8",
            watches(),
            Lie::Answer(no_utf8()),
            "Misbehaving",
            "an event is no JSON",
        ),
        losing(
            "a_watch_in_html",
            watches(),
            Lie::ContentType("text/html".to_owned()),
            "Misbehaving",
            "an event isn't application/json",
        ),
        Attack {
            name: "the_same_event_again_and_again",
            calls: watches(),
            lie: Lie::Answer(flood()),
            lost: None,
        },
        Attack {
            name: "one_byte_chunks",
            calls: watches(),
            lie: Lie::Crumbs(flood()),
            lost: None,
        },
        // Lost after five minutes.
        Attack {
            name: "watches_without_bookmarks",
            calls: Calls::any().verb(Verb::Watch),
            lie: Lie::QuietWatch,
            lost: None,
        },
    ]
}
