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
    Service(u8, Option<Selector>),
    /// Services behind it.
    Ingress(u8, Option<Vec<u8>>),
    /// All of a crowd of Services come, with this selector, or go: as many as follow one pod, and some more.
    Crowd(Option<(u8, u8)>),
}

/// What a Service says of the pods that it selects.
#[derive(Clone, Debug)]
enum Selector {
    Labels(Vec<(u8, u8)>),
    /// What can't be read.
    Unreadable,
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
    services: BTreeMap<u8, Selector>,
    ingresses: BTreeMap<u8, Vec<u8>>,
    crowd: Option<(u8, u8)>,
}

/// Nodes or pods, and what is needed there.
type Pairs = BTreeSet<(String, String)>;

/// Services of the crowd: their names come before those of the others.
fn crowd() -> impl Iterator<Item = String> {
    (0..MOST + 2).map(|n| format!("r{n:02}"))
}

fn labels() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((0..3u8, 0..VALUES), 0..3)
}

/// With crowds of Services, which take their time.
fn op_with_crowds() -> impl Strategy<Value = Op> {
    let of_crowd = proptest::option::weighted(0.7, (0..3u8, 0..VALUES));
    prop_oneof![
        6 => op(),
        1 => of_crowd.prop_map(Op::Crowd),
    ]
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
    let selector = prop_oneof![
        4 => labels().prop_map(Selector::Labels),
        1 => Just(Selector::Unreadable),
    ];
    let selector = proptest::option::weighted(0.8, selector);
    prop_oneof![
        3 => (0..6u8, gone_or).prop_map(|(n, pod)| Op::Pod(n, pod)),
        2 => (0..4u8, selector).prop_map(|(n, it)| Op::Service(n, it)),
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
            // What was known stays.
            Op::Service(n, Some(Selector::Unreadable)) if self.is_known(n) => {}
            Op::Service(n, now) => set(&mut self.services, n, now),
            Op::Ingress(n, now) => set(&mut self.ingresses, n, now),
            Op::Crowd(now) => self.crowd = now,
        }
    }

    /// A selector without labels selects nothing.
    fn is_known(&self, service: u8) -> bool {
        let known = self.services.get(&service);
        matches!(known, Some(Selector::Labels(labels)) if !labels.is_empty())
    }

    /// Nodes and what is needed there, and pods and what doesn't follow them, by looking at everything.
    fn wanted(&self) -> (Pairs, Pairs) {
        let (mut wanted, mut left_out) = (Pairs::new(), Pairs::new());
        for (p, pod) in &self.pods {
            let Some(node) = pod.node else { continue };
            let mut want = |what: String| wanted.insert((NODES[node].to_owned(), what));
            for name in &pod.named {
                want(format!("ConfigMap/m{name}"));
            }
            let all = self.selecting(&map(&pod.labels));
            let (follow, others) = all.split_at(all.len().min(MOST));
            let in_front = self.in_front(follow);
            let services = follow.iter().map(|it| format!("Service/{it}"));
            for what in services.chain(in_front.iter().cloned()) {
                want(what);
            }
            let services = others.iter().map(|it| format!("Service/{it}"));
            let ingresses = self.in_front(others);
            let ingresses = ingresses.difference(&in_front).cloned();
            left_out.extend(
                services
                    .chain(ingresses)
                    .map(|what| (format!("p{p}"), what)),
            );
        }
        (wanted, left_out)
    }

    /// Services that select a pod with these labels, by name.
    fn selecting(&self, has: &BTreeMap<String, String>) -> Vec<String> {
        let selects = |labels: &[(u8, u8)]| {
            let wanted = map(labels);
            !wanted.is_empty()
                && wanted
                    .iter()
                    .all(|(key, value)| has.get(key) == Some(value))
        };
        let is_selected = self.crowd.is_some_and(|label| selects(&[label]));
        let others = self.services.iter().filter(|(_, selector)| match selector {
            Selector::Labels(labels) => selects(labels),
            Selector::Unreadable => true,
        });
        let others = others.map(|(n, _)| format!("s{n}"));
        let of_crowd = is_selected.then(crowd).into_iter().flatten();
        of_crowd.chain(others).collect()
    }

    /// Ingresses in front of these Services.
    fn in_front(&self, services: &[String]) -> BTreeSet<String> {
        let ingresses = self.ingresses.iter();
        let some = ingresses.filter(|(_, behind)| {
            let mut names = behind.iter().map(|n| format!("s{n}"));
            names.any(|name| services.contains(&name))
        });
        some.map(|(m, _)| format!("Ingress/i{m}")).collect()
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
            let labels = match now {
                Some(Selector::Labels(labels)) => map(labels),
                Some(Selector::Unreadable) => map(&[(0, 0)]),
                None => BTreeMap::new(),
            };
            let spec = json!({ "selector": labels });
            let mut service: Service = object(&format!("s{n}"), &spec);
            if matches!(now, Some(Selector::Unreadable)) {
                let noted = (keys::ORIGINAL_SELECTOR.to_owned(), "?".to_owned());
                service.metadata.annotations = Some([noted].into());
            }
            needs.service(&service, now.is_some());
        }
        Op::Crowd(now) => {
            let spec = json!({ "selector": map(now.as_slice()) });
            for name in crowd() {
                needs.service(&object(&name, &spec), now.is_some());
            }
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

fn kept(needs: &Needs) -> Pairs {
    let mut kept = Pairs::new();
    for node in NODES {
        for key in KINDS.into_iter().flat_map(|kind| needs.at(node, kind)) {
            assert!(needs.has(node, &key) && needs.is_anywhere(&key));
            assert!(!needs.pods(node, &key, 1).is_empty());
            kept.insert((node.to_owned(), format!("{}/{}", key.kind, key.name)));
        }
    }
    kept
}

fn left_out(needs: &Needs) -> Pairs {
    let all = KINDS.into_iter().flat_map(|kind| needs.left_out(kind));
    all.map(|(key, pod)| (pod.name, format!("{}/{}", key.kind, key.name)))
        .collect()
}

/// Takes in what was told: who follows looks at what it names, and at nothing else.
fn note(changes: &mut [UnboundedReceiver<Change>; 4], needs: &Needs, seen: &mut Pairs) {
    for changes in changes {
        while let Ok(change) = changes.try_recv() {
            let Change::At(node, keys) = change else {
                continue;
            };
            for key in keys.iter() {
                let one = (node.to_string(), format!("{}/{}", key.kind, key.name));
                if needs.has(&node, key) {
                    seen.insert(one);
                } else {
                    seen.remove(&one);
                }
            }
        }
    }
}

/// Looks at so many in one step; now and then a step follows before the next operation.
fn check(ops: Vec<(bool, Op)>, at_once: usize) -> Result<(), TestCaseError> {
    let needs = Needs::new(true);
    needs.lock().at_once = at_once;
    let mut changes = subscribe(&needs);
    let (mut all, mut seen) = (All::default(), Pairs::new());
    let count = ops.len();
    for (number, (goes_on, op)) in ops.into_iter().enumerate() {
        apply(&needs, &op);
        all.take(op);
        if goes_on {
            needs.go_on();
        }
        let is_last = number + 1 == count;
        while is_last && needs.go_on() {}
        if !needs.lock().pending.is_empty() {
            continue;
        }
        let (wanted, without) = all.wanted();
        prop_assert_eq!(kept(&needs), wanted.clone());
        prop_assert_eq!(left_out(&needs), without);
        note(&mut changes, &needs, &mut seen);
        prop_assert_eq!(&seen, &wanted, "each change is told");
    }
    for n in 0..6 {
        apply(&needs, &Op::Pod(n, None));
    }
    while needs.go_on() {}
    {
        let inner = needs.lock();
        prop_assert!(
            inner.pods.is_empty() && inner.by_object.is_empty() && inner.by_node.is_empty()
        );
        prop_assert!(inner.left_out.is_empty(), "{:?}", inner.left_out);
    }
    for n in 0..4 {
        apply(&needs, &Op::Service(n, None));
        apply(&needs, &Op::Ingress(n, None));
    }
    apply(&needs, &Op::Crowd(None));
    while needs.go_on() {}
    let inner = needs.lock();
    prop_assert!(inner.selected.is_empty(), "{:?}", inner.selected);
    Ok(())
}

fn ops(op: impl Strategy<Value = Op>, most: usize) -> impl Strategy<Value = Vec<(bool, Op)>> {
    proptest::collection::vec((any::<bool>(), op), 0..most)
}

proptest! {
    #[test]
    fn changes_one_by_one_come_to_what_looking_at_all_finds(ops in ops(op(), 60), few in 1..6_usize) {
        check(ops.clone(), AT_ONCE)?;
        check(ops, few)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn so_they_do_when_more_select_a_pod_than_follow_it(ops in ops(op_with_crowds(), 30), few in 1..600_usize) {
        check(ops.clone(), AT_ONCE)?;
        check(ops, few)?;
    }
}
