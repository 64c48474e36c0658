//! Owns nodes, pods and a profile for property tests of what is kept about them: by number, so that few draws meet all
//! plugins.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use proptest::prelude::*;
use proptest::sample::select;

use crate::objects::Object;
use crate::plugin::PreFiltered;
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::status::{Status, Verdict};
use crate::table::{NodeView, Reads};
use crate::test_objects::{
    NeverBinds, NodeBuilder, PodBuilder, container, namespace, node, pod, pods_with, requirement,
    selecting, term,
};
use crate::test_plugins::Fake;

/// Nodes differ in so many ways.
pub(crate) const LOOKS: u8 = 36;
/// Pods are of so many classes.
const CLASSES: u8 = 16;
/// Pods differ in so many ways.
const NEEDS: u8 = CLASSES * 8;
/// A namespace of some pods that may be a team's.
const TEAM: &str = "team";

/// One of [`NEEDS`], some more often than others, so that something is known of them.
pub(crate) fn needs() -> BoxedStrategy<u8> {
    prop_oneof![2 => select(&[1, 2, 5, 7][..]), 1 => 0..NEEDS].boxed()
}

/// A node of one of [`LOOKS`].
pub(crate) fn drawn_node(name: u8, look: u8, cpu: u8) -> NodeBuilder {
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
    let node = match (look / 6) % 3 {
        0 => node,
        1 => node.image("web:1", 500 << 20),
        _ => node.image("web:1", 900 << 20),
    };
    if look < 18 {
        node
    } else {
        node.declares("UserNamespacesHostNetworkSupport")
    }
}

/// That namespace, labelled as a team's or not.
pub(crate) fn drawn_namespace(is_team: bool) -> Object {
    let labels: &[_] = if is_team { &[("team", "a")] } else { &[] };
    namespace(TEAM, labels)
}

/// Pods of teams, by disk.
fn of_teams() -> PodAffinityTerm {
    PodAffinityTerm {
        namespace_selector: Some(selecting(&[("team", "a")])),
        ..pods_with("disk", &[])
    }
}

/// A pod of one of [`NEEDS`]: of so many classes, with a priority or none, and with filters that it concerns or
/// doesn't.
pub(crate) fn drawn_pod(name: &str, needs: u8) -> PodBuilder {
    let pod = pod(name).scheduler("test");
    // It never moves to another one.
    let pod = if name.ends_with(['3', '7']) {
        pod.namespace(TEAM)
    } else {
        pod
    };
    let pod = match needs % CLASSES {
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
        10 => pod.near(pods_with("disk", &[])),
        11 => pod
            .prefers(3, pods_with("kubernetes.io/hostname", &[("early", "")]))
            .prefers(-5, pods_with("disk", &[("late", "")])),
        12 => spread(pod),
        13 => pod.prefers(-3, of_teams()),
        14 => pod.away_from(of_teams()),
        _ => pod.node_selector("kubernetes.io/hostname", "n1"),
    };
    let kind = needs / CLASSES;
    let pod = if kind & 1 == 0 { pod } else { pod.priority(10) };
    let pod = if kind & 2 == 0 {
        pod
    } else {
        pod.label("early", "")
    };
    if kind & 4 == 0 {
        pod
    } else {
        pod.label("late", "")
    }
}

/// Over disks, and over hosts if it can be, with pods that aren't late.
fn spread(pod: PodBuilder) -> PodBuilder {
    let constraint = |key: &str, when: &str| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: when.to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "late".to_owned(),
                operator: "DoesNotExist".to_owned(),
                values: None,
            }]),
        }),
        ..TopologySpreadConstraint::default()
    };
    let hosts = constraint("kubernetes.io/hostname", "ScheduleAnyway");
    let both = vec![constraint("disk", "DoNotSchedule"), hosts];
    pod.edit(|pod| {
        let spec = pod.spec.get_or_insert_default();
        spec.topology_spread_constraints = Some(both);
    })
}

/// A filter that concerns pods with the label of this name alone.
fn for_labelled(
    label: &'static str,
    reads: Reads,
    filter: impl Fn(NodeView<'_>) -> Verdict + Send + Sync + 'static,
) -> Arc<Fake> {
    let fake = Fake::new(label).set(|fake| {
        fake.reads = reads;
        fake.pre_filter = Box::new(move |pod: &PodInfo| {
            Ok(if pod.labels().contains_key(label) {
                PreFiltered::AllNodes
            } else {
                PreFiltered::Skip
            })
        });
        fake.filter = Box::new(move |_, node| filter(node));
    });
    Arc::new(fake)
}

/// The stock plugins, with filters before and after them that read anything, one after these that doesn't, and a score
/// that does.
pub(crate) fn drawn_profile() -> Arc<Profile> {
    let early = for_labelled("early", Reads::ANYTHING, |node| {
        let odd = node.name().as_str().ends_with(['1', '3', '5']);
        if odd && node.pods().len() % 2 == 1 {
            return Err(Status::unschedulable("an odd number of pods"));
        }
        Ok(())
    });
    let late = for_labelled("late", Reads::ANYTHING, |node| match node.pods().len() {
        0 => Ok(()),
        pods => Err(Status::unschedulable(format!("{pods} pods are enough"))),
    });
    let last = Fake::new("Last").set(|fake| {
        fake.reads = Reads::OBJECT;
        fake.filter = Box::new(|_, node| match node.labels().get("disk") {
            Some(disk) if disk == "hdd" => Err(Status::unresolvable("a slow disk")),
            _ => Ok(()),
        });
    });
    let score = Fake::new("Score").set(|fake| {
        fake.score = Box::new(|_, node| Ok((node.pods().len() as i64 * 30) % 100));
    });
    stock_profile("test", Arc::new(NeverBinds))
        .evicting_nobody()
        .mandatory_pre_filter(early.clone())
        .mandatory_filter(early)
        .pre_filter(late.clone())
        .filter(late)
        .filter(Arc::new(last))
        .score(Arc::new(score), 1)
        .refusing_unknown_constraints("this scheduler")
        .build()
        .unwrap()
}
