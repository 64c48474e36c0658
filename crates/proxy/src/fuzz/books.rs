//! Whatever a target's watches tell in whatever order: a view stands in the books if, and only if, the watch's store
//! keeps its object and the door let its newest state in. So the bound of the store is one of the books.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pilotage_absurd::text;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::{PodChaperon, keys, names};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::door::Serves;
use crate::world::{ChaperonNews, Heard};
use crate::{Reach, book, feedback};

const NODES: [&str; 2] = ["a", "b"];
/// Pods by UID; each may come and go.
const PODS: [(&str, &str, &str); 3] = [
    ("p1", "shop", "web"),
    ("p2", "bank", "api"),
    ("p3", "shop", "api"),
];

/// Virtual node, namespace and name.
type Place = (String, String, String);

#[derive(Clone, Debug)]
enum Event {
    /// ADDED or MODIFIED.
    Put(&'static str, Value),
    /// DELETED, with evidence or without.
    Delete(&'static str, Value, bool),
    Relist(&'static str, Vec<Value>, u64),
    Pod(usize),
    PodGone(usize),
    /// Who leads decides.
    Plan(&'static str),
}

fn node() -> impl Strategy<Value = &'static str> {
    select(&NODES[..])
}

/// A pod's UID, most of the time one that is known to us.
fn parent() -> impl Strategy<Value = String> {
    prop_oneof![8 => select(&["p1", "p2", "p3", "p4"][..]).prop_map(str::to_owned), 1 => text::text()]
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let word = prop_oneof![16 => select(words).prop_map(str::to_owned), 1 => text::text()];
    prop_oneof![8 => word.prop_map(Value::from), 1 => Just(Value::Null)]
}

fn version() -> impl Strategy<Value = Value> {
    prop_oneof![8 => (0..12_u64).prop_map(|it| it.to_string()), 1 => text::number()]
        .prop_map(Value::from)
}

prop_compose! {
    fn chaperon()(
        parent in parent(), labelled in prop::bool::weighted(0.9), plain in any::<bool>(),
        namespace in word(&["shop", "bank"]), of in word(&["shop", "bank"]), named in word(&["web", "api"]),
        name in word(&["x", "y"]), fits in prop::bool::weighted(0.7), uid in word(&["u1", "u2", "u3"]),
        version in version(),
    ) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = if fits { namespace.clone() } else { of };
        let own = || names::chaperon(&text(&namespace), &text(&named), &parent);
        let name = if fits && !plain { own().into() } else { name };
        let mut labels = json!({});
        if labelled {
            labels[keys::PARENT_UID] = parent.into();
        }
        if !plain {
            labels[keys::PARENT_CLUSTER_UID] = "source".into();
        }
        json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": {
                "namespace": namespace, "name": name, "uid": uid, "resourceVersion": version, "labels": labels,
                "annotations": { keys::PARENT_NAMESPACE: text(&of), keys::PARENT_NAME: text(&named) },
            },
            "spec": {},
        })
    }
}

fn event() -> impl Strategy<Value = Event> {
    let pod = || 0..PODS.len();
    prop_oneof![
        12 => (node(), chaperon()).prop_map(|(node, it)| Event::Put(node, it)),
        4 => (node(), chaperon(), any::<bool>()).prop_map(|(node, it, seen)| Event::Delete(node, it, seen)),
        1 => (node(), prop::collection::vec(chaperon(), 0..6), 0..12_u64)
            .prop_map(|(node, list, at)| Event::Relist(node, list, 16 * at)),
        3 => pod().prop_map(Event::Pod),
        2 => pod().prop_map(Event::PodGone),
        3 => select(&["p1", "p2", "p3", "p4"][..]).prop_map(Event::Plan),
    ]
}

/// What the store of a watch keeps, and what it tells (`clusters::watch::Store`).
#[derive(Default)]
struct Store(BTreeMap<(String, String), Arc<PodChaperon>>);

fn place(chaperon: &PodChaperon) -> (String, String) {
    let meta = &chaperon.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

fn number(chaperon: &PodChaperon) -> u64 {
    let version = chaperon.metadata.resource_version.as_deref();
    version.unwrap_or_default().parse().unwrap_or_default()
}

impl Store {
    fn put(&mut self, object: Arc<PodChaperon>, told: &mut Vec<ChaperonNews>) {
        if let Some(known) = self.0.get(&place(&object)) {
            let same = known.metadata.uid == object.metadata.uid;
            let (old, new) = (number(known), number(&object));
            if old > new || (same && old == new && old != 0) {
                return;
            }
            if !same {
                told.push(ChaperonNews::Vanished(Arc::clone(known)));
            }
        }
        self.0.insert(place(&object), Arc::clone(&object));
        told.push(ChaperonNews::Applied(object));
    }

    fn delete(&mut self, object: Arc<PodChaperon>, evidence: bool, told: &mut Vec<ChaperonNews>) {
        let known = self.0.get(&place(&object));
        if known.is_some_and(|known| known.metadata.uid == object.metadata.uid) {
            self.0.remove(&place(&object));
        }
        told.push(if evidence {
            ChaperonNews::Deleted(object)
        } else {
            ChaperonNews::Vanished(object)
        });
    }

    fn replace(&mut self, list: Vec<Arc<PodChaperon>>, at: u64, told: &mut Vec<ChaperonNews>) {
        let listed: BTreeMap<_, _> = list.into_iter().map(|it| (place(&it), it)).collect();
        self.0.retain(|place, known| {
            let stays = listed.contains_key(place) || number(known) > at;
            if !stays {
                told.push(ChaperonNews::Vanished(Arc::clone(known)));
            }
            stays
        });
        for object in listed.into_values() {
            self.put(object, told);
        }
    }
}

/// Both books, the stores behind them, and what the door let in.
struct Scene {
    ask: book::Book,
    feedback: feedback::Book,
    stores: BTreeMap<&'static str, Store>,
    kept: BTreeSet<Place>,
    version: u64,
}

impl Scene {
    fn new() -> Self {
        let mut ask = book::Book::default();
        let mut feedback = feedback::Book::new(ClusterUid("source".to_owned()));
        for (node, serves) in NODES
            .into_iter()
            .zip([Serves::Everybody, Serves::Namespace("shop".to_owned())])
        {
            ask.set_serves(node, serves.clone());
            feedback.set_serves(node, serves);
            ask.set_reach(node, Reach::Reachable, Duration::ZERO);
            feedback.set_reach(node, Reach::Reachable, Duration::ZERO);
        }
        feedback.proxies_listed();
        let stores = NODES.map(|node| (node, Store::default())).into();
        Self {
            ask,
            feedback,
            stores,
            kept: BTreeSet::new(),
            version: 0,
        }
    }

    fn tell(&mut self, node: &str, told: Vec<ChaperonNews>) {
        for news in told {
            let (namespace, name) = place(news.chaperon());
            let place = (node.to_owned(), namespace, name);
            let applied = matches!(news, ChaperonNews::Applied(_));
            let heard: [Heard; 2] = [
                self.ask.chaperon(node, news.clone(), Duration::ZERO),
                self.feedback.chaperon(node, news),
            ];
            let what = |heard: &Heard| (heard.parents.clone(), heard.turned_away);
            assert_eq!(what(&heard[0]), what(&heard[1]));
            if applied && heard[0].turned_away.is_none() {
                self.kept.insert(place);
            } else if applied {
                self.kept.remove(&place);
            }
        }
        let stores = &self.stores;
        self.kept.retain(|(node, namespace, name)| {
            stores[&**node]
                .0
                .contains_key(&(namespace.clone(), name.clone()))
        });
    }

    fn play(&mut self, event: Event) {
        let read = |object: Value| {
            serde_json::from_value::<PodChaperon>(object)
                .ok()
                .map(Arc::new)
        };
        let mut told = Vec::new();
        match event {
            Event::Put(node, mut object) => {
                // Time goes on.
                self.version += 3;
                let version = &mut object["metadata"]["resourceVersion"];
                if let Some(ago) = version.as_str().and_then(|it| it.parse::<u8>().ok()) {
                    *version = (self.version + u64::from(ago)).to_string().into();
                }
                let Some(object) = read(object) else { return };
                self.stores.entry(node).or_default().put(object, &mut told);
                self.tell(node, told);
            }
            Event::Delete(node, object, evidence) => {
                let Some(object) = read(object) else { return };
                self.stores
                    .entry(node)
                    .or_default()
                    .delete(object, evidence, &mut told);
                self.tell(node, told);
            }
            Event::Relist(node, list, at) => {
                let list = list.into_iter().filter_map(read).collect();
                self.stores
                    .entry(node)
                    .or_default()
                    .replace(list, at, &mut told);
                self.tell(node, told);
            }
            Event::Pod(number) => self.pod(PODS[number]),
            Event::PodGone(number) => {
                self.ask.proxy_gone(PODS[number].0, Duration::ZERO);
                self.feedback.proxy_gone(PODS[number].0);
            }
            Event::Plan(uid) => {
                self.feedback.plan(uid, Duration::ZERO);
            }
        }
    }

    fn pod(&mut self, (uid, namespace, name): (&str, &str, &str)) {
        self.version += 1;
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "namespace": namespace, "name": name, "uid": uid, "resourceVersion": self.version.to_string(),
            },
            "spec": { "containers": [] },
        }))
        .unwrap();
        self.ask.proxy_applied(&pod);
        self.feedback.proxy_applied(Arc::new(pod));
        let stores = &self.stores;
        self.kept.retain(|(node, there, called)| {
            let object = &stores[&**node].0[&(there.clone(), called.clone())];
            let link = ParentLink::of(&object.metadata).unwrap();
            link.uid != uid
                || (there == namespace && link.namespace == namespace && link.name == name)
        });
    }

    fn check(&self) {
        assert_eq!(self.ask.world().places(), self.kept);
        assert_eq!(self.feedback.world().places(), self.kept);
    }
}

pilotage_absurd::properties! {
    #[test]
    fn the_books_hold_what_the_stores_hold_and_the_door_lets_in(events in prop::collection::vec(event(), 0..60)) {
        let mut scene = Scene::new();
        for event in events {
            scene.play(event);
            scene.check();
        }
        // All goes, and nobody says whose it was.
        let of = |(node, store): (&&'static str, &Store)| -> Vec<_> {
            store.0.values().map(|it| (*node, it.clone())).collect()
        };
        let all: Vec<_> = scene.stores.iter().flat_map(of).collect();
        for (node, object) in all {
            let mut last = serde_json::to_value(&*object).unwrap();
            last["metadata"]["labels"] = json!({});
            scene.play(Event::Delete(node, last, true));
            scene.check();
        }
        for number in 0..PODS.len() {
            scene.play(Event::PodGone(number));
        }
        prop_assert!(scene.kept.is_empty());
        prop_assert_eq!((scene.ask.uids().count(), scene.feedback.uids().count()), (0, 0));
    }
}
