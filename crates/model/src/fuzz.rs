//! Whatever a pod's author and a target's summary say, what is made of it is bounded: constraints, chaperons,
//! candidates and virtual nodes; and so is what is told of what can't be used.

use std::collections::BTreeMap;

use pilotage_absurd::{json, objects, text};
use pilotage_api::annotations::{is_label_value, is_qualified_name};
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::summary::{FreeShape, ResourceList};
use pilotage_api::{keys, limits};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::chaperon::{candidate_pod, chaperon};
use crate::constraints::ProxyConstraints;
use crate::kept_labels;
use crate::label_pattern::LabelPattern;
use crate::manifest::{self, SourcePod};
use crate::virtual_node::{
    self, ExcludedLabels, Published, TargetName, shown_labels, shown_resources, shown_shapes,
    shown_zones,
};

/// What is told of a mistake has at most so many bytes.
pub(crate) const TOLD: usize = 2048;

/// A pod whose author says something under each of our keys.
fn elected() -> Value {
    let mut pod = objects::pod();
    pod["metadata"]["annotations"][keys::ELECT] = "".into();
    pod
}

fn said_by_an_author() -> BoxedStrategy<Value> {
    let pod = objects::told(
        elected(),
        &[keys::PARENT_UID, keys::HAS_FINALIZER],
        &[
            keys::PROXY_CONSTRAINTS,
            keys::USE_OWN_CONSTRAINTS,
            keys::NO_PREFIX_LABEL_REGEXP,
            keys::NO_RESERVATION,
        ],
    );
    prop_oneof![2 => json::extreme(pod.clone()), 1 => json::junk_in(pod)].boxed()
}

/// YAML that could be a manifest or a fragment, and isn't quite.
fn yaml() -> BoxedStrategy<Vec<u8>> {
    let whole = json::extreme(Just(elected())).prop_map(|pod| {
        let source = SourcePod::new(pod);
        let text = source.and_then(|source| source.render());
        text.unwrap_or_default()
    });
    let spec = json::extreme(Just(objects::pod_spec())).prop_map(|spec| {
        let fields = [
            "nodeSelector",
            "tolerations",
            "affinity",
            "topologySpreadConstraints",
        ];
        let fragment: serde_json::Map<_, _> = fields
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), spec.get(field)?.clone())))
            .collect();
        Value::Object(fragment).to_string()
    });
    prop_oneof![
        2 => text::damaged(whole),
        2 => text::damaged(spec),
        1 => text::bytes(),
        1 => json::claimed().prop_map(String::into_bytes),
        1 => (select(&["- ", "? ", "a: &a [*a]\n", "{? ", "!!x ", "<<: ", "\"\\U", "|\n  "][..]), 0..9_000_usize)
            .prop_map(|(piece, count)| piece.repeat(count).into_bytes()),
    ]
    .boxed()
}

pub(crate) fn link(one: &str, two: &str) -> ParentLink {
    ParentLink {
        cluster_uid: Some(ClusterUid(one.to_owned())),
        cluster_name: Some(two.to_owned()),
        uid: one.to_owned(),
        namespace: two.to_owned(),
        name: one.to_owned(),
    }
}

pub(crate) fn length(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

pilotage_absurd::properties! {
    #[test]
    fn a_manifest_is_bounded_or_none(bytes in yaml()) {
        let text = String::from_utf8_lossy(&bytes);
        match SourcePod::parse(&text) {
            Ok(source) => {
                prop_assert!(text.len() <= manifest::LONGEST);
                // It may be longer than it was, and then it can't be written again.
                if let Ok(again) = source.render() {
                    prop_assert!(again.len() <= manifest::LONGEST);
                    prop_assert_eq!(SourcePod::parse(&again), Ok(source));
                }
            }
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        }
    }

    #[test]
    fn constraints_are_few_or_none(bytes in yaml()) {
        let mut pod = elected();
        pod["metadata"]["annotations"][keys::PROXY_CONSTRAINTS] = String::from_utf8_lossy(&bytes).into();
        match ProxyConstraints::of(&pod) {
            Ok(constraints) => {
                prop_assert!(constraints.tolerations.len() <= 256 && constraints.node_selector.len() <= 256);
            }
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        }
    }

    #[test]
    fn of_any_pod_comes_a_chaperon_of_its_size_or_a_short_error(
        pod in said_by_an_author(), one in text::text(), two in text::text(),
    ) {
        let own = length(&pod) + 8 * (one.len() + two.len());
        if let Err(error) = ProxyConstraints::of(&pod) {
            prop_assert!(error.to_string().len() <= TOLD, "{}", error);
        }
        match chaperon(&pod, &link(&one, &two)) {
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
            Ok(mut chaperon) => {
                // Keys of labels get our prefix wherever they stand.
                prop_assert!(length(&chaperon) <= 4096 + 8 * own);
                chaperon["metadata"]["uid"] = "c".into();
                let pod = candidate_pod(&chaperon);
                prop_assert!(pod.is_ok_and(|pod| length(&pod) <= 4096 + length(&chaperon)));
            }
        }
    }

    #[test]
    fn of_any_object_comes_a_pod_or_none(chaperon in json::junk_in(Just({
        let mut chaperon = elected();
        chaperon["kind"] = "PodChaperon".into();
        chaperon
    }))) {
        if let Ok(pod) = candidate_pod(&chaperon) {
            prop_assert!(pod["spec"].is_object() && pod["metadata"]["name"].is_string());
            prop_assert!(length(&pod) <= 4096 + length(&chaperon));
        }
    }

    #[test]
    fn a_pattern_answers_so_many_questions_and_tells_mistakes_in_few_words(
        pattern in prop_oneof![
            2 => text::text(),
            2 => "(\\(\\?[iuxs-]{0,2}:?|\\[\\^?|[a-z\\\\.*+?|)\\]]|\\{[0-9],?[0-9]{0,9}\\}){0,40}",
            1 => (select(&["(a*)*", "(?:", "a{9}", "[^", "(a|b)*", ".*"][..]), 1..200_usize)
                .prop_map(|(piece, count)| piece.repeat(count)),
        ],
        labels in prop::collection::vec((text::text(), text::text()), 1..8),
    ) {
        if let Err(error) = kept_labels::parse(&pattern) {
            prop_assert!(error.to_string().len() <= TOLD, "{}", error);
        }
        let Ok(pattern) = LabelPattern::parse(&pattern) else { return Ok(()) };
        let answered = labels.iter().filter(|(key, value)| pattern.matches(key, value).is_some());
        let looked_at: usize = answered.map(|(key, value)| key.len() + value.len()).sum();
        prop_assert!(looked_at <= 8192, "{}", looked_at);
    }

    #[test]
    fn whatever_labels_a_summary_has_those_that_are_shown_are_well_formed(
        labels in prop::collection::btree_map(
            prop_oneof![1 => text::text(), 3 => "[a-zA-Z0-9._ä/ -]{0,8}(/[a-zA-Z0-9._ -]{0,8})?"],
            prop_oneof![1 => text::text(), 3 => "[a-zA-Z0-9._ä/ -]{0,8}", 1 => "[a-z]{60,66}"],
            0..30,
        ),
        namespace in prop::option::of(Just("shop")),
    ) {
        let shown = shown_labels(&labels, &ExcludedLabels::None);
        let node = virtual_node::apply(TargetName { namespace, name: "c2" }, &shown, Published::default(), false);
        let told: BTreeMap<String, String> = serde_json::from_value(node["metadata"]["labels"].clone()).unwrap();
        for (key, value) in shown.iter().chain(&told) {
            prop_assert!(is_qualified_name(key) && is_label_value(value), "{}: {}", key, value);
        }
        // Nothing else is lost.
        let good = |(key, value): &(&String,
            &String)| is_qualified_name(key) && is_label_value(value) && !keys::is_ours(key);
        for (key, value) in labels.iter().filter(good).filter(|(key, _)| *key != "kubernetes.io/hostname") {
            prop_assert_eq!(shown.get(key), Some(value));
        }
    }

    #[test]
    fn of_a_summary_as_much_is_shown_as_a_node_may_have(
        labels in prop::collection::btree_map(text::text(), text::text(), 0..30),
        zones in text::text(),
        excluded in prop::option::of(text::text()),
        amounts in prop::collection::btree_map(
            prop_oneof![Just("cpu".to_owned()), "[a-z]{1,3}/[a-z]{1,3}", text::text()],
            prop_oneof![text::quantity(), text::text()], 0..12,
        ),
        many in select(&[0, 1, 20, 3000][..]),
        nodes in json::number(),
    ) {
        let parsed = ExcludedLabels::parse(excluded.as_deref());
        if let Err(error) = &parsed {
            prop_assert!(error.to_string().len() <= TOLD, "{}", error);
        }
        let excluded = parsed.unwrap_or(ExcludedLabels::All);
        let more = (0..many).map(|number| (format!("example.com/l{number}"), "v".to_owned()));
        let labels = labels.into_iter().chain(more).collect();
        let labels = shown_labels(&labels, &excluded);
        prop_assert!(labels.len() <= 256);
        let zones = shown_zones(&zones, &excluded);
        prop_assert!(zones.as_ref().is_none_or(|zones| limits::list(zones).is_ok()));

        let mut amounts: ResourceList = serde_json::from_value(json!(amounts)).unwrap();
        let mut more = amounts.values().next().cloned().unwrap_or_default();
        // Thousands of long ones would measure how long they are copied.
        more.0.truncate(more.0.floor_char_boundary(256));
        amounts.extend((0..many).map(|number| (format!("example.com/r{number}"), more.clone())));
        let free = shown_resources(&amounts, true);
        prop_assert!(free.iter().all(|(key, amount)| amounts.get(key) == Some(amount)));
        let shape = FreeShape { nodes: nodes.as_i64().unwrap_or(1), free: amounts };
        let shapes = shown_shapes(&vec![shape; many.min(20)]);
        let name = TargetName { namespace: Some("shop"), name: "c2" };
        let published =
            Published { free: Some(&free), free_shapes: Some(&shapes), zones: zones.as_deref(), has_kubelet: true };
        let node = virtual_node::apply(name, &labels, published, false);
        let annotations: BTreeMap<String, String> =
            serde_json::from_value(node["metadata"]["annotations"].clone()).unwrap_or_default();
        prop_assert!(pilotage_api::annotations::bytes(&annotations) <= pilotage_api::annotations::LIMIT / 2);
        // What the API server takes for an amount, and no more than a node is told of.
        prop_assert!(length(&free) <= 64 * 1024);
        prop_assert!(free.iter().all(|(key, amount)| key.len() <= limits::KEY && amount.0.len() <= 64));
    }
}
