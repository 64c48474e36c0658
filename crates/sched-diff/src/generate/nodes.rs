//! Draws nodes: labels, taints, amounts, images, features.

use serde_json::{Map, Value, json};

use super::amounts::allocatable;
use super::swarm::Swarm;
use crate::draw::Draw;

/// Labels that nodes have and affinity asks for, with their values. Ranks are compared as numbers, if they are some.
pub(super) const LABELS: &[(&str, &[&str])] = &[
    ("disk", &["ssd", "hdd", ""]),
    (
        "rank",
        &[
            "1",
            "5",
            "10",
            "007",
            "3",
            "many",
            "9223372036854775807",
            "9223372036854775808",
        ],
    ),
    ("topology.kubernetes.io/zone", &["a", "b", "c"]),
    ("topology.kubernetes.io/region", &["r"]),
];

/// The label with a host's name.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The hostname of several nodes.
pub const SHARED_HOST: &str = "twin";
/// What comes before a node's name where that isn't its hostname.
pub const OTHER_HOST: &str = "host-";

/// Keys of taints.
pub(super) const TAINTS: &[&str] = &[
    "dedicated",
    "rank",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/not-ready",
];
/// Values of taints.
pub(super) const TAINT_VALUES: &[&str] = &["", "a", "b", "5", "10", "15"];
/// Effects of taints.
pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Names by which nodes know images; a line is one image.
pub(super) const IMAGES: &[&[&str]] = &[
    &[
        "registry.example/app:v1",
        "registry.example/app@sha256:1111",
    ],
    &["registry.example/web:latest"],
    &[
        "registry.example:5000/db:latest",
        "registry.example:5000/db:v2",
    ],
    &["plain:latest"],
    &["registry.example/tool@sha256:2222"],
];
const SIZES: &[i64] = &[
    0,
    1,
    1000,
    24_117_247,
    24_117_248,
    30_000_000,
    80_000_000,
    300_000_000,
    900_000_000,
    1_048_576_000,
    5_000_000_000,
];

/// Features that a node may declare; the last one is nobody's.
pub(super) const FEATURES: &[&str] = &[
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "InPlacePodLevelResourcesVerticalScaling",
    "ExtendWebSocketsToKubelet",
    "Unheard",
];

/// The node of this number.
pub(super) fn node(draw: &mut Draw, swarm: &Swarm, number: usize) -> Value {
    let name = format!("n{number}");
    let labels = labels(draw, &name);
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-{number}"), "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable(draw, swarm)},
    });
    taint(draw, swarm, &mut node);
    unschedulable(draw, swarm, &mut node);
    images(draw, swarm, &mut node);
    features(draw, swarm, &mut node);
    node
}

/// The labels of a node with this name.
pub(super) fn labels(draw: &mut Draw, name: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, values) in LABELS {
        if draw.percent(75) {
            labels.insert((*key).to_owned(), draw.word(values).into());
        }
    }
    let host = match draw.below(20) {
        0 => None,
        1 | 2 => Some(SHARED_HOST.to_owned()),
        3 => Some(format!("{OTHER_HOST}{name}")),
        _ => Some(name.to_owned()),
    };
    if let Some(host) = host {
        labels.insert(HOSTNAME.to_owned(), host.into());
    }
    labels
}

/// Gives the node other taints.
pub(super) fn taint(draw: &mut Draw, swarm: &Swarm, node: &mut Value) {
    let mut taints = Vec::new();
    if draw.percent(swarm.taints) {
        // Key and effect together are unique.
        let mut kinds = Vec::new();
        for key in TAINTS {
            kinds.extend(EFFECTS.iter().map(|effect| (*key, *effect)));
        }
        // Soft ones twice as often: hard ones end the matter.
        let soft = kinds
            .iter()
            .filter(|(_, effect)| *effect == "PreferNoSchedule");
        let mut kinds = soft.chain(&kinds).copied().collect::<Vec<_>>();
        draw.shuffle(&mut kinds);
        kinds.truncate(draw.within(1, 3));
        kinds.sort_unstable();
        kinds.dedup();
        for (key, effect) in kinds {
            let mut taint = json!({"key": key, "effect": effect});
            if draw.percent(70) {
                taint["value"] = draw.word(TAINT_VALUES).into();
            }
            taints.push(taint);
        }
    }
    node["spec"]["taints"] = taints.into();
}

/// Marks the node unschedulable, or takes the mark off.
pub(super) fn unschedulable(draw: &mut Draw, swarm: &Swarm, node: &mut Value) {
    if draw.percent(swarm.unschedulable) {
        node["spec"]["unschedulable"] = true.into();
    } else if let Some(spec) = node["spec"].as_object_mut() {
        spec.remove("unschedulable");
    }
}

/// Gives the node other images.
pub(super) fn images(draw: &mut Draw, swarm: &Swarm, node: &mut Value) {
    let mut images = Vec::new();
    for (at, names) in IMAGES.iter().enumerate() {
        if draw.percent(swarm.images) {
            let usual = SIZES[4 + at];
            let odd = draw.percent(swarm.odd_images);
            let size = if odd { *draw.one(SIZES) } else { usual };
            let names = draw.some(names, names.len());
            images.push(json!({"names": names, "sizeBytes": size}));
        }
    }
    node["status"]["images"] = images.into();
}

/// Has the node declare other features.
pub(super) fn features(draw: &mut Draw, swarm: &Swarm, node: &mut Value) {
    let mut declared = Vec::new();
    if draw.percent(swarm.features) {
        let count = draw.within(1, FEATURES.len());
        declared = draw.some(FEATURES, count);
        declared.sort_unstable();
    }
    node["status"]["declaredFeatures"] = declared.into();
}
