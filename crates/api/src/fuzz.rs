//! Whatever is written on objects, what is read of it is bounded, and so is what is told of what can't be read.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pilotage_absurd::{json, objects, text};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::bounds::{LONGEST_TIME, LONGEST_UID, MOST_ATTEMPTS, cut, seconds};
use crate::copied::{self, Copied};
use crate::limits::{self, LABEL, LIST, LISTED};
use crate::lost::LostPolicy;
use crate::parent::ParentLink;
use crate::preempts::{LONGEST_GRACE, Preempts};
use crate::record::Record;
use crate::token::{Account, LONGEST_TOKEN, Token};
use crate::trace::{SpanId, TraceId, TraceParent};
use crate::{
    ClusterSource, ClusterSummary, ClusterTarget, PodChaperon, Source, Target, annotations, keys,
    names,
};

/// What is told of a text that can't be read has at most so many bytes.
const TOLD: usize = 1024;

/// Parts of a record, good ones and others.
fn parts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        2 => "[a-z0-9-]{1,70}",
        1 => text::number(),
        1 => text::text(),
    ];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

pilotage_absurd::properties! {
    #[test]
    fn a_record_is_bounded_or_none(text in prop_oneof![parts(), text::text()]) {
        match text.parse::<Record>() {
            Ok(record) => {
                prop_assert!(record.node.len() <= 253 && record.chaperon_uid.len() <= LONGEST_UID);
                prop_assert!(record.attempt.is_none_or(|attempt| (1..=MOST_ATTEMPTS).contains(&attempt)));
                prop_assert_eq!(record.to_string().parse(), Ok(record));
            }
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        }
    }

    #[test]
    fn a_token_says_what_is_bounded_or_nothing(
        claims in json::junk_in(Just(json!({ "iat": 100, "exp": 3700, "sub": "system:serviceaccount:shop:london" }))),
        text in text::text(),
    ) {
        let written = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
        for text in [written, text] {
            let Some(Token { account, .. }) = Token::parse(&text) else { continue };
            prop_assert!(text.len() <= LONGEST_TOKEN && text.is_ascii() && !text.contains(['"', '\n', ' ', ':']));
            if let Some(Account { namespace, name }) = account {
                prop_assert!(namespace.len() <= 63 && name.len() <= 253 && !name.contains('/'));
            }
        }
    }

    #[test]
    fn a_trace_context_is_written_as_it_was_read_or_is_none(
        text in prop_oneof![
            "0[0f]-[0-9a-f]{31,33}-[0-9a-f]{15,17}-[0-9a-g]{2}", "00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", text::text(),
        ],
    ) {
        if let Ok(context) = text.parse::<TraceParent>() {
            prop_assert_eq!(text.len(), 55);
            prop_assert_eq!(&context.to_string()[..53], &text[..53]);
            prop_assert_eq!(context.to_string().parse(), Ok(context));
        }
    }

    #[test]
    fn ids_of_spans_are_never_zero(uid in text::text()) {
        let context = TraceParent { trace: TraceId::of_pod(&uid), span: SpanId::of(&[&uid, "pod"]), sampled: true };
        prop_assert_eq!(context.to_string().parse(), Ok(context));
    }

    #[test]
    fn a_policy_is_ten_years_at_most(text in prop_oneof![text::duration(), text::text()]) {
        match text.parse::<LostPolicy>() {
            Ok(LostPolicy::ReplaceAfter(after)) => prop_assert!(after <= LONGEST_TIME),
            Ok(LostPolicy::Hold) => prop_assert_eq!(text, "never"),
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{} bytes", error.to_string().len()),
        }
    }

    #[test]
    fn what_is_evicted_is_written_as_it_was_read_or_is_none(
        text in prop_oneof![
            text::text(),
            "budgets=[0-9]{1,11},highest=-?[0-9]{1,11},sum=-?[0-9]{1,20},pods=[0-9]{1,11},oldest=(-|-?[0-9]{1,20}),\
             grace=[0-9]{1,21}",
        ],
        other in (any::<u32>(), any::<i32>(), any::<i64>(), 1..=u32::MAX, any::<Option<i64>>(), 0..=3_600_u64),
    ) {
        match text.parse::<Preempts>() {
            Ok(preempts) => {
                prop_assert!(preempts.pods > 0 && preempts.grace <= LONGEST_GRACE);
                prop_assert_eq!(preempts.to_string().parse(), Ok(preempts));
                // Costs are compared with those of other targets.
                let (budgets, highest, sum, pods, oldest, grace) = other;
                let grace = Duration::from_secs(grace);
                let other = Preempts { budgets, highest, sum, pods, oldest, grace };
                prop_assert!(preempts.cost() <= other.cost() || other.cost() <= preempts.cost());
            }
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        }
    }

    #[test]
    fn seconds_are_ten_years_at_most(said in json::number()) {
        if let Some(said) = said.as_i64() {
            let time = seconds(said);
            prop_assert!(time <= LONGEST_TIME);
            prop_assert_eq!(time.is_zero(), said <= 0);
        }
    }

    #[test]
    fn a_cut_text_is_the_beginning_of_it(text in text::text(), most in 0..600_usize) {
        let kept = cut(&text, most);
        prop_assert!(kept.len() <= most && text.starts_with(kept));
        prop_assert!(text.len() <= most || kept.len() + 4 > most);
    }

    #[test]
    fn what_was_copied_is_bounded_or_unreadable(
        said in prop_oneof![
            text::text(), json::claimed(),
            prop::collection::btree_map(text::text(), text::text(), 0..80).prop_map(|map| json!(map).to_string()),
        ],
        all in prop::collection::btree_map(text::text(), text::text(), 0..80),
    ) {
        if let Ok(copied) = said.parse::<Copied>() {
            prop_assert!(said.len() <= copied::LONGEST && copied.keys().count() <= copied::MOST);
        }
        let copied = Copied::of(all.iter().map(|(key, value)| (&**key, &**value)));
        prop_assert!(copied.keys().count() <= copied::MOST);
        prop_assert!(copied.keys().all(|key| all.get(key).is_some_and(|value| copied.has(key, value))));
    }

    #[test]
    fn a_list_that_passes_has_few_short_names(text in prop_oneof![
        text::text(),
        prop::collection::vec(text::text(), 0..80).prop_map(|names| names.join(",")),
    ]) {
        match limits::list(&text) {
            Ok(()) => {
                prop_assert!(text.len() <= LIST && limits::names(&text).count() <= LISTED);
                prop_assert!(limits::names(&text).all(|name| !name.is_empty() && name.len() <= LABEL));
            }
            Err(error) => prop_assert!(error.to_string().len() <= 256, "{}", error),
        }
        for key in [keys::REGION, keys::ZONES, keys::REPLACE_AFTER, keys::NO_PREFIX_LABEL_REGEXP] {
            let checked = limits::annotations(|asked| (asked == key).then_some(&*text));
            prop_assert!(checked.is_ok() || text.len() > LABEL);
            if let Err((told, error)) = checked {
                prop_assert!(told == key && error.to_string().len() <= 256, "{}", error);
            }
        }
    }

    #[test]
    fn what_fits_fits(
        all in prop::collection::btree_map(text::text(), text::text(), 0..12), room in 0..400_000_usize,
            extra in 0..99_usize,
    ) {
        let kept = annotations::fitting(&all, room, |_| extra);
        let taken: usize = kept.iter().map(|(key, value)| key.len() + value.len() + extra).sum();
        prop_assert!(taken <= room);
        prop_assert!(kept.iter().all(|(key, value)| all.get(*key).is_some_and(|own| own == value)));
        for key in all.keys() {
            prop_assert!(!annotations::is_key(key) || key.len() <= annotations::LONGEST_KEY);
            // However it is spelled.
            prop_assert_eq!(keys::is_reserved(key), keys::is_reserved(&key.to_ascii_uppercase()));
        }
    }

    #[test]
    fn names_that_are_made_are_names(one in text::text(), two in text::text(), three in text::text()) {
        prop_assert!(names::chaperon(&one, &two, &three).len() <= 63);
        prop_assert!(names::target_finalizer(Some(&one), &two).len() <= keys::PREFIX.len() + 63);
        for name in [
            names::virtual_node(Some(&one), &two),
            names::virtual_node(None, &one),
            names::cluster_source_binding(&one),
            names::source_binding(&one),
            names::cluster_source_summary_viewer_binding(&one),
            names::source_summary_viewer_binding(&one, &two),
        ] {
            prop_assert!(name.len() <= 253, "{}", name);
        }
    }

    #[test]
    fn a_chaperon_has_a_whole_link_or_none(
        object in json::extreme(objects::told(
            json!({
                "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
                "metadata": { "name": "a", "labels": {}, "annotations": {} },
                "spec": {}, "status": objects::pod_status(),
            }),
            &[keys::PARENT_UID, keys::PARENT_CLUSTER_UID, keys::PARENT_CLUSTER_NAME],
            &[keys::PARENT_NAME, keys::PARENT_NAMESPACE],
        )),
    ) {
        let Ok(chaperon) = serde_json::from_value::<PodChaperon>(object.clone()) else { return Ok(()) };
        let said = object["status"]["conditions"].as_array().map_or(0, Vec::len);
        prop_assert!(chaperon.conditions().len() <= said);
        let Some(link) = ParentLink::of(&chaperon.metadata) else { return Ok(()) };
        let none = BTreeMap::new();
        let of = |map: &Option<BTreeMap<String, String>>| map.clone().unwrap_or_else(|| none.clone());
        let (labels, annotations) = (of(&chaperon.metadata.labels), of(&chaperon.metadata.annotations));
        for (key, value) in link.labels() {
            prop_assert_eq!(labels.get(&key), Some(&value));
        }
        for (key, value) in link.annotations() {
            prop_assert_eq!(annotations.get(&key), Some(&value));
        }
    }

    #[test]
    fn any_object_is_read_or_refused(value in json::junk_in(Just(json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "X",
        "metadata": { "name": "a", "labels": { "a": "b" } },
        "spec": {
            "self": true, "kubeconfigSecret": { "namespace": "a", "name": "b", "key": "c", "context": "d" },
            "serviceAccount": { "name": "a", "namespace": "b" }, "userName": "c",
        },
        "status": { "conditions": [{ "type": "Valid", "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        "clusterUid": "u", "capacity": { "cpu": "1" }, "freeShapes": [{ "nodes": 1, "free": { "cpu": "1" } }],
    })))) {
        // What is read is what was said, so that it can be bounded where it is used.
        fn again<T: serde::de::DeserializeOwned + serde::Serialize>(value: &Value) -> Option<usize> {
            let read: T = serde_json::from_value(value.clone()).ok()?;
            serde_json::to_string(&read).ok().map(|text| text.len())
        }
        let most = 2 * value.to_string().len() + 1024;
        for read in [
            again::<Target>(&value), again::<ClusterTarget>(&value), again::<Source>(&value),
            again::<ClusterSource>(&value), again::<ClusterSummary>(&value), again::<PodChaperon>(&value),
        ] {
            prop_assert!(read.is_none_or(|length| length <= most));
        }
    }
}
