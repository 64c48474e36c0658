//! What is kept of a class says the same as asking everybody again, whatever happens in between.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;

use crate::classes::Classes;
use crate::context::Cycle;
use crate::cycle::{Cause, Chosen, Search, SearchSize, choose, evaluate};
use crate::interned::SharedParts;
use crate::names::NodeName;
use crate::node_object::NodeObject;
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::table::NodeTable;
use crate::test_objects::{NeverBinds, Quiet, container, node, pod, requirement, term};
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
    /// A pod looks for a node, and takes it.
    Try { needs: u8, seed: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let (name, needs) = (0..NODES, 0..22_u8);
    prop_oneof![
        2 => (name.clone(), 0..24_u8, 0..5_u8).prop_map(|(name, look, cpu)| Op::Node { name, look, cpu }),
        1 => name.clone().prop_map(|name| Op::Gone { name }),
        2 => (name.clone(), needs.clone()).prop_map(|(node, needs)| Op::Come { node, needs }),
        2 => name.clone().prop_map(|node| Op::Go { node }),
        1 => (name, needs.clone()).prop_map(|(node, needs)| Op::Expect { node, needs }),
        6 => (needs, any::<u8>()).prop_map(|(needs, seed)| Op::Try { needs, seed }),
    ]
}

fn object(name: u8, look: u8, cpu: u8) -> Arc<NodeObject> {
    let name = format!("n{name}");
    let node = node(&name).allocatable("cpu", &cpu.to_string());
    let node = node.allocatable("memory", "4Gi").allocatable("pods", "4");
    let node = node.label("kubernetes.io/hostname", &name);
    let node = match look % 6 {
        0 => node,
        1 => node.label("disk", "ssd"),
        2 => node
            .label("disk", "hdd")
            .taint("soft", "", "PreferNoSchedule"),
        3 => node.taint("hard", "", "NoSchedule"),
        4 => node.unschedulable(),
        _ => node.allocatable("memory", "4 apples"),
    };
    let node = if (look / 6).is_multiple_of(2) {
        node
    } else {
        node.image("docker.io/library/web:1", 500 << 20)
    };
    let node = if look < 12 {
        node
    } else {
        node.declares("UserNamespacesHostNetworkSupport")
    };
    node.object()
}

/// A pod of one of 22 classes.
fn asking(name: &str, needs: u8, known: &mut SharedParts) -> PodInfo {
    let pod = pod(name).scheduler("test");
    let pod = match needs % 11 {
        0 => pod,
        1 => pod.request("cpu", "1"),
        2 => pod.request("cpu", "2").tolerate("hard", "Exists", "", ""),
        3 => pod.node_selector("disk", "ssd"),
        4 => pod.request("memory", "3Gi").tolerate("", "Exists", "", ""),
        5 => pod.preferred_node(7, term(&[requirement("disk", "In", &["hdd"])], &[])),
        6 => pod.host_port("", "TCP", 80),
        7 => pod.edit(|pod| {
            let mut web = container("web", &[]);
            web.image = Some("web:1".to_owned());
            pod.spec.get_or_insert_default().containers.push(web);
        }),
        8 => pod.edit(|pod| {
            let spec = pod.spec.get_or_insert_default();
            spec.host_network = Some(true);
            spec.host_users = Some(false);
        }),
        // It closes the nodes with its disk to all.
        9 => pod.anti_affinity("disk", LabelSelector::default()),
        _ => pod.node_selector("kubernetes.io/hostname", "n1"),
    };
    let pod = if needs < 11 { pod } else { pod.priority(10) };
    let mut info = PodInfo::parse(pod.object()).unwrap();
    known.share(&mut info);
    info
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
            profile: stock_profile("test", Arc::new(NeverBinds))
                .refusing_unknown_constraints("this scheduler")
                .build()
                .unwrap(),
            table: NodeTable::default(),
            quiet: Quiet::default(),
            classes: Classes::default(),
            known: SharedParts::default(),
            pods: 0,
        }
    }

    fn pod(&mut self, needs: u8) -> Arc<PodInfo> {
        self.pods += 1;
        Arc::new(asking(&format!("p{}", self.pods), needs, &mut self.known))
    }

    fn happen(&mut self, op: &Op) {
        let named = |name: u8| NodeName::from(format!("n{name}"));
        match *op {
            Op::Node { name, look, cpu } => {
                self.table.set_node(object(name, look, cpu));
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
            Op::Try { needs, seed } => self.compare(needs, seed),
        }
    }

    fn compare(&mut self, needs: u8, seed: u8) {
        let pod = self.pod(needs);
        let mut cycle = Cycle::new(&self.profile, &mut self.table, self.quiet.around());
        let asked = evaluate(&mut cycle, &mut CycleState::new(), &pod).unwrap();
        let how = Search {
            size: SearchSize::Percentage(100),
            start: &mut 0,
            ties: &mut SeededTies::new(seed.into()),
            classes: &mut self.classes,
            is_offered: false,
            nominated_first: true,
            mishaps: &mut Vec::new(),
        };
        match choose(&mut cycle, &mut CycleState::new(), &pod, how).map(Chosen::node) {
            Ok(choice) => {
                assert_eq!(choice.feasible, asked.feasible.len());
                let best = &asked.feasible[0];
                let chosen = asked.feasible.iter().find(|node| node.node == choice.node);
                assert_eq!(chosen.map(|node| node.total), Some(best.total), "{asked:?}");
                let id = self.table.id(&choice.node).unwrap();
                self.table.add_pod(id, pod);
            }
            Err(no) => {
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
        }
    }
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
fn the_stock_profile_keeps_its_answers() {
    let mut world = World::new();
    for name in 0..3 {
        world.happen(&Op::Node {
            name,
            look: 0,
            cpu: 3,
        });
    }
    let pod = world.pod(0);
    let cycle = Cycle::new(&world.profile, &mut world.table, world.quiet.around());
    let mut state = CycleState::new();
    assert!(super::super::search::prepare(&cycle.context(), &mut state, &pod).is_ok());
    assert!(super::is_possible(&world.profile, &state, &pod));
}
