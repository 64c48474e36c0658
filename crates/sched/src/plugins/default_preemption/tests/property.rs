//! The plugin says what the naive one says, whatever the cluster: with filters that look at sums alone, at ports, at
//! the number of pods, and with states that follow pods: a plugin of the test's own, spreading, and anti-affinity.

use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use proptest::prelude::*;

use super::budget;
use super::naive::{Budget, Cluster};
use crate::context::Cycle;
use crate::cycle::{Diagnosis, NodeStatuses, Search, SearchSize, choose};
use crate::names::NodeName;
use crate::objects::Stored as _;
use crate::plugin::{Nomination, PostFilter as _, PreFiltered};
use crate::plugins::default_preemption::dry_run::{Extent, potential_nodes, search};
use crate::plugins::default_preemption::{DefaultPreemption, PreemptionArgs};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::status::Status;
use crate::test_objects::{NeverBinds, PodBuilder, node, pod, pods_with, selecting};
use crate::test_plugins::Fake;
use crate::tie::SeededTies;

fn from_the_first(enough: usize) -> Extent {
    Extent {
        offset: 0,
        enough,
        moves: usize::MAX,
    }
}

const NODES: usize = 4;
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a pod wants of pods of the kind `web`.
#[derive(Clone, Copy, Debug)]
enum Wish {
    /// None of them on its node.
    Away,
    /// To be spread over zones with them.
    Spread,
}

#[derive(Clone, Debug)]
struct Drawn {
    node: usize,
    priority: i32,
    cpu: u8,
    gpu: u8,
    port: Option<u8>,
    app: Option<bool>,
    started: Option<u8>,
    deleting: bool,
    wish: Option<Wish>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let needs = (
        0..4_u8,
        prop_oneof![4 => Just(0_u8), 1 => 1..3_u8],
        prop::option::weighted(0.2, 0..2_u8),
    );
    let looks = (
        prop::option::weighted(0.7, any::<bool>()),
        prop::option::weighted(0.8, 1..5_u8),
        prop::bool::weighted(0.1),
        prop_oneof![
            6 => Just(None),
            1 => Just(Some(Wish::Away)),
            1 => Just(Some(Wish::Spread)),
        ],
    );
    (0..NODES, -1..4_i32, needs, looks).prop_map(
        |(node, priority, (cpu, gpu, port), (app, started, deleting, wish))| Drawn {
            node,
            priority,
            cpu,
            gpu,
            port,
            app,
            started,
            deleting,
            wish,
        },
    )
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl Drawn {
    fn build(&self, name: &str) -> PodBuilder {
        let mut built = pod(name).priority(self.priority);
        for (resource, amount) in [("cpu", self.cpu), ("a.b/gpu", self.gpu)] {
            if amount > 0 {
                built = built.request(resource, &amount.to_string());
            }
        }
        if let Some(port) = self.port {
            built = built.host_port("", "TCP", 80 + i32::from(port));
        }
        if let Some(web) = self.app {
            built = built.label("app", if web { "web" } else { "db" });
        }
        if let Some(started) = self.started {
            built = built.started(started.into());
        }
        built = match self.wish {
            None => built,
            Some(Wish::Away) => built.away_from(pods_with(HOSTNAME, &[("app", "web")])),
            Some(Wish::Spread) => built.edit(|pod| {
                let spec = pod.spec.get_or_insert_default();
                spec.topology_spread_constraints = Some(vec![over_zones()]);
            }),
        };
        if self.deleting {
            built.deleting()
        } else {
            built
        }
    }
}

fn over_zones() -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "zone".to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(selecting(&[("app", "web")])),
        ..TopologySpreadConstraint::default()
    }
}

/// Says which pods it needs to know of: those with the label `crowd` bear no more than two others beside them, and it
/// counts by itself who comes and goes.
fn crowd() -> Arc<Fake> {
    let fake = Fake::new("Crowd").set(|fake| {
        fake.follows = true;
        fake.pre_filter = Box::new(|pod| {
            Ok(if pod.labels().contains_key("crowd") {
                PreFiltered::AllNodes
            } else {
                PreFiltered::Skip
            })
        });
        fake.filter = Box::new(|_, node| match node.pods().len() {
            0..3 => Ok(()),
            pods => Err(Status::unschedulable(format!("{pods} are a crowd"))),
        });
    });
    Arc::new(fake)
}

fn profile() -> Arc<Profile> {
    let crowd = crowd();
    let profile = stock_profile("test", Arc::new(NeverBinds));
    profile
        .pre_filter(crowd.clone())
        .filter(crowd)
        .build()
        .unwrap()
}

fn cluster() -> impl Strategy<Value = (Cluster, PreemptionArgs, u64)> {
    let nodes = prop::collection::vec(
        (2..6_u8, 2..6_u8, 0..3_u8, prop::bool::weighted(0.1)),
        NODES,
    );
    let pods = prop::collection::vec(drawn(), 0..14);
    let expected = prop::collection::vec(drawn(), 0..2);
    let budgets = prop::collection::vec((any::<bool>(), -1..3_i32), 0..3);
    let preemptor = (drawn(), any::<bool>());
    let args = prop_oneof![3 => Just((10, 100)), 1 => (0..100_i32, 1..3_i32)];
    let all = (
        nodes,
        pods,
        expected,
        budgets,
        preemptor,
        args,
        any::<u64>(),
    );
    all.prop_map(
        |(nodes, pods, expected, budgets, (preemptor, crowd), args, seed)| {
            let nodes = nodes
                .into_iter()
                .enumerate()
                .map(|(at, (cpu, pods, gpu, tainted))| {
                    let zone = if at % 2 == 0 { "a" } else { "b" };
                    let node = node(&name(at))
                        .label(HOSTNAME, &name(at))
                        .label("zone", zone);
                    let node = node.allocatable("cpu", &cpu.to_string());
                    let node = node.allocatable("pods", &pods.to_string());
                    let node = node.allocatable("a.b/gpu", &gpu.to_string());
                    if tainted {
                        node.taint("t", "", "NoSchedule")
                    } else {
                        node
                    }
                    .object()
                });
            // One that is going isn't counted by a spread, yet taken off the sum when it leaves: so it is in
            // kube-scheduler, and not in a cluster made anew.
            let uncounted = |other: &Drawn| {
                let spreads = matches!(preemptor.wish, Some(Wish::Spread));
                spreads && other.deleting && other.app == Some(true)
            };
            let all = pods.iter().filter(|pod| !uncounted(pod)).enumerate();
            let placed =
                all.map(|(at, drawn)| drawn.build(&format!("p{at}")).on(&name(drawn.node)).info());
            // Where no pod keeps the preemptor away, nobody asks those that are only expected: so it is in
            // kube-scheduler, too. If all that do are victims, that shows in a cluster made anew alone.
            let away = |pod: &Drawn| matches!(pod.wish, Some(Wish::Away));
            let seen = pods
                .iter()
                .any(|pod| away(pod) && !uncounted(pod) && pod.priority >= preemptor.priority);
            let expected = expected.iter().filter(|pod| seen || !away(pod)).enumerate();
            let expected = expected.map(|(at, drawn)| {
                let pod = drawn.build(&format!("e{at}")).info();
                (pod, NodeName::from(name(drawn.node)))
            });
            let budgets = budgets.iter().map(|(web, allowed)| Budget {
                app: if *web { "web" } else { "db" }.to_owned(),
                allowed: *allowed,
            });
            let built = preemptor.build("preemptor");
            let built = if crowd {
                built.label("crowd", "")
            } else {
                built
            };
            let cluster = Cluster {
                nodes: nodes.collect(),
                pods: placed.collect(),
                expected: expected.collect(),
                budgets: budgets.collect(),
                preemptor: built.info(),
            };
            (cluster, PreemptionArgs::new(args.0, args.1).unwrap(), seed)
        },
    )
}

/// Why each node is refused; `None` if one does.
fn refused(cluster: &Cluster, profile: &Profile) -> Option<NodeStatuses> {
    let mut table = cluster.table(cluster.pods.iter());
    let quiet = cluster.quiet();
    let how = Search {
        size: SearchSize::All,
        start: &mut 0,
        ties: &mut SeededTies::new(1),
        classes: &mut crate::classes::Classes::default(),
        is_offered: false,
        nominated_first: true,
        mishaps: &mut Vec::new(),
    };
    let mut cycle = Cycle::new(profile, &mut table, quiet.around());
    let found = choose(&mut cycle, &mut CycleState::new(), &cluster.preemptor, how);
    Some(found.err()?.cause.diagnosis().unwrap().statuses.clone())
}

/// The state as it is after `PreFilter`.
fn prepared(cycle: &Cycle<'_>, profile: &Profile, pod: &PodInfo) -> CycleState {
    let mut state = CycleState::new();
    for (at, plugin) in profile.pre_filters().iter().enumerate() {
        if plugin
            .pre_filter(&cycle.context(), &mut state, pod)
            .unwrap()
            == PreFiltered::Skip
        {
            state.skipped_pre_filters.insert(at);
            if let Some(filter) = profile.filter_of_pre_filter(at) {
                state.skipped_filters.insert(filter);
            }
        }
    }
    state
}

#[test]
fn one_that_breaks_no_budget_is_looked_for_beyond_the_number() {
    let on = |name: &str, node: &str| pod(name).on(node).request("cpu", "4");
    let nodes = ["n0", "n1", "n2"].map(|name| node(name).allocatable("cpu", "4").object());
    let cluster = |apps: [&str; 3]| Cluster {
        nodes: nodes.to_vec(),
        pods: vec![
            on("a", "n0").label("app", apps[0]).info(),
            on("b", "n1").label("app", apps[1]).info(),
            on("c", "n2").label("app", apps[2]).started(9).info(),
        ],
        expected: Vec::new(),
        budgets: Vec::new(),
        preemptor: pod("preemptor").request("cpu", "4").priority(1).info(),
    };
    let profile = profile();
    for (apps, enough, found) in [
        (["web", "web", "db"], 1, vec!["n2", "n0"]),
        (["db", "web", "db"], 1, vec!["n0"]),
        (["db", "web", "db"], 2, vec!["n0", "n1"]),
        (["web", "web", "web"], 1, vec!["n0"]),
    ] {
        let cluster = cluster(apps);
        let mut table = cluster.table(cluster.pods.iter());
        let mut quiet = cluster.quiet();
        let web = Arc::new(budget("web", 0));
        quiet.objects.apply(web.object()).unwrap();
        let mut cycle = Cycle::new(&profile, &mut table, quiet.around());
        let state = prepared(&cycle, &profile, &cluster.preemptor);
        let ids = cycle.context().nodes().ids().to_vec();
        let search = search(
            &mut cycle,
            &state,
            &cluster.preemptor,
            &ids,
            from_the_first(enough),
        );
        let names: Vec<_> = search
            .candidates
            .iter()
            .map(|it| it.node.as_str())
            .collect();
        assert_eq!(names, found, "{apps:?} {enough}");
    }
}

/// A share of few nodes may be none at all. What keeps the other nodes is told then, too.
#[test]
fn where_no_candidate_is_wanted_other_nodes_are_counted() {
    let on = |name: &str, node: &str, cpu: &str| pod(name).on(node).request("cpu", cpu);
    let nodes = ["n0", "n1"].map(|name| node(name).allocatable("cpu", "4").object());
    let cluster = Cluster {
        nodes: nodes.to_vec(),
        pods: vec![
            on("a", "n0", "4").info(),
            on("b", "n1", "1").info(),
            on("c", "n1", "3").priority(1).info(),
        ],
        expected: Vec::new(),
        budgets: Vec::new(),
        // With a port sums don't suffice, so that hopeless nodes are put aside.
        preemptor: pod("preemptor")
            .request("cpu", "4")
            .host_port("", "TCP", 80)
            .priority(1)
            .info(),
    };
    let profile = profile();
    let mut table = cluster.table(cluster.pods.iter());
    let quiet = cluster.quiet();
    let mut cycle = Cycle::new(&profile, &mut table, quiet.around());
    let state = prepared(&cycle, &profile, &cluster.preemptor);
    let ids = cycle.context().nodes().ids().to_vec();
    let found = search(
        &mut cycle,
        &state,
        &cluster.preemptor,
        &ids,
        from_the_first(0),
    );
    assert!(found.candidates.is_empty());
    let report = Diagnosis {
        statuses: found.statuses,
        ..Diagnosis::default()
    };
    let why = "0/2 nodes are available: 1 Insufficient cpu.";
    assert_eq!(report.to_string(), why);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn it_says_what_the_naive_one_says((cluster, args, seed) in cluster()) {
        let profile = profile();
        let Some(statuses) = refused(&cluster, &profile) else {
            return Ok(());
        };
        let mut table = cluster.table(cluster.pods.iter());
        let mut quiet = cluster.quiet();
        for (at, it) in cluster.budgets.iter().enumerate() {
            let mut object = budget(&it.app, it.allowed);
            object.metadata.name = Some(format!("b{at}"));
            quiet.objects.apply(Arc::new(object).object()).unwrap();
        }
        let mut cycle = Cycle::new(&profile, &mut table, quiet.around());
        let mut state = prepared(&cycle, &profile, &cluster.preemptor);

        let nodes = potential_nodes(&cycle.context(), &statuses);
        let all = cycle.context().nodes().names().cloned().collect::<Vec<_>>();
        let may_do = all.iter().filter(|node| {
            let fits = cluster.fits_without(&profile, node, &[]);
            matches!(fits, Err(Status::Rejected(why)) if why.resolvable())
        });
        let mut named: Vec<NodeName> = may_do.cloned().collect();
        let names = nodes.iter().map(|id| cycle.context().nodes().get(*id).unwrap().name().clone());
        prop_assert_eq!(names.collect::<Vec<_>>(), named.clone());

        // The offset is the next number of the same sequence.
        if !named.is_empty() {
            let offset = crate::tie::TieBreaker::pick(&mut SeededTies::new(seed), named.len());
            named.rotate_left(offset);
        }
        let expected = cluster.answer(&profile, &named, args.candidates(named.len()));

        let plugin = DefaultPreemption::new(args);
        let mut ties = SeededTies::new(seed);
        let said = plugin.post_filter(&mut cycle.with_ties(&mut ties), &mut state, &cluster.preemptor, &statuses);
        match expected {
            Ok((node, victims, _)) => {
                prop_assert_eq!(said.nomination, Nomination::Set(node.clone()));
                let id = cycle.context().nodes().id(&node).unwrap();
                let found = search(&mut cycle, &state, &cluster.preemptor, &[id], from_the_first(1));
                let found: Vec<_> = found.candidates[0].victims.iter().map(|pod| pod.key.name.to_string()).collect();
                prop_assert_eq!(&found, &victims);
                let evicted = state.take_effects().evict;
                let going = |victim: &&String| {
                    let pod = cluster.pods.iter().find(|pod| *pod.key.name == ***victim).unwrap();
                    !pod.deleting
                };
                let wanted: Vec<_> = victims.iter().filter(going).map(|name| crate::test_objects::uid(name)).collect();
                let evicted: Vec<_> = evicted.into_iter().flat_map(|eviction| eviction.victims).collect();
                prop_assert_eq!(evicted, wanted);
            }
            Err(why) => {
                prop_assert_eq!(said.verdict.unwrap_err().to_string(), format!("preemption: {why}"));
                prop_assert!(state.take_effects().is_empty());
            }
        }
        // The table is as it was.
        for node in cycle.context().nodes().iter() {
            let before = cluster.pods.iter().filter(|pod| pod.node_name.as_ref() == Some(node.name()));
            let before: Vec<_> = before.map(|pod| &pod.uid).collect();
            let now: Vec<_> = node.row().pods().iter().map(|pod| &pod.uid).collect();
            prop_assert_eq!(now, before);
        }
    }
}
