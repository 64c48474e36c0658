//! Copies of objects that follow pods, as a target shows them: more than anybody can keep, or never at rest.

use pilotage_api::parent::ParentLink;
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::hostile::{Answer, Lie, NUMBER};
use serde_json::{Value, json};

use super::attacks::{Attack, losing};

/// A `ConfigMap` that says that it is a copy of the one that the link leads to.
pub fn copy_of(link: &ParentLink, name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": link.namespace,
            "labels": link.labels(),
            "annotations": link.annotations(),
        },
        "data": { "data": data },
    })
}

/// One of this name, with a version and content of its own each time.
fn another(name: &str) -> Value {
    let link = ParentLink {
        cluster_uid: None,
        cluster_name: None,
        uid: "u".to_owned(),
        namespace: "anywhere".to_owned(),
        name: name.to_owned(),
    };
    let mut copy = copy_of(&link, name, NUMBER);
    copy["metadata"]["uid"] = json!(name);
    copy["metadata"]["resourceVersion"] = json!(NUMBER);
    copy
}

/// All of them.
pub(super) fn all() -> Vec<Attack> {
    let many = another(&format!("settings-{NUMBER}"));
    let changed = json!({ "type": "MODIFIED", "object": another("settings") });
    vec![
        losing(
            "copies_without_end",
            Calls::of(Verb::List, "configmaps"),
            Lie::Answer(Answer::list(&many, None)),
            "TooMuch",
            "a list has more than 4194304 bytes",
        ),
        Attack {
            name: "a_copy_that_changes_all_the_time",
            calls: Calls::of(Verb::Watch, "configmaps"),
            lie: Lie::Answer(Answer::events(&changed, None)),
            lost: None,
        },
    ]
}
