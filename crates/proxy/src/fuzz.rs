//! Whatever stands on pods, chaperons, virtual nodes, Targets and tables, and in the configuration file: what is kept
//! of it is bounded, and so is what goes on to others.

mod books;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use pilotage_absurd::{json, objects, text};
use pilotage_api::bounds::{LONGEST_TIME, LONGEST_UID, MOST_ATTEMPTS, is_uid};
use pilotage_api::parent::ParentLink;
use pilotage_api::summary::FreeShape;
use pilotage_api::{PodChaperon, keys, names};
use pilotage_model::changes::Digest;
use pilotage_model::followed::{needs, unfollowed};
use pilotage_model::manifest::SourcePod;
use pilotage_placement::{Ranking, Strategy as Placement};
use pilotage_sched::PodInfo;
use pilotage_sched::resources::Resources;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::class::Class;
use crate::config::Configuration;
use crate::door::{Serves, admit};
use crate::kept::{self, LeftOut, lean};
use crate::placing::{Asked, Home, OwnNodes, Placing, Tables, Want, Wishes, Words};
use crate::rank::{Room, Seen, rank};
use crate::settings::Settings;
use crate::slim::slim;
use crate::view::{ChaperonView, ProxyView};
use crate::{annotations, status};

/// What is told of a mistake has at most so many bytes.
const TOLD: usize = 1024;

fn proxy() -> BoxedStrategy<Value> {
    objects::told(
        objects::pod(),
        &[],
        &[
            keys::GRANTED_TO,
            keys::COPIED,
            keys::SOURCE_POD_MANIFEST,
            keys::REPLACE_AFTER,
            keys::NO_RESERVATION,
            keys::REGION,
            keys::ZONES,
            keys::CLOUD_PROVIDER,
            keys::ACCESS_RESTRICTIONS,
        ],
    )
}

/// A chaperon that tells of the pod `shop/web-1`, as it should be but for what a target may write.
fn chaperon() -> BoxedStrategy<Value> {
    let pod = objects::pod();
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let mut chaperon = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": pod["metadata"],
        "spec": pod["spec"],
        "status": pod["status"],
    });
    let metadata = &mut chaperon["metadata"];
    metadata["name"] = names::chaperon("shop", "web-1", uid).into();
    metadata["labels"] = json!({ keys::PARENT_UID: uid, keys::PARENT_CLUSTER_UID: "source" });
    metadata["annotations"] = json!({ keys::PARENT_NAME: "web-1", keys::PARENT_NAMESPACE: "shop" });
    objects::told(
        chaperon,
        &[],
        &[
            keys::ATTEMPT,
            keys::ALLOWED_ATTEMPT,
            keys::IS_RESERVED,
            keys::IS_ALLOWED,
            keys::REFUSAL,
            keys::GIVE_UP,
            keys::POD_MISSING_SINCE,
            keys::RESERVED_POD_UID,
            keys::PREEMPTS,
            keys::APPLIED_GENERATION,
            keys::CHANGE_REFUSED,
        ],
    )
}

/// What is neither extreme nor junk, or either.
fn any_of(object: &BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![
        1 => object.clone(),
        3 => json::extreme(object.clone()),
        1 => json::junk_in(object.clone()),
    ]
    .boxed()
}

fn file() -> BoxedStrategy<Value> {
    let rule = json!({ "MinimalDistance": { "weight": 1 } });
    let cost = json!({ "Cost": { "weight": 3, "label": "example.com/cost" } });
    let selector = json!({ "matchLabels": { "a": "b" }, "matchExpressions": [{ "key": "a", "operator": "In",
        "values": ["b"] }] });
    let asking = json!({ "askAll": true, "wave": 2, "silence": "1s", "settle": "1s", "patience": "9s",
        "giveUp": "1m" });
    let placement = json!({ "strategy": "SameRegion", "rules": [rule, cost] });
    Just(json!({
        "apiVersion": keys::CONFIG_API_VERSION,
        "kind": keys::PROXY_SCHEDULER_CONFIGURATION,
        "source": { "region": "eu-west-1", "provider": "aws" },
        "placement": placement.clone(),
        "regionTables": ["latencies"],
        "asking": asking.clone(),
        "pods": [{ "namespaces": ["a"], "selector": selector, "placement": placement, "asking": asking }],
    }))
    .boxed()
}

#[expect(clippy::ptr_arg, reason = "so it is in metadata")]
fn length_of(text: &String) -> usize {
    text.len()
}

fn length(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

pilotage_absurd::properties! {
    #[test]
    fn a_configuration_is_bounded_or_told_in_few_words(file in prop_oneof![
        2 => any_of(&file()).prop_map(|file| file.to_string().into_bytes()),
        1 => text::damaged(file().prop_map(|file| file.to_string())),
        1 => text::bytes(),
    ]) {
        let parsed = Configuration::parse(&String::from_utf8_lossy(&file), &Settings::default());
        match parsed {
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
            Ok(configuration) => {
                let policy = configuration.policy(configuration.policy_of(&Pod::default()));
                let asking = &policy.asking;
                for time in [asking.silence, asking.settle, asking.patience, asking.give_up] {
                    prop_assert!(time <= LONGEST_TIME);
                }
                prop_assert!(asking.wave > 0);
                let tables = configuration.region_tables.unwrap_or_default();
                prop_assert!(tables.len() <= 64 && tables.iter().all(|name| name.len() <= 253));
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_proxy_is_bounded(pod in any_of(&proxy())) {
        let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return Ok(()) };
        let Some(view) = ProxyView::of(&pod) else { return Ok(()) };
        if let Some(record) = view.record.record() {
            prop_assert!(record.node.len() <= 253 && record.chaperon_uid.len() <= LONGEST_UID);
        }
        prop_assert!(view.chaperon_name().len() <= 63);
        prop_assert_eq!(view.named_nodes().count() <= 2, true);
    }

    #[test]
    fn without_what_nobody_reads_a_proxy_says_the_same(pod in any_of(&proxy()), object in any_of(&chaperon())) {
        let Ok(whole) = serde_json::from_value::<Pod>(pod) else { return Ok(()) };
        let mut left = whole.clone();
        lean(&mut left);
        prop_assert_eq!(ProxyView::of(&left), ProxyView::of(&whole));
        let scheduled = |pod: &Pod| {
            let info = PodInfo::parse(Arc::new(pod.clone())).ok()?;
            Some(format!("{:?} {:?} {:?} {:?}", info.needs, info.priority, info.scheduling_gates, info.defects()))
        };
        prop_assert_eq!(scheduled(&left), scheduled(&whole));
        prop_assert_eq!(Digest::of_pod(&left), Digest::of_pod(&whole));
        let named = |pod: &Pod| pod.spec.as_ref().map(|spec| (needs(spec), unfollowed(spec)));
        prop_assert_eq!(named(&left), named(&whole));
        if let Ok(chaperon) = serde_json::from_value::<PodChaperon>(object) {
            prop_assert_eq!(status::change(&left, &chaperon), status::change(&whole, &chaperon));
        }
    }

    #[test]
    fn what_is_left_of_a_heavy_proxy_is_small_and_the_same_to_the_protocol(pod in any_of(&proxy())) {
        let Ok(whole) = serde_json::from_value::<Pod>(pod) else { return Ok(()) };
        let mut left = whole.clone();
        kept::slim(&mut left, |value| value.to_string().len());
        let (meta, spec, status) = (&whole.metadata, whole.spec.clone().unwrap_or_default(),
            whole.status.clone().unwrap_or_default());
        let names = [
            &meta.namespace, &meta.name, &meta.uid, &meta.resource_version, &spec.node_name, &spec.scheduler_name,
            &spec.preemption_policy, &spec.restart_policy, &status.phase, &status.nominated_node_name,
        ];
        let names: usize = names.into_iter().flatten().map(length_of).sum();
        let names = names + spec.os.map_or(0, |os| os.name.len());
        // Each byte may be an escape of six.
        prop_assert!(length(&left) <= 6 * (80 * 1024 + names), "{}", length(&left));
        let ours = meta.annotations.iter().flatten().filter(|(key, _)| keys::is_ours(key));
        let short = ours.map(|(_, text)| text.len()).max().unwrap_or_default() <= 1024;
        let (before, after) = (ProxyView::of(&whole), ProxyView::of(&left));
        prop_assert_eq!(before.is_some(), after.is_some());
        if let (Some(before), Some(after), true) = (before, after, short)
            && after.left_out == LeftOut::Words
        {
            prop_assert_eq!(ProxyView { left_out: LeftOut::Nothing, ..after }, before);
        }
    }

    #[test]
    fn a_chaperon_that_is_let_in_is_the_pods_own_and_bounded(
        object in any_of(&chaperon()), pod in any_of(&proxy()), serves in prop::option::of(text::text()),
    ) {
        let Ok(chaperon) = serde_json::from_value::<PodChaperon>(object) else { return Ok(()) };
        let proxy = serde_json::from_value::<Pod>(pod).ok().and_then(|pod| ProxyView::of(&pod));
        let serves = serves.map_or(Serves::Namespace("shop".to_owned()), Serves::Namespace);
        let admitted = admit(Some(&serves), proxy.as_ref(), &chaperon);
        prop_assert!(admit(None, proxy.as_ref(), &chaperon).is_err());
        let link = ParentLink::of(&chaperon.metadata);
        let Some(view) = ChaperonView::of("a", Arc::new(chaperon)) else {
            prop_assert!(admitted.is_err());
            return Ok(());
        };
        if admitted.is_ok() {
            let link = link.unwrap();
            prop_assert!(serves.serves(&link.namespace) && is_uid(&link.uid));
            prop_assert!(is_uid(&view.uid) && view.resource_version.len() <= 64);
            prop_assert!(proxy.is_none_or(|proxy| proxy.uid == link.uid && view.is_of(&proxy)));
        }
        prop_assert!(view.marks.attempt <= MOST_ATTEMPTS && view.marks.allowed <= MOST_ATTEMPTS);
        prop_assert!(view.marks.refusal.is_none_or(|refusal| refusal.len() <= 512));
        prop_assert!(view.marks.damaged.len() <= 3);
        if let Class::Refused(reason) | Class::VoidRefused(reason) = &view.class {
            prop_assert!(reason.len() <= TOLD, "{}", reason);
        }
    }

    #[test]
    fn what_is_left_of_a_heavy_chaperon_is_small_and_the_same_to_the_protocol(object in any_of(&chaperon())) {
        let Ok(whole) = serde_json::from_value::<PodChaperon>(object) else { return Ok(()) };
        let mut left = whole.clone();
        slim(&mut left);
        let meta = &whole.metadata;
        let names = [&meta.namespace, &meta.name, &meta.uid, &meta.resource_version];
        let names: usize = names.into_iter().flatten().map(length_of).sum();
        // Each byte may be an escape of six.
        prop_assert!(length(&left) <= 6 * (32 * 1024 + names), "{}", length(&left));
        let texts = meta.annotations.iter().chain(&meta.labels).flatten();
        let short = texts.filter(|(key, _)| keys::is_ours(key)).all(|(_, text)| text.len() <= 1024);
        let view = |chaperon: PodChaperon| ChaperonView::of("a", Arc::new(chaperon));
        let (before, after) = (view(whole), view(left));
        prop_assert_eq!(before.is_some(), after.is_some());
        if let (Some(before), Some(after), true) = (before, after, short) {
            prop_assert_eq!(&before.class, &after.class);
            prop_assert_eq!(&before.marks, &after.marks);
            prop_assert_eq!(before.parent(), after.parent());
            prop_assert_eq!(before.names_its_pod(), after.names_its_pod());
            let rest = |view: &ChaperonView| {
                let why = view.unschedulable.clone();
                (view.says_bound, why, view.is_nominated, view.foreign_finalizers)
            };
            prop_assert_eq!(rest(&before), rest(&after));
        }
    }

    #[test]
    fn what_goes_from_a_chaperon_to_its_pod_is_bounded(object in any_of(&chaperon()), pod in any_of(&proxy())) {
        let (Ok(chaperon), Ok(pod)) = (serde_json::from_value::<PodChaperon>(object),
            serde_json::from_value::<Pod>(pod))
        else { return Ok(()) };
        let own = length(&pod);
        if let Some(change) = status::change(&pod, &chaperon) {
            // Nulls for what goes, and conditions of its own that stay.
            prop_assert!(length(&change.patch) <= 512 * 1024 + 2 * own);
            prop_assert!(change.withheld.len() <= 8);
        }
        let authored = annotations::authored(&pod);
        if let Some(change) = annotations::change(&pod, &chaperon, || &authored) {
            // With escapes of JSON, which an annotation's length doesn't count.
            prop_assert!(length(&change.patch) <= 6 * 64 * 1024 + 2 * own);
            let few = change.withheld.len() <= 8 && change.withheld.iter().all(|key| key.len() <= 317);
            prop_assert!(few);
            let written = change.patch["metadata"]["annotations"].as_object().map_or(0, serde_json::Map::len);
            prop_assert!(written <= 2 * 64 + 1);
        }
    }

    #[test]
    fn of_any_pod_and_any_nodes_comes_an_order_in_few_words(
        pod in any_of(&proxy()), manifest in objects::extreme_pod(), node in any_of(&Just(objects::node()).boxed()),
        said in prop::collection::vec(prop_oneof![2 => text::text(), 1 => json::claimed()], 8), same in any::<bool>(),
    ) {
        let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return Ok(()) };
        let Ok(info) = PodInfo::parse(Arc::new(pod)) else { return Ok(()) };
        let author = SourcePod::new(manifest).map(|source| Wishes::of_source(&source)).unwrap_or_default();
        let want = Want::of(&info, &author);
        let mut placing = Placing::default();
        let mut home = OwnNodes::default();
        let mut there = 0;
        for (number, mut node) in [node, objects::node()].into_iter().enumerate() {
            if !node["metadata"].is_object() {
                continue;
            }
            node["metadata"]["name"] = number.to_string().into();
            for (key, value) in [keys::REGION, keys::ZONES, keys::FREE, keys::FREE_SHAPES].into_iter().zip(&said) {
                if node["metadata"]["annotations"].is_object() {
                    node["metadata"]["annotations"][key] = value.as_str().into();
                }
            }
            let Ok(node) = serde_json::from_value::<Node>(node) else { continue };
            there += 1;
            home.apply(&node);
            placing.apply_node(&Arc::new(node));
        }
        let words = |texts: &[String]| -> BTreeMap<String, String> {
            let known = [keys::REGION, keys::ZONES, keys::CLOUD_PROVIDER, keys::ACCESS_PREFIX].map(str::to_owned);
            known.into_iter().zip(texts.iter().cloned()).collect()
        };
        placing.set_words("0", Words { labels: words(&said[4..]), annotations: words(&said[2..6]) });
        let mut tables = Tables::new(None);
        let table: ConfigMap = serde_json::from_value(json!({
            "metadata": {
                "name": "t", "namespace": "home",
                "labels": { keys::REGION_TABLE_LABEL: keys::REGION_TABLE_LABEL_VALUE },
                "annotations": { keys::REGION_TABLE_FOR: said[7] },
            },
            "data": { "a": said[6], "eu-west-1": "b: 9223372036854775807", "b": "a: -9223372036854775808\neu-west-1: \
                1e18" },
        })).unwrap();
        prop_assert!(tables.apply(&table).malformed.iter().all(|(_, error)| error.len() <= 256));
        let place = Home::new(Some(&said[0]), Some(&said[1]));
        let ranking = Ranking::Strategy(if same { Placement::SameRegion } else { Placement::MinimalDistance });
        let asked = Asked { want: &want, ranking: &ranking, home: &place, tables: &tables };
        let order = placing.order(&asked, [("0", u64::MAX), ("1", 0)]);
        prop_assert_eq!(order.standings().count() + order.passed().count(), there);
        let told = order.tell("", &BTreeMap::new()).unwrap_or_default();
        prop_assert!(told.len() <= 2048, "{}", told);
    }

    #[test]
    fn any_room_ranks_each_target_once(
        shapes in prop::collection::vec((json::number(), prop::collection::btree_map(
            select(&["cpu", "memory", "pods", "a.b/gpu"][..]), text::quantity(), 0..4)), 0..20),
        request in prop::collection::btree_map(select(&["cpu", "memory", "pods", "a.b/gpu"][..]),
            text::quantity(), 0..4),
        scores in prop::collection::vec(any::<i64>(), 0..6), outstanding in any::<i64>(), used in any::<u64>(),
            silent in any::<bool>(),
    ) {
        let shapes: Vec<_> = shapes.into_iter().map(|(nodes, free)| json!({ "nodes": nodes, "free": free })).collect();
        let published: Vec<FreeShape> = serde_json::from_value(json!(shapes)).unwrap_or_default();
        let room = Room { shapes: Room::shapes_of(&published), outstanding };
        let request = Resources::parse(&serde_json::from_value(json!(request)).unwrap(), |_, _| {});
        let feasible: Vec<_> = scores.iter().enumerate().map(|(number, score)| (number.to_string(), *score)).collect();
        let seen = |node: &str| Seen { room: (node != "0").then_some(&room), used, silent, ..Seen::default() };
        let mut ranked: Vec<_> = rank("u", &request, &feasible, seen, None).into_iter().map(|it| it.node).collect();
        ranked.sort();
        let mut all: Vec<_> = feasible.into_iter().map(|(node, _)| node).collect();
        all.sort();
        prop_assert_eq!(ranked, all);
    }
}
