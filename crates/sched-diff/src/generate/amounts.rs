//! Draws amounts of resources: usual ones, and those at the ends of what a quantity can say.

use serde_json::{Map, Value};

use super::swarm::Swarm;
use crate::draw::Draw;

/// Amounts of CPU and bytes that try the limits of parsing and rounding; sums of some hundreds of them fit into 64
/// bits.
pub const EXTREME: &[&str] = &[
    "0",
    "0m",
    "1n",
    "999999999n",
    "1u",
    "1500u",
    "1m",
    "1500m",
    "0.1",
    "0.0001",
    "1k",
    "1.5M",
    "1Ki",
    "1.5Ki",
    "0.3Gi",
    "2G",
    "1T",
    "1Ti",
    "0.001P",
    "0.001Pi",
    "0.000001E",
    "0.000001Ei",
    "1e3",
    "1E3",
    "25e-1",
    "1234567890123",
];

/// Amounts that don't fit, or whose sums and products don't.
pub const OVERFLOWING: &[&str] = &[
    "3P",
    "3Pi",
    "1E",
    "7Ei",
    "8Ei",
    "9e18",
    "1e30",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854775",
    "9223372036854776",
    "4611686018427387904",
];

/// Resources beside CPU, memory and ephemeral storage.
pub(super) const SCALARS: &[&str] = &[
    "example.com/gpu",
    "example.com/fpga",
    "other.org/nic",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "example.kubernetes.io/thing",
];

/// One of each sort of them.
pub(super) const USUAL_SCALARS: &[&str] = &[
    "example.com/gpu",
    "hugepages-2Mi",
    "example.kubernetes.io/thing",
];

const COUNTS: &[&str] = &["0", "1", "2", "3", "4", "8"];
const EXTREME_COUNTS: &[&str] = &["1k", "1e3", "2Ki", "0", "3000m", "1234567890"];
const OVERFLOWING_COUNTS: &[&str] = &["9223372036854775806", "9223372036854775807", "8Ei"];

/// Whose amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Of a container, or of a pod's overhead.
    Container,
    /// Of a node.
    Node,
}

/// An amount of the resource.
pub(super) fn amount(draw: &mut Draw, swarm: &Swarm, resource: &str, of: Of) -> String {
    let overflowing = draw.percent(swarm.overflowing);
    let extreme = draw.percent(swarm.extreme);
    let large = draw.percent(swarm.large);
    match (resource, of) {
        ("cpu" | "memory" | "ephemeral-storage", _) if overflowing => draw.word(OVERFLOWING),
        ("cpu" | "memory" | "ephemeral-storage", _) if extreme => draw.word(EXTREME),
        ("cpu", Of::Container) if large => draw.word(&["2", "3", "4500m", "8"]),
        ("cpu", Of::Container) => draw.word(&["50m", "100m", "250m", "0.5", "1", "1500m"]),
        ("cpu", Of::Node) => draw.word(&["1", "2", "3920m", "4", "8", "16", "32"]),
        ("memory", Of::Container) if large => draw.word(&["4Gi", "6000Mi", "9G", "16Gi"]),
        ("memory", Of::Container) => draw.word(&[
            "64Mi",
            "128974848",
            "129e6",
            "200Mi",
            "512Mi",
            "1Gi",
            "1500M",
        ]),
        ("memory", Of::Node) => draw.word(&["2Gi", "4Gi", "7800Mi", "16Gi", "32Gi", "128G"]),
        ("ephemeral-storage", Of::Container) => draw.word(&["100Mi", "1Gi", "5G"]),
        ("ephemeral-storage", Of::Node) => draw.word(&["1Gi", "10Gi", "100G"]),
        ("pods", _) if extreme => draw.word(&["0", "1", "1k", "9223372036854775807"]),
        ("pods", _) => draw.word(&["1", "2", "4", "5", "10", "20", "110", "110", "110"]),
        ("hugepages-2Mi", Of::Container) => draw.word(&["0", "2Mi", "4Mi", "8Mi", "64Mi"]),
        ("hugepages-2Mi", Of::Node) => draw.word(&["0", "4Mi", "32Mi", "64Mi", "1Gi"]),
        ("hugepages-1Gi", _) => draw.word(&["0", "1Gi", "2Gi", "4Gi"]),
        _ if overflowing => draw.word(OVERFLOWING_COUNTS),
        _ if extreme => draw.word(EXTREME_COUNTS),
        (_, Of::Container) => draw.word(&COUNTS[..4]),
        (_, Of::Node) => draw.word(COUNTS),
    }
}

/// What a container asks for.
pub(super) fn requests(draw: &mut Draw, swarm: &Swarm) -> Map<String, Value> {
    let mut list = Map::new();
    for resource in ["cpu", "memory"] {
        if !draw.percent(swarm.silent) {
            put(draw, swarm, &mut list, resource);
        }
    }
    if draw.percent(10) {
        put(draw, swarm, &mut list, "ephemeral-storage");
    }
    if draw.percent(swarm.scalars / 2) {
        let usual = draw.percent(60);
        let resource = if usual {
            swarm.scalar
        } else {
            *draw.one(SCALARS)
        };
        put(draw, swarm, &mut list, resource);
    }
    list
}

/// Adds an amount for a container.
pub(super) fn put(draw: &mut Draw, swarm: &Swarm, list: &mut Map<String, Value>, resource: &str) {
    let amount = amount(draw, swarm, resource, Of::Container);
    list.insert(resource.to_owned(), amount.into());
}

/// What a node has.
pub(super) fn allocatable(draw: &mut Draw, swarm: &Swarm) -> Map<String, Value> {
    let mut list = Map::new();
    let mut put = |draw: &mut Draw, resource: &str| {
        let amount = amount(draw, swarm, resource, Of::Node);
        list.insert(resource.to_owned(), amount.into());
    };
    for resource in ["cpu", "memory", "pods"] {
        if !draw.percent(2) {
            put(draw, resource);
        }
    }
    if draw.percent(70) {
        put(draw, "ephemeral-storage");
    }
    for resource in SCALARS {
        if draw.percent(swarm.scalars) {
            put(draw, resource);
        }
    }
    list
}
