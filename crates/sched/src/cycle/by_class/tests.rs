//! What is kept of a class says the same as asking everybody again, whatever happens in between.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proptest::prelude::*;

use crate::classes::{Classes, Limits};
use crate::context::Cycle;
use crate::cycle::search::prepare;
use crate::cycle::{
    Cause, Choice, Chosen, Diagnosis, Evaluation, NoChoice, Offered, Search, SearchSize, choose,
    choose_offered, evaluate,
};
use crate::interned::SharedParts;
use crate::names::NodeName;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::status::Status;
use crate::table::{NodeTable, Reads};
use crate::test_draws::{LOOKS, drawn_namespace, drawn_node, drawn_pod, drawn_profile, needs};
use crate::test_objects::Quiet;
use crate::test_plugins::{Fake, Log, profile, taken};
use crate::tie::SeededTies;

const NODES: u8 = 6;

/// Something that happens between two pods.
#[derive(Clone, Debug)]
enum Op {
    /// A node comes, or changes.
    Node { name: u8, look: u8, cpu: u8 },
    /// A node goes.
    Gone { name: u8 },
    /// A pod comes to a node.
    Come { node: u8, needs: u8 },
    /// The last pod of a node goes.
    Go { node: u8 },
    /// A pod is expected on a node.
    Expect { node: u8, needs: u8 },
    /// A namespace becomes a team's, or is one no more.
    Namespace { is_team: bool },
    /// A pod looks for a node, and takes it.
    Try { needs: u8, seed: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let (name, needs) = (0..NODES, needs());
    prop_oneof![
        2 => (name.clone(), 0..LOOKS, 0..5_u8).prop_map(|(name, look, cpu)| Op::Node { name, look, cpu }),
        1 => name.clone().prop_map(|name| Op::Gone { name }),
        2 => (name.clone(), needs.clone()).prop_map(|(node, needs)| Op::Come { node, needs }),
        2 => name.clone().prop_map(|node| Op::Go { node }),
        1 => (name, needs.clone()).prop_map(|(node, needs)| Op::Expect { node, needs }),
        1 => any::<bool>().prop_map(|is_team| Op::Namespace { is_team }),
        6 => (needs, any::<u8>()).prop_map(|(needs, seed)| Op::Try { needs, seed }),
    ]
}

/// A cluster, and what is kept of it.
struct World {
    profile: Arc<Profile>,
    table: NodeTable,
    quiet: Quiet,
    classes: Classes,
    known: SharedParts,
    pods: usize,
}

impl World {
    fn new() -> Self {
        Self {
            profile: drawn_profile(),
            table: NodeTable::default(),
            quiet: Quiet::default(),
            // So few that they are forgotten, too.
            classes: Classes::new(Limits {
                bytes: usize::MAX,
                classes: 6,
                unused: 40,
            }),
            known: SharedParts::default(),
            pods: 0,
        }
    }

    fn pod(&mut self, needs: u8) -> Arc<PodInfo> {
        self.pods += 1;
        let pod = drawn_pod(&format!("p{}", self.pods), needs).object();
        let mut pod = PodInfo::parse(pod).unwrap();
        self.known.share(&mut pod);
        Arc::new(pod)
    }

    fn happen(&mut self, op: &Op) {
        let named = |name: u8| NodeName::from(format!("n{name}"));
        match *op {
            Op::Node { name, look, cpu } => {
                self.table.set_node(drawn_node(name, look, cpu).object());
            }
            Op::Gone { name } => {
                self.table.remove_node(&named(name));
            }
            Op::Come { node, needs } => {
                let pod = self.pod(needs);
                if let Some(id) = self.table.id(&named(node)) {
                    self.table.add_pod(id, pod);
                }
            }
            Op::Go { node } => {
                if let Some(node) = self.table.by_name(&named(node))
                    && let Some(pod) = node.pods().last()
                {
                    let (id, uid) = (node.id(), pod.uid.clone());
                    self.table.remove_pod(id, &uid);
                }
            }
            Op::Expect { node, needs } => {
                let pod = self.pod(needs);
                self.quiet.nominator.nominate(pod, named(node));
            }
            Op::Namespace { is_team } => {
                let namespace = drawn_namespace(is_team);
                self.quiet.objects.apply(namespace).unwrap();
            }
            Op::Try { needs, seed } => self.compare(needs, seed),
        }
    }

    fn evaluate(&mut self, pod: &PodInfo) -> Evaluation {
        let mut cycle = Cycle::new(&self.profile, &mut self.table, self.quiet.around());
        evaluate(&mut cycle, &mut CycleState::new(), pod).unwrap()
    }

    fn choose(&mut self, pod: &PodInfo, seed: u8, is_offered: bool) -> Result<Chosen, NoChoice> {
        let mut cycle = Cycle::new(&self.profile, &mut self.table, self.quiet.around());
        let how = Search {
            size: SearchSize::Percentage(100),
            start: &mut 0,
            ties: &mut SeededTies::new(seed.into()),
            classes: &mut self.classes,
            is_offered,
            nominated_first: true,
            mishaps: &mut Vec::new(),
        };
        choose(&mut cycle, &mut CycleState::new(), pod, how)
    }

    fn compare(&mut self, needs: u8, seed: u8) {
        let pod = self.pod(needs);
        let asked = self.evaluate(&pod);
        self.compare_nodes(&pod, &asked);
        self.compare_offer(&pod, &asked, seed);
        match self.choose(&pod, seed, false) {
            Ok(chosen) => {
                let choice = chosen.node();
                is_best(&choice, &asked);
                let id = self.table.id(&choice.node).unwrap();
                self.table.add_pod(id, pod);
            }
            Err(no) => self.is_refused(no, &asked),
        }
    }

    fn is_refused(&self, no: NoChoice, asked: &Evaluation) {
        assert!(asked.feasible.is_empty(), "{asked:?}");
        match no.cause {
            Cause::Unfit(unfit) => {
                assert_eq!(unfit.to_string(), asked.diagnosis.to_string());
                assert_eq!(unfit.rejected_by, asked.diagnosis.rejected_by);
                assert_eq!(unfit.evaluated, asked.diagnosis.evaluated);
            }
            Cause::NoNodes => assert!(self.table.is_empty()),
            Cause::Error(error) => panic!("{error}"),
        }
    }

    /// What is known of each node is what plugins say of it.
    fn compare_nodes(&mut self, pod: &PodInfo, asked: &Evaluation) {
        let mut cycle = Cycle::new(&self.profile, &mut self.table, self.quiet.around());
        let mut state = CycleState::new();
        if prepare(&cycle.context(), &mut state, pod).is_err() {
            return;
        }
        let outlook = super::look(&mut cycle, &state, pod, None, &mut self.classes);
        let mut outlook = outlook.unwrap();
        let (cx, nodes) = (cycle.context(), outlook.feasible().to_vec());
        outlook
            .diagnose(&cx, &state, pod, Diagnosis::new(cx.nodes().len()))
            .unwrap();
        let refused = cx.nodes().iter().filter_map(|node| {
            let class = outlook.taken.class.rejection(node.id());
            let why = outlook.own.rejection(node.id()).or(class)?;
            Some((node.name().clone(), why.clone()))
        });
        let said = asked.rejected.iter();
        let said = said.map(|it| (it.node.clone(), it.rejection.clone()));
        let refused: BTreeMap<_, _> = refused.collect();
        assert_eq!(refused, said.collect());
        let totals = match &*nodes {
            [] => Vec::new(),
            nodes => outlook.totals(&cx, &mut state, pod, nodes).unwrap(),
        };
        let names = nodes
            .iter()
            .map(|id| cx.nodes().get(*id).unwrap().name().clone());
        let said = asked.feasible.iter().map(|it| (it.node.clone(), it.total));
        let totals: BTreeMap<_, _> = names.zip(totals).collect();
        assert_eq!(totals, said.collect());
        outlook.give_back(&mut self.classes);
    }

    /// What extenders are asked about is what plugins say, and the best of it is chosen when they agree to all.
    fn compare_offer(&mut self, pod: &PodInfo, asked: &Evaluation, seed: u8) {
        let offer = match self.choose(pod, seed, true) {
            Ok(Chosen::Offer(offer)) => *offer,
            Ok(other) => panic!("nobody is asked: {other:?}"),
            Err(no) => return self.is_refused(no, asked),
        };
        let names = |nodes: &[NodeName]| nodes.iter().cloned().collect::<BTreeSet<_>>();
        let feasible = asked.feasible.iter().map(|node| node.node.clone());
        assert_eq!(names(&offer.nodes), feasible.collect());
        assert_eq!(counts(&offer.diagnosis), counts(&asked.diagnosis));
        let offered = Offered {
            offer,
            totals: HashMap::new(),
        };
        let mut cycle = Cycle::new(&self.profile, &mut self.table, self.quiet.around());
        let (state, size) = (&mut CycleState::new(), SearchSize::Percentage(100));
        let (classes, ties) = (&mut self.classes, &mut SeededTies::new(seed.into()));
        let choice = choose_offered(&mut cycle, state, pod, offered, size, classes, ties);
        is_best(&choice.unwrap(), asked);
    }
}

/// How many nodes have each rejection.
fn counts(diagnosis: &Diagnosis) -> HashMap<String, usize> {
    let counts = diagnosis.statuses.counts();
    counts
        .map(|(why, nodes)| (format!("{why:?}"), nodes))
        .collect()
}

fn is_best(choice: &Choice, asked: &Evaluation) {
    assert_eq!(choice.feasible, asked.feasible.len());
    let best = &asked.feasible[0];
    let chosen = asked.feasible.iter().find(|node| node.node == choice.node);
    assert_eq!(chosen.map(|node| node.total), Some(best.total), "{asked:?}");
}

proptest! {
    #[test]
    fn a_kept_answer_is_what_the_plugins_would_say_now(ops in proptest::collection::vec(op(), 0..120)) {
        let mut world = World::new();
        for name in 0..3 {
            world.happen(&Op::Node { name, look: name, cpu: 3 });
        }
        for op in &ops {
            world.happen(op);
        }
    }
}

#[test]
fn a_filter_that_reads_anything_is_asked_about_what_its_class_leaves() {
    let log = Log::default();
    let fresh = Fake::new("Fresh").log(&log).set(|fake| {
        fake.filter = Box::new(|pod, _| match pod.priority {
            0 => Ok(()),
            _ => Err(Status::unschedulable("too important")),
        });
    });
    let kept = |name, node: &'static str| {
        let kept = Fake::new(name).log(&log).set(|fake| {
            fake.reads = Reads::OBJECT;
            fake.filter = Box::new(move |_, at| {
                if at.name().as_str() == node {
                    return Err(Status::unschedulable("not this one"));
                }
                Ok(())
            });
        });
        Arc::new(kept)
    };
    let profile = profile()
        .filter(kept("Before", "n0"))
        .filter(Arc::new(fresh))
        .filter(kept("After", "n1"))
        .score(Arc::new(Fake::new("S")), 1);
    let mut world = World::new();
    world.profile = profile.build().unwrap();
    for name in 0..3 {
        world.happen(&Op::Node {
            name,
            look: 0,
            cpu: 3,
        });
    }
    let mut tried = |needs| {
        let pod = world.pod(needs);
        let chosen = world.choose(&pod, 0, false).map(Chosen::node);
        let told = chosen.map_or_else(|no| no.cause.to_string(), |choice| choice.node.to_string());
        (told, taken(&log))
    };
    let asked = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("{name} with 0"))
            .collect::<Vec<_>>()
    };
    let (told, calls) = tried(0);
    assert_eq!(told, "n2");
    let all = [
        "Before filter n0",
        "Before filter n1",
        "Before filter n2",
        "After filter n1",
        "After filter n2",
        "Fresh filter n2",
    ];
    assert_eq!(calls, asked(&all));
    let (told, calls) = tried(0);
    assert_eq!((&*told, calls), ("n2", asked(&["Fresh filter n2"])));
    // The same needs, and another pod.
    let (told, calls) = tried(16);
    let text = "0/3 nodes are available: 1 not this one, 2 too important.";
    assert_eq!(told, text);
    // Of the two others it comes first at one alone.
    assert_eq!(calls, asked(&["Fresh filter n2", "Fresh filter n1"]));
}
