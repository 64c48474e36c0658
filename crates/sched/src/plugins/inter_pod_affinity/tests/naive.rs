//! The plugin says what one finds who goes through all pods, whatever came, changed and went before, and in a *what
//! if*.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodAffinityTerm as Term;
use proptest::prelude::*;
use proptest::sample::select;

use super::{CROWDED, InterPodAffinityArgs, LONELY, UNWANTED, World, node_of, refused, scores};
use crate::labels::{Labels, Selector};
use crate::names::{NodeName, ObjectKey, PodUid};
use crate::objects::Kind;
use crate::plugin::{PreFilterExtensions, PreScore, PreScored};
use crate::pod_affinity::PodAffinityTerm;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::table::{NodeId, NodeInfo, NodeView};
use crate::test_objects::{PodBuilder, namespace, pod, pods_with, selecting};

const KEYS: [&str; 3] = ["zone", "rack", "kubernetes.io/hostname"];
const NAMESPACES: [&str; 3] = ["default", "shop", "bank"];

/// All pods on nodes, each with its node.
fn all(world: &World) -> Vec<(NodeView<'_>, &Arc<PodInfo>)> {
    let nodes = world.table.iter();
    let pods = nodes.flat_map(|node| node.row().pods().iter().map(move |pod| (node, pod)));
    pods.collect()
}

fn labels_of(world: &World, namespace: &str) -> Option<Labels> {
    let key = ObjectKey {
        namespace: "".into(),
        name: namespace.into(),
    };
    let found = world.quiet.objects.namespaces().get(&key)?;
    Some(found.labels.clone())
}

/// Whether a term of the pod that is scheduled means another one: of namespaces that aren't known only by name, or if
/// all are meant.
fn means(world: &World, term: &PodAffinityTerm, other: &PodInfo) -> bool {
    let namespace = &*other.key.namespace;
    let by_label = match &term.namespace_selector {
        Selector::All(requirements) if requirements.is_empty() => true,
        selector => labels_of(world, namespace).is_some_and(|labels| selector.matches(&labels)),
    };
    (term.namespaces.contains(namespace) || by_label) && term.selector.matches(other.labels())
}

/// Whether a term of another pod means the one that is scheduled.
fn is_meant(world: &World, term: &PodAffinityTerm, pod: &PodInfo) -> bool {
    let labels = labels_of(world, &pod.key.namespace).unwrap_or_default();
    term.matches(&pod.key.namespace, &labels, pod.labels())
}

fn share(key: &str, one: NodeView<'_>, other: NodeView<'_>) -> bool {
    let value = one.labels().get(key);
    value.is_some() && value == other.labels().get(key)
}

/// Whether anybody keeps the pod away from anywhere.
fn is_kept_away(world: &World, pod: &PodInfo) -> bool {
    all(world).into_iter().any(|(there, other)| {
        let mut terms = other.needs.pod_affinity.required_anti.iter();
        terms.any(|term| {
            there.labels().contains_key(&term.topology_key) && is_meant(world, term, pod)
        })
    })
}

fn naive_refusal(world: &World, pod: &PodInfo, node: NodeView<'_>) -> Option<&'static str> {
    let affinity = &pod.needs.pod_affinity;
    let (pods, near) = (all(world), &affinity.required);
    let all_mean = |other: &PodInfo| near.iter().all(|term| means(world, term, other));
    let has_keys = near
        .iter()
        .all(|term| node.labels().contains_key(&term.topology_key));
    let company = near.iter().all(|term| {
        let mut others = pods.iter();
        others.any(|(there, other)| all_mean(other) && share(&term.topology_key, *there, node))
    });
    let is_first = all_mean(pod)
        && !pods.iter().any(|(there, other)| {
            let mut keys = near.iter().map(|term| &term.topology_key);
            all_mean(other) && keys.any(|key| there.labels().contains_key(key))
        });
    if !has_keys || !(company || is_first) {
        return Some(LONELY);
    }
    let crowded = affinity.required_anti.iter().any(|term| {
        let mut others = pods.iter();
        others.any(|(there, other)| {
            means(world, term, other) && share(&term.topology_key, *there, node)
        })
    });
    if crowded {
        return Some(CROWDED);
    }
    let unwanted = pods.iter().any(|(there, other)| {
        let mut terms = other.needs.pod_affinity.required_anti.iter();
        terms.any(|term| is_meant(world, term, pod) && share(&term.topology_key, *there, node))
    });
    unwanted.then_some(UNWANTED)
}

fn naive_refused(world: &World, pod: &PodInfo) -> Vec<(String, String)> {
    let refused = world.table.iter().filter_map(|node| {
        let why = naive_refusal(world, pod, node)?;
        Some((node.name().to_string(), why.to_owned()))
    });
    let mut refused: Vec<_> = refused.collect();
    refused.sort();
    refused
}

/// What a node is worth, by name; `None` if nobody prefers anything anywhere.
fn naive_scores(world: &World, args: InterPodAffinityArgs, pod: &PodInfo) -> Option<Vec<i64>> {
    let own = &pod.needs.pod_affinity;
    if args.ignore_preferred_terms_of_existing_pods
        && own.preferred.is_empty()
        && own.preferred_anti.is_empty()
    {
        return None;
    }
    let mut worth = Vec::new();
    for (there, other) in all(world) {
        let its = &other.needs.pod_affinity;
        let mut count = |term: &PodAffinityTerm, weight: i64, is_about: bool| {
            if is_about && there.labels().contains_key(&term.topology_key) {
                worth.push((there, term.topology_key.clone(), weight));
            }
        };
        for it in &own.preferred {
            count(&it.term, it.weight, means(world, &it.term, other));
        }
        for it in &own.preferred_anti {
            count(&it.term, -it.weight, means(world, &it.term, other));
        }
        if args.hard_pod_affinity_weight > 0 {
            for term in &its.required {
                let is_about = is_meant(world, term, pod);
                count(term, args.hard_pod_affinity_weight, is_about);
            }
        }
        for it in &its.preferred {
            count(&it.term, it.weight, is_meant(world, &it.term, pod));
        }
        for it in &its.preferred_anti {
            count(&it.term, -it.weight, is_meant(world, &it.term, pod));
        }
    }
    if worth.is_empty() {
        return None;
    }
    let by_name: BTreeMap<_, _> = (world.table.iter())
        .map(|node| {
            let here = worth
                .iter()
                .filter(|(there, key, _)| share(key, *there, node));
            let sum: i64 = here.map(|(_, _, weight)| weight).sum();
            (node.name().clone(), sum)
        })
        .collect();
    Some(by_name.into_values().collect())
}

/// A term in one of 5 × 4 × 3 ways.
fn term() -> impl Strategy<Value = Term> {
    let selected = select(
        &[
            ("app", "a"),
            ("app", "b"),
            ("tier", "x"),
            ("", ""),
            ("no", ""),
        ][..],
    );
    (selected, 0..5_usize, select(&KEYS[..])).prop_map(|((label, value), namespaces, key)| {
        let mut term = if label.is_empty() {
            pods_with(key, &[])
        } else {
            pods_with(key, &[(label, value)])
        };
        if label == "no" {
            term.label_selector = None;
        }
        match namespaces {
            0 | 1 => {}
            2 => term.namespaces = Some(vec!["shop".to_owned()]),
            3 => term.namespace_selector = Some(selecting(&[("team", "x")])),
            _ => term.namespace_selector = Some(selecting(&[])),
        }
        term
    })
}

/// A pod's labels, namespace and terms: of which kind each is, and its weight.
type Looks = (usize, usize, usize, Vec<(usize, Term)>);

fn looks() -> impl Strategy<Value = Looks> {
    let terms = proptest::collection::vec((0..5_usize, term()), 0..3);
    (0..3_usize, 0..2_usize, 0..3_usize, terms)
}

fn build(name: usize, (app, tier, namespace, terms): Looks) -> PodBuilder {
    let built = pod(&format!("p{name}")).label("app", ["a", "b", "c"][app]);
    let built = if tier == 0 {
        built
    } else {
        built.label("tier", "x")
    };
    let built = built.namespace(NAMESPACES[namespace]);
    terms
        .into_iter()
        .fold(built, |built, (kind, term)| match kind {
            0 => built.near(term),
            1 => built.away_from(term),
            2 => built.prefers(3, term),
            3 => built.prefers(-2, term),
            _ => built.prefers(50, term),
        })
}

#[derive(Clone, Debug)]
enum Step {
    Node(usize, usize),
    NoNode(usize),
    Namespace(usize, usize),
    Pod(usize, usize, Looks),
    NoPod(usize),
    Ask(Looks, Vec<(usize, usize, Looks)>),
}

fn step() -> impl Strategy<Value = Step> {
    let tries = proptest::collection::vec((0..4_usize, 0..8_usize, looks()), 0..4);
    prop_oneof![
        2 => (0..4_usize, 0..9_usize).prop_map(|(node, labels)| Step::Node(node, labels)),
        1 => (0..4_usize).prop_map(Step::NoNode),
        2 => (0..3_usize, 0..3_usize).prop_map(|(name, team)| Step::Namespace(name, team)),
        5 => (0..4_usize, 0..8_usize, looks()).prop_map(|(n, p, looks)| Step::Pod(n, p, looks)),
        1 => (0..8_usize).prop_map(Step::NoPod),
        4 => (looks(), tries).prop_map(|(looks, tries)| Step::Ask(looks, tries)),
    ]
}

fn name(node: usize) -> NodeName {
    NodeName::from(&format!("n{node}"))
}

struct Play {
    world: World,
    args: InterPodAffinityArgs,
    on: BTreeMap<PodUid, NodeId>,
}

impl Play {
    fn step(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Node(node, labels) => {
                let built = node_of(&format!("n{node}"));
                let labels = [("zone", labels % 3), ("rack", labels / 3)];
                let labels = labels.iter().filter(|(_, value)| *value > 0);
                let built = labels.fold(built, |node, (key, value)| {
                    node.label(key, &value.to_string())
                });
                world.table.set_node(built.object());
            }
            Step::NoNode(node) => {
                for pod in world
                    .table
                    .remove_node(&name(node))
                    .iter()
                    .flat_map(NodeInfo::pods)
                {
                    self.on.remove(&pod.uid);
                }
            }
            Step::Namespace(number, team) => {
                let known = NAMESPACES[number];
                let team = ["", "x", "y"][team];
                if team.is_empty() {
                    let key = ObjectKey {
                        namespace: "".into(),
                        name: known.into(),
                    };
                    world.quiet.objects.remove(Kind::Namespace, &key);
                } else {
                    world.apply(namespace(known, &[("team", team)]));
                }
            }
            Step::Pod(node, number, looks) => {
                let pod = build(number, looks).info();
                if let Some(id) = world.table.id(&name(node))
                    && !self.on.contains_key(&pod.uid)
                {
                    self.on.insert(pod.uid.clone(), id);
                    world.table.add_pod(id, pod);
                }
            }
            Step::NoPod(number) => {
                let uid = build(number, (0, 0, 0, vec![])).info().uid.clone();
                if let Some(id) = self.on.remove(&uid) {
                    world.table.remove_pod(id, &uid);
                }
            }
            Step::Ask(looks, tries) => self.ask(looks, tries),
        }
    }

    fn ask(&mut self, looks: Looks, tries: Vec<(usize, usize, Looks)>) {
        let world = &mut self.world;
        let pod = build(100, looks).info();
        let mut scored = CycleState::new();
        let said = world.ask(|cx| world.plugin.pre_score(cx, &mut scored, &pod, &[]));
        let told = (said.unwrap() == PreScored::Proceed)
            .then(|| scores(&world.plugin, &scored, &pod, &world.table));
        assert_eq!(told, naive_scores(world, self.args, &pod));

        let own = &pod.needs.pod_affinity;
        let is_concerned =
            !own.required.is_empty() || !own.required_anti.is_empty() || is_kept_away(world, &pod);
        let state = world.pre_filter(&pod);
        assert_eq!(state.is_some(), is_concerned);
        let Some(state) = state else { return };
        let before = refused(&world.plugin, &state, &pod, &world.table);
        assert_eq!(before, naive_refused(world, &pod));
        // What would be if these came and went.
        let mut what_if = state.clone();
        let mut undo = Vec::new();
        for (node, number, looks) in tries {
            let Some(id) = world.table.id(&name(node)) else {
                continue;
            };
            let other = build(number, looks).info();
            let here = world.table.get(id).unwrap().row().pods().iter();
            let here = here.map(|pod| pod.uid.clone()).collect::<Vec<_>>();
            let plugin = &world.plugin;
            if here.contains(&other.uid) {
                let gone = world.table.remove_pod(id, &other.uid).unwrap();
                let node = world.table.get(id).unwrap();
                plugin.remove_pod(&mut what_if, &pod, &gone, node).unwrap();
                undo.push((id, gone, true));
            } else {
                world.table.add_pod(id, other.clone());
                let node = world.table.get(id).unwrap();
                plugin.add_pod(&mut what_if, &pod, &other, node).unwrap();
                undo.push((id, other, false));
            }
            let told = refused(&world.plugin, &what_if, &pod, &world.table);
            assert_eq!(told, naive_refused(world, &pod));
        }
        for (id, other, was_there) in undo.into_iter().rev() {
            if was_there {
                world.table.add_pod(id, other);
            } else {
                world.table.remove_pod(id, &other.uid);
            }
        }
        assert_eq!(refused(&world.plugin, &state, &pod, &world.table), before);
    }
}

proptest! {
    #[test]
    fn it_says_what_a_pass_over_all_pods_says(
        hard_pod_affinity_weight in select(&[0, 1, 7][..]),
        ignore_preferred_terms_of_existing_pods in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let args = InterPodAffinityArgs {
            hard_pod_affinity_weight,
            ignore_preferred_terms_of_existing_pods,
        };
        let mut play = Play { world: World::of(&[]).told(args), args, on: BTreeMap::new() };
        for step in steps {
            play.step(step);
        }
    }
}
