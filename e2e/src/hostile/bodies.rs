//! Answers that are too long, too many, too deep, or none of an API server's.

use pilotage_api::{GROUP, VERSION};
use pilotage_testkit::build;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Answer, Lie, NUMBER, PADDING};
use serde_json::{Value, json};

use super::attacks::{Attack, PRIVATE, losing};

/// What API servers say of JSON.
pub(super) const JSON: &str = "application/json";
/// Far deeper than any reader goes.
pub(super) const DEPTH: usize = 10_000;

/// Lists of chaperons, which every source reads first.
fn lists() -> Calls {
    Calls::of(Verb::List, "podchaperons")
}

fn health() -> Calls {
    Calls::any().path("/readyz")
}

/// Another chaperon each time, of 4 KiB.
pub(super) fn another() -> Value {
    let name = format!("web-{NUMBER}");
    let chaperon = build::chaperon(&name).annotation("a", "x".repeat(4 << 10));
    chaperon.value()
}

fn list_of(items: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "PodChaperonList",
        "metadata": { "resourceVersion": "1" },
        "items": items,
    })
}

/// A list of one object of 5 MiB.
fn one_large() -> Answer {
    let large = build::chaperon("large").annotation("a", PADDING).value();
    Answer::padded(&list_of(&json!([large])), Some(5 << 10))
}

/// A list that is short enough, and takes ten times as much memory.
fn heavy() -> Answer {
    let items = r#"{"":0},"#.repeat(500_000);
    let version = format!("{GROUP}/{VERSION}");
    let start =
        format!(r#"{{"apiVersion":"{version}","kind":"ClusterSummaryList","metadata":{{}}"#);
    Answer::bytes(JSON, format!(r#"{start},"items":[{items}0]}}"#))
}

/// This object, with as many entries that say nothing in a field of its metadata as a body has room for: each is two
/// bytes, and would take a hundred times as much memory.
pub(super) fn crowded(mut object: Value, field: &str) -> String {
    const ENTRIES: usize = 900_000;
    object["metadata"][field] = json!([]);
    let (empty, full) = (
        format!(r#""{field}":[]"#),
        format!(r#""{field}":[{}{{}}]"#, "{},".repeat(ENTRIES)),
    );
    object.to_string().replace(&empty, &full)
}

/// A list of one object that is crowded with who manages which field.
fn managed_by_many() -> Answer {
    let item = crowded(build::chaperon("crowd").value(), "managedFields");
    let list = list_of(&json!([0])).to_string();
    Answer::bytes(JSON, list.replace("[0]", &format!("[{item}]")))
}

fn deep() -> Lie {
    Lie::Deep {
        field: "items".to_owned(),
        depth: DEPTH,
    }
}

fn another_kind() -> Lie {
    Lie::Kind {
        api_version: "v1".to_owned(),
        kind: "SecretList".to_owned(),
    }
}

fn gzip() -> Answer {
    Answer::json(&list_of(&json!([]))).header("Content-Encoding", "gzip")
}

fn no_version() -> Answer {
    let mut list = list_of(&json!([]));
    list["metadata"] = json!({});
    Answer::json(&list)
}

fn refusal() -> Answer {
    Answer::bytes("text/html", format!("<p>{PRIVATE}</p>")).status(401)
}

/// All of them.
pub(super) fn all() -> Vec<Attack> {
    vec![
        losing(
            "a_list_without_end",
            lists(),
            Lie::Answer(Answer::list(&another(), None)),
            "TooMuch",
            "a list has more than 4194304 bytes",
        ),
        losing(
            "pages_without_end",
            lists(),
            Lie::Answer(Answer::pages(&another(), 100)),
            "TooMuch",
            "would take more than 16 MiB of memory, for 0 pods",
        ),
        losing(
            "empty_pages_without_end",
            lists(),
            Lie::Answer(Answer::pages(&another(), 0)),
            "TooMuch",
            "a list isn't complete after 101 pages",
        ),
        losing(
            "an_object_of_five_mebibytes",
            lists(),
            Lie::Answer(one_large()),
            "TooMuch",
            "a list has more than 4194304 bytes",
        ),
        losing(
            "a_short_list_that_takes_much_memory",
            Calls::of(Verb::List, "clustersummaries"),
            Lie::Answer(heavy()),
            "TooMuch",
            "a list would take more than 25165824 bytes of memory",
        ),
        losing(
            "a_word_of_health_without_end",
            health(),
            Lie::Answer(Answer::text(None)),
            "TooMuch",
            "what /readyz says has more than 16384 bytes",
        ),
        losing(
            "a_failure_without_end",
            health(),
            Lie::Answer(Answer::text(None).status(500)),
            "Unreachable",
            "/readyz answered 500",
        ),
        losing(
            "a_failure_whose_text_is_nobodys_business",
            Calls::any(),
            Lie::Answer(refusal()),
            "Unauthorized",
            "status 401, without a reason",
        ),
        losing(
            "brackets_in_brackets",
            lists(),
            deep(),
            "Misbehaving",
            "a list is nested more than 100 levels deep",
        ),
        losing(
            "no_utf8",
            lists(),
            Lie::InvalidUtf8,
            "Misbehaving",
            "a list is no JSON",
        ),
        losing(
            "html",
            lists(),
            Lie::ContentType("text/html".to_owned()),
            "Misbehaving",
            "a list isn't application/json",
        ),
        losing(
            "an_encoding_that_nobody_asked_for",
            lists(),
            Lie::Answer(gzip()),
            "Misbehaving",
            "is encoded in a way that wasn't asked for",
        ),
        losing(
            "objects_of_another_kind",
            lists(),
            another_kind(),
            "Misbehaving",
            "a list is of another kind than what was asked for",
        ),
        losing(
            "a_list_that_is_none",
            lists(),
            Lie::Answer(Answer::json(&list_of(&json!(5)))),
            "Misbehaving",
            "a page of the list can't be read",
        ),
        losing(
            "a_list_without_a_version",
            lists(),
            Lie::Answer(no_version()),
            "Misbehaving",
            "the list has no resource version",
        ),
        // Of such an object nothing is kept but its name.
        Attack {
            name: "a_million_managers_of_fields",
            calls: lists(),
            lie: Lie::Answer(managed_by_many()),
            lost: None,
        },
    ]
}
