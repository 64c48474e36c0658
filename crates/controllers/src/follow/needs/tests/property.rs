//! Whatever happens in whatever order, what is needed where is what one would find by looking at all that is there.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NODES: [&str; 3] = ["east", "north", "west"];
const VALUES: u8 = 3;

/// Something happens to the object or pod of this number.
#[derive(Clone, Debug)]
enum Op {
    Pod(u8, Option<PodOf>),
    /// Labels of its selector.
    Service(u8, Option<Vec<(u8, u8)>>),
    /// Services behind it.
    Ingress(u8, Option<Vec<u8>>),
}

#[derive(Clone, Debug)]
struct PodOf {
    node: Option<usize>,
    named: Vec<u8>,
    labels: Vec<(u8, u8)>,
}

/// All that is there.
#[derive(Debug, Default)]
struct All {
    pods: BTreeMap<u8, PodOf>,
    services: BTreeMap<u8, Vec<(u8, u8)>>,
    ingresses: BTreeMap<u8, Vec<u8>>,
}

fn labels() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((0..3u8, 0..VALUES), 0..3)
}

fn op() -> impl Strategy<Value = Op> {
    let node = proptest::option::weighted(0.8, 0..NODES.len());
    let named = proptest::collection::vec(0..4u8, 0..3);
    let pod = (node, named, labels());
    let pod = pod.prop_map(|(node, named, labels)| PodOf {
        node,
        named,
        labels,
    });
    let gone_or = proptest::option::weighted(0.8, pod);
    let behind = proptest::collection::vec(0..4u8, 0..3);
    prop_oneof![
        3 => (0..6u8, gone_or).prop_map(|(n, pod)| Op::Pod(n, pod)),
        2 => (0..4u8, proptest::option::weighted(0.8, labels())).prop_map(|(n, it)| Op::Service(n, it)),
        1 => (0..4u8, proptest::option::weighted(0.8, behind)).prop_map(|(n, it)| Op::Ingress(n, it)),
    ]
}

fn map(labels: &[(u8, u8)]) -> BTreeMap<String, String> {
    let labels = labels.iter();
    labels
        .map(|(key, value)| (format!("k{key}"), format!("v{value}")))
        .collect()
}

fn set<T>(all: &mut BTreeMap<u8, T>, number: u8, now: Option<T>) {
    match now {
        Some(now) => all.insert(number, now),
        None => all.remove(&number),
    };
}

impl All {
    fn take(&mut self, op: Op) {
        match op {
            Op::Pod(n, now) => set(&mut self.pods, n, now),
            Op::Service(n, now) => set(&mut self.services, n, now),
            Op::Ingress(n, now) => set(&mut self.ingresses, n, now),
        }
    }

    /// Nodes and what is needed there, by looking at everything.
    fn wanted(&self) -> BTreeSet<(String, String)> {
        let mut wanted = BTreeSet::new();
        for pod in self.pods.values() {
            let Some(node) = pod.node else { continue };
            let mut want = |what: String| wanted.insert((NODES[node].to_owned(), what));
            for name in &pod.named {
                want(format!("ConfigMap/m{name}"));
            }
            let has = map(&pod.labels);
            for (n, selector) in &self.services {
                let selector = map(selector);
                let mut labels = selector.iter();
                if selector.is_empty() || !labels.all(|(key, value)| has.get(key) == Some(value)) {
                    continue;
                }
                want(format!("Service/s{n}"));
                for (m, _) in self
                    .ingresses
                    .iter()
                    .filter(|(_, behind)| behind.contains(n))
                {
                    want(format!("Ingress/i{m}"));
                }
            }
        }
        wanted
    }
}

fn apply(needs: &Needs, op: &Op) {
    match op {
        Op::Pod(n, now) => {
            let now = now.clone().unwrap_or(PodOf {
                node: None,
                named: Vec::new(),
                labels: Vec::new(),
            });
            let record = now.node.map(|node| format!("{}/c/1", NODES[node]));
            let named: Vec<String> = now.named.iter().map(|name| format!("m{name}")).collect();
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            let mut pod = pod(&format!("p{n}"), record.as_deref(), &named);
            pod.metadata.labels = Some(map(&now.labels));
            if matches!(op, Op::Pod(_, None)) {
                needs.remove(&pod);
            } else {
                needs.apply(&pod);
            }
        }
        Op::Service(n, now) => {
            let spec = json!({ "selector": map(now.as_deref().unwrap_or_default()) });
            needs.service(&object(&format!("s{n}"), &spec), now.is_some());
        }
        Op::Ingress(n, now) => {
            let path = |name: &u8| {
                let service = json!({ "name": format!("s{name}") });
                json!({ "path": "/", "pathType": "Exact", "backend": { "service": service } })
            };
            let paths: Vec<Value> = now.iter().flatten().map(path).collect();
            let spec = json!({ "rules": [{ "http": { "paths": paths } }] });
            needs.ingress(&object(&format!("i{n}"), &spec), now.is_some());
        }
    }
}

fn kept(needs: &Needs) -> BTreeSet<(String, String)> {
    let mut kept = BTreeSet::new();
    for node in NODES {
        for key in KINDS.into_iter().flat_map(|kind| needs.at(node, kind)) {
            assert!(needs.has(node, &key) && needs.is_anywhere(&key));
            assert!(!needs.pods(node, &key, 1).is_empty());
            kept.insert((node.to_owned(), format!("{}/{}", key.kind, key.name)));
        }
    }
    kept
}

/// Takes in what was told: who follows looks at what it names, and at nothing else.
fn note(
    changes: &mut [UnboundedReceiver<Change>; 4],
    needs: &Needs,
    seen: &mut BTreeSet<(String, String)>,
) {
    for changes in changes {
        while let Ok(change) = changes.try_recv() {
            let Change::One(node, key) = change else {
                continue;
            };
            let one = (node.to_string(), format!("{}/{}", key.kind, key.name));
            if needs.has(&node, &key) {
                seen.insert(one);
            } else {
                seen.remove(&one);
            }
        }
    }
}

proptest! {
    #[test]
    fn changes_one_by_one_come_to_what_looking_at_all_finds(ops in proptest::collection::vec(op(), 0..60)) {
        let needs = Needs::new(true);
        let mut changes = subscribe(&needs);
        let (mut all, mut seen) = (All::default(), BTreeSet::new());
        for op in ops {
            apply(&needs, &op);
            all.take(op);
            let wanted = all.wanted();
            prop_assert_eq!(kept(&needs), wanted.clone());
            note(&mut changes, &needs, &mut seen);
            prop_assert_eq!(&seen, &wanted, "each change is told");
        }
        for n in 0..6 {
            apply(&needs, &Op::Pod(n, None));
        }
        let inner = needs.lock();
        prop_assert!(inner.pods.is_empty() && inner.by_object.is_empty() && inner.by_node.is_empty());
    }
}
