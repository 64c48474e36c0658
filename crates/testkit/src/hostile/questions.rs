//! What the Pilotage behind a hostile server would do with the chaperons that sources make there. Pure: one chaperon,
//! one step.

use json_patch::merge;
use pilotage_api::keys;
use serde_json::{Map, Value, json};

use crate::build::chaperon::running_status;

/// The address that running pods are said to have.
const POD_IP: &str = "10.66.1.1";

/// How questions are answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Questions {
    /// Not at all: they are taken, and nothing comes of them. Nothing that ends there comes to its end either.
    #[default]
    Drop,
    /// No node is free, for this reason.
    Refuse(String),
    /// A node is reserved, and what is granted runs at once. This merge patch of the chaperon goes over what is written
    /// then: `{}` is a target that does what it should.
    Run(Value),
    /// The same by a target that numbers no attempts, as plain Admiralty.
    RunPlainly(Value),
}

impl Questions {
    /// Answers a chaperon, as far as one write goes; `false` if there is nothing to write.
    pub(super) fn answer(&self, chaperon: &mut Value) -> bool {
        let (words, numbered) = match self {
            Self::Drop => return false,
            Self::Refuse(_) => (None, true),
            Self::Run(words) => (Some(words), true),
            Self::RunPlainly(words) => (Some(words), false),
        };
        let metadata = &chaperon["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            let held = metadata["finalizers"]
                .as_array()
                .is_some_and(|all| !all.is_empty());
            if held {
                merge(chaperon, &json!({ "metadata": { "finalizers": null } }));
            }
            return held;
        }
        let is = |key: &str, value: &str| metadata["annotations"][key] == *value;
        let uid = metadata["uid"].clone();
        let asks = chaperon["spec"]["schedulerName"] == *keys::CANDIDATE_SCHEDULER;
        let (reserved, granted) = (
            is(keys::IS_RESERVED, keys::TRUE),
            is(keys::IS_ALLOWED, keys::TRUE),
        );
        let open = asks && !reserved && (!numbered || is(keys::ATTEMPT, "0"));
        let Some(words) = words else {
            if let (Self::Refuse(reason), true) = (self, is(keys::ATTEMPT, "0")) {
                annotate(
                    chaperon,
                    &json!({ keys::ATTEMPT: "1", keys::REFUSAL: reason }),
                );
                return true;
            }
            return false;
        };
        if open && numbered {
            let held = json!({
                keys::ATTEMPT: "1",
                keys::IS_RESERVED: keys::TRUE,
                keys::RESERVED_POD_UID: uid,
            });
            annotate(chaperon, &held);
            return true;
        }
        if open {
            annotate(chaperon, &json!({ keys::IS_RESERVED: keys::TRUE }));
            return true;
        }
        if !granted || !chaperon["status"].is_null() {
            return false;
        }
        if numbered {
            annotate(chaperon, &json!({ keys::RESERVED_POD_UID: uid }));
        }
        let none = Map::new();
        let status = running_status(chaperon["spec"].as_object().unwrap_or(&none), POD_IP);
        merge(chaperon, &json!({ "status": status }));
        merge(chaperon, words);
        true
    }
}

fn annotate(chaperon: &mut Value, annotations: &Value) {
    merge(
        chaperon,
        &json!({ "metadata": { "annotations": annotations } }),
    );
}

#[cfg(test)]
mod tests {
    use crate::build::{chaperon_of, pod};

    use super::*;

    fn asked() -> Value {
        let pod = pod("web").ns("shop").scheduler(keys::CANDIDATE_SCHEDULER);
        chaperon_of(&pod.build(), Some("s")).uid("c").value()
    }

    fn annotation<'a>(chaperon: &'a Value, key: &str) -> &'a Value {
        &chaperon["metadata"]["annotations"][key]
    }

    #[test]
    fn a_target_that_runs_pods_reserves_first_and_runs_what_is_granted() {
        let words =
            json!({ "metadata": { "annotations": { "evil": "x" } }, "status": { "podIP": "lie" } });
        for (questions, attempt) in [
            (Questions::Run(words.clone()), "1"),
            (Questions::RunPlainly(words.clone()), "0"),
        ] {
            let mut chaperon = asked();
            assert!(questions.answer(&mut chaperon));
            assert_eq!(*annotation(&chaperon, keys::IS_RESERVED), *keys::TRUE);
            assert_eq!(*annotation(&chaperon, keys::ATTEMPT), *attempt);
            assert!(!questions.answer(&mut chaperon), "it waits for the grant");
            annotate(&mut chaperon, &json!({ keys::IS_ALLOWED: keys::TRUE }));
            assert!(questions.answer(&mut chaperon));
            assert_eq!(chaperon["status"]["phase"], "Running");
            assert_eq!(chaperon["status"]["podIP"], "lie");
            assert_eq!(*annotation(&chaperon, "evil"), "x");
            assert!(!questions.answer(&mut chaperon));
        }
    }

    #[test]
    fn a_question_is_refused_once_or_dropped() {
        let mut chaperon = asked();
        assert!(!Questions::Drop.answer(&mut chaperon));
        let refusing = Questions::Refuse("full".to_owned());
        assert!(refusing.answer(&mut chaperon));
        assert_eq!(*annotation(&chaperon, keys::REFUSAL), "full");
        assert!(!refusing.answer(&mut chaperon));
        let ending = json!({ "metadata": { "deletionTimestamp": "now", "finalizers": ["f"] } });
        merge(&mut chaperon, &ending);
        assert!(
            !Questions::Drop.answer(&mut chaperon),
            "it withholds the end as well"
        );
        assert!(refusing.answer(&mut chaperon));
        assert!(chaperon["metadata"]["finalizers"].is_null());
    }
}
